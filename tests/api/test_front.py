"""A crash of the front loses no sandbox, and no execution that was accepted."""
import os
import signal
import threading

import pytest

from .daemon import Daemon, Production
from .helpers import wait_until

EXECUTIONS = "/api/v1/executions"


@pytest.fixture
def service():
    """One each: after some crashes in a row a keeper takes its time."""
    with Daemon() as it:
        yield it
        assert it.stop() == 0, it.messages


def execute(service, box, code, **more):
    reply = service.post(f"/api/v1/sandbox/{box['sandbox_id']}/execute", code=code, **more)
    assert reply.status in (200, 202), reply
    return reply.json


def output(service, box, code, **more):
    result = execute(service, box, code, **more)
    assert result["verdict"] == "ok", result
    return result["output"].strip()


def kill_front(service):
    """The launcher is the same afterwards: nothing else was started again."""
    launcher = service.launcher
    service.kill_front()
    assert service.launcher == launcher


def ended(service, execution):
    def look():
        reply = service.get(f"{EXECUTIONS}/{execution}")
        return reply.json if reply.status == 200 and reply.json["state"] not in ("queued", "running") else None
    return wait_until(look, "the end of the execution")


def begin(service, code, box=None):
    path = f"/api/v1/sandbox/{box['sandbox_id']}/execute" if box else "/api/v1/run"
    reply = service.post(path, code=code, **{"async": True})
    assert reply.status == 202, reply
    return reply.json["execution_id"]


def started(service, execution):
    wait_until(lambda: service.get(f"{EXECUTIONS}/{execution}").json["state"] == "running", "the start")


def test_state_files_and_token_of_an_idle_sandbox(service):
    box = service.create(agent_id="me")
    before = service.get(f"/api/v1/sandbox/{box['sandbox_id']}").json
    pid = output(service, box, "import os; x = 6; open('f', 'w').write('seven'); print(os.getpid())")
    for _ in range(3):
        kill_front(service)
        assert output(service, box, "print(os.getpid(), x * 7, open('f').read())") == f"{pid} 42 seven"
    after = service.get(f"/api/v1/sandbox/{box['sandbox_id']}").json
    assert after["executions"] == 4
    assert {**before, "executions": 4} == after
    path = f"/api/v1/sandbox/{box['sandbox_id']}/execute"
    assert service.post(path, code="print(x)", token=box["access_token"]).json["output"] == "6\n"
    row, = service.rows("SELECT * FROM sandboxes WHERE id = ?", box["sandbox_id"])
    assert (row["state"], row["ended"]) == ("alive", None)
    assert service.delete(f"/api/v1/sandbox/{box['sandbox_id']}").status == 200


def test_many_sandboxes_keep_what_they_have(service):
    boxes = [service.create() for _ in range(20)]
    for i, box in enumerate(boxes):
        execute(service, box, f"mine = {i}")
    kill_front(service)
    assert [output(service, box, "print(mine)") for box in boxes] == [str(i) for i in range(20)]
    for box in boxes:
        assert service.delete(f"/api/v1/sandbox/{box['sandbox_id']}").status == 200


@pytest.mark.parametrize("code", ["import time\ntime.sleep(100)", "while True: print('x' * 1000)"],
                         ids=["silent", "loud"])
def test_what_runs_for_a_client_ends_and_the_sandbox_stays(service, code):
    box = service.create()
    execute(service, box, "open('f', 'w').write('kept')")
    thread = threading.Thread(target=lambda: pytest.raises(Exception, execute, service, box, code))
    thread.start()
    wait_until(lambda: service.get(f"/api/v1/sandbox/{box['sandbox_id']}").json["state"] == "busy", "the run")
    kill_front(service)
    thread.join()
    assert output(service, box, "print(open('f').read())") == "kept"
    assert output(service, box, "import os; print(len([p for p in os.listdir('/proc') if p.isdigit()]) < 5)") == "True"
    service.delete(f"/api/v1/sandbox/{box['sandbox_id']}")


def test_tenants_and_deadlines_come_back():
    with Production("--lifetime=1h", "--idle=3s", "--tenant-sandboxes=1") as service:
        alice, bob = service.mint("alice"), service.mint("bob")
        box = service.post("/api/v1/sandbox/create", token=alice).json
        path = f"/api/v1/sandbox/{box['sandbox_id']}"
        assert service.post(f"{path}/execute", code="x = 1", token=alice).status == 200
        front = service.front
        os.kill(front, signal.SIGKILL)
        wait_until(lambda: service.front not in (0, front) and service.is_let_in(service.context()), "a front")
        assert service.post(f"{path}/execute", code="print(x)", token=bob).status == 404
        assert service.get("/api/v1/sandbox", token=bob).json["sandboxes"] == []
        assert service.post(f"{path}/execute", code="print(x)", token=alice).json["output"] == "1\n"
        assert service.post("/api/v1/sandbox/create", token=alice).status == 429
        wait_until(lambda: service.get(path, token=alice).status == 404, "the end by its deadline")
        wait_until(lambda: service.rows("SELECT state FROM sandboxes") == [{"state": "expired"}], "its record")


def test_accepted_executions_finish(service):
    """One in a sandbox of its own, one in a held one, with state; one front after the other dies."""
    box = service.create()
    execute(service, box, "x = 40")
    wait = "import time\nfor i in range(20): time.sleep(0.1); print(i, flush=True)\n"
    own = begin(service, wait + "print('own')")
    held = begin(service, wait + "x += 2; print(x)", box)
    started(service, own)
    started(service, held)
    kill_front(service)
    assert service.get(f"/api/v1/sandbox/{box['sandbox_id']}").json["state"] == "busy"
    kill_front(service)
    lines = [str(i) for i in range(20)]
    result = ended(service, own)
    assert (result["verdict"], result["result"]["stdout"].split()) == ("ok", lines + ["own"])
    result = ended(service, held)
    assert (result["verdict"], result["result"]["output"].split()) == ("ok", lines + ["42"])
    assert output(service, box, "print(x)") == "42"
    service.delete(f"/api/v1/sandbox/{box['sandbox_id']}")
    assert not list((service.state / "async").iterdir())
    assert not service.rows("SELECT * FROM promises")


def test_results_that_nobody_has_fetched_yet_stay(service):
    execution = begin(service, "print(6 * 7)")
    before = ended(service, execution)
    kill_front(service)
    assert ended(service, execution) == before
    assert before["result"]["stdout"] == "42\n"


def test_what_still_waits_runs_later():
    with Daemon("--workers=1") as service:
        first = begin(service, "import time; time.sleep(2); print('first')")
        rest = [begin(service, f"print({i})") for i in range(5)]
        started(service, first)
        kill_front(service)
        assert ended(service, first)["result"]["stdout"] == "first\n"
        assert [ended(service, it)["result"]["stdout"] for it in rest] == [f"{i}\n" for i in range(5)]


def test_cancel_reaches_what_another_front_has_begun(service):
    execution = begin(service, "import time; time.sleep(100)")
    started(service, execution)
    kill_front(service)
    assert service.delete(f"{EXECUTIONS}/{execution}").status == 202
    assert ended(service, execution)["verdict"] == "killed"


def processes(service, name):
    return wait_until(lambda: [pid for pid, what in service.members() if what == name], name)


def test_a_killed_starter_is_replaced_with_its_front(service):
    box = service.create()
    output(service, box, "x = 41")
    execution = begin(service, "import time; time.sleep(2); print(7)")
    processes(service, "coto-async")
    old, [starter] = service.front, processes(service, "coto-starter")
    os.kill(starter, signal.SIGKILL)
    wait_until(lambda: service.front not in (0, old) and service.is_ready(), "another front")
    assert ended(service, execution)["result"]["stdout"] == "7\n"
    assert ended(service, begin(service, "print(x + 1)", box))["result"]["output"] == "42\n"
    assert processes(service, "coto-starter") != [starter]


def test_an_execution_whose_process_is_killed_is_lost_and_says_so(service):
    execution = begin(service, "import time; time.sleep(100)")
    started(service, execution)
    for pid in processes(service, "coto-async"):
        os.kill(pid, signal.SIGKILL)
    assert "lost" in ended(service, execution)["error"]["message"]
    assert service.run("print(1)").json["stdout"] == "1\n"
