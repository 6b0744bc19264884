"""PS-05: names of people or tenants in paths that the kernel shows."""
import pathlib

from escape.harness import Untestable, escaped

TITLE = "host names in mountinfo, mounts, cgroup"
TRIED = ("mountinfo, mounts, mountstats, cgroup, cpuset searched for the caller's directories, state paths "
         "and coto's own cgroup names")
WALLS = ["mount_namespace", "cgroup_namespace"]
LOOK = """
import json
print(json.dumps({name: open("/proc/self/" + name).read() for name in
                  ("mountinfo", "mounts", "mountstats", "cgroup", "cpuset")
                  if __import__("os").path.exists("/proc/self/" + name)}))
"""


def names_found(box, **more):
    place = box.folder / "tenant-alice"
    place.mkdir(exist_ok=True)
    (place / "data").write_text("x")
    place.chmod(0o755)
    flags = ["--copy", f"{place}:/workspace/data", "--artifacts", place / "out", *more.pop("flags", [])]
    told = box.inside(LOOK, flags=[flag.format(place=place) if isinstance(flag, str) else flag for flag in flags],
                      cwd=place, **more)
    words = ["alice", str(box.folder), "coto-"]
    return sorted(f"{name}: {word}" for name, text in told.items() for word in words if word in text)


def attack(box):
    found = names_found(box)
    if found:
        escaped("READ", ", ".join(found))
    return "no name of the caller's, no cgroup name"


def control(box):
    """A directory that the policy shows inside brings its path along (docs/SANDBOX.md)."""
    found = names_found(box, flags=["--mount", "{place}:/mnt/x"])
    assert any("mountinfo" in one and "alice" in one for one in found), found
    cgroup = names_found(box, without=["cgroup_namespace", "mount_namespace", "landlock"])
    inside = box.sh("cat /proc/self/cgroup", without=["cgroup_namespace"]).text
    if inside == pathlib.Path("/proc/self/cgroup").read_text().strip():
        raise Untestable("the path of a mount is seen, but coto makes no cgroup here whose name could be")
    assert "cgroup: coto-" in cgroup, cgroup
    return f"{', '.join(found)}; without its namespace: {', '.join(cgroup)}"
