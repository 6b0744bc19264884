"""PR-04: a storm of short processes must not load the supervisor."""
import os

from cli.helpers import read
from escape.harness import escaped

TITLE = 'storm of short processes'
TRIED = ('vfork and exec of a tiny program for 5 s, in two processes, as fast as it goes (2000 a second and more on an idle '
         'machine); CPU time of the supervisor and of init meanwhile')
WALLS = ['pids']
STORM = r"""
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
int main(int argc, char **argv)
{
    struct timespec now;
    long *made = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (argc > 1)
        return 0;
    clock_gettime(CLOCK_MONOTONIC, &now);
    double end = now.tv_sec + now.tv_nsec / 1e9 + 5;
    pid_t other = fork();
    while (now.tv_sec + now.tv_nsec / 1e9 < end) {
        pid_t pid = vfork();
        if (pid == 0) {
            execl(argv[0], argv[0], "x", NULL);
            _exit(1);
        }
        if (pid < 0)
            return 2;
        waitpid(pid, NULL, 0);
        __atomic_add_fetch(made, 1, __ATOMIC_RELAXED);
        clock_gettime(CLOCK_MONOTONIC, &now);
    }
    if (other == 0)
        _exit(0);
    waitpid(other, NULL, 0);
    printf("ready\n%ld\n", *made);
    fflush(stdout);
    getchar();
    return 0;
}
"""
SECONDS, RATE = 5, 2000
LIMIT = 0.1 * SECONDS  # seconds of CPU: the row's 10 %
# The measure itself: this one makes the supervisor work, a packet at a time.
NOISE = r"""
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>
int main(void)
{
    fcntl(2, F_SETFL, O_WRONLY | O_DIRECT);
    for (int n = 0; n < 1500000; n++)
        write(2, "x", 1);
    puts("ready\n0");
    fflush(stdout);
    getchar();
    return 0;
}
"""


def seconds(pid):
    return int(read(f'/proc/{pid}/schedstat').split()[0]) / 1e9


def cpu(box, what, **more):
    """(processes made, CPU seconds of the supervisor, of init)."""
    with box.running(what, ready=False, **more) as it:
        assert it.line(60) == 'ready'
        return int(it.line()), seconds(it.process.pid), seconds(it.init())


def busy():
    """How many CPUs worth of others there are, about."""
    return os.getloadavg()[0] / len(os.sched_getaffinity(0))


def attack(box):
    made, supervisor, init = cpu(box, [box.c(STORM)])
    if supervisor > LIMIT:
        escaped('CRASH', f'the supervisor used {supervisor:.2f} s for {made} processes')
    if init > LIMIT:
        escaped('CRASH', f'init used {init:.2f} s for {made} processes')
    rate = made // SECONDS
    # The storm needs the machine for itself; where others have it, or a kernel in between, it is what it is.
    assert rate >= RATE or box.level or busy() > 1, f'only {rate} processes a second'
    return f'{rate} processes a second; supervisor {100 * supervisor / SECONDS:.1f} %, init {100 * init / SECONDS:.1f} % of a CPU'


def control(box):
    with open(os.devnull, 'wb') as nowhere:
        _, supervisor, _ = cpu(box, [box.c(NOISE)], flags=['-q'], stderr=nowhere)
    assert supervisor > LIMIT, supervisor
    return f'1 500 000 packets of output cost the supervisor {supervisor:.2f} s: the measure works'
