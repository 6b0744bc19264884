"""One system call or allocation fails: what happens, and what is left afterwards.

A run is judged by what the kernel says about the program's process when it is about to
start (it is stopped at that moment), by what the program sees, by what coto says, and
by what stays on the host. A fault may be survived or told; nothing else is right.
"""
import collections
import errno
import json
import os
import pathlib
import re
import subprocess
import time

from cli.conftest import mounts, somebody_else_runs_coto, temporaries
from cli.helpers import BIN, CORE, ROOT, cgroups_of, environment, read, status_of

HERE = BIN / "tests/fault"
ALLOCATION = 0xFA17
SECONDS = 40 # what takes longer hangs; others may stop us for a while
# What coto may end with when it could not do its work (base/err.h).
STATUSES = set(range(64, 74)) | {75, 126, 127}

# Errors by system call; the kernel's manual pages name them, or a filter may give them.
COMMON = ["ENOMEM", "EIO", "EPERM"]
ERRORS = {
    "EINTR": "poll ppoll epoll_wait epoll_pwait read write recvmsg sendmsg wait4 openat open splice futex accept4 close "
             "rt_sigtimedwait pread64 recvfrom",
    "ECONNRESET": "recvfrom",
    "EAGAIN": "clone clone3 fork vfork getrandom",
    "EMFILE": "openat open pipe2 socketpair socket dup2 dup3 fcntl signalfd4 pidfd_open "
              "memfd_create openat2 open_tree fsopen fsmount landlock_create_ruleset",
    "ENOSPC": "write mkdirat mkdir clone clone3 unshare symlinkat openat mount ftruncate",
    "EBUSY": "unlinkat rmdir mount umount2",
    "EACCES": "execve execveat openat open access faccessat readlink mkdirat chdir",
    "ENOSYS": "close_range openat2 mount_setattr open_tree move_mount fsopen clone3 statx "
              "landlock_create_ruleset landlock_add_rule landlock_restrict_self pidfd_send_signal "
              "pidfd_open seccomp getrandom",
    "EIO": "read write pread64 recvmsg sendmsg fsync ftruncate lseek close getdents64 splice open "
           "openat fstat newfstatat stat lstat readlink readlinkat chown fchown mkdirat",
    "EPERM": "mount umount2 pivot_root unshare setns setgroups setresuid setresgid setuid setgid "
             "capset prctl sethostname prlimit64 setrlimit fchown chown chmod fchmod mknodat "
             "openat2 open_tree move_mount mount_setattr fsconfig fsmount clone clone3 seccomp "
             "landlock_restrict_self ioctl socket setsockopt setsid write execveat execve "
             "pidfd_send_signal",
}
# With arguments that are right, as a parent or on its own memory.
CANNOT_FAIL = ["kill", "sched_getaffinity", "getrusage", "clock_gettime", "sched_yield"]


def read_numbers():
    """number -> name, from the kernel's own header."""
    text = subprocess.run(["gcc", "-E", "-dM", "-include", "sys/syscall.h", "-"], input=b"",
                          capture_output=True, check=True).stdout.decode()
    names = {int(number): name for name, number in re.findall(r"#define __NR_(\w+) (\d+)\n", text)}
    return {**names, ALLOCATION: "allocation"}


NAMES = read_numbers()


def number_of(name):
    return next(number for number, known in NAMES.items() if known == name)


def errors_of(number):
    """The errors to try for a call, as names."""
    name = NAMES.get(number, "")
    if number == ALLOCATION or name in ("mmap", "brk", "mremap", "mprotect", "madvise"):
        return ["ENOMEM"]
    found = [error for error, calls in ERRORS.items() if name in calls.split()]
    return found or ([] if name in CANNOT_FAIL else ["ENOMEM"])


# ---- scenarios ----

class Scenario:
    """A command line of coto, what must come out, and a signal when the program starts."""
    mode = "fail"

    def __init__(self, *words, verdict="ok", artifacts=("left",), signal=0, text=None,
                 bin=BIN, env=None):
        self.words, self.verdict, self.artifacts = words, verdict, list(artifacts)
        self.signal, self.text, self.bin, self.env = signal, text, bin, env

    def command(self, room):
        words = [word.format(probe=HERE / "probe", room=room) for word in self.words]
        return [str(self.bin / "coto"), "run", "--json", *words]

    def has_told(self, run):
        """Whether it said that coto failed. Killed it says nothing: then its guard has worked."""
        return self.verdict is not None and (run.result is None or "error" in run.result)


class Library(Scenario):
    """A process with libcoto in it that runs twice (library.c); the fault is in the first."""
    mode = "within"

    def command(self, room):
        return [*map(str, self.words), str(HERE / "probe")]

    def has_told(self, run):
        return run.out.startswith(b"first error")

    def faults(self, run):
        lines = run.out.decode(errors="replace").splitlines()
        if run.status != 0 or len(lines) != 4:
            yield f"status {run.status}, said {run.out!r} {run.err!r}"
            return
        first, after_first, second, after_second = lines
        if first != "first ok 1" and not re.match(r"first (lost \d|error (6[4-9]|7[0-35]|12[67]) ....)", first):
            yield f"no words: {first}"
        if second != "second ok 1":
            yield f"second run: {second}"
        for line in {after_first, after_second} - {"descriptors 0 children -1"}:
            yield f"left in its process: {line}"


OUTPUT = "landlock 15 layers left\nroot Read-only file system\ninput given\n"
PROBE = ["--copy", "{probe}:probe", "--", "./probe"]
SCENARIOS = {
    "plain": Scenario(*PROBE, text=OUTPUT),
    "full": Scenario("--copy", "{room}/tree:tree", "--mount", "{room}/shared:/shared", "--policy",
                     "{room}/policy.yaml", "--report", "{room}/report", "--tmpfs", "/scratch:1m",
                     *PROBE, "tree/deep/file", "/shared/note", text=OUTPUT +
                     "tree/deep/file copied\n\n/shared/note mounted\n\n"),
    "frames": Scenario(*PROBE, text=OUTPUT, env={"COTO_TEST_FRAMES": "1"}),
    "timeout": Scenario("--timeout", "50ms", *PROBE, "sleep", verdict="timeout", artifacts=()),
    "cancelled": Scenario(*PROBE, "sleep", verdict="killed", artifacts=(), signal=15),
    "killed": Scenario(*PROBE, "sleep", verdict=None, signal=9),
    "allocation": Scenario(*PROBE, text=OUTPUT, bin=HERE),
    "allocation, full": None,
}
SCENARIOS["allocation, full"] = Scenario(*SCENARIOS["full"].words, text=SCENARIOS["full"].text,
                                         bin=HERE)


def make_room(folder):
    """What the scenarios name on the host."""
    (folder / "tree/deep").mkdir(parents=True)
    (folder / "tree/deep/file").write_text("copied\n")
    (folder / "tree/link").symlink_to("deep/file")
    (folder / "shared").mkdir()
    (folder / "shared/note").write_text("mounted\n")
    (folder / "report").mkdir()
    (folder / "policy.yaml").write_text("memory: 200m\npids: 60\n")
    return folder


# ---- looking at the program from the host ----

LIMITS = {"memory": ["memory.limit_in_bytes", "memory.memsw.limit_in_bytes"], "pids": ["pids.max"],
          "cpu": ["cpu.cfs_quota_us"], "": ["memory.max", "memory.swap.max", "pids.max", "cpu.max"]}
STATUS = ("NoNewPrivs", "Seccomp", "Seccomp_filters", "CapInh", "CapPrm", "CapEff", "CapBnd",
          "CapAmb", "Groups", "SigBlk", "SigIgn", "Umask")


def cgroup_facts(pid):
    facts = {}
    for controller, folder in cgroups_of(pid).items():
        if controller not in LIMITS or not re.match(r"coto-\d+-", folder.name):
            continue
        for name in LIMITS[controller]:
            if (folder / name).exists():
                facts["cgroup " + name] = read(folder / name).strip()
    return facts


def look(pid):
    """Every wall the kernel can tell about a process that has not run yet."""
    status = status_of(pid)
    facts = {name: status.get(name, "").strip() for name in STATUS}
    host_uid = int(status["Uid"].split()[0])
    facts["root on the host"] = host_uid == 0
    facts["uid of its own"] = host_uid != os.geteuid()
    facts["uids differ"] = len(set(status["Uid"].split() + status["Gid"].split())) > 1
    facts["namespaces of its own"] = sorted(
        name for name in os.listdir(f"/proc/{pid}/ns")
        if os.readlink(f"/proc/{pid}/ns/{name}") != os.readlink(f"/proc/self/ns/{name}"))
    facts["limits"] = read(f"/proc/{pid}/limits")
    facts["descriptors"] = sorted(os.listdir(f"/proc/{pid}/fd"))
    facts["environment"] = read(f"/proc/{pid}/environ").rstrip("\0") # an interpreter's ends with what it was loaded with, wiped
    facts["oom_score_adj"] = read(f"/proc/{pid}/oom_score_adj")
    facts["mounts"] = sorted(" ".join(line.split()[3:6]) + " " + line.split(" - ")[1].split()[0]
                             for line in read(f"/proc/{pid}/mountinfo").splitlines())
    facts["uid map"] = len(read(f"/proc/{pid}/uid_map").splitlines())
    facts["network"] = re.findall(r"^ *(\w+):", read(f"/proc/{pid}/net/dev"), re.M)
    facts.update(cgroup_facts(pid))
    return facts


# ---- running ----

class Run:
    def __init__(self):
        self.calls, self.fired, self.facts = [], None, None
        self.status, self.survivors, self.hung = None, [], False
        self.out, self.err, self.pid = b"", "", 0

    @property
    def result(self):
        try:
            return json.loads(self.out)
        except ValueError:
            return None


def take_line(run, line, go):
    word, *rest = line.split()
    if word == "begin":
        run.calls = [] # what was before is not what is looked at
    elif word == "call":
        run.calls.append((rest[0], int(rest[1])))
    elif word == "fired":
        run.fired = (rest[0], int(rest[1]))
    elif word == "program":
        try:
            run.facts = look(int(rest[0]))
            if not os.listdir(f"/proc/{int(rest[0])}/fd"):
                run.facts = None # it died meanwhile, and what was read may be half true
        except OSError:
            run.facts = None # coto has ended it meanwhile
        os.write(go, b"g")
    elif word == "command":
        run.pid = int(rest[0])
    elif word == "exit":
        run.status = int(rest[0])
    elif word == "signal":
        run.status = -int(rest[0])
    elif word == "survivor":
        run.survivors.append(" ".join(rest))
    elif word == "hang":
        run.hung = True


def inject(scenario, room, *what, seconds=SECONDS):
    """One run. what: nothing to list the calls, a role to list its calls, or role, number, n, error."""
    mode = ["list", *what]
    if len(what) > 1:
        role, number, n, error = what
        mode = [scenario.mode, role, str(number), str(n), str(getattr(errno, error))]
    report, report_in = os.pipe()
    go_out, go = os.pipe()
    command = [str(HERE / "inject"), *map(str, (report_in, go_out, seconds, scenario.signal)),
               *mode, "--", *scenario.command(room)]
    out, err = room / "out", room / "err"
    run = Run()
    given, given_in = os.pipe()
    os.write(given_in, b"given")
    os.close(given_in)
    with open(out, "wb") as out_file, open(err, "wb") as err_file:
        process = subprocess.Popen(command, stdin=given, stdout=out_file, stderr=err_file,
                                   env=environment(scenario.env), pass_fds=(report_in, go_out))
    for fd in (given, report_in, go_out):
        os.close(fd)
    with os.fdopen(report) as lines:
        for line in lines:
            take_line(run, line, go)
    os.close(go)
    process.wait(3 * SECONDS)
    run.out, run.err = out.read_bytes(), err.read_text(errors="replace")
    return run


# ---- judging ----

def difference(now, before):
    if isinstance(before, list) and isinstance(now, list):
        more, less = collections.Counter(now), collections.Counter(before)
        return f"more {sorted((more - less).elements())}, less {sorted((less - more).elements())}"
    return f"{now!r} instead of {before!r}"


# Programs of the host, to be read: more of them is no wall less.
SYSTEM_MOUNT = re.compile(r"/\S* /(s?bin|lib\w*) ro,nosuid,nodev,relatime \w+$")


def not_up(run):
    return {name for name, wall in run.result["walls"].items() if wall["wanted"] and not wall["up"]}


def lies(run, baseline):
    """Walls that are not as in a run without faults though the result says they are up."""
    walls = run.result["walls"]
    if not_up(run) & CORE:
        yield f"ran without {not_up(run) & CORE}"
    missing = not_up(run) - not_up(baseline)
    may_differ = set()
    if walls["swap"]["mechanism"] == "host has no swap":
        may_differ |= {"cgroup memory.memsw.limit_in_bytes", "cgroup memory.swap.max"}
    if missing & {"memory", "swap", "pids", "cpus", "iops", "cpu_time"} or \
            walls["pids"]["mechanism"] != baseline.result["walls"]["pids"]["mechanism"]:
        # No cgroup, and said so: limits per process take its place.
        may_differ |= {key for key in baseline.facts if key.startswith("cgroup ")} | {"limits"}
    if "unique_uid" in missing:
        may_differ.add("uid of its own")
    for key in baseline.facts:
        if run.facts.get(key) != baseline.facts[key] and key not in may_differ:
            if key == "mounts" and all(map(SYSTEM_MOUNT.match,
                                           set(run.facts[key]) ^ set(baseline.facts[key]))):
                continue
            yield f"{key}: {difference(run.facts.get(key), baseline.facts[key])}"


def faults_in_result(run, scenario, baseline):
    result = run.result
    if run.status == 73 and run.err.startswith("coto: report"):
        return # the result is right and out; the report file could not be written, and it is said
    if result["exit_status"] != run.status:
        yield f"exit status {run.status}, the result says {result['exit_status']}"
    if result["verdict"] == "lost":
        return # contact broke, and it says so
    if result["verdict"] != scenario.verdict:
        yield f"verdict {result['verdict']} instead of {scenario.verdict}"
        return
    if run.facts is None:
        if scenario.verdict != "timeout": # which may come before the program does
            yield "a verdict, but no program was started"
        return
    if scenario.text is not None and result["stdout"] != scenario.text:
        yield f"stdout {result['stdout']!r}"
    names = [artifact["name"] for artifact in result["artifacts"]]
    if names != scenario.artifacts and not result["artifacts_skipped"]:
        yield f"artifacts {result['artifacts']}"
    yield from lies(run, baseline)


def faults_in_error(run):
    """coto failed: a status of its own, and words."""
    result = run.result
    text = result["error"]["message"] if result else run.err
    if run.status not in STATUSES:
        yield f"status {run.status} is no error of coto"
    if not result and run.out:
        yield f"output that is no result: {run.out!r}"
    if not result and not text.startswith("coto: "):
        yield f"no clear error: {text!r}"
    if len(text.strip()) < 8:
        yield f"no words: {text!r}"


def faults_in(run, scenario, baseline):
    """Everything that is wrong with a run, as text."""
    if run.hung:
        yield "it hung"
    if run.survivors:
        yield f"survivors {run.survivors}"
    if run.status is None or run.status < 0 and scenario.verdict is not None:
        yield f"crashed: {run.status}"
        return
    if isinstance(scenario, Library):
        yield from scenario.faults(run)
        return
    if scenario.verdict is None: # killed on purpose: what stays is all that counts
        return
    if run.result and "error" not in run.result:
        yield from faults_in_result(run, scenario, baseline)
    else:
        yield from faults_in_error(run)


# ---- sweeping ----

def cgroup_parents():
    return {folder.parent if re.match(r"coto-\d+-", folder.name) else folder
            for folder in cgroups_of("self").values()}


def left_behind(run, room):
    """Cgroups of that coto, keys of its uid, files it should not have made."""
    names = (f"coto-{run.pid}-*", f"coto-main-{run.pid}*")
    found = [str(path) for parent in cgroup_parents() for name in names
             for path in parent.glob(name)]
    uid = 0x70000000 + run.pid
    found += [line for line in read("/proc/key-users").splitlines()
              if line.split(":")[0].strip() == str(uid)]
    found += [path.name for path in room.iterdir()
              if path.name not in ("tree", "shared", "report", "policy.yaml", "out", "err")]
    found += [str(path) for path in (room / "report").iterdir() if path.name.startswith(".")]
    given = {"tree/deep", "tree/deep/file", "tree/link", "shared/note"}
    found += [name for folder in ("tree", "shared") for path in (room / folder).rglob("*")
              for name in [str(path.relative_to(room))] if name not in given]
    return found


class Places:
    """Mounts and temporary files of the whole host, looked at after each fault."""

    def __init__(self, room):
        self.room = room
        self.mounts, self.files = self.own_mounts(), temporaries()

    def own_mounts(self):
        """Without those of other tests, beside us."""
        return {line for line in mounts() if "/coto-test-" not in line or str(self.room) in line}

    def more(self):
        """What has come since the last look. Others' mounts and files come and go: what is left stays."""
        found = self.added()
        for _ in range(20):
            if not found:
                break
            time.sleep(0.05)
            found &= self.added()
        self.__init__(self.room)
        return sorted(found)

    def added(self):
        files = temporaries() - self.files
        if files and somebody_else_runs_coto():
            files = set()
        return (self.own_mounts() - self.mounts) | files


Fault = collections.namedtuple("Fault", "role number n error is_sure")


def faults_of(calls, sure):
    """Each call that was seen with each of its errors. How often a loop goes round and how far
    init comes before coto ends it is a matter of time: sure to happen is what all runs have made."""
    return [Fault(role, number, n, error, n <= sure[role, number])
            for (role, number), total in sorted(calls.items())
            for n in range(1, total + 1)
            for error in errors_of(number)]


def describe(fault):
    return f"{fault.role}: {NAMES.get(fault.number, fault.number)} #{fault.n} {fault.error}"
