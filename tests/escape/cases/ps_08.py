"""PS-08: a namespace that is claimed and not there."""
import os

from escape.harness import escaped

TITLE = "namespaces are really others"
TRIED = "inode numbers of all /proc/self/ns compared with the host's and with what the result says"
WALLS = ["user_namespace", "pid_namespace", "mount_namespace", "net_namespace", "ipc_namespace", "uts_namespace",
         "cgroup_namespace"]
LOOK = """
import json, os
print(json.dumps({name: os.readlink("/proc/self/ns/" + name) for name in os.listdir("/proc/self/ns")}))
"""
KINDS = {"user": "user_namespace", "pid": "pid_namespace", "mnt": "mount_namespace", "net": "net_namespace",
         "ipc": "ipc_namespace", "uts": "uts_namespace", "cgroup": "cgroup_namespace"}


def host():
    return {name: os.readlink(f"/proc/self/ns/{name}") for name in os.listdir("/proc/self/ns")}


def attack(box):
    done = box.python(LOOK)
    inside, outside, walls = done.told(), host(), done.json["walls"]
    same = [name for name in KINDS if inside[name] == outside[name]]
    if same:
        escaped("ESCAPE", f"the host's own: {', '.join(same)}")
    wrong = [name for name, wall in KINDS.items() if inside[name] not in (walls[wall]["value"] or "")]
    assert not wrong, f"the result names others: {wrong} {walls}"
    return f"{len(KINDS)} differ from the host's, as the result says"


def control(box):
    left_out = ["net_namespace", "ipc_namespace", "uts_namespace", "cgroup_namespace", "pid_namespace"]
    inside, outside = box.inside(LOOK, without=left_out), host()
    same = [name for name in KINDS if inside[name] == outside[name]]
    assert {"net", "ipc", "uts", "cgroup", "pid"} <= set(same), (inside, outside)
    # The other two stand at every level but this one, which has no namespace at all.
    inside = box.inside(LOOK, flags=["--isolation", "subprocess"])
    assert all(inside[name] == outside[name] for name in KINDS), (inside, outside)
    return f"the host's own when left out: {', '.join(same)}; at the level without walls all {len(KINDS)}"
