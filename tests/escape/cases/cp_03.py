"""CP-03: learn from timing what a neighbour does: counters, hyperthreads, interrupts.

Side channels of time and cache are out of scope and SECURITY.md says so; an operator
who cares pins sandboxes to cores of their own, and a program cannot undo that. What the kernel would hand out plainly is refused:
performance counters, core-scheduling cookies, per-interrupt and per-task statistics.
"""
import os

from escape.harness import SOURCE, escaped
from escape.lib_files import TRY
from escape.lib_pair import neighbour

TITLE = "timing of neighbours"
TRIED = ("perf_event_open for all CPUs and for oneself, PR_SCHED_CORE, /proc/interrupts, schedstat and "
         "timer lists; a neighbour's CPU time by clock and by /proc; the caller's pinning to a core widened")
WALLS = ["seccomp", "pid_namespace"]
PROBE = TRY + """
def read(path): return attempt(lambda: open(path).read())
def clock(pid): return attempt(time.clock_gettime, (~pid << 3) | 2)
# perf_event_attr: software (1), size 128, CPU clock (0)
attr = ctypes.create_string_buffer(bytes([1, 0, 0, 0, 128] + [0] * 123))
found = {"perf all": kernel(298, attr, -1, 0, -1, 0), "perf self": kernel(298, attr, 0, -1, -1, 0),
         "sched core": kernel(157, 62, 1, 0, 0, 0), "interrupts": read("/proc/interrupts"),
         "timer_list": read("/proc/timer_list"), "sched_debug": read("/proc/sched_debug"),
         "debugfs": read("/sys/kernel/debug/sched/debug"), "neighbour": read(f"/proc/{sys.argv[1]}/schedstat"),
         "neighbour's clock": clock(int(sys.argv[1]))}
found["wider"] = attempt(os.sched_setaffinity, 0, range(os.cpu_count()))
print(json.dumps([found, sorted(os.sched_getaffinity(0))]))
"""


def probe(box, **more):
    with neighbour(box, "", **more) as (_, it):
        return box.inside(PROBE, args=[it.program()], **more)


def attack(box):
    with box.pinned() as cpu:
        found, cores = probe(box)
    done = [name for name, word in found.items() if word == "done"]
    if done:
        escaped("READ", f"{done}")
    if cores != [cpu] and not box.level:  # an engine's containers are not its caller's children
        escaped("ESCAPE", f"pinned to core {cpu}, runs on {cores}")
    assert "timing and cache side channels" in (SOURCE / "SECURITY.md").read_text()
    return f"{len(found)} refused or absent; a caller's pinning holds; the rest is out of scope (SECURITY.md)"


def control(box):
    """What this kernel has of it answers; what it has not, or denies to everybody, is named."""
    with box.pinned():
        found, cores = probe(box, without=["seccomp", "pid_namespace", "proc_masks", "landlock"])
    done = [name for name, word in found.items() if word == "done"]
    assert {"interrupts", "neighbour", "neighbour's clock", "wider"} <= set(done), found
    assert len(cores) == len(os.sched_getaffinity(0)), cores
    other = [f"{name} {word}" for name, word in found.items() if word != "done"]
    return f"{', '.join(done)} answered, {len(cores)} cores; not shown here: {', '.join(other) or 'nothing'}"
