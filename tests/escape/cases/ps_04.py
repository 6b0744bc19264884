"""PS-04: secrets and places of the host in what init and the launcher show of themselves."""
from escape.harness import Untestable, escaped

TITLE = "environment and command lines of init and launcher"
TRIED = ("every readable file of every process in /proc, own environment, machine-id and cgroup path searched "
         "for a planted secret and host path")
WALLS = ["pid_namespace", "cgroup_namespace", "mount_namespace"]
SECRET = "bird-5521"
SEARCH = """
import json, os, sys
words, found, seen = [word.encode() for word in sys.argv[1:]], [], 0
# Inside there are two; of a whole host the nearest are enough.
pids = sorted((name for name in os.listdir("/proc") if name.isdigit()), key=lambda pid: abs(int(pid) - os.getpid()))
for pid in pids[:12]:
    for top, _, names in os.walk(f"/proc/{pid}"):
        for name in names:
            # the words themselves stand in our own command line and memory
            path = os.path.join(top, name)
            if int(pid) == os.getpid() and name in ("cmdline", "mem", "syscall"): continue
            try:
                with open(path, "rb", buffering=0, opener=lambda p, f: os.open(p, f | os.O_NONBLOCK)) as file:
                    data = file.read(1 << 16) or b""
            except OSError: continue
            seen += 1
            found += [f"{path}: {word.decode()}" for word in words if word in data]
for path in ("/etc/machine-id", "/var/lib/dbus/machine-id", "/proc/cmdline", "/etc/hostname", "/etc/passwd"):
    try: found += [f"{path}: {word.decode()}" for word in words if word in open(path, "rb").read()]
    except OSError: pass
if os.path.exists("/etc/machine-id"): found.append("machine-id")
cgroups = {line.split(":", 2)[2].strip() for line in open("/proc/self/cgroup")}
print(json.dumps([sorted(set(found)), seen, sorted(cgroups)]))
"""


def search(box, **more):
    """What was found, in how many files, and the cgroup paths shown."""
    place = box.folder / "alice"
    place.mkdir(exist_ok=True)
    # Read by environment, argument and working directory of the caller.
    return box.inside(SEARCH, args=[SECRET, str(place)], env={"MY_TOKEN": SECRET}, cwd=place,
                      flags=["--artifacts", place / "out", "--report", place / "reports"], **more)


def attack(box):
    found, seen, cgroups = search(box)
    if found or cgroups not in ([], ["/"]):
        escaped("READ", f"{found} {cgroups}")
    assert seen > 20, f"only {seen} files were readable"
    return f"nothing in {seen} files; cgroup path /"


def control(box):
    """The launcher's command line, and a program that inherits the environment."""
    found, _, cgroups = search(box, without=["env", "pid_namespace", "cgroup_namespace", "landlock"])
    assert any("environ" in one and SECRET in one for one in found), found
    assert any("cmdline" in one for one in found), found
    if set(cgroups) <= {"/"}:
        raise Untestable(f"{len(found)} finds, but caller and sandbox are in the root cgroup, which has no name")
    where, what = found[0].split(": ")  # only the ends: the rest is the name of the machine it ran on
    return f"{len(found)} finds: {where}: .../{what.split('/')[-1]}; cgroup .../{cgroups[-1].split('/')[-1]}"
