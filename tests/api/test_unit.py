"""The service with the capabilities that its systemd units leave it, and with fewer."""
import contextlib
import ctypes
import os
import pathlib
import re
import signal

import pytest

from cli.helpers import only

from .daemon import Daemon
from .helpers import ROOT, SOURCE, wait_until

UNITS = SOURCE / "deploy/systemd"
PR_CAPBSET_DROP = 24
NUMBERS = {"CAP_CHOWN": 0, "CAP_DAC_OVERRIDE": 1, "CAP_KILL": 5, "CAP_SETGID": 6, "CAP_SETUID": 7, "CAP_NET_ADMIN": 12,
           "CAP_SYS_CHROOT": 18, "CAP_SYS_PTRACE": 19, "CAP_SYS_ADMIN": 21, "CAP_SYS_RESOURCE": 24}
FOR_SPEED = {"CAP_SYS_PTRACE", "CAP_SYS_CHROOT", "CAP_NET_ADMIN"}
SLOW = "Python is started anew in every sandbox"
# The template has imported it, and no program does by itself.
IS_A_COPY = "import sys\nprint('decimal' in sys.modules)"


def bounds_of(pid):
    return int(re.search(r"CapBnd:\s+(\w+)", pathlib.Path(f"/proc/{pid}/status").read_text())[1], 16)


def capabilities(*files):
    """As systemd adds them up."""
    return set(" ".join(re.findall(r"^CapabilityBoundingSet=(.*)$", "\n".join((UNITS / name).read_text() for name in files), re.M)).split())


def bound_to(names):
    """What makes a process, before it is one, such as can never have others."""
    libc, kept = ctypes.CDLL(None), {NUMBERS[name] for name in names}

    def drop():
        for number in range(41):
            if number not in kept:
                libc.prctl(PR_CAPBSET_DROP, number, 0, 0, 0)
    return drop


@contextlib.contextmanager
def confined_to(names):
    it = Daemon("--high-isolation=none")
    it.before = bound_to(names)
    with it:
        assert bounds_of(it.launcher) == bounds_of("self") & sum(1 << NUMBERS[name] for name in names) != bounds_of("self"), "control"
        yield it


def threads(pid):
    return [pathlib.Path(f"/proc/{pid}/task/{task}/comm").read_text().strip() for task in os.listdir(f"/proc/{pid}/task")]


def all_is_up(service):
    """In sandboxes of the pool and in ones that are made when there is none left."""
    result = service.run("print(2+2)").json
    assert (result["verdict"], result["stdout"], result["missing_walls"]) == ("ok", "4\n", []), result
    boxes = [service.create() for _ in range(60)]
    for box in boxes[::10]:
        reply = service.post(f"/api/v1/sandbox/{box['sandbox_id']}/execute", code="print(2+2)")
        assert (reply.json["verdict"], reply.json["output"]) == ("ok", "4\n"), reply


@only(ROOT)
@pytest.mark.parametrize("files", [("coto.service",), ("coto.service", "coto.service.d/high.conf")], ids=["alone", "high"])
def test_a_unit_leaves_it_what_it_needs(files):
    with confined_to(capabilities(*files)) as service:
        all_is_up(service)
        assert service.run(IS_A_COPY).json["stdout"] == "True\n"
        assert "coto-nets" in threads(service.launcher) and SLOW not in service.messages, service.messages
        assert service.stop() == 0


def start_as_systemd_does(service):
    """What StateDirectory= names is the unit's user's before every start, with all that is in it: root's. What is right at its top is
    taken for right."""
    top = service.room / "var"
    top.mkdir(exist_ok=True)
    if top.stat().st_uid != 0:
        for path in [top, *top.rglob("*")]:
            os.chown(path, 0, 0)
    top.chmod(int(re.search(r"^StateDirectoryMode=(.*)$", (UNITS / "coto.service").read_text(), re.M)[1], 8))
    service.start()


@only(ROOT)
def test_a_unit_can_be_started_again(monkeypatch):
    """What is the front's stays the front's, and whoever starts the next front reaches it."""
    it = Daemon("--high-isolation=none")
    monkeypatch.setenv("STATE_DIRECTORY", str(it.room / "var"))
    it.state = None
    it.before = bound_to(capabilities("coto.service"))
    try:
        start_as_systemd_does(it)
        told = [it.run("print(1)").json["execution_id"]]
        front = it.front
        os.kill(front, signal.SIGKILL)
        wait_until(lambda: it.front not in (0, front) and it.is_ready(), "another front")
        told.append(it.run("print(2)").json["execution_id"])
        assert it.stop() == 0
        start_as_systemd_does(it)
        assert it.run("print(3)").json["stdout"] == "3\n"
        assert set(told) <= {row["execution_id"] for row in it.get("/api/v1/executions").json["executions"]}
        assert (it.room / "var/serve/records.db").stat().st_uid == int(it.front_status()["Uid"].split()[0]) != 0, "control"
        assert it.stop() == 0
    finally:
        it.__exit__()


@only(ROOT)
@pytest.mark.parametrize("missing", [*sorted(FOR_SPEED), "all three"])
def test_without_what_makes_it_fast(missing):
    """It has the same walls, and what is slower is told once."""
    with confined_to(capabilities("coto.service") - (FOR_SPEED if missing == "all three" else {missing})) as service:
        all_is_up(service)
        is_copied = missing == "CAP_NET_ADMIN"
        assert service.run(IS_A_COPY).json["stdout"] == f"{is_copied}\n"
        assert service.messages.count(SLOW) == (not is_copied) and ("CAP_SYS_PTRACE" in service.messages) == (not is_copied), service.messages
        assert "coto-nets" not in threads(service.launcher)
        assert service.stop() == 0


def test_what_the_page_says_of_the_units():
    """docs/SERVICE.md names each of them, and no other."""
    page = (SOURCE / "docs/SERVICE.md").read_text().split("\n## systemd\n")[1].split("\n## ")[0]
    assert set(re.findall(r"\bCAP_\w+", page)) == capabilities("coto.service", "coto.service.d/high.conf")
