"""The units of deploy/systemd with systemd itself, as its first process. They run alone, as root (make test-vm)."""
import contextlib
import http.client
import json
import os
import pathlib
import re
import subprocess

import pytest

from api.helpers import Reply, Unix, wait_until
from api.test_unit import IS_A_COPY, SLOW, UNITS

SOCKET = "/run/coto/api.sock"
GROUPS = "/sys/fs/cgroup"


def systemctl(*words, is_checked=True):
    done = subprocess.run(["systemctl", *words], capture_output=True, text=True, timeout=120)
    assert not is_checked or done.returncode == 0, done.stderr + journal()
    return done.stdout.strip()


def journal():
    return subprocess.run(["journalctl", "-u", "coto", "-o", "cat", "--no-pager"], capture_output=True, text=True, timeout=60).stdout


def ask(method, path, body=None):
    with contextlib.closing(Unix(SOCKET)) as connection:
        connection.request(method, f"/api/v1/{path}", body=body)
        return Reply(connection.getresponse())


def run(code):
    return ask("POST", "run", json.dumps({"code": code, "timeout_seconds": 60}))


def child(name):
    """The pid of that part of the service; it has one of each."""
    main = int(systemctl("show", "-p", "MainPID", "--value", "coto"))
    with contextlib.suppress(OSError):  # it has just been killed
        for pid in pathlib.Path(f"/proc/{main}/task/{main}/children").read_text().split():
            if pathlib.Path(f"/proc/{pid}/comm").read_text().strip() == name:
                return int(pid)
    return 0


def answers():
    with contextlib.suppress(OSError, http.client.HTTPException):
        return run("print(1)").status == 200
    return False


def groups():
    """Of sandboxes; they go while one looks."""
    return [f"{top}/{name}" for top, names, _ in os.walk(GROUPS) for name in names if re.match(r"coto-\d+-", name)]


def names():
    """Of all processes."""
    found = []
    for path in pathlib.Path("/proc").glob("[0-9]*/comm"):
        with contextlib.suppress(OSError):
            found.append(path.read_text().strip())
    return found


@pytest.fixture
def unit():
    systemctl("reset-failed", "coto", is_checked=False)  # so many starts are a failure otherwise
    systemctl("start", "coto")
    yield
    systemctl("stop", "coto.socket", "coto")
    assert systemctl("show", "-p", "Result", "--value", "coto") == "success"


def test_all_walls_are_up_and_python_waits(unit):
    result = run(IS_A_COPY).json
    assert (result["verdict"], result["stdout"], result["missing_walls"]) == ("ok", "True\n", []), result
    assert result["walls"]["apparmor"]["up"] and SLOW not in journal()
    assert run("bytearray(900 << 20)").json["verdict"] == "oom"
    assert run("import os\nwhile True:\n    os.fork()").json["verdict"] == "pids"


@pytest.mark.parametrize("name", ["coto-front", "coto-launch"])
def test_its_parts_come_back(unit, name):
    before = child(name)
    subprocess.run(["kill", "-9", str(before)], check=True)
    wait_until(lambda: child(name) not in (0, before) and answers(), "another one, and an answer")
    assert systemctl("show", "-p", "NRestarts", "--value", "coto") == "0", "all of it was started again"


def test_it_can_be_started_again(unit):
    """Its records are there; also when all of it was killed, and nothing of that is left."""
    first = run("print(1)").json["execution_id"]
    systemctl("restart", "coto")
    assert ask("GET", f"executions/{first}").json["verdict"] == "ok"
    assert groups(), "control"
    before = set(groups())
    front = child("coto-front")
    systemctl("kill", "-s", "KILL", "coto")
    wait_until(lambda: child("coto-front") not in (0, front) and answers(), "a new one, and an answer")
    assert ask("GET", f"executions/{first}").json["verdict"] == "ok"
    wait_until(lambda: not before & set(groups()), "the end of what the killed one had")


def test_reload(unit):
    main = systemctl("show", "-p", "MainPID", "--value", "coto")
    systemctl("reload", "coto")
    assert run("print(1)").json["stdout"] == "1\n" and systemctl("show", "-p", "MainPID", "--value", "coto") == main


def test_the_first_connection_starts_it(unit):
    systemctl("stop", "coto")
    systemctl("start", "coto.socket")
    assert systemctl("is-active", "coto", is_checked=False) == "inactive", "control"
    assert run("print(3)").json["stdout"] == "3\n"
    wait_until(lambda: systemctl("is-active", "coto", is_checked=False) == "active", "what it has said of itself")


def test_what_is_left_of_its_exposure(unit):
    done = subprocess.run(["systemd-analyze", "security", "--no-pager", "--threshold=58", "coto"], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout


@contextlib.contextmanager
def with_lines(lines):
    """The unit with a file more in coto.service.d."""
    place = pathlib.Path("/run/systemd/system/coto.service.d/50-test.conf")
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(lines)
    systemctl("daemon-reload")
    systemctl("restart", "coto")
    yield
    place.unlink()
    systemctl("daemon-reload")
    systemctl("restart", "coto")


@pytest.mark.parametrize("runtime", ["runc", "crun"])
def test_level_high(unit, runtime):
    """By what high.conf adds, and not without."""
    with_runtime = f"ExecStart=\nExecStart=/usr/local/bin/coto serve --high-runtime={runtime} --high-allow-runtime={runtime}\n"
    request = json.dumps({"code": "print(2+2)", "timeout_seconds": 60, "isolation_level": "high"})
    with with_lines("[Service]\n" + with_runtime):
        assert ask("POST", "run", request).status != 200, "control"
    with with_lines((UNITS / "coto.service.d/high.conf").read_text() + with_runtime):
        result = ask("POST", "run", request)
        assert result.status == 200, result
        assert (result.json["stdout"], result.json["driver"]) == ("4\n", "oci") and result.json["walls"]["apparmor"]["up"], result
        assert (run("print(3)").json["stdout"], run("print(3)").json["missing_walls"]) == ("3\n", [])


def test_its_end_leaves_nothing(unit):
    run("print(1)")
    assert groups(), "control"
    systemctl("stop", "coto")
    assert not groups() and "coto" not in pathlib.Path("/proc/self/mounts").read_text().replace("/run/coto", "")
    assert not [name for name in names() if name.startswith("coto-")]
