"""TO-01: a daemon that leaves its session and its parents behind."""
from escape.harness import escaped

TITLE = "double fork and setsid"
TRIED = ("a grandchild in a session of its own, stdio closed, SIGHUP and SIGTERM ignored, waits after the "
         "program has ended")
WALLS = ["pid_namespace"]
DAEMON = """
import os, signal, sys, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        for n in (signal.SIGHUP, signal.SIGTERM, signal.SIGINT): signal.signal(n, signal.SIG_IGN)
        os.chdir("/"); os.closerange(0, 64)
        time.sleep(60)
    os._exit(0)
os.wait()
sys.exit(4)
"""


def attack(box):
    done = box.python(DAEMON)
    assert (done.verdict, done.code) == ("nonzero", 4), done
    left = box.host.survivors()
    if left:
        box.host.end(left)
        escaped("ESCAPE", f"outlived its run: {left}")
    return f"ended with the run, told after {done.seconds:.2f} s"


def control(box):
    done = box.python(DAEMON, without=["kill_all", "pid_namespace", "cgroup", "landlock"])
    left = box.host.survivors(1)
    box.host.end(left)
    assert done.code == 4 and left, (done, left)
    return f"outlives the run: {', '.join(left.values())}"
