"""PR-04: a storm of short processes must not load the supervisor."""
import os

from cli.helpers import SLOW, read
from escape.harness import escaped

TITLE = 'storm of short processes'
TRIED = ('vfork and exec of a tiny program as fast as it goes for 1.5 s; CPU time of the supervisor and of '
         'init meanwhile')
WALLS = ['pids']
STORM = r"""
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
int main(int argc, char **argv)
{
    struct timespec now;
    long made = 0;
    if (argc > 1)
        return 0;
    clock_gettime(CLOCK_MONOTONIC, &now);
    double end = now.tv_sec + now.tv_nsec / 1e9 + 1.5;
    while (now.tv_sec + now.tv_nsec / 1e9 < end) {
        pid_t pid = vfork();
        if (pid == 0) {
            execl(argv[0], argv[0], "x", NULL);
            _exit(1);
        }
        if (pid < 0)
            return 2;
        waitpid(pid, NULL, 0);
        made++;
        clock_gettime(CLOCK_MONOTONIC, &now);
    }
    printf("ready\n%ld\n", made);
    fflush(stdout);
    getchar();
    return 0;
}
"""
LIMIT = 0.05 * SLOW  # seconds of CPU: 3 % of the storm
# The measure itself: this one makes the supervisor work.
NOISE = ("import fcntl, os, sys\nfcntl.fcntl(2, fcntl.F_SETFL, os.O_WRONLY | os.O_DIRECT)\n"
         "for n in range(150000): os.write(2, b'x')\n"
         "os.write(1, b'ready\\n0\\n')\nsys.stdin.readline()")


def seconds(pid):
    return int(read(f'/proc/{pid}/schedstat').split()[0]) / 1e9


def cpu(box, what, **more):
    """(processes made, CPU seconds of the supervisor, of init)."""
    with box.running(what, ready=False, **more) as it:
        assert it.line(60) == 'ready'
        return int(it.line()), seconds(it.process.pid), seconds(it.init())


def attack(box):
    made, supervisor, init = cpu(box, [box.c(STORM)])
    if supervisor > LIMIT:
        escaped('CRASH', f'the supervisor used {supervisor:.2f} s for {made} processes')
    return f'{made} processes; supervisor {supervisor:.2f} s, init {init:.2f} s of CPU'


def control(box):
    with open(os.devnull, 'wb') as nowhere:
        _, supervisor, _ = cpu(box, NOISE, stderr=nowhere)
    assert supervisor > LIMIT, supervisor
    return f'150000 packets of output cost the supervisor {supervisor:.2f} s: the measure works'
