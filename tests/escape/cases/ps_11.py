"""PS-11: file systems that look into the kernel."""
from escape.harness import escaped
from escape.lib_files import all_refused, attempts

TITLE = "perf, tracefs, debugfs, bpf file systems"
TRIED = "their usual places and any mount of theirs looked for; each mounted by the old and the new call"
WALLS = ["mount_namespace", "seccomp"]
# The first one is where single device nodes of /dev come from: only mounted, not looked for.
TYPES = ["devtmpfs", "debugfs", "tracefs", "bpf", "securityfs", "configfs", "efivarfs", "pstore", "fusectl",
         "binfmt_misc", "hugetlbfs", "mqueue", "sysfs", "resctrl"]
PLACES = ["/sys", "/sys/kernel/debug", "/sys/kernel/tracing", "/sys/fs/bpf", "/sys/kernel/security",
          "/sys/kernel/config", "/sys/fs/pstore", "/sys/devices/cpu/events", "/proc/sys/fs/binfmt_misc/status",
          "/dev/mqueue", "/dev/hugepages"]
LOOK = {"mounts": f"[line.split(' - ')[1].split()[0] for line in open('/proc/self/mountinfo')"
                  f" if line.split(' - ')[1].split()[0] in {TYPES[1:]!r}]",
        "places": f"[path for path in {PLACES!r} if os.path.exists(path)]"}
MOUNT = {f"mount {kind}": f"kernel(165, b'none', b'/workspace', {kind.encode()!r}, 0, 0)" for kind in TYPES}
MOUNT |= {f"fsopen {kind}": f"kernel(430, {kind.encode()!r}, 0)" for kind in TYPES}


def attack(box):
    seen = attempts(box, LOOK)
    if seen != {"mounts": [], "places": []}:
        escaped("READ", str(seen))
    return "none there; " + all_refused(attempts(box, MOUNT), "ESCAPE")


def control(box):
    seen = attempts(box, LOOK, without=["mount_namespace", "landlock"])
    assert seen["places"] and seen["mounts"], seen
    made = attempts(box, MOUNT, without=["seccomp", "landlock", "capabilities", "mount_namespace"])
    done = [name for name, word in made.items() if word == "done"]
    assert {"mount mqueue", "mount sysfs", "fsopen debugfs", "fsopen bpf"} <= set(done), made
    return f"{len(seen['places'])} places in sight; done: {', '.join(done)}"
