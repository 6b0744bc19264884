"""SC-06: init holds the sandbox's strings; reach into its memory."""
from escape.harness import escaped
from escape.lib_calls import answers, expect, row, summary

TITLE = "tracing or reading init"
TRIED = ("ptrace attach, seize, traceme; process_vm_readv, writev; /proc/1/mem for reading and writing; also "
         "in tier debug")
WALLS = ["seccomp", "pid_namespace", "landlock", "capabilities"]
TEXT = "m:0x400000,0,16,0"  # where init's program lies: an iovec of 16 bytes
# Attaching stops init, which ends the run by its time limit: the control only seizes it.
ATTACH = [row("attach", 101, 16, 1, 0, 0), row("attach_high", 101, 0x12300000010, 1, 0, 0)]
ROWS = [row("seize", 101, 0x4206, 1, 0, 0), row("traceme", 101, 0, 0, 0, 0),
        row("readv", 310, 1, "v:16", 1, TEXT, 1, 0), row("writev", 311, 1, "v:16", 1, TEXT, 1, 0),
        row("mem_read", 2, "s:/proc/1/mem", 0), row("mem_write", 2, "s:/proc/1/mem", 2),
        row("own_mem_write", 2, "s:/proc/self/mem", 2), row("pidfd", 438, 0, 1, 0)]
OPEN = {"mem_read": {"EACCES", "EPERM"}, "mem_write": {"EACCES", "EPERM", "EROFS"},
        "own_mem_write": {"EACCES", "EPERM", "EROFS"}}


def attack(box):
    found = answers(box, ATTACH + ROWS)
    expect(found, {**{name: "EPERM" for name in found}, **OPEN})
    debug = answers(box, ATTACH + ROWS, flags=["--seccomp", "debug"])
    got = [name for name in ("attach", "attach_high", "seize", "readv", "writev", "mem_read", "mem_write")
           if debug[name] == "ok"]
    if got:
        escaped("ESCAPE", f"tier debug: {', '.join(got)} on init")
    assert debug["traceme"] == "ok", "tier debug allows no tracing at all: nothing is shown"
    return f"{summary(found)}; tier debug: init {debug['attach']}"


def control(box):
    """Without the filter and with an init that is dumpable and has no more rights than the program."""
    found = answers(box, ROWS, without=["seccomp", "landlock", "dumpable", "capabilities"])
    assert found["seize"] == found["mem_read"] == found["readv"] == "ok", found
    return f"init traced, its memory read, /proc/1/mem opened ({summary(found)})"
