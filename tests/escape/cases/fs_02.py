"""FS-02: search everything that can be reached for a file that lies on the host."""
from escape.harness import escaped
from escape.lib_files import folder, room, secret

TITLE = "search for a planted host file"
TRIED = "by name in every directory below /, /proc/N/{root,cwd,fd}, and by '..' from each descriptor"
WALLS = ["mount_namespace", "pid_namespace", "descriptors"]

# Where strangers' files are is looked first; all of /usr comes last.
SEARCH = """
import json, os, sys
name = sys.argv[1]
found, seen, looked = [], set(), 0
def search(top):
    global looked
    for here, dirs, files in os.walk(top, onerror=None):
        info = os.stat(here)
        if (info.st_dev, info.st_ino) in seen:
            dirs[:] = []
            continue
        seen.add((info.st_dev, info.st_ino))
        looked += 1
        if name in files or name in dirs:
            found.append(here)
            return True
        if here in ("/", "/proc"):
            dirs[:] = []
def places():
    yield from ("/tmp", "/var", "/home", "/root", "/mnt", "/srv", "/run", "/opt", "/workspace", "/dev", "/")
    for pid in [p for p in os.listdir("/proc") if p.isdigit()] + ["self", "thread-self"]:
        for link in ("root/tmp", "root", "cwd", "cwd/..", "cwd/../../tmp"):
            yield f"/proc/{pid}/{link}"
    for fd in range(64):
        for up in ("", "/..", "/../..", "/../../../../tmp"):
            yield f"/proc/self/fd/{fd}{up}"
    yield from (os.path.join("/", name) for name in sorted(os.listdir("/")) if name != "proc")
for place in places():
    try:
        if search(place): break
    except OSError: pass
print(json.dumps([found, looked]))
"""
NAME = "canary-7431-file"


def search(box, **more):
    with room() as here:
        secret(folder(here / "deep") / NAME)
        return box.inside(SEARCH, args=[NAME], flags=["--timeout", "100s"], timeout=120, **more)


def attack(box):
    found, looked = search(box)
    if found:
        escaped("READ", f"found in {found}")
    return f"not in {looked // 100 * 100}+ directories"


def control(box):
    found, _ = search(box, without=["mount_namespace", "landlock"])
    assert found, "not found with the host's root in sight"
    return "found with the host's root in sight"
