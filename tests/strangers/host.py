"""Harm to the host, judged from outside: what a neighbour feels, the kernel says, and changed."""
import os
import pathlib
import re
import statistics
import subprocess
import tempfile
import threading
import time

from cli.helpers import read

# A kernel in trouble says one of these; a memory cgroup that ends its own processes does not.
TROUBLE = re.compile(r"\bBUG:|\bOops\b|WARNING: |Call Trace.*panic|hung_task|blocked for more than|"
                     r"soft lockup|hard LOCKUP|rcu.*stall|general protection fault, |"
                     r"Unable to handle kernel|Kernel panic|Out of memory: Killed")
# Counters and random numbers below /proc/sys, which move by themselves.
MOVING = re.compile(r"random/|-nr$|-state$|ns_last_pid|/nr$|lease|seccomp/actions_logged|cad_pid|"
                    r"pty/|sched_domain|route/|/neigh/|/conf/|netfilter|perf_event_max_sample_rate|"
                    r"nr_open|tcp_|ipv6|usermodehelper|fs/quota/")
KEPT = ("SUnreclaim", "KernelStack", "PageTables", "Percpu", "Shmem")
PAUSE = 0.1


def settings():
    """Every setting of the kernel below /proc/sys that somebody would have to change."""
    found = {}
    for top, _, names in os.walk("/proc/sys"):
        for path in (os.path.join(top, name) for name in names):
            if not MOVING.search(path):
                try:
                    found[path] = read(path)
                except (OSError, UnicodeDecodeError):
                    pass
    return found


def objects():
    """Things of the kernel that have no place in a file system, by kind."""
    kinds = {kind: read(f"/proc/sysvipc/{kind}").splitlines()[1:] for kind in ("shm", "sem", "msg")}
    return {kind: {line.split()[1] for line in lines} for kind, lines in kinds.items()}


def state():
    """What must be the same afterwards."""
    return {"settings": settings(), "objects": objects(), "devices": sorted(os.listdir("/dev")),
            "interfaces": sorted(os.listdir("/sys/class/net")), "swaps": read("/proc/swaps"),
            "tainted": read("/proc/sys/kernel/tainted"), "name": os.uname().nodename,
            "modules": sorted(line.split()[0] for line in read("/proc/modules").splitlines())
            if os.path.exists("/proc/modules") else []}


def changes(before, after):
    """Paths of what differs, with both values."""
    if isinstance(before, dict) and isinstance(after, dict):
        return {f"{key}/{path}" if path else key: pair
                for key in sorted(before.keys() | after.keys())
                for path, pair in changes(before.get(key), after.get(key)).items()}
    return {} if before == after else {"": (before, after)}


def kept_bytes():
    """Memory that no living process accounts for: where a sandbox that is gone could leave some."""
    table = dict(re.findall(r"^(\w+): +(\d+) kB", read("/proc/meminfo"), re.M))
    return sum(int(table.get(name, 0)) for name in KEPT) * 1024


def clock_offset():
    return time.clock_gettime(time.CLOCK_REALTIME) - time.clock_gettime(time.CLOCK_BOOTTIME)


class KernelLog:
    """Lines the kernel writes from now on; readable is False where it does not let us."""

    def __init__(self):
        try:
            self.fd = os.open("/dev/kmsg", os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            os.lseek(self.fd, 0, os.SEEK_END)
            self.readable = True
        except OSError:
            self.readable = False

    def lines(self):
        while self.readable:
            try:
                yield os.read(self.fd, 16384).decode(errors="replace").strip()
            except BrokenPipeError:
                continue  # lines were overwritten before we came: go on with the oldest
            except BlockingIOError:
                return

    def trouble(self):
        return troubled(self.lines())


def troubled(lines):
    return [line for line in lines if TROUBLE.search(line)]


class Neighbour:
    """An innocent program of the host: starts a process, writes a file, again and again."""

    def __init__(self):
        self.seconds = []
        self.errors = []
        self.stop = threading.Event()
        self.thread = threading.Thread(target=self.live, daemon=True)

    def live(self):
        with tempfile.TemporaryDirectory(prefix="coto-test-") as room:
            while not self.stop.wait(PAUSE):
                began = time.monotonic()
                try:
                    subprocess.run(["/bin/true"], check=True, timeout=60)
                    pathlib.Path(room, "file").write_bytes(b"x" * 4096)
                except (OSError, subprocess.SubprocessError) as reason:
                    self.errors.append(repr(reason))
                self.seconds.append(time.monotonic() - began)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.stop.set()
        self.thread.join()

    def median(self):
        return statistics.median(self.seconds)


def undisturbed(seconds=1.0):
    """What a neighbour feels now, before anything is started."""
    with Neighbour() as neighbour:
        time.sleep(seconds)
    return neighbour.median()


class Watch:
    """The host before, during and after; verdicts() is empty when no harm was done."""

    def __enter__(self):
        self.log = KernelLog()
        self.quiet = undisturbed()
        self.before, self.offset, self.memory = state(), clock_offset(), kept_bytes()
        self.neighbour = Neighbour().__enter__()
        return self

    def __exit__(self, *_):
        self.neighbour.__exit__()

    def verdicts(self, slack_bytes=1 << 29):
        harm = [f"changed: {path}: {pair}" for path, pair in changes(self.before, state()).items()]
        harm += [f"kernel log: {line}" for line in self.log.trouble()]
        harm += [f"neighbour: {error}" for error in self.neighbour.errors]
        felt = self.neighbour.median()
        if felt > max(20 * self.quiet, 0.5):
            harm.append(f"neighbour: {felt:.3f} s instead of {self.quiet:.3f} s")
        if abs(clock_offset() - self.offset) > 1:
            harm.append("the clock was set")
        if kept_bytes() - self.memory > slack_bytes:
            harm.append(f"memory: {self.memory} bytes kept before, {kept_bytes()} now")
        return harm

    def told(self):
        before, during, worst = (f"{seconds * 1000:.1f} ms" for seconds in (
            self.quiet, self.neighbour.median(), max(self.neighbour.seconds)))
        return (f"a neighbour's process and file took {before} before, {during} during, {worst} at worst; "
                f"kernel log {'read' if self.log.readable else 'not readable'}")
