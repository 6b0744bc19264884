"""XS-07: find or signal the processes of another sandbox."""
from escape.harness import escaped
from escape.lib_pair import look, neighbour

TITLE = "probing and signalling a neighbour"
TRIED = ("kill(pid, 0) and SIGTERM to the neighbour's host pid and to 40 000 more, pidfd_open, "
         "priorities, scheduler, /proc")
WALLS = ["pid_namespace", "uid", "landlock"]
LEAVE = "import signal\nhit = []\nsignal.signal(signal.SIGUSR1, lambda *_: hit.append(1))"
CLEAN = "sys.exit(9 if hit else 0)"
LOOK = """
victim, own = int(sys.argv[1]), os.getpid()
import signal
found["killed"] = attempt(os.kill, victim, signal.SIGUSR1) if victim != own else "own"
found["pidfd"] = attempt(os.pidfd_open, victim) if victim != own else "own"
found["priority"] = attempt(os.getpriority, os.PRIO_PROCESS, victim) if victim != own else "own"
found["affinity"] = attempt(os.sched_getaffinity, victim) if victim != own else "own"
found["alive"] = sum(attempt(os.kill, pid, 0) != "ESRCH" for pid in range(2, int(sys.argv[2])) if pid != own)
found["listed"] = len([name for name in os.listdir("/proc") if name.isdigit()])
"""


def attack(box):
    with neighbour(box, LEAVE, CLEAN) as (_, it):
        found = look(box, LOOK, args=[it.program(), 40000])
    if found["alive"] or found["listed"] > 2 or "done" in found.values():
        escaped("ESCAPE", f"{found}")
    return f"ESRCH for 40 000 pids; {found['listed']} processes in /proc"


def control(box):
    # One signal to one pid: without its own pids a sandbox reaches every process of the caller's.
    without = ["pid_namespace", "uid", "landlock", "seccomp"]
    with neighbour(box, LEAVE, "sys.exit(0 if hit else 9)", without=without) as (_, it):
        found = look(box, LOOK, args=[it.program(), 0], without=without)
    assert found["killed"] == "done" and found["listed"] > 2, found
    return f"the neighbour got the signal; {found['listed']} processes in /proc"
