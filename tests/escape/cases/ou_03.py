"""OU-03: shapes of output that make a careless reader slow."""
from escape.harness import escaped

TITLE = "huge lines, empty lines, single bytes"
TRIED = ("a line of 8 MiB, 10 million empty lines, 200 000 writes of a byte; each also at half the size, to "
         "see how time grows")
WALLS = ["output_limit"]
WRITER = r"""
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
static char block[4096];
int main(int argc, char **argv)
{
    long total = atol(argv[2]);
    size_t each = argv[1][0] == 'b' ? 1 : sizeof block;
    memset(block, argv[1][0] == 'e' ? '\n' : 'x', sizeof block);
    for (long n = 0; n < total; n += each)
        if (write(1, block, each) != (ssize_t)each)
            return 3;
    return 0;
}
"""
SHAPES = {"line": 8 << 20, "empty": 10_000_000, "bytes": 200000}
SECONDS = 8


def timed(box, shape, size, way):
    """Milliseconds of the run; way is --json or --quiet."""
    argv = [box.c(WRITER), shape, str(size)]
    if way == "--json":
        done = box.run(argv)
        assert done.verdict == "ok" and len(done.out) == -(-size // (1 if shape == "bytes" else 4096)) * (
            1 if shape == "bytes" else 4096), (done.verdict, len(done.out))
    else:
        done = box.plain(argv, flags=[way])
        assert done.status == 0 and len(done.out) >= size, (done.status, len(done.out))
    return done.seconds * 1000


def attack(box):
    told = []
    # A guest's kernel takes longer for each write.
    longest = SECONDS * (4 if box.level and box.level.guest_kernel else 1)
    for shape, size in SHAPES.items():
        for way in ("--json", "--quiet"):
            half = min(timed(box, shape, size // 2, way) for _ in range(2))
            whole = min(timed(box, shape, size, way) for _ in range(2))
            # Quadratic would be four times; start-up and noise get their share.
            if whole > longest * 1000 or whole > 3.2 * half + 300:
                escaped("CRASH", f"{shape} {way}: {half:.0f} ms, twice as much {whole:.0f} ms")
            told.append(f"{shape} {way} {whole:.0f} ms")
    return "; ".join(told)


def control(box):
    """A limit below the size shows that the size was really written."""
    for shape, size in SHAPES.items():
        done = box.run([box.c(WRITER), shape, str(size)], flags=["--output-limit", "1k"])
        assert done.json["stdout_bytes_seen"] >= size and len(done.out) == 1024, done.json["stdout_bytes_seen"]
    return "every byte is counted: " + ", ".join(f"{shape} {size}" for shape, size in SHAPES.items())
