"""Output while it happens; and clients that do not read it, or go away."""
import contextlib
import json
import pathlib
import random
import time

import pytest

from cli.helpers import has_asan, only, status_of

from .events import Stream, output, parse, raw
from .helpers import ROOT, wait_until


def stream(service, code, path="/api/v1/run", **more):
    reply = service.post(f"{path}?stream=1", code=code, **more)
    assert (reply.status, reply.headers["Content-Type"]) == (200, "text/event-stream"), reply
    return parse(reply.body.decode())


def test_events_in_order(service):
    events = stream(service, "import sys; print('out'); sys.stdout.flush(); print('err', file=sys.stderr); sys.exit(3)")
    assert [event for event, _ in events][0] == "start" and events[-1][0] == "result"
    assert output(events) == b"out\n" and output(events, "stderr") == b"err\n"
    result = events[-1][1]
    assert (result["verdict"], result["exit_code"], result["stdout"]) == ("nonzero", 3, "")
    assert result["stdout_bytes_seen"] == 4
    assert result["execution_id"] == events[0][1]["execution_id"]
    assert service.get(f"/api/v1/executions/{result['execution_id']}").json["verdict"] == "nonzero"


def test_events_come_when_they_happen(service):
    with Stream(service, code="print('first', flush=True); input()", timeout_seconds=30) as it:
        began = time.monotonic()
        assert next(iter(it))[0] == "start"
        assert output(list(it)) == b"first\n", "and it ends: standard input is empty"
        assert time.monotonic() - began < 20


@pytest.mark.parametrize("more", [{}, {"cold": True}, {"language": "sh", "code": "python3 -c 'print(1); import time; time.sleep(300)'"}])
def test_what_is_printed_comes_while_it_runs(service, more):
    """It waits until it is cancelled, which happens once its output is there."""
    with Stream(service, **{"code": "print(1)\nimport time; time.sleep(300)", "timeout_seconds": 120, **more}) as it:
        events = []
        for event in it:
            events.append(event)
            if event[0] == "stdout" and output(events) == b"1\n":
                assert service.delete(f"/api/v1/executions/{events[0][1]['execution_id']}").status == 202
    assert output(events) == b"1\n" and events[-1][1]["verdict"] == "killed", events


LATE = "import os, sys\nprint('first', end='')\nos.write(1, b'second')\nprint('third', file=sys.stderr, end='')\nos.write(2, b'fourth')"


@pytest.mark.parametrize("is_new", [False, True])
def test_streams_write_at_once_and_others_as_ever(service, is_new):
    """In one interpreter, whose streams are changed and changed back; what a program holds on to still works."""
    box = service.create()["sandbox_id"]
    path = f"/api/v1/sandbox/{box}/execute"
    if is_new:
        service.post(path, code="exit 0", language="sh")
        service.post(path, code="1")
    for _ in range(2):
        events = stream(service, LATE, path)
        assert (output(events), output(events, "stderr")) == (b"firstsecond", b"thirdfourth")
        reply = service.post(path, code=LATE + "\nheld = sys.stdout").json
        assert (reply["output"], reply["state_kept"]) == ("secondfirst", True)
    assert output(stream(service, "print('held', file=held); os.write(1, b'back')", path)) == b"held\nback"
    assert output(stream(service, "sys.stdout.buffer.write(bytes(range(256)) * 1000)", path)) == bytes(range(256)) * 1000
    mine = "import io; sys.stdout = io.StringIO(); print('mine'); sys.stderr.write(sys.stdout.getvalue())"
    assert service.post(path, code=mine).json["stderr"] == "mine\n"
    assert output(stream(service, "print('more'); sys.stderr.write(sys.stdout.getvalue())", path), "stderr") == b"mine\nmore\n"
    service.delete(f"/api/v1/sandbox/{box}")


def test_a_caller_may_have_it_buffered(service):
    for cold in (False, True):
        events = stream(service, LATE, cold=cold, env={"PYTHONUNBUFFERED": ""})
        assert output(events) == b"secondfirst", cold
        assert service.run(LATE, cold=cold, env={"PYTHONUNBUFFERED": "1"}).json["stdout"] == "firstsecond", cold


def test_in_a_sandbox_and_with_its_token(service):
    box = service.create()
    path = f"/api/v1/sandbox/{box['sandbox_id']}/execute"
    stream(service, "x = 41", path)
    with Stream(service, path, token=box["access_token"], code="print(x + 1)") as it:
        assert output(list(it)) == b"42\n"
    service.delete(f"/api/v1/sandbox/{box['sandbox_id']}")


@pytest.mark.parametrize("data", ["'a\\r\\nb\\n\\nevent: result\\ndata: {}\\n\\n'.encode()", "'é€😀'.encode() * 30_000",
                                  "bytes(range(256)) * 500", "b'\\xf0\\x9f'", "b'\\0\\x1b[0m'"])
def test_every_byte_arrives_and_none_is_an_event(service, data):
    events = stream(service, f"import sys; sys.stdout.buffer.write({data})")
    assert {event for event, _ in events} == {"start", "stdout", "result"}
    assert output(events) == eval(data)


def test_characters_are_not_cut(service):
    events = stream(service, "import os, time\nfor c in '😀€é'.encode():\n os.write(1, bytes([c])); time.sleep(0.01)")
    assert "".join(data["data"] for event, data in events if event == "stdout") == "😀€é"
    assert not any("data_base64" in data for _, data in events)


@pytest.mark.parametrize("body, status", [({"code": 1}, 400), ({"code": "1", "language": "nope"}, 400),
                                          ({"code": "1", "async": True}, 400), ({"code": "1", "isolation_level": "high"}, 422)])
def test_what_cannot_start_is_an_error_not_a_stream(service, body, status):
    reply = service.post("/api/v1/run?stream=1", **body)
    assert reply.status == status and reply.json["message"]


def test_artifacts_are_events(service):
    code = "open('output/big','wb').write(b'x' * 9_000_000); open('output/small','w').write('s'); print('said')"
    events = stream(service, code, artifacts=True)
    found = {data["name"]: data for event, data in events if event == "artifact"}
    assert found["small"]["content"] == "s" and found["big"]["content"] == "x" * 9_000_000
    assert output(events) == b"said\n"
    assert [sorted(item) for item in events[-1][1]["artifacts"]] == [["bytes", "name", "sha256", "type"]] * 2


def test_many_artifacts_are_told(service):
    """The result is one event with all their names; it was dropped where that took more than a megabyte."""
    events = stream(service, "for i in range(6000): open(f'output/{i:0200}', 'w').close()", artifacts=True, timeout_seconds=60)
    assert [event for event, _ in events if event != "artifact"] == ["start", "result"]
    assert len(events) == 6002 and len(events[-1][1]["artifacts"]) == 6000


def test_all_output_comes_before_the_result(service):
    for size in (100_000, 700_000, 3_000_000):
        events = stream(service, f"print('x' * {size})")
        assert events[-1][0] == "result" and len(output(events[:-1])) == size + 1


def test_limits_hold(service):
    events = stream(service, "print('x', flush=True)\nwhile True: pass", timeout_seconds=0.3)
    assert events[-1][1]["verdict"] == "timeout"
    events = stream(service, "print('y' * 100_000)", resource_limits={"output_limit": 1000})
    assert len(output(events)) == 1000 and events[-1][1]["stdout_truncated"]


# ---- AP-26 ----

def begin(sock, service, code, path="/api/v1/run?stream=1", **more):
    body = json.dumps({"code": code, **more})
    sock.sendall(f"POST {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {service.token}\r\n"
                 f"Content-Length: {len(body)}\r\n\r\n{body}".encode())


WRITES = "import sys\nfor i in range(600): sys.stdout.write('x' * 65535 + '\\n')\nprint('done', file=sys.stderr)"


WRITTEN = 600 * 65536
# What the kernel may keep between the two (tcp_wmem, tcp_rmem), and the front (out_bytes, and a round's more).
ON_THE_WAY, KEPT_KIB = 16 << 20, 12 << 10


def front_kib(service, which):
    """VmRSS: now; VmHWM: the most it ever was. 0 with a sanitizer, which keeps what was freed."""
    pid, = service.fronts()
    return 0 if has_asan() else int(status_of(pid)[which].split()[0])


def test_a_client_that_never_reads_is_dropped_and_the_run_goes_on(make_service):
    service = make_service("--high-isolation=none")
    assert service.run("print('x' * 100_000)").status == 200
    before = front_kib(service, "VmRSS")
    with raw(service) as sock:
        begin(sock, service, WRITES, timeout_seconds=60)
        head = b""
        while b'"}\n\n' not in head:
            head += sock.recv(1)  # and no more
        execution = json.loads(head.split(b"data: ", 1)[1].split(b"\n")[0])["execution_id"]
        record = wait_until(lambda: (row := service.get(f"/api/v1/executions/{execution}", token=True).json)["state"]
                            not in ("queued", "running") and row, "its end")
        most = front_kib(service, "VmHWM")
        rest = b""
        with contextlib.suppress(ConnectionResetError):
            while piece := sock.recv(1 << 20):
                rest += piece
                assert len(rest) < WRITTEN, "it was not dropped"
    assert record["verdict"] == "ok", "it ran to its end, for nobody"
    assert len(rest) < ON_THE_WAY and b"event: result" not in rest and not rest.endswith(b"0\r\n\r\n"), "dropped in the middle"
    assert most < before + KEPT_KIB, "nothing was kept for it"


def test_control_a_client_that_reads_gets_it_all(service):
    with Stream(service, code=WRITES, timeout_seconds=60) as it:
        events = list(it)
    assert events[-1][1]["verdict"] == "ok" and len(output(events)) == WRITTEN


def test_control_memory_of_the_front_would_be_seen(make_service):
    """What it does keep, for a while: the body of a request."""
    service = make_service("--high-isolation=none")
    assert service.run("print('x' * 100_000)").status == 200
    before = front_kib(service, "VmRSS")
    assert service.run("print(1)", input="x" * (15 << 20)).status == 200
    assert has_asan() or front_kib(service, "VmHWM") > before + KEPT_KIB


# ---- DR-03 ----

def of_program(mark):
    """Processes with that word in their command line."""
    found = []
    for entry in pathlib.Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if entry.name.isdigit() and mark.encode() in (entry / "cmdline").read_bytes().split(b"\0"):
                found.append(int(entry.name))
    return found


@pytest.mark.parametrize("path", ["/api/v1/run", "/api/v1/run?stream=1"])
def test_whoever_disconnects_ends_the_run(service, path):
    before = set(service.get("/api/v1/executions", token=True).json["executions"][i]["execution_id"]
                 for i in range(len(service.get("/api/v1/executions", token=True).json["executions"])))

    def mine():
        rows = service.get("/api/v1/executions", token=True).json["executions"]
        return [row for row in rows if row["execution_id"] not in before]
    with raw(service) as sock:
        mark = f"97.{random.randrange(10**9)}"
        begin(sock, service, f"import subprocess; subprocess.run(['sleep', '{mark}'])", path, timeout_seconds=120)
        wait_until(lambda: any(row["state"] == "running" for row in mine()), "the start")
        wait_until(lambda: of_program(mark), "its process")
    began = time.monotonic()
    wait_until(lambda: all(row["state"] == "finished" for row in mine()), "the end")
    assert time.monotonic() - began < 20
    assert [row["verdict"] for row in mine()] == ["killed"]
    wait_until(lambda: not of_program(mark), "the end of its process")


def test_a_sandbox_outlives_a_client_that_disconnects(service):
    box = service.create()
    url = f"/api/v1/sandbox/{box['sandbox_id']}"
    with raw(service) as sock:
        body = '{"code": "import time; time.sleep(100)"}'
        sock.sendall(f"POST {url}/execute HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {box['access_token']}\r\n"
                     f"Content-Length: {len(body)}\r\n\r\n{body}".encode())
        wait_until(lambda: service.get(url).json["state"] == "busy", "the start")
    wait_until(lambda: service.get(url).json["state"] == "idle", "the end")
    assert service.post(f"{url}/execute", code="print(5)").json["output"] == "5\n"
    service.delete(url)


@only(ROOT)  # once is enough: it takes its time
def test_silence_is_not_the_end(service):
    """A proxy in between closes what says nothing; a comment is something, and no event."""
    text = service.post("/api/v1/run?stream=1", code="import time; time.sleep(16)").body.decode()
    assert text.count("\n:\n\n") == 1, text
    assert [event for event, _ in parse(text)] == ["start", "result"], text
