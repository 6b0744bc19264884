"""DR-14: the process that reads the network has nothing to lose, seen from outside."""
import contextlib
import ctypes
import errno
import os
import pathlib
import shutil
import socket
import struct
import subprocess

import pytest

from cli.helpers import only, status_of

from . import puppet
from .daemon import Daemon
from .helpers import ROOT, wait_until


@pytest.fixture(scope="module")
def service():
    with Daemon() as it:
        yield it
        assert it.stop() == 0, it.messages


def test_the_kernel_confirms_the_walls_of_the_front(service):
    status = status_of(service.front)
    assert status["Seccomp"] == "2" and status["NoNewPrivs"] == "1"
    assert {status[name] for name in ("CapInh", "CapPrm", "CapEff", "CapAmb")} == {"0" * 16}
    uids = set(status["Uid"].split())
    assert len(uids) == 1 and "0" not in uids
    assert not ROOT or status["Groups"].strip() == ""
    # Control: the launcher is what the front is not.
    assert not ROOT or (status_of(service.launcher)["Uid"].split()[0] == "0" and status_of(service.launcher)["Seccomp"] == "0")


def test_all_threads_of_the_front_are_behind_them(service):
    service.run("print(1)")
    tasks = list(pathlib.Path(f"/proc/{service.front}/task").iterdir())
    assert len(tasks) > 1
    for task in tasks:
        text = (task / "status").read_text()
        assert "Seccomp:\t2" in text and "NoNewPrivs:\t1" in text and "CapEff:\t" + "0" * 16 in text


def test_the_service_says_the_same(service):
    front = service.get("/api/v1/capabilities").json["front"]
    assert front["uid"] == int(status_of(service.front)["Uid"].split()[0]) and front["capabilities"] == 0
    assert front["no_new_privs"] and front["seccomp"] and not front["dumpable"] and len(front["seccomp_filter"]) == 64


def test_the_memory_of_the_front_is_closed_to_its_own_user(service):
    """Not dumpable: its files in /proc are root's, and its fellow processes cannot trace it."""
    assert os.stat(f"/proc/{service.front}/mem").st_uid == 0
    if ROOT:
        uid = status_of(service.front)["Uid"].split()[0]
        done = subprocess.run(["setpriv", f"--reuid={uid}", "--clear-groups", "cat", f"/proc/{service.front}/environ"],
                              capture_output=True, timeout=60)
        assert done.returncode != 0 and b"Permission denied" in done.stderr


@only(ROOT)  # who alone may look
def test_keys_and_privileged_descriptors_are_not_in_the_front(service):
    """Neither the lock of the keeper nor anything of a guest's host side but its stream."""
    names = []
    for fd in os.listdir(f"/proc/{service.front}/fd"):
        with contextlib.suppress(FileNotFoundError):  # closed meanwhile
            names.append(os.readlink(f"/proc/{service.front}/fd/{fd}"))
    assert str(service.runtime / "lock") not in names
    assert not [name for name in names if name.startswith(("/sys", "/proc", "/dev")) and name != "/dev/null"]


# ---- Landlock ----

ABI_KNOWN = 7  # src/kernel/landlock.c
OFFERED = max(0, ctypes.CDLL(None).syscall(444, None, 0, 1))  # landlock_create_ruleset: which version


def test_landlock_is_all_that_the_kernel_offers(service):
    assert service.get("/api/v1/capabilities").json["front"]["landlock_abi"] == min(OFFERED, ABI_KNOWN)


@pytest.fixture
def twin(service):
    """A process of the front's user with none of its walls: what it may do, file modes do not forbid the front."""
    uid = status_of(service.front)["Uid"].split()[0]
    process = subprocess.Popen(["setpriv", f"--reuid={uid}", f"--regid={uid}", "--clear-groups", "--inh-caps=-all", "sleep", "600"])
    try:
        wait_until(lambda: status_of(process.pid)["Name"] == "sleep" and waits(process.pid), "its sleep")
        yield process.pid
    finally:
        process.kill()
        process.wait()


def waits(pid):
    """In a system call, in which it stays."""
    return pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "S"


@pytest.fixture
def open_place(service):
    """A directory in which everybody may do everything."""
    place = service.room / "open"
    place.mkdir()
    place.chmod(0o777)
    (place / "file").write_text("1")
    (place / "file").chmod(0o666)
    yield place
    shutil.rmtree(place)


def opened(it, path, flags, mode=0o600):
    """Whether it could, or why not."""
    fd = it.call(puppet.OPENAT, puppet.AT_FDCWD, os.fsencode(path), flags | os.O_CLOEXEC, mode)
    if fd >= 0:
        assert it.call(puppet.CLOSE, fd) == 0
    return min(fd, 0)


def connected(it, name):
    """To a socket of that abstract name."""
    fd = it.call(puppet.SOCKET, socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC, 0)
    assert fd >= 0, fd
    address = struct.pack("H", socket.AF_UNIX) + b"\0" + name
    answer = it.call(puppet.CONNECT, fd, address, len(address))
    assert it.call(puppet.CLOSE, fd) == 0
    return answer


def deeds(it, place, who):
    """What it answers to each; the names are its own."""
    new, file = place / f"new-{who}", place / "file"
    return {
        "make a file": opened(it, new, os.O_WRONLY | os.O_CREAT),
        "write a file": opened(it, file, os.O_WRONLY),
        "cut a file": opened(it, file, os.O_RDONLY | os.O_TRUNC),
        "make a directory": it.call(puppet.MKDIR, os.fsencode(place / f"dir-{who}"), 0o700),
        "rename": it.call(puppet.RENAME, os.fsencode(file), os.fsencode(place / "other")),
        "remove": it.call(puppet.UNLINK, os.fsencode(place / ("other" if who == "twin" else "file"))),
    }


@only(puppet.IS_POSSIBLE and OFFERED)
def test_the_front_writes_nowhere_but_in_its_state(service, twin, open_place):
    """System calls in its name: no word of coto's own is believed."""
    assert service.run("print(1)").status == 200
    with puppet.Puppet(service.front) as it:
        assert it.call(puppet.GETUID) == int(status_of(service.front)["Uid"].split()[0]), "control: a call that is made"
        done = deeds(it, open_place, "front")
        assert set(done.values()) == {-errno.EACCES}, done
        assert opened(it, open_place / "file", os.O_RDONLY) == 0, "it may read"
        assert opened(it, service.state / "made-by-the-front", os.O_WRONLY | os.O_CREAT) == 0, "and write its records"
        assert it.call(puppet.UNLINK, os.fsencode(service.state / "made-by-the-front")) == 0
        assert opened(it, "/dev/null", os.O_WRONLY) == 0
    assert sorted(os.listdir(open_place)) == ["file"] and (open_place / "file").read_text() == "1"
    with puppet.Puppet(twin) as it:
        done = deeds(it, open_place, "twin")
        assert set(done.values()) == {0}, f"control, without the wall: {done}"
    front = service.front
    assert service.run("print(2)").json["stdout"] == "2\n" and service.front == front, "it goes on"


@only(puppet.IS_POSSIBLE and OFFERED)
def test_the_front_executes_nothing_that_it_could_have_written(service, twin):
    program = service.state / "program"
    shutil.copy("/bin/sleep", program)
    program.chmod(0o755)
    exe = os.readlink(f"/proc/{service.front}/exe")
    arguments = (os.fsencode(program), [b"program", b"600"], [])
    try:
        with puppet.Puppet(service.front) as it:
            assert opened(it, program, os.O_RDONLY) == 0, "control: it finds it"
            assert it.call(puppet.EXECVE, *arguments) == -errno.EACCES
        assert os.readlink(f"/proc/{service.front}/exe") == exe
        with puppet.Puppet(twin) as it:
            assert it.call(puppet.EXECVE, *arguments) == puppet.EXECUTED, "control"
        assert os.readlink(f"/proc/{twin}/exe") == str(program)
    finally:
        program.unlink()
    assert service.run("print(3)").json["stdout"] == "3\n"


@only(puppet.IS_POSSIBLE and OFFERED >= 6)
def test_the_front_reaches_no_process_of_its_user(service, twin):
    """Neither signals nor abstract sockets."""
    name = os.urandom(8).hex().encode()
    with socket.socket(socket.AF_UNIX) as listening, subprocess.Popen(["sleep", "600"], user=int(status_of(twin)["Uid"].split()[0])) as other:
        try:
            listening.bind(b"\0" + name)
            listening.listen()
            with puppet.Puppet(service.front) as it:
                assert it.call(puppet.KILL, other.pid, 0) == -errno.EPERM and connected(it, name) == -errno.EPERM
            with puppet.Puppet(twin) as it:
                assert it.call(puppet.KILL, other.pid, 0) == 0 and connected(it, name) == 0, "control"
        finally:
            other.kill()
    assert service.run("print(4)").json["stdout"] == "4\n"
