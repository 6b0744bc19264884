"""SC-18: segments, virtual 8086 mode and I/O ports: parts of the CPU few have looked at."""
from escape.lib_calls import answers, expect, reached, row, summary

TITLE = "modify_ldt, vm86, iopl, ioperm"
TRIED = "modify_ldt read, write and default; iopl 0 and 3; ioperm; vm86 and vm86old through i386"
WALLS = ["seccomp"]
ROWS = [row("ldt_read", 154, 0, "b:128", 128), row("ldt_write", 154, 1, "m:0,0,0,32", 16),
        row("ldt_new", 154, 0x11, "m:0,0,0,32", 16), row("ldt_default", 154, 2, "b:128", 128),
        row("ldt_bad", 154, 99, 0, 0), row("iopl_0", 172, 0), row("iopl_3", 172, 3), row("iopl_bad", 172, 9),
        row("ioperm", 173, 0x80, 1, 1), row("ioperm_bad", 173, 0x10000, 1, 1), row("ioperm_off", 173, 0, 1, 0)]
OLD = [row("vm86old", 113, "b:128", abi=32), row("vm86", 166, 1, "b:128", abi=32)]
WORD = {line.split()[0]: "EPERM" for line in ROWS}


def attack(box):
    found = answers(box, ROWS + OLD)
    expect(found, {**WORD, "vm86old": {"SIGSYS", "SIGSEGV"}, "vm86": {"SIGSYS", "SIGSEGV"}})
    return summary(found)


def control(box):
    return reached(box, ROWS + OLD, {**WORD, "vm86old": "SIGSYS", "vm86": "SIGSYS"}, least=4)
