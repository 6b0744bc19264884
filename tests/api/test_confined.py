"""DR-14: the process that reads the network has nothing to lose, and those that start and serve it have what they need
and no more, seen from outside."""
import contextlib
import ctypes
import errno
import fcntl
import os
import pathlib
import re
import shutil
import signal
import socket
import ssl
import struct
import subprocess

import pytest

from cli.helpers import cgroups_of, descendants, only, status_of

from . import puppet
from .daemon import Daemon, Production
from .helpers import HAS_IDS, ROOT, SOURCE, wait_until


@pytest.fixture(scope="module")
def service():
    with Daemon() as it:
        yield it
        assert it.stop() == 0, it.messages


ORDINARY_UID = 65533  # tests/run


def begin_as(uid):
    """As a login of that user would begin."""
    os.setgroups([])
    os.setresgid(uid, uid, uid)
    os.setresuid(uid, uid, uid)


@pytest.fixture(scope="module", params=["root", "user"])
def either(request, service):
    """The service of root, and one that an ordinary user has started, to be looked at by root."""
    if request.param == "root":
        yield service
        return
    it = Daemon()
    try:
        os.chown(it.room, ORDINARY_UID, ORDINARY_UID)
        it.before = lambda: begin_as(ORDINARY_UID)
        it.start()
        assert status_of(it.process.pid)["Uid"].split()[0] == str(ORDINARY_UID)
        yield it
        assert it.stop() == 0, it.messages
    finally:
        it.__exit__()


def test_the_kernel_confirms_the_walls_of_the_front(service):
    status = status_of(service.front)
    assert status["Seccomp"] == "2" and status["NoNewPrivs"] == "1"
    assert {status[name] for name in ("CapInh", "CapPrm", "CapEff", "CapAmb")} == {"0" * 16}
    uids = set(status["Uid"].split())
    assert len(uids) == 1 and "0" not in uids
    assert not ROOT or status["Groups"].strip() == ""
    # Controls: the launcher is what the front is not, and whoever starts them is neither.
    assert not ROOT or (status_of(service.launcher)["Uid"].split()[0] == "0" and int(status_of(service.launcher)["CapEff"], 16))
    assert status_of("self")["NoNewPrivs"] == "0" or not ROOT


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
    with twin_of(service) as pid:
        yield pid


@contextlib.contextmanager
def twin_of(service):
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
    if fd < 0:
        return fd
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
        assert opened(it, open_place / "file", os.O_RDONLY) == -errno.EACCES, "nor may it read"
        assert opened(it, service.state / "made-by-the-front", os.O_WRONLY | os.O_CREAT) == 0, "and write its records"
        assert it.call(puppet.UNLINK, os.fsencode(service.state / "made-by-the-front")) == 0
        assert opened(it, "/dev/null", os.O_WRONLY) == 0
    with puppet.Puppet(twin) as it:
        assert opened(it, open_place / "file", os.O_RDONLY) == 0, "control"
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
            assert it.call(puppet.EXECVE, *arguments) == -errno.EPERM
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


def ipv4(port):
    return struct.pack("!HH4s8x", socket.htons(socket.AF_INET), port, socket.inet_aton("127.0.0.1"))


def over_tcp(it, port):
    """To that port of this host's loopback; or why not."""
    fd = it.call(puppet.SOCKET, socket.AF_INET, socket.SOCK_STREAM | socket.SOCK_CLOEXEC, 0)
    if fd < 0:
        return fd
    answer = it.call(puppet.CONNECT, fd, ipv4(port), 16)
    assert it.call(puppet.CLOSE, fd) == 0
    return answer


def over_udp(it, port):
    fd = it.call(puppet.SOCKET, socket.AF_INET, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC, 0)
    if fd < 0:
        return fd
    answer = it.call(puppet.SENDTO, fd, b"datagram", 8, 0, ipv4(port), 16)
    assert it.call(puppet.CLOSE, fd) == 0
    return min(answer, 0)


def made_socket(it, family, kind, protocol=0):
    fd = it.call(puppet.SOCKET, family, kind | socket.SOCK_CLOEXEC, protocol)
    if fd >= 0:
        assert it.call(puppet.CLOSE, fd) == 0
    return min(fd, 0)


def made_pair(it, kind):
    """Both ends are closed again: they are the lowest numbers that were free."""
    free = it.call(puppet.OPENAT, puppet.AT_FDCWD, b"/dev/null", os.O_RDONLY | os.O_CLOEXEC)
    assert free >= 0 and it.call(puppet.CLOSE, free) == 0
    answer = it.call(puppet.SOCKETPAIR, socket.AF_UNIX, kind | socket.SOCK_CLOEXEC, 0, bytes(8))
    if answer == 0:
        assert it.call(puppet.CLOSE, free) == 0
    return answer


def starter_of(service):
    return next(pid for pid, row in descendants(service.front).items() if row[1] == "coto-starter")


@contextlib.contextmanager
def others_of(uid):
    """A process of that user, and ports on which this host's loopback listens for TCP and UDP."""
    with socket.create_server(("127.0.0.1", 0)) as tcp, socket.socket(type=socket.SOCK_DGRAM) as udp, \
            subprocess.Popen(["sleep", "600"], user=uid, group=uid, extra_groups=[]) as other:
        udp.bind(("127.0.0.1", 0))
        try:
            yield tcp.getsockname()[1], udp.getsockname()[1], other.pid
        finally:
            other.kill()


MSG_FASTOPEN = 0x20000000


def by_fastopen(it, listening, port):
    """A connection without connect(2): of a socket that it has, or has made. A kernel that lets it ask says EISCONN of one that listens."""
    fd = listening if listening is not None else it.call(puppet.SOCKET, socket.AF_INET, socket.SOCK_STREAM | socket.SOCK_CLOEXEC, 0)
    if fd < 0:
        return fd
    answer = it.call(puppet.SENDTO, fd, b"by tcp..", 8, MSG_FASTOPEN | socket.MSG_NOSIGNAL, ipv4(port), 16)
    assert listening is not None or it.call(puppet.CLOSE, fd) == 0
    return min(answer, 0)


def set_owner(it, command, value):
    """Whom a descriptor tells of its input, and by which signal."""
    fd = it.call(puppet.OPENAT, puppet.AT_FDCWD, b"/dev/null", os.O_RDONLY | os.O_CLOEXEC)
    assert fd >= 0
    answer = it.call(puppet.FCNTL, fd, command, value)
    assert it.call(puppet.CLOSE, fd) == 0
    return answer


def listening_of(pid, port):
    """Its number there of the socket that listens at that port of this host; None: it has none."""
    rows = [line.split() for line in pathlib.Path("/proc/net/tcp").read_text().splitlines()[1:]]
    inode = next(row[9] for row in rows if row[1].endswith(f":{port:04X}") and row[3] == "0A")
    for fd in os.listdir(f"/proc/{pid}/fd"):
        with contextlib.suppress(FileNotFoundError):
            if os.readlink(f"/proc/{pid}/fd/{fd}") == f"socket:[{inode}]":
                return int(fd)
    return None


def ways_out(it, tcp, udp, other, listening=None):
    return {
        "connect by what is sent": by_fastopen(it, listening, tcp),
        "an owner of input": set_owner(it, fcntl.F_SETOWN, other),
        "a signal for input": set_owner(it, 10, signal.SIGKILL),  # F_SETSIG
        "connect by TCP": over_tcp(it, tcp),
        "send by UDP": over_udp(it, udp),
        "an IPv6 socket": made_socket(it, socket.AF_INET6, socket.SOCK_STREAM),
        "a netlink socket": made_socket(it, socket.AF_NETLINK, socket.SOCK_RAW),
        "a UNIX socket": made_socket(it, socket.AF_UNIX, socket.SOCK_STREAM),
        "UNIX datagrams": made_pair(it, socket.SOCK_DGRAM),
        "a signal": it.call(puppet.KILL, other, 0),
        "a signal to a thread": it.call(puppet.TGKILL, other, other, 0),
        "another's limits": it.call(puppet.PRLIMIT64, other, 7, 0, 0),
    }


@only(puppet.IS_POSSIBLE)
def test_the_front_reaches_nobody(either):
    """By no socket of its own, whatever its kind, and by no signal; nor does what starts async executions."""
    assert either.run("print(1)").status == 200
    uid = int(status_of(either.front)["Uid"].split()[0])
    assert listening_of(either.front, either.port) is not None
    with others_of(uid) as others, twin_of(either) as twin:
        for pid in (either.front, starter_of(either)):
            with puppet.Puppet(pid) as it:
                done = ways_out(it, *others, listening=listening_of(pid, either.port))
                assert set(done.values()) == {-errno.EPERM}, done
                assert made_pair(it, socket.SOCK_STREAM) == 0, "control: channels to the launcher"
        with puppet.Puppet(twin) as it:
            done = ways_out(it, *others)
            assert set(done.values()) == {0}, f"control, without the walls: {done}"
    front = either.front
    assert either.run("print(2)").json["stdout"] == "2\n" and either.front == front, "it goes on"


@only(puppet.IS_POSSIBLE)
def test_the_front_takes_no_connection_of_others_to_another_place(either):
    """One that it has accepted can neither be led elsewhere nor be bound."""
    with others_of(ORDINARY_UID) as (tcp, _, _), socket.create_connection(("127.0.0.1", either.port)) as client:
        client.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert client.recv(4096).startswith(b"HTTP/1.1 200")
        sockets = [int(fd) for fd in os.listdir(f"/proc/{either.front}/fd") if os.readlink(f"/proc/{either.front}/fd/{fd}").startswith("socket:")]
        assert sockets
        with puppet.Puppet(either.front) as it:
            for fd in sockets:
                assert it.call(puppet.CONNECT, fd, bytes(16), 16) == -errno.EPERM  # AF_UNSPEC: let go of it first
                assert it.call(puppet.CONNECT, fd, ipv4(tcp), 16) == it.call(puppet.BIND, fd, ipv4(0), 16) == -errno.EPERM
        client.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert client.recv(4096).startswith(b"HTTP/1.1 200"), "it goes on"


def test_a_front_of_root_is_in_a_network_with_nothing_in_it(service):
    told = service.get("/api/v1/capabilities").json["front"]["own_network"]
    assert told == ROOT
    if ROOT:  # who alone may look
        assert (os.readlink(f"/proc/{service.front}/ns/net") != os.readlink("/proc/self/ns/net")) == told
        devices = pathlib.Path(f"/proc/{service.front}/net/dev").read_text().splitlines()[2:]
        assert [line.split(":")[0].strip() for line in devices] in ([], ["lo"]) and "00000000" not in pathlib.Path(f"/proc/{service.front}/net/route").read_text()
        assert os.readlink(f"/proc/{service.launcher}/ns/net") == os.readlink("/proc/self/ns/net"), "control"


@pytest.fixture
def secret(either):
    """What only the front's user may read."""
    uid = int(status_of(either.front)["Uid"].split()[0])
    place = either.room / "home"
    place.mkdir()
    (place / "secret").write_text("1")
    for path, mode in ((place, 0o700), (place / "secret", 0o600)):
        os.chown(path, uid, uid)
        path.chmod(mode)
    yield place / "secret"
    shutil.rmtree(place)


def reads(it, secret):
    names = [secret, secret.parent, "/etc/passwd", "/etc/group", "/etc/hostname", "/", "/etc", "/usr/bin", "/usr/bin/env", "/tmp", "/proc",
             "/proc/cpuinfo", "/proc/self/status", "/proc/sys/kernel/ostype", "/sys"]
    return {str(name): opened(it, name, os.O_RDONLY) for name in names if pathlib.Path(name).exists()}


@only(puppet.IS_POSSIBLE and OFFERED)
def test_the_front_reads_nothing_but_its_state_and_libraries(either, secret):
    for pid in (either.front, starter_of(either)):
        with puppet.Puppet(pid) as it:
            done = reads(it, secret)
            assert len(done) > 10 and set(done.values()) == {-errno.EACCES}, done
            for needed in (either.state, either.state / "records.db", "/dev/null", "/dev/urandom", "/usr/lib"):
                assert opened(it, needed, os.O_RDONLY) == 0, needed
    with twin_of(either) as twin, puppet.Puppet(twin) as it:
        done = reads(it, secret)
        assert set(done.values()) == {0}, f"control, without the wall: {done}"
    assert either.run("print(3)").json["stdout"] == "3\n"


@only(puppet.IS_POSSIBLE)
def test_the_front_executes_nothing(either):
    arguments = [b"sleep", b"600"], []
    exe = os.readlink(f"/proc/{either.front}/exe")
    for pid in (either.front, starter_of(either)):
        with puppet.Puppet(pid) as it:
            assert it.call(puppet.EXECVE, b"/bin/sleep", *arguments) == -errno.EPERM
            assert it.call(puppet.EXECVEAT, puppet.AT_FDCWD, b"/bin/sleep", *arguments, 0) == -errno.EPERM
        assert os.readlink(f"/proc/{pid}/exe") == exe
    for number, start in ((puppet.EXECVE, ()), (puppet.EXECVEAT, (puppet.AT_FDCWD,))):
        with twin_of(either) as twin, puppet.Puppet(twin) as it:
            assert it.call(number, *start, b"/bin/sleep", *arguments, 0) == puppet.EXECUTED, "control"
    assert either.run("print(4)").json["stdout"] == "4\n"


# ---- those that have rights ----

NAMES = re.findall(r'"(\w+)"', (SOURCE / "src/kernel/caps.c").read_text().split("names[] = {")[1].split("};")[0])


def documented(who):
    """docs/SERVICE.md, Its processes: what each keeps. Of that, what this root has."""
    page = (SOURCE / "docs/SERVICE.md").read_text().split("\n## Its processes\n")[1].split("\n## ")[0]
    names = re.findall(r"CAP_(\w+)", re.search(rf"^\| `{who}` \|(.*)$", page, re.M)[1])
    has = int(status_of("self")["CapBnd"], 16)
    return {name.lower() for name in names if has >> NAMES.index(name.lower()) & 1}


def words_of(bits):
    return {NAMES[bit] for bit in range(64) if bits >> bit & 1}


def is_as_told(pid, told):
    """What the service says of a process is what the kernel says of it to anybody."""
    status = status_of(pid)
    assert status["CapEff"] == status["CapPrm"] == f"{told['capabilities']:016x}" and status["CapBnd"] == f"{told['bounding']:016x}", (status, told)
    assert {status["CapInh"], status["CapAmb"]} == {"0" * 16}
    assert set(told["capability_names"]) == words_of(told["capabilities"])
    assert [status["NoNewPrivs"], status["Seccomp"]] == ["1" if told["no_new_privs"] else "0", "2" if told["seccomp"] else "0"]
    assert int(status["Seccomp_filters"]) == (told["seccomp_filter"] is not None)
    assert int(status["Uid"].split()[0]) == told["uid"] == os.geteuid()
    # Of one that is not, its files in /proc are its user's; root's are root's either way.
    assert (os.stat(f"/proc/{pid}/mem").st_uid == 0) == (ROOT or not told["dumpable"])
    return status


def supervisors(service):
    told = service.get("/api/v1/capabilities").json
    assert told["keeper"]["seccomp_filter"] == told["launcher"]["seccomp_filter"]
    return [(name, pid, told[name]) for name, pid in (("launcher", service.launcher), ("keeper", service.process.pid))]


def test_what_the_service_says_of_its_keeper_and_launcher(service):
    for name, pid, told in supervisors(service):
        is_as_told(pid, told)
        assert told["no_new_privs"] == told["seccomp"] == (ROOT or not HAS_IDS) and (not told["seccomp"] or len(told["seccomp_filter"]) == 64), name
        assert not told["dumpable"], name
        if not ROOT:
            assert told["capabilities"] == 0
    # Control: who starts them has no filter, and root more capabilities.
    assert status_of("self")["Seccomp_filters"] == "0"


@only(ROOT)
def test_they_have_what_is_documented_and_no_more(service):
    mine = words_of(int(status_of("self")["CapBnd"], 16))
    for name, _, told in supervisors(service):
        assert set(told["capability_names"]) == words_of(told["bounding"]) == documented(name), name
        assert {"sys_module", "sys_boot", "sys_rawio", "sys_time", "mknod"} & mine and not {
            "sys_module", "sys_boot", "sys_rawio", "sys_time", "mknod", "dac_read_search"} & set(told["capability_names"])


def makes_groups_at_the_top(service):
    """Where even root needs a capability to make one."""
    service.create()
    init = next(pid for pid, row in descendants(service.launcher).items() if row[1] == "coto-init")
    groups = [where for where in cgroups_of(init).values() if "/coto-" in str(where)]
    assert groups
    return any(not os.stat(pathlib.Path(str(where)).parent).st_mode & 0o200 for where in groups)


@only(ROOT)
@pytest.mark.parametrize("flags", [("--high-isolation=none",), ("--allow-isolation=standard",)], ids=["none", "not allowed"])
def test_a_launcher_without_containers_reads_no_files_of_others(flags):
    with Daemon(*flags) as it:
        told = it.get("/api/v1/capabilities").json
        keeps = {"dac_override"} if makes_groups_at_the_top(it) else set()
        assert set(told["launcher"]["capability_names"]) == words_of(told["launcher"]["bounding"]) == documented("launcher") - {"dac_override"} | keeps
        assert set(told["keeper"]["capability_names"]) == documented("keeper"), "control"
        is_as_told(it.launcher, told["launcher"])
        assert it.run("print(2+2)").json["missing_walls"] == []
        assert it.stop() == 0


@only(ROOT)
def test_the_next_launcher_and_the_next_front_are_behind_the_same(service):
    before = supervisors(service)[0]
    os.kill(before[1], signal.SIGKILL)
    wait_until(lambda: service.launcher not in (0, before[1]) and service.is_ready(), "another launcher")
    after = supervisors(service)[0]
    assert after[2] == before[2]
    is_as_told(after[1], after[2])
    front = service.front
    os.kill(front, signal.SIGKILL)
    wait_until(lambda: service.front not in (0, front) and service.is_ready(), "another front")
    assert supervisors(service)[1][2] == service.get("/api/v1/capabilities").json["keeper"]
    assert service.run("print(2+2)").json["stdout"] == "4\n"


@only(ROOT)
@pytest.mark.parametrize("runtime", [name for name in ("runsc", "runc") if shutil.which(name)])
def test_runtimes_need_no_more(runtime):
    with Daemon(f"--high-runtime={runtime}", f"--high-allow-runtime={runtime}") as it:
        result = it.run("print(2+2)", isolation_level="high").json
        assert (result["verdict"], result["stdout"], result["runtime"].split()[0]) == ("ok", "4\n", runtime), result
        assert runtime == "runsc" or result["missing_walls"] == [], result
        is_as_told(it.launcher, it.get("/api/v1/capabilities").json["launcher"])
        assert it.stop() == 0


class Regs(ctypes.Structure):
    _fields_ = [(name, ctypes.c_ulonglong) for name in (
        "r15 r14 r13 r12 rbp rbx r11 r10 r9 r8 rax rcx rdx rsi rdi orig_rax rip cs eflags rsp ss fs_base gs_base ds es fs gs").split()]


def call_in(pid, number, *args):
    """A system call made by that process, which waits in one: what the kernel answers to it."""
    libc = ctypes.CDLL(None, use_errno=True)
    attach, step, get, put, detach, wall = 16, 9, 12, 13, 17, 0x40000000

    def ptrace(request, data=None):
        assert libc.ptrace(request, pid, None, data) == 0, os.strerror(ctypes.get_errno())
    libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p]
    ptrace(attach)
    try:
        os.waitpid(pid, wall)
        saved, regs = Regs(), Regs()
        ptrace(get, ctypes.byref(saved))
        ctypes.memmove(ctypes.byref(regs), ctypes.byref(saved), ctypes.sizeof(Regs))
        assert ctypes.c_longlong(saved.orig_rax).value >= 0, "it waits in a call"
        regs.rip, regs.rax, regs.orig_rax = saved.rip - 2, number, 2**64 - 1
        for name, value in zip(("rdi", "rsi", "rdx", "r10", "r8", "r9"), (*args, *[0] * 6)):
            setattr(regs, name, value % 2**64)
        ptrace(put, ctypes.byref(regs))
        ptrace(step)
        os.waitpid(pid, wall)
        ptrace(get, ctypes.byref(regs))
        ptrace(put, ctypes.byref(saved))
        return ctypes.c_longlong(regs.rax).value
    finally:
        ptrace(detach)


# Each fails for root too, and does nothing: what is wrong with it is in its arguments.
REFUSED = {"swapoff": (168, 0), "request_key": (249, 0, 0, 0, 0), "userfaultfd": (323, -1), "reboot": (169, 0, 0, 0, 0), "clock_settime": (227, 0, 0),
           "finit_module": (313, -1, 0, 0), "syslog": (103, 99, 0, 0), "iopl": (172, 9), "adjtimex": (159, 0), "open_by_handle_at": (304, -1, 0, 0),
           "add_key": (248, 0, 0, 0, 0), "quotactl": (179, -1, 0, 0, 0)}
GETPPID, SETNS, KEYCTL = 110, 308, 250


@only(ROOT and os.uname().machine == "x86_64")
@pytest.mark.parametrize("who", ["launcher", "keeper"])
def test_what_nobody_needs_is_refused_to_them(service, who):
    """Also what their capabilities would let them do."""
    pid = service.launcher if who == "launcher" else service.process.pid
    assert {name: call_in(pid, *call) for name, call in REFUSED.items()} == dict.fromkeys(REFUSED, -errno.EPERM)
    # What they need is theirs: a filter that refused everything would be none.
    assert call_in(pid, GETPPID) == int(status_of(pid)["PPid"])
    assert call_in(pid, SETNS, -1, 0) == -errno.EBADF and call_in(pid, KEYCTL, 99, 0) == -errno.EOPNOTSUPP
    assert service.run("print(2+2)").json["stdout"] == "4\n"


@only(puppet.IS_POSSIBLE)
def test_what_nobody_needs_is_refused_to_those_of_an_ordinary_user_too(either):
    """What takes no capability: keys of the kernel."""
    def asked(it):
        return it.call(puppet.REQUEST_KEY, 0, 0, 0, 0), it.call(puppet.ADD_KEY, 0, 0, 0, 0, 0)
    for pid in (either.launcher, either.process.pid):
        with puppet.Puppet(pid) as it:
            assert asked(it) == (-errno.EPERM, -errno.EPERM)
        assert os.stat(f"/proc/{pid}/mem").st_uid == 0, "not dumpable"
    with twin_of(either) as twin, puppet.Puppet(twin) as it:
        assert -errno.EPERM not in asked(it), "control"
        assert str(os.stat(f"/proc/{twin}/mem").st_uid) == status_of(twin)["Uid"].split()[0], "control"
    assert either.run("print(5)").json["stdout"] == "5\n"


def descriptors(service):
    """Of the launcher, which nobody but root can see; without those that it keeps for the next sandbox."""
    found = []
    for fd in os.listdir(f"/proc/{service.launcher}/fd"):
        with contextlib.suppress(FileNotFoundError):
            found.append(os.readlink(f"/proc/{service.launcher}/fd/{fd}"))
    return sorted(re.sub(r"\d+", "N", link) for link in found if not link.startswith(("net:", "/sys/fs/cgroup")))


@only(ROOT)
def test_sandboxes_leave_no_descriptors_in_a_launcher_that_is_not_dumpable(either):
    """That of an ordinary user waits until a child has executed init, and for its files."""
    def use():
        boxes = [f"/api/v1/sandbox/{either.create()['sandbox_id']}" for _ in range(12)]
        assert either.post(f"{boxes[0]}/execute", code="print(6)").json["output"] == "6\n"
        most = len(descriptors(either))
        assert {either.delete(box).status for box in boxes} == {200}
        return most
    use()  # what is opened once is open then
    steady = len(descriptors(either))
    assert use() > steady + 8, "control: those that are there are seen"
    wait_until(lambda: len(descriptors(either)) <= steady + 2, f"the end of them: {descriptors(either)}")


@only(ROOT and os.uname().machine == "x86_64")
def test_control_others_of_root_are_refused_none_of_it():
    with subprocess.Popen(["sleep", "60"]) as other:
        try:
            wait_until(lambda: status_of(other.pid)["State"].startswith("S") and pathlib.Path(f"/proc/{other.pid}/comm").read_text() == "sleep\n", "sleep")
            answers = {name: call_in(other.pid, *call) for name, call in REFUSED.items()}
        finally:
            other.kill()
    assert all(-200 < answer < -1 for answer in answers.values()), answers  # -1 is EPERM


def asked(it, *request):
    """Its status; None: the connection was ended, as those are that are being made when files change."""
    with contextlib.suppress(ConnectionError, ssl.SSLError):
        return it.ask(*request).status


@only(ROOT)
def test_root_still_serves_what_is_others():
    """A state directory in one of somebody else's, and a port that only root may open. His keys are none of ours (tests/api/test_settings.py)."""
    it = Production()
    try:
        theirs = it.room / "theirs"
        theirs.mkdir(mode=0o755)
        it.state = theirs / "state"
        os.chown(theirs, 4321, 4321)
        os.chmod(it.keys, 0o700)
        low = next(port for port in range(1023, 600, -1) if not connects(port))
        it.settings["listen"] = f"127.0.0.1:{low}"
        it.start()
        assert it.port == low and set(documented("keeper")) == words_of(int(status_of(it.process.pid)["CapPrm"], 16))
        token = {"Authorization": f"Bearer {it.mint('alice')}"}
        assert it.ask("POST", "/api/v1/run", {"code": "print(2+2)"}, headers=token).json["stdout"] == "4\n"
        front = it.front
        os.kill(front, signal.SIGKILL)
        wait_until(lambda: it.front not in (0, front), "another front")
        it.signal(signal.SIGHUP)
        it.wait_for_message("reloaded")
        wait_until(lambda: asked(it, "GET", "/readyz") == 200, "readiness")
        assert it.ask("POST", "/api/v1/run", {"code": "print(2+2)"}, headers=token).json["stdout"] == "4\n"
        assert it.stop() == 0
    finally:
        it.__exit__()


def connects(port):
    with contextlib.closing(socket.socket()) as it:
        return it.connect_ex(("127.0.0.1", port)) == 0
