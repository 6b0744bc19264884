"""ME-03: keep memory in memfds, or take the host's reserve of huge pages, which no cgroup of memory counts."""
from escape.harness import escaped
from escape.lib_files import TRY
from escape.lib_hogs import all_ended, all_held, need_limit

TITLE = "memfd and huge pages"
TRIED = ("80 MiB in memfds, open and passed on; huge pages by mmap, memfd and shmget, also with"
         " high bits")
WALLS = ["memory", "seccomp"]
HOGS = {
    "memfd": "fd = os.memfd_create('x')\nfor i in range(80): os.write(fd, bytes(1 << 20))",
    "memfd in flight": ("import array\na, b = socket.socketpair()\nfor n in range(20):\n    fd = os.memfd_create('x')\n"
                        "    os.write(fd, bytes(4 << 20))\n"
                        "    a.sendmsg([b'x'], [(1, 1, array.array('i', [fd]))]); os.close(fd)"),
}
HUGE = TRY + """
high = 0x123 << 32
def huge(flags):
    ctypes.set_errno(0)
    numbers = [ctypes.c_long(n) for n in (0, 2 << 20, 3, flags, -1, 0)]
    libc.syscall(9, *numbers)
    return "done" if not ctypes.get_errno() else errno.errorcode[ctypes.get_errno()]
found = {"mmap": huge(0x40022), "mmap 2M": huge(0x40022 | 21 << 26), "mmap 1G": huge(0x40022 | 30 << 26),
         "mmap high": huge(high | 0x40022), "shared": huge(0x40021), "memfd": kernel(319, b"x", 4),
         "memfd 2M": kernel(319, b"x", 4 | 21 << 26), "memfd high": kernel(319, b"x", high | 4),
         "shmget": kernel(29, 0, 2 << 20, 0o4000 | 0o1600)}
print(json.dumps(found))
"""


def attack(box):
    found = box.inside(HUGE)
    # Without a reserve the kernel says ENOMEM, and only then: the filter must have answered.
    wrong = {name: word for name, word in found.items() if word != "EPERM"}
    if wrong:
        escaped("CRASH", f"huge pages are the kernel's to refuse: {wrong}")
    return all_ended(box, HOGS) + "; huge pages EPERM"


def control(box):
    need_limit(box, "memory")
    found = box.inside(HUGE, without=["seccomp"])
    assert found["memfd"] == "done" and found["mmap"] in ("done", "ENOMEM"), found
    return all_held(box, HOGS) + f"; without the filter memfd of huge pages {found['memfd']}, mmap {found['mmap']}"
