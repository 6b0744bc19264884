"""SG-05: every way to end is reported exactly."""
from escape.harness import escaped

TITLE = 'exit codes and deaths by signal'
TRIED = ("39 exit codes between 0 and 255, each of the 60 signals that do not stop a process, a main thread "
         "that leaves first, a sibling with another status")
WALLS = ['timeout']
END = r"""
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sched.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>
static void *later(void *arg) { usleep(20000); _exit(8); return arg; }
int main(int argc, char **argv)
{
    int n = atoi(argv[2]);
    pthread_t id;
    if (strcmp(argv[1], "exit") == 0)
        _exit(n);
    if (strcmp(argv[1], "thread") == 0) {
        pthread_create(&id, NULL, later, NULL);
        syscall(SYS_exit, 0);
    }
    if (strcmp(argv[1], "sibling") == 0)
        _exit(syscall(SYS_clone, CLONE_PARENT | SIGCHLD, 0, 0, 0, 0) == 0 ? 77 : 3);
    unsigned long plain[4] = {0};
    syscall(SYS_rt_sigaction, n, plain, 0, 8);
    syscall(SYS_kill, getpid(), n);
    _exit(99);
}
"""
CODES = [*range(12), 37, *range(62, 68), 70, 99, *range(123, 132), 137, 139, 143, 159, 192, 200, 253, 254, 255]
IGNORED = {17, 18, 23, 28}
STOPPING = {19, 20, 21, 22}


def ended(box, *args):
    done = box.run([box.c(END), *args], flags=['--cpu-time', '20s'])
    return done.verdict, done.code, done.signal, done.status


def attack(box):
    wrong = {}
    for code in CODES:
        told = ended(box, 'exit', code)
        if told != ('ok' if code == 0 else 'nonzero', code, None, code):
            wrong[f'exit {code}'] = told
    for number in sorted(set(range(1, 65)) - STOPPING):
        told = ended(box, 'signal', number)
        right = ('nonzero', 99, None, 99) if number in IGNORED else ('signal', None, number, 128 + number)
        if number == 31:  # what the filter would send
            right = ('denied', None, 31, 159)
        if told != right:
            wrong[f'signal {number}'] = told
    for name, code in (('thread', 8), ('sibling', 3)):
        if ended(box, name, 0)[1] != code:
            wrong[name] = ended(box, name, 0)
    if wrong:
        escaped('CRASH', f'told wrongly: {dict(list(wrong.items())[:4])}')
    return f'{len(CODES)} codes and 60 signals told exactly'


def control(box):
    """A bare exit status cannot tell these apart; the result does."""
    own, killed = ended(box, 'exit', 137), ended(box, 'signal', 9)
    assert own[3] == killed[3] == 137 and own[:3] != killed[:3], (own, killed)
    spent = box.sh('while :; do :; done', flags=['--cpu-time', '1s'])
    assert (spent.verdict, spent.json['limit']) == ('timeout', 'cpu-time'), spent
    return 'exit 137 and SIGKILL have one status and two results; CPU time that is used up is no plain SIGXCPU'
