"""What becomes of everything when a part of the service is killed, or all of it is told to end."""
import os
import signal
import time

import pytest

from cli.conftest import leftovers, reap  # noqa: F401: pytest finds leftovers by name

from cli.helpers import CGROUPS

from .daemon import Daemon
from .helpers import wait_until

LONG = "import time; print('begun', flush=True); time.sleep(60)"
# What a killed service leaves must be gone by then, and a new one serve.
SECONDS = 5


@pytest.fixture
def service():
    it = Daemon()
    yield it
    it.__exit__()


def is_only_of(launcher, cgroups):
    return all(f"/coto-{launcher}-" in path for path in cgroups)


def executions(service):
    return service.get("/api/v1/executions").json["executions"]


def test_kill_of_the_keeper_with_twenty_runs(service, leftovers):  # noqa: F811
    """DR-01: the kernel ends the front, that ends the launcher, that ends the sandboxes."""
    service.start()
    runs = service.begin_runs(LONG, 20)
    service.kill_keeper()
    began = time.monotonic()
    service.start()
    assert time.monotonic() - began < SECONDS
    assert runs() == [None] * 20
    told = executions(service)
    assert len(told) == 20 and {row["state"] for row in told} == {"interrupted"}
    assert service.run("print(1)").json["verdict"] == "ok"
    assert service.stop() == 0
    reap()
    assert not leftovers(SECONDS)


def test_kill_of_the_keeper_leaves_nothing_even_without_a_next_life(service, leftovers):  # noqa: F811
    service.start()
    service.begin_runs(LONG, 3)
    service.kill_keeper()
    wait_until(lambda: not service.members(), "the end of all processes")
    service.process = None
    reap()


def test_kill_of_all_three_at_once(service, leftovers):  # noqa: F811
    """Nobody was left to clean up: the next life does."""
    service.start()
    service.begin_runs(LONG, 3)
    wait_until(lambda: leftovers(0).get("cgroups") or not CGROUPS, "sandboxes")
    service.kill()
    assert leftovers(0).get("cgroups") or not CGROUPS  # control: there is something to clean up
    service.start()
    assert service.run("print(1)").json["verdict"] == "ok"
    wait_until(lambda: not leftovers(0).get("cgroups", set()) or is_only_of(service.launcher, leftovers(0)["cgroups"]),
               "the end of the last life's cgroups")
    assert service.stop() == 0


def test_kill_of_the_launcher(service):
    """DR-02: what ran is told as lost; sandboxes are gone; the next request works."""
    service.start()
    sandbox = service.create()
    runs = service.begin_runs(LONG, 3)
    front, killed = service.front, service.launcher
    os.kill(killed, signal.SIGKILL)
    assert {reply.json["verdict"] for reply in runs()} == {"lost"}
    assert service.run("print(1)").json["verdict"] == "ok"
    assert service.front == front and service.launcher not in (0, killed)
    assert service.get(f"/api/v1/sandbox/{sandbox['sandbox_id']}").status == 404
    assert service.rows("select state from sandboxes where id = ?", sandbox["sandbox_id"]) == [{"state": "lost"}]
    assert "launcher ended (signal 9)" in service.messages
    assert service.create()["sandbox_id"] != sandbox["sandbox_id"]
    assert service.stop() == 0


def test_launchers_one_after_the_other(service):
    """A number of an old launcher's sandbox means nothing to the next."""
    service.start()
    for _ in range(3):
        held = service.create()["sandbox_id"]
        launcher = service.launcher
        os.kill(launcher, signal.SIGKILL)
        wait_until(lambda: service.launcher not in (0, launcher), "a new launcher")
        mine = service.create()["sandbox_id"]
        assert service.delete(f"/api/v1/sandbox/{held}").status == 404
        assert service.post(f"/api/v1/sandbox/{mine}/execute", code="print(7)").json["output"] == "7\n"
    assert service.stop() == 0


def test_kill_of_the_front(service):
    """What was acknowledged is still known; what ran is told as interrupted."""
    service.start()
    done = [service.run(f"print({i})").json["execution_id"] for i in range(5)]
    sandbox = service.create()
    runs = service.begin_runs(LONG, 2)
    killed, launcher = service.front, service.launcher
    os.kill(killed, signal.SIGKILL)
    assert runs() == [None] * 2
    began = time.monotonic()
    wait_until(lambda: service.front not in (0, killed) and service.is_ready(), "a new front")
    assert time.monotonic() - began < SECONDS and service.launcher == launcher
    states = {row["execution_id"]: row["state"] for row in executions(service)}
    assert {states[known] for known in done} == {"finished"}
    assert sorted(states.values()) == ["finished"] * 5 + ["interrupted"] * 2
    assert service.get(f"/api/v1/sandbox/{sandbox['sandbox_id']}").status == 200
    assert service.run("print(1)").json["verdict"] == "ok"
    assert service.stop() == 0


def test_end_waits_for_what_runs(service):
    """DR-10"""
    service.start()
    runs = service.begin_runs("import time; time.sleep(0.7); print('whole')", 3)
    status, seconds = service.end()
    assert status == 0 and seconds < 20
    assert {reply.json["stdout"] for reply in runs()} == {"whole\n"}


def test_end_waits_no_longer_than_it_was_told(service):
    """DR-10"""
    service.start("--drain=300ms")
    runs = service.begin_runs(LONG, 3)
    status, seconds = service.end()
    assert status == 0 and seconds < 10
    assert all(reply is None or reply.json["verdict"] != "ok" for reply in runs())


def test_told_twice_it_ends_at_once(service):
    service.start()
    runs = service.begin_runs(LONG)
    service.signal(signal.SIGTERM)
    service.wait_for_message("ending")
    status, seconds = service.end()
    assert status == 0 and seconds < 10
    assert runs() == [None]


def test_a_key_press_reaches_the_keeper_alone(service):
    """Ctrl-C signals all three; two of them leave it to the first."""
    service.start()
    runs = service.begin_runs("import time; time.sleep(0.5); print('whole')")
    os.killpg(service.process.pid, signal.SIGINT)
    assert service.process.wait(60) == 0
    assert runs()[0].json["stdout"] == "whole\n"
    service.process = None
