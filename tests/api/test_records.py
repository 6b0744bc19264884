"""Executions and sandboxes in the records, and GET /api/v1/executions."""
import contextlib
import hashlib
import select
import uuid

import pytest

from .helpers import wait_until

EXECUTIONS = "/api/v1/executions"


def record(service, reply, **options):
    assert reply.status == 200, reply
    return service.get(f"{EXECUTIONS}/{reply.json['execution_id']}", **options)


def test_a_run_is_recorded(service):
    result = service.run("import sys; sys.exit(3)", agent_id="smith")
    kept = record(service, result).json
    for name in ("execution_id", "started_at", "verdict", "exit_code", "duration_ms", "code_hash",
                 "policy_hash", "memory_peak_bytes"):
        assert kept[name] == result.json[name], name
    assert kept["state"] == "finished"
    assert kept["agent_id"] == "smith"
    assert kept["sandbox_id"] is None
    assert kept["cpu_ms"] == pytest.approx(sum(result.json["cpu_ms"].values()), abs=0.01)


def test_an_execution_and_its_sandbox_are_recorded(service):
    box = service.create(agent_id="jones")
    path = f"/api/v1/sandbox/{box['sandbox_id']}"
    done = service.post(path + "/execute", code="print(1)", token=box["access_token"])
    kept = record(service, done).json
    assert (kept["sandbox_id"], kept["agent_id"]) == (box["sandbox_id"], "jones")
    row, = service.rows("SELECT * FROM sandboxes WHERE id = ?", box["sandbox_id"])
    assert (row["state"], row["ended"], row["agent"]) == ("alive", None, "jones")
    assert row["token_hash"] == hashlib.sha256(box["access_token"].encode()).hexdigest()
    assert service.delete(path).status == 200
    row, = service.rows("SELECT * FROM sandboxes WHERE id = ?", box["sandbox_id"])
    assert row["state"] == "destroyed" and row["ended"] >= row["created"]


def test_a_sandbox_that_outlives_its_time_is_expired(make_service):
    service = make_service("--idle=1s")
    box = service.create()
    wait_until(lambda: service.rows("SELECT * FROM sandboxes WHERE state = 'expired' AND id = ?",
                                    box["sandbox_id"]), "the end of the sandbox")


def state_of(service, box):
    return service.rows("SELECT state FROM sandboxes WHERE id = ?", box["sandbox_id"])[0]["state"]


def test_who_never_pauses_has_no_longer_time(make_service):
    service = make_service("--lifetime=1s")
    box = service.create()
    path = f"/api/v1/sandbox/{box['sandbox_id']}"
    done = service.post(f"{path}/execute", code="import time; time.sleep(100)").json
    assert (done["verdict"], done["limit"]) == ("timeout", "lifetime"), done
    assert service.post(f"{path}/execute", code="pass").status == 404
    wait_until(lambda: state_of(service, box) == "expired", "the end of the sandbox")


def test_an_upload_without_an_end_has_no_longer_time(make_service):
    service = make_service("--lifetime=1s")
    box = service.create()
    with contextlib.closing(service.connect()) as connection:
        connection.putrequest("PUT", f"/api/v1/sandbox/{box['sandbox_id']}/files?path=a")
        connection.putheader("Transfer-Encoding", "chunked")
        connection.endheaders()
        def is_answered():
            connection.sock.sendall(b"400\r\n" + b"x" * 1024 + b"\r\n")
            return select.select([connection.sock], [], [], 0.05)[0]
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            wait_until(is_answered, "an answer")
    wait_until(lambda: state_of(service, box) == "expired", "the end of the sandbox")


def test_refused_requests_are_no_executions(service):
    before = service.rows("SELECT count(*) AS n FROM executions")
    assert service.run("pass", timeout_seconds=-1).status == 400
    assert service.rows("SELECT count(*) AS n FROM executions") == before


def test_what_a_sandbox_has_run_is_not_looked_for_among_all(make_service):
    """By an index, which the query insists on: records that have none yet get it."""
    service = make_service()
    box = service.create()["sandbox_id"]
    ids = [service.post(f"/api/v1/sandbox/{box}/execute", code="pass").json["execution_id"] for _ in range(2)]
    service.run("pass")
    assert service.stop() == 0
    service.change("DROP INDEX IF EXISTS executions_sandbox")
    service.start()
    rows = service.get(f"{EXECUTIONS}?sandbox={box}").json["executions"]
    assert [row["execution_id"] for row in rows] == ids[::-1]
    assert service.get(f"{EXECUTIONS}?sandbox={uuid.uuid4()}").json["executions"] == []
    assert service.rows("SELECT 1 FROM sqlite_schema WHERE name = 'executions_sandbox'")


def test_pages(service):
    ids = [service.run("pass").json["execution_id"] for _ in range(5)]
    first = service.get(f"{EXECUTIONS}?limit=2").json
    assert [row["execution_id"] for row in first["executions"]] == ids[:2:-1]
    second = service.get(f"{EXECUTIONS}?limit=3&before={first['next']}").json
    assert [row["execution_id"] for row in second["executions"]] == ids[2::-1]
    everything = service.get(f"{EXECUTIONS}?limit=1000").json
    assert everything["next"] is None
    assert len(everything["executions"]) == service.rows(
        "SELECT count(*) AS n FROM executions WHERE tenant LIKE 'uid:%'")[0]["n"]


def test_those_of_one_sandbox(service):
    box = service.create()
    path = f"/api/v1/sandbox/{box['sandbox_id']}"
    done = [service.post(path + "/execute", code=f"print({i})").json["execution_id"] for i in range(2)]
    service.run("pass")
    found = service.get(f"{EXECUTIONS}?sandbox={box['sandbox_id']}").json["executions"]
    assert [row["execution_id"] for row in found] == done[::-1]
    service.delete(path)


@pytest.mark.parametrize("query, field", [
    ("limit=0", "limit"), ("limit=1001", "limit"), ("limit=ten", "limit"), ("limit=-1", "limit"),
    ("limit=", "limit"), ("limit=1&limit=2", "limit"), ("limit=+5", "limit"), ("before=x", "before"),
    (f"before={uuid.uuid4()}", "before"), ("sandbox='%20OR%201=1", "sandbox"),
])
def test_bad_queries(service, query, field):
    reply = service.get(f"{EXECUTIONS}?{query}")
    assert (reply.status, reply.json["field"]) == (400, field)


def test_unknown_executions(service):
    assert service.get(f"{EXECUTIONS}/{uuid.uuid4()}").status == 404
    assert service.get(f"{EXECUTIONS}/x").status == 404


def test_tenants_see_their_own(service):
    mine, theirs = service.run("pass"), service.run("pass", token=True)
    assert record(service, mine).status == 200
    assert record(service, mine, token=True).status == 404
    assert record(service, theirs).status == 404
    assert record(service, theirs, token=True).status == 200
    ids = {row["execution_id"] for row in service.get(EXECUTIONS, token=True).json["executions"]}
    assert theirs.json["execution_id"] in ids and mine.json["execution_id"] not in ids
    other = service.get(f"{EXECUTIONS}?before={theirs.json['execution_id']}")
    assert (other.status, other.json["field"]) == (400, "before")


def test_a_sandboxs_token_reads_no_records(service):
    box = service.create()
    assert service.get(EXECUTIONS, token=box["access_token"]).status in (401, 403)
    service.delete(f"/api/v1/sandbox/{box['sandbox_id']}")


def test_neither_code_nor_output_nor_environment_nor_token_is_kept(make_service):
    service = make_service()
    secret = uuid.uuid4().hex
    box = service.create(env={"SECRET": secret})
    reply = service.post(f"/api/v1/sandbox/{box['sandbox_id']}/execute",
                         code=f"import os; print(os.environ['SECRET'], '{secret}')")
    assert reply.json["output"].count(secret) == 2
    service.run(f"print('{secret}'); raise ValueError('{secret}')", stdin=secret)
    def kept(text):
        return [path.name for path in service.state.iterdir() if text.encode() in path.read_bytes()]
    assert kept(reply.json["execution_id"])  # this look can find things
    assert not kept(secret) and not kept(box["access_token"])
    service.stop()
    assert kept(reply.json["execution_id"])
    assert not kept(secret) and not kept(box["access_token"])


def test_questions_do_not_wait_for_programs(make_service):
    """All workers are busy, and executions wait; records, metrics and sandboxes answer."""
    service = make_service("--workers=1")
    box = service.create()
    ids = [service.run("import time; time.sleep(100)", **{"async": True}).json["execution_id"]
           for _ in range(3)]
    assert service.get(f"{EXECUTIONS}/{ids[2]}").json["state"] == "queued"
    assert len(service.get(EXECUTIONS).json["executions"]) == 3
    assert service.get("/metrics").status == 200
    assert service.get("/api/v1/sandbox").status == 200
    assert service.delete(f"/api/v1/sandbox/{box['sandbox_id']}").status == 200
    assert service.delete(f"{EXECUTIONS}/{ids[0]}").status == 202


def test_files_are_private(service):
    assert service.state.stat().st_mode & 0o777 == 0o700
    assert {path.stat().st_mode & 0o777 for path in service.state.iterdir()} == {0o600}
