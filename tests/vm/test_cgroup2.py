"""Limits on a host with cgroup v2 only, as root and below a delegated group: what the kernel's
own files say while the program runs, and what happens past each limit (R3.1, R3.2, R3.4, R3.5)."""
import os
import pathlib
import signal
import time

import pytest

from cli.helpers import (ROOT, SLOW, WAITER, cgroup_directories, cgroups_of, descendants, read, run, run_json,
                         running)

PY = ("--lang", "python", "-c")
TOUCH = "x = bytearray({} << 20)\nfor i in range(0, len(x), 4096): x[i] = 1\nprint('done')"
LIMITS = [
    ("--memory", "96m", "memory", "memory.max", str(96 << 20)),
    ("--swap", "8m", "swap", "memory.swap.max", str(8 << 20)),
    ("--pids", "33", "pids", "pids.max", "34"),  # and coto-init
    ("--cpus", "0.7", "cpus", "cpu.max", "70000 100000"),
]


def group_of(it):
    return cgroups_of(it.program())[""]


def flat(path):
    """A file of "key value" lines."""
    return {key: int(value) for key, value in (line.split() for line in read(path).splitlines())}


def test_host_is_what_it_should_be():
    assert set(cgroups_of(os.getpid())) == {""}
    assert len(read("/proc/swaps").splitlines()) == 2


@pytest.mark.parametrize("flag, value, wall, file, content", LIMITS, ids=[row[2] for row in LIMITS])
def test_limit_in_the_kernel(flag, value, wall, file, content):
    with running(flag, value, "--", *WAITER) as it:
        assert read(group_of(it) / file).strip() == content
    state = run_json(flag, value, "--require", wall, "--", "true")["walls"][wall]
    assert state["up"] and state["mechanism"] == f"cgroup v2 {file}"


def test_io_limit_in_the_kernel():
    """R3.4: on the disk below /usr, reads and writes."""
    disk = os.stat("/usr").st_dev
    with running("--iops", "500", "--", *WAITER) as it:
        words = read(group_of(it) / "io.max").split()
    assert words[0] == f"{os.major(disk)}:{os.minor(disk)}"
    assert {"riops=500", "wiops=500"} <= set(words)
    assert run_json("--iops", "500", "--require", "iops", "--", "true")["walls"]["iops"]["up"]


def test_group_is_the_sandboxes_own():
    with running("--", *WAITER) as it:
        group = group_of(it)
        assert group.name.startswith("coto-") and group != cgroups_of(os.getpid())[""]
        assert group.parent == (pathlib.Path("/sys/fs/cgroup") if ROOT else
                                cgroups_of(os.getpid())[""].parent)
        members = set(map(int, read(group / "cgroup.procs").split()))
        assert it.program() in members and it.process.pid not in members
    # and it is all that shows inside
    assert run("--", "cat", "/proc/self/cgroup").out == b"0::/\n"


def test_memory_and_no_swap():
    """The host has swap and the sandbox has none: past its memory the kernel ends it."""
    with running("--memory", "64m", "--", *WAITER) as it:
        assert flat(group_of(it) / "memory.events")["oom_kill"] == 0
        assert read(group_of(it) / "memory.swap.max").strip() == "0"
    result = run_json("--memory", "64m", *PY, TOUCH.format(120))
    assert (result["verdict"], result["limit"], result["exit_status"]) == ("oom", "memory", 137)
    assert 60 << 20 < result["memory_peak_bytes"] <= 64 << 20


def test_swap_when_it_is_given():
    """The positive control: the same program with swap beside its memory gets through."""
    result = run_json("--memory", "64m", "--swap", "128m", "--timeout", f"{30 * SLOW:g}s", *PY, TOUCH.format(120))
    assert (result["verdict"], result["stdout"]) == ("ok", "done\n")
    assert result["memory_peak_bytes"] <= 64 << 20


def test_oom_is_the_kernels_word():
    """memory.events of the living group counts the kill that the verdict tells."""
    code = ("import os\nif os.fork() == 0:\n    x = bytearray(200 << 20)\n    os._exit(0)\n"
            "os.wait()\nprint('ready', flush=True)\ninput()")
    with running("--memory", "64m", *PY, code) as it:
        assert flat(group_of(it) / "memory.events")["oom_kill"] >= 1


def test_pids_are_the_kernels_word():
    code = ("import os, time\ntry:\n    while True:\n        if os.fork() == 0: time.sleep(60)\n"
            "except OSError: print('ready', flush=True)\ninput()")
    with running("--pids", "12", *PY, code) as it:
        group = group_of(it)
        assert read(group / "pids.current").strip() == "13"  # and coto-init
        assert flat(group / "pids.events")["max"] >= 1


def test_cpu_is_throttled():
    code = ("import time\nprint('ready', flush=True)\nend = time.monotonic() + 2\n"
            "while time.monotonic() < end: pass\nprint('over', flush=True)\ninput()")
    with running("--cpus", "0.2", *PY, code) as it:
        group, before = group_of(it), time.monotonic()
        used = flat(group / "cpu.stat")["usage_usec"]
        assert it.line(60) == "over"
        stat, seconds = flat(group / "cpu.stat"), time.monotonic() - before
    assert stat["nr_throttled"] > 0
    assert (stat["usage_usec"] - used) / 1e6 / seconds < 0.3


def test_peak_is_measured():
    """Linux 6.1 has memory.peak from 5.19 on."""
    with running("--", *WAITER) as it:
        assert int(read(group_of(it) / "memory.peak")) > 0
    assert run_json(*PY, TOUCH.format(50))["memory_peak_bytes"] > 50 << 20


SWEEP_SECONDS = 11  # younger groups may belong to a coto whose pid we cannot see


def test_kill_9_of_everything_is_swept_by_a_later_run(leftovers):
    """coto and its guard die together, the worst that can happen: the processes end at once
    and a later run removes the empty group."""
    before = cgroup_directories()
    with running("--", *WAITER) as it:
        names = {pid: row[1] for pid, row in descendants(it.process.pid).items()}
        guards = [pid for pid, name in names.items() if name == "coto-guard"]
        assert guards
        for pid in (*guards, it.process.pid):
            os.kill(pid, signal.SIGKILL)
        killed = time.monotonic()
    assert not leftovers().get("processes")
    left = cgroup_directories() - before
    assert left and all(read(os.path.join(path, "cgroup.procs")) == "" for path in left)
    time.sleep(max(0, killed + SWEEP_SECONDS - time.monotonic()))
    for _ in range(300):  # one in sixteen looks
        if not left & cgroup_directories():
            break
        assert run("--", "true").status == 0
    assert not leftovers()


def test_group_can_be_killed_from_outside():
    """cgroup.kill ends the whole sandbox and nothing else: coto lives and calls it lost."""
    with running("--", "sh", "-c", "sleep 60 & sleep 60 & echo ready; wait") as it:
        (group_of(it) / "cgroup.kill").write_text("1")
        assert it.end(60).status == 70
