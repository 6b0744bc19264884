"""OU-06: end while the last words are still in the pipe."""
import time

from escape.harness import escaped

TITLE = "bytes in the pipe at the end"
TRIED = ("64 KiB, then 1 MiB from two processes, written and followed at once by _exit, SIGKILL, SIGSEGV; a "
         "slow reader")
WALLS = ["pid_namespace"]
CODE = """
import ctypes, os, signal, sys
data = b"x" * int(sys.argv[2])
if len(data) > 65536: import fcntl; fcntl.fcntl(1, 1031, 1 << 20)
os.write(1, data)
if sys.argv[1] == "exit": os._exit(3)
os.kill(os.getpid(), getattr(signal, sys.argv[1]))
"""
ENDS = {"exit": ("nonzero", 3), "SIGKILL": ("signal", 137), "SIGSEGV": ("signal", 139), "SIGTERM": ("signal", 143)}


def attack(box):
    for size in (1, 65536, 1 << 20):
        for how, wanted in ENDS.items():
            done = box.python(CODE, args=[how, size])
            if len(done.out) != size:
                escaped("CRASH", f"{how}: {size - len(done.out)} of {size} bytes lost")
            assert (done.verdict, done.status) == wanted, done
    with box.running("print('ready', flush=True)\n" + CODE, args=["exit", 65536], flags=["--quiet"]) as it:
        time.sleep(0.2)  # the program is long gone when the first byte is read
        out = it.end().out
    if len(out) != 65536:
        escaped("CRASH", f"slow reader: {65536 - len(out)} bytes lost")
    return "all bytes of 12 sudden ends; a slow reader gets them too"


def control(box):
    """The limit cuts: what is lost would be seen."""
    done = box.python(CODE, args=["exit", 65536], flags=["--output-limit", "60000"])
    assert len(done.out) == 60000 and done.json["stdout_bytes_seen"] == 65536, len(done.out)
    return "5536 bytes cut by a limit are missed"
