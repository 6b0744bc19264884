"""PS-09: cgroup files give back the limits, and on v1 a program run by the kernel."""
from escape.harness import escaped
from escape.lib_files import all_refused, attempts

TITLE = "cgroup file system in sight"
TRIED = ("/sys/fs/cgroup and any cgroup mount looked for; cgroup and cgroup2 mounted; limits and "
         "release_agent opened for writing")
WALLS = ["mount_namespace", "seccomp", "cgroup_namespace"]
PLACES = ["/sys/fs/cgroup", "/sys/fs/cgroup/memory", "/sys/fs/cgroup/unified", "/cgroup", "/dev/cgroup"]
LOOK = {"mounts": "[line.split()[4] for line in open('/proc/self/mountinfo') if ' - cgroup' in line]",
        "places": f"[path for path in {PLACES!r} if os.path.exists(path)]"}
OPEN = {path: f"attempt(os.open, {path!r}, os.O_WRONLY)" for path in
        ("/sys/fs/cgroup/cgroup.procs", "/sys/fs/cgroup/memory/memory.limit_in_bytes",
         "/sys/fs/cgroup/memory/release_agent", "/sys/fs/cgroup/pids/cgroup.procs")}
OPEN |= {f"mount {kind}": f"kernel(165, b'none', b'/workspace', {kind!r}, 0, 0)" for kind in (b"cgroup", b"cgroup2")}


def attack(box):
    seen = attempts(box, LOOK)
    if seen != {"mounts": [], "places": []}:
        escaped("READ", str(seen))
    return "absent; " + all_refused(attempts(box, OPEN), "WRITE")


def control(box):
    seen = attempts(box, LOOK, without=["mount_namespace", "landlock"])
    assert "/sys/fs/cgroup" in seen["places"] and seen["mounts"], seen
    made = attempts(box, {name: OPEN[name] for name in OPEN if name.startswith("mount")},
                    without=["seccomp", "landlock", "capabilities"])
    assert made["mount b'cgroup2'"] == "done", made
    return f"{len(seen['mounts'])} cgroup mounts in sight; cgroup2 mounted"
