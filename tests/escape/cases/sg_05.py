"""SG-05: every way to end is reported exactly."""
import concurrent.futures

from escape.harness import escaped

TITLE = 'exit codes and deaths by signal'
TRIED = ("all exit codes from 0 to 255, each of the 60 signals that do not stop a process, a main thread that leaves first, "
         "a sibling with another status")
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
CODES = range(256)
AT_ONCE = 4
IGNORED = {17, 18, 23, 28}
STOPPING = {19, 20, 21, 22}


def ended(box, *args):
    done = box.run([box.c(END), *args], flags=['--cpu-time', '20s'])
    return done.verdict, done.code, done.signal, done.status


def right_answers():
    """(how, number) -> verdict, code, signal, status."""
    for code in CODES:
        yield ('exit', code), ('ok' if code == 0 else 'nonzero', code, None, code)
    for number in sorted(set(range(1, 65)) - STOPPING):
        plain = ('nonzero', 99, None, 99) if number in IGNORED else ('signal', None, number, 128 + number)
        # 31 is what the filter would send.
        yield ('signal', number), ('denied', None, 31, 159) if number == 31 else plain
    yield ('thread', 0), ('nonzero', 8, None, 8)
    yield ('sibling', 0), ('nonzero', 3, None, 3)


def attack(box):
    box.c(END)
    right = dict(right_answers())
    with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
        told = dict(zip(right, pool.map(lambda how: ended(box, *how), right)))
    wrong = {how: told[how] for how in right if told[how] != right[how]}
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
