"""DR-06: a system call or an allocation fails at each step in turn.

Quick in `make test`: of each scenario every COTO_FAULT_EVERY-th fault. `make fault` tries all.
"""
import os
import subprocess
import time

import pytest

from cli.helpers import COTO, ROOT, environment, run as coto_run
from . import faults

EVERY = int(os.environ.get("COTO_FAULT_EVERY", "40"))
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


def hunt(scenario, room, only=None):
    """Injects fault after fault; returns (tried, fired, findings, what was left behind)."""
    baseline = baseline_of(scenario, room)
    tried = faults.faults_of(baseline, EVERY, only)
    fired, findings, left = 0, [], []
    for fault in tried:
        run = faults.inject(scenario, room, *fault)
        fired += run.fired is not None
        findings += [f"{faults.describe(fault)}: {what}"
                     for what in faults.faults_in(run, scenario, baseline)]
        left += [f"{faults.describe(fault)}: left {what}" for what in faults.left_behind(run, room)]
    return tried, fired, findings, left


@pytest.mark.parametrize("name", faults.SCENARIOS)
def test_a_failed_call_is_survived_or_told(name, room):
    scenario = faults.SCENARIOS[name]
    only = faults.ALLOCATION if name.startswith("allocation") else None
    tried, fired, findings, left = hunt(scenario, room, only)
    print(f"{name}: {len(tried)} faults, {fired} happened, {len(findings)} findings")
    assert fired > len(tried) * 0.9, (fired, len(tried)) # or the test tests nothing
    if left and name == "killed":
        left = swept(left)
    assert not findings + left, "\n".join(findings + left)


def swept(left):
    """Who was killed together with its guard is cleaned up after by the next coto."""
    time.sleep(STALE_SECONDS)
    assert coto_run("--", "true").status == 0
    return [line for line in left if os.path.exists(line.rsplit("left ", 1)[1])]
