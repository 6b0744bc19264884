"""RI-02: look like coto in the list of processes, or speak through one's name."""
from cli.helpers import read
from escape.harness import escaped

TITLE = "process names that pretend"
TRIED = ("program and child name themselves coto-init and coto, with escapes and newlines in name and command "
         "line")
WALLS = ["pid_namespace"]
PRETEND = """
import ctypes, os, sys, time
libc = ctypes.CDLL(None)
def become(name):
    libc.prctl(15, ctypes.c_char_p(name), 0, 0, 0)
names = [b"coto-init", b"\\x1b[2J\\nroot 1", b") S 1 1 1 ("]
renamed, told = os.pipe()
for name in names[1:]:
    if os.fork() == 0:
        become(name)
        os.setsid()
        os.write(told, b"x")
        time.sleep(60)
    os.read(renamed, 1)
become(names[0])
print("ready", flush=True)
sys.stdin.readline()
print("done", flush=True)
os._exit(5)
"""


def names_on_host(it):
    return [read(f"/proc/{pid}/comm").rstrip("\n") for pid in it.family()]


def attack(box):
    with box.running(PRETEND) as it:
        seen = names_on_host(it)
        it.say("\n")
        done = it.end()
    # In a container the real one is called after its file there.
    assert seen.count("coto-init") + seen.count(".coto-init") >= 2 and "\x1b[2J\nroot 1" in seen, seen
    # The real init is told by its pid: everything ends, and the end is the program's.
    if (done.status, done.out) != (5, b"done\n"):
        escaped("ESCAPE", f"ended as {done}")
    if b"\x1b" in done.err or b"root 1" in done.err:
        escaped("WRITE", f"a name reached coto's words: {done.err!r}")
    result = box.python(PRETEND, stdin=b"\n")
    assert (result.verdict, result.code) == ("nonzero", 5), result
    left = box.host.survivors()
    if left:
        escaped("ESCAPE", f"outlived its run: {left}")
    return "names change nothing: same verdict, all ended, no name in coto's words"


def control(box):
    """A view that goes by names is fooled."""
    with box.running(PRETEND) as it:
        names = names_on_host(it)
    assert names.count("coto-init") >= 2, names
    return f"{names.count('coto-init')} processes are called coto-init"
