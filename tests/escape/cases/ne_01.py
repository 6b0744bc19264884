"""NE-01: reach kernel code behind odd socket families (Copy Fail began at AF_ALG)."""
from escape.lib_calls import HIGH, row
from escape.lib_net import supported, unsupported

TITLE = "odd socket families"
TRIED = ("socket(2) with every family from 0 to 63 but UNIX, INET, INET6; socketpair; "
         "high bits set")
WALLS = ["seccomp"]
ALLOWED = {1, 2, 10}
NAMED = {"key": (15, 3, 2), "packet": (17, 3, 3), "packet_dgram": (17, 2, 3), "can": (29, 3, 1), "tipc": (30, 4, 0),
         "bluetooth": (31, 3, 1), "rxrpc": (33, 2, 2), "alg": (38, 5, 0), "vsock": (40, 1, 0), "kcm": (41, 5, 0),
         "qipcrtr": (42, 2, 0), "smc": (43, 1, 0), "xdp": (44, 3, 0), "mctp": (45, 2, 0)}
ROWS = [row(f"family_{n}", 41, n, 1, 0) for n in range(64) if n not in ALLOWED]
ROWS += [row(name, 41, *args) for name, args in NAMED.items()]
ROWS += [row(f"{name}_high", 41, HIGH | family, kind, protocol) for name, (family, kind, protocol) in NAMED.items()]
ROWS += [row("alg_cloexec", 41, 38, 5 | 0o2000000, 0), row("pair_vsock", 53, 40, 1, 0, "b:8"),
         row("pair_inet", 53, 2, 1, 0, "b:8"), row("pair_tipc", 53, 30, 1, 0, "b:8")]


def attack(box):
    return unsupported(box, ROWS)


def control(box):
    # Which families there are is the kernel's configuration; a wrong type or protocol
    # already is an answer from inside one.
    return supported(box, ROWS, least=2)
