"""FS-05: reach a disk, memory or a virtual machine through a device node."""
import json

from escape.harness import escaped
from escape.lib_files import TRY, all_refused, attempts

TITLE = "device nodes, found or made"
TRIED = "all of /dev listed; mknod of 9 devices in 3 places by mknod and mknodat, then open; a whiteout left by renameat2"
WALLS = ["mount_namespace", "user_namespace", "seccomp", "landlock", "capabilities"]

HARMLESS = {"/dev/full", "/dev/null", "/dev/urandom", "/dev/zero"}
LIST = """
import json, os, stat
found = []
for top, dirs, files in os.walk("/dev"):
    for name in files + dirs:
        path = os.path.join(top, name)
        mode = os.lstat(path).st_mode
        if stat.S_ISCHR(mode) or stat.S_ISBLK(mode):
            found.append(path)
print(json.dumps(found))
"""
# type, major, minor: disks, memory, ports, messages, a virtual machine, FUSE, a whiteout
NODES = {"vda": ("b", 254, 0), "sda": ("b", 8, 0), "loop0": ("b", 7, 0), "mem": ("c", 1, 1), "port": ("c", 1, 4),
         "kmsg": ("c", 1, 11), "kvm": ("c", 10, 232), "fuse": ("c", 10, 229), "whiteout": ("c", 0, 0)}
MAKE = TRY + """
out = {}
for name, (kind, major, minor) in json.loads(sys.argv[1]).items():
    mode = (stat.S_IFBLK if kind == "b" else stat.S_IFCHR) | 0o666
    device = os.makedev(major, minor)
    for place in ("/workspace", "/tmp", "/dev/shm"):
        path = f"{place}/{name}"
        out[f"mknodat {path}"] = attempt(os.mknod, path, mode, device)
        out[f"mknod {path}"] = kernel(133, (path + "2").encode(), mode, device)
        out[f"high bits {path}"] = kernel(133, (path + "3").encode(), mode | 0x100000000, device)
        for made in (path, path + "2", path + "3"):
            if os.path.lexists(made) and name != "whiteout":
                out["open " + made] = attempt(os.open, made, os.O_RDONLY)
for place in ("/workspace", "/tmp", "/dev/shm"):
    for flags in (4, 5, 0x100000004):
        old = f"{place}/old{flags}"
        open(old, "w").close()
        kernel(316, -100, old.encode(), -100, (old + "b").encode(), flags)
        left = os.path.lexists(old) and stat.S_ISCHR(os.lstat(old).st_mode)
        out[f"renameat2 {flags} {place}"] = "done" if left else "no node"
print(json.dumps(out))
"""


def attack(box):
    devices = set(box.inside(LIST))
    if not devices <= HARMLESS:
        escaped("READ", f"in /dev: {sorted(devices - HARMLESS)}")
    return all_refused(box.inside(MAKE, args=[json.dumps(NODES)]), "ESCAPE")


def control(box):
    """The host's /dev is full of them; and without a filter the one node that the kernel gives
    to anybody, the whiteout, is made."""
    seen = set(box.inside(LIST, without=["mount_namespace", "landlock"]))
    assert seen - HARMLESS, "the host's own /dev shows no more than a sandbox's"
    made = attempts(box, {"whiteout": "attempt(os.mknod, '/workspace/w', stat.S_IFCHR | 0o600, 0)"},
                    without=["seccomp", "landlock"])
    assert made["whiteout"] == "done", made
    moved = box.inside(MAKE, args=["{}"], without=["seccomp", "landlock"])
    assert moved["renameat2 4 /workspace"] == "done", moved
    return f"{len(seen)} devices in sight; a whiteout made"
