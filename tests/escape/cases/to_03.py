"""TO-03: a child keeps the pipes open when the program has ended."""
import contextlib
import socket
import threading

from escape.harness import escaped

TITLE = "child holds stdout"
TRIED = ("the program exits 5; children keep stdout and stderr open, in another session, as a pipe's other "
         "end, in a socket")
WALLS = ["pid_namespace"]
CODE = """
import array, os, socket, sys, time
seconds = float(sys.argv[1])
a, b = socket.socketpair()
for one in (a, b):
    one.sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [1, 2, a.fileno(), b.fileno()]))])
for leave in (False, True):
    if os.fork() == 0:
        if leave: os.setsid()
        time.sleep(seconds)
        os._exit(0)
print("last words", flush=True)
os._exit(5)
"""


def attack(box):
    done = box.python(CODE, args=["60"])
    assert (done.verdict, done.code, done.out) == ("nonzero", 5, b"last words\n"), done
    if done.seconds > 2:
        escaped("CRASH", f"told after {done.seconds:.1f} s")
    return f"told after {done.seconds:.2f} s"


@contextlib.contextmanager
def collecting():
    """The kernel frees sockets that hold one another when some socket is closed, and the pipe with them."""
    ended = threading.Event()

    def close_one():
        while not ended.wait(0.1):
            for one in socket.socketpair():
                one.close()

    thread = threading.Thread(target=close_one)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def control(box):
    """When nobody ends the children or stops listening to them, they end the run."""
    with collecting():
        done = box.python(CODE, args=["1.5"],
                          without=["kill_all", "pid_namespace", "cgroup", "landlock", "end_streams"])
    assert done.code == 5 and done.seconds > 1.2, (done, done.seconds)
    return f"told after {done.seconds:.2f} s, when the last child let go"
