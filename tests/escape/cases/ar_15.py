"""AR-15: something of an earlier run is found in the workspace of the next."""
import ctypes
import os

from escape.harness import escaped
from escape.lib_files import SECRET, folder, room

TITLE = "what an earlier sandbox left"
TRIED = ("every writable place, unnamed files, System V shared memory, a queue and semaphores, and 24 MiB of fresh pages "
         "searched for what a run before left")
WALLS = ["mount_namespace", "ipc_namespace"]

PLACES = ["/workspace", "/workspace/output", "/tmp", "/dev/shm", "/var/tmp", "/cache"]
# Shared memory, a message queue, semaphores, under one key.
GETS = {29: ("shared memory", [4096]), 68: ("queue", []), 64: ("semaphores", [1])}
SYSTEM_V = f"""
import ctypes
libc, key, made = ctypes.CDLL(None), int(sys.argv[2]), []
for number, (name, more) in {GETS!r}.items():
    if key and libc.syscall(number, key, *more, CREATE) >= 0: made.append(name)
"""
WRITE = """
import mmap, os, sys
mark = sys.argv[1].encode()
for place in sys.argv[3:]:
    try:
        open(place + "/left", "wb").write(mark * 1000)
        os.write(os.open(place, os.O_TMPFILE | os.O_RDWR), mark * 4096)
    except OSError: pass
m = mmap.mmap(-1, 24 << 20)
m[:] = (mark * ((24 << 20) // len(mark) + 1))[:24 << 20]
""" + SYSTEM_V.replace("CREATE", "0o1666") + "print(len(made))"
FIND = """
import json, mmap, os, sys
mark, found = sys.argv[1].encode(), []
for place in sys.argv[3:]:
    try:
        found += [f"{place}/{n}" for n in os.listdir(place) if n not in ("main.py", "output", "out")]
        fd = os.open(place, os.O_TMPFILE | os.O_RDWR)
        os.posix_fallocate(fd, 0, 8 << 20)
        if mark in os.pread(fd, 8 << 20, 0) or os.pread(fd, 8 << 20, 0).strip(b"\\0"): found.append("pages of " + place)
    except OSError: pass
m = mmap.mmap(-1, 24 << 20)
if mark in m[:]: found.append("memory")
fd = os.memfd_create("x"); os.truncate(fd, 8 << 20)
if mark in os.pread(fd, 8 << 20, 0): found.append("memfd")
""" + SYSTEM_V.replace("CREATE", "0") + "print(json.dumps(found + made))"




def attack(box):
    flags, key = ["--tmpfs", "/cache"], 0x61720000 + os.getpid() % 0xffff
    # A level without isolation has the caller's System V objects: none are made there.
    for level, places, key in ((flags, PLACES, key), (["--isolation", "subprocess"], [".", "output"], 0)):
        for _ in range(2):
            made = box.python(WRITE, flags=level, args=[SECRET, key, *places]).text
            assert made == (str(len(GETS)) if key else "0"), made
            found = box.inside(FIND, flags=level, args=[SECRET, key, *places])
            if found:
                escaped("READ", f"{level[1]}: {found}")
    return "fresh and empty each time, pages zero, no System V object"


def control(box):
    """A directory that two runs share hands it on, and so does the host's IPC namespace."""
    key, without = 0x61730000 + os.getpid() % 0xffff, ["ipc_namespace"]
    with room() as here:
        args = [SECRET, key, "/cache"]
        flags = ["--mount", f"{folder(here / 'shared')}:/cache:rw"]
        try:
            box.python(WRITE, flags=flags, args=args, without=without)
            found = box.inside(FIND, flags=flags, args=args, without=without)
        finally:
            left = removed(key)
    assert set(found) == {"/cache/left", *(name for name, _ in GETS.values())}, found
    assert left == len(GETS), f"{left} objects removed from the host"
    return f"found: {', '.join(found)}"


def removed(key):
    """How many System V objects of the host with this key are gone now."""
    libc, count = ctypes.CDLL(None, use_errno=True), 0
    for get, control_call in ((29, 31), (68, 71), (64, 66)):
        number = libc.syscall(get, key, *GETS[get][1], 0)
        remove = [number, 0, 0] if get == 64 else [number, 0]  # IPC_RMID; semctl has the number of one in between
        count += number >= 0 and libc.syscall(control_call, *remove, 0) == 0
    return count
