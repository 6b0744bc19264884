"""XS-06: hold locks or leases on files that the host and other sandboxes use too.

/usr and the devices are the host's own inodes. A lease would delay every open on the
host: the filter refuses it. An advisory lock needs no right to write, so a program can
hold flock or a read lock there, and others can see that it does. That much is
documented (docs/SANDBOX.md, "What is shared with the host"): nothing of the host's
locks files in /usr, and what a program may write to is its own.
"""
import fcntl
import json
import os

from escape.harness import SOURCE, escaped
from escape.lib_files import TRY
from escape.lib_pair import neighbour

TITLE = "locks and leases on shared files"
TRIED = ("leases, write locks and flock by a neighbour on /usr, /etc, /dev/null and nsfs; the host "
         "opens and locks the same files")
WALLS = ["seccomp", "root_read_only", "mount_namespace"]
SHARED = ["/usr", "/usr/bin/env", "/dev/null", "/etc/ld.so.cache"]
OWN = ["/workspace", "/tmp", "/dev/shm", "/proc/self/status", "/etc/passwd", "/"]
LEAVE = """
keep, say = [], {}
def each(what, paths, work):
    for path in paths:
        fd = os.open(path, os.O_RDONLY); keep.append(fd)
        say[f"{what} {path}"] = attempt(work, fd)
shared, own = json.loads(sys.argv[1]), json.loads(sys.argv[2])
open("/workspace/own", "w").close()
each("read lease", shared[1:] + ["/workspace/own"], lambda fd: fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_RDLCK))
each("write lease", shared[1:], lambda fd: fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_WRLCK))
each("notify", shared[:1], lambda fd: fcntl.fcntl(fd, fcntl.F_NOTIFY, 1))
each("write lock", shared[1:2] + shared[3:], lambda fd: fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB))
each("flock", own, lambda fd: fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB))
each("shared flock", shared, lambda fd: fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB))
"""
CLEAN = "for fd in keep: os.close(fd)"


def busy(path):
    """Whether somebody holds a lock on the host's own file."""
    fd = os.open(path, os.O_RDONLY)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return False
    except OSError:
        return True
    finally:
        os.close(fd)


def lock(box, **more):
    with neighbour(box, LEAVE, CLEAN, args=[json.dumps(SHARED), json.dumps(OWN)], **more) as (said, _):
        return said, [path for path in OWN + SHARED if os.path.exists(path) and busy(path)]


def attack(box):
    said, held = lock(box)
    wrong = [name for name, word in said.items() if word == "done" and name.split()[0] in ("read", "write", "notify")]
    # What is the sandbox's own is locked there and nowhere else.
    wrong += [f"{path} on the host is locked" for path in held if path in OWN]
    if wrong:
        escaped("CRASH", ", ".join(wrong))
    if held and "What is shared with the host" not in (SOURCE / "docs/SANDBOX.md").read_text():
        escaped("CRASH", f"undocumented: {held} on the host are locked")
    return f"leases and write locks refused; flock reaches the host's {', '.join(held)} (documented)"


def control(box):
    said, held = lock(box, without=["seccomp", "mount_namespace", "landlock", "root_read_only"])
    own = [path for path in held if path in OWN]
    # The kernel gives leases to a file's owner only.
    assert own and said["read lease /workspace/own"] == said["notify /usr"] == "done", (said, held)
    return f"a lease and F_NOTIFY work; the host's {', '.join(own)} are locked too"
