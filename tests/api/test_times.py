"""How long a sandbox lasts: with its first execution, or until its times are over."""
import os
import signal
import threading

import pytest

from cli.conftest import cgroup_directories
from cli.helpers import SLOW, descendants

from .daemon import Daemon
from .events import Stream
from .helpers import wait_until

CREATE = "/api/v1/sandbox/create"
LONG = "import time; print('begun', flush=True); time.sleep(60)"


@pytest.fixture
def own():
    it = Daemon()
    yield it
    it.__exit__()


@pytest.fixture
def box(service):
    return f"/api/v1/sandbox/{service.create(destroy_after_execution=True)['sandbox_id']}"


def is_gone(service, box):
    return service.get(box).status == 404


# ---- with its first execution ----

def test_kept_unless_asked(service):
    """The control of all that follows."""
    made = service.create()
    box = f"/api/v1/sandbox/{made['sandbox_id']}"
    assert made["destroy_after_execution"] is False and service.get(box).json["destroy_after_execution"] is False
    assert service.post(f"{box}/execute", code="x = 1").json["state_kept"]
    assert service.post(f"{box}/execute", code="print(x)").json["output"] == "1\n"
    assert service.delete(box).status == 200


def test_it_ends_with_its_first_execution(service, box):
    assert service.get(box).json["destroy_after_execution"] is True
    reply = service.post(f"{box}/execute", code="open('output/a', 'w').write('left')\nprint(1)", artifacts=True)
    assert (reply.status, reply.json["output"], reply.json["artifacts"][0]["content"]) == (200, "1\n", "left")
    assert reply.json["state_kept"] is False and "ends with this execution" in reply.json["state_note"]
    assert is_gone(service, box), "with the reply"
    assert service.post(f"{box}/execute", code="print(2)").status == 404
    assert service.delete(box).status == 404
    assert box[-36:] not in {one["sandbox_id"] for one in service.get("/api/v1/sandbox").json["sandboxes"]}


@pytest.mark.parametrize("code, verdict", [("import sys; sys.exit(3)", "nonzero"), ("import os; os.kill(os.getpid(), 9)", "signal"),
                                           ("while True: pass", "timeout")])
def test_however_it_ends(service, box, code, verdict):
    assert service.post(f"{box}/execute", code=code, timeout_seconds=1).json["verdict"] == verdict
    assert is_gone(service, box)


def test_what_was_refused_was_none(service, box):
    assert service.post(f"{box}/execute", code="print(1)", language="cobol").status == 400
    assert service.post(f"{box}/execute", code="print(1)", stdin="a", input=1).status == 400
    assert service.ask("PUT", f"{box}/files?path=a", body=b"put").status == 200, "nor is a transfer"
    assert service.post(f"{box}/execute", code="print(open('a').read())").json["output"] == "put\n"
    assert is_gone(service, box)


def test_async_and_streams(service, box):
    execution = service.post(f"{box}/execute", code="print(6 * 7)", **{"async": True}).json["execution_id"]
    wait_until(lambda: is_gone(service, box), "its end")
    row = service.get(f"/api/v1/executions/{execution}").json
    assert (row["verdict"], row["result"]["output"], row["sandbox_id"]) == ("ok", "42\n", box[-36:])
    assert "ends with this execution" in row["result"]["state_note"]
    other = f"/api/v1/sandbox/{service.create(destroy_after_execution=True)['sandbox_id']}"
    with Stream(service, f"{other}/execute", code="print(8)") as stream:
        events = list(stream)
    assert events[-1][0] == "result" and events[-1][1]["verdict"] == "ok"
    assert is_gone(service, other)


def test_a_client_that_goes(service, box):
    with Stream(service, f"{box}/execute", code=LONG) as stream:
        assert next(iter(stream))[0] == "start"
        wait_until(lambda: service.get(box).json["state"] == "busy", "its beginning")
    wait_until(lambda: is_gone(service, box), "its end")


def test_a_key_has_its_answer_again(service, box):
    first = service.post(f"{box}/execute", code="print(1)", key="once")
    assert is_gone(service, box)
    again = service.post(f"{box}/execute", code="print(1)", key="once")
    assert (again.status, again.body) == (200, first.body)


def parts_of(service):
    """Processes below it, and groups of its sandboxes."""
    return {*descendants(service.process.pid), *(path for path in cgroup_directories() if f"/coto-{service.launcher}-" in path)}


def test_nothing_is_left_of_it(own):
    own.start("--pool-min=0", "--pool-max=0")
    assert own.run("print(1)").json["verdict"] == "ok"
    wait_until(lambda: not any(row[1].startswith("coto-init") for row in descendants(own.process.pid).values()), "the end of the run")
    before = parts_of(own)
    for _ in range(5):
        box = f"/api/v1/sandbox/{own.create(destroy_after_execution=True)['sandbox_id']}"
        assert parts_of(own) - before, "control"
        assert own.post(f"{box}/execute", code="import os\nif os.fork() == 0:\n    os.setsid()\n    import time; time.sleep(60)"
                        ).json["verdict"] == "ok"
    wait_until(lambda: not parts_of(own) - before, "the end of all of them")
    wait_until(lambda: [row["state"] for row in own.rows("SELECT state FROM sandboxes")] == ["destroyed"] * 5, "their records")
    assert own.stop() == 0


def test_the_operator_says(own):
    """For every sandbox from then on, with a restart or without; who wants another is told so."""
    file = own.room / "serve.yaml"
    file.write_text("after-execution: destroy\n")
    file.chmod(0o600)
    own.start(f"--config={file}")
    made = own.create()
    assert made["destroy_after_execution"] is True
    refused = own.post(CREATE, destroy_after_execution=False)
    assert (refused.status, refused.json["field"]) == (400, "destroy_after_execution") and "after-execution" in refused.json["remedy"]
    assert own.create(destroy_after_execution=True)["destroy_after_execution"] is True
    file.write_text("after-execution: keep\n")
    own.signal(signal.SIGHUP)
    wait_until(lambda: own.post(CREATE).json["destroy_after_execution"] is False, "the new setting")
    box = f"/api/v1/sandbox/{made['sandbox_id']}"
    assert own.get(box).json["destroy_after_execution"] is True, "as it was created"
    assert own.post(f"{box}/execute", code="print(1)").json["output"] == "1\n"
    assert is_gone(own, box)
    assert own.stop() == 0


def test_another_front_knows(own):
    """What had its execution ends, however that ended; what had none waits for it; what runs apart goes on."""
    own.start()
    fresh, cut, apart = (f"/api/v1/sandbox/{own.create(destroy_after_execution=True)['sandbox_id']}" for _ in range(3))
    kept = f"/api/v1/sandbox/{own.create()['sandbox_id']}"
    assert own.post(f"{kept}/execute", code="x = 1").status == 200
    execution = own.post(f"{apart}/execute", code="import time; time.sleep(3); print('whole')", **{"async": True}).json["execution_id"]
    wait_until(lambda: own.get(f"/api/v1/executions/{execution}").json["state"] == "running", "the beginning of one")
    with Stream(own, f"{cut}/execute", code=LONG) as stream:
        assert next(iter(stream))[0] == "start"
        wait_until(lambda: own.rows("SELECT * FROM executions WHERE sandbox = ?", cut[-36:]), "its record")
        os.kill(own.front, signal.SIGKILL)
    wait_until(own.is_ready, "another front")
    wait_until(lambda: is_gone(own, cut), "the end of what was cut off")
    assert own.post(f"{kept}/execute", code="print(x)").json["output"] == "1\n"
    wait_until(lambda: is_gone(own, apart), "the end of what ran apart")
    row = own.get(f"/api/v1/executions/{execution}").json
    assert (row["verdict"], row["result"]["output"]) == ("ok", "whole\n")
    assert own.get(fresh).json["destroy_after_execution"] is True
    assert own.post(f"{fresh}/execute", code="print(1)").json["output"] == "1\n"
    assert is_gone(own, fresh)
    assert own.stop() == 0


# ---- until its times are over ----

def times(reply):
    return reply["lifetime_seconds"], reply["idle_seconds"]


def make(service, **more):
    return f"/api/v1/sandbox/{service.create(**more)['sandbox_id']}"


def extend(service, box, **more):
    reply = service.post(f"{box}/extend", **more)
    assert reply.status == 200, reply
    return reply.json


def test_times_of_its_own(service):
    made = service.create(lifetime_seconds=600, idle_seconds=60.0)
    assert times(made) == times(service.get(f"/api/v1/sandbox/{made['sandbox_id']}").json) == (600, 60)
    assert times(service.create(idle_seconds=60)) == (3600, 60), "the operator's for the other"
    assert times(service.create(lifetime_seconds=3600, idle_seconds=300)) == times(service.create()) == (3600, 300)


@pytest.mark.parametrize("where", ["create", "extend"])
@pytest.mark.parametrize("field, value, words", [
    ("lifetime_seconds", 3601, "allows 3600 at most"), ("idle_seconds", 301, "allows 300 at most"),
    ("lifetime_seconds", 0, "from 1 to"), ("idle_seconds", -1, "from 1 to"), ("idle_seconds", 0.5, "whole number"),
    ("lifetime_seconds", 10**9, "from 1 to"), ("lifetime_seconds", 1e300, "from 1 to"), ("lifetime_seconds", "60", "whole number"),
    ("idle_seconds", True, "whole number"), ("idle_seconds", None, "whole number")])
def test_times_that_cannot_be(service, where, field, value, words):
    path = CREATE if where == "create" else f"{make(service)}/extend"
    reply = service.post(path, **{field: value})
    assert (reply.status, reply.json["field"]) == (400, field) and words in reply.json["message"], reply
    assert service.post(path, **{field: 1}).status in (200, 201), "control"


def test_they_are_in_force(service):
    """Each beside one that has them too, and is extended; that one lasts."""
    ends, lasts = (make(service, lifetime_seconds=10) for _ in range(2))
    idle, used = (make(service, idle_seconds=10) for _ in range(2))
    assert extend(service, lasts, lifetime_seconds=600)["lifetime_seconds"] >= 600

    def are_over():
        extend(service, used)
        return is_gone(service, ends) and is_gone(service, idle)
    wait_until(are_over, "the ends of those that were left alone")
    assert not is_gone(service, lasts) and not is_gone(service, used)
    wait_until(lambda: {row["state"] for row in service.rows("SELECT state FROM sandboxes WHERE id IN (?, ?)", ends[-36:], idle[-36:])}
               == {"expired"}, "their records")
    extend(service, lasts, lifetime_seconds=1)
    extend(service, used, idle_seconds=1)
    wait_until(lambda: is_gone(service, lasts) and is_gone(service, used), "their ends, sooner than before")


def test_never_beyond_the_operators_time(service):
    """However often."""
    box = make(service, lifetime_seconds=60)
    assert extend(service, box, lifetime_seconds=3000)["lifetime_seconds"] in range(3000, 3100)
    for _ in range(3):
        assert extend(service, box, lifetime_seconds=3600)["lifetime_seconds"] == 3600
    assert times(extend(service, box)) == (3600, 300)
    assert service.delete(box).status == 200
    assert service.post(f"{box}/extend").status == 404


def test_while_something_runs(own):
    """It is not in its way, unless its time is over: what runs then is ended."""
    own.start()
    box = make(own)
    with Stream(own, f"{box}/execute", code=LONG) as stream:
        events = iter(stream)
        assert next(events)[0] == "start"
        wait_until(lambda: own.get(box).json["state"] == "busy", "its beginning")
        assert extend(own, box, lifetime_seconds=100)["state"] == "busy"
        extend(own, box, lifetime_seconds=1)
        name, result = list(events)[-1]
    assert (name, result["verdict"], result["limit"]) == ("result", "timeout", "lifetime")
    wait_until(lambda: is_gone(own, box), "its end")


CUT = ("timeout", "lifetime", "begun\n", False)


def was_cut(result):
    assert "lifetime" in result["state_note"] and result["metrics"]["duration_ms"] < 10000 * SLOW, result
    return result["verdict"], result["limit"], result["output"], result["state_kept"]


def test_what_runs_at_the_end_of_its_lifetime_ends_then(own):
    """An execution has no more time than its sandbox: answered at once, later, or by a front that did not begin it."""
    own.start("--lifetime=6s")
    plain, apart, left = (make(own) for _ in range(3))
    later, front = (own.post(f"{box}/execute", code=LONG, **{"async": True}).json["execution_id"] for box in (apart, left)), own.front
    later = list(later)
    for one in later:
        wait_until(lambda: own.get(f"/api/v1/executions/{one}").json["state"] == "running", "the beginning of both")
    assert was_cut(own.post(f"{plain}/execute", code=LONG).json) == CUT
    assert is_gone(own, plain), "with the reply"
    for one in later:
        wait_until(lambda: own.get(f"/api/v1/executions/{one}").json["state"] == "finished", "the end of both")
        row = own.get(f"/api/v1/executions/{one}").json
        assert row["verdict"] == "timeout" and was_cut(row["result"]) == CUT
    wait_until(lambda: is_gone(own, apart) and is_gone(own, left), "their ends")
    wait_until(lambda: {row["state"] for row in own.rows("SELECT state FROM sandboxes")} == {"expired"}, "their records")
    assert own.front == front and own.stop() == 0


def test_also_where_another_front_has_begun_it(own):
    own.start("--lifetime=10s")
    box = make(own)
    one = own.post(f"{box}/execute", code=LONG, **{"async": True}).json["execution_id"]
    wait_until(lambda: own.get(f"/api/v1/executions/{one}").json["state"] == "running", "its beginning")
    own.kill_front()
    wait_until(lambda: own.get(f"/api/v1/executions/{one}").json["state"] == "finished", "its end")
    result = own.get(f"/api/v1/executions/{one}").json["result"]
    assert (result["verdict"], result["limit"]) == CUT[:2] and result["metrics"]["duration_ms"] < 20000 * SLOW
    wait_until(lambda: is_gone(own, box), "the end of its sandbox")
    assert own.stop() == 0


def test_what_still_waits_ends_too(own):
    """There is one worker, and it has other things to do."""
    own.start("--workers=1", "--lifetime=4s")
    box = make(own)
    first = own.post("/api/v1/run", code="import time; time.sleep(30)", **{"async": True}).json["execution_id"]
    wait_until(lambda: own.get(f"/api/v1/executions/{first}").json["state"] == "running", "what it has to do")
    reply = own.post(f"{box}/execute", code="print(1)")
    assert (reply.status, reply.json["verdict"], reply.json["limit"], reply.json["output"]) == (200, "timeout", "lifetime", "")
    assert "lifetime" in reply.json["state_note"] and is_gone(own, box)
    assert own.get(f"/api/v1/executions/{first}").json["state"] == "running", "control"
    own.delete(f"/api/v1/executions/{first}")
    assert own.stop() == 0


@pytest.mark.parametrize("asked", [False, True], ids=["lifetime", "delete"])
def test_a_stream_that_still_waits_ends_too(own, asked):
    own.start("--workers=1", "--lifetime=600s" if asked else "--lifetime=4s")
    box = make(own)
    first = own.post("/api/v1/run", code="import time; time.sleep(30)", **{"async": True}).json["execution_id"]
    wait_until(lambda: own.get(f"/api/v1/executions/{first}").json["state"] == "running", "what it has to do")
    deleter = threading.Timer(1, own.delete, [box])
    if asked:
        deleter.start()
    with Stream(own, f"{box}/execute", code="print(1)") as stream:
        (begun, start), (name, result) = stream
    assert (begun, name, start["execution_id"]) == ("start", "result", result["execution_id"])
    assert (result["verdict"], result["limit"], result["output"]) == (("killed", None, "") if asked else ("timeout", "lifetime", ""))
    assert own.get(f"/api/v1/executions/{first}").json["state"] == "running", "control"
    wait_until(lambda: is_gone(own, box), "the end of its sandbox")
    own.delete(f"/api/v1/executions/{first}")
    assert own.stop() == 0


def test_an_end_that_was_asked_for_is_none_of_time(own):
    """The control: DELETE of a sandbox ends what runs as before."""
    own.start("--lifetime=600s")
    box = make(own)
    one = own.post(f"{box}/execute", code=LONG, **{"async": True}).json["execution_id"]
    wait_until(lambda: own.get(f"/api/v1/executions/{one}").json["state"] == "running", "its beginning")
    assert own.delete(box).status == 202
    wait_until(lambda: own.get(f"/api/v1/executions/{one}").json["state"] == "finished", "its end")
    row = own.get(f"/api/v1/executions/{one}").json
    assert (row["verdict"], row["result"]["limit"]) == ("killed", None)
    assert own.stop() == 0


def test_times_are_the_next_fronts_too(own):
    file = own.room / "serve.yaml"
    file.write_text("lifetime: 1h\n")
    file.chmod(0o600)
    own.start(f"--config={file}")
    plain, short, longer = make(own), make(own, lifetime_seconds=15), make(own, lifetime_seconds=100, idle_seconds=50)
    told = times(extend(own, longer, lifetime_seconds=500, idle_seconds=70))
    own.kill_front()
    assert times(own.get(longer).json) == told and told[1] == 70
    assert own.get(plain).json["lifetime_seconds"] == 3600
    wait_until(lambda: is_gone(own, short), "the end of one, in time")
    assert times(own.get(longer).json) == told
    file.write_text("lifetime: 200s\n")
    own.signal(signal.SIGHUP)
    wait_until(lambda: own.get(longer).json["lifetime_seconds"] == 200, "the operator's word, which counts for all")
    assert own.get(plain).json["lifetime_seconds"] == 200 and own.post(CREATE, lifetime_seconds=201).status == 400
    assert own.stop() == 0
