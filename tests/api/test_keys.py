"""Idempotency-Key: the same request again gets the same answer."""
import contextlib
import itertools
import json
import threading

import pytest

from .helpers import wait_until

numbers = itertools.count()


@pytest.fixture
def key():
    return f"key-{next(numbers)}"


def count(service):
    return service.rows("SELECT count(*) AS n FROM executions")[0]["n"]


def is_replay(reply):
    return reply.headers.get("Idempotent-Replayed") == "true"


def test_a_run_again_is_the_same_answer(service, key):
    first = service.run("import uuid; print(uuid.uuid4())", key=key)
    before = count(service)
    second = service.run("import uuid; print(uuid.uuid4())", key=key)
    assert first.status == second.status == 200
    assert first.body == second.body
    assert not is_replay(first) and is_replay(second)
    assert count(service) == before
    other = service.run("import uuid; print(uuid.uuid4())", key=key + "x")
    assert other.json["stdout"] != first.json["stdout"]  # this look can tell a new run


def test_another_request_is_refused(service, key):
    assert service.run("print(1)", key=key).status == 200
    reply = service.run("print(2)", key=key)
    assert (reply.status, reply.json["field"]) == (409, "Idempotency-Key")
    assert service.post("/api/v1/sandbox/create", key=key).status == 409


def test_a_key_belongs_to_its_tenant(service, key):
    mine = service.run("print(1)", key=key)
    theirs = service.run("print(2)", key=key, token=True)
    assert theirs.status == 200 and theirs.json["stdout"] == "2\n"
    assert service.run("print(1)", key=key).body == mine.body


def test_a_sandbox_token_uses_up_no_key_of_its_service(service, key):
    box = service.create()
    path = f"/api/v1/sandbox/{box['sandbox_id']}/execute"
    theirs = service.post(path, code="print(1)", key=key, token=box["access_token"])
    assert theirs.json["output"] == "1\n"
    mine = service.run("print(2)", key=key)
    assert mine.status == 200 and mine.json["stdout"] == "2\n"
    again = service.post(path, code="print(1)", key=key, token=box["access_token"])
    assert is_replay(again) and again.body == theirs.body
    assert service.post(path, code="print(3)", key="k" * 255, token=box["access_token"]).status == 200
    assert is_replay(service.post(path, code="print(3)", key="k" * 255, token=box["access_token"]))
    assert service.post(path, code="print(3)", key="k" * 256, token=box["access_token"]).status == 400


def test_an_id_in_capitals_is_the_same_one(service, key):
    box = service.create()["sandbox_id"]
    first = service.post(f"/api/v1/sandbox/{box}/execute", code="print(1)", key=key)
    again = service.post(f"/api/v1/sandbox/{box.upper()}/execute", code="print(1)", key=key)
    assert first.status == 200 and is_replay(again) and again.body == first.body
    other = service.create()["sandbox_id"]
    assert service.post(f"/api/v1/sandbox/{other}/execute", code="print(1)", key=key).status == 409, "control"


def test_a_failing_program_is_an_answer_too(service, key):
    first = service.run("1/0", key=key)
    assert first.json["verdict"] == "nonzero"
    assert service.run("1/0", key=key).body == first.body


def test_an_error_is_not_kept(service, key):
    assert service.run("pass", key=key, timeout_seconds=0).status == 400
    assert service.run("pass", key=key).status == 200


def test_create_again_is_the_same_sandbox(service, key):
    first = service.create(key=key)
    second = service.create(key=key)
    assert first == second
    path = f"/api/v1/sandbox/{first['sandbox_id']}"
    assert service.get(path, token=second["access_token"]).status == 200
    assert service.delete(path).status == 200
    gone = service.post("/api/v1/sandbox/create", key=key)
    assert (gone.status, gone.json["field"]) == (409, "Idempotency-Key")


def test_execute_again_runs_once(service, key):
    box = service.create()
    path = f"/api/v1/sandbox/{box['sandbox_id']}"
    code = "n = globals().get('n', 0) + 1; print(n)"
    first = service.post(path + "/execute", code=code, key=key)
    assert first.json["output"] == "1\n"
    assert service.post(path + "/execute", code=code, key=key).body == first.body
    assert service.post(path + "/execute", code=code).json["output"] == "2\n"
    service.delete(path)
    # what is known needs no sandbox
    assert service.post(path + "/execute", code=code, key=key).body == first.body


def test_while_it_runs_the_second_is_told_to_wait(service, key):
    code = "import sys, time; time.sleep(1); print('done')"
    replies = []
    first = threading.Thread(target=lambda: replies.append(service.run(code, key=key)))
    first.start()
    wait_until(lambda: service.rows("SELECT 1 FROM executions WHERE verdict IS NULL"), "the start")
    second = service.run(code, key=key)
    first.join()
    assert second.status == 409 and "still running" in second.json["message"]
    assert second.headers["Retry-After"]
    assert service.run(code, key=key).body == replies[0].body


def test_whoever_hangs_up_finds_the_answer(service, key):
    """The end of a connection ends its run, but not of who has a key: it would be done a second time."""
    body = json.dumps({"code": "import time; time.sleep(1); print('done')"})
    with contextlib.closing(service.connect()) as connection:
        connection.request("POST", "/api/v1/run", body, {"Idempotency-Key": key})
        wait_until(lambda: service.rows("SELECT 1 FROM executions WHERE verdict IS NULL"), "the start")
    assert service.ask("POST", "/api/v1/run", body, {"Idempotency-Key": key}).status == 409, "it goes on"
    reply = wait_until(lambda: (again := service.ask("POST", "/api/v1/run", body, {"Idempotency-Key": key})
                                ).status != 409 and again)
    assert reply.json["stdout"] == "done\n" and is_replay(reply)


def test_what_is_accepted_again_is_the_same_execution(service, key):
    code = "import time; time.sleep(0.3); print('done')"
    first = service.run(code, key=key, **{"async": True})
    assert first.status == 202 and first.json["state"] == "queued"
    path = f"/api/v1/executions/{first.json['execution_id']}"
    assert service.run(code, key=key, **{"async": True}).body == first.body  # while it runs
    wait_until(lambda: service.get(path).json["state"] == "finished", "the end")
    again = service.run(code, key=key, **{"async": True})
    assert (again.status, again.body) == (202, first.body) and is_replay(again)


def test_events_have_no_key(service, key):
    reply = service.ask("POST", "/api/v1/run?stream=1", {"code": "pass"}, {"Idempotency-Key": key})
    assert (reply.status, reply.json["field"]) == (400, "Idempotency-Key")


@pytest.mark.parametrize("text", ["", "a b", "a" * 256, "\u00e4", "a\tb"])
def test_bad_keys(service, text):
    reply = service.run("pass", headers={"Idempotency-Key": text.encode("latin-1")})
    assert (reply.status, reply.json["field"]) == (400, "Idempotency-Key")


def test_a_large_answer_is_not_kept_and_not_made_twice(service, key):
    code = "print('x' * 300000)"
    assert len(service.run(code, key=key).json["stdout"]) == 300001
    before = count(service)
    reply = service.run(code, key=key)
    assert reply.status == 409 and "too large" in reply.json["message"]
    assert count(service) == before


def test_answers_outlive_the_service(make_service, key):
    service = make_service()
    first = service.run("import uuid; print(uuid.uuid4())", key=key)
    box = service.create(key=key + "-box")
    service.kill()
    service.start()
    assert service.run("import uuid; print(uuid.uuid4())", key=key).body == first.body
    gone = service.post("/api/v1/sandbox/create", key=key + "-box")
    assert gone.status == 409 and box["access_token"].encode() not in gone.body
