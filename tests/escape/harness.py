"""What every attack in tests/escape/cases/ is made with.

A case is a file named by its catalogue id with TITLE, TRIED, WALLS and two functions:
attack(box) meets all walls and returns what held it, or calls escaped(); control(box)
does the same with the wall down and returns what it achieved. Both go through the
real coto. box.run(..., without=[...]) uses the weak build (src/base/weak.h), which
alone can leave walls out.

A control that leaves no wall out is of another kind, and told as such (CONTROLS): with
CONTROL = "option" the same attack succeeds where a larger limit or an option allows it;
any other shows only that the attack is real, or that the measure would see it.
"""
import base64
import contextlib
import hashlib
import json
import os
import pathlib
import subprocess
import tempfile
import time

from cli import conftest as host_state
from cli.helpers import BIN, SLOW, SOURCE, Done, attended, descendants, environment
from levels import here

WEAK = pathlib.Path(os.environ.get("COTO_TEST_WEAK_BIN") or SOURCE / "build-weak").resolve()
SITUATIONS = ("root", "user", "userns", "old")
KINDS = ("CRASH", "READ", "WRITE", "ESCAPE")
CONTROLS = {"wall": "with the wall left out", "option": "where a larger limit or an option allows it",
            "measure": "that show only that the measure works"}
HERE = pathlib.Path(__file__).resolve().parent
# Stacked filters and Landlock cannot be had by a process that may gain privilege.
GUEST_SLOW = 3  # how much longer things may take in a kernel of the level's own, on a busy machine
IMPLIED = {"no_new_privs": ["seccomp", "landlock"], "pid_namespace": ["proc_private"]}


# A kernel from before these is one that coto still works on, once the policy names the wall
# that is missing. Without the others it refuses to start: test_old.py.
OLD_CALLS = ("clone3,landlock_create_ruleset,landlock_add_rule,landlock_restrict_self,pidfd_send_signal,"
             "pidfd_open,pidfd_getfd,statx,faccessat2")


class Escaped(AssertionError):
    """A wall did not hold."""

    def __init__(self, kind, text):
        super().__init__(f"{kind}: {text}")
        self.kind, self.text = kind, text


class NotMet(AssertionError):
    """The attack never came to its wall, on a machine that was busy elsewhere: it shows nothing, and tests/run may make it again."""


class Untestable(Exception):
    """This situation cannot show it; the reason stands in the table."""


class NotOffered(str):
    """What an attack returns on a feature that coto refuses to give: nothing was met that could have held."""

    def __new__(cls, text):
        return super().__new__(cls, f"not offered: refused; {text}")


class Refused(AssertionError):
    """coto would not start: its message and remedy."""

    def __init__(self, error):
        super().__init__(f"{error.get('message')} (remedy: {error.get('remedy')})")
        self.message, self.remedy = error.get("message", ""), error.get("remedy", "")


def escaped(kind, text):
    assert kind in KINDS, kind
    raise Escaped(kind, text)


def met(is_so, text):
    if not is_so:
        raise NotMet(text)


def kind_of(case, box):
    """What a control that succeeded has shown: a word of CONTROLS. Walls left out are seen, not declared."""
    return "wall" if box.left_out else getattr(case, "CONTROL", "measure")


def situation():
    return os.environ.get("COTO_TEST_SITUATION") or ("root" if os.geteuid() == 0 else "user")


class Result:
    """A finished run: json is coto's own result, out and err the program's bytes."""

    def __init__(self, done, result):
        self.done, self.json, self.seconds = done, result, done.seconds
        self.error = result.get("error")
        self.out, self.err = self._bytes("stdout"), self._bytes("stderr")
        self.verdict, self.code = result.get("verdict"), result.get("exit_code")
        self.signal, self.status = result.get("signal"), done.status

    def _bytes(self, name):
        if name + "_base64" in self.json:
            return base64.b64decode(self.json[name + "_base64"])
        return self.json.get(name, "").encode()

    @property
    def text(self):
        return self.out.decode(errors="replace").strip()

    def told(self):
        """The JSON the program printed."""
        assert self.out, self
        return json.loads(self.out)

    def __repr__(self):
        if self.error:
            return f"refused: {self.error}"
        return (f"{self.verdict}, code {self.code}, signal {self.signal}, out {self.out[:1500]!r}, "
                f"err {self.err[:1500]!r}")


class HostView:
    """Judgements made on the host, against what was there when the box was made."""

    def __init__(self):
        self.before = host_state.Host()

    def added(self, seconds=host_state.SECONDS):
        """Everything of coto that came and stays."""
        host_state.reap()
        return host_state.left_after(self.before, seconds)

    def survivors(self, seconds=host_state.SECONDS):
        """pid -> name of processes that outlived their run."""
        return self.added(seconds).get("processes", {})

    def mounts(self):
        return self.added().get("mounts", set())

    def cgroups(self):
        return self.added().get("cgroups", set())

    def files(self):
        return self.added().get("files", set())

    @staticmethod
    def end(pids):
        """Ends what a control has left behind; only descendants of ours."""
        host_state.end_processes(pids)
        host_state.reap()

    @staticmethod
    def load(count=20):
        """Seconds for `count` forks on the host: compare before and after."""
        began = time.monotonic()
        for _ in range(count):
            pid = os.fork()
            if pid == 0:
                os._exit(0)
            os.waitpid(pid, 0)
        return time.monotonic() - began


class Box:
    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        self.situation, self.bin = situation(), BIN
        self.host = HostView()
        self.left_out = set()  # walls, by any run of this box
        self.behind = {"apparmor"}  # where the kernel has it, a second wall behind most others: left out with any
        self.prefix = [self.c(HERE / "old.c"), OLD_CALLS] if self.situation == "old" else []
        self.level = here()
        self.level_env = {**self.level.env, **self.level.prepare()} if self.level else {}

    # ---- programs ----

    def c(self, source, *flags):
        """A static C program from text or a .c file; its path on the host."""
        text = source.read_text() if isinstance(source, pathlib.Path) else source
        name = hashlib.sha256((text + " ".join(flags)).encode()).hexdigest()[:16]
        path = cache() / f"probe-{name}"
        if not path.exists():
            new = cache() / f"new-{name}-{os.getpid()}"
            done = subprocess.run(["gcc", "-O1", "-w", "-static", "-pthread", "-o", new, "-xc", "-", *flags],
                                  input=text.encode(), capture_output=True, timeout=120)
            assert done.returncode == 0, done.stderr.decode()
            new.chmod(0o755)
            new.rename(path)
        return str(path)

    # ---- running ----

    @contextlib.contextmanager
    def pinned(self):
        """coto is started by a caller that has pinned itself to one CPU, as with taskset; its number."""
        cpu, before = min(os.sched_getaffinity(0)), self.prefix
        self.prefix = ["taskset", "-c", str(cpu), *before]
        try:
            yield cpu
        finally:
            self.prefix = before

    def command(self, what, lang="python", flags=(), without=(), args=(), verb="run"):
        """argv and environment of a coto that runs `what`: text of `lang`, or an argv."""
        flags = list(map(str, flags))
        # Walls are left out at the process level only: a control shows that the attack works.
        env, slow = {}, SLOW
        if self.level and verb == "run" and not without and "--isolation" not in flags:
            flags, env = [*self.level.command_flags, *flags], dict(self.level_env)
            slow *= GUEST_SLOW if self.level.guest_kernel else 1
        if self.situation == "old" and "--isolation" not in flags:
            flags = ["--allow-missing", "landlock", *flags]
        if slow > 1 and "--timeout" not in flags:
            flags = ["--timeout", f"{30 * slow:g}s", *flags]
        if isinstance(what, str):
            rest = ["--lang", lang, "-c", what, *map(str, args)]
        else:
            what = [*map(str, what), *map(str, args)]
            if what[0].startswith(str(cache())):
                name = pathlib.Path(what[0]).name
                flags += ["--copy", f"{what[0]}:/workspace/{name}"]
                what[0] = f"/workspace/{name}"
            rest = ["--", *what]
        coto = BIN / "coto"
        if without:
            left_out = self.behind.union(without, *(IMPLIED.get(name, ()) for name in without))
            if "capabilities" in left_out and "no_new_privs" in left_out:
                left_out -= {"seccomp", "landlock"} - set(without)
            self.left_out |= left_out
            env, coto = {"COTO_TEST_WITHOUT": ",".join(sorted(left_out))}, WEAK / "coto"
            assert coto.exists(), f"{coto} is missing: make weak"
        return [*self.prefix, str(coto), verb, *flags, *rest], env

    def run(self, what, lang="python", stdin=b"", flags=(), without=(), timeout=60, args=(), env=None,
            may_refuse=False, **more):
        """coto run --json. A refusal by coto itself is an exception unless it is expected."""
        argv, extra = self.command(what, lang, ["--json", *flags], without, args)
        done = self.start_and_wait(argv, stdin, {**(env or {}), **extra}, timeout, **more)
        try:
            result = Result(done, json.loads(done.out))
        except ValueError:
            raise AssertionError(f"no result from coto: {done}") from None
        if result.error and not may_refuse:
            raise Refused(result.error)
        return result

    def plain(self, what, lang="python", stdin=b"", flags=(), without=(), timeout=60, args=(), env=None, **more):
        """coto run as a person sees it: Done with status, out, err."""
        argv, extra = self.command(what, lang, flags, without, args)
        return self.start_and_wait(argv, stdin, {**(env or {}), **extra}, timeout, **more)

    def python(self, code, **more):
        return self.run(code, "python", **more)

    def sh(self, script, **more):
        return self.run(["sh", "-c", script], **more)

    def inside(self, code, **more):
        """Python text that prints JSON; what it told."""
        result = self.run(code, "python", **more)
        assert result.verdict == "ok", result
        return result.told()

    @staticmethod
    def start_and_wait(argv, stdin=b"", env=None, timeout=60, **more):
        began = time.monotonic()
        timeout *= SLOW * GUEST_SLOW
        streams = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **more}
        process = subprocess.Popen(argv, env=environment(env), **streams)
        try:
            out, err = process.communicate(stdin if process.stdin else None, timeout)
        except subprocess.TimeoutExpired:
            process.kill()
            out, err = process.communicate()
            raise AssertionError(f"{argv} did not end within {timeout} s: {out!r} {err!r}") from None
        return Done(process.returncode, out, err, time.monotonic() - began)

    def running(self, what, lang="python", flags=(), without=(), args=(), env=None, **more):
        """A coto in the background (cli.helpers.Running); waits for its line "ready"."""
        argv, extra = self.command(what, lang, flags, without, args)
        find_init = self.level.find_init if self.level and not without else None
        return attended(argv, {**(env or {}), **extra}, find_init=find_init, **more)


_cache = None


def cache():
    """Compiled programs of this session, where every user may read them."""
    global _cache
    if _cache is None:
        _cache = tempfile.TemporaryDirectory(prefix="coto-test-c-")
        os.chmod(_cache.name, 0o755)
    return pathlib.Path(_cache.name)


@contextlib.contextmanager
def victim(env=None):
    """A process of the caller's on the host; (Popen, whether it lives)."""
    process = subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL,
                               env={"PATH": os.environ["PATH"], **(env or {})})
    try:
        yield process
    finally:
        process.kill()
        process.wait()
        process.stdin.close()


def state(pid):
    """State letter of a process, or 'gone'."""
    return descendants(os.getpid()).get(pid, (0, "", "gone"))[2]


def ended(pid):
    """Whether a process is dead, which takes a CPU and, on a busy host, a while."""
    end = time.monotonic() + 20
    while state(pid) not in ("gone", "Z") and time.monotonic() < end:
        time.sleep(0.05)
    return state(pid) in ("gone", "Z")
