"""ME-01: take more memory than allowed, plainly."""
from escape.harness import escaped
from escape.lib_hogs import SMALL, all_ended, all_held, has_limit, hold, spread

TITLE = "anonymous memory"
TRIED = ("80 MiB in one process, in forty children, in threads and by brk, with 48 "
         "MiB allowed")
WALLS = ["memory"]
CONTROL = "option"
HOGS = {
    "one process": "b = bytearray(80 << 20)",
    "forty children": spread(40, "b = bytearray(2 << 20)"),
    "brk": "libc.sbrk.restype = ctypes.c_void_p\nctypes.memset(libc.sbrk(ctypes.c_long(80 << 20)), 1, 80 << 20)",
    "threads": ("import threading\nend = threading.Barrier(14)\ndef fill():\n"
                "    a = (ctypes.c_char * (6 << 20))(); ctypes.memset(a, 1, 6 << 20); end.wait(); end.wait()\n"
                "for i in range(13): threading.Thread(target=fill, daemon=True).start()\nend.wait()"),
}


def attack(box):
    if has_limit(box, "memory"):
        return all_ended(box, HOGS)
    # Without a cgroup the result says that the limit holds per process only; it must hold there.
    result = hold(box, HOGS["one process"], SMALL)
    if b"held" in result.out or "memory" not in result.json["missing_walls"]:
        escaped("CRASH", f"80 MiB held by one process: {result}")
    return f"one process is stopped at its limit ({result.verdict}); missing_walls names memory for the tree"


def control(box):
    return all_held(box, HOGS if has_limit(box, "memory") else {"one process": HOGS["one process"]})
