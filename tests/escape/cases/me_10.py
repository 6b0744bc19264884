"""ME-10: lose a child to the memory limit and go on as if nothing had been."""
from escape.harness import escaped
from escape.lib_files import TRY
from escape.lib_hogs import LARGE, SMALL, need_limit

TITLE = "a child out of memory"
TRIED = ("a child goes past 48 MiB and dies; its parent ends with 0, with 3, and by a signal of "
         "its own")
WALLS = ["memory"]
CONTROL = "option"
CHILD = TRY + """
pid = os.fork()
if pid == 0:
    b = bytearray(80 << 20); os._exit(0)
_, status = os.waitpid(pid, 0)
print(os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0, flush=True)
if sys.argv[1] == "signal": os.kill(os.getpid(), 15)
sys.exit(int(sys.argv[1]))
"""


def attack(box):
    need_limit(box, "memory")
    words = []
    for how in ("0", "3", "signal"):
        result = box.python(CHILD, args=[how], flags=SMALL)
        if result.text not in ("9", ""):
            escaped("CRASH", f"the child lived: {result}")
        peak = result.json["memory_peak_bytes"]
        # Who ends well in spite of it is ok; the peak tells. Any other end is put down to memory.
        wanted = ("ok", "oom") if how == "0" else ("oom",)
        if result.verdict not in wanted or peak < 44 << 20:
            escaped("CRASH", f"parent ended with {how}: {result.verdict}, peak {peak >> 20} MiB")
        words.append(f"{how}: {result.verdict}")
    return f"child killed; parent's verdict {', '.join(words)}; peak at the limit"


def control(box):
    need_limit(box, "memory")
    result = box.python(CHILD, args=["3"], flags=LARGE)
    assert (result.verdict, result.text) == ("nonzero", "0"), result
    return "with 300 MiB the child lives and the parent's 3 is its own"
