"""NE-07: reach a service that listens on the host's loopback only."""
import socket

from escape.lib_net import call, held, listeners, met

TITLE = "the host's loopback"
TRIED = ("TCP and UDP to listeners on the host's 127.0.0.1 and ::1, by 0.0.0.0, 127.1.2.3, "
         "mapped and unspecified addresses")
WALLS = ["net_namespace"]
TCP, UDP = socket.SOCK_STREAM, socket.SOCK_DGRAM
WANTED = [(socket.AF_INET, TCP, ("127.0.0.1", 0)), (socket.AF_INET, UDP, ("127.0.0.1", 0)),
          (socket.AF_INET6, TCP, ("::1", 0)), (socket.AF_INET6, UDP, ("::1", 0))]


def targets(servers):
    ports = [server.getsockname()[1] for server in servers]
    found = [(kind, host, port) for kind, port in zip(("tcp", "udp"), ports)
             for host in ("127.0.0.1", "0.0.0.0", "::ffff:127.0.0.1")]
    return found + [(kind, host, port) for kind, port in zip(("tcp", "udp"), ports[2:]) for host in ("::1", "::")]


def attack(box):
    with listeners(*WANTED) as servers:
        return held(call(box, targets(servers)))


def control(box):
    with listeners(*WANTED) as servers:
        return met(call(box, targets(servers), without=["net_namespace", "landlock"]))
