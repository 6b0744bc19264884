"""XS-11: watch the host and other sandboxes at work, by events on the files all of them read."""
import json
import subprocess

from escape.harness import escaped
from escape.lib_pair import neighbour

TITLE = "inotify and fanotify on shared files"
TRIED = ("watches of every kind on /usr/bin, /usr/lib, a program and /etc by a neighbour, while the "
         "host and another sandbox run that program; fanotify")
WALLS = ["seccomp"]
WATCH = """
import select, struct
watch = libc.inotify_init1(0o4000)
say, names = {}, {}
for path in ("/usr/bin", "/usr/bin/factor", "/usr/lib", "/etc/ld.so.cache", "/workspace"):
    for mask in (0xfff, 0x20, 0x1, 0x10, 0xfce):
        # IN_MASK_ADD: each attempt on top of those before it
        got = libc.inotify_add_watch(watch, path.encode(), 0x20000000 | mask)
        say[f"{path} {mask:#x}"] = "done" if got >= 0 else errno.errorcode[ctypes.get_errno()]
        names[got] = path
say["fanotify"] = "done" if libc.syscall(300, 0, 0) >= 0 else errno.errorcode[ctypes.get_errno()]
"""
TELL = """
open("/workspace/own", "w").close()
seen, end = set(), time.monotonic() + 1
while time.monotonic() < end and select.select([watch], [], [], 0.1)[0]:
    data, at = os.read(watch, 65536), 0
    while at < len(data):
        number, mask, _, size = struct.unpack_from("iIII", data, at)
        name = data[at + 16:at + 16 + size].rstrip(b"\\0").decode()
        seen.add(f"{names[number]} {name} {mask:#x}")
        at += 16 + size
print(json.dumps(sorted(seen)), flush=True)
"""


def watched(box, **more):
    """(answers to the watches, events seen)."""
    with neighbour(box, WATCH, TELL, **more) as (said, it):
        for _ in range(3):
            subprocess.run(["/usr/bin/factor", "6"], stdout=subprocess.DEVNULL, timeout=20)
        box.run(["/usr/bin/factor", "6"], **more)
        it.say("\n")
        events = json.loads(it.line())
    return said, events


def attack(box):
    said, events = watched(box)
    own = [event for event in events if event.startswith("/workspace own")]
    others = [event for event in events if event not in own]
    if others or said["fanotify"] == "done":
        escaped("READ", f"{len(others)} events of others: {', '.join(others[:6])}")
    assert own, (said, events)
    return f"watches for reading and opening refused; only own events ({len(own)}); fanotify {said['fanotify']}"


def control(box):
    said, events = watched(box, without=["seccomp"])
    factor = [event for event in events if "factor" in event]
    assert factor, (said, events)
    return f"the program's runs on the host were seen: {', '.join(factor[:3])}"
