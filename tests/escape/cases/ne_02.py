"""NE-02: make packets by hand, or reach protocols that few people look after."""
from escape.lib_calls import HIGH, row
from escape.lib_net import supported, unsupported

TITLE = "raw sockets and rare protocols"
TRIED = ("raw IPv4, IPv6 and ICMP; ping; SCTP, DCCP, L2TP, UDP-Lite, MPTCP; wrong types; a stream of UDP and a "
         "datagram of TCP; high bits set")
WALLS = ["seccomp"]
SOCKETS = {"raw": (2, 3, 255), "raw_icmp": (2, 3, 1), "raw_tcp": (2, 3, 6), "raw6": (10, 3, 255), "raw6_icmp": (10, 3, 58),
           "ping": (2, 2, 1), "ping6": (10, 2, 58), "sctp": (2, 1, 132), "sctp_seq": (2, 5, 132), "sctp6": (10, 5, 132),
           "dccp": (2, 6, 33), "l2tp": (2, 2, 115), "l2tp6": (10, 2, 115), "udplite": (2, 2, 136),
           "udplite6": (10, 2, 136), "mptcp": (2, 1, 262), "mptcp6": (10, 1, 262), "packet_type": (2, 10, 3),
           "rdm": (2, 4, 0), "unix_raw": (1, 3, 0), "unix_protocol": (1, 1, 1),
           "udp_stream": (2, 1, 17), "tcp_datagram": (2, 2, 6), "udp_stream6": (10, 1, 17), "tcp_datagram6": (10, 2, 6)}
ROWS = [row(name, 41, *args) for name, args in SOCKETS.items()]
ROWS += [row(f"{name}_high", 41, family, HIGH | kind, HIGH | protocol)
         for name, (family, kind, protocol) in SOCKETS.items()]


def attack(box):
    return unsupported(box, ROWS)


def control(box):
    return supported(box, ROWS, least=4)
