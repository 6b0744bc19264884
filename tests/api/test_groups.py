"""On cgroup v1 a group in which no limit was met is given to the next sandbox, as good as new; any other goes with
its sandbox."""
import pathlib
import threading

import pytest

from cli.helpers import CGROUPS, cgroup_directories, only

from .daemon import Daemon
from .helpers import ROOT, wait_until

MEMORY = pathlib.Path("/sys/fs/cgroup/memory")
COMES_BACK = ROOT and MEMORY.is_dir()
HELD = "import time\nx = b'x' * (40 << 20)\ntime.sleep({seconds})\n"
ENDS = {
    "out of memory": ("x = [b'x' * (8 << 20) for _ in range(1000)]", "oom"),
    "too many processes": ("import os, time\nwhile True:\n    if not os.fork(): time.sleep(9)", "pids"),
    "some processes": ("import os, time\nfor i in range(9):\n    if not os.fork(): time.sleep(9)", "ok"),
}


@pytest.fixture(scope="module")
def service():
    with Daemon() as it:
        yield it
        launcher = it.launcher
        assert it.stop() == 0, it.messages
        assert groups(launcher) == {}


def groups(launcher):
    """Bytes charged to each group of the launcher's, by name."""
    found = {}
    for path in map(pathlib.Path, cgroup_directories() if COMES_BACK else ()):
        if MEMORY not in path.parents or not path.name.startswith(f"coto-{launcher}-"):
            continue
        try:
            found[path.name] = int((path / "memory.usage_in_bytes").read_text())
        except OSError:
            pass  # it went meanwhile
    return found


def peak(service, code="print(2+2)"):
    result = service.run(code).json
    assert result["verdict"] == "ok", result
    return result["memory_peak_bytes"]


def group_of(service, code):
    """The group of a program, and how it ended: it holds 40 MB for a while."""
    done = []
    thread = threading.Thread(target=lambda: done.append(service.run(HELD.format(seconds=1) + code).json))
    thread.start()
    names = []

    def is_seen():
        names[:] = [name for name, charged in groups(service.launcher).items() if charged > 30 << 20]
        return names
    wait_until(is_seen, "a group with 40 MB")
    thread.join()
    assert len(names) == 1
    return names[0], done[0]


def count_groups(service):
    """How many there are for forty programs."""
    seen = set()
    for _ in range(40):
        peak(service)
        seen |= set(groups(service.launcher))
    return len(seen)


@only(CGROUPS)
def test_they_come_back(service):
    """The control of what follows: there is something to be found if it were done wrongly."""
    assert count_groups(service) < 30 if COMES_BACK else count_groups(service) == 0


@only(CGROUPS)
def test_a_peak_is_that_of_its_own_program(service):
    assert peak(service, HELD.format(seconds=0)) > 40 << 20, "the control"
    peaks = [peak(service) for _ in range(30)]
    assert max(peaks) < 8 << 20, peaks


@only(CGROUPS)
@pytest.mark.parametrize("end", ENDS)
def test_one_that_has_met_a_limit_does_not_come_back(service, end):
    code, verdict = ENDS[end]
    if COMES_BACK:
        name, result = group_of(service, code)
        wait_until(lambda: name not in groups(service.launcher), "the end of its group")
    else:
        result = service.run(code).json
    assert result["verdict"] == verdict, result
    later = [service.run("print(2+2)").json for _ in range(20)]
    assert {it["verdict"] for it in later} == {"ok"}
    assert max(it["memory_peak_bytes"] or 0 for it in later) < 8 << 20
    assert max(it["pids_peak"] or 0 for it in later) <= 3


@only(CGROUPS)
def test_limits_are_in_force_in_one_that_came_back(service):
    for _ in range(20):
        peak(service)
    for code, verdict in (ENDS["out of memory"], ENDS["too many processes"]):
        result = service.run(code).json
        assert result["verdict"] == verdict, result
        assert result["walls"]["memory"]["up"] and result["walls"]["pids"]["up"]


@only(CGROUPS)
def test_other_limits_have_groups_of_their_own(service):
    for mb in (64, 96):
        result = service.run("print(2+2)", resource_limits={"memory_mb": mb}).json
        assert result["walls"]["memory"]["value"] == str(mb << 20), result


@only(COMES_BACK)
def test_limits_that_nobody_else_has_do_not_crowd_them_out(service):
    for mb in range(200, 240):
        assert service.run("print(2+2)", resource_limits={"memory_mb": mb}).json["verdict"] == "ok"
    for _ in range(40):
        peak(service)
    def fresh():
        kept = set(groups(service.launcher))
        for _ in range(40):
            peak(service)
        return len(set(groups(service.launcher)) - kept)
    rounds = [fresh()]
    while rounds[-1] >= 10 and len(rounds) < 3:  # on a busy machine more of them are not as new in time
        rounds.append(fresh())
    assert rounds[-1] < 10, rounds


@only(COMES_BACK)
def test_one_with_sockets_does_not_come_back(service):
    name, result = group_of(service, "import socket; socket.socketpair()")
    assert result["verdict"] == "ok", result
    wait_until(lambda: name not in groups(service.launcher), "the end of its group")


def test_too_few_processes_for_a_copy(service):
    """It takes three to bring one: that they are refused is not the program's doing."""
    for pids in (1, 2, 3):
        result = service.run("import sys; sys.exit(3)", resource_limits={"pids": pids}).json
        assert (result["verdict"], result["exit_code"]) == ("nonzero", 3), (pids, result)
