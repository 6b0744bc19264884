"""NE-05: reach the network around the host: private ranges, multicast, IPv6, odd spellings."""
from escape.lib_net import call, fake_host, held, met

TITLE = "private ranges, multicast, IPv6"
TRIED = ("TCP and UDP to RFC 1918, carrier, benchmark and public addresses, multicast, "
         "broadcast, IPv6, mapped, on a host where they answer")
WALLS = ["net_namespace"]
PLACES = ["10.0.0.1", "172.17.0.1", "192.168.1.1", "100.64.0.1", "198.18.0.1", "8.8.8.8", "93.184.215.14",
          "2001:db8::1", "::ffff:10.0.0.1", "::ffff:192.168.1.1"]
TARGETS = [(kind, place, 4680) for place in PLACES for kind in ("tcp", "udp")]
# Whoever listens there answers from an address of its own: what counts is the host's log.
WIDE = [("udp", "224.0.0.251", 5353), ("udp", "224.0.0.1", 4680), ("udp", "255.255.255.255", 4680),
        ("udp", "ff02::1%lo", 4680), ("udp", "ff05::2", 4680)]


def attack(box):
    with fake_host(box) as log:
        return held(call(box, TARGETS + WIDE, wait=0.2), log)


def control(box):
    with fake_host(box) as log:
        text = met(call(box, TARGETS, without=["net_namespace", "landlock"]))
        call(box, [("udp", "224.0.0.251", 5353)], wait=0.2, without=["net_namespace", "landlock"])
        assert "udp b'exfiltrated'" in log.read_text(), log.read_text()
    return text + ", multicast too"
