"""ME-07: make the kernel spend memory on page tables for pages that cost nothing."""
from escape.lib_hogs import all_ended, all_held, need_limit, spread

TITLE = "page tables"
TRIED = ("reads of one zero page in every 2 MiB of 100 GiB, in one process and in four, with 48 "
         "MiB allowed")
WALLS = ["memory"]
CONTROL = "option"
TOUCH = """
m = mmap.mmap(-1, 100 << 30, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x4000, prot=mmap.PROT_READ)
m.madvise(mmap.MADV_NOHUGEPAGE)
def touch(first, step):
    for i in range(first, 100 << 30, step): m[i]
"""
HOGS = {"one process": TOUCH + "touch(0, 2 << 20)",
        "four processes": TOUCH + spread(4, "touch(n * (2 << 20), 8 << 20)")}


def attack(box):
    return all_ended(box, HOGS)


def control(box):
    need_limit(box, "memory")
    return all_held(box, HOGS)
