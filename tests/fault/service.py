"""DR-06 for `coto serve`: a call of one of its processes fails while a request is served.

The real service runs below tests/fault/attend.c, which traces all of it. Whatever fails, a reply is right, with the
walls that a service without faults gives, or an error object with a code and words; the next request is served
right; and the service has afterwards what it had before: processes, cgroups, descriptors.
"""
import collections
import contextlib
import errno
import http.client
import os
import queue
import signal
import subprocess
import threading
import time

from api.daemon import Daemon
from api.helpers import PATIENCE, wait_until
from cli.helpers import ROOT, cgroup_directories, descendants, read, status_of

from . import faults

SECONDS = 30 # a request that takes longer hangs
SETTLE = 10 # what is not gone by then stays
REFILL = 1 # a pool that is not full by then has met with the fault
PROGRESS = 100 # faults
AHEAD = 6 # of a call of the thread that makes network namespaces ahead, more than a hundred of them, one like the other
CHANNELS = 2 # between front and launcher that are opened on demand, and stay; one lost with each fault is soon more
HALVES = ("coto-launch", "coto-front")
LIMITS = {"memory", "swap", "pids", "cpus"}
# The connection itself: whose call failed cannot tell anybody.
CONNECTION = ("read", "recvfrom", "recvmsg", "write", "writev", "sendto", "sendmsg", "accept4", "epoll_ctl", "shutdown",
              "getsockopt", "setsockopt", "fcntl", "ioctl", "getpeername", "getsockname", "poll", "ppoll")


def child_of(pid, name):
    """0 when there is none now."""
    with contextlib.suppress(OSError):
        for child in read(f"/proc/{pid}/task/{pid}/children").split():
            if read(f"/proc/{child}/comm").strip() == name:
                return int(child)
    return 0


class Attended(Daemon):
    """A service in which calls can be made to fail."""

    def __init__(self, *flags):
        super().__init__("--high-isolation=none", "--workers=1", *flags)
        self.keeper, self.orders, self.done = 0, -1, queue.Queue()
        self.forget()

    def forget(self):
        self.calls, self.fired, self.programs = collections.Counter(), None, []

    # ---- its tracer ----

    def begin(self, *flags):
        report, tell = os.pipe()
        go, self.go = os.pipe()
        orders, self.orders = os.pipe()
        command = [faults.HERE / "attend", *map(str, (tell, go, orders)), "--", self.program, "serve", "--port=0",
                   f"--state-dir={self.state}", f"--runtime-dir={self.runtime}", *self.flags, *flags]
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT,
                                            start_new_session=True, pass_fds=(tell, go, orders))
        for fd in (tell, go, orders):
            os.close(fd)
        threading.Thread(target=self.hear, args=(report, self.go), daemon=True).start()
        return self.process

    def hear(self, report, go):
        with os.fdopen(report) as lines:
            for line in lines:
                self.take(go, *line.split())

    def take(self, go, word, *rest):
        if word == "command":
            self.keeper = int(rest[0])
        elif word == "call":
            self.calls[rest[0], int(rest[1])] += 1
        elif word == "fired":
            self.fired = (rest[0], int(rest[1]))
        elif word == "program":
            with contextlib.suppress(OSError, KeyError): # it may die meanwhile
                self.programs.append((rest[1], faults.look(int(rest[0]))))
            os.write(go, b"g")
        elif word == "done":
            self.done.put(word)

    def order(self, *words):
        os.write(self.orders, (" ".join(map(str, words)) + "\n").encode())
        self.done.get(timeout=PATIENCE)

    # ---- its life ----

    def child(self, name):
        return child_of(self.keeper, name)

    def stop(self):
        os.kill(self.keeper, signal.SIGTERM)
        status = self.process.wait(PATIENCE)
        self.process = None
        return status

    def kill(self):
        """With the tracer the kernel ends all that it traces."""
        if self.process:
            session = self.process.pid
            self.process.kill()
            self.process.wait()
            wait_until(lambda: not [pid for pid, _ in self.members()] or self.reap(session), "the end of the service")
        self.process = None

    def reap(self, session):
        for pid, _ in self.members():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        return False

    # ---- what it has ----

    def delete_all(self):
        """What a client that had no reply would do: it is listed."""
        for row in self.get("/api/v1/sandbox").json["sandboxes"]:
            self.delete(f"/api/v1/sandbox/{row['sandbox_id']}")

    def kept_ready(self):
        """Interpreters in sandboxes, when none of them nor the launcher is at work. Asks nobody, so that no call is made for it."""
        rows = descendants(self.keeper)
        inside = []
        for pid, row in rows.items():
            with contextlib.suppress(OSError): # it has ended meanwhile
                inside += [row] if row[1] == "python3" and len(status_of(pid)["NSpid"].split()) > 1 else []
        is_at_rest = all(row[2] == "S" for row in [*inside, *(row for row in rows.values() if row[1] == "coto-launch")])
        return len(inside) if is_at_rest else -1

    def parked(self):
        text = self.get("/metrics").body.decode()
        return int(text.split("\ncoto_sandboxes_parked_total ")[1].split()[0])

    def holdings(self):
        """What must be as before when nothing is asked for. Network namespaces and control groups that are as good as new
        are kept for the next sandbox, more or less of them; a group that nobody has open is not."""
        found = {"processes": sorted(name for _, name in self.members() if name not in ("coto-sweep", "attend"))}
        prefix = f"coto-{self.launcher}-"
        groups = {path for path in cgroup_directories() if prefix in path}
        for name in HALVES:
            with contextlib.suppress(OSError):
                pid = self.child(name)
                links = [os.readlink(f"/proc/{pid}/fd/{fd}") for fd in os.listdir(f"/proc/{pid}/fd")]
                groups -= set(links)
                found[name] = sorted(link.split(":")[0] for link in links if not link.startswith(("net:", "/sys/fs/cgroup")))
        return {**found, "groups of nobody": sorted(groups)}


# ---- requests ----

CODE = "print(2 + 2)"


class Bad(Exception):
    """A reply that is neither right nor a clear error."""


class Told(Exception):
    """A clear error."""


def check_error(reply):
    try:
        told = reply.json
        is_clear = reply.status >= 400 and len(told["code"]) > 2 and len(told["message"]) >= 8
    except (ValueError, KeyError, TypeError):
        is_clear = False
    if not is_clear:
        raise Bad(f"no clear error: {reply}")
    raise Told(f"{reply.status} {told['code']}: {told['message']}")


def check_result(reply, walls):
    """walls: those that this host cannot give."""
    if reply.status != 200:
        check_error(reply)
    result = reply.json
    if result["verdict"] == "lost":
        raise Told("lost")
    output = result["stdout"] if "stdout" in result else result["output"]
    if (result["verdict"], output) != ("ok", "4\n"):
        raise Bad(f"verdict {result['verdict']}, output {output!r}, stderr {result['stderr']!r}")
    if walls is not None and result["missing_walls"] != walls:
        raise Bad(f"ran without {result['missing_walls']}")
    return result


class Scenario:
    """One or more requests; the result of the execution."""
    flags = ("--pool-min=0", "--pool-max=0")
    instead = {} # what a half of it may have open in place of something else
    # A fault of these brings the end of what has it, and of nothing else.
    roles = ("front", "launcher", "nets", "first", "init", "thread", "child", "template", "copy", "starter")

    def prepare(self, service):
        """Before each fault, and before what it is compared with."""

    def is_whole(self, service):
        """Whether all that it keeps ready is there."""
        return True

    def ask(self, service, walls=None):
        return check_result(service.run(CODE), walls)

    def ask_with_fault(self, service, walls):
        return self.ask(service, walls)


class Sandbox(Scenario):
    """One that is kept; its interpreter comes with the first program."""
    more = {}

    def ask(self, service, walls=None):
        reply = service.post("/api/v1/sandbox/create", **self.more)
        if reply.status != 201:
            check_error(reply)
        box = f"/api/v1/sandbox/{reply.json['sandbox_id']}"
        result = check_result(service.post(f"{box}/execute", code=CODE), walls)
        gone = service.delete(box)
        if gone.status not in (200, 202, 204, 404):
            check_error(gone)
        return result


class Cold(Sandbox):
    """The same without an interpreter that waits."""
    more = {"cold": True}


class Pool(Scenario):
    """One that was kept ready, and the next one that takes its place. The front does the same as without a pool."""
    flags = ("--pool-min=1", "--pool-max=1")
    roles = tuple(role for role in Scenario.roles if role not in ("front", "starter"))
    def ask(self, service, walls=None):
        result = super().ask(service, walls)
        end = time.monotonic() + REFILL
        while not self.is_whole(service) and time.monotonic() < end:
            time.sleep(0.01)
        return result

    def is_whole(self, service):
        return service.kept_ready() == 1


class First(Scenario):
    """The first of a service, for which the root is made that those after it share. It is made anew only now and then."""
    roles = ("launcher", "nets", "first", "init")
    instead = {"coto-launch": ["/proc"] * 2} # where it cannot have one of its own

    def prepare(self, service):
        service.stop()
        service.start()

    def ask_with_fault(self, service, walls):
        """A limit that the host refuses to give before it has ever given it is left out, and named."""
        result = self.ask(service)
        if set(result["missing_walls"]) - set(walls) - LIMITS:
            raise Bad(f"ran without {result['missing_walls']}")
        return result


SCENARIOS = {"service, run": Scenario(), "service, sandbox": Sandbox(), "service, pool": Pool(), "service, first": First()}


# ---- faults ----

Fault = faults.Fault
# Of the sockets between its processes: what has come is there, what is sent takes memory.
POSSIBLE = {"recvmsg": ["EINTR"], "epoll_wait": ["EINTR"], "epoll_pwait": ["EINTR"], "sendmsg": ["EINTR", "EIO"],
            "futex": ["EINTR"], "poll": ["EINTR"], "statfs": []} # a tmpfs always knows


def is_possible(fault):
    """Of the connections only those of clients are reset while there is something to read."""
    if fault.error == "ECONNRESET":
        return fault.role == "front"
    return fault.error in POSSIBLE.get(faults.NAMES[fault.number], [fault.error])


class Seen:
    """What a program was like when it was about to start, and the walls it is said to have. An execution in a
    sandbox names only those that are missing, which are compared before."""

    def __init__(self, walls, facts):
        self.result, self.facts = {"walls": walls}, facts


def with_own_roots():
    """What sandboxes are like, by who starts their program, when the root that they share could not be made. Only root's share one."""
    if not ROOT:
        return []
    with Attended(*Scenario.flags) as service:
        service.order("fail", "init", faults.number_of("pivot_root"), 1, errno.EPERM)
        check_result(service.run(CODE), None)
        service.order("quiet")
        assert service.fired
        service.forget()
        walls = check_result(service.run(CODE), None)["walls"]
        service.run(CODE, cold=True)
        Sandbox().ask(service) # whose interpreter keeps a channel
        service.order("quiet")
        found = [(role, Seen(walls, facts)) for role, facts in service.programs]
        assert len(found) == 3 and service.stop() == 0
        return found


class Hunt:
    """Fault after fault in one service, and what came of each."""

    def __init__(self, scenario, every, rounds, only=lambda fault: True):
        self.scenario = scenario
        self.happened = self.worked = self.told = self.restarts = 0
        self.findings, self.notes = [], []
        self.not_made = collections.Counter()
        self.own_roots = with_own_roots()
        with Attended(*scenario.flags) as self.service:
            self.warm_up()
            self.tried = [fault for fault in self.plan(rounds) if only(fault)][::every]
            for done, fault in enumerate(self.tried):
                if done % PROGRESS == 0:
                    print(f"{done} of {len(self.tried)} faults, {len(self.findings)} findings", flush=True)
                self.one(fault)
            if self.service.stop() != 0:
                self.findings.append(f"the service ended badly: {self.service.messages[-2000:]}")

    def warm_up(self):
        """What a service without faults gives and has."""
        service, scenario = self.service, self.scenario
        service.forget()
        self.baselines = list(self.own_roots)
        first = check_result(service.run(CODE), None)
        self.walls, self.all_walls = first["missing_walls"], first["walls"]
        for ask in (scenario.ask, Cold().ask, self.ask_resident, scenario.ask, scenario.ask):
            service.forget()
            result = ask(service, self.walls)
            self.baselines += [(role, Seen(result.get("walls", self.all_walls), facts)) for role, facts in service.programs]
        assert self.baselines and not set(self.walls) & faults.CORE, self.walls
        wait_until(lambda: scenario.is_whole(service), "all that is kept ready")
        self.before = service.holdings()
        for name in set(HALVES) & set(self.before):
            self.before[name] = self.before[name] + ["socket"] * CHANNELS + scenario.instead.get(name, [])

    def ask_resident(self, service, walls):
        """A sandbox whose interpreter has ended has another one started by its init."""
        box = f"/api/v1/sandbox/{service.create()['sandbox_id']}"
        service.post(f"{box}/execute", code="import os; os._exit(3)")
        service.forget()
        result = check_result(service.post(f"{box}/execute", code=CODE), walls)
        service.delete(box)
        return result

    def plan(self, rounds):
        seen = []
        for _ in range(rounds):
            self.scenario.prepare(self.service)
            self.service.forget()
            self.service.order("list")
            self.scenario.ask(self.service, self.walls)
            self.service.order("quiet")
            seen.append(self.service.calls)
        # What few of them have made is for the root that sandboxes share, which is made twice a minute (First), or a matter of time.
        calls = {call: sorted(count[call] for count in seen)[(len(seen) - 1) // 2] for one in seen for call in one if call[0] in self.scenario.roles}
        calls = {call: min(many, AHEAD if call[0] == "nets" else many) for call, many in calls.items()}
        sure = {call: min(count[call] for count in seen) for call in calls}
        return [fault for fault in faults.faults_of(calls, sure) if is_possible(fault)]

    # ---- one ----

    def one(self, fault):
        name = faults.describe(fault)
        found = []
        for _ in range(3 if fault.is_sure else 1):
            found = self.try_once(fault, name)
            if self.service.fired or found:
                break
        if fault.is_sure and not self.service.fired and not found:
            self.notes.append(f"{name}: the call was not made")
        for what in found:
            print(f"{name}: {what}", flush=True)
            self.findings.append(f"{name}: {what}")
        self.not_made[f"{fault.role} {faults.NAMES[fault.number]}"] += self.service.fired is None
        if found:
            self.start_anew()

    def try_once(self, fault, name):
        self.scenario.prepare(self.service)
        self.see_to_template(fault)
        halves = [self.service.child(it) for it in HALVES]
        self.service.forget()
        self.service.order("fail", fault.role, fault.number, fault.n, getattr(errno, fault.error))
        began = time.monotonic()
        try:
            outcome = self.scenario.ask_with_fault(self.service, self.walls)
        except (OSError, http.client.HTTPException, Bad, Told) as why:
            outcome = why
        seconds = time.monotonic() - began
        try:
            self.service.order("quiet") # all it had to tell has been told then
            fired = self.service.fired
            found = list(self.judge(fault, outcome))
            found += [f"it took {seconds:.0f} s"] if seconds > SECONDS else []
            found += self.afterwards(halves, name)
        except (OSError, http.client.HTTPException, AssertionError, queue.Empty, Bad, Told) as why:
            fired, found = self.service.fired, [f"{outcome!r}, the next request: {why!r}"]
        self.happened += fired is not None
        self.service.fired = fired
        return found

    def judge(self, fault, outcome):
        """What is wrong with the reply."""
        is_told = isinstance(outcome, Told)
        if isinstance(outcome, (OSError, http.client.HTTPException)):
            is_told = fault.role == "front" and faults.NAMES[fault.number] in CONNECTION and not isinstance(outcome, TimeoutError)
        if is_told and not self.service.fired:
            yield f"an error without a fault: {outcome!r}"
        if isinstance(outcome, Exception) and not is_told:
            yield f"no right reply: {outcome!r}"
        if self.service.fired:
            self.told += is_told
            self.worked += not isinstance(outcome, Exception)
        if not isinstance(outcome, Exception):
            is_watch = fault.role == "copy" and faults.NAMES[fault.number] == "seccomp" and fault.n == 1
            for role, facts in self.service.programs:
                # The first is no wall but tells whether a network namespace is as good as new: without, it is not used again.
                more = {"Seccomp_filters": str(int(facts["Seccomp_filters"]) + 1)} if is_watch and self.service.fired else {}
                yield from self.differences(role, {**facts, **more}, outcome)

    def differences(self, role, facts, result):
        """Those to the baseline that is nearest."""
        seen = Seen(result.get("walls", self.all_walls), facts)
        found = [list(faults.lies(seen, baseline)) for known, baseline in self.baselines if known == role]
        return min(found, key=len) if found else [f"a program started by {role}, which no other was"]

    def afterwards(self, halves, name):
        """What is wrong with the service after it."""
        self.service.forget()
        if halves != [self.service.child(it) for it in HALVES]:
            self.restarts += 1
            self.notes.append(f"{name}: a half of the service was started again")
            wait_until(self.service.is_ready, "readiness")
        self.service.delete_all()
        result = self.ask_next()
        for role, facts in self.service.programs:
            yield from self.differences(role, facts, result)
        end = time.monotonic() + SETTLE
        while (more := self.more()) and time.monotonic() < end:
            time.sleep(0.02)
            if not self.scenario.is_whole(self.service): # what was made while there was no template waits without an interpreter
                self.ask_next()
        yield from (f"left in the service: {name} {what}" for name, what in more.items())

    def more(self):
        """What it has now and had not before. A half that was started again may not have all of it yet."""
        now = {key: collections.Counter(found) - collections.Counter(self.before[key]) for key, found in self.service.holdings().items()
               if key in self.before}
        more = {key: sorted(found.elements()) for key, found in now.items() if found}
        return more if self.scenario.is_whole(self.service) else {**more, "not made again": "what is kept ready"}

    def ask_next(self):
        """Records that could not be written are written a moment later; until then it is told."""
        end = time.monotonic() + SETTLE
        while True:
            try:
                return self.scenario.ask(self.service, self.walls)
            except Told as told:
                if "records" not in str(told) or time.monotonic() > end:
                    raise
                time.sleep(0.2)

    def see_to_template(self, fault):
        """One that has died comes back after a while."""
        if fault.role not in ("template", "copy"):
            return
        before, end = self.service.parked(), time.monotonic() + SETTLE
        while self.service.parked() == before and time.monotonic() < end:
            self.scenario.ask(self.service)

    def start_anew(self):
        self.service.kill()
        self.service.start()
        self.warm_up()
