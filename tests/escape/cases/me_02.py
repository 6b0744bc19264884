"""ME-02: keep memory in shared mappings, which belong to nobody's heap."""
from escape.lib_hogs import all_ended, all_held, need_limit

TITLE = "shared anonymous memory and System V segments"
TRIED = "80 MiB in MAP_SHARED, in one segment, in 50 detached segments, with 48 MiB allowed"
WALLS = ["memory"]
CONTROL = "option"
HOGS = {
    "MAP_SHARED": "m = mmap.mmap(-1, 80 << 20)\nfor i in range(0, 80 << 20, 4096): m[i] = 1",
    "segment": ("libc.shmat.restype = ctypes.c_void_p\ni = libc.shmget(0, ctypes.c_size_t(80 << 20), 0o1600)\n"
                "ctypes.memset(libc.shmat(i, None, 0), 1, 80 << 20)"),
    "detached segments": ("libc.shmat.restype = ctypes.c_void_p\nfor n in range(20):\n"
                          "    a = libc.shmat(libc.shmget(0, ctypes.c_size_t(4 << 20), 0o1600), None, 0)\n"
                          "    ctypes.memset(a, 1, 4 << 20); libc.shmdt(ctypes.c_void_p(a))"),
}


def attack(box):
    return all_ended(box, HOGS)


def control(box):
    need_limit(box, "memory")
    return all_held(box, HOGS)
