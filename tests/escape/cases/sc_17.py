"""SC-17: personalities that undo the address-space protections of every later program."""
from escape.lib_calls import HIGH, answers, expect, reached, row, summary

TITLE = "personality(2)"
TRIED = ("READ_IMPLIES_EXEC, MMAP_PAGE_ZERO, ADDR_COMPAT_LAYOUT, SHORT_INODE, SVR4, BSD and mixtures with "
         "what is allowed")
WALLS = ["seccomp"]
DENIED = {"read_implies_exec": 0x400000, "with_no_randomize": 0x440000, "mmap_page_zero": 0x100000,
          "compat_layout": 0x200000, "short_inode": 0x1000000, "whole_seconds": 0x2000000,
          "sticky_timeouts": 0x4000000, "addr_3gb": 0x8000000, "svr4": 0x4100001, "bsd": 6, "no_randomize_32": 0x40008,
          "limit_32bit_3gb": 0x8800000, "high": HIGH | 0x400000, "high_zero": HIGH, "nearly_query": 0xfffffffe}
ALLOWED = {"query": 0xffffffff, "linux": 0, "linux32": 8, "uname26": 0x20000, "no_randomize": 0x40000}
ROWS = [row(name, 135, value) for name, value in DENIED.items()]


def attack(box):
    found = answers(box, ROWS)
    expect(found, {name: "EPERM" for name in found})
    plain = answers(box, [row(name, 135, value) for name, value in ALLOWED.items()])
    assert set(plain.values()) == {"ok"}, plain
    return f"{summary(found)}; the {len(plain)} allowed ones work"


def control(box):
    return reached(box, ROWS, {name: "EPERM" for name in DENIED}, least=10)
