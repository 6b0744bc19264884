"""XS-09: tell one sandbox from another by the names it is given."""
import os

from escape.harness import escaped
from escape.lib_pair import look, neighbour

TITLE = "names that tell sandboxes apart"
TRIED = ("host name, domain, cgroup paths, boot id, mounts, environment, command line of init: "
         "two sandboxes side by side compared")
WALLS = ["uts_namespace", "cgroup_namespace", "mount_namespace"]
NAMES = """
import re
def lines(path): return open(path).read()
def mounts():
    return sorted(re.sub(r"^\\d+ \\d+ \\d+:\\d+ |inode64|uid=\\d+|gid=\\d+|:\\[\\d+\\]", "", line) for line in open("/proc/self/mountinfo"))
seen = {"uname": [os.uname().nodename, socket.gethostname(), socket.getfqdn()],
        "domain": lines("/proc/sys/kernel/domainname"),
        "cgroup": re.sub(r"^\\d+", "", lines("/proc/self/cgroup"), flags=re.M), "hostname": lines("/etc/hostname"),
        "hosts": lines("/etc/hosts"), "passwd": lines("/etc/passwd"), "environ": sorted(os.environ.items()),
        "mounts": mounts(), "ids": [os.getuid(), os.getgid(), os.getgroups()], "cwd": os.getcwd(), "pid": os.getpid(),
        "init": lines("/proc/1/comm")}
"""


def both(box, **more):
    with neighbour(box, NAMES + "say = seen", **more) as (one, _):
        return one, look(box, NAMES + "found = seen", **more)


def attack(box):
    one, two = both(box)
    different = [name for name in one if one[name] != two[name]]
    if different:
        escaped("READ", "; ".join(f"{name}: {one[name]} {two[name]}" for name in different))
    paths = [line.split(":", 2)[2] for line in one["cgroup"].splitlines() if line]
    if one["uname"][0] != "coto" or set(paths) - {"/"}:
        escaped("READ", f"{one['uname']} {paths}")
    return f"all {len(one)} alike; host name 'coto', cgroup '/'"


def control(box):
    one, two = both(box, without=["uts_namespace", "cgroup_namespace"])
    own = one["uname"][0] == os.uname().nodename
    assert own or one["cgroup"] != two["cgroup"], (one, two)
    return "the host's own name is seen" + ("; cgroups named after the run" if one["cgroup"] != two["cgroup"] else "")
