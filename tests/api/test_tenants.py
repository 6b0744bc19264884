"""What one tenant may take; the owner on the socket and the holder of the token are two."""
import concurrent.futures
import contextlib
import json
import subprocess
import threading
import time
import uuid

import pytest

from .helpers import PATIENCE, wait_until


def test_sandboxes(make_service):
    service = make_service("--tenant-sandboxes=2")
    first = service.create()
    service.create()
    reply = service.post("/api/v1/sandbox/create")
    assert (reply.status, reply.json["code"]) == (429, "busy") and int(reply.headers["Retry-After"]) > 0
    assert service.post("/api/v1/sandbox/create", token=True).status == 201, "another tenant may"
    service.delete(f"/api/v1/sandbox/{first['sandbox_id']}")
    service.create()


def test_nobody_has_all_sandboxes_there_are(make_service):
    """AP-20, whatever the operator wrote: others were told to destroy some, and had none."""
    service = make_service("--max-sandboxes=16", "--pool-min=1")
    made = [service.post("/api/v1/sandbox/create").status for _ in range(16)]
    assert made == [201] * 14 + [429] * 2
    assert service.post("/api/v1/sandbox/create", token=True).status == 201, "another tenant may"
    assert service.run("print(1)", token=True).status == 200


@pytest.mark.parametrize("dies", [False, True])
def test_sandboxes_of_executions_count_too(make_service, dies):
    """AP-20: they come out of the same number, also those that the front before this one has begun."""
    service = make_service("--max-sandboxes=16", "--pool-min=1", "--workers=16")
    boxes = [service.create()["sandbox_id"] for _ in range(10)]
    mine = [begin(service, SLEEP) for _ in range(4)]
    wait_until(lambda: count(service, mine, "running") == 4, "the start")
    if dies:
        service.kill_front()
        wait_until(service.is_ready, "another front")
    for reply in (service.post("/api/v1/sandbox/create"), service.run("print(1)"), service.run("print(1)", **{"async": True})):
        assert (reply.status, reply.json["code"], reply.headers["Retry-After"]) == (429, "busy", "1"), reply
        assert "executions" in reply.json["message"] and "max-sandboxes" in reply.json["remedy"], reply
    assert service.post(f"/api/v1/sandbox/{boxes[0]}/execute", code="print(1)").status == 200, "what it has it may use"
    assert service.post("/api/v1/sandbox/create", token=True).status == 201, "another tenant may"
    assert service.run("print(1)", token=True).status == 200
    service.delete(f"/api/v1/executions/{mine[0]}")
    wait_until(lambda: service.run("print(1)").status == 200, "room, once one has ended")
    service.delete(f"/api/v1/sandbox/{boxes[0]}")
    wait_until(lambda: service.post("/api/v1/sandbox/create").status == 201, "room, once one is destroyed")
    assert count(service, mine, "running") == 3


def test_executions_that_wait_take_no_sandbox(make_service):
    """With fewer workers than sandboxes none is refused for those that are before it; and what has run is not counted for ever."""
    service = make_service("--max-sandboxes=9", "--pool-min=1", "--workers=4")
    mine = [begin(service, "print(1)") for _ in range(40)]
    wait_until(lambda: count(service, mine, "finished") == 40, "the end of all")


def coto(service, *arguments):
    return subprocess.run([service.program, "token", *arguments], check=True, capture_output=True, text=True,
                          timeout=PATIENCE).stdout.strip()


def begin_upload(service, token):
    """A slow one, with a good token or on the socket."""
    box = service.post("/api/v1/sandbox/create", token=token).json["sandbox_id"]
    connection = service.connect(tcp=bool(token))
    connection.putrequest("PUT", f"/api/v1/sandbox/{box}/files?path=f")
    if token:
        connection.putheader("Authorization", f"Bearer {service.token if token is True else token}")
    connection.putheader("Content-Length", "1000000")
    connection.endheaders()
    connection.send(b"x" * 1000)
    return connection


def status_of(connection):
    """None: it goes on."""
    connection.sock.settimeout(1)
    with contextlib.suppress(TimeoutError):
        return connection.getresponse().status
    return None


@pytest.mark.parametrize("workers", [8, 16, 28])
def test_nobody_has_all_transfers_there_are(make_service, workers):
    """AP-20: those of slow clients are few, and some of them are for others."""
    service = make_service(f"--workers={workers}")
    most = (workers + 3) // 4

    with contextlib.ExitStack() as stack:
        mine = [status_of(stack.enter_context(contextlib.closing(begin_upload(service, None)))) for _ in range(most + 1)]
        assert mine.count(None) == most - (most + 7) // 8 and set(mine) <= {None, 429}, mine
        assert status_of(stack.enter_context(contextlib.closing(begin_upload(service, True)))) is None, "another tenant may"


@pytest.mark.parametrize("workers, first, second", [(16, 3, 1), (64, 14, 1)])
def test_two_tenants_leave_transfers_to_a_third(make_service, workers, first, second):
    """AP-20: the second took what the first had left, and nobody else could write, read, list or remove a file."""
    service = make_service(f"--workers={workers}", start=False)
    coto(service, "keygen", "es256", service.room / "keys")
    service.start(f"--jwt-key={service.room / 'keys/es256.pub'}")
    alice = coto(service, "mint", "--key", service.room / "keys/es256.key", "--sub", "alice")
    box = service.post("/api/v1/sandbox/create", token=alice).json["sandbox_id"]
    with contextlib.ExitStack() as stack:
        theirs = [stack.enter_context(contextlib.closing(begin_upload(service, None))) for _ in range(first)]
        assert {status_of(it) for it in theirs[-2:]} == {None}, "they go on"
        others = [stack.enter_context(contextlib.closing(begin_upload(service, True))) for _ in range(2)]
        assert [status_of(it) for it in others] == [None] * second + [429] * (2 - second)
        for method, path, body in (("PUT", "files?path=x", "1"), ("GET", "files?path=x", None), ("GET", "artifacts", None),
                                   ("DELETE", "files?path=x", None)):
            reply = service.ask(method, f"/api/v1/sandbox/{box}/{path}", body, token=alice)
            assert reply.status == 200, (method, path, reply)


# ---- the token of a sandbox: whoever has it, maybe the program inside ----

def slow_requests(service, stack, box, many, length, method="POST", path="execute"):
    """Their heads and a byte each, with the token of that sandbox; how many are waited for, and what the last one refused was told."""
    made = []
    for _ in range(many):
        connection = stack.enter_context(contextlib.closing(service.connect(tcp=True)))
        connection.putrequest(method, f"/api/v1/sandbox/{box['sandbox_id']}/{path}")
        connection.putheader("Authorization", f"Bearer {box['access_token']}")
        connection.putheader("Content-Length", str(length))
        connection.endheaders(b"{")
        made.append(connection)
    made[-1].sock.settimeout(1)
    with contextlib.suppress(TimeoutError):
        response = made[-1].getresponse()
        return response.status, json.loads(response.read())
    return None, None


def can_do_all(service, box):
    """What its tenant may do, and in the end that: revoke the token."""
    run = service.run("1")
    assert run.status == 200, run
    other = service.create()["sandbox_id"]
    assert service.ask("PUT", f"/api/v1/sandbox/{other}/files?path=x", "1").status == 200
    assert service.delete(f"/api/v1/sandbox/{other}").status == 200
    assert service.ask("POST", "/api/v1/run", json.dumps({"code": "1", "stdin": "x" * 2_000_000})).status == 200
    assert service.get("/api/v1/executions").status == 200
    reply = service.ask("POST", "/api/v1/token/revoke", {"token": box["access_token"]})
    assert reply.status == 200, reply


@pytest.mark.parametrize("method, path", [("POST", "execute"), ("DELETE", "files?path=x"), ("GET", "files")])
def test_a_sandboxs_token_does_not_lock_its_tenant_out(make_service, method, path):
    service = make_service("--tenant-requests=16", "--tenant-bodies=64")
    box = service.create()
    with contextlib.ExitStack() as stack:
        status, told = slow_requests(service, stack, box, 24, 1000, method, path)
        assert (status, told["code"]) == (429, "busy") and "this sandbox's token" in told["message"], told
        can_do_all(service, box)


def test_all_sandboxes_tokens_together_do_not_either(make_service):
    service = make_service("--tenant-requests=16", "--tenant-bodies=64")
    boxes = [service.create() for _ in range(4)]
    with contextlib.ExitStack() as stack:
        told = [slow_requests(service, stack, box, 8, 1000) for box in boxes]
        assert told[0][0] is None and told[-1][0] == 429 and "tenant-requests" in told[-1][1]["remedy"], told
        can_do_all(service, boxes[0])


def test_executions_and_transfers_of_sandboxes_tokens_leave_workers(make_service):
    """All four were taken by three sandboxes' programs, the one transfer by an upload that did not end."""
    service = make_service("--workers=4", "--tenant-requests=32")
    boxes = [service.create() for _ in range(4)]
    with contextlib.ExitStack() as stack:
        pool = stack.enter_context(concurrent.futures.ThreadPoolExecutor())
        for box in boxes[1:]:
            stack.callback(service.delete, f"/api/v1/sandbox/{box['sandbox_id']}")
        going_on = [pool.submit(service.ask, "POST", f"/api/v1/sandbox/{box['sandbox_id']}/execute",
                                {"code": "import time; time.sleep(100)"}, token=box["access_token"]) for box in boxes[1:]]
        wait_until(lambda: sum(service.get(f"/api/v1/sandbox/{box['sandbox_id']}").json["state"] == "busy" for box in boxes[1:]) == 3, "their programs")
        slow_requests(service, stack, boxes[0], 1, 1000, "PUT", "files?path=x")
        can_do_all(service, boxes[0])
        assert not any(it.done() for it in going_on), "control: they had not ended"


def test_bodies_that_a_sandboxs_token_only_claims(make_service):
    """Of one sandbox one large body, of all of them half of what the tenant may send."""
    service = make_service("--tenant-bodies=64")
    boxes = [service.create() for _ in range(4)]
    with contextlib.ExitStack() as stack:
        told = [slow_requests(service, stack, box, 2, 16 << 20) for box in boxes]
        assert [status for status, _ in told] == [429] * 4
        assert "this sandbox's token" in told[0][1]["message"] and "tenant-bodies" in told[-1][1]["remedy"], told
        can_do_all(service, boxes[0])
    wait_until(lambda: service.ask("POST", f"/api/v1/sandbox/{boxes[1]['sandbox_id']}/execute",
                                   {"code": "1", "stdin": "x" * 10_000_000}, token=boxes[1]["access_token"]).status == 200, "room")


def test_the_rate_of_a_sandboxs_token(make_service):
    """It leaves some of the burst to its tenant, which finds it whenever it comes."""
    service = make_service("--tenant-rate=1", "--tenant-burst=16")
    box = service.create()
    path = f"/api/v1/sandbox/{box['sandbox_id']}"
    seen = [service.get(path, token=box["access_token"]) for _ in range(24)]
    assert [reply.status for reply in seen].count(200) in range(12, 17) and seen[-1].status == 429
    assert int(seen[-1].headers["Retry-After"]) >= 1
    assert service.ask("POST", "/api/v1/token/revoke", {"token": box["access_token"]}).status == 200


def test_replies_that_a_sandboxs_token_does_not_read(make_service):
    service = make_service("--tenant-unread=60")
    body = json.dumps({"code": "print(chr(0) * 4_000_000)"})
    boxes = [service.create() for _ in range(2)]
    with contextlib.ExitStack() as stack:
        for box in boxes:
            connection = stack.enter_context(contextlib.closing(service.connect(tcp=True)))
            connection.request("POST", f"/api/v1/sandbox/{box['sandbox_id']}/execute", body,
                               {"Authorization": f"Bearer {box['access_token']}"})
            reply = connection.getresponse()
            assert reply.status == (200 if box is boxes[0] else 503), reply
        assert service.ask("POST", "/api/v1/run", body).status == 200


def test_a_token_is_revoked_however_busy_its_tenant_is(make_service):
    service = make_service("--tenant-requests=1", "--tenant-bodies=1")
    box = service.create()
    with contextlib.closing(service.connect()) as connection:
        connection.putrequest("POST", "/api/v1/run")
        connection.putheader("Content-Length", "16000000")
        connection.endheaders(b'{"code":')
        wait_until(lambda: not is_free(service), "the arrival of the head")
        assert service.ask("POST", "/api/v1/token/revoke", {"token": box["access_token"]}).status == 200
        assert service.get(f"/api/v1/sandbox/{box['sandbox_id']}", token=box["access_token"]).status == 401


def test_rate(make_service):
    """AP-20, and a bucket that fills again."""
    service = make_service("--tenant-rate=20", "--tenant-burst=5")
    replies = [service.get("/api/v1/sandbox") for _ in range(40)]
    refused = [reply for reply in replies if reply.status == 429]
    assert refused and all(int(reply.headers["Retry-After"]) >= 1 for reply in refused)
    assert service.get("/api/v1/sandbox", token=True).status == 200, "another tenant may"
    assert service.get("/healthz").status == 200, "who has no tenant has no rate"
    wait_until(lambda: service.get("/api/v1/sandbox").status == 200, "room")


def test_a_pause_buys_no_more_than_its_time(make_service):
    """Who is not heard of for a while is forgotten, but not what it has used."""
    service = make_service("--tenant-rate=1", "--tenant-burst=200")
    connection = service.connect()

    def taken():
        count = 0
        for _ in range(250):
            connection.request("GET", "/api/v1/sandbox")
            reply = connection.getresponse()
            reply.read()
            count += reply.status == 200
        return count
    began = time.monotonic()
    first = taken()
    time.sleep(18)
    more = taken()
    assert first >= 200 and 17 <= more and first + more <= 200 + (time.monotonic() - began) + 1, (first, more)


def test_a_thousand_creates_at_once(make_service):
    service = make_service("--tenant-sandboxes=20", "--tenant-rate=50", "--tenant-burst=30")
    seen = []

    def many():
        seen.extend(service.post("/api/v1/sandbox/create").status for _ in range(125))
    threads = [threading.Thread(target=many) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(seen) == 1000 and set(seen) == {201, 429} and seen.count(201) == 20
    assert service.run("print(1)", token=True).status == 200


def test_requests_in_flight(make_service):
    service = make_service("--tenant-requests=2")
    replies = []
    threads = [threading.Thread(target=lambda: replies.append(service.run("import time; time.sleep(100)"))) for _ in range(2)]
    for thread in threads:
        thread.start()

    def running():
        return [row["execution_id"] for row in service.get("/api/v1/executions").json["executions"] if row["state"] == "running"]
    ids = wait_until(lambda: len(found := running()) == 2 and found, "both")
    reply = service.run("print(1)")
    assert (reply.status, reply.headers["Retry-After"]) == (429, "1")
    assert service.run("print(1)", token=True).status == 200, "another tenant may"
    for execution in ids:
        assert service.delete(f"/api/v1/executions/{execution}").status == 202, "what gives back is never refused"
    for thread in threads:
        thread.join()
    wait_until(lambda: service.run("print(1)").status == 200, "room")


def is_free(service):
    return service.run("print(1)").status == 200


def test_a_request_counts_from_its_head(make_service):
    """Also while its body has not come, and not beyond its end."""
    service = make_service("--tenant-requests=1")
    with contextlib.closing(service.connect()) as connection:
        connection.putrequest("POST", "/api/v1/run")
        connection.putheader("Content-Length", "20")
        connection.endheaders(b'{"code":')
        wait_until(lambda: not is_free(service), "the arrival of the head")
        assert service.get("/api/v1/executions").status == 200, "who only looks is counted apart"
        assert service.run("print(1)", token=True).status == 200, "another tenant may"
        connection.send(b' "print(1)"}')
        assert connection.getresponse().status == 200
        wait_until(lambda: is_free(service), "room")
        connection.close()
        connection.putrequest("POST", "/api/v1/run")
        connection.putheader("Content-Length", "20")
        connection.endheaders(b'{"code":')
        wait_until(lambda: not is_free(service), "the arrival of the head")
    wait_until(lambda: is_free(service), "room: its connection is gone")


def test_a_request_counts_to_the_last_byte_of_its_reply(make_service):
    service = make_service("--tenant-requests=1")
    with contextlib.closing(service.connect()) as connection:
        connection.request("POST", "/api/v1/run", json.dumps({"code": "print('x' * 8_000_000)"}))
        response = connection.getresponse()
        assert response.status == 200 and not is_free(service), "it has not taken all of it"
        assert len(json.loads(response.read())["stdout"]) == 8_000_001
        wait_until(lambda: is_free(service), "room")


def answer_to_head(service, length):
    """What is said before any of the body has come; nothing after a second: it is waited for."""
    with contextlib.closing(service.connect()) as connection:
        connection.putrequest("POST", "/api/v1/run")
        connection.putheader("Content-Length", str(length))
        connection.endheaders()
        connection.sock.settimeout(1)
        try:
            reply = connection.getresponse()
            return reply.status, reply.headers["Retry-After"], json.loads(reply.read())["message"]
        except TimeoutError:
            return None


def is_taken(service, body):
    try:
        return service.ask("POST", "/api/v1/run", body).status == 200
    except OSError:  # it was refused before all of it was sent
        return False


def test_large_bodies_have_an_end(make_service):
    """Those that have not come yet and those of unknown length count too; small ones are always taken."""
    service = make_service("--tenant-bodies=20")
    body = json.dumps({"code": "print(1)", "stdin": "x" * 12_000_000})
    for header in (("Content-Length", str(len(body))), ("Transfer-Encoding", "chunked")):
        with contextlib.closing(service.connect()) as connection:
            connection.putrequest("POST", "/api/v1/run")
            connection.putheader(*header)
            connection.endheaders()
            wait_until(lambda: answer_to_head(service, len(body)), "the arrival of the head")
            status, after, message = answer_to_head(service, len(body))
            assert (status, after) == (429, "1") and "large requests" in message
            assert is_free(service) and service.ask("POST", "/api/v1/run", body, token=True).status == 200
        wait_until(lambda: is_taken(service, body), "room")


def test_bodies_of_deletions_have_an_end(make_service):
    """Their number is not limited, so small ones count too; what has none is never refused."""
    service = make_service("--tenant-bodies=1")
    path = f"/api/v1/executions/{uuid.uuid4()}"
    def is_refused():
        with contextlib.closing(service.connect()) as connection:
            connection.putrequest("DELETE", path)
            connection.putheader("Content-Length", "600000")
            connection.endheaders()
            assert service.delete(path).status == 404
            return service.ask("DELETE", path, b"x" * 600_000).status == 429
    wait_until(is_refused, "a refusal")


def test_replies_that_nobody_reads_have_an_end(make_service):
    """What a program writes may take six times as many bytes as JSON; those who do not read it leave room for others."""
    service = make_service("--tenant-unread=30")
    body = json.dumps({"code": "print(chr(0) * 4_000_000)"})
    with contextlib.closing(service.connect()) as connection:
        connection.request("POST", "/api/v1/run", body)
        response = connection.getresponse()
        assert response.status == 200 and int(response.headers["Content-Length"]) > 24_000_000
        refused = service.ask("POST", "/api/v1/run", body)
        assert refused.status == 503 and "until it is read" in refused.json["message"]
        rows = service.get("/api/v1/executions?limit=2").json["executions"]
        assert [(row["state"], row["verdict"]) for row in rows] == [("finished", "ok")] * 2
        assert service.run("print(1)").status == 200
        assert service.ask("POST", "/api/v1/run", body, token=True).status == 200
        assert len(json.loads(response.read())["stdout"]) == 4_000_001
        wait_until(lambda: service.ask("POST", "/api/v1/run", body).status == 200, "room")


def test_artifacts_that_nobody_reads_have_an_end_too(make_service):
    """They were not counted for who had written a word besides."""
    service = make_service("--tenant-unread=30")
    body = json.dumps({"code": "print(1); open('output/zeros', 'wb').write(bytes(4_000_000))", "artifacts": True})
    with contextlib.closing(service.connect()) as connection:
        connection.request("POST", "/api/v1/run", body)
        response = connection.getresponse()
        assert response.status == 200 and int(response.headers["Content-Length"]) > 24_000_000
        refused = service.ask("POST", "/api/v1/run", body)
        assert refused.status == 503 and "until it is read" in refused.json["message"], refused
        assert service.ask("POST", "/api/v1/run", body, token=True).status == 200
        assert len(json.loads(response.read())["artifacts"][0]["content"]) == 4_000_000
        wait_until(lambda: service.ask("POST", "/api/v1/run", body).status == 200, "room")


def test_results_that_wait_to_be_recorded_have_an_end_too(make_service):
    """Each may be 64 MiB, and a tenant have hundreds of them at once; how they ended is told all the same."""
    service = make_service("--tenant-unread=30")

    def result():
        url = f"/api/v1/executions/{service.post('/api/v1/run', **body, **{'async': True}).json['execution_id']}"
        return wait_until(lambda: (row := service.get(url).json).get("state") in (None, "finished") and row, "the end")
    body = {"code": "print(chr(0) * 4_000_000)"}
    with contextlib.closing(service.connect()) as connection:
        connection.request("POST", "/api/v1/run", json.dumps(body))
        response = connection.getresponse()
        assert response.status == 200 and int(response.headers["Content-Length"]) > 24_000_000
        row = result()
        assert row["verdict"] == "ok" and "result" not in row and "tenant-unread" in row["error"]["remedy"], str(row)[:999]
        response.read()
        wait_until(lambda: "result" in result(), "room")


def test_an_async_execution_counts_to_its_end(make_service):
    service = make_service("--tenant-requests=1")
    execution = service.run("import time; time.sleep(100)", **{"async": True}).json["execution_id"]
    wait_until(lambda: service.get(f"/api/v1/executions/{execution}").json["state"] == "running", "the start")
    assert not is_free(service)
    assert service.delete(f"/api/v1/executions/{execution}").status == 202
    wait_until(lambda: is_free(service), "room")


def ask(service, box, is_guest):
    return service.post(f"/api/v1/sandbox/{box['sandbox_id']}/execute", code=SLEEP, token=box["access_token"] if is_guest else None, **{"async": True})


@pytest.mark.parametrize("own, guests", [(0, 7), (3, 5)])
@pytest.mark.parametrize("dies", [False, True])
def test_what_sandboxes_tokens_have_begun_is_theirs(make_service, own, guests, dies):
    """Seven of eight are for them, and what the tenant itself has begun is none of those; also in the next front, which takes it all over."""
    service = make_service("--tenant-requests=8", "--workers=32")
    boxes = [service.create() for _ in range(9)]
    begun = [ask(service, box, i >= own) for i, box in enumerate(boxes[:own + guests - 1])]
    assert {reply.status for reply in begun} == {202}
    wait_until(lambda: count(service, [reply.json["execution_id"] for reply in begun], "running") == len(begun), "the start")
    if dies:
        service.kill_front()
    last = ask(service, boxes[-1], True)
    assert last.status == 202
    assert ask(service, boxes[-2], True).status == 429
    assert service.run("print(1)").status == (200 if own + guests < 8 else 429)
    assert service.delete(f"/api/v1/executions/{last.json['execution_id']}").status == 202
    wait_until(lambda: is_free(service), "room for the tenant")


def test_a_queue_has_an_end(make_service):
    service = make_service("--workers=1", "--queue=1")
    ids = [service.run("import time; time.sleep(100)", **{"async": True}).json["execution_id"]]
    # The one worker takes the first when it is ready for it; only then is there room for a second.
    wait_until(lambda: (reply := service.run("2", **{"async": True})).status == 202 and ids.append(reply.json["execution_id"]) is None
               and service.run("3", **{"async": True}).status == 429, "a full queue")
    reply = service.run("print(1)")
    assert (reply.status, reply.headers["Retry-After"]) == (429, "1"), reply
    assert service.delete(f"/api/v1/executions/{ids[0]}").status == 202
    wait_until(lambda: service.run("print(1)").status == 200, "room")


def test_what_is_refused_leaves_no_file(make_service):
    service = make_service("--workers=1", "--queue=1")
    ids = [service.run("import time; time.sleep(100)", **{"async": True}).json["execution_id"]]
    refused = 0
    while refused < 5:
        reply = service.run("2", **{"async": True})
        refused += reply.status == 429
        ids += [reply.json["execution_id"]] if reply.status == 202 else []
    names = {path.name.split(".")[0] for path in (service.state / "async").iterdir()}
    assert names <= set(ids), "of an execution that was refused"


# ---- tenants beside each other: "uid:N" on the socket, "local" with the token ----

SLEEP = "import time; time.sleep(100)"


def begin(service, code="print(1)", token=None):
    reply = service.run(code, token=token, **{"async": True})
    assert reply.status == 202, reply
    return reply.json["execution_id"]


def row_of(service, execution, token=None):
    return service.get(f"/api/v1/executions/{execution}", token=token).json


def count(service, executions, state):
    return sum(row_of(service, it)["state"] == state for it in executions)


def test_tenants_are_served_in_turn(make_service):
    """Who comes when another has ten requests waiting does not wait for all ten."""
    service = make_service("--workers=1")
    first = begin(service, SLEEP)
    wait_until(lambda: count(service, [first], "running"), "the start")
    mine = [begin(service) for _ in range(10)]
    theirs = begin(service, token=True)
    service.delete(f"/api/v1/executions/{first}")
    wait_until(lambda: count(service, mine, "finished") == 10 and row_of(service, theirs, True)["state"] == "finished", "the end of all")
    begun = sorted((*((row_of(service, it)["started_at"], it) for it in mine), (row_of(service, theirs, True)["started_at"], theirs)))
    assert [it for _, it in begun].index(theirs) <= 1, begun
    assert [it for _, it in begun if it != theirs] == mine, "each tenant's are in order"


@pytest.mark.parametrize("workers, most", [(2, 1), (16, 14)])
def test_one_tenant_leaves_workers_to_others(make_service, workers, most):
    """Also to who comes for the first time, when all that the first one has sent runs already."""
    service = make_service(f"--workers={workers}")
    mine = [begin(service, SLEEP) for _ in range(workers + 1)]
    wait_until(lambda: count(service, mine, "running") == most, "the start")
    time.sleep(0.2)
    assert count(service, mine, "running") == most
    for _ in range(3):
        assert service.run("print(1)", token=True).json["stdout"] == "1\n"
    assert (count(service, mine, "running"), count(service, mine, "finished")) == (most, 0), "nobody's end was waited for"
    service.delete(f"/api/v1/executions/{mine[0]}")
    wait_until(lambda: count(service, mine[1:], "running") == most, "the next one")


def test_a_newcomer_leaves_some_to_the_next(make_service):
    """Of 24 workers three are kept: the second tenant has one of them and, with two left, no second one."""
    service = make_service("--workers=24")
    mine = [begin(service, SLEEP) for _ in range(22)]
    wait_until(lambda: count(service, mine, "running") == 21, "the start")
    theirs = [begin(service, SLEEP, token=True) for _ in range(3)]
    wait_until(lambda: sum(row_of(service, it, True)["state"] == "running" for it in theirs) == 1, "the start")
    time.sleep(0.2)
    assert sum(row_of(service, it, True)["state"] == "running" for it in theirs) == 1
    assert count(service, mine, "running") == 21


def test_one_tenant_leaves_room_in_the_queue(make_service):
    service = make_service("--workers=1", "--queue=8")
    first = begin(service, SLEEP)
    wait_until(lambda: count(service, [first], "running"), "the start")
    mine = [begin(service) for _ in range(7)]
    for reply in (service.run("print(1)"), service.run("print(1)", **{"async": True})):
        assert (reply.status, reply.headers["Retry-After"]) == (429, "1"), reply
    begin(service, token=True)
    assert service.run("print(1)", token=True).status == 429, "now it is full"
    service.delete(f"/api/v1/executions/{first}")
    wait_until(lambda: count(service, mine, "finished") == 7, "the end of all")
