"""AR-15: something of an earlier run is found in the workspace of the next."""
from escape.harness import escaped
from escape.lib_files import SECRET, folder, room

TITLE = "what an earlier sandbox left"
TRIED = "every writable place, unnamed files, shared memory and 24 MiB of fresh pages searched for what a run before wrote"
WALLS = ["mount_namespace", "ipc_namespace"]

PLACES = ["/workspace", "/workspace/output", "/tmp", "/dev/shm", "/var/tmp", "/cache"]
WRITE = """
import mmap, os, sys
mark = sys.argv[1].encode()
for place in sys.argv[2:]:
    try:
        open(place + "/left", "wb").write(mark * 1000)
        os.write(os.open(place, os.O_TMPFILE | os.O_RDWR), mark * 4096)
    except OSError: pass
m = mmap.mmap(-1, 24 << 20)
m[:] = (mark * ((24 << 20) // len(mark) + 1))[:24 << 20]
"""
FIND = """
import json, mmap, os, sys
mark, found = sys.argv[1].encode(), []
for place in sys.argv[2:]:
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
print(json.dumps(found))
"""


def attack(box):
    flags = ["--tmpfs", "/cache"]
    for level in (flags, ["--isolation", "subprocess"]):
        places = PLACES if level is flags else [".", "output"]
        for _ in range(2):
            box.python(WRITE, flags=level, args=[SECRET, *places])
            found = box.inside(FIND, flags=level, args=[SECRET, *places])
            if found:
                escaped("READ", f"{level[1]}: {found}")
    return "fresh and empty each time, pages zero"


def control(box):
    """A directory that two runs share does hand it on."""
    with room() as here:
        shared = folder(here / "shared")
        flags = ["--mount", f"{shared}:/cache:rw"]
        box.python(WRITE, flags=flags, args=[SECRET, "/cache"])
        found = box.inside(FIND, flags=flags, args=[SECRET, "/cache"])
        assert "/cache/left" in found, found
    return "a shared directory handed it on"
