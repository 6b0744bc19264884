"""XS-04: meet another sandbox over VSOCK, whose loopback is one for the whole machine before Linux 7.0."""
from escape.harness import Untestable
from escape.lib_calls import HIGH, answers, row
from escape.lib_net import unsupported
from escape.lib_pair import look, neighbour

TITLE = "VSOCK loopback"
TRIED = ("AF_VSOCK stream, dgram and seqpacket, also with high bits; without the filter a "
         "neighbour listens and is called")
WALLS = ["seccomp"]
ROWS = [row(f"vsock_{kind}", 41, 40, kind, 0) for kind in (1, 2, 5)]
ROWS += [row(f"vsock_{kind}_high", 41, HIGH | 40, kind, 0) for kind in (1, 2, 5)]
ROWS += [row("vsock_flags", 41, 40, 1 | 0o2004000, 0), row("pair", 53, 40, 1, 0, "b:8")]
LEAVE = """
s = socket.socket(40, socket.SOCK_STREAM)
say = attempt(s.bind, (1, 45454))  # VMADDR_CID_LOCAL
if say == "done": s.listen()
"""
LOOK = 'found["word"] = attempt(socket.socket(40, socket.SOCK_STREAM).connect, (1, 45454))'


def attack(box):
    return unsupported(box, ROWS)


def control(box):
    found = answers(box, ROWS[:1], without=["seccomp"])
    if found["vsock_1"] != "ok":
        raise Untestable("this kernel has no VSOCK")
    with neighbour(box, LEAVE, without=["seccomp"]) as (word, _):
        called = look(box, LOOK, without=["seccomp"])["word"] if word == "done" else word
    if called != "done":
        raise Untestable(f"the family is there, its loopback is not ({called}): nobody can be reached over it")
    return "a neighbour was reached"
