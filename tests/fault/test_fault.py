"""DR-06: a system call or an allocation fails at each step in turn.

Quick in `make test`: of each scenario every COTO_FAULT_EVERY-th fault. `make fault` tries all.
"""
import collections
import os
import pathlib
import shutil
import subprocess
import tempfile
import time

import pytest

from cli.helpers import BIN, ROOT, SOURCE, run as coto_run
from . import counts, faults
from .faults import number_of

WEAK = pathlib.Path(os.environ.get("COTO_TEST_WEAK_BIN") or SOURCE / "build-weak").resolve()
EVERY = int(os.environ.get("COTO_FAULT_EVERY", "40"))
BASELINES = 5 if EVERY == 1 else 3 # runs without faults, per process: how often a call is made differs
TRIES = 10 # of a call that all of them made
HAPPEN = 0.9 if EVERY == 1 else 0.7 # of a few, beside other tests; of the pool, whose next sandbox is made when there is time for it, less
HAPPEN_IN = {"service, pool": 0.8 if EVERY == 1 else 0.7}
STALE_SECONDS = 12 # coto leaves cgroups alone that are younger, see coto_cgroup_sweep


@pytest.fixture
def room(tmp_path):
    return faults.make_room(tmp_path)


def baseline_of(scenario, room):
    """A run without faults, which must be as it should."""
    run = faults.inject(scenario, room)
    assert not list(faults.faults_in(run, scenario, run)), (run.status, run.out, run.err)
    assert run.facts and run.facts["Seccomp"] == "2", run.facts
    return run


class Hunt:
    """Fault after fault, and what came of each."""

    def __init__(self, scenario, room, only, error=None):
        self.scenario, self.room = scenario, room
        self.baseline = baseline_of(scenario, room)
        planned = self.plan(only)
        self.tried = [fault for fault in planned if fault.error == error] if error else planned[::EVERY]
        self.happened = self.worked = self.told = 0
        self.findings, self.left, self.places = [], [], faults.Places(room)
        self.not_made = collections.Counter()
        for fault in self.tried:
            self.one(fault)

    def plan(self, only):
        """What is sure is seen as a fault will be: the process that it is for is slowed down by our looking, the
        others are not."""
        calls = collections.Counter(call for call in self.baseline.calls if only(*call))
        sure = collections.Counter()
        for role in {role for role, _ in calls}:
            seen = [collections.Counter(faults.inject(self.scenario, self.room, role).calls) for _ in range(BASELINES)]
            for call in calls:
                if call[0] == role:
                    sure[call] = min(count[call] for count in seen)
        return faults.faults_of(calls, sure)

    def one(self, fault):
        name = faults.describe(fault)
        for _ in range(TRIES if fault.is_sure else 1):
            run = faults.inject(self.scenario, self.room, *fault[:4])
            found = list(faults.faults_in(run, self.scenario, self.baseline))
            self.findings += [f"{name}: {what}" for what in found]
            self.left += [f"{name}: left {what}"
                          for what in faults.left_behind(run, self.room) + self.places.more()]
            if run.fired or found:
                break
        if fault.is_sure and not run.fired:
            self.findings.append(f"{name}: the call was never made")
        self.happened += run.fired is not None
        self.not_made[f"{fault.role} {faults.NAMES[fault.number]}"] += run.fired is None
        if not found and run.fired:
            self.told += self.scenario.has_told(run)
            self.worked += not self.scenario.has_told(run)


def report(name, hunt, left):
    row = {"scenario": name, "faults": len(hunt.tried), "happened": hunt.happened, "worked": hunt.worked,
           "told": hunt.told, "findings": len(hunt.findings) + len(left)}
    print(" ".join(f"{key} {value}" for key, value in row.items()))
    print("not made:", ", ".join(f"{many} {call}" for call, many in hunt.not_made.items() if many) or "none")
    counts.keep(row)
    assert not hunt.findings + left, "\n".join(hunt.findings + left)
    # Or the test tests nothing. What does not happen is calls of loops that went round less often.
    assert hunt.happened >= int(len(hunt.tried) * HAPPEN_IN.get(name, HAPPEN)), (hunt.happened, len(hunt.tried))


@pytest.mark.parametrize("name", faults.SCENARIOS)
def test_a_failed_call_is_survived_or_told(name, room):
    scenario = faults.SCENARIOS[name]
    is_allocation = name.startswith("allocation")
    hunt = Hunt(scenario, room, lambda role, number: number == faults.ALLOCATION or not is_allocation)
    report(name, hunt, swept(hunt.left) if hunt.left and name == "killed" else hunt.left)


# What docs/FAULTS.md tells as found once, in the quick set too: each such call of a run.
FOUND = [("frames", "coto", "read", "EIO"), ("frames", "coto", "write", "EIO"), ("frames", "init", "write", "ENOSPC"),
         ("plain", "init", "write", "ENOSPC"), ("plain", "init", "mkdirat", "ENOSPC"),
         ("plain", "init", "fchmodat", "ENOMEM"), ("plain", "coto", "mmap", "ENOMEM")]
if ROOT: # which has cgroups, and a guard for them
    FOUND += [("plain", "coto", "openat", "EMFILE"), ("killed", "guard", "prctl", "EPERM")]


@pytest.mark.parametrize("name, role, call, error", FOUND)
def test_what_was_found_once_stays_mended(name, role, call, error, room):
    hunt = Hunt(faults.SCENARIOS[name], room, lambda *made: made == (role, number_of(call)), error)
    assert hunt.happened and not hunt.findings + hunt.left, "\n".join(hunt.findings + hunt.left)


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    """A program with libcoto in it, and allocations that can fail; coto-init lies beside it."""
    folder = tmp_path_factory.mktemp("library")
    for name in ("coto-init", "coto-policy"):
        shutil.copy2(BIN / name, folder / name)
    wrapped = [f"-Wl,--wrap={name}" for name in ("malloc", "calloc", "realloc")]
    here = SOURCE / "tests/fault"
    subprocess.run(["gcc", "-std=gnu11", "-Wall", "-Werror", f"-I{SOURCE / 'include'}", here / "library.c",
                    here / "alloc.c", BIN / "libcoto.a", *wrapped, "-o", folder / "library"], check=True)
    return faults.Library(folder / "library")


def test_a_failed_run_leaves_nothing_in_its_process(library, room):
    hunt = Hunt(library, room, lambda role, number: role == "coto")
    report("library", hunt, hunt.left)


def swept(left):
    """Who was killed together with its guard is cleaned up after by a later coto: one in sixteen looks."""
    time.sleep(STALE_SECONDS)
    for _ in range(300):
        left = [line for line in left if os.path.exists(line.rsplit("left ", 1)[1])]
        if not left:
            break
        assert coto_run("--", "true").status == 0
    return left


def test_a_failure_is_told_in_words(room):
    fault = ("init", number_of("pivot_root"), 1, "EPERM")
    run = faults.inject(faults.SCENARIOS["plain"], room, *fault)
    assert run.fired == fault[:2] and run.facts is None
    assert run.status in faults.STATUSES, run.out
    assert "not permitted" in run.result["error"]["message"], run.out


# ---- controls: each judgement is seen to find what it is there for ----

# Without a cgroup rlimits are all there is, and the result itself says that they are missing.
WALLS = ["seccomp", "landlock", "capabilities", "net_namespace", "root_read_only", "proc_masks",
         "env"] + (["rlimits"] if ROOT else [])


@pytest.mark.parametrize("wall", WALLS)
def test_a_missing_wall_is_found(wall, room):
    plain = faults.SCENARIOS["plain"]
    weak = faults.Scenario(*plain.words, text=plain.text, bin=WEAK, env={"COTO_TEST_WITHOUT": wall})
    found = list(faults.faults_in(faults.inject(weak, room), weak, baseline_of(plain, room)))
    assert found, f"a sandbox without {wall} was judged as good as one with it"


class Command(faults.Scenario):
    """Something that is not coto, to see what the injector says about it."""

    def command(self, room):
        return list(self.words)


@pytest.mark.parametrize("script, word", [
    ("kill -SEGV $$", "crashed"), ("sleep 60", "hung"), ("sleep 60 & exit 0", "survivors"),
    ("exit 0", "clear error"), ("echo some output; exit 71", "no result")])
def test_a_bad_end_is_found(script, word, room):
    scenario = Command("/bin/sh", "-c", script)
    run = faults.inject(scenario, room, seconds=1)
    found = list(faults.faults_in(run, scenario, run))
    assert any(word in line for line in found), found


@pytest.mark.parametrize("said, word", [
    ("first ok 1; descriptors 1 children -1; second ok 1; descriptors 1 children -1", "descriptors"),
    ("first error 71 ; descriptors 0 children -1; second ok 1; descriptors 0 children -1", "no words"),
    ("first ok 1; descriptors 0 children 0; second ok 1; descriptors 0 children -1", "children"),
    ("first ok 1; descriptors 0 children -1; second error 71 busy; descriptors 0 children -1", "second")])
def test_what_a_run_leaves_in_its_process_is_found(said, word, room):
    script = "; ".join(f"echo '{line.strip()}'" for line in said.split(";"))
    library = faults.Library("/bin/sh", "-c", script)
    found = list(faults.faults_in(faults.inject(library, room), library, None))
    assert len(found) == 1 and word in found[0], found


def test_a_leftover_temporary_is_found(room, monkeypatch):
    monkeypatch.setattr(faults, "somebody_else_runs_coto", lambda: False)
    places = faults.Places(room)
    with tempfile.TemporaryDirectory(prefix="coto-left-") as name:
        assert name in places.added()
    assert name not in places.added()


if ROOT:
    def test_a_leftover_mount_is_found(room):
        places = faults.Places(room)
        subprocess.run(["mount", "-t", "tmpfs", "left", room / "shared"], check=True)
        try:
            assert any(str(room / "shared") in line for line in places.more())
        finally:
            subprocess.run(["umount", room / "shared"], check=True)


def test_a_leftover_file_is_found(room):
    scenario = Command("/bin/sh", "-c", f"touch {room}/new; mkdir {room}/report/.half")
    assert sorted(faults.left_behind(faults.inject(scenario, room), room)) == \
        sorted(["new", f"{room}/report/.half"])
