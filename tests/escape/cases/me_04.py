"""ME-04: lock memory so that the host cannot take it back, or hide it from the host."""
import resource

from escape.harness import escaped
from escape.lib_files import TRY

TITLE = "locked and secret memory"
TRIED = "mlock, mlock2, mlockall, MAP_LOCKED past RLIMIT_MEMLOCK; a raised limit; memfd_secret"
WALLS = ["seccomp"]
LOCK = TRY + """
import resource
size = 4 << 20
libc.mmap.restype = ctypes.c_void_p
def area(flags=0x22): return libc.mmap(None, ctypes.c_size_t(size), 3, flags, -1, ctypes.c_long(0))
a = area()
def word(result): return "done" if result == 0 else errno.errorcode[ctypes.get_errno()]
found = {"mlock": word(libc.mlock(ctypes.c_void_p(a), ctypes.c_size_t(size))),
         "mlock2": word(libc.syscall(325, ctypes.c_void_p(a), ctypes.c_size_t(size), ctypes.c_long(1))),
         "mlockall": word(libc.mlockall(7)),
         "MAP_LOCKED": "done" if area(0x2022) not in (None, 2**64 - 1) else "refused",
         "memfd_secret": kernel(447, 0)}
try:
    resource.setrlimit(resource.RLIMIT_MEMLOCK, (-1, -1)); found["raise"] = "done"
except (ValueError, OSError): found["raise"] = "refused"
line = next(line for line in open("/proc/self/status") if line.startswith("VmLck"))
found["locked"] = int(line.split()[1])
found["limit"] = resource.getrlimit(resource.RLIMIT_MEMLOCK)[1]
print(json.dumps(found))
"""


def attack(box):
    found = box.inside(LOCK)
    limit = found.pop("limit")
    locked = found.pop("locked")
    done = [name for name, word in found.items() if word == "done"]
    if done or limit < 0 or locked > limit >> 10:
        escaped("CRASH", f"done: {done}, {locked} KiB locked, limit {limit}")
    return f"{', '.join(f'{k} {v}' for k, v in found.items())}; RLIMIT_MEMLOCK {limit >> 10} KiB"


def control(box):
    def raise_limit():
        hard = resource.getrlimit(resource.RLIMIT_MEMLOCK)[1]
        resource.setrlimit(resource.RLIMIT_MEMLOCK, (hard, hard))
    found = box.inside(LOCK, without=["rlimits", "seccomp"], preexec_fn=raise_limit)
    done = [name for name, word in found.items() if word == "done"]
    assert done, found
    return f"with the caller's own limit: {', '.join(done)} done, {found['locked']} KiB locked"
