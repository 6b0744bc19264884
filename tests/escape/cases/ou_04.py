"""OU-04: make two streams tell another story than they were written in."""
import subprocess

from escape.harness import escaped

TITLE = "order of stdout and stderr"
TRIED = "200 numbered lines in turn on both streams: each stream in order, alone and when both go to one pipe"
WALLS = ["output_limit"]
CODE = "import os\nfor n in range(200): os.write(1 + n % 2, b'%d\\n' % n)"


def split(text, parity):
    return [int(line) for line in text.split() if int(line) % 2 == parity]


def attack(box):
    done = box.python(CODE)
    even, odd = [int(n) for n in done.out.split()], [int(n) for n in done.err.split()]
    if even != list(range(0, 200, 2)) or odd != list(range(1, 200, 2)):
        escaped("CRASH", "a stream is out of order in the result object")
    argv, env = box.command(CODE, flags=["--quiet"])
    mixed = box.start_and_wait(argv, b"", env, stderr=subprocess.STDOUT).out
    if split(mixed, 0) != even or split(mixed, 1) != odd:
        escaped("CRASH", f"a stream is out of order in one pipe: {mixed[:200]!r}")
    return "each stream in its own order; between the two no order is promised (docs/RESULT.md)"


def control(box):
    """A program that writes both to one stream keeps the order between them."""
    done = box.python(CODE.replace("1 + n % 2", "1"))
    assert [int(n) for n in done.out.split()] == list(range(200)), done
    return "200 lines on one stream arrive as written"
