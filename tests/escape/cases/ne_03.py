"""NE-03: speak to the kernel's own services over netlink."""
from escape.lib_calls import HIGH, row
from escape.lib_net import supported, unsupported

TITLE = "netlink"
TRIED = ("every netlink protocol from 0 to 31 (route, xfrm, netfilter, audit, uevent, diag, generic), "
         "raw and dgram, high bits set")
WALLS = ["seccomp"]
ROWS = [row(f"netlink_{n}_{kind}", 41, 16, kind, n) for n in range(32) for kind in (2, 3)]
ROWS += [row(f"netlink_{n}_high", 41, HIGH | 16, 3, n) for n in (4, 6, 9, 12, 15, 16)]
ROWS += [row(f"netlink_{n}_high_protocol", 41, 16, 3, HIGH | n) for n in (4, 6, 9, 12, 15, 16)]


def attack(box):
    return unsupported(box, ROWS)


def control(box):
    return supported(box, ROWS, least=2)
