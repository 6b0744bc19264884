"""ME-08: use swap beyond what the memory limit allows."""
from cli.helpers import WAITER, cgroups_of
from escape.harness import escaped
from escape.lib_hogs import need_limit

TITLE = "swap"
TRIED = ("the kernel's limit on memory and swap together of a running sandbox, read on the host;"
         " madvise(PAGEOUT) past the limit")
WALLS = ["swap", "memory"]
CONTROL = "option"
# Pages pushed out leave the memory limit; only a limit on swap stops that.
PUSH = """
import mmap
keep = []
for n in range(20):
    m = mmap.mmap(-1, 4 << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    m[:] = b'x' * (4 << 20); m.madvise(21); keep.append(m)
print('held', flush=True)
"""


def allowed(box, *flags):
    """Bytes of swap the kernel allows a running sandbox."""
    with box.running(WAITER, flags=["--memory", "48m", *flags]) as it:
        groups = cgroups_of(it.program())
        if "memory" in groups:
            folder = groups["memory"]
            both = int((folder / "memory.memsw.limit_in_bytes").read_text())
            return both - int((folder / "memory.limit_in_bytes").read_text())
        text = (groups[""] / "memory.swap.max").read_text().strip()
        return 1 << 62 if text == "max" else int(text)


def attack(box):
    need_limit(box, "memory")
    need_limit(box, "swap")
    swap = allowed(box)
    result = box.python(PUSH, flags=["--memory", "48m"])
    if swap or b"held" in result.out:
        escaped("CRASH", f"{swap} bytes of swap allowed, {result.verdict}")
    assert result.verdict == "oom", result
    return "0 bytes of swap allowed by the kernel; pushed-out pages end as oom"


def control(box):
    need_limit(box, "memory")
    swap = allowed(box, "--swap", "64m")
    assert swap == 64 << 20, swap
    return "with --swap 64m the kernel's file says 64 MiB"
