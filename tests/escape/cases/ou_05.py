"""OU-05: never read what the caller sends."""
import os
import subprocess
import threading
import time

from cli.helpers import environment
from escape.harness import escaped
from escape.lib_peak import ROOM, Peak

TITLE = "stdin that nobody reads"
TRIED = "a caller with 1 GiB for stdin; the program never reads, reads 1 KiB, or closes stdin; then ends"
WALLS = ["timeout"]
SIZE = 1 << 30
PROGRAMS = {"never reads": "import time\ntime.sleep(0.3)", "reads 1 KiB": "import os\nos.read(0, 1024)",
            "closes it": "import os, time\nos.close(0)\ntime.sleep(0.2)",
            "reads all": "import os\nn = 0\nwhile (b := os.read(0, 1 << 20)): n += len(b)\nprint(n)"}


def offer(box, code, size=SIZE, **more):
    """Status, seconds, bytes the caller could get rid of, supervisor's memory."""
    argv, env = box.command(code, flags=["--quiet"], **more)
    began = time.monotonic()
    process = subprocess.Popen(argv, env=environment(env), stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    watch, sent, block = Peak(process.pid), [0], bytes(1 << 16)

    def send():
        try:
            while sent[0] < size:
                sent[0] += os.write(process.stdin.fileno(), block)
            process.stdin.close()
        except OSError:
            pass

    sender = threading.Thread(target=send)
    sender.start()
    out = process.stdout.read()
    process.wait(60)
    sender.join(20)
    assert not sender.is_alive(), "the caller is stuck"
    for stream in (process.stdin, process.stdout):
        try:
            stream.close()
        except OSError:
            pass
    return process.returncode, time.monotonic() - began, sent[0], watch.stop(), out


def attack(box):
    told = []
    for name in ("never reads", "reads 1 KiB", "closes it"):
        status, seconds, sent, peak, _ = offer(box, PROGRAMS[name])
        if status != 0 or seconds > 5 or peak > (32 << 20) * ROOM:
            escaped("CRASH", f"{name}: status {status}, {seconds:.1f} s, {peak >> 20} MiB")
        if name != "closes it" and sent > 8 << 20:
            escaped("CRASH", f"{name}: {sent >> 20} MiB were taken and kept")
        told.append(f"{name}: {sent >> 10} KiB taken")
    return f"{'; '.join(told)}; the caller is held back, then let go"


def control(box):
    """A program that reads gets all of it."""
    size = 64 << 20
    status, _, sent, _, out = offer(box, PROGRAMS["reads all"], size)
    assert (status, sent, int(out)) == (0, size, size), (status, sent, out)
    return "a program that reads gets all 64 MiB"
