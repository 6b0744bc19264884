"""Executions whose client does not wait: status, result, cancel, callback."""
import hashlib
import hmac
import http.server
import json
import os
import pathlib
import re
import signal
import socket
import threading
import time

import pytest

from .helpers import ROOT, wait_until
from .spec import Spec


def begin(service, code="print(6 * 7)", path="/api/v1/run", **more):
    reply = service.post(path, code=code, **{"async": True, **more})
    assert (reply.status, reply.json["state"]) == (202, "queued"), reply
    return reply.json["execution_id"]


def status(service, execution, **options):
    return service.get(f"/api/v1/executions/{execution}", **options).json


def ended(service, execution):
    return wait_until(lambda: (row := status(service, execution))["state"] not in ("queued", "running") and row, "its end")


if ROOT: # whose sandboxes have a group that counts
    def test_what_earlier_programs_met_is_not_its_own(service):
        """Nor is what it has met that of the next: the kernel counts for the whole sandbox."""
        box = f"/api/v1/sandbox/{service.create(resource_limits={'memory_mb': 64})['sandbox_id']}"
        hog, fail = "x = bytearray(300 << 20)", "raise SystemExit(3)"

        def at_once(code):
            result = service.post(f"{box}/execute", code=code).json
            return result["verdict"], result["oom_kills"]

        def later(code):
            result = ended(service, begin(service, code, f"{box}/execute"))["result"]
            wait_until(lambda: service.get(box).json["state"] == "idle", "the sandbox")  # the record may come first
            return result["verdict"], result["oom_kills"]
        assert at_once(hog) == ("oom", 1) and later(fail) == ("nonzero", 0) and at_once(fail) == ("nonzero", 0)
        assert later(hog) == ("oom", 1) and at_once(fail) == ("nonzero", 0) and later(fail) == ("nonzero", 0)


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


def test_a_callback_of_a_sandbox_is_as_the_document_says(calling, listener):
    spec = Spec(calling.get("/openapi.json").json)
    box = calling.create(agent_id="bot")["sandbox_id"]
    path = f"/api/v1/sandbox/{box}/execute"
    execution = calling.post(path, code="1", callback_url=f"{listener.origin}/box", **{"async": True}).json["execution_id"]
    [(_, headers, body)] = listener.wait()
    told = json.loads(body)
    assert (told["execution_id"], told["sandbox_id"], told["agent_id"]) == (execution, box, "bot")
    assert status(calling, execution)["agent_id"] == "bot"
    [called] = spec.operation("execute")[2]["callbacks"]["ended"].values()
    schema = called["post"]["requestBody"]["content"]["application/json"]["schema"]
    spec.validate(schema, told)
    spec.check_known(schema, told)
    assert {item["name"] for item in called["post"]["parameters"]} <= set(headers)


def documented_check():
    """is_good of docs/API.md, as it stands there."""
    text = (pathlib.Path(__file__).parents[2] / "docs/API.md").read_text()
    [code] = re.findall(r"```python\n(def is_good.*?)```", text, re.S)
    names = {"hmac": hmac, "hashlib": hashlib, "json": json, "time": time}
    exec(code, names)
    return names["is_good"]


def test_a_callback_says_whose_it_is_and_for_whom(calling, listener):
    """The same key signs for all: another tenant's run with my address has a good signature too."""
    is_good = documented_check()
    url = f"{listener.origin}/hooks/mine?x=1"
    theirs = begin(calling, agent_id="mine", callback_url=url)
    mine = begin(calling, agent_id="mine", callback_url=url, token=True)
    calls = {json.loads(body)["execution_id"]: (headers["Coto-Signature"], body) for _, headers, body in listener.wait(2)}
    assert is_good(KEY, *calls[mine], "local", url)
    assert not is_good(KEY, *calls[theirs], "local", url) and is_good(KEY, *calls[theirs], f"uid:{os.getuid()}", url)
    assert not is_good(KEY, *calls[mine], "local", f"{listener.origin}/hooks/other"), "meant for another address"
    header, body = calls[theirs]
    forged = body.replace(f"uid:{os.getuid()}".encode(), b"local")
    assert forged != body and not is_good(KEY, header, forged, "local", url), "the signature covers it"
    assert not is_good(KEY, re.sub(r"t=\d+", f"t={int(time.time()) - 1}", calls[mine][0]), calls[mine][1], "local", url)


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
                "file:///etc/passwd", "gopher://127.0.0.1/", "http://169.254.169.254/", f"HTTP{listener.origin[4:]}/"):
        reply = calling.post("/api/v1/run", code="1", callback_url=url, **{"async": True})
        assert (reply.status, reply.json["field"]) == (403, "callback_url"), (url, reply)
    for url in ("//127.0.0.1/", "", "nonsense"):
        reply = calling.post("/api/v1/run", code="1", callback_url=url, **{"async": True})
        assert (reply.status, reply.json["field"]) == (400, "callback_url") and "https://" in reply.json["remedy"], (url, reply)
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


def test_lost_callbacks_are_counted_and_do_not_fill_the_log(make_service, key):
    """DR-12: whoever has them sent to nobody who answers."""
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen(500)
        origin = f"http://127.0.0.1:{silent.getsockname()[1]}"
        service = make_service(f"--callback-origin={origin}", f"--callback-key={key}")
        for _ in range(340):  # 24 are called, 256 wait
            wait_until(lambda: service.run("1", callback_url=origin, **{"async": True}).status == 202, "room for one more")

        def lost():
            return int(re.search(r"^coto_callbacks_lost_total (\d+)$", service.get("/metrics").body.decode(), re.M)[1])
        wait_until(lambda: lost() >= 40, "the count of them")
        assert 1 <= service.messages.count("callbacks are lost") <= 2, service.messages
        assert lost() <= 340 - 256


def test_callbacks_that_are_refused_do_not_fill_the_log(make_service, key):
    """DR-12: to a path that is not there, of a receiver that anybody may name."""
    class Absent(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self):
            self.rfile.read(int(self.headers["Content-Length"]))
            self.send_error(404)
            called.append(self.path)

        def log_message(self, *_):
            pass

    called = []
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Absent) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        origin = f"http://127.0.0.1:{server.server_port}"
        service = make_service(f"--callback-origin={origin}", f"--callback-key={key}")
        for _ in range(60):
            wait_until(lambda: service.run("1", callback_url=f"{origin}/x", **{"async": True}).status == 202, "room for one more")
        wait_until(lambda: len(called) >= 60, "all calls")
        wait_until(lambda: ": it answered with status 404" in service.messages, "a word about it")
        time.sleep(0.5)
        assert service.messages.count("failed") == 1 and "/x" not in service.messages, service.messages
        server.shutdown()


@pytest.fixture
def key(tmp_path):
    it = tmp_path / "key"
    it.write_bytes(KEY)
    it.chmod(0o600)
    return it


def test_a_call_that_has_ended_is_not_left_as_a_zombie(make_service, listener, key):
    """Nothing else happens there meanwhile that would wake who reaps."""
    service = make_service(f"--callback-origin={listener.origin}", f"--callback-key={key}")
    ended(service, begin(service, callback_url=f"{listener.origin}/one"))
    listener.wait()
    watcher, taker, *_ = sorted(pid for pid, what in service.members() if what == "coto-callback")
    children = pathlib.Path(f"/proc/{taker}/task/{taker}/children")
    until = time.monotonic() + 10
    while children.read_text().split() and time.monotonic() < until:
        time.sleep(0.05)
    assert not children.read_text().split()


def test_who_calls_is_there_again_after_it_was_killed(make_service, listener, key):
    service = make_service(f"--callback-origin={listener.origin}", f"--callback-key={key}")

    def callers():
        return [pid for pid, what in service.members() if what == "coto-callback"]
    watcher, taker = wait_until(lambda: len(callers()) == 2 and sorted(callers()), "both")
    os.kill(taker, signal.SIGKILL)
    wait_until(lambda: len(callers()) == 2 and taker not in callers(), "another")
    begin(service, callback_url=f"{listener.origin}/after")
    assert listener.wait()[0][0] == "/after"
    assert watcher in callers()


@pytest.mark.parametrize("number, to_group", [(signal.SIGTERM, False), (signal.SIGINT, True)], ids=["stop", "key press"])
def test_what_the_service_waits_for_at_its_end_is_told(make_service, listener, key, number, to_group):
    """An execution is waited for: then whoever was to hear of its end does."""
    service = make_service(f"--callback-origin={listener.origin}", f"--callback-key={key}", "--drain=50s")
    execution = begin(service, "import time; time.sleep(2)", callback_url=f"{listener.origin}/last")
    wait_until(lambda: status(service, execution)["state"] == "running", "its beginning")
    (os.killpg if to_group else os.kill)(service.process.pid, number)
    assert service.process.wait(60) == 0, service.messages
    assert [(path, json.loads(body)["verdict"]) for path, _, body in listener.calls] == [("/last", "ok")]


def test_what_the_service_does_not_wait_for_is_told_too(make_service, listener, key):
    """It is ended first."""
    service = make_service(f"--callback-origin={listener.origin}", f"--callback-key={key}", "--drain=300ms")
    execution = begin(service, "import time; time.sleep(60)", callback_url=f"{listener.origin}/last")
    wait_until(lambda: status(service, execution)["state"] == "running", "its beginning")
    assert service.stop() == 0
    assert [(path, json.loads(body)["verdict"]) for path, _, body in listener.calls] == [("/last", "killed")]


def test_the_end_does_not_wait_for_a_receiver_that_does_not_answer(make_service, key):
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen(5)
        origin = f"http://127.0.0.1:{silent.getsockname()[1]}"
        service = make_service(f"--callback-origin={origin}", f"--callback-key={key}")
        ended(service, begin(service, "1", callback_url=origin))
        began = time.monotonic()
        assert service.stop() == 0
        assert time.monotonic() - began < 20, "three tries take half a minute"


def test_the_end_of_a_terminal_is_no_end_of_callbacks(make_service, listener, key):
    """The service reads its settings again, and goes on."""
    service = make_service(f"--callback-origin={listener.origin}", f"--callback-key={key}")
    os.killpg(service.process.pid, signal.SIGHUP)
    wait_until(lambda: "reloaded" in service.messages, "the reload")
    begin(service, callback_url=f"{listener.origin}/on")
    assert listener.wait()[0][0] == "/on"


@pytest.mark.parametrize("end", [b"\n", b"\r\n"], ids=["unix", "dos"])
def test_the_line_end_of_a_key_file_is_not_the_key(make_service, listener, key, end):
    """As `openssl rand -hex 32 > FILE` leaves one; one, not all."""
    text = b"0123456789abcdef" * 2 + b"\n"
    key.write_bytes(text + end)
    service = make_service(f"--callback-origin={listener.origin}", f"--callback-key={key}")
    begin(service, callback_url=f"{listener.origin}/line")
    _, headers, body = listener.wait()[0]
    assert is_signed(headers, body, text) and not is_signed(headers, body, text + end)


def test_a_key_that_is_too_short_without_its_line_end(make_service, key):
    key.write_bytes(b"x" * 31 + b"\n")
    service = make_service()
    assert service.stop() == 0
    status, text = service.fails("--callback-origin=https://x", f"--callback-key={key}")
    assert status and "less than 32 bytes" in text
    service.process = None


def test_a_key_behind_a_link(make_service, listener, key, tmp_path):
    """As a mounted secret is one."""
    (tmp_path / "link").symlink_to(key)
    service = make_service(f"--callback-origin={listener.origin}", f"--callback-key={tmp_path / 'link'}")
    begin(service, callback_url=f"{listener.origin}/linked")
    assert is_signed(*listener.wait()[0][1:])


def test_more_origins_than_can_be_called_are_refused(make_service, key):
    origins = [f"--callback-origin=https://host{i}" for i in range(51)]
    code, text = make_service(start=False).fails(*origins, f"--callback-key={key}")
    assert code == 64 and "callback-origin: 50 at most" in text, text


def test_a_receiver_that_does_not_answer_holds_up_nobody_else(make_service, listener, key):
    """A hundred calls that take half a minute each, and after them another tenant's."""
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
