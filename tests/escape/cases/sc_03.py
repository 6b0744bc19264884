"""SC-03: socketcall(2) carries the socket family in memory, where no filter looks."""
from escape.lib_calls import answers, expect, need_i386, row, summary

TITLE = "socketcall(2) hides the family"
TRIED = "i386 socketcall(SOCKET) and (SOCKETPAIR) for ALG, VSOCK, PACKET, netlink uevent, UNIX"
WALLS = ["seccomp"]
SOCKETS = {"alg": "38,5,0", "vsock": "40,1,0", "packet": "17,3,0", "uevent": "16,3,15", "unix": "1,1,0"}
ROWS = ([row(name, 102, 1, f"m:{words}", abi=32) for name, words in SOCKETS.items()]
        + [row("direct_alg", 359, 38, 5, 0, abi=32), row("pair", 102, 8, "m:1,1,0,0", abi=32)])
NATIVE = [row("uevent", 41, 16, 3, 15)]


def attack(box):
    need_i386(box)
    found = answers(box, ROWS)
    expect(found, {name: "SIGSYS" for name in found})
    return summary(found)


def control(box):
    """Without the filter the uevent socket, which socket(2) refuses, is made through memory."""
    need_i386(box)
    assert answers(box, NATIVE) == {"uevent": "EAFNOSUPPORT"}
    found = answers(box, ROWS, without=["seccomp"])
    assert found["uevent"] == found["unix"] == "ok" and "SIGSYS" not in found.values(), found
    return "socketcall gives a netlink uevent socket, which socket(2) refuses"
