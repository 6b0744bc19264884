"""Executions whose client does not wait: status, result, cancel, callback."""
import hashlib
import hmac
import http.server
import json
import socket
import threading
import time

import pytest

from .helpers import wait_until


def begin(service, code="print(6 * 7)", path="/api/v1/run", **more):
    reply = service.post(path, code=code, **{"async": True, **more})
    assert (reply.status, reply.json["state"]) == (202, "queued"), reply
    return reply.json["execution_id"]


def status(service, execution, **options):
    return service.get(f"/api/v1/executions/{execution}", **options).json


def ended(service, execution):
    return wait_until(lambda: (row := status(service, execution))["state"] not in ("queued", "running") and row, "its end")


def test_a_result_is_fetched_later(service):
    execution = begin(service)
    row = ended(service, execution)
    assert (row["state"], row["verdict"], row["result"]["stdout"]) == ("finished", "ok", "42\n")
    assert row["result"]["execution_id"] == execution
    assert status(service, execution)["result"] == row["result"], "more than once"


def test_the_client_is_answered_while_it_runs(service):
    execution = begin(service, "import time; time.sleep(100)")
    wait_until(lambda: status(service, execution)["state"] == "running", "the start")
    assert service.delete(f"/api/v1/executions/{execution}").json == {"execution_id": execution, "state": "cancelling"}
    row = ended(service, execution)
    assert row["verdict"] == row["result"]["verdict"] == "killed" and row["duration_ms"] < 60_000


def test_one_that_could_not_start(service):
    execution = begin(service, isolation_level="high")
    row = ended(service, execution)
    assert (row["state"], row["error"]["field"]) == ("error", "isolation_level") and "result" not in row


def test_in_a_sandbox_with_its_token_alone(service):
    box = service.create(agent_id="bot")
    token, url = box["access_token"], f"/api/v1/sandbox/{box['sandbox_id']}"
    service.post(f"{url}/execute", code="x = 20")
    execution = begin(service, "print(x + 1)", f"{url}/execute", token=token)
    row = ended(service, execution)
    assert (row["result"]["output"], row["agent_id"], row["sandbox_id"]) == ("21\n", "bot", box["sandbox_id"])
    assert status(service, execution, token=token)["result"] == row["result"]
    other = begin(service)
    ended(service, other)
    assert service.get(f"/api/v1/executions/{other}", token=token).status == 404
    assert service.delete(f"/api/v1/executions/{other}", token=token).status == 404
    service.delete(url)


def test_of_another_tenant_and_of_nobody(service):
    execution = begin(service, "import time; time.sleep(100)")
    for reply in (service.get(f"/api/v1/executions/{execution}", token=True),
                  service.delete(f"/api/v1/executions/{execution}", token=True),
                  service.delete("/api/v1/executions/00000000-0000-4000-8000-000000000000")):
        assert reply.status == 404
    assert service.delete(f"/api/v1/executions/{execution}").status == 202, "control: its own may"
    ended(service, execution)
    assert service.delete(f"/api/v1/executions/{execution}").status == 404, "it has ended"


def test_a_synchronous_run_can_be_cancelled_too(service):
    replies = []
    thread = threading.Thread(target=lambda: replies.append(service.run("import time; time.sleep(100)", agent_id="mine")))
    thread.start()
    found = wait_until(lambda: [row for row in service.get("/api/v1/executions").json["executions"]
                                if row["agent_id"] == "mine" and row["state"] == "running"], "the start")
    assert service.delete(f"/api/v1/executions/{found[0]['execution_id']}").status == 202
    thread.join()
    assert replies[0].json["verdict"] == "killed"


def test_what_waits_for_its_turn_is_cancelled_without_one(make_service):
    service = make_service("--workers=1", "--high-isolation=none")
    box = service.create()
    url = f"/api/v1/sandbox/{box['sandbox_id']}"
    first = begin(service, "import time; time.sleep(100)")
    wait_until(lambda: status(service, first)["state"] == "running", "the start")
    queued = [begin(service, agent_id="bot"), begin(service, path=f"{url}/execute"), begin(service)]
    for execution in queued:
        assert status(service, execution)["state"] == "queued"
        assert service.delete(f"/api/v1/executions/{execution}").status == 202
        row = ended(service, execution)
        assert (row["state"], row["verdict"], row["result"]["verdict"]) == ("finished", "killed", "killed"), row
        assert row["result"]["execution_id"] == execution and row["exit_code"] is None
        assert service.delete(f"/api/v1/executions/{execution}").status == 404, "it has ended"
    assert status(service, queued[0])["agent_id"] == "bot"
    assert status(service, first)["state"] == "running", "control: there was no other worker"
    service.delete(f"/api/v1/executions/{first}")
    begun = ended(service, first)
    waited = status(service, queued[0])
    assert set(begun["result"]) == set(waited["result"]) and begun["result"]["driver"] == waited["result"]["driver"]
    assert service.post(f"{url}/execute", code="print(1)").json["output"] == "1\n", "its sandbox is none the worse"


def test_with_a_key_it_runs_once(service):
    first = service.post("/api/v1/run", code="print(1)", key="async-1", **{"async": True})
    assert first.status == 202
    ended(service, first.json["execution_id"])
    again = service.post("/api/v1/run", code="print(1)", key="async-1", **{"async": True})
    assert again.json["execution_id"] == first.json["execution_id"], again


def test_a_destroyed_sandbox_ends_what_runs_in_it(service):
    box = service.create()
    url = f"/api/v1/sandbox/{box['sandbox_id']}"
    execution = begin(service, "import time; time.sleep(100)", f"{url}/execute")
    wait_until(lambda: status(service, execution)["state"] == "running", "the start")
    assert service.delete(url).status == 202
    assert ended(service, execution)["verdict"] == "killed"
    wait_until(lambda: service.get(url).status == 404, "its end")


def test_a_result_that_is_too_large_is_not_kept(service):
    """Control characters take six bytes each as JSON: what nobody comes back for would fill memory and disk."""
    execution = begin(service, "print(chr(0) * 8_000_000)")
    row = ended(service, execution)
    assert (row["state"], row["verdict"]) == ("finished", "ok") and "result" not in row
    assert "32 MiB" in row["error"]["message"]
    fits = ended(service, begin(service, "print('x' * 8_000_000)"))
    assert len(fits["result"]["stdout"]) == 8_000_001


# ---- callbacks ----

KEY = bytes(range(40))


class Listener:
    """An HTTP server that notes what it gets and answers what it is told to."""

    def __init__(self):
        self.calls, self.answers = [], []
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                outer.calls.append((self.path, dict(self.headers), body))
                code, fields = outer.answers.pop(0) if outer.answers else (204, {})
                self.send_response(code)
                for name, value in {"Content-Length": "0", **fields}.items():
                    self.send_header(name, value)
                self.end_headers()
            do_GET = do_POST

            def log_message(self, *_):
                pass
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.origin = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def wait(self, count=1):
        wait_until(lambda: len(self.calls) >= count, "the callback")
        return self.calls


@pytest.fixture(scope="module")
def listener():
    it = Listener()
    yield it
    it.server.shutdown()


@pytest.fixture(autouse=True)
def quiet(listener):
    listener.calls.clear()
    listener.answers.clear()


@pytest.fixture(scope="module")
def calling(listener, tmp_path_factory):
    from .helpers import Service
    key = tmp_path_factory.mktemp("key") / "key"
    key.write_bytes(KEY)
    key.chmod(0o600)
    with Service(f"--callback-origin={listener.origin}", f"--callback-key={key}") as it:
        yield it
        assert it.stop() == 0, it.messages


def is_signed(headers, body, key=KEY):
    fields = dict(part.split("=", 1) for part in headers["Coto-Signature"].split(","))
    assert abs(time.time() - int(fields["t"])) < 60
    return hmac.compare_digest(fields["v1"], hmac.new(key, fields["t"].encode() + b"." + body, hashlib.sha256).hexdigest())


def test_a_signed_callback(calling, listener):
    execution = begin(calling, "import sys; print('secret output'); sys.exit(2)", agent_id="bot",
                      callback_url=f"{listener.origin}/hook?x=1")
    [(path, headers, body)] = listener.wait()
    assert path == "/hook?x=1" and headers["Content-Type"] == "application/json"
    assert is_signed(headers, body) and not is_signed(headers, body + b" ") and not is_signed(headers, body, b"other")
    told = json.loads(body)
    assert (told["execution_id"], told["state"], told["verdict"], told["exit_code"], told["agent_id"]) == (
        execution, "finished", "nonzero", 2, "bot")
    assert b"secret" not in body, "output stays here"
    assert status(calling, execution)["result"]["stdout"] == "secret output\n", "what was told is true already"


def test_it_is_tried_again(calling, listener):
    listener.answers[:] = [(503, {}), (204, {})]
    begin(calling, callback_url=f"{listener.origin}/again")
    assert [path for path, _, _ in listener.wait(2)] == ["/again"] * 2


def test_a_redirect_is_not_followed(calling, listener):
    listener.answers[:] = [(302, {"Location": f"{listener.origin}/elsewhere"})]
    begin(calling, callback_url=f"{listener.origin}/moved")
    listener.wait()
    begin(calling, callback_url=f"{listener.origin}/next")
    assert [path for path, _, _ in listener.wait(2)] == ["/moved", "/next"]


def test_only_named_origins(calling, listener):
    port = listener.origin.rsplit(":", 1)[1]
    for url in (f"http://localhost:{port}/", f"http://127.0.0.1:{port}1/", f"http://127.0.0.1/", f"https://127.0.0.1:{port}/",
                f"{listener.origin}@evil/", f"{listener.origin}.evil/", f"http://evil@127.0.0.1:{port}/",
                f"{listener.origin}\\@evil/", f"{listener.origin}/a b", f"{listener.origin}/#x", f"{listener.origin}/\u00e9",
                "file:///etc/passwd", "gopher://127.0.0.1/", "//127.0.0.1/", "", "http://169.254.169.254/", f"HTTP{listener.origin[4:]}/"):
        reply = calling.post("/api/v1/run", code="1", callback_url=url, **{"async": True})
        assert (reply.status, reply.json["field"]) == (403, "callback_url"), (url, reply)
    begin(calling, callback_url=f"{listener.origin}/")
    assert [path for path, _, _ in listener.wait()] == ["/"], "control: a good one is called"


def test_without_async_there_is_nothing_to_tell(calling, listener):
    reply = calling.post("/api/v1/run", code="1", callback_url=f"{listener.origin}/")
    assert (reply.status, reply.json["field"]) == (400, "callback_url")


def test_an_operator_who_named_none(service):
    reply = service.post("/api/v1/run", code="1", callback_url="http://127.0.0.1/", **{"async": True})
    assert (reply.status, reply.json["field"]) == (501, "callback_url")


def test_nobody_there(calling):
    """Neither the service nor later callbacks suffer."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
    assert calling.run("print(1)").status == 200


def test_a_receiver_that_does_not_answer_holds_up_nobody_else(make_service, listener, tmp_path):
    """A hundred calls that take half a minute each, and after them another tenant's."""
    key = tmp_path / "key"
    key.write_bytes(KEY)
    key.chmod(0o600)
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen(200)
        origin = f"http://127.0.0.1:{silent.getsockname()[1]}"
        service = make_service(f"--callback-origin={listener.origin}", f"--callback-origin={origin}", f"--callback-key={key}")
        held = [begin(service, "1", callback_url=origin) for _ in range(100)]
        for execution in held:
            ended(service, execution)
        begin(service, callback_url=f"{listener.origin}/mine", token=True)
        assert listener.wait()[0][0] == "/mine"


@pytest.mark.parametrize("origin, data, mode, message", [
    ("https://x/path", KEY, 0o600, "is not an origin"), ("ftp://x", KEY, 0o600, "is not an origin"),
    ("https://x", KEY[:31], 0o600, "32 to 4096"), ("https://x", KEY, 0o644, "nobody else"), ("https://x", None, 0, "callback-key")])
def test_settings_that_cannot_be(make_service, tmp_path, origin, data, mode, message):
    key = tmp_path / "key"
    flags = [f"--callback-origin={origin}"]
    if data:
        key.write_bytes(data)
        key.chmod(mode)
        flags.append(f"--callback-key={key}")
    code, text = make_service(start=False).fails(*flags)
    assert code in (64, 66, 68) and message in text
