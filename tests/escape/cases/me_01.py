"""ME-01: take more memory than allowed, plainly."""
from escape.lib_hogs import all_ended, all_held, spread

TITLE = "anonymous memory"
TRIED = ("80 MiB in one process, in forty children, on stacks of threads and by brk, with 48 "
         "MiB allowed")
WALLS = ["memory"]
HOGS = {
    "one process": "b = bytearray(80 << 20)",
    "forty children": spread(40, "b = bytearray(2 << 20)"),
    "brk": "libc.sbrk.restype = ctypes.c_void_p\nctypes.memset(libc.sbrk(ctypes.c_long(80 << 20)), 1, 80 << 20)",
    "threads": ("import threading\nthreading.stack_size(8 << 20)\nend = threading.Barrier(14)\n"
                "def fill():\n    a = (ctypes.c_char * (6 << 20))(); ctypes.memset(a, 1, 6 << 20); end.wait(); end.wait()\n"
                "for i in range(13): threading.Thread(target=fill, daemon=True).start()\nend.wait()"),
}


def attack(box):
    return all_ended(box, HOGS)


def control(box):
    return all_held(box, HOGS)
