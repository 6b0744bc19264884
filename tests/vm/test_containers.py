"""Containers by runc and crun on a host with cgroup v2 only and AppArmor: what the kernel's own files say
while a program runs, what happens past each limit, and what is left."""
import glob
import os
import pathlib
import signal
import subprocess
import time

import pytest

from api.helpers import Service, wait_until
from cli.helpers import COTO, WAITER, cgroups_of, environment, read, refused, run, run_json, running, status_of

from .test_apparmor import CURRENT, LABEL, STRICT, TRY, WAITED

PY = ("--lang", "python", "-c")
LIMITS = ["--memory", "96m", "--swap", "8m", "--pids", "33", "--cpus", "0.7"]
FILES = {"memory.max": str(96 << 20), "memory.swap.max": str(8 << 20), "cpu.max": "70000 100000",
         "pids.max": "34"}  # and coto-init
WALLS = {"memory": "memory.max", "swap": "memory.swap.max", "cpus": "cpu.max", "pids": "pids.max"}


def label_of(pid):
    return read(f"/proc/{pid}/attr/apparmor/current").strip()


@pytest.fixture(params=["runc", "crun"])
def level(request):
    """Debian 12's lack fixes of what these containers cannot reach; the policy names them."""
    return ["--isolation", "container", "--runtime", request.param, "--allow-runtime", request.param]


@pytest.fixture(autouse=True)
def no_directory_is_left():
    yield
    wait_until(lambda: not glob.glob("/run/coto-oci-*"), "the end of its directory")


def test_limits_and_walls_in_the_kernel(level):
    with running(*level, *LIMITS, "--", *WAITER) as it:
        program, init = it.program(), it.init()
        group = cgroups_of(program)[""]
        assert group.name.startswith("coto-") and group.parent == pathlib.Path("/sys/fs/cgroup")
        assert cgroups_of(init)[""] == group
        assert {name: read(group / name).strip() for name in FILES} == FILES
        for pid in (program, init):
            status = status_of(pid)
            assert status["Seccomp"] == "2" and status["NoNewPrivs"] == "1"
            assert {int(status[name], 16) for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")} == {0}
            for kind in ("user", "pid", "mnt", "net", "ipc", "uts", "cgroup"):
                assert os.readlink(f"/proc/{pid}/ns/{kind}") != os.readlink(f"/proc/self/ns/{kind}"), kind
        # the profile is for the program, as natively
        assert label_of(program) == LABEL and label_of(init) == "unconfined"


def test_limits_and_walls_in_the_result(level):
    """Every wall that the policy wants; and the group is all that shows inside."""
    result = run_json(*level, *LIMITS, "--require", "memory,swap,cpus,pids,apparmor,landlock", *PY,
                      f"{CURRENT}\nprint(open('/proc/self/cgroup').read())")
    assert result["verdict"] == "ok" and result["missing_walls"] == [], result
    assert result["stdout"].split() == [*LABEL.split(), "0::/"]
    for wall, file in WALLS.items():
        state = result["walls"][wall]
        assert state["up"] and state["mechanism"] == f"cgroup v2 {file}", state
    assert result["walls"]["apparmor"]["value"] == LABEL
    assert result["runtime"].startswith(level[3])


ENDS = {
    "oom": (["--memory", "64m"], "x = [bytearray(1 << 20) for _ in range(200)]", "memory"),
    "pids": (["--pids", "4"], "import os, time\nfor i in range(99):\n    if not os.fork(): time.sleep(9); os._exit(0)",
             "pids"),
    "timeout": (["--timeout", "3s"], "while True: pass", "timeout"),
}


@pytest.mark.parametrize("verdict", ENDS)
def test_verdicts(level, verdict):
    limit, code, name = ENDS[verdict]
    result = run_json(*level, "--timeout", "120s", *limit, *PY, code)
    assert (result["verdict"], result["limit"]) == (verdict, name), result
    if verdict == "oom":
        assert 60 << 20 < result["memory_peak_bytes"] <= 64 << 20


def test_profile_of_a_policy_in_a_container(level, tmp_path):
    """The narrow profile is the program's alone: coto-init puts files where the program may not write. The
    control is the same program without it."""
    flags = [*level, "--profile", "enis"]
    code = TRY + "print(answer(os.listdir, '/var'), answer(os.kill, 1, 0))"
    held = run_json(*flags, *PY, f"{CURRENT}\n{code}")
    assert held["verdict"] == "ok" and held["walls"]["apparmor"]["up"], held
    assert held["stdout"].splitlines() == [STRICT, "EACCES EACCES"], held
    control = run_json(*flags, "--apparmor", "none", *PY, code)
    assert control["stdout"].strip() == "done done", control


def test_profile_that_is_not_loaded(level):
    named = [*level, "--apparmor", "no-such-profile"]
    result = run_json(*named, "--", "true")
    assert result["verdict"] == "ok" and "apparmor" in result["missing_walls"]
    assert "not loaded" in result["walls"]["apparmor"]["note"]
    refused(run(*named, "--require", "apparmor", "--", "echo", "ran"), 72, "no-such-profile", "not loaded")


def test_kill_9_leaves_nothing(level, leftovers):
    """coto alone is killed while the program runs, and while the container is made."""
    with running(*level, "--", *WAITER) as it:
        os.kill(it.process.pid, signal.SIGKILL)
    early = subprocess.Popen([COTO, "run", *level, "--", "sleep", "67.3"], env=environment(),
                             stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    time.sleep(0.7)
    early.kill()
    early.wait()
    assert not leftovers(60)


def test_interpreter_that_waited_in_a_container(level):
    """Level high of a service: an interpreter that was started inside takes the profile on itself."""
    with Service("--high-isolation=container", f"--high-runtime={level[3]}", f"--high-allow-runtime={level[3]}",
                 "--high-pool-min=1", "--high-pool-max=1", "--pool-min=0", "--pool-max=0") as service:
        result = service.run(WAITED, isolation_level="high").json
        box = service.create(isolation_level="high")["sandbox_id"]
        said = [service.post(f"/api/v1/sandbox/{box}/execute", code=code).json["output"]
                for code in ("kept = 41", f"print(kept + 1)\n{CURRENT}")]
        assert service.stop() == 0, service.messages
    assert result["stdout"].split("\n")[:2] == ["True", LABEL], result
    assert result["walls"]["apparmor"]["up"] and "apparmor" not in result["missing_walls"]
    assert said[1].split("\n")[:2] == ["42", LABEL], said
