"""A sandbox that somebody has used is never given to anybody else, at level standard: whoever gets one finds nothing of
those before, and the host sees that it is another one. Level high: test_high.py."""
import contextlib
import itertools
import json
import os
import resource
import subprocess
import threading

import pytest

from cli.helpers import COTO, descendants

from .daemon import Daemon
from .helpers import PATIENCE, wait_until

CALLERS = ["owner", "local", "alice", "bob"]
ROUNDS = 10
NAMESPACES = ("pid", "mnt", "ipc")
# What is there of marks, then marks of one's own everywhere. Told: where some were found, and in which namespaces.
CODE = """
import builtins, ctypes, glob, json, os, socket, subprocess, sys
def marks(texts):
    return [text for text in texts if 'mark-of-' in text]
def lines():
    for name in os.listdir('/proc'):
        try:
            yield open(f'/proc/{name}/cmdline').read() if name.isdigit() and int(name) != os.getpid() else ''
        except OSError:
            pass
found = {
    'tmp': marks(os.listdir('/tmp')), 'shm': marks(os.listdir('/dev/shm')), 'workspace': marks(os.listdir('.')),
    'environment': marks(os.environ), 'globals': marks(globals()), 'module': marks(vars(json)), 'builtins': marks(vars(builtins)),
    'modules': marks(sys.modules), 'processes': marks(lines()), 'sockets': marks(open('/proc/net/unix')),
    'memory': open('/proc/sysvipc/shm').readlines()[1:],
}
word = 'mark-of-WORD'
for place in ('/tmp', '/dev/shm', '.'):
    open(f'{place}/{word}', 'w').close()
os.environ[word] = word
for where in (globals(), vars(json), vars(builtins), sys.modules):
    where[word] = word
libc = ctypes.CDLL(None)
libc.shmget(0, 4096, 0o1600)
kept = socket.socket(socket.AF_UNIX)
kept.bind('\\0' + word)
subprocess.Popen(['sh', '-c', 'sleep 300; exit', word], start_new_session=True, stdin=subprocess.DEVNULL,
                 stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
print(json.dumps([{place: it for place, it in found.items() if it}, [os.readlink(f'/proc/self/ns/{name}') for name in NAMESPACES]]))
""".replace("NAMESPACES", repr(NAMESPACES))
words = itertools.count()


@pytest.fixture(scope="module")
def service():
    it = Daemon("--high-isolation=none")
    subprocess.run([COTO, "token", "keygen", "es256", it.room / "keys"], check=True, capture_output=True, timeout=PATIENCE)
    it.flags += (f"--jwt-key={it.room / 'keys/es256.pub'}",)
    with it:
        it.tokens = {"owner": None, "local": True, **{name: mint(it, name) for name in CALLERS[2:]}}
        yield it
        assert it.stop() == 0, it.messages


def mint(service, tenant):
    return subprocess.run([COTO, "token", "mint", "--key", service.room / "keys/es256.key", "--sub", tenant], check=True,
                          capture_output=True, text=True, timeout=PATIENCE).stdout.strip()


def code():
    return CODE.replace("WORD", str(next(words)))


def told(reply, name):
    assert reply.status == 200 and reply.json["verdict"] == "ok", reply
    found, namespaces = json.loads(reply.json[name])
    return found, tuple(namespaces)


class Held:
    """Descriptors of the namespaces of sandboxes that were alive: as long as they are open nothing else gets their numbers."""

    def __init__(self):
        self.fds, self.lock, self.used = {}, threading.Lock(), set()

    def __enter__(self):
        self.before = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (self.before[1], self.before[1]))
        return self

    def __exit__(self, *_):
        for fd in itertools.chain(*self.fds.values()):
            os.close(fd)
        resource.setrlimit(resource.RLIMIT_NOFILE, self.before)

    def take(self, launcher):
        """Those of all that are alive now."""
        with self.lock:
            for life in lives(inits(launcher)) - set(self.fds):
                with contextlib.suppress(OSError):
                    self.fds[life] = [os.open(f"/proc/{life[0]}/ns/{name}", os.O_RDONLY | os.O_CLOEXEC) for name in NAMESPACES]

    def names(self):
        return [tuple(os.readlink(f"/proc/self/fd/{fd}") for fd in fds) for fds in self.fds.values()]


def inits(launcher):
    """Of each sandbox the first: its child, before it is a program, has its name too."""
    table = {pid: row for pid, row in descendants(launcher).items() if row[1].startswith("coto-init") and row[2] != "Z"}
    return [pid for pid, row in table.items() if row[0] not in table]


def lives(pids):
    """Each with when it began: pids come again."""
    found = set()
    for pid in pids:
        with contextlib.suppress(OSError), open(f"/proc/{pid}/stat") as file:
            found.add((pid, file.read().rsplit(")", 1)[1].split()[19]))
    return found


def test_control_who_comes_back_to_his_own_finds_everything(service):
    """Were a sandbox given to a second one, that is what he would find."""
    box = f"/api/v1/sandbox/{service.create()['sandbox_id']}"
    first, second = (told(service.post(f"{box}/execute", code=code()), "output") for _ in range(2))
    assert first[0] == {}
    assert set(second[0]) == {"tmp", "shm", "workspace", "environment", "globals", "module", "builtins", "modules", "processes",
                              "sockets", "memory"}
    assert first[1] == second[1], "and it is the same from outside"
    service.delete(box)


class Caller(threading.Thread):
    """Runs, and sandboxes of its own, one after the other; what it found, and which namespaces it was in."""

    def __init__(self, service, name, held):
        super().__init__()
        self.service, self.held, self.token = service, held, service.tokens[name]
        self.found, self.boxes = [], []
        self.failed = None

    def run(self):
        try:
            for i in range(ROUNDS):
                used = set(self.held.used)
                found, namespaces = told(self.service.run(code(), token=self.token, cold=i % 3 == 2), "stdout")
                self.found.append(found)
                assert not used & set(namespaces), "nor where somebody's sandbox was"
                self.use_one()
        except BaseException as reason:
            self.failed = reason

    def use_one(self):
        box = f"/api/v1/sandbox/{self.service.create(token=self.token)['sandbox_id']}"
        found, namespaces = told(self.service.post(f"{box}/execute", token=self.token, code=code()), "output")
        self.found.append(found)
        self.boxes.append(namespaces)
        self.held.take(self.service.launcher)
        self.held.used.update(namespaces)
        assert self.service.delete(box, token=self.token).status == 200


def test_nobody_finds_anything_of_anybody(service):
    """Four tenants, two callers each, at the same time."""
    with Held() as held:
        callers = [Caller(service, name, held) for name in CALLERS for _ in range(2)]
        for caller in callers:
            caller.start()
        for caller in callers:
            caller.join()
        names = held.names()
    assert [caller.failed for caller in callers] == [None] * len(callers)
    assert [found for caller in callers for found in caller.found if found] == []
    boxes = [namespaces for caller in callers for namespaces in caller.boxes]
    assert len(boxes) == len(callers) * ROUNDS
    assert set(boxes) <= set(names), "each was held, so that no number came twice by itself"
    for kind in [*zip(*names), *zip(*boxes)]:
        assert len(set(kind)) == len(kind)


def with_programs(launcher):
    """The inits that have one."""
    return lives(pid for pid in inits(launcher) if any(row[1] == "sleep" for row in descendants(pid).values()))


def test_the_host_sees_each_end_with_its_run(service):
    """Wave after wave: no init that a program was in is there for another."""
    used = set()
    with Held() as held:
        for _ in range(4):
            join = service.begin_runs("import subprocess; subprocess.run(['sleep', '300'])", 6)
            wait_until(lambda: len(with_programs(service.launcher)) >= 6, "all programs")
            held.take(service.launcher)
            now = with_programs(service.launcher)
            assert len(now) == 6 and not now & used and now <= set(held.fds)
            used |= now
            for row in service.get("/api/v1/executions?limit=100").json["executions"]:
                if row["state"] == "running":
                    service.delete(f"/api/v1/executions/{row['execution_id']}")
            assert {reply.json["verdict"] for reply in join()} == {"killed"}
            wait_until(lambda: not used & lives(inits(service.launcher)), "the end of all six")
        for kind in zip(*held.names()):
            assert len(set(kind)) == len(kind)
