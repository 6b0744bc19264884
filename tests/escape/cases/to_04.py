"""TO-04: a process that is stopped takes no signal but one."""
import time

from cli.helpers import descendants
from escape.lib_ends import is_timed_out

TITLE = "all stopped or traced"
TRIED = ("the program and its child stop themselves; in tier debug a child stopped under trace by a stopped "
         "parent")
WALLS = ["timeout"]
STOP = "os.fork()\nos.kill(os.getpid(), signal.SIGSTOP)\nrest()"
TRACE = """
libc = ctypes.CDLL(None)
if os.fork() == 0:
    libc.ptrace(0, 0, 0, 0)
os.kill(os.getpid(), signal.SIGSTOP)
rest()
"""


def attack(box):
    stopped = is_timed_out(box, STOP)
    return f"{stopped}; traced: {is_timed_out(box, TRACE, flags=['--seccomp', 'debug'])}"


def control(box):
    """Without the limit they stay stopped, far past it."""
    code = "import os, signal\nprint('ready', flush=True)\nos.fork()\nos.kill(os.getpid(), signal.SIGSTOP)"
    with box.running(code, flags=["--timeout", "300ms"], without=["timeout"]) as it:
        time.sleep(1)
        states = [row[2] for row in descendants(it.process.pid).values()]
        assert it.process.poll() is None and states.count("T") == 2, states
    return "stopped a second after a limit of 300 ms"
