"""SC-04: bit 30 of the number selects the x32 table."""
from escape.harness import Untestable
from escape.lib_calls import X32, answers, expect, row, summary

TITLE = "x32 bit in the number"
TRIED = "x32 getpid, read, ptrace, execve, ioctl, and numbers from 2^30 to 2^32 - 2"
WALLS = ["seccomp"]
LOW = {"getpid": 39, "read": 0, "ptrace": 521, "execve": 520, "ioctl": 514, "io_uring_setup": 425, "last": 547}
ROWS = ([row(name, X32 | number) for name, number in LOW.items()]
        + [row("bit31", 0x80000000), row("bits30_31", 0xc0000027), row("minus_two", 0xfffffffe)])


def attack(box):
    found = answers(box, ROWS + [row("minus_one", 0xffffffff), row("high_word", 0x123 << 32 | 39)])
    # -1 is what libraries call where a call does not exist; the kernel drops the high word.
    expect(found, {**{name: "SIGSYS" for name in found}, "minus_one": "ENOSYS", "high_word": {"ok", "ENOSYS"}})
    return summary(found)


def control(box):
    found = answers(box, ROWS, without=["seccomp"])
    if found["getpid"] == "ENOSYS":
        raise Untestable("this kernel has no x32 table: it answers ENOSYS by itself, which is as safe")
    assert found["getpid"] == "ok", found
    assert "SIGSYS" not in found.values(), found
    return f"the kernel answers: {summary(found)}"
