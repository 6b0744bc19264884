"""NE-15: change how packets are routed or filtered (route_localnet, CVE-2020-8558)."""
from escape.lib_files import all_refused, attempts

TITLE = "routes, forwarding, firewall"
TRIED = ("sysctls below /proc/sys/net, rtnetlink and ioctl changes to links, addresses, routes, "
         "neighbours; iptables' socket options")
WALLS = ["capabilities", "root_read_only", "seccomp"]
BEFORE = """
import struct
def sysctl(name, text="1"):
    with open("/proc/sys/net/" + name, "w") as file: file.write(text)
def route(kind, flags, body):
    "An rtnetlink request; raises its answer."
    s = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0)
    s.send(struct.pack("IHHII", 16 + len(body), kind, 5 | flags, 1, 0) + body)
    error = -struct.unpack("i", s.recv(8192)[16:20])[0]
    if error: raise OSError(error, "")
def attr(kind, data): return struct.pack("HH", 4 + len(data), kind) + data + bytes(-len(data) % 4)
def control(request, name=b"lo", rest=b""):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s: fcntl.ioctl(s, request, name.ljust(16, b"\\0") + rest.ljust(24, b"\\0"))
address = struct.pack("HH4s8x", 2, 0, bytes([10, 9, 8, 7]))
ten = bytes([10, 9, 8, 7])
"""
SYSCTLS = ["ipv4/conf/all/route_localnet", "ipv4/conf/lo/route_localnet", "ipv4/ip_forward", "ipv4/conf/all/rp_filter",
           "ipv4/ip_unprivileged_port_start", "ipv4/ping_group_range", "core/bpf_jit_enable", "ipv6/conf/all/forwarding"]
CHANGES = {
    "new link": 'attempt(route, 16, 0x600, bytes(16) + attr(18, attr(1, b"dummy\\0")))',
    "link down": 'attempt(route, 16, 0, struct.pack("BBHiII", 0, 0, 0, 1, 0, 1))',
    "new address": 'attempt(route, 20, 0x600, struct.pack("BBBBi", 2, 32, 0, 0, 1) + attr(2, ten))',
    "new route": 'attempt(route, 24, 0x600, struct.pack("BBBBBBBBI", 2, 32, 0, 0, 254, 3, 253, 1, 0)'
                 ' + attr(1, ten) + attr(4, struct.pack("i", 1)))',
    "new rule": 'attempt(route, 32, 0x600, struct.pack("BBBBBBBBI", 2, 0, 0, 0, 254, 0, 0, 1, 0))',
    "new neighbour": 'attempt(route, 28, 0x600, struct.pack("BBHiHBB", 2, 0, 0, 1, 128, 0, 0) + attr(1, ten))',
    "SIOCSIFFLAGS": 'attempt(control, 0x8914, b"lo", struct.pack("H", 0x49))',
    "SIOCSIFADDR": 'attempt(control, 0x8916, b"lo:9", address)',
    "SIOCADDRT": 'attempt(control, 0x890b)',
}
FIREWALL = {"iptables": "attempt(socket.socket(2, 2).setsockopt, 0, 64, bytes(200))",
            "ip6tables": "attempt(socket.socket(10, 2).setsockopt, 41, 64, bytes(200))",
            "arptables": "attempt(socket.socket(2, 2).setsockopt, 0, 96, bytes(200))",
            "nf_tables": "attempt(socket.socket, 16, 3, 12)", "raw": "attempt(socket.socket, 2, 3, 255)"}


def attack(box):
    table = {name: f"attempt(sysctl, {name!r})" for name in SYSCTLS}
    return all_refused(attempts(box, {**table, **CHANGES, **FIREWALL}, BEFORE), "ESCAPE")


def control(box):
    """With capabilities over its own network a program may change that network."""
    without = ["capabilities", "seccomp", "landlock", "no_new_privs", "proc_masks"]
    found = attempts(box, {**{name: f"attempt(sysctl, {name!r})" for name in SYSCTLS[:3]}, **CHANGES}, BEFORE, without=without)
    done = [name for name, word in found.items() if word == "done"]
    assert len(done) >= 5, found
    return f"{len(done)} of {len(found)} done: {', '.join(done[:4])}"
