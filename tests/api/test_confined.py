"""DR-14: the process that reads the network has nothing to lose, seen from outside."""
import contextlib
import os
import pathlib
import subprocess

import pytest

from cli.helpers import only, status_of

from .daemon import Daemon
from .helpers import ROOT


@pytest.fixture(scope="module")
def service():
    with Daemon() as it:
        yield it
        assert it.stop() == 0, it.messages


def test_the_kernel_confirms_the_walls_of_the_front(service):
    status = status_of(service.front)
    assert status["Seccomp"] == "2" and status["NoNewPrivs"] == "1"
    assert {status[name] for name in ("CapInh", "CapPrm", "CapEff", "CapAmb")} == {"0" * 16}
    uids = set(status["Uid"].split())
    assert len(uids) == 1 and "0" not in uids
    assert not ROOT or status["Groups"].strip() == ""
    # Control: the launcher is what the front is not.
    assert not ROOT or (status_of(service.launcher)["Uid"].split()[0] == "0" and status_of(service.launcher)["Seccomp"] == "0")


def test_all_threads_of_the_front_are_behind_them(service):
    service.run("print(1)")
    tasks = list(pathlib.Path(f"/proc/{service.front}/task").iterdir())
    assert len(tasks) > 1
    for task in tasks:
        text = (task / "status").read_text()
        assert "Seccomp:\t2" in text and "NoNewPrivs:\t1" in text and "CapEff:\t" + "0" * 16 in text


def test_the_service_says_the_same(service):
    front = service.get("/api/v1/capabilities").json["front"]
    assert front["uid"] == int(status_of(service.front)["Uid"].split()[0]) and front["capabilities"] == 0
    assert front["no_new_privs"] and front["seccomp"] and not front["dumpable"] and len(front["seccomp_filter"]) == 64


def test_the_memory_of_the_front_is_closed_to_its_own_user(service):
    """Not dumpable: its files in /proc are root's, and its fellow processes cannot trace it."""
    assert os.stat(f"/proc/{service.front}/mem").st_uid == 0
    if ROOT:
        uid = status_of(service.front)["Uid"].split()[0]
        done = subprocess.run(["setpriv", f"--reuid={uid}", "--clear-groups", "cat", f"/proc/{service.front}/environ"],
                              capture_output=True, timeout=60)
        assert done.returncode != 0 and b"Permission denied" in done.stderr


@only(ROOT)  # who alone may look
def test_keys_and_privileged_descriptors_are_not_in_the_front(service):
    """Neither the lock of the keeper nor anything of a guest's host side but its stream."""
    names = []
    for fd in os.listdir(f"/proc/{service.front}/fd"):
        with contextlib.suppress(FileNotFoundError):  # closed meanwhile
            names.append(os.readlink(f"/proc/{service.front}/fd/{fd}"))
    assert str(service.runtime / "lock") not in names
    assert not [name for name in names if name.startswith(("/sys", "/proc", "/dev")) and name != "/dev/null"]
