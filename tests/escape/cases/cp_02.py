"""CP-02: get ahead of the host's own processes in the scheduler."""
import resource

from escape.harness import escaped
from escape.lib_calls import HIGH, answers, row, summary

TITLE = "real-time classes, nice, I/O priority"
TRIED = ("FIFO, RR, DEADLINE, negative nice, real-time I/O, affinity of init, also with high bits, by a "
         "caller whose own limits would allow it")
WALLS = ["seccomp"]
ONE = "m:1"
# struct sched_attr: size, policy, flags, nice, priority, runtime, deadline, period. Batch with nice 19: a caller
# may be nice itself, and back to 0 would be refused without any wall.
DEADLINE = "m:48,6,0,0,0,0,1000000,0,10000000,0,10000000,0"
BATCH = "m:48,3,0,0,19,0,0,0,0,0,0,0"
ROWS = [row("fifo", 144, 0, 1, ONE), row("rr", 144, 0, 2, ONE), row("fifo_high", 144, 0, HIGH | 1, ONE),
        row("fifo_reset", 144, 0, 0x40000001, ONE), row("deadline", 144, 0, 6, ONE),
        row("setattr_deadline", 314, 0, DEADLINE, 0), row("setattr_batch", 314, 0, BATCH, 0),
        row("setparam", 142, 0, ONE), row("nice", 141, 0, 0, -10), row("nice_group", 141, 1, 0, -10),
        row("nice_user", 141, 2, 0, -10), row("ioprio_rt", 251, 1, 0, 1 << 13),
        row("ioprio_idle", 251, 1, 0, 3 << 13), row("affinity_of_init", 203, 1, 8, "m:1,0"),
        row("affinity_of_init_high", 203, HIGH | 1, 8, "m:1,0"), row("param_of_init", 142, 1, "m:0")]


def generous():
    """A caller with every right that a limit can give, as far as it can be had."""
    for what in (resource.RLIMIT_RTPRIO, resource.RLIMIT_NICE):
        try:
            resource.setrlimit(what, (40, 40))
        except (ValueError, OSError):
            pass


def attack(box):
    found = answers(box, ROWS, preexec_fn=generous)
    done = [name for name, word in found.items() if word not in ("EPERM", "EACCES", "EINVAL")]
    if done:
        escaped("CRASH", f"{done}: {found}")
    return summary(found)


def control(box):
    found = answers(box, ROWS, without=["seccomp", "rlimits"], preexec_fn=generous)
    done = [name for name, word in found.items() if word == "ok"]
    # Real-time classes too, where the caller could raise its limits.
    assert {"setattr_batch", "ioprio_idle", "affinity_of_init"} <= set(done), found
    return f"{len(done)} of {len(found)} done: {', '.join(done[:6])}"
