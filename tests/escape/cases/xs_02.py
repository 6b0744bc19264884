"""XS-02: meet another sandbox in System V shared memory, semaphores, messages, or POSIX queues."""
import os

from escape.harness import escaped
from escape.lib_pair import look, neighbour, nothing

TITLE = "System V IPC and POSIX queues"
TRIED = ("a neighbour makes segment, semaphore, queue and POSIX queue by well-known keys; looked"
         " for by key and in /proc/sysvipc")
WALLS = ["ipc_namespace", "seccomp"]
LEAVE = """
key = int(sys.argv[1])
made = [libc.shmget(key, 4096, 0o1666), libc.semget(key, 1, 0o1666), libc.msgget(key, 0o1666)]
queue = libc.syscall(240, b"coto-test-%d" % key, 0o102, 0o666, None)
say = [made, queue]
"""
CLEAN = """
libc.shmctl(made[0], 0, None); libc.semctl(made[1], 0, 0); libc.msgctl(made[2], 0, None)
if queue >= 0: libc.syscall(241, b"coto-test-%d" % key)
"""
LOOK = """
key = int(sys.argv[1])
found["shm"] = libc.shmget(key, 4096, 0) >= 0
found["sem"] = libc.semget(key, 1, 0) >= 0
found["msg"] = libc.msgget(key, 0) >= 0
found["mq"] = libc.syscall(240, b"coto-test-%d" % key, 0, 0, None) >= 0
for name in ("shm", "sem", "msg"):
    found["/proc/sysvipc/" + name] = str(key) in open("/proc/sysvipc/" + name).read().split()
"""


def seen(box, **more):
    key = 0x10000 + os.getpid()
    with neighbour(box, LEAVE, CLEAN, args=[key], **more) as (said, _):
        assert min(said[0]) >= 0, said
        return said, look(box, LOOK, args=[key], **more)


def attack(box):
    said, found = seen(box)
    if said[1] >= 0:
        escaped("ESCAPE", "mq_open was allowed")
    return nothing(found) + "; mq_open refused"


def control(box):
    _, found = seen(box, without=["ipc_namespace", "seccomp"])
    seen_there = [name for name in found if found[name]]
    assert {"shm", "sem", "msg"} <= set(seen_there), found
    return f"found: {', '.join(seen_there)}"
