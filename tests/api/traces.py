"""What a killed service has left on this host, while the next one runs: everything that we have started or made, and that
is not of the living one."""
import contextlib
import glob
import os
import pathlib
import re
import socket
import struct
import time

from cli.conftest import Host
from cli.helpers import ROOT, descendants

from .helpers import reap_orphans

RTM_NEWNSID, RTM_GETNSID, NLMSG_ERROR, NLMSG_DONE = 88, 90, 2, 3
NLM_F_REQUEST, NLM_F_ACK, NLM_F_DUMP = 1, 4, 0x300
NETNSA_NSID, NETNSA_FD = 1, 3


class Networks:
    """Network namespaces by numbers that the kernel gives them for us and takes back when they end: unlike a descriptor
    such a number keeps none alive."""

    def __init__(self):
        self.known = set()

    def ask(self, kind, flags, *fields):
        """The namespace numbers of its answer."""
        body = struct.pack("Bxxx", 0) + b"".join(struct.pack("<HHi", 8, *field) for field in fields)
        with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0) as link:
            link.send(struct.pack("<IHHII", 16 + len(body), kind, NLM_F_REQUEST | flags, 1, 0) + body)
            return list(self.answers(link, bool(flags & NLM_F_DUMP)))

    @staticmethod
    def answers(link, is_list):
        while True:
            data = link.recv(1 << 20)
            while data:
                size, kind = struct.unpack_from("<IH", data)
                if kind in (NLMSG_ERROR, NLMSG_DONE):
                    return
                yield struct.unpack_from("<i", data, 16 + 4 + 4)[0]
                data = data[(size + 3) & ~3:]
            if not is_list:
                return

    def know(self, pids):
        """Those that these processes are in or have open."""
        seen = {os.readlink("/proc/self/ns/net")}
        for path in [path for pid in pids for path in [f"/proc/{pid}/ns/net", *glob.glob(f"/proc/{pid}/fd/*")]]:
            with contextlib.suppress(OSError):
                name = os.readlink(path)
                if name.startswith("net:") and name not in seen:
                    seen.add(name)
                    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
                    self.ask(RTM_NEWNSID, NLM_F_ACK, (NETNSA_NSID, -1), (NETNSA_FD, fd))
                    self.known.update(self.ask(RTM_GETNSID, 0, (NETNSA_FD, fd)))
                    os.close(fd)

    def alive(self):
        return self.known & set(self.ask(RTM_GETNSID, NLM_F_DUMP)) if self.known else set()


def loops():
    """Loop devices that have a file."""
    return {path for path in glob.glob("/sys/block/loop*/loop/backing_file")}


def namespace_mounts():
    """Of namespaces that a mount keeps, wherever we can see one."""
    found = set()
    for path in glob.glob("/proc/[0-9]*/mountinfo"):
        with contextlib.suppress(OSError):
            found.update(line.split()[4] for line in pathlib.Path(path).read_text().splitlines() if " - nsfs " in line)
    return found


class Traces:
    """Traces() before anything is started; know(service) while it lives; look(next one)."""

    def __init__(self):
        self.before, self.networks = Host(), Networks()
        self.loops, self.namespace_mounts = loops(), namespace_mounts()
        self.own_mounts, self.own_files = {}, set()

    @staticmethod
    def mounts_of(service):
        """Where its processes have something mounted."""
        found = {}
        for name, pid in (("keeper", service.process.pid), ("launcher", service.launcher)):
            with contextlib.suppress(OSError):
                found[name] = sorted(line.split()[4] for line in pathlib.Path(f"/proc/{pid}/mountinfo").read_text().splitlines())
        return found

    @staticmethod
    def files_of(service):
        return {re.sub(r"\d+", "N", os.path.join(top, name)) for place in (service.state, service.runtime)
                for top, names, files in os.walk(place) for name in names + files}

    def rests(self, service):
        """What it has of its own while nothing runs."""
        self.own_mounts, self.own_files = self.mounts_of(service), self.files_of(service)

    def know(self, service):
        if ROOT:
            self.networks.know([service.process.pid, *descendants(service.process.pid)])

    def look(self, living=None):
        """All kinds of which there is something."""
        reap_orphans()
        found = Host().added(self.before)
        own = {living.process.pid, *descendants(living.process.pid)} if living else set()
        processes = {pid: name for pid, name in found.pop("processes", {}).items() if pid not in own}
        namespaces = {kind: {link for pid in processes for link in self.namespaces(pid, kind)} for kind in ("mnt", "net", "pid")}
        found["cgroups"] = {path for path in found.get("cgroups", ()) if not living or f"/coto-{living.launcher}-" not in path}
        found.update(processes=processes, networks=self.networks.alive(), loops=loops() - self.loops,
                     namespace_mounts=namespace_mounts() - self.namespace_mounts, **{f"{kind} namespaces": it for kind, it in namespaces.items()})
        if living and self.own_mounts:
            found["mounts of the service"] = {name for name, it in self.mounts_of(living).items() if it != self.own_mounts[name]}
            found["files of the service"] = self.files_of(living) - self.own_files
        return {kind: it for kind, it in found.items() if it}

    @staticmethod
    def namespaces(pid, kind):
        """The one it is in, if that is not ours."""
        with contextlib.suppress(OSError):
            link = os.readlink(f"/proc/{pid}/ns/{kind}")
            return {link} - {os.readlink(f"/proc/self/ns/{kind}")}
        return set()

    def left(self, living, end):
        """What is still there at that time."""
        left = self.look(living)
        while left and time.monotonic() < end:
            time.sleep(0.05)
            left = self.look(living)
        return left
