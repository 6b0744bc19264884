"""SC-16: one sync(2) makes the whole host wait for its disks."""
import array
import fcntl
import os
import struct
import tempfile

from escape.harness import Untestable, escaped

TITLE = "sync(2) storm"
TRIED = "100 000 x sync and syncfs while a file on the host's disk is not yet written out"
WALLS = ["seccomp"]
STORM = r"""
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>
int main(int argc, char **argv)
{
    int usr = open("/usr", O_RDONLY | O_DIRECTORY);
    for (int i = 0; i < atoi(argv[1]); i++)
        if (syscall(SYS_sync) || syscall(SYS_syncfs, usr))
            return 1;
    usleep(1000 * atoi(argv[2]));
    return 0;
}
"""
FIEMAP = 0xc020660b
DELALLOC = 4  # no place on the disk yet: not written out


def waiting_bytes(fd):
    """Bytes of a file that its file system has yet to write out."""
    request = array.array("B", struct.pack("=QQIIII", 0, 1 << 62, 0, 0, 64, 0) + bytes(56 * 64))
    fcntl.ioctl(fd, FIEMAP, request)
    count = struct.unpack_from("=I", request, 20)[0]
    extents = [struct.unpack_from("=QQQQQIIII", request, 32 + 56 * i) for i in range(count)]
    return sum(extent[2] for extent in extents if extent[5] & DELALLOC)


def storm(box, times, calm_ms=0, **more):
    """Bytes of 4 MiB that still wait after the storm and a calm, and how long it all took."""
    with tempfile.TemporaryFile(dir=box.folder) as file:
        file.write(os.urandom(1 << 22))
        file.flush()
        try:
            before = waiting_bytes(file.fileno())
        except OSError as reason:
            raise Untestable(f"the file system of {box.folder} does not tell what waits: {reason}") from None
        if before == 0:
            raise Untestable("the file system writes at once")
        done = box.run([box.c(STORM), str(times), str(calm_ms)], **more)
        assert done.code == 0, done
        return waiting_bytes(file.fileno()), done.json["duration_ms"]


def attack(box):
    # A guest's kernel is slower: the host writes the file out by itself after some seconds.
    times = 1000 if box.level and box.level.guest_kernel else 100000
    for _ in range(6):  # others flush now and then; a sync that gets through does it each time
        left, took = storm(box, times)
        if left:
            break
    if left == 0 and storm(box, 0, int(took))[0] == 0:
        raise Untestable("the host writes files out by itself in the time that the storm takes")
    if left == 0:
        escaped("CRASH", "the host's file was flushed")
    return f"answered 0 in {took:.0f} ms, {left >> 20} MiB still wait to be written"


def control(box):
    left, took = storm(box, 1, without=["seccomp"])
    assert left == 0, f"{left} bytes still wait"
    return f"one sync flushed the host's file, {took:.0f} ms"
