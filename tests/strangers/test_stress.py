"""Programs made to wear machines out run in a sandbox; the host is judged from outside.

`make stress` does the same for minutes.
"""
from cli.helpers import run

from . import host, stressors

SECONDS = 6
CALLS = 6000


def test_stress_ng():
    with host.Watch() as watch:
        result = stressors.many_stressors(SECONDS)
    print(watch.told())
    assert watch.verdicts() == []
    assert stressors.broken_limits(result) == []
    assert len(stressors.dispatched(result)) >= 35, result
    assert result["pids_peak"] is None or result["pids_peak"] > 35, result


def test_trinity():
    with host.Watch() as watch:
        result = stressors.trinity(60, CALLS)
    print(watch.told())
    assert watch.verdicts() == []
    assert stressors.broken_limits(result) == []
    done = stressors.calls_done(result["stdout"])
    assert sum(attempts for attempts, _ in done.values()) > CALLS / 2, result
    forbidden = stressors.forbidden_calls()
    assert forbidden and {name for name in forbidden if done.get(name, (0, 0))[1]} == set()


def test_sandboxes_start_afterwards():
    assert run("--", "/bin/true").status == 0


# ---- the judge can tell ----

def test_changes_are_seen():
    before = {"settings": {"a": "1", "b": "2"}, "objects": {"shm": {"0"}}}
    after = {"settings": {"a": "1", "b": "3"}, "objects": {"shm": {"0", "7"}}}
    assert changed(before, after) == {"settings/b", "objects/shm"}
    assert changed(before, {"settings": {"a": "1"}, "objects": {"shm": {"0"}}}) == {"settings/b"}
    assert changed(before, before) == set()


def changed(before, after):
    return set(host.changes(before, after))


def test_trouble_is_seen():
    bad = ["3,1,2,-;BUG: unable to handle page fault for address: 0",
           "4,1,2,-;WARNING: CPU: 0 PID: 1 at kernel/x.c",
           "6,1,2,-;watchdog: BUG: soft lockup - CPU#1 stuck for 22s!",
           "3,1,2,-;Out of memory: Killed process 1"]
    good = ["3,1,2,-;Memory cgroup out of memory: Killed process 9 (stress-ng)",
            "6,1,2,-;eth0: link up"]
    assert host.troubled(bad + good) == bad


def test_harm_is_seen():
    """A slow neighbour, a clock that was set, memory that stays, a setting that changed."""
    with host.Watch() as watch:
        pass
    watch.neighbour.seconds, watch.neighbour.errors = [2.0] * 3, ["OSError()"]
    watch.offset, watch.memory = watch.offset + 10, -(1 << 40)
    watch.before["settings"]["/proc/sys/kernel/ostype"] = "Minix\n"
    words = "\n".join(watch.verdicts())
    for word in ("neighbour: 2.000 s", "neighbour: OSError", "the clock was set", "bytes kept",
                 "kernel/ostype"):
        assert word in words
