"""XS-03: talk to another sandbox over an abstract socket, or over the loopback."""
import os

from escape.lib_pair import look, neighbour, nothing

TITLE = "abstract sockets and ports of a neighbour"
TRIED = ("a neighbour listens on abstract stream, seqpacket, dgram sockets and on TCP and UDP "
         "ports; all of them called")
WALLS = ["net_namespace", "landlock"]
LEAVE = """
name, keep, say = sys.argv[1], [], []
for kind in (socket.SOCK_STREAM, socket.SOCK_SEQPACKET, socket.SOCK_DGRAM):
    s = socket.socket(socket.AF_UNIX, kind); s.bind(f"\\0{name}-{kind}"); keep.append(s)
    if kind != socket.SOCK_DGRAM: s.listen()
for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):
    s = socket.socket(socket.AF_INET, kind); s.bind(("127.0.0.1", 0)); keep.append(s)
    if kind == socket.SOCK_STREAM: s.listen()
    say.append(s.getsockname()[1])
"""
LOOK = """
name, tcp, udp = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
for kind in (socket.SOCK_STREAM, socket.SOCK_SEQPACKET, socket.SOCK_DGRAM):
    found[f"abstract {int(kind)}"] = attempt(socket.socket(socket.AF_UNIX, kind).connect, f"\\0{name}-{kind}") == "done"
found["listed"] = name in open("/proc/net/unix").read()
found["tcp"] = attempt(socket.socket().connect, ("127.0.0.1", tcp)) == "done"
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.connect(("127.0.0.1", udp)); s.send(b"x"); time.sleep(0.05)
found["udp"] = attempt(s.send, b"x") == "done"
"""


def seen(box, **more):
    name = f"coto-test-{os.getpid()}"
    with neighbour(box, LEAVE, args=[name], **more) as (ports, _):
        return look(box, LOOK, args=[name, *ports], **more)


def attack(box):
    return nothing(seen(box), "ESCAPE")


def control(box):
    found = seen(box, without=["net_namespace", "landlock"])
    assert all(found.values()), found
    return f"all {len(found)} found"
