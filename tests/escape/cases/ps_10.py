"""PS-10: newer calls that describe any mount the kernel knows."""
import os

from escape.harness import Untestable, escaped
from escape.lib_calls import answers, expect, row, summary
from escape.lib_files import attempts

TITLE = "statmount, listmount, statfs"
TRIED = ("listmount and statmount of the root and of mount 1; statfs of every place against what the sandbox "
         "was given")
WALLS = ["seccomp", "mount_namespace"]
ROOT = "m:32,0,0xffffffff,0xffffffff,0,0,0,0"  # struct mnt_id_req: size, LSMT_ROOT
ROWS = [row("listmount", 458, ROOT, "b:4096", 64, 0), row("statmount", 457, "m:32,0,1,0,15,0,0,0", "b:4096", 4096, 0),
        row("statmount_high", 457, "m:32,0,1,0,15,0,0,0", "b:4096", 4096, 0x12300000000),
        row("fsinfo", 441, -1, 0, 0, 0), row("ustat", 136, 0, "b:64"), row("sysfs", 139, 3)]
SIZES = {path: f"os.statvfs({path!r}).f_blocks * os.statvfs({path!r}).f_frsize" for path in
         ("/workspace", "/tmp", "/dev/shm")}


LIMITS = ["--disk", "8m", "--tmp-size", "4m"]


def attack(box):
    found = answers(box, ROWS)
    expect(found, {"listmount": "ENOSYS", "statmount": "ENOSYS", "statmount_high": "ENOSYS", "ustat": "EPERM",
                   "sysfs": "EPERM"}, "READ")
    sizes = attempts(box, SIZES, flags=LIMITS)
    if sizes != {"/workspace": 8 << 20, "/tmp": 4 << 20, "/dev/shm": 4 << 20}:
        escaped("READ", f"statfs: {sizes}")
    return f"{summary(found)}; statfs tells the sandbox's own sizes"


def control(box):
    sizes = attempts(box, SIZES, flags=LIMITS, without=["mount_namespace", "landlock"])
    assert sizes["/tmp"] == os.statvfs("/tmp").f_blocks * os.statvfs("/tmp").f_frsize, sizes
    found = answers(box, ROWS, without=["seccomp"])
    if found["listmount"] == "ENOSYS":
        raise Untestable("this kernel has no listmount")
    assert found["listmount"] == "ok" and found["sysfs"] in ("ok", "ENOSYS"), found
    return f"listmount works ({summary(found)}); statfs tells the host's sizes"
