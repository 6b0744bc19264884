"""NE-03: speak to the kernel's own services over netlink."""
from escape.lib_calls import HIGH, answers, expect, reached, row, summary

TITLE = "netlink beyond ROUTE"
TRIED = ("every netlink protocol from 1 to 31 (xfrm, netfilter, audit, uevent, diag, generic), "
         "raw and dgram, high bits set")
WALLS = ["seccomp"]
ROWS = [row(f"netlink_{n}_{kind}", 41, 16, kind, n) for n in range(1, 32) for kind in (2, 3)]
ROWS += [row(f"netlink_{n}_high", 41, HIGH | 16, 3, n) for n in (4, 6, 9, 12, 15, 16)]
ROWS += [row(f"netlink_{n}_high_protocol", 41, 16, 3, HIGH | n) for n in (4, 6, 9, 12, 15, 16)]
WANTED = {line.split()[0]: "EAFNOSUPPORT" for line in ROWS}


def attack(box):
    found = answers(box, ROWS)
    expect(found, WANTED)
    return summary(found)


def control(box):
    return reached(box, ROWS, WANTED, least=2)
