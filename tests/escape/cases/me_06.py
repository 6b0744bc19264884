"""ME-06: make the kernel hold memory in objects: buffers, watches, timers, filters.

Most of it is charged to the cgroup. What is not must be out of reach or bounded by something
else: netlink replies, corked datagrams, filters and the options of sockets that keep something
are refused by the filter, buffers of TCP and UDP have a limit of their own on cgroup v1, terminals
and inotify instances are counted.
Not tried: TCP connections that nobody accepts, which the kernel's tcp_mem alone bounds
(docs/SANDBOX.md, "What is shared with the host").
"""
import re

from cli.helpers import WAITER, cgroups_of
from escape.harness import escaped
from escape.lib_files import TRY
from escape.lib_hogs import need_limit
from escape.lib_kernel import HOLD

TITLE = "kernel memory"
TRIED = ("pipes of 1 MiB, UNIX, TCP and UDP buffers, corked datagrams, netlink replies, socket and seccomp "
         "filters, packet options, TCP keys, memberships, epoll, inotify, timers, queues, terminals: each until "
         "refused or 100 MiB")
WALLS = ["memory", "seccomp"]
# kind -> MiB it may hold at most when it is not ended; None: it is ended as oom
KINDS = {"pipe": None, "unix": None, "unix_dgram": None, "in_flight": None, "epoll": None, "timer": None,
         "msg": None, "tcp": 48, "udp": 48, "inotify": 48}
# What no limit counts: none of it is to be had.
UNCOUNTED = ("netlink", "udp_cork", "udp_msg_more", "filter", "seccomp", "packet_options", "tcp_key", "membership")
COUNTED = TRY + """
def count(work, most):
    n = 0
    try:
        while n < most: work(); n += 1
        return [n, ""]
    except OSError as reason: return [n, errno.errorcode[reason.errno]]
def watch():
    if libc.inotify_init1(0) < 0: raise OSError(ctypes.get_errno(), "")
def terminal(): os.open("/dev/ptmx", os.O_RDWR | os.O_NOCTTY)
print(json.dumps({"terminals": count(terminal, 500), "inotify": count(watch, 500)}))
"""


def held(box, kind, memory, most=100, **more):
    """(verdict, MiB held, why it stopped)."""
    result = box.run([box.c(HOLD), kind, most], flags=["--memory", memory, "--pids", "40", "--timeout", "60s"], **more)
    found = re.search(r"held (\d+) (\w+)", result.text)
    return result.verdict, int(found[1]) if found else 0, found[2] if found else ""


def socket_limit(box):
    """What the kernel allows a sandbox of 64 MiB in socket buffers; on v2 they count as memory."""
    with box.running(WAITER, flags=["--memory", "64m"]) as it:
        group = cgroups_of(it.program()).get("memory")
        return int((group / "memory.kmem.tcp.limit_in_bytes").read_text()) if group else 0


def attack(box):
    for flags, terminals in (([], [0, "ENOENT"]), (["--ptys", "3"], [3, "ENOSPC"])):
        counts = box.inside(COUNTED, flags=flags)
        if counts != {"terminals": terminals, "inotify": [8, "EMFILE"]}:
            escaped("CRASH", f"{counts}")
    words = []
    for kind in UNCOUNTED:
        verdict, size, why = held(box, kind, "48m")
        if verdict != "ok" or size or not why.startswith("E"):
            escaped("CRASH", f"{kind}: {size} MiB of the kernel's memory that no limit counts ({verdict} {why})")
        words.append(f"{kind} {why}")
    need_limit(box, "memory")
    if socket_limit(box) > 8 << 20:
        escaped("CRASH", "no limit on socket buffers in the kernel")
    for kind, most in KINDS.items():
        verdict, size, why = held(box, kind, "48m")
        if verdict != "oom" and size > (most if most is not None else 60):
            escaped("CRASH", f"{kind}: {size} MiB held with a limit of 48 MiB ({verdict})")
        words.append(f"{kind} {'oom' if verdict == 'oom' else f'{size} MiB {why}'}")
    return ", ".join(words) + "; no terminals, 3 with --ptys 3, 8 inotify instances"


def control(box):
    words = []
    for kind in ("pipe", "unix", "netlink", "udp_msg_more"):
        wall = "cgroup" if kind in ("pipe", "unix") else "seccomp"
        verdict, size, _ = held(box, kind, "48m", without=[wall])
        assert verdict == "ok" and size >= 90, (kind, verdict, size)
        words.append(f"{kind} {size} MiB")
    # Little: it is the host's own memory, and there is no other limit.
    for kind in ("packet_options", "tcp_key", "membership"):
        verdict, size, why = held(box, kind, "48m", most=4, without=["seccomp"])
        assert verdict == "ok" and size == 4, (kind, verdict, size, why)
        words.append(f"{kind} {size} MiB")
    return ", ".join(words) + " held with a wall down"
