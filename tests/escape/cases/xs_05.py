"""XS-05: leave a token in a keyring for another sandbox, or read one."""
import concurrent.futures
import ctypes
import os

from escape.harness import Untestable, escaped
from escape.lib_pair import look, neighbour, nothing

TITLE = "keyrings"
TRIED = ("add_key, request_key, keyctl by a neighbour and by a second sandbox, in user, session and user-session keyrings, where "
         "both have their caller's session keyring; /proc/keys")
WALLS = ["seccomp", "uid"]
LEAVE = """
name = sys.argv[1].encode()
def add(ring): return libc.syscall(248, b"user", name, b"token", ctypes.c_long(5), ctypes.c_long(ring))
say = [add(ring) for ring in (-4, -5, -3, -2)]  # user, user session, session, process
"""
CLEAN = "\nfor key in say:\n    if key > 0: libc.syscall(250, ctypes.c_long(3), ctypes.c_long(key), 0, 0, 0)"
LOOK = """
name = sys.argv[1].encode()
def search(ring): return libc.syscall(250, ctypes.c_long(10), ctypes.c_long(ring), b"user", name, ctypes.c_long(0))
for ring, word in ((-4, "user"), (-5, "user session"), (-3, "session")):
    found[word] = search(ring) > 0
found["request_key"] = libc.syscall(249, b"user", name, None, ctypes.c_long(0)) > 0
found["listed"] = attempt(lambda: open("/proc/keys").read()) == "done" and name.decode() in open("/proc/keys").read()
"""


def seen(box, **more):
    """Keys that a neighbour made, and what a second sandbox finds of them. One caller, one session keyring: that of a
    thread, which ends with it."""
    with concurrent.futures.ThreadPoolExecutor(1) as thread:
        if thread.submit(ctypes.CDLL(None).syscall, 250, 1, None).result() <= 0:  # KEYCTL_JOIN_SESSION_KEYRING
            raise Untestable("the caller has no session keyring to hand on")
        return thread.submit(seen_in_session, box, **more).result()


def seen_in_session(box, **more):
    name = f"coto-test-{os.getpid()}"
    with neighbour(box, LEAVE, CLEAN, args=[name], **more) as (keys, _):
        return keys, look(box, LOOK, args=[name], **more)


def attack(box):
    keys, found = seen(box)
    if max(keys) > 0:
        escaped("WRITE", f"keys were added: {keys}")
    return nothing(found) + "; no key can be made"


def control(box):
    keys, found = seen(box, without=["seccomp", "uid", "proc_masks"])
    assert max(keys) > 0 and found["session"] and found["request_key"], (keys, found)
    return f"found by the second: {', '.join(name for name in found if found[name])}"
