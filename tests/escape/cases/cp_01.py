"""CP-01: use more CPU time than allowed, by threads, processes and bursts; or have the kernel use it.

What is written to a pseudo-terminal is worked on by threads of the kernel, in no cgroup: with nobody who reads, one
cheap write buys any amount of their time. So a program has none unless --ptys says how many, as the control does."""
import os
import pathlib
import time

from escape.harness import Untestable, escaped
from escape.lib_files import TRY
from escape.lib_hogs import need_limit

TITLE = "CPU rate"
TRIED = ("eight processes burn for 1.2 s with half a CPU and with a tenth allowed; a chain of "
         "short-lived children does the same; 16 pseudo-terminals flooded for 0.8 s with a tenth, by six ways to get one")
WALLS = ["cpus"]
CONTROL = "option"
WAYS = {
    "processes": "for n in range(3): os.fork()\nwhile time.monotonic() < end: pass",
    "short lives": ("while time.monotonic() < end:\n    pid = os.fork()\n    if pid == 0:\n"
                    "        stop = time.monotonic() + 0.005\n        while time.monotonic() < stop: pass\n"
                    "        os._exit(0)\n"
                    "    os.waitpid(pid, 0)"),
}

FLOOD = r"""
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>
static double now(void) { struct timespec t; clock_gettime(CLOCK_MONOTONIC, &t); return t.tv_sec + t.tv_nsec / 1e9; }
static int new_terminal(void) {
    static const char *const names[] = {"/dev/ptmx", "/dev/pts/ptmx", "/dev/tty", "/dev/console", "/tmp/m/ptmx"};
    mkdir("/tmp/m", 0700);
    mount("x", "/tmp/m", "devpts", 0, "newinstance,ptmxmode=0666");
    int fd = posix_openpt(O_RDWR | O_NOCTTY | O_NONBLOCK);
    for (int i = 0; i < 5 && fd < 0; i++) fd = open(names[i], O_RDWR | O_NOCTTY | O_NONBLOCK);
    return fd;
}
int main(void) {
    static char tabs[4096];
    int masters[16], count = 0, zero = 0;
    long written = 0;
    double end = now() + 0.8;
    struct termios mode;
    memset(tabs, '\t', sizeof tabs);
    while (now() < end) {
        int fd = count < 16 ? new_terminal() : -1;
        if (fd >= 0) {
            ioctl(fd, TIOCSPTLCK, &zero);
            int slave = ioctl(fd, TIOCGPTPEER, O_RDWR | O_NOCTTY);
            if (slave >= 0 && tcgetattr(slave, &mode) == 0) {
                mode.c_lflag |= ICANON | ECHO | ECHOE | ECHOK | ECHOCTL | IEXTEN;
                mode.c_iflag = IUTF8;
                tcsetattr(slave, TCSANOW, &mode);
            }
            masters[count++] = fd;
            continue;
        }
        for (int i = 0; i < count; i++)
            for (long n; (n = write(masters[i], tabs, sizeof tabs)) > 0;) written += n;
        usleep(1000);
    }
    printf("[%d, %ld]\n", count, written);
}
"""


def of_kernel_threads():
    """CPU time of each, in seconds; they are children of kthreadd."""
    times = {}
    for stat in pathlib.Path("/proc").glob("[0-9]*/stat"):
        try:
            words = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if words[1] == "2":
            times[stat.parent.name] = (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")
    if not times:
        raise Untestable("no kernel threads in this /proc")
    return times


def flooded(box, flags=()):
    """(terminals made, bytes written, CPUs that kernel threads used meanwhile)."""
    before, began = of_kernel_threads(), time.monotonic()
    result = box.run([box.c(FLOOD)], flags=["--cpus", 0.1, *flags])
    seconds = time.monotonic() - began
    used = sum(max(0, now - before.get(pid, 0)) for pid, now in of_kernel_threads().items())
    return *result.told(), used / seconds


def attack_by_terminals(box):
    count, written, used = flooded(box)
    for _ in range(3):  # others use this machine's kernel too
        if used < 0.3 or count:
            break
        count, written, used = flooded(box)
    if count or used >= 0.3:
        escaped("CRASH", f"{count} terminals, {written} bytes: {used:.2f} CPUs of kernel threads with 0.1 allowed")
    return f"no terminal, kernel threads {used:.2f}"


def control_by_terminals(box):
    """The kernel threads of a machine that others keep busy get less."""
    best = 0
    for _ in range(5):
        count, written, used = flooded(box, ["--ptys", 16])
        assert count == 16 and written > 100_000, (count, written)
        best = max(best, used)
        if best > 0.4:
            return f"{best:.2f} CPUs of kernel threads with 16 terminals and 0.1 allowed"
    raise AssertionError(f"{best:.2f} CPUs of kernel threads")


def share(box, work, cpus):
    """CPUs used, as counted by the kernel, over the time the program ran."""
    code = f"{TRY}\nend = time.monotonic() + 1.2\n{work}"
    result = box.python(code, flags=["--cpus", cpus, "--cpu-time", "60s"])
    used = result.json["cpu_ms"]
    return (used["user"] + used["system"]) / result.json["duration_ms"]


def attack(box):
    words = [attack_by_terminals(box)]
    need_limit(box, "cpus", "--cpus", "0.1")
    for name, cpus in (("processes", 0.5), ("short lives", 0.5), ("processes", 0.1)):
        used = share(box, WAYS[name], cpus)
        # The kernel hands time out in slices of 5 ms per CPU.
        if used > cpus + 0.05:
            escaped("CRASH", f"{name}: {used:.2f} CPUs with {cpus} allowed")
        words.append(f"{name} {used:.2f} of {cpus}")
    return ", ".join(words)


def control(box):
    flood = control_by_terminals(box)
    need_limit(box, "cpus", "--cpus", "0.1")
    best = 0
    for _ in range(5):  # others use this machine too
        best = max(best, share(box, WAYS["processes"], 2))
        if best > 0.2:
            return f"{best:.2f} CPUs with 2 allowed; {flood}"
    raise AssertionError(f"{best:.2f} CPUs with 2 allowed")
