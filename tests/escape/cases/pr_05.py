"""PR-05: processes that never keep their pid must still die with the run."""
import os
import time

from cli.helpers import descendants
from escape.harness import escaped

TITLE = 'comets: fork, exec, new pid, no end'
TRIED = ('chains in which each process forks its successor (in a new session, after an execve) and ends, '
         'against a timeout of 300 ms and against the end of the program')
WALLS = ['pid_namespace', 'timeout']
COMET = r"""
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>
/* comet END COUNT WAIT LIFE: COUNT chains until the clock shows END, a new process every
 * LIFE microseconds; the first process waits. */
int main(int argc, char **argv)
{
    time_t end = atol(argv[1]);
    int count = atoi(argv[2]);
    for (int i = 0; i < count; i++)
        if (fork() == 0) {
            char *next[] = {argv[0], argv[1], "1", "0", argv[4], NULL};
            setsid();
            for (int fd = 0; fd < 3; fd++)
                close(fd);
            signal(SIGTERM, SIG_IGN);
            while (time(NULL) < end) {
                usleep(atoi(argv[4]));
                if (fork() > 0)
                    _exit(0);
                if (rand() % 4 == 0)
                    execv(argv[0], next);
            }
            _exit(0);
        }
    if (atoi(argv[3]))
        sleep(20);
    return 0;
}
"""
LIVE = 3  # seconds, after which every chain ends by itself


def start(box, wait, life, **more):
    end = int(time.time()) + LIVE
    return box.run([box.c(COMET), end, 8, wait, life], flags=['--timeout', '300ms'] if wait == '1' else [], **more)


def seen():
    """Processes of the chains: in several looks, because one can miss what changes that fast."""
    found = {}
    for _ in range(15):
        found.update({pid: name for pid, (_, name, state) in descendants(os.getpid()).items()
                      if name.startswith('probe') and state != 'Z'})
        time.sleep(0.01)
    return found


def attack(box):
    for wait, verdict in (('1', 'timeout'), ('0', 'ok')):
        done = start(box, wait, 2000)
        left = seen()
        if left:
            escaped('ESCAPE', f'still running: {left}')
        assert done.verdict == verdict, done
    return 'timeout and end of the program: no chain left'


def control(box):
    start(box, '0', 20000, without=['kill_all', 'pid_namespace', 'cgroup'])
    left = seen()
    while seen():  # they end by themselves
        time.sleep(0.1)
    assert left, 'nothing survived'
    return f'{len(left)} processes outlived the run'
