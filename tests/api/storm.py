"""Clients of several tenants at work while the service's processes and sandboxes are killed at
random; what they were told is compared with the records afterwards. tests/api/chaos runs it for long."""
import collections
import contextlib
import datetime
import hashlib
import http.client
import json
import os
import pathlib
import random
import signal
import subprocess
import threading
import time

from cli.helpers import COTO, descendants

from .daemon import Daemon
from .helpers import PATIENCE, reap_orphans, wait_until

TENANTS = ["anna", "ben", "cleo", "dora"]
# Of front and launcher together less than what makes the keeper give up (twenty a minute).
KINDS = ["front", "launcher", "init", "program", "init", "program", "async", "starter"]
PAUSE = 4.5
GONE = (OSError, http.client.HTTPException)
# A run that was hit is told so by one of these.
HIT = {"lost", "killed", "signal"}
# Whose end everybody may feel until it is there again; the end of any other process is felt by one execution.
WIDE = ("front", "launcher", "starter")
# How long after a kill what it has cost may still begin: a sandbox that waited in the pool is found dead by whoever gets it.
SLACK = 2
# Clocks are read beside what they tell of, and records have milliseconds.
ABOUT = 0.1
# So many are ok for each that was hit, at least.
MOST = 2
# What a service that has ended leaves in its room: nothing but what the next one reads.
LEFT = {"log", "keys", "keys/es256.key", "keys/es256.pub", "state", "state/records.db", "state/async", "run", "run/lock", "run/life"}


class Strike:
    """One kill: of what, when, and until when all may feel it."""

    def __init__(self, kind, began, ended=None):
        self.kind, self.began, self.ended, self.is_spent = kind, began, ended or began, False

    def explains(self, began, ended):
        """Something that was not as it should be, between these times."""
        return self.began <= ended + ABOUT and began <= self.ended + SLACK


class Odd:
    """An outcome that is not ok, and honest only where something was killed."""

    def __init__(self, began, ended, kinds, text):
        self.began, self.ended, self.kinds, self.text = began, ended, kinds, text


def end_of(record):
    """When it was, of an execution of which that is known."""
    if record.get("started_at") and record.get("duration_ms") is not None:
        began = datetime.datetime.fromisoformat(record["started_at"].replace("Z", "+00:00")).timestamp()
        return began + record["duration_ms"] / 1000
    return None


def mounts():
    return pathlib.Path("/proc/self/mountinfo").read_text().splitlines()


class Client(threading.Thread):
    """One of the 64: a secret of its own, of which no other tenant may ever see a sign."""

    def __init__(self, storm, number):
        super().__init__(daemon=True)
        self.storm, self.number = storm, number
        self.random = random.Random(f"{storm.seed}/{number}")
        self.tenant = TENANTS[number % len(TENANTS)]
        self.secret = hashlib.sha256(f"{storm.seed}/{number}".encode()).hexdigest()
        self.count = 0

    def run(self):
        work = [self.once] * 5 + [self.kept] * 3 + [self.later] * 3 + [self.hang_up, self.trespass]
        while not self.storm.over.is_set():
            with contextlib.suppress(*GONE):
                self.random.choice(work)()

    def ask(self, method, path, body=None):
        self.asked = time.time()
        try:
            reply = self.storm.service.ask(method, path, body, token=self.storm.tokens[self.tenant])
        except GONE as reason:
            self.storm.note(self.asked, ("front", "starter"), f"{method} {path}: no answer: {reason!r}")
            raise
        self.storm.tally[f"status {reply.status}"] += 1
        return reply

    def puzzle(self, before=""):
        """Code, and what it must print."""
        self.count += 1
        text = f"{self.secret}/{self.count}"
        code = f"{before}import hashlib; print(hashlib.sha256({text!r}.encode()).hexdigest())"
        return code, hashlib.sha256(text.encode()).hexdigest() + "\n"

    def check(self, reply, key, answer, what, since=None):
        """Of a reply that came: the answer is right, or something was killed since then."""
        since = since or self.asked
        if reply.status != 200:
            self.storm.expect(reply.status in (404, 409, 429, 503), f"{what}: {reply}")
            if reply.status != 429:  # that one is for the number of requests
                self.storm.note(since, KINDS, f"{what}: {reply}")
            return False
        result = reply.json
        execution = result.get("execution_id") or result["id"]
        self.storm.told[execution] = (self.tenant, result["verdict"])
        if result["verdict"] in HIT:
            self.storm.note(since, KINDS, f"{what}: {result}")
            self.storm.tally["runs hit"] += 1
            return False
        self.storm.expect(result["verdict"] == "ok" and result[key] == answer, f"{what}: {result}")
        self.storm.tally[what] += 1
        return True

    def once(self):
        code, answer = self.puzzle()
        self.check(self.ask("POST", "/api/v1/run", {"code": code}), "stdout", answer, "runs")

    def kept(self):
        """Several executions in one sandbox: what one leaves the next one finds."""
        made = self.ask("POST", "/api/v1/sandbox/create", {})
        if made.status != 201:
            self.storm.expect(made.status in (429, 503), f"create: {made}")
            if made.status == 503:
                self.storm.note(self.asked, KINDS, f"create: {made}")
            return
        path = f"/api/v1/sandbox/{made.json['sandbox_id']}"
        self.storm.boxes.append((self.tenant, made.json["sandbox_id"]))
        try:
            self.use(path)
        finally:
            with contextlib.suppress(*GONE):
                self.ask("DELETE", path)

    def use(self, path):
        epoch, since = self.storm.epoch, self.asked
        reply = self.ask("POST", f"{path}/execute", {"code": f"mine = {self.secret!r}; print(1)"})
        fine = self.check(reply, "output", "1\n", "first of a sandbox", since)
        for _ in range(3):
            time.sleep(self.random.random())
            code = "try: print(mine)\nexcept NameError: print('gone')"
            reply = self.ask("POST", f"{path}/execute", {"code": code})
            # Only what was killed may have forgotten; a front's end is no excuse.
            expected = f"{self.secret}\n"
            if reply.status == 200 and reply.json["output"] == "gone\n" and self.storm.epoch != epoch:
                expected = "gone\n"
            if fine:
                fine = self.check(reply, "output", expected, "next of a sandbox", since)

    def later(self):
        code, answer = self.puzzle(f"import time; time.sleep({self.random.random() * 2:.2f}); ")
        reply = self.ask("POST", "/api/v1/run", {"code": code, "async": True})
        if reply.status == 202:
            self.storm.accepted[reply.json["execution_id"]] = (self.tenant, answer, self.asked)
        else:
            self.storm.expect(reply.status in (429, 503), f"async: {reply}")
            if reply.status == 503:
                self.storm.note(self.asked, KINDS, f"async: {reply}")

    def hang_up(self):
        """In the middle of a run that would take longer than the whole storm."""
        with contextlib.closing(self.storm.service.connect(tcp=True)) as connection:
            body = json.dumps({"code": f"import time; time.sleep(290) # {self.secret}", "timeout_seconds": 300})
            connection.request("POST", "/api/v1/run", body=body,
                               headers={"Authorization": f"Bearer {self.storm.tokens[self.tenant]}"})
            time.sleep(0.05 + self.random.random() / 2)
        self.storm.tally["hung up"] += 1

    def trespass(self):
        others = [(tenant, box) for tenant, box in list(self.storm.boxes)[-50:] if tenant != self.tenant]
        if others:
            _, box = self.random.choice(others)
            reply = self.ask("POST", f"/api/v1/sandbox/{box}/execute", {"code": "print(mine)"})
            self.storm.expect(reply.status == 404, f"another tenant's sandbox: {reply}")
            self.storm.tally["trespasses refused"] += 1
        told = [it for it, (tenant, _) in list(self.storm.told.items())[-50:] if tenant != self.tenant]
        if told:
            reply = self.ask("GET", f"/api/v1/executions/{self.random.choice(told)}")
            self.storm.expect(reply.status == 404, f"another tenant's execution: {reply}")
            self.storm.tally["trespasses refused"] += 1


class Storm:
    def __init__(self, seconds, clients=64, seed=None):
        self.seconds, self.seed = seconds, seed or os.urandom(4).hex()
        self.random = random.Random(self.seed)
        self.over = threading.Event()
        self.lock = threading.Lock()
        self.tally, self.kills = collections.Counter(), collections.Counter()
        self.wrong, self.strikes, self.odd = [], [], []
        self.told, self.accepted, self.ends = {}, {}, collections.Counter()
        self.boxes = collections.deque(maxlen=500)
        self.launchers, self.mounts, self.watchers = set(), set(mounts()), []
        self.epoch = 0  # grows with each kill that may cost a sandbox its state
        self.clients = [Client(self, i) for i in range(clients)]

    def expect(self, so, text):
        if not so:
            self.wrong.append(text[:600])

    # ---- what must have a reason ----

    def note(self, began, kinds, text, ended=None):
        self.odd.append(Odd(began, ended or time.time(), kinds, text))

    def check_odd(self):
        """What was not ok happened while something that is everybody's was killed, or each has a kill of its own."""
        for odd in sorted(self.odd, key=lambda it: it.ended):
            found = [it for it in self.strikes if it.kind in odd.kinds and it.explains(odd.began, odd.ended)]
            wide = [it for it in found if it.kind in WIDE]
            narrow = [it for it in found if it.kind not in WIDE and not it.is_spent]
            if not wide and narrow:
                narrow[0].is_spent = True
            self.expect(wide or narrow, f"nothing was killed from {odd.began:.2f} to {odd.ended:.2f}: {odd.text}")
            self.tally["not ok, by a kill of its own" if narrow and not wide else "not ok, when all felt a kill"] += 1

    def check_most(self):
        for ok, hit in ((self.tally["runs"] + self.tally["first of a sandbox"] + self.tally["next of a sandbox"], self.tally["runs hit"]),
                        (self.ends["ok"], self.ends["hit, and told so"])):
            self.expect(ok > MOST * hit, f"most are to be ok: {ok} are, {hit} were hit")

    # ---- kills ----

    def victims(self, kind):
        if kind in ("front", "launcher"):
            return [getattr(self.service, kind)]
        below = descendants(self.service.process.pid)
        inits = [pid for pid, row in below.items() if row[1].startswith("coto-init")]
        if kind == "init":
            return inits
        if kind in ("async", "starter"):
            return [pid for pid, row in below.items() if row[1].startswith(f"coto-{kind}")]
        return [pid for pid, row in below.items() if row[0] in inits]

    def kill(self, kind):
        self.launchers.add(self.service.launcher)
        found = [pid for pid in self.victims(kind) if pid]
        if not found:
            return
        if kind not in ("front", "starter"):
            self.epoch += 1
        with contextlib.suppress(ProcessLookupError, PermissionError):
            strike, victim = Strike(kind, time.time()), self.random.choice(found)
            os.kill(victim, signal.SIGKILL)
            self.strikes.append(strike)
            self.kills[kind] += 1
            if kind in WIDE:
                self.watchers.append(threading.Thread(target=self.watch, args=(strike, victim), daemon=True))
                self.watchers[-1].start()

    def watch(self, strike, victim):
        """Notes when there is another. None is an unexpected end of the service, which rage() sees."""
        end = time.monotonic() + PATIENCE
        with contextlib.suppress(AssertionError):
            while not (any(pid and pid != victim for pid in self.victims(strike.kind)) and self.service.is_ready()):
                strike.ended = time.time()
                if time.monotonic() > end:
                    self.expect(False, f"no other {strike.kind} after {PATIENCE} s")
                    break
                time.sleep(0.05)
        strike.ended = time.time()

    def rage(self):
        end = time.monotonic() + self.seconds
        kinds = []
        while time.monotonic() < end:
            time.sleep(min(PAUSE, self.seconds / 8) * (0.5 + self.random.random()))
            kinds = kinds or self.random.sample(KINDS, len(KINDS))
            self.kill(kinds.pop())
            self.expect(self.service.process.poll() is None, "the service has ended")

    # ---- afterwards ----

    def outcome(self, execution, tenant):
        def look():
            reply = self.service.get(f"/api/v1/executions/{execution}", token=self.tokens[tenant])
            self.expect(reply.status == 200, f"accepted and unknown: {execution} {reply}")
            return reply.json if reply.status != 200 or reply.json["state"] not in ("queued", "running") else None
        return wait_until(look, f"the end of {execution}")

    def check_accepted(self):
        """Also while it goes on: results are kept for ten minutes."""
        for execution, (tenant, answer, began) in list(self.accepted.items()):
            with contextlib.suppress(*GONE):
                it = self.outcome(execution, tenant)
                hit = it["state"] in ("error", "interrupted") or it["verdict"] in HIT
                if hit:
                    self.note(began, KINDS, f"async: {it}", end_of(it))
                self.ends["hit, and told so" if hit else "ok"] += 1
                self.expect(hit or (it["verdict"], it.get("result", {}).get("stdout")) == ("ok", answer), str(it))
                self.told.setdefault(execution, (tenant, it["verdict"]))
                del self.accepted[execution]

    def collect(self):
        while not self.over.wait(1):
            self.check_accepted()

    def check_records(self):
        rows = {row["id"]: row for row in self.service.rows("SELECT id, tenant, verdict FROM executions")}
        for execution, (tenant, verdict) in self.told.items():
            row = rows.get(execution)
            self.expect(row and row["tenant"] == tenant and (verdict is None or row["verdict"] == verdict),
                        f"told {verdict}, recorded {row}")
        self.tally["records checked"] = len(self.told)

    def running(self):
        return self.service.rows("SELECT id FROM executions WHERE verdict IS NULL OR verdict = 'queued'")

    def check_end(self):
        wait_until(lambda: not self.running(), "the end of what nobody waits for")
        files = list((self.service.state / "async").iterdir())
        self.expect(not files, f"files left: {files}")
        self.launchers.add(self.service.launcher)
        self.expect(self.service.stop() == 0, "its status is not 0")
        self.expect(not self.orphans(), f"orphans: {self.orphans()}")

    def left(self):
        """Processes (we are their reaper), cgroups, mounts, files and directories."""
        reap_orphans()
        found = [row for row in descendants(os.getpid()).values() if row[2] != "Z"]
        names = tuple(f"coto-{pid}-" for pid in self.launchers if pid)
        found += [top for top, _, _ in os.walk("/sys/fs/cgroup") if names and os.path.basename(top).startswith(names)]
        found += [line for line in set(mounts()) - self.mounts if str(self.service.room) in line or "coto" in line]
        inside = {str(path.relative_to(self.service.room)) for path in self.service.room.rglob("*")}
        return found + sorted(inside - LEFT)

    def orphans(self, patience=10):
        end = time.monotonic() + patience
        while self.left() and time.monotonic() < end:
            time.sleep(0.1)
        return self.left()

    # ---- all of it ----

    def mint(self, room, tenant):
        return subprocess.run([COTO, "token", "mint", "--key", room / "keys/es256.key", "--sub", tenant],
                              check=True, capture_output=True, text=True, timeout=PATIENCE).stdout.strip()

    def blow(self):
        """The list of what went wrong."""
        service = Daemon("--tenant-sandboxes=100", "--idle=60s")
        subprocess.run([COTO, "token", "keygen", "es256", service.room / "keys"], check=True,
                       capture_output=True, timeout=PATIENCE)
        service.flags += (f"--jwt-key={service.room / 'keys/es256.pub'}",)
        with service as self.service:
            self.tokens = {tenant: self.mint(service.room, tenant) for tenant in TENANTS}
            for client in self.clients:
                client.start()
            collector = threading.Thread(target=self.collect, daemon=True)
            collector.start()
            self.rage()
            self.over.set()
            for thread in (*self.clients, collector, *self.watchers):
                thread.join(PATIENCE)
                self.expect(not thread.is_alive(), f"{thread} hangs")
            wait_until(service.is_ready, "readiness after all")
            self.check_accepted()
            self.expect(not self.accepted, f"accepted, and never told: {list(self.accepted)[:5]}")
            self.check_odd()
            self.check_most()
            self.check_records()
            self.check_end()
            self.said = service.messages
        return self.wrong

    def table(self):
        rows = [("seconds", self.seconds), ("clients", len(self.clients)), ("tenants", len(TENANTS)), ("seed", self.seed)]
        rows += sorted((f"killed: {kind}", n) for kind, n in self.kills.items())
        rows += sorted(self.tally.items())
        rows += sorted((f"async: {kind}", n) for kind, n in self.ends.items())
        rows += [("wrong", len(self.wrong))]
        return "\n".join(f"| {name} | {value} |" for name, value in [("what", "count"), ("---", "---")] + rows)
