"""SC-10: bpf, perf events and userfaultfd: the kernel's own programmability."""
from escape.lib_calls import answers, expect, reached, row, summary

TITLE = "bpf, perf_event_open, userfaultfd"
TRIED = ("bpf map, program load, object by id; software perf counter on self, init, all; userfaultfd with and "
         "without user mode")
WALLS = ["seccomp"]
MAP = "m:2,4,4,1" + ",0" * 28
PERF = "m:1,128" + ",0" * 30  # PERF_TYPE_SOFTWARE, size 128, PERF_COUNT_SW_CPU_CLOCK
ROWS = [row("bpf_map", 321, 0, MAP, 128), row("bpf_load", 321, 5, "b:128", 128),
        row("bpf_next_id", 321, 11, "b:128", 128), row("bpf_bad", 321, 9999, "b:128", 128),
        row("perf_self", 298, PERF, 0, -1, -1, 0), row("perf_init", 298, PERF, 1, -1, -1, 0),
        row("perf_cpu", 298, PERF, -1, 0, -1, 0), row("perf_bad", 298, -1, 0, -1, -1, 0),
        row("uffd", 323, 0), row("uffd_user", 323, 1), row("uffd_bad", 323, -1)]
WORD = {line.split()[0]: "EPERM" for line in ROWS}


def attack(box):
    found = answers(box, ROWS)
    expect(found, WORD)
    debug = answers(box, ROWS, flags=["--seccomp", "debug"])
    expect(debug, {name: "EPERM" for name in WORD if name not in ("perf_self", "perf_bad")})
    return f"{summary(found)}; in tier debug all but a counter on itself"


def control(box):
    return reached(box, ROWS, WORD, least=3, without=["seccomp", "capabilities"])
