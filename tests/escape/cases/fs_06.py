"""FS-06: mount something: a fresh /proc, an overlay, a bind of what is hidden."""
from escape.harness import Untestable
from escape.lib_files import all_refused
from escape.lib_mounts import tried

TITLE = "mounts by the old and the new calls"
TRIED = "17 mount(2) and umount2, pivot_root, chroot variants, 8 of the new calls, before and after unshare"
WALLS = ["seccomp", "capabilities", "landlock", "user_namespace"]

WAYS = ["tmpfs", "proc", "sysfs", "overlay", "fuse", "cgroup", "devpts", "mqueue", "bind", "rbind", "move", "remount",
        "remount_usr", "shared", "umount", "pivot", "chroot", "fsopen", "new_tmpfs", "new_proc", "fspick", "open_tree",
        "new_bind", "setattr", "open_tree_attr"]


def attack(box):
    words = [all_refused(tried(box, [*WAYS, "ns", *WAYS], flags=["--seccomp", tier]), "ESCAPE")
             for tier in ("strict", "default", "debug")]
    # No capability that a policy can give back is enough.
    kept = tried(box, WAYS, flags=["--cap-add", "chown,fowner,setuid,setgid"])
    all_refused(kept, "ESCAPE")
    return words[1]


def control(box):
    """In a user namespace of its own a program may mount, when neither filter nor Landlock forbid it."""
    found = tried(box, ["ns", "tmpfs", "bind", "new_tmpfs", "chroot"], without=["seccomp", "landlock"])
    if found["ns"] != "done":
        raise Untestable(f"no nested user namespace on this host: {found['ns']}")
    done = [way for way, word in found.items() if word == "done"]
    assert {"tmpfs", "bind", "new_tmpfs"} <= set(done), found
    return "done: " + ", ".join(done)
