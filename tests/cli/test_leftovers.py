"""Nothing is left: after many runs, after kill -9 at any moment, after Ctrl-C (R1.7, R2.2).

The fixture `leftovers` of conftest.py looks for processes, cgroups, mounts, files
and keys; here it gets something to find.
"""
import os
import pathlib
import pty
import random
import secrets
import signal
import socket
import subprocess
import time

import apart
import pytest

from .helpers import BIN, CGROUPS, COTO, ROOT, SLOW, SOURCE, WAITER, cgroup_directories, environment, only, run, running

QUIET = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}


def start(*args):
    return subprocess.Popen([COTO, "run", *args], env=environment(), **QUIET)


def test_the_search_finds_what_is_there(leftovers):
    """The positive control: a sandbox that lives is found, by its processes and its cgroup."""
    with running("--", *WAITER) as it:
        found = leftovers(0)
        assert it.program() in found["processes"]
        assert ("cgroups" in found) == CGROUPS
        assert any(path.split("/")[-1].startswith(f"coto-{it.process.pid}-")
                   for path in cgroup_directories()) == CGROUPS
    assert not leftovers()


APART = """
import os, subprocess, sys
sys.path.insert(0, sys.argv[1])
import apart
from cli.helpers import WAITER, cgroup_directories, running
apart.enter()
with running("--", *WAITER) as it:
    words = {path.split("/")[-1].split("-")[1] for path in cgroup_directories()}
    print(str(it.process.pid) in words, sys.argv[2] in words, apart.is_apart(), *apart.own_groups())
"""


def test_a_run_apart_finds_its_own_and_no_others(leftovers):
    """Below groups of its own it finds a sandbox of its own, and not one that lives beside it; where it has none it
    finds both."""
    with running("--", *WAITER) as it:
        done = subprocess.run(["/usr/bin/python3", "-c", APART, SOURCE / "tests", str(it.process.pid)],
                              env=environment({"COTO_TEST_BIN": str(BIN)}), capture_output=True, text=True, timeout=60 * SLOW)
    assert done.returncode == 0, done.stderr
    own, others, is_apart, *groups = done.stdout.split()
    v1 = not os.path.exists("/sys/fs/cgroup/cgroup.controllers")
    enters = is_apart == "True" and not apart.is_apart()  # once: this run may be apart itself
    assert (own, others) == (str(CGROUPS), str(CGROUPS and not enters))
    assert (is_apart == "True") == (v1 and (ROOT or apart.is_apart()))
    assert not enters or not any(os.path.exists(group) for group in groups if "apart-tests-" in group)
    assert not leftovers()


def test_500_runs_leave_nothing(leftovers):
    statuses = [subprocess.run([COTO, "run", "--", "true"], env=environment(), **QUIET).returncode
                for _ in range(500)]
    assert not leftovers()
    assert statuses == [0] * 500


def test_100_runs_of_every_kind_leave_nothing(leftovers, tmp_path):
    kinds = [["--", "false"], ["--", "sh", "-c", "kill -9 $$"], ["--timeout", "20ms", "--", "sleep", "9"],
             ["--", "no-such-command"], ["--isolation", "subprocess", "--", "sh", "-c", "echo > f; setsid sleep 9 &"],
             ["--json", "--", "sh", "-c", "echo > output/x"], ["--mount", f"{tmp_path}:/data:rw", "--", "true"],
             ["--", "sh", "-c", "setsid sleep 30 & exit 0"], ["--output-limit", "1k", "--on-output-limit", "kill",
                                                             "--", "yes"],
             ["--memory", "16m", "--", "sh", "-c", "head -c 60m /dev/zero > big"]]
    for number in range(100):
        subprocess.run([COTO, "run", *kinds[number % len(kinds)]], env=environment(), timeout=20, **QUIET)
    assert not leftovers()


def test_runs_side_by_side(leftovers):
    for _ in range(4):
        some = [start("--", "sleep", "0.1") for _ in range(8)]
        assert {process.wait(20) for process in some} == {0}
    assert not leftovers()


SLEEPER = ("--", "sh", "-c", "setsid sleep 30 & sleep 30")


def kill_at_random(args, rounds, longest, seed):
    moments = random.Random(seed)
    for _ in range(rounds):
        process = start(*args)
        time.sleep(moments.uniform(0, longest))
        process.kill()
        process.wait()


@pytest.mark.parametrize("longest", [0.004, 0.02])
def test_kill_9_at_any_moment(leftovers, longest):
    """While it is being set up and while it runs: nothing is left within two seconds."""
    kill_at_random(SLEEPER, 40, longest, seed=7)
    assert not leftovers(2)


def test_kill_9_while_it_is_taken_down(leftovers):
    kill_at_random(("--", "true"), 40, 0.012, seed=8)
    assert not leftovers(2)


def test_kill_9_without_isolation(leftovers):
    kill_at_random(("--isolation", "subprocess", *SLEEPER), 20, 0.02, seed=9)
    assert not leftovers(2)


def test_kill_9_while_the_program_runs(leftovers):
    with running("--", "sh", "-c", "setsid sleep 30 & echo ready; sleep 30") as it:
        assert it.program() in leftovers(0)["processes"]
        it.process.kill()
        it.process.wait()
        assert not leftovers(2)


@pytest.mark.parametrize("level", ["process", "subprocess"])
def test_kill_9_of_its_whole_group(leftovers, level):
    """As timeout(1) and shells do."""
    random.seed(10)
    for _ in range(20):
        process = subprocess.Popen([COTO, "run", "--isolation", level, *SLEEPER], env=environment(), process_group=0, **QUIET)
        time.sleep(random.uniform(0, 0.05))
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    assert not leftovers(2)


ENDING = {signal.SIGINT: 130, signal.SIGTERM: 143, signal.SIGHUP: 129, signal.SIGQUIT: 131}


@pytest.mark.parametrize("number", sorted(ENDING))
def test_signal_to_coto_ends_the_sandbox(leftovers, number):
    """Ctrl-C and its like end the sandbox, with 128+n, and leave nothing."""
    with running("--", "sh", "-c", "setsid sleep 30 & echo ready; sleep 30") as it:
        began = time.monotonic()
        it.process.send_signal(number)
        assert it.process.wait(5) == ENDING[number]
        assert time.monotonic() - began < 1
        assert not leftovers(1)


@pytest.mark.parametrize("level", ["process", "subprocess"])
@pytest.mark.parametrize("number", sorted(ENDING))
def test_what_the_caller_ignores_does_not_end_it(number, level):
    """As nohup does with SIGHUP, and a shell with SIGINT for what it runs in the background."""
    process = subprocess.Popen(["sh", "-c", f"trap '' {int(number)}; exec \"$@\"", "sh", COTO, "run", "--isolation", level, "--",
                                "sh", "-c", "echo up; read go; echo $go"], env=environment(), process_group=0,
                               stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    process.stdout.readline()
    os.killpg(process.pid, number)
    out, _ = process.communicate(b"on\n", timeout=60 * SLOW)
    assert (process.returncode, out) == (0, b"on\n")


def test_ctrl_c_on_a_terminal_ends_it():
    """The terminal sends SIGINT to the whole foreground group; the program ignores it."""

    pid, fd = pty.fork()
    if pid == 0:
        os.execve(COTO, [COTO, "run", "--", "sh", "-c", "trap '' INT; echo ready; sleep 30; sleep 30"], environment())
    seen = b""
    while b"ready" not in seen:
        seen += os.read(fd, 1000)
    os.write(fd, b"\x03")
    began = time.monotonic()
    _, status = os.waitpid(pid, 0)
    os.close(fd)
    assert os.waitstatus_to_exitcode(status) == 130 and time.monotonic() - began < 2


# Little at a time: what is more than 4 KiB goes another way.
TALKER = "import os, time\nwhile True:\n    os.write(1, b'x' * 1999 + b'\\n')\n    time.sleep(0.0005)"
UNREAD = {"pipe": os.pipe, "terminal": pty.openpty, "raw": pty.openpty,
          "socket": lambda: [end.detach() for end in socket.socketpair()]}


@pytest.mark.parametrize("kind", sorted(UNREAD))
def test_who_does_not_read_keeps_no_signal_from_ending_it(kind):
    """Nor a limit that coto itself looks after: it waited in a write, the program in a lock that no signal ends."""
    ours, theirs = UNREAD[kind]()
    process = subprocess.Popen([COTO, "run", *(["--raw"] if kind == "raw" else []), "--lang", "python", "-c", TALKER],
                               env=environment(), stdin=subprocess.DEVNULL, stdout=theirs,
                               stderr=theirs if kind == "terminal" else subprocess.DEVNULL)
    os.close(theirs)
    time.sleep(2 * SLOW)
    try:
        process.terminate()
        assert process.wait(5 * SLOW) == ENDING[signal.SIGTERM]
    finally:
        process.kill()
        os.close(ours)


def test_closed_stdin_and_gone_parent_do_not_end_a_run(tmp_path):
    """Nothing but a signal, a limit or its own end stops a run."""
    done = subprocess.run(f"({COTO} run -- sh -c 'sleep 0.3; echo late' > {tmp_path}/out &) ; sleep 0.1",
                          shell=True, env=environment(), timeout=20, **QUIET)
    assert done.returncode == 0
    end = time.monotonic() + 5
    while (tmp_path / "out").read_text() != "late\n" and time.monotonic() < end:
        time.sleep(0.05)
    assert (tmp_path / "out").read_text() == "late\n"


NAMES = """import os, sys
for i in range(150000):
    try: os.stat(f"/usr/bin/{sys.argv[1]}-{i}")
    except FileNotFoundError: pass
print("looked")"""


@only(ROOT and CGROUPS)
@pytest.mark.alone
def test_the_kernel_forgets_what_it_looked_for_in_vain():
    """Names that are nowhere are remembered, for as much memory as the run may have."""
    def known():
        return int(pathlib.Path("/proc/sys/fs/dentry-state").read_text().split()[0])

    before = known()
    done = run("--timeout", f"{60 * SLOW:g}s", "--lang", "python", "-c", NAMES, secrets.token_hex(8))
    assert done.out == b"looked\n", done
    assert known() - before < 75000
