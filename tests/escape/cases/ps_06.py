"""PS-06: learn about the host what nobody said would show."""
import json
import re

from escape.harness import escaped
from escape.lib_calls import SOURCE

TITLE = "CPU, load, memory, disks, devices of the host"
TRIED = ("19 host-wide files read and looked up in docs/SANDBOX.md; interfaces, host name, System V objects "
         "must be the sandbox's own")
WALLS = ["net_namespace", "uts_namespace", "ipc_namespace"]
FILES = """cpuinfo stat uptime loadavg pressure/cpu meminfo vmstat zoneinfo swaps diskstats partitions version cmdline
config.gz filesystems devices bus/pci/devices fs/ext4 sys/kernel/random/boot_id""".split()
LOOK = """
import json, os, sys
shows = []
for name in json.loads(sys.argv[1]):
    try:
        path = "/proc/" + name
        shows += [name] if os.path.isdir(path) or open(path, "rb").read(1) else []
    except OSError: pass
print(json.dumps({"shows": shows,
    "devices": [line.split(":")[0].strip() for line in open("/proc/net/dev") if ":" in line],
    "name": [os.uname().nodename, open("/etc/hostname").read().strip()],
    "objects": sum(len(open("/proc/sysvipc/" + n).readlines()) - 1 for n in ("shm", "sem", "msg")),
    "sockets": sum(len(open("/proc/net/" + n).readlines()) - 1 for n in ("tcp", "tcp6", "udp", "unix"))}))
"""


def look(box, **more):
    return box.inside(LOOK, args=[json.dumps(FILES)], **more)


def is_documented(name, text):
    return any(name == path or name.startswith(path + "/") for path in re.findall(r"`/proc/([\w./-]+)`", text))


def attack(box):
    text = (SOURCE / "docs/SANDBOX.md").read_text().split("## What of the host shows")[1].split("\n## ")[0]
    found = look(box)
    unsaid = [name for name in found["shows"] if not is_documented(name, text)]
    if unsaid:
        escaped("READ", f"shows and is not documented: {', '.join(unsaid)}")
    if found["devices"] != ["lo"] or set(found["name"]) != {"coto"} or found["objects"] or found["sockets"]:
        escaped("READ", str(found))
    return f"{len(found['shows'])} host-wide files, all documented; own devices lo, own name, no socket"


def control(box):
    found = look(box, without=["net_namespace", "uts_namespace", "ipc_namespace", "landlock"])
    assert found["name"][0] != "coto" and (found["sockets"] or len(found["devices"]) > 1), found
    return f"the host's name, {len(found['devices'])} devices, {found['sockets']} sockets"
