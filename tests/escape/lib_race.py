"""Races: a sandbox that swaps two names in a directory of the host as fast as it can."""
import contextlib
import time

# swap A B MILLISECONDS: exchanges the two names; prints how often, and in how many milliseconds.
SWAP = r"""
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
static long now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000 + t.tv_nsec / 1000000;
}
int main(int argc, char **argv)
{
    long count = 0, began = now(), end = began + atol(argv[3]);
    puts("ready");
    fflush(stdout);
    while (now() < end && access("/swap/stop", F_OK))
        for (int i = 0; i < 64; i++)
            count += syscall(316 /* renameat2 */, AT_FDCWD, argv[1], AT_FDCWD, argv[2], 2) == 0;
    printf("%ld %ld\n", count, now() - began);
    return count == 0;
}
"""
LONGEST_MS = 20000


class Swap:
    rate = 0  # swaps in a second of wall time, once it has ended


@contextlib.contextmanager
def swapping(box, folder, one, other):
    """`one` and `other` of a host directory change places while the block runs."""
    stop = folder / "stop"
    program = box.c(SWAP)
    swap = Swap()
    with box.running([program, f"/swap/{one}", f"/swap/{other}", LONGEST_MS],
                     flags=["--mount", f"{folder}:/swap:rw"]) as running:
        try:
            yield swap
        finally:
            stop.touch()
            done = running.end()
            stop.unlink()
    assert done.status == 0, done
    count, milliseconds = map(int, done.out.split())
    swap.rate = count * 1000 // max(1, milliseconds)


def for_seconds(seconds=0.5, least=3):
    """Counts up until the time is over, and has gone round a few times on a busy machine."""
    end = time.monotonic() + seconds
    count = 0
    while count < least or time.monotonic() < end:
        yield count
        count += 1
