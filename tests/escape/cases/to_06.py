"""TO-06: the host's clock jumps while a run is timed."""
import datetime
import json

from escape.harness import escaped

TITLE = "clock that jumps an hour"
TRIED = ("coto's own CLOCK_REALTIME, gettimeofday and time moved by an hour forth and back 100 ms after it "
         "first looked")
WALLS = ["timeout"]
# jump SECONDS PROGRAM...: traces the program's main process, hides the vDSO from it so that it
# has to ask the kernel for the time, and moves the wall clock's answers from 100 ms after the first.
# The host's clock itself is left alone: others live by it.
JUMP = r"""
#define _GNU_SOURCE
#include <elf.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static pid_t child;
static struct timespec began; /* when it was first told the time */

static int is_time(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    if (!began.tv_sec)
        began = now;
    return (now.tv_sec - began.tv_sec) * 1000 + (now.tv_nsec - began.tv_nsec) / 1000000 >= 100;
}

/* The vector of a new program lies above its arguments and environment. */
static void hide_vdso(void)
{
    struct user_regs_struct regs;
    ptrace(PTRACE_GETREGS, child, 0, &regs);
    uint64_t at = regs.rsp + 8 * (ptrace(PTRACE_PEEKDATA, child, regs.rsp, 0) + 2);
    while (ptrace(PTRACE_PEEKDATA, child, at, 0))
        at += 8;
    for (at += 8; ptrace(PTRACE_PEEKDATA, child, at, 0) != AT_NULL; at += 16)
        if (ptrace(PTRACE_PEEKDATA, child, at, 0) == AT_SYSINFO_EHDR)
            ptrace(PTRACE_POKEDATA, child, at, AT_IGNORE);
}

static void shift(long seconds, int at_once)
{
    struct user_regs_struct regs;
    ptrace(PTRACE_GETREGS, child, 0, &regs);
    uint64_t where = 0;
    if (regs.orig_rax == SYS_clock_gettime && (regs.rdi == CLOCK_REALTIME || regs.rdi == CLOCK_REALTIME_COARSE))
        where = regs.rsi;
    if (regs.orig_rax == SYS_gettimeofday)
        where = regs.rdi;
    if ((!where && regs.orig_rax != SYS_time) || (!is_time() && !at_once))
        return;
    if (where)
        ptrace(PTRACE_POKEDATA, child, where, ptrace(PTRACE_PEEKDATA, child, where, 0) + seconds);
    if (regs.orig_rax == SYS_time) {
        regs.rax += seconds;
        ptrace(PTRACE_SETREGS, child, 0, &regs);
    }
}

int main(int argc, char **argv)
{
    int status, leaving = 0;

    child = fork();
    if (child == 0) {
        ptrace(PTRACE_TRACEME, 0, 0, 0);
        execv(argv[2], argv + 2);
        _exit(127);
    }
    waitpid(child, &status, 0);
    hide_vdso();
    ptrace(PTRACE_SETOPTIONS, child, 0, PTRACE_O_TRACESYSGOOD | PTRACE_O_EXITKILL);
    for (int signo = 0;;) {
        if (ptrace(PTRACE_SYSCALL, child, 0, signo) || waitpid(child, &status, 0) != child)
            return 120;
        if (!WIFSTOPPED(status))
            return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
        signo = WSTOPSIG(status);
        if (signo != (SIGTRAP | 0x80))
            continue;
        signo = 0;
        leaving = !leaving;
        if (!leaving)
            shift(atol(argv[1] + 1) * (argv[1][0] == '-' ? -1 : 1), argv[1][0] == '=');
    }
}
"""
# A supervisor of the kind that must not exist: its deadline is on the wall clock.
NAIVE = r"""
#include <stdio.h>
#include <time.h>
#include <unistd.h>
int main(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    long end = now.tv_sec + 60;
    for (int i = 0; i < 40; i++, usleep(10000)) {
        clock_gettime(CLOCK_REALTIME, &now);
        if (now.tv_sec >= end)
            return printf("timed out\n"), 124;
    }
    return printf("in time\n"), 7;
}
"""


def jumped(box, how, argv, env=None):
    return box.start_and_wait([box.c(JUMP), how, *argv], env=env, timeout=60)


def timed(box, how, limit, seconds):
    """coto's result for a sleep, with a clock that jumps."""
    argv, env = box.command(["sh", "-c", f"sleep {seconds}; exit 7"], flags=["--json", "--timeout", limit])
    result = json.loads(jumped(box, how, argv[len(box.prefix):], env).out)
    return result["verdict"], result["duration_ms"], result["started_at"]


def attack(box):
    for how in ("+3600", "-3600"):
        verdict, took, _ = timed(box, how, "5s", 0.5)
        if verdict != "nonzero" or not 400 < took < 5000:
            escaped("CRASH", f"{how}: {verdict} after {took} ms, not its own end")
        verdict, took, _ = timed(box, how, "600ms", 20)
        if verdict != "timeout" or not 500 < took < 5000:
            escaped("CRASH", f"{how}: {verdict} after {took} ms, not the limit")
    # The jump is real: moved from the beginning, it shows in the one place that tells the date.
    started = datetime.datetime.fromisoformat(timed(box, "=3600", "5s", 0)[2].replace("Z", "+00:00"))
    ahead = (started - datetime.datetime.now(datetime.timezone.utc)).total_seconds()
    assert 3000 < ahead < 4000, f"the clock was not moved: {ahead}"
    return "limits and durations as before; only started_at moves"


def control(box):
    program = box.c(NAIVE)
    done = jumped(box, "+3600", [program])
    assert (done.status, done.out) == (124, b"timed out\n"), done
    assert box.start_and_wait([program]).status == 7
    return "a deadline on the wall clock is met at once"
