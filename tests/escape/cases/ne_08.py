"""NE-08: talk to a service on an abstract UNIX socket of the host (containerd-shim, CVE-2020-15257)."""
import os
import socket

from escape.harness import escaped
from escape.lib_net import call, held, listeners, met

TITLE = "abstract UNIX sockets of the host"
TRIED = ("connect by stream, seqpacket and dgram to abstract listeners of the caller; "
         "/proc/net/unix searched for their names")
WALLS = ["net_namespace", "landlock"]
KINDS = {"unix": socket.SOCK_STREAM, "unix-seq": socket.SOCK_SEQPACKET, "unix-dgram": socket.SOCK_DGRAM}


def names():
    return {kind: f"\0coto-test-{kind}-{os.getpid()}" for kind in KINDS}


def served():
    return listeners(*((socket.AF_UNIX, KINDS[kind], name) for kind, name in names().items()))


def targets():
    return [(kind, name, 0) for kind, name in names().items()]


def attack(box):
    with served():
        found = call(box, targets())
        listed = box.sh("cat /proc/net/unix /proc/1/net/unix; true").out
    if b"coto-test-unix" in listed:
        escaped("READ", "the host's sockets are listed in /proc/net/unix")
    return held(found) + "; none listed"


def control(box):
    with served():
        return met(call(box, targets(), without=["net_namespace", "landlock"]))
