"""DI-02: use up inodes, and make the removal of a sandbox take long."""
from cli.helpers import SLOW
from escape.harness import escaped

TITLE = "inodes"
TRIED = ("empty files, directories, links, FIFOs and sockets until refused in each writable "
         "place; then the time the end takes")
WALLS = ["inodes"]
CONTROL = "option"
MANY = r"""
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* One file of each kind in turn until the place takes no more; how many. */
static long many(const char *place)
{
    char path[256];
    long made = 0;

    for (;; made++) {
        snprintf(path, sizeof path, "%s/%08ld", place, made);
        int failed = made % 5 == 0   ? mkdir(path, 0700)
                     : made % 5 == 1 ? symlink("x", path)
                     : made % 5 == 2 ? mkfifo(path, 0600)
                     : made % 5 == 3 ? mknod(path, S_IFSOCK | 0600, 0)
                                     : close(open(path, O_CREAT | O_WRONLY, 0600));
        if (failed)
            return made;
    }
}

int main(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        long made = many(argv[i]);
        printf("%ld %s ", made, strerror(errno));
    }
    return 0;
}
"""
PLACES = ["/workspace/output", "/tmp", "/dev/shm"]


def made(box, inodes):
    result = box.run([box.c(MANY), *PLACES], flags=["--inodes", inodes], timeout=120)
    words = result.text.replace("No space left on device", "ENOSPC").replace("Bad file descriptor", "ENOSPC").split()
    assert len(words) == 6, result
    return [int(word) for word in words[::2]], set(words[1::2]), result


def attack(box):
    counts, reasons, _ = made(box, 256)
    if max(counts) >= 256 or reasons != {"ENOSPC"}:
        escaped("WRITE", f"{counts} files with 256 allowed, {reasons}")
    counts, _, result = made(box, 20000)
    took = result.seconds - result.json["duration_ms"] / 1000
    if max(counts) >= 20000 or took > 5 * SLOW:
        escaped("CRASH", f"{counts} files, {took:.1f} s to end")
    return "ENOSPC before 256; the end after 3 x 20 000 files takes under 5 s"


def control(box):
    counts, _, _ = made(box, 2048)
    assert min(counts) > 1500, counts
    return f"{counts} files with 2048 allowed"
