"""FS-07: take a mask off, or cover it, to read what it hides (CVE-2025-31133)."""
from escape.harness import escaped
from escape.lib_files import all_done, all_refused, attempts, counted
from escape.lib_mounts import tried

TITLE = "masked files of /proc"
TRIED = "bind, move, umount and remount over a mask; the masked files by 9 other names; /dev/null replaced first"
WALLS = ["seccomp", "landlock", "mount_namespace", "capabilities"]

WAYS = ["mask_bind", "mask_move", "mask_umount", "mask_detach", "mask_remount", "mask_tree", "mask_proc_over",
        "mask_sys", "mask_read", "mask_under"]
MASKED = ["keys", "key-users", "kallsyms", "interrupts"]
NAMES = ["/proc/{}", "/proc/self/../{}", "/proc/1/../{}", "/proc/self/root/proc/{}", "/proc/self/cwd/../proc/{}",
         "/proc/thread-self/../../../{}", "/proc/./{}", "//proc//{}", "/dev/fd/../../{}"]


def reads():
    rows = {}
    for mask in MASKED:
        for name in NAMES:
            rows[name.format(mask)] = f"attempt(lambda: open({name.format(mask)!r}).read(1))"
        rows[f"/proc/{mask} by directory"] = (
            f"attempt(lambda: os.open('{mask}', 0, dir_fd=os.open('/proc', os.O_PATH)))")
    return rows


def attack(box):
    found = tried(box, [*WAYS, "ns", *WAYS])
    all_refused(found, "ESCAPE")
    # CVE-2025-31133: masks were bind mounts of a /dev/null that the image had replaced.
    swapped = attempts(box, {"unlink": "attempt(os.unlink, '/dev/null')",
                             "rename": "attempt(os.rename, '/dev/null', '/dev/x')",
                             "link": "attempt(os.symlink, '/proc/kallsyms', '/dev/null')"})
    all_refused(swapped, "WRITE")
    read = attempts(box, reads())
    if "done" in read.values():
        escaped("READ", ", ".join(name for name, word in read.items() if word == "done"))
    return f"{counted(found.values())}; reads {counted(read.values())}"


def control(box):
    """The same names without masks; and a program that may mount takes a mask off, or looks beside it."""
    read = attempts(box, reads(), without=["proc_masks"])
    seen = [name for name, word in read.items() if word == "done"]
    assert "/proc/kallsyms" in seen and "/proc/self/root/proc/interrupts" in seen, read
    found = tried(box, ["mask_first", "mask_tree", "mask_under", "mask_umount", "mask_read"],
                  without=["seccomp", "landlock", "capabilities"])
    assert found.pop("mask_first") != "done", found
    return f"{len(seen)} of {len(read)} names read; mask taken off, a /proc without masks mounted: {all_done(found)}"
