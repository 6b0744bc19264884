"""coto-launch alone, with a front that was taken over at the other end: it asks for what no front of
ours would. The frames are those of wire_frames.py; a plan is as drivers/launcher/talk.c sends it."""
import contextlib
import os
import pathlib
import re
import resource
import signal
import socket
import struct
import subprocess
import time

import pytest

from wire_frames import KIND, ROOT, TAG, Frame, frame

BIN = pathlib.Path(os.environ.get("COTO_TEST_BIN", ROOT / "build"))
NUMBERS = re.findall(r"X\((\w+)\)", re.search(r"#define NUMBERS\(X\)(.*?)\n\nenum", (ROOT / "src/drivers/launcher/talk.c").read_text(), re.S)[1])
PROCESS, SUBPROCESS, CONTAINER, DOCKER = range(4)
NONE = 2**63 - 1  # COTO_UNIT_NONE
WALLS = re.findall(r'X\((\w+), "\w+", (CORE|LIMIT)', (ROOT / "src/schema/walls.h").read_text())
CORE = sum(1 << i for i, (_, kind) in enumerate(WALLS) if kind == "CORE")
STRICT, DEFAULT, DEBUG = range(3)
AUTO, SINGLE, SUBUID = range(3)
CAP_CHOWN, CAP_SYS_ADMIN = 1 << 0, 1 << 21
PLAN = dict.fromkeys(NUMBERS, 0) | {"need": CORE, "want": CORE, "uid": 9999, "gid": 9999, "memory_bytes": NONE, "swap_bytes": NONE, "cpus_milli": NONE, "pids": NONE, "iops": NONE,
                                    "cpu_time_ms": NONE, "disk_bytes": 1 << 20, "tmp_bytes": 1 << 20, "inodes": 1000}
SECONDS = 60
HOLD = int(re.search(r"COTO_LAUNCH_HOLD \((\d+)u \* 1024\)", (ROOT / "src/drivers/launcher/client.h").read_text())[1]) * 1024


class Launcher:
    def __init__(self, *flags):
        self.keeper, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.process = subprocess.Popen([BIN / "coto-launch", f"--keeper={theirs.fileno()}", *flags], pass_fds=[theirs.fileno()], env={},
                                        stdin=subprocess.DEVNULL)
        theirs.close()
        self.control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        socket.send_fds(self.keeper, [b"F"], [theirs.fileno()])
        theirs.close()
        self.control.settimeout(SECONDS)

    def tell(self, kind, *fields, user="sandbox", host="coto", tmpfs=(), **changes):
        plan = PLAN | changes
        values = b"".join(struct.pack("<Q", plan[name] % 2**64) for name in NUMBERS)
        extra = [field for path, size in tmpfs for field in (("S_TMPFS", path), ("S_TMPFS_SIZE", size))]
        self.control.send(frame(kind, 0, *fields, ("L_NUMBERS", values), ("S_USER", user), ("S_HOST", host), ("CWD", "/workspace"), *extra))

    def ask(self, kind, *fields, **more):
        """The answer, and the descriptor that came with it."""
        self.tell(kind, *fields, **more)
        data, fds, _, _ = socket.recv_fds(self.control, 1 << 17, 4)
        size, number, proc = struct.unpack_from("<IHH", data)
        return Frame(number, proc, data[8:8 + size]), fds[0] if fds else None

    def close(self):
        self.control.close()
        self.keeper.close()
        assert self.process.wait(SECONDS) == 0


@pytest.fixture
def launch():
    made = []

    def call(*flags):
        made.append(Launcher(*flags))
        return made[-1]
    yield call
    for it in made:
        it.close()


def refusal(answer):
    got, fd = answer
    assert got.kind == "ERROR" and fd is None, got
    return got.bytes("TEXT").decode()


@pytest.mark.parametrize("kind", ["CREATE", "CHECK"])
@pytest.mark.parametrize("level", [CONTAINER, DOCKER])
@pytest.mark.parametrize("flags", [[], [f"--high-isolation={CONTAINER}"], [f"--high-isolation={DOCKER}"]])
def test_only_the_level_that_is_set_up(launch, kind, level, flags):
    if flags == [f"--high-isolation={level}"]:
        flags = [*flags, "--high-runtime=nosuch"]  # the control: this one gets as far as the runtime
        assert "not set up" not in refusal(launch(*flags).ask(kind, isolation=level))
    else:
        assert "not set up" in refusal(launch(*flags).ask(kind, isolation=level))


@pytest.mark.parametrize("level", [SUBPROCESS, 4, 99, -1])
def test_levels_that_no_launcher_makes(launch, level):
    assert "makes no sense" in refusal(launch(f"--high-isolation={level}").ask("CREATE", isolation=level))


@pytest.mark.parametrize("kind", ["CREATE", "CHECK"])
@pytest.mark.parametrize("levels, level, is_allowed", [(1, PROCESS, True), (2, PROCESS, False), (2, CONTAINER, True), (1, CONTAINER, False)])
def test_only_levels_that_the_operator_allows(launch, kind, levels, level, is_allowed):
    """Where only gVisor is, no front gets a sandbox on the host's own kernel."""
    it = launch(f"--high-isolation={CONTAINER}", "--high-runtime=nosuch", f"--levels={levels}")
    if (kind, level) == ("CHECK", PROCESS):
        return
    got, fd = it.ask(kind, isolation=level)
    if level == PROCESS and is_allowed:
        assert got.kind == "CREATED"
        os.close(fd)
    else:
        assert ("does not allow" in refusal((got, fd))) != is_allowed


# ---- what outlives a front that was taken over ----

def ask(sock, kind, *fields):
    sock.send(frame(kind, 0, *fields))
    data, fds, _, _ = socket.recv_fds(sock, 1 << 17, 4)
    size, number, proc = struct.unpack_from("<IHH", data)
    return Frame(number, proc, data[8:8 + size]), fds[0] if fds else None


def open_channel(it, ours, theirs):
    socket.send_fds(it.control, [frame("CHANNEL", 0)], [theirs.fileno()])
    data = it.control.recv(1 << 16)
    _, number, proc = struct.unpack_from("<IHH", data)
    theirs.close()
    ours.settimeout(SECONDS)
    return Frame(number, proc, data[8:]).kind


def next_front(it):
    it.control.close()
    it.control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    socket.send_fds(it.keeper, [b"F"], [theirs.fileno()])
    theirs.close()
    it.control.settimeout(SECONDS)


def connection():
    with socket.create_server(("127.0.0.1", 0)) as server:
        ours = socket.create_connection(server.getsockname())
        return ours, server.accept()[0]


def test_no_stranger_has_a_channel(launch):
    it = launch()
    for pair in (connection(), socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM), socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)):
        with pair[0]:
            assert open_channel(it, *pair) == "ERROR"
    pair = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with pair[0]:
        assert open_channel(it, *pair) == "DONE", "control"
        assert ask(pair[0], "STATUS")[0].kind == "STATUS_IS"


def channels(it, count):
    """Our ends of so many, closed with the stack that is given back."""
    stack = contextlib.ExitStack()
    made = []
    for _ in range(count):
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        made.append(stack.enter_context(ours))
        assert open_channel(it, ours, theirs) == "DONE"
    return stack, made


def plan_fields():
    values = b"".join(struct.pack("<Q", PLAN[name] % 2**64) for name in NUMBERS)
    return ("L_NUMBERS", values), ("S_USER", "sandbox"), ("S_HOST", "coto"), ("CWD", "/workspace")


def kind_of(answer):
    """And the stream that came with it is closed."""
    if answer[1] is not None:
        os.close(answer[1])
    return answer[0].kind


def refused_to_what_is_left(answer):
    got, fd = answer
    return fd is None and got.kind == "ERROR" and b"its front is gone" in got.bytes("TEXT")


def test_a_channel_has_no_say_after_its_front(launch):
    """Neither one that is silent nor one of an execution that goes on, beyond its own."""
    it = launch()
    stack, (idle, staying, working) = channels(it, 3)
    with stack:
        assert [ask(sock, "USE")[0].kind for sock in (staying, working)] == ["DONE"] * 2
        assert ask(idle, "STATUS")[0].kind == ask(staying, "STATUS")[0].kind == "STATUS_IS", "control"
        own, fd = ask(working, "CREATE", *plan_fields())
        assert own.kind == "CREATED"
        stack.callback(os.close, fd)
        next_front(it)
        made, fd = it.ask("CREATE", ("L_HOLD", b"secret"))
        assert made.kind == "CREATED"
        box = ("L_BOX", made.number("L_BOX"))
        for sock in (idle, staying, working):
            for kind in ("STATUS", "HELD", "USE", "USAGE", "DESTROY"):
                assert refused_to_what_is_left(ask(sock, kind, box)), kind
        assert kind_of(ask(idle, "HELD")) == "DONE", "nor is it told which there are"
        with contextlib.closing(socket.socket(fileno=fd)):
            assert it.ask("USAGE", box)[0].kind == "USED", "control: it is there, for its front"
        assert idle.recv(16) == staying.recv(16) == b"", "and what has nothing to do is closed after a while"
        assert ask(working, "USAGE", ("L_BOX", own.number("L_BOX")))[0].kind == "USED", "not so what goes on"


def test_what_had_just_begun_finds_its_own_sandbox(launch):
    """Also when its front is gone before it has asked: the one it is for, no other's, and no second one."""
    it = launch()
    stack, (begun, late, other) = channels(it, 3)
    with stack:
        mine, theirs = (it.ask("CREATE", ("L_HOLD", b"text")) for _ in range(2))
        for _, fd in (mine, theirs):
            os.close(fd)
        mine, theirs = (("L_BOX", got.number("L_BOX")) for got, _ in (mine, theirs))
        assert ask(other, "USE", theirs)[0].kind == "DONE"
        next_front(it)
        assert kind_of(ask(begun, "HELD", mine)) == "CREATED" and ask(begun, "USE", mine)[0].kind == "DONE"
        assert ask(begun, "USAGE", mine)[0].kind == "USED"
        assert refused_to_what_is_left(ask(begun, "HELD", mine)) and refused_to_what_is_left(ask(begun, "USE", theirs))
        for box in (mine, theirs):
            assert refused_to_what_is_left(ask(late, "HELD", box)) and refused_to_what_is_left(ask(late, "USE", box)), "somebody has it"
        begun.close()

        def is_free():
            got, fd = it.ask("HELD", mine)
            if fd is not None:
                os.close(fd)
            return got.number("L_BUSY") == 0
        end = time.monotonic() + SECONDS
        while not is_free():
            assert time.monotonic() < end
        assert kind_of(ask(late, "HELD", mine)) == "CREATED", "control: it was the user that was in the way"


def test_what_outlives_its_front_makes_one_sandbox(launch):
    """The one of its execution; and leaves none to the next front."""
    it = launch()
    stack, (begun, before, holding) = channels(it, 3)
    with stack:
        assert [ask(sock, "USE")[0].kind for sock in (begun, before, holding)] == ["DONE"] * 3
        for _ in range(2):
            made, fd = ask(before, "CREATE", *plan_fields())
            assert made.kind == "CREATED", "control: as often as it likes, with its front"
            os.close(fd)
            assert ask(before, "DESTROY", ("L_BOX", made.number("L_BOX")))[0].kind == "USED"
        next_front(it)
        assert "what is to be held makes no sense" in refusal(ask(holding, "CREATE", ("L_HOLD", b"text"), *plan_fields()))
        made, fd = ask(begun, "CREATE", *plan_fields())
        assert made.kind == "CREATED"
        os.close(fd)
        assert refused_to_what_is_left(ask(begun, "CREATE", *plan_fields()))
        assert ask(begun, "DESTROY", ("L_BOX", made.number("L_BOX")))[0].kind == "USED"
        for sock in (begun, before):
            assert refused_to_what_is_left(ask(sock, "CREATE", *plan_fields()))


@pytest.fixture
def many_files():
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 8192), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_what_fronts_leave_behind_leaves_room_for_the_next(launch, many_files):
    """512 workers, 32 quick ones and 512 async executions, as many as there ever are; and an execution is not among those closed for it."""
    it = launch()

    def open_until(most):
        count = 0
        while count < most:
            ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            stack.enter_context(ours)
            if open_channel(it, ours, theirs) != "DONE":
                break
            assert ask(ours, "USE")[0].kind == "DONE"
            count += 1
        return count
    stack, (working,) = channels(it, 1)
    with stack:
        assert ask(working, "USE")[0].kind == "DONE"
        made, fd = ask(working, "CREATE", *plan_fields())
        assert made.kind == "CREATED"
        os.close(fd)
        assert 1056 < open_until(5000) < 5000, "as many as there is room for"
        next_front(it)
        assert open_until(1056) == 1056
        assert ask(working, "USAGE", ("L_BOX", made.number("L_BOX")))[0].kind == "USED"


def init_of(it):
    for _ in range(SECONDS * 20):
        for pid in pathlib.Path(f"/proc/{it.process.pid}/task/{it.process.pid}/children").read_text().split():
            if pathlib.Path(f"/proc/{pid}/comm").read_text().strip() == "coto-init":
                return int(pid)
        time.sleep(0.05)
    raise AssertionError("no init")


@pytest.mark.parametrize("is_full", [False, True])
def test_a_full_stream_keeps_it_waiting_for_nobody(launch, is_full):
    """The front had it too, and its init reads nothing: that sandbox ends with its front. The control is one whose stream is empty."""
    it = launch()
    made, fd = it.ask("CREATE", ("L_HOLD", b"text"))
    assert made.kind == "CREATED"
    init = init_of(it)
    os.kill(init, signal.SIGSTOP)
    with socket.socket(fileno=fd) as stream:
        stream.setblocking(False)
        with contextlib.suppress(BlockingIOError):
            while is_full:
                stream.send(bytes(1 << 12))
        stream.setblocking(True)
        next_front(it)
        it.control.settimeout(30)
        got, fd = it.ask("HELD", ("L_BOX", 0))
        assert got.kind == ("DONE" if is_full else "CREATED")
    if fd is not None:
        os.kill(init, signal.SIGCONT)
        os.close(fd)


def filled():
    """A connection whose closing waits for a minute."""
    ours, theirs = connection()
    theirs.setblocking(False)
    with contextlib.suppress(BlockingIOError):
        while True:
            theirs.send(bytes(1 << 16))
    theirs.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 60))
    return ours, theirs


def sends(theirs, spare):
    """What comes with which descriptors: one that nobody asked for, one that is no channel, a second one, and one with what is no frame."""
    return {"STATUS": (frame("STATUS", 0), [theirs]), "CHANNEL": (frame("CHANNEL", 0), [theirs]),
            "second": (frame("STATUS", 0), [spare, theirs]), "no frame": (b"xx", [theirs])}


@pytest.mark.parametrize("what", sends(None, None))
def test_no_descriptor_keeps_it_waiting(launch, what):
    it = launch()
    ours, theirs = filled()
    stack, (sock,) = channels(it, 1)
    sock = it.control if what == "CHANNEL" else sock
    with ours, stack, open(os.devnull, "rb") as spare:
        began = time.monotonic()
        os.kill(it.process.pid, signal.SIGSTOP)  # else our own closing could be the last, and wait
        data, given = sends(theirs, spare)[what]
        socket.send_fds(sock, [data], [one.fileno() for one in given])
        theirs.close()
        os.kill(it.process.pid, signal.SIGCONT)
        answer = sock.recv(1 << 16)
        assert bool(answer) == (what != "no frame")
        assert ask(it.control, "STATUS")[0].kind == "STATUS_IS"
        assert time.monotonic() - began < 30


def test_the_keeper_hears_whether_it_is_there(launch):
    it = launch()
    it.keeper.settimeout(SECONDS)
    it.keeper.send(b"P")
    assert it.keeper.recv(16) == b"P"
    assert ask(it.control, "STATUS")[0].kind == "STATUS_IS"


def test_a_front_cannot_name_a_runtime_or_an_image(launch):
    """Whatever it adds to the plan."""
    more = [(tag, "/bin/sh") for tag in ("L_RUNTIME", "L_DRIVER", "L_GUEST", "S_ROOTFS", "S_SOURCE")]
    assert "runtime 'lxc'" in refusal(launch(f"--high-isolation={CONTAINER}", "--high-runtime=lxc").ask("CREATE", *more, isolation=CONTAINER))


def test_the_ceiling_holds_at_every_level(launch):
    it = launch(f"--high-isolation={CONTAINER}", "--high-runtime=nosuch", "--memory=1000000")
    for level in (PROCESS, CONTAINER):
        assert "ceiling" in refusal(it.ask("CREATE", isolation=level, memory_bytes=1000001))


# What is beyond, by its name; and what is not.
CEILINGS = {
    "memory": ("--memory=67108864", "memory_bytes", (1 << 26) + 1, 1 << 26),
    "cpus": ("--cpus=2000", "cpus_milli", 2001, 2000),
    "pids": ("--pids=10", "pids", 11, 10),
    "disk": ("--disk=1048576", "disk_bytes", (1 << 20) + 1, 1 << 20),
    "swap": ("--swap=0", "swap_bytes", 1, 0),
    "tmp-size": ("--tmp-size=1048576", "tmp_bytes", (1 << 20) + 1, 1 << 20),
    "inodes": ("--inodes=1000", "inodes", 1001, 1000),
    "ptys": ("--ptys=2", "ptys", 3, 2),
    "cap-add": (f"--caps={CAP_CHOWN}", "caps", CAP_CHOWN | CAP_SYS_ADMIN, CAP_CHOWN),
    "seccomp": (f"--seccomp={STRICT}", "seccomp_tier", DEFAULT, STRICT),
    "idmap": (f"--idmaps={1 << AUTO}", "idmap", SINGLE, AUTO),
    "user": ("--ids=9999:9999", "uid", 1000, 9999),
    "allow-missing": ("--pids=10", "need", CORE & ~(1 << 7), CORE),
}
NONE_ARE_LOW = {"memory_bytes": 1 << 26, "swap_bytes": 0, "cpus_milli": 2000, "pids": 10}


@pytest.mark.parametrize("name", CEILINGS)
def test_every_size_and_wall_has_a_ceiling(launch, name):
    flag, number, beyond, within = CEILINGS[name]
    it = launch(flag)
    assert f"launcher: {name}: the plan is beyond" in refusal(it.ask("CREATE", **NONE_ARE_LOW | {number: beyond}))
    got, fd = it.ask("CREATE", **NONE_ARE_LOW | {number: within})
    assert got.kind == "CREATED", got.bytes("TEXT")
    os.close(fd)


@pytest.mark.parametrize("changes, name", [({"seccomp_tier": DEBUG}, "seccomp"), ({"idmap": SINGLE}, "idmap"), ({"idmap": SUBUID}, "idmap"),
                                           ({"caps": CAP_CHOWN}, "cap-add"), ({"ptys": 1}, "ptys"), ({"need": 0}, "allow-missing"), ({"want": 0}, "allow-missing")])
def test_what_weakens_a_wall_has_to_be_allowed(launch, changes, name):
    """A launcher that was told nothing allows none of it."""
    assert f"launcher: {name}: the plan is beyond" in refusal(launch().ask("CREATE", **changes))


def test_only_modules_that_a_profile_has(launch):
    """They are imported outside of all sandboxes."""
    it = launch("--modules=numpy,pandas", "--modules=wave")
    for names in ("antigravity", "numpy", "wave,numpy", "numpy,pandas,"):
        assert "modules: the plan is beyond" in refusal(it.ask("CREATE", ("L_MODULES", names)))
    got, fd = it.ask("CREATE", ("L_MODULES", "numpy,pandas"))
    assert got.kind == "CREATED"
    os.close(fd)


def test_extra_file_systems_have_a_ceiling_each(launch):
    it = launch("--tmp-size=1048576")
    assert "launcher: tmpfs: the plan is beyond" in refusal(it.ask("CREATE", tmpfs=[("/var/tmp", 4096), ("/run/x", (1 << 20) + 1)]))
    for bad in ([("/var/tmp", 0)], [("/var/tmp", 2**64 - 1)], [("var", 4096)]):
        assert "makes no sense" in refusal(it.ask("CREATE", tmpfs=bad))
    got, fd = it.ask("CREATE", tmpfs=[("/var/tmp", 1 << 20)])
    assert got.kind == "CREATED", got.bytes("TEXT")
    os.close(fd)


@pytest.mark.parametrize("changes", [{"seccomp_tier": 3}, {"seccomp_tier": -1}, {"idmap": 3}, {"idmap": -1}, {"idmap": 64}, {"ptys": -1}, {"uid": 0}, {"gid": 0},
                                     {"user": ""}, {"user": "a\nroot:x:0:0"}, {"host": "h" * 300}, {"host": "a\x1b"}])
def test_plans_that_make_no_sense(launch, changes):
    assert "makes no sense" in refusal(launch().ask("CREATE", **changes))


def test_no_interpreter_is_parked_in_a_native_sandbox(launch):
    """It would be started without the walls that the launcher wants of every program there."""
    got, fd = launch().ask("CREATE", isolation=PROCESS)
    assert got.kind == "CREATED" and fd is not None, got
    with socket.socket(fileno=fd) as stream:
        stream.setblocking(True)
        stream.settimeout(SECONDS)
        stream.sendall(frame("PARK", 0, ("ARGV", "/bin/true"), ("CWD", "/")))
        size, number, proc = struct.unpack("<IHH", stream.recv(8, socket.MSG_WAITALL))
        answer = Frame(number, proc, stream.recv(size, socket.MSG_WAITALL))
    assert answer.kind == "ERROR" and answer.number("KIND") == KIND["FORBIDDEN"], answer


@pytest.fixture(scope="module")
def filters(tmp_path_factory):
    """The system-call filters of the tiers strict and default, as EXEC has them."""
    tool = tmp_path_factory.mktemp("filter") / "print_filter"
    sources = ["tests/escape/print_filter.c", "src/kernel/seccomp.c", "src/base/err.c", "src/base/sha256.c"]
    subprocess.run(["gcc", "-std=gnu11", "-D_GNU_SOURCE", "-Isrc", *sources, "-o", tool], cwd=ROOT, check=True, timeout=120)

    def of(tier):
        lines = subprocess.run([tool, str(tier), "0"], check=True, capture_output=True, text=True, timeout=60).stdout.splitlines()
        return b"".join(struct.pack("<HBBI", *map(int, line.split())) for line in lines[1:])
    return of(STRICT), of(DEFAULT)


# Of every program, beside the one on cores: none of them higher.
LIMITS = {resource.RLIMIT_MEMLOCK: 65536, 11: 1024, 12: 0, 13: 0, 14: 0}  # sigpending, msgqueue, nice, rtprio


def limits(*changes):
    """As EXEC has them; a change is (resource, limit), the limit None for none at all."""
    rows = {resource.RLIMIT_CORE: 1} | LIMITS | dict(changes)
    return [struct.pack("<3Q", number, limit, limit) for number, limit in rows.items() if limit is not None]


class Stream:
    """To the init of a sandbox, by which programs are started."""

    def __init__(self, fd, filter_):
        self.socket = socket.socket(fileno=fd)
        self.socket.setblocking(True)
        self.socket.settimeout(SECONDS)
        self.whole = {"UID": PLAN["uid"], "GID": PLAN["gid"], "SECCOMP": filter_, "LANDLOCK_ABI": 100, "WRITABLE": "/tmp", "RLIMIT": limits()}

    def start(self, tag=None, value=None):
        rows = [(name, item) for name, items in (self.whole | {tag: value}).items() for item in (items if isinstance(items, list) else [items])]
        self.socket.sendall(frame("EXEC", 1, ("ARGV", "/bin/true"), ("CWD", "/"), ("STDIO", 1), *(row for row in rows if row[1] is not None)))
        size, number, proc = struct.unpack("<IHH", self.socket.recv(8, socket.MSG_WAITALL))
        return Frame(number, proc, self.socket.recv(size, socket.MSG_WAITALL))

    def refuses(self, less):
        for wall, tag, value in less:
            answer = self.start(tag, value)
            assert answer.kind == "ERROR" and wall in answer.bytes("TEXT").decode(), (tag, value if tag != "SECCOMP" else "", answer)


def is_higher_here(number, limit):
    """Who has no more of it himself cannot give it either."""
    most = resource.getrlimit(number)[1]
    return most == resource.RLIM_INFINITY or most > limit


def test_no_program_with_less_than_its_sandbox_was_made_for(launch, filters):
    """Init holds each to what the launcher has said. The control is one that has it all, in the same sandbox."""
    got, fd = launch().ask("CREATE", isolation=PROCESS)
    assert got.kind == "CREATED" and fd is not None, got
    less = [("seccomp", "SECCOMP", None), ("seccomp", "SECCOMP", filters[1]), ("seccomp", "SECCOMP", filters[0][:-8]), ("landlock", "LANDLOCK_ABI", None),
            ("landlock", "LANDLOCK_ABI", 0), ("field", "LANDLOCK_ABI", 2**32 + 1), ("landlock", "WRITABLE", "/"), ("uid", "UID", None), ("uid", "UID", 0),
            ("uid", "UID", 2**32 + PLAN["uid"]), ("uid", "GID", 0), ("capabilities", "CAPS", CAP_CHOWN)]
    if resource.getrlimit(resource.RLIMIT_CORE)[1] != 0:
        rest = limits((resource.RLIMIT_CORE, None))
        less += [("cores", "RLIMIT", rest + ([struct.pack("<3Q", resource.RLIMIT_CORE, *value)] if value else []))
                 for value in (None, (0, 0), (0, 1), (1, 2), (2**64 - 1,) * 2)]
    less += [("rlimits", "RLIMIT", limits((number, value))) for number, limit in LIMITS.items() if is_higher_here(number, limit)
             for value in (None, limit + 1, 2**64 - 1)]
    stream = Stream(fd, filters[0])
    with stream.socket:
        stream.refuses(less)
        assert stream.start().kind == "STARTED"


def test_no_program_without_the_limits_that_no_group_holds(launch, filters):
    """An ordinary user's sandbox has processes and memory limited by what each process carries: a front that was taken over left it out."""
    walls = sum(1 << i for i, (name, _) in enumerate(WALLS) if name in ("PIDS", "MEMORY"))
    got, fd = launch().ask("CREATE", isolation=PROCESS, want=CORE | walls, pids=50, memory_bytes=256 << 20)
    assert got.kind == "CREATED" and fd is not None, got
    nproc, data = struct.unpack("<2q", got.bytes("L_SANDBOX")[-16:])
    assert nproc in (0, 51) and data in (0, 256 << 20), "0: its group holds it"
    own = [(number, limit) for number, limit in ((resource.RLIMIT_NPROC, nproc), (resource.RLIMIT_DATA, data)) if limit]
    words = {resource.RLIMIT_NPROC: "pids", resource.RLIMIT_DATA: "memory"}
    stream = Stream(fd, filters[0])
    with stream.socket:
        for number, limit in own:
            stream.refuses([(words[number], "RLIMIT", limits(*own, (number, value))) for value in (None, limit + 1, 2**64 - 1)])
            twice = limits(*own) + [struct.pack("<3Q", number, limit + 1, limit + 1)]
            stream.refuses([(words[number], "RLIMIT", twice), (words[number], "RLIMIT", twice[::-1])])
        assert stream.start("RLIMIT", limits(*own)).kind == "STARTED"


def test_nothing_stands_behind_what_an_interpreter_does_not_get(launch, filters):
    """An interpreter that waits is handed a frame up to RESIDENT: walls that stand behind it would be those of init's check alone."""
    got, fd = launch().ask("CREATE", isolation=PROCESS)
    assert got.kind == "CREATED" and fd is not None, got
    stream = Stream(fd, filters[0])
    whole = stream.whole
    with stream.socket:
        for name in ("SECCOMP", "LANDLOCK_ABI", "WRITABLE", "RLIMIT", "UID"):
            stream.whole = {**{it: whole[it] for it in whole if it != name}, "RESIDENT": ["python3", "text"], name: whole[name]}
            stream.refuses([("bad field", "CONTEXT", 1)])
        stream.whole = whole
        assert stream.start("RESIDENT", ["python3", "text"]).kind == "STARTED", "control: behind all of them"


def descriptors(it):
    """Which it has, where they are ours to see: of a user's launcher, which is not dumpable, how many it has room for."""
    status = pathlib.Path(f"/proc/{it.process.pid}/status").read_text()
    return sorted(os.listdir(f"/proc/{it.process.pid}/fd")) if os.geteuid() == 0 else re.search(r"FDSize:\s+(\d+)", status)[1]


def test_descriptors_that_nobody_asked_for_are_closed(launch):
    """However many come with a message: the launcher outlives the front that sent them."""
    it = launch()
    it.ask("STATUS")
    before = descriptors(it)
    with open(os.devnull, "rb") as null:
        for count in (1, 2, 3, 8):
            for _ in range(50):
                socket.send_fds(it.control, [frame("STATUS")], [null.fileno()] * count)
                assert it.control.recv(1 << 17)
    assert descriptors(it) == before


def test_a_channel_whose_answers_nobody_reads_holds_up_nobody(launch):
    """Others are answered; it is closed."""
    it = launch()
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours, theirs:
        socket.send_fds(it.control, [frame("CHANNEL")], [theirs.fileno()])
        assert it.control.recv(1 << 17)
        ours.setblocking(False)
        is_closed = False
        for _ in range(20):
            try:
                while not is_closed:
                    ours.send(frame("STATUS"))
            except BlockingIOError:
                pass
            except BrokenPipeError:
                is_closed = True
            assert it.ask("STATUS")[0].kind == "STATUS_IS"
        assert is_closed


def test_what_the_next_front_must_know_is_bounded(launch):
    """Else the answer to that one would be too long to be sent."""
    it = launch()
    assert "makes no sense" in refusal(it.ask("CREATE", ("L_HOLD", b"x" * 60000)))
    got, fd = it.ask("CREATE", ("L_HOLD", b"x" * HOLD))
    assert got.kind == "CREATED", got.bytes("TEXT")
    os.close(fd)
    got, fd = it.ask("HELD")
    assert got.kind == "CREATED" and len(got.bytes("L_HOLD")) == HOLD
    os.close(fd)


def test_a_sandbox_kept_ready_is_of_the_plan_it_is_asked_by(launch):
    """Whatever stood before the plan when it was put on the shelf."""
    it = launch()
    it.tell("WARM", ("S_TMPFS", "/planted"), ("S_TMPFS_SIZE", 4096), ("CWD", "/elsewhere"), ("L_MIN", 1), ("L_MAX", 1))
    got, fd = it.ask("CREATE")
    assert got.kind == "CREATED", got.bytes("TEXT")
    with socket.socket(fileno=fd) as stream:
        stream.settimeout(SECONDS)
        for path, kind in (("/planted", "ERROR"), ("/elsewhere", "ERROR"), ("/workspace", "FILE")):
            stream.sendall(frame("GET", 9, ("PATH", path)))
            answers = []
            while not answers or answers[-1].kind not in ("ERROR", "COLLECTED"):
                size, number, proc = struct.unpack("<IHH", stream.recv(8, socket.MSG_WAITALL))
                answers.append(Frame(number, proc, stream.recv(size, socket.MSG_WAITALL) if size else b""))
            assert answers[0].kind == kind, path


def shelves(it):
    """Profile and target of each kind that is kept ready."""
    rows = [struct.unpack("<64s6Q", value) for number, value in it.ask("STATUS")[0].fields if number == TAG["L_SHELF"]]
    return [(row[0].rstrip(b"\0"), row[4]) for row in rows]


def test_a_profile_that_makes_the_same_plan_changes_no_others_numbers(launch):
    """Whoever set them up does; another plan is another kind."""
    it = launch()
    it.tell("WARM", ("L_MIN", 3), ("L_MAX", 9), ("L_PROFILE", "first"))
    it.tell("WARM", ("L_MIN", 1), ("L_MAX", 1), ("L_PROFILE", "second"))
    assert shelves(it) == [(b"first", 3)]
    it.tell("WARM", ("L_MIN", 2), ("L_MAX", 9), ("L_PROFILE", "first"))
    it.tell("WARM", ("L_MIN", 1), ("L_MAX", 1), ("L_PROFILE", "x" * 500), inodes=999)
    assert shelves(it) == [(b"first", 2), (b"x" * 63, 1)]


@pytest.mark.parametrize("front_ends", [True, False])
def test_without_its_keeper_it_ends_what_runs_once_the_front_has(launch, front_ends):
    """A front that the kernel has not come to yet would tell how its sandboxes have ended. One that lives on is not waited for."""
    it = launch()
    _, fd = it.ask("CREATE")
    stream = socket.socket(fileno=fd)
    stream.settimeout(0.3)
    it.keeper.close()
    with pytest.raises(TimeoutError):
        stream.recv(1)
    if front_ends:
        it.control.close()
    stream.settimeout(SECONDS)
    with contextlib.suppress(ConnectionResetError):
        assert stream.recv(1) == b""
    stream.close()
    assert it.process.wait(SECONDS) == 0
