"""PS-06: learn about the host what nobody said would show."""
import contextlib
import ctypes
import json
import os
import re

from escape.harness import escaped
from escape.lib_calls import SOURCE

TITLE = "CPU, load, memory, disks, devices of the host"
TRIED = ("19 host-wide files read and looked up in docs/SANDBOX.md; interfaces, host name, System V objects "
         "must be the sandbox's own: one of each kind is planted on the host")
WALLS = ["net_namespace", "uts_namespace", "ipc_namespace"]
FILES = """cpuinfo stat uptime loadavg pressure/cpu meminfo vmstat zoneinfo swaps diskstats partitions version cmdline
config.gz filesystems devices bus/pci/devices fs/ext4 sys/kernel/random/boot_id""".split()
LOOK = """
import ctypes, json, os, sys
shows, libc, key = [], ctypes.CDLL(None), int(sys.argv[2])
for name in json.loads(sys.argv[1]):
    try:
        path = "/proc/" + name
        shows += [name] if os.path.isdir(path) or open(path, "rb").read(1) else []
    except OSError: pass
print(json.dumps({"shows": shows,
    "devices": [line.split(":")[0].strip() for line in open("/proc/net/dev") if ":" in line],
    "name": [os.uname().nodename, open("/etc/hostname").read().strip()],
    "objects": [n for n in ("shm", "sem", "msg") if len(open("/proc/sysvipc/" + n).readlines()) > 1],
    "found": [n for n, get in (("shm", libc.shmget), ("sem", libc.semget), ("msg", lambda key, *_: libc.msgget(key, 0)))
              if get(key, 0, 0) >= 0],
    "sockets": sum(len(open("/proc/net/" + n).readlines()) - 1 for n in ("tcp", "tcp6", "udp", "unix"))}))
"""


CREATE, REMOVE = 0o3666, 0  # IPC_CREAT | IPC_EXCL and anybody's; IPC_RMID


@contextlib.contextmanager
def planted():
    """A segment, a semaphore and a queue of the host's, which every user there may use."""
    libc, key = ctypes.CDLL(None, use_errno=True), 0x70000000 | os.getpid()
    ids = [libc.shmget(key, 4096, CREATE), libc.semget(key, 1, CREATE), libc.msgget(key, CREATE)]
    try:
        assert min(ids) >= 0, (ids, ctypes.get_errno())
        yield key
    finally:
        for call, id in zip((lambda n: libc.shmctl(n, REMOVE, None), lambda n: libc.semctl(n, 0, REMOVE),
                             lambda n: libc.msgctl(n, REMOVE, None)), ids):
            if id >= 0:
                call(id)


def look(box, **more):
    with planted() as key:
        return box.inside(LOOK, args=[json.dumps(FILES), key], **more)


def is_documented(name, text):
    return any(name == path or name.startswith(path + "/") for path in re.findall(r"`/proc/([\w./-]+)`", text))


def attack(box):
    text = (SOURCE / "docs/SANDBOX.md").read_text().split("## What of the host shows")[1].split("\n## ")[0]
    found = look(box)
    unsaid = [name for name in found["shows"] if not is_documented(name, text)]
    if unsaid:
        escaped("READ", f"shows and is not documented: {', '.join(unsaid)}")
    if found["devices"] != ["lo"] or set(found["name"]) != {"coto"} or found["sockets"] or \
            found["objects"] or found["found"]:
        escaped("READ", str(found))
    return f"{len(found['shows'])} host-wide files, all documented; own devices lo, own name, no socket"


def control(box):
    found = look(box, without=["net_namespace", "uts_namespace", "ipc_namespace", "landlock"])
    assert found["name"][0] != "coto" and (found["sockets"] or len(found["devices"]) > 1), found
    assert found["objects"] == found["found"] == ["shm", "sem", "msg"], found
    return f"the host's name, {len(found['devices'])} devices, {found['sockets']} sockets, 3 System V objects"
