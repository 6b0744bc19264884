"""What one tenant may take; the owner on the socket and the holder of the token are two."""
import threading

from .helpers import wait_until


def test_sandboxes(make_service):
    service = make_service("--tenant-sandboxes=2")
    first = service.create()
    service.create()
    reply = service.post("/api/v1/sandbox/create")
    assert (reply.status, reply.json["code"]) == (429, "busy") and int(reply.headers["Retry-After"]) > 0
    assert service.post("/api/v1/sandbox/create", token=True).status == 201, "another tenant may"
    service.delete(f"/api/v1/sandbox/{first['sandbox_id']}")
    service.create()


def test_rate(make_service):
    """AP-20, and a bucket that fills again."""
    service = make_service("--tenant-rate=20", "--tenant-burst=5")
    replies = [service.get("/api/v1/sandbox") for _ in range(40)]
    refused = [reply for reply in replies if reply.status == 429]
    assert refused and all(int(reply.headers["Retry-After"]) >= 1 for reply in refused)
    assert service.get("/api/v1/sandbox", token=True).status == 200, "another tenant may"
    assert service.get("/healthz").status == 200, "who has no tenant has no rate"
    wait_until(lambda: service.get("/api/v1/sandbox").status == 200, "room")


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
