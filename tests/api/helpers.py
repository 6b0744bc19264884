"""The real service on a free port, with directories of its own, and clients of it."""
import contextlib
import http.client
import json
import os
import pathlib
import pwd
import re
import resource
import shutil
import signal
import socket
import sqlite3
import subprocess
import tempfile
import time

from cli.helpers import descendants

SOURCE = pathlib.Path(__file__).resolve().parents[2]
BIN = pathlib.Path(os.environ.get("COTO_TEST_BIN") or SOURCE / "build").resolve()
ROOT = os.geteuid() == 0
# The machine may be stopped for a while; no test waits that long when all is well.
PATIENCE = 60
SIZE_ANY = (resource.RLIM_INFINITY, resource.RLIM_INFINITY)


def has_subordinate_ids():
    """Which newuidmap, a set-uid program, gives to sandboxes of an ordinary user (docs/SERVICE.md)."""
    names = {str(os.getuid())}
    with contextlib.suppress(KeyError):
        names.add(pwd.getpwuid(os.getuid()).pw_name)

    def has(kind):
        ranges = pathlib.Path(f"/etc/sub{kind}")
        return os.access(f"/usr/bin/new{kind}map", os.X_OK) and ranges.exists() and any(
            line.split(":")[0] in names for line in ranges.read_text().splitlines())
    return has("uid") and has("gid")


HAS_IDS = has_subordinate_ids()


def reap_orphans():
    """Orphans come to us when other suites have made us their reaper, and what ended in a pid namespace
    holds up the end of its init until somebody has reaped it."""
    for pid, row in descendants(os.getpid()).items():
        if row[0] == os.getpid() and row[2] == "Z" and not row[1].startswith(("coto-keeper", "coto-serve")):
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)


EXITING = 4  # PF_EXITING


def runs_no_more(pid, session):
    """Stopped (also by a tracer, as gVisor is one), in vfork, dying (an init waits for those of its namespace
    then), or gone."""
    with contextlib.suppress(OSError):
        fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
        return fields[0] in "TtDXZ" or int(fields[6]) & EXITING or int(fields[3]) != session
    return True


class Unix(http.client.HTTPConnection):
    def __init__(self, path):
        super().__init__("coto", timeout=PATIENCE)
        self.path = str(path)

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(PATIENCE)
        self.sock.connect(self.path)


class Reply:
    def __init__(self, response):
        self.status, self.headers, self.body = response.status, response.headers, response.read()

    @property
    def json(self):
        return json.loads(self.body)

    def __repr__(self):
        return f"{self.status} {self.body[:2000]!r}"


class Broken(AssertionError):
    """A promise that must hold every time did not hold: tests/run does not try that test again."""


def promised(is_so, what):
    if not is_so:
        raise Broken(what)


def wait_until(is_so, what="it"):
    """What is_so returned once that is true."""
    end = time.monotonic() + PATIENCE
    while not (so := is_so()):
        assert time.monotonic() < end, f"{what} did not happen"
        time.sleep(0.005)
    return so


class Service:
    """with Service() as it: it.post('/api/v1/run', code='print(1)'). Flags are those of
    `coto serve`; state and runtime directories stay the same from start to start."""

    def __init__(self, *flags):
        self.flags = flags
        self.program = BIN / "coto"
        # The front of a service of root is another user: what is above the state is open.
        self.room = pathlib.Path(tempfile.mkdtemp(prefix="coto-test-api-"))
        self.room.chmod(0o755)
        self.state, self.runtime = self.room / "state", self.room / "run"
        self.log = self.room / "log"
        self.process = self.port = self.before = None  # before: called in its process, before it is one

    def __enter__(self):
        try:
            return self.start()
        except BaseException:
            self.__exit__()
            raise

    def __exit__(self, *_):
        self.kill()
        shutil.rmtree(self.room, ignore_errors=True)

    # ---- life ----

    def begin(self, *flags):
        """Starts it, without waiting until it serves."""
        command = [self.program, "serve", "--port=0", *([f"--state-dir={self.state}"] if self.state else []),
                   f"--runtime-dir={self.runtime}", *self.flags, *flags]
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log,
                                            stderr=subprocess.STDOUT, start_new_session=True, preexec_fn=self.before)
        return self.process

    def start(self, *flags):
        self.begin(*flags)
        wait_until(self.is_ready, "readiness")
        said = wait_until(lambda: re.search(r"http://127\.0\.0\.1:(\d+)\b", self.messages), "an address")
        self.port = int(said[1])
        return self

    def is_ready(self):
        assert self.process.poll() is None, self.messages
        with contextlib.suppress(OSError, http.client.HTTPException):
            return "listening" in self.messages and self.get("/readyz").status == 200
        return False

    @property
    def messages(self):
        return self.log.read_text(errors="replace")

    def fails(self, *flags):
        """Its exit status and what it says when it cannot start."""
        self.begin(*flags)
        return self.process.wait(PATIENCE), self.messages

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        status = self.process.wait(PATIENCE)
        self.process = None
        return status

    def members(self):
        """Processes of the service; not those of its sandboxes, which are in sessions of their own."""
        found = []
        reap_orphans()
        for entry in pathlib.Path("/proc").iterdir():
            with contextlib.suppress(OSError, IndexError):
                if entry.name.isdigit():
                    text = (entry / "stat").read_text()
                    name, rest = text.split("(", 1)[1].rsplit(")", 1)
                    if int(rest.split()[3]) == self.process.pid and rest.split()[0] != "Z":
                        found.append((int(entry.name), name))
        return found

    def halt(self):
        """Stops all of its processes, also those that are only just forked."""
        done = set()
        while new := {pid for pid, _ in self.members()} - done:
            for pid in new:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGSTOP)
            end = time.monotonic() + 20  # they are killed next, whatever they do until then
            while time.monotonic() < end and not all(runs_no_more(pid, self.process.pid) for pid in new):
                time.sleep(0.02)
            done |= new

    def kill(self):
        """As a power failure would end it: all of its processes at once, so that none sees another's end."""
        if not self.process:
            return
        self.halt()
        # The keeper last: its end makes the kernel wake the others, which are stopped and orphans then.
        for pid, _ in sorted(self.members(), key=lambda it: it[0] == self.process.pid):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.process.wait()
        wait_until(lambda: not self.members(), "the end of the service")
        self.process = None

    def fronts(self):
        """The process that serves; at most one."""
        return [pid for pid, name in self.members() if name == "coto-front"]

    def kill_front(self):
        """That process alone, and waits for the next one."""
        pid, = self.fronts()
        os.kill(pid, signal.SIGKILL)
        wait_until(lambda: self.fronts() not in ([], [pid]) and self.is_ready(), "another front")

    def limit_files(self, limit):
        """Most bytes a file of the front may have."""
        for pid in self.fronts():
            resource.prlimit(pid, resource.RLIMIT_FSIZE, limit)

    # ---- requests: as the owner over the unix socket, or with the token over TCP ----

    def connect(self, tcp=False):
        if tcp:
            return http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        return Unix(self.runtime / "api.sock")

    @property
    def token(self):
        return (self.runtime / "token").read_text().strip()

    def ask(self, method, path, body=None, headers=None, token=None):
        """token: True for the service's own, a text for another; None: as the owner."""
        fields = dict(headers or {})
        if token:
            fields["Authorization"] = f"Bearer {self.token if token is True else token}"
        if isinstance(body, (dict, list)):
            body = json.dumps(body)
        with contextlib.closing(self.connect(tcp=bool(token))) as connection:
            connection.request(method, path, body=body, headers=fields)
            return Reply(connection.getresponse())

    def get(self, path, **options):
        return self.ask("GET", path, **options)

    def delete(self, path, **options):
        return self.ask("DELETE", path, **options)

    def post(self, path, headers=None, token=None, key=None, **body):
        fields = dict(headers or {}, **({"Idempotency-Key": key} if key else {}))
        return self.ask("POST", path, body, fields, token)

    def run(self, code, **more):
        return self.post("/api/v1/run", code=code, **more)

    def create(self, **more):
        reply = self.post("/api/v1/sandbox/create", **more)
        assert reply.status == 201, reply
        return reply.json

    # ---- what it keeps ----

    def rows(self, sql, *values):
        with contextlib.closing(sqlite3.connect(self.state / "records.db", timeout=PATIENCE)) as db:
            db.row_factory = sqlite3.Row
            return [dict(row) for row in db.execute(sql, values)]

    def change(self, sql):
        """Of one that does not run."""
        with contextlib.closing(sqlite3.connect(self.state / "records.db")) as db:
            db.executescript(sql)
        if ROOT:
            self.give_back()

    def give_back(self):
        """Files that the test made as root belong to whom the directory belongs to."""
        owner = self.state.stat()
        for path in self.state.iterdir():
            os.chown(path, owner.st_uid, owner.st_gid)
