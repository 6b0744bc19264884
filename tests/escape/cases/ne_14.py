"""NE-14: flood the network: packets and connections.

There is no allowed network to flood, so no rate to limit: not offered. A sandbox floods
its own loopback, which is its own CPU time; the host's interfaces count nothing.
"""
import pathlib

from escape.harness import NotOffered, escaped
from escape.lib_files import TRY, refusal

TITLE = "floods"
TRIED = ("20 000 datagrams and 2 000 connections on the loopback; the host's packet and "
         "connection counters compared")
WALLS = ["net_namespace"]
FLOOD = TRY + """
s, r = socket.socket(socket.AF_INET, socket.SOCK_DGRAM), socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
r.bind(('127.0.0.1', 0))
s.connect(r.getsockname())
for _ in range(20000): s.send(b'x' * 100)
server = socket.socket(); server.bind(('127.0.0.1', 0)); server.listen(64)
for _ in range(2000):
    c = socket.create_connection(server.getsockname()); server.accept()[0].close(); c.close()
print(json.dumps('flooded'))
"""


def packets():
    """Packets the host has sent, on all its interfaces."""
    rows = pathlib.Path("/proc/net/dev").read_text().splitlines()[2:]
    return sum(int(row.split(":")[1].split()[9]) for row in rows)


def sent(box, **more):
    before = packets()
    assert box.inside(FLOOD, **more) == "flooded"
    return packets() - before


def attack(box):
    refusal(box.sh("echo ran", flags=["--network", "allow-list"], may_refuse=True), 65, 69)
    # Others use the host's network too: the least of three attempts is ours.
    count = min(sent(box) for _ in range(3))
    if count >= 20000:
        escaped("CRASH", f"{count} packets on the host's interfaces")
    return NotOffered("a network; of 20 000 packets on the own loopback the host's interfaces count none")


def control(box):
    count = sent(box, without=["net_namespace", "landlock"])
    assert count >= 20000, count
    return "the host's loopback counts 20 000 packets and more"
