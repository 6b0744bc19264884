"""What a program asks for has the kernel load no module: modprobe would run as root and outside of every limit, and what it
loads stays. The kernel is told another modprobe, one that writes down what it was asked for. Changes a setting of the whole
machine, so it runs alone, as root."""
import pathlib

import pytest

SETTING = pathlib.Path("/proc/sys/kernel/modprobe")
SOCKETS = """
import fcntl, socket
for family in socket.AF_INET, socket.AF_INET6, socket.AF_UNIX:
    with socket.socket(family, socket.SOCK_DGRAM) as s:
        for request in range(0x8900, 0x8a00):
            try: fcntl.ioctl(s, request, bytes(64))
            except OSError: pass
print("done")
"""
KINDS = """
import errno, itertools, socket
found = {}
for kind in itertools.product((2, 10), (1, 2), (0, 6, 17)):
    try: socket.socket(*kind).close(); found[kind] = "made"
    except OSError as e: found[kind] = errno.errorcode[e.errno]
print([kind for kind in found if found[kind] == "made"])
"""
MADE = "[(2, 1, 0), (2, 1, 6), (2, 2, 0), (2, 2, 17), (10, 1, 0), (10, 1, 6), (10, 2, 0), (10, 2, 17)]"
OF_NO_FORMAT = """
import os
with open("x", "wb") as file: file.write(bytes.fromhex("facec0de") * 64)
os.chmod("x", 0o755)
try: os.execv("x", ["x"])
except OSError as e: print(e.strerror)
"""


class Modprobe:
    def __init__(self, room):
        self.script, self.said = room / "modprobe", room / "said"
        self.script.write_text(f'#!/bin/sh\necho "$3" >> {self.said}\n')
        self.script.chmod(0o755)

    def asked(self):
        """Names since the last look."""
        names = set(self.said.read_text().split()) if self.said.exists() else set()
        self.said.unlink(missing_ok=True)
        return names


@pytest.fixture
def modprobe(tmp_path):
    before = SETTING.read_text()
    it = Modprobe(tmp_path)
    SETTING.write_text(str(it.script))
    yield it
    SETTING.write_text(before.strip())


def test_no_request_on_a_socket_loads_one(box, modprobe):
    assert box.python(SOCKETS, without=["seccomp"]).text == "done"
    assert modprobe.asked() == {"bridge", "8021q"}
    assert box.python(SOCKETS).text == "done"
    assert modprobe.asked() == set()


def test_no_kind_of_socket_does(box, modprobe):
    """A stream of UDP and a datagram of TCP are what no module has, which is looked for in two ways."""
    assert box.python(KINDS, without=["seccomp"]).text == MADE
    assert modprobe.asked() == {f"net-pf-{family}-proto-{pair}" for family in (2, 10)
                                for pair in ("17", "17-type-1", "6", "6-type-2")}
    assert box.python(KINDS).text == MADE
    assert modprobe.asked() == set()


def test_with_noexec_no_file_of_a_strange_format_does(box, modprobe):
    """Before Linux 6.14 the kernel looks for a module that can start it; SECURITY.md, "known and not mended"."""
    assert box.python(OF_NO_FORMAT).text == "Exec format error"
    assert modprobe.asked() == {"binfmt-dec0"}
    assert box.python(OF_NO_FORMAT, flags=["--noexec"]).text == "Permission denied"
    assert modprobe.asked() == set()
