"""NE-04: ask the cloud's metadata service for credentials."""
from escape.lib_net import call, fake_host, held, met

TITLE = "metadata services"
TRIED = ("TCP and UDP to 169.254.169.254 and its kin of four clouds, by IPv4, IPv6 and mapped, "
         "on a host where they answer")
WALLS = ["net_namespace"]
PLACES = ["169.254.169.254", "169.254.170.2", "100.100.100.200", "fd00:ec2::254", "fd20:ce::254",
          "::ffff:169.254.169.254", "64:ff9b::a9fe:a9fe"]
TARGETS = [(kind, place, port) for place in PLACES for kind, port in (("tcp", 80), ("udp", 80))]


def attack(box):
    with fake_host(box) as log:
        return held(call(box, TARGETS), log)


def control(box):
    with fake_host(box):
        return met(call(box, TARGETS, without=["net_namespace", "landlock"]))
