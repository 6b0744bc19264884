"""The API rows of the threats: requests no honest client sends, to the real service. Rows that
live elsewhere: AP-09, 17, 19 in test_zero, AP-10 to 12, 15, 16 in tests/auth and the production
tests, AP-20 in test_tenants, AP-21 in test_keys, AP-26 and DR-03 in test_streams, DR-12 in test_log."""
import contextlib
import json
import os
import pathlib
import random
import resource
import select
import signal
import socket
import struct
import subprocess
import threading
import time

import pytest

from cli.helpers import CGROUPS, SLOW, descendants, has_asan, only, read
from server.helpers import Client

from . import puppet
from .events import raw
from .helpers import PATIENCE, ROOT, wait_until


def head(service, line="POST /api/v1/run", *fields):
    return "".join(f"{it}\r\n" for it in (f"{line} HTTP/1.1", "Host: localhost", f"Authorization: Bearer {service.token}",
                                          *fields, "")).encode()


def send(service, data):
    with raw(service) as sock, Client(sock) as client:
        client.send(data)
        return client.reply(data.split(b" ", 1)[0].decode())


def body_of(service, text):
    data = text if isinstance(text, bytes) else text.encode()
    return send(service, head(service, "POST /api/v1/run", f"Content-Length: {len(data)}") + data)


def front(service):
    return next(pid for pid, name in service.members() if name == "coto-front")


def kept(service, box):
    """Descriptors without those of workers, which keep a channel each, and of sandboxes that somebody else has created."""
    for row in service.get("/api/v1/sandbox").json["sandboxes"]:
        if row["sandbox_id"] != box:
            service.delete(f"/api/v1/sandbox/{row['sandbox_id']}")
    return descriptors(service) - len(os.listdir(f"/proc/{front(service)}/task"))


def descriptors(service):
    path = f"/proc/{front(service)}/fd"
    return os.stat(path).st_size or len(os.listdir(path))  # newer kernels tell everybody how many


def paused(ask):
    time.sleep(0.05)
    return ask()


def resident_kib(service):
    if has_asan():
        return 0  # a sanitizer keeps what was freed
    return int(pathlib.Path(f"/proc/{front(service)}/status").read_text().split("VmRSS:")[1].split()[0])


def is_well(service):
    return service.run("print(1)").json["stdout"] == "1\n"


# ---- AP-01 ----

def test_ap_01_large_bodies(service):
    before = resident_kib(service)
    assert send(service, head(service, "POST /api/v1/run", f"Content-Length: {1 << 30}")).status == 413
    with raw(service) as sock, Client(sock) as client:
        client.send(head(service, "POST /api/v1/run", "Transfer-Encoding: chunked"))
        sent = 0
        with contextlib.suppress(OSError):
            while sent < 64 << 20:
                client.send(b"10000\r\n" + b"x" * 65536 + b"\r\n")
                sent += 65536
        assert sent < 40 << 20, "cut long before"
        assert client.reply("POST").status == 413
    wait_until(lambda: resident_kib(service) < before + 40_000, "memory given back")
    assert is_well(service)


# ---- AP-02 ----

def times_of(service, count=15):
    """How long each of so many runs takes, one after the other."""
    def one():
        began = time.monotonic()
        assert service.run("print(1)", token=True).json["stdout"] == "1\n"
        return time.monotonic() - began
    return sorted(one() for _ in range(count))


def assert_undisturbed(calm, meanwhile):
    """The usual one and the slowest one; what a busy machine does to both is in the calm ones."""
    middle = len(calm) // 2
    assert meanwhile[middle] < calm[middle] + SLOW, (calm, meanwhile)
    assert meanwhile[-1] < calm[-1] + 5 * SLOW, (calm, meanwhile)


def test_ap_02_slow_clients_disturb_nobody(service):
    calm = times_of(service)
    with contextlib.ExitStack() as stack:
        for i in range(200):
            sock = stack.enter_context(raw(service))
            sock.sendall([b"GET /hea", head(service, "POST /api/v1/run", "Content-Length: 100") + b"{", b""][i % 3])
        assert_undisturbed(calm, times_of(service))


def drip(client, data, seconds):
    """A byte at a time until the service has had enough; how many it took."""
    sent = 0
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):
        for byte in data:
            client.send(bytes([byte]))
            sent += 1
            if not client.is_silent(seconds):
                break
    return sent


@pytest.mark.parametrize("part", ["head", "body"])
def test_ap_02_slowloris_is_cut_though_bytes_keep_coming(service, part):
    """Each byte is in time, all of them are not; whoever takes a second or two is served."""
    body = b'{"code": "print(1)"}'
    whole = head(service, "POST /api/v1/run", f"Content-Length: {len(body)}", f"X-Long: {'x' * 1000}") + body
    at = len(whole) - len(body) if part == "body" else 0
    with raw(service) as sock, Client(sock) as client:
        client.send(whole[:-4])
        assert drip(client, whole[-4:], 0.5) == 4 and client.reply("POST").status == 200, "control"
    with raw(service) as sock, Client(sock) as client:
        client.send(whole[:at])
        assert 4 < drip(client, whole[at:], 1) < min(len(whole) - at, PATIENCE)
        assert client.reply("POST").status == 408
        assert sock.recv(1000) == b"", "and closed"


@contextlib.contextmanager
def many_descriptors(need):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < need:
        pytest.skip(f"only {hard} descriptors allowed")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, need), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def connect_from(stack, service, host):
    sock = stack.enter_context(socket.socket())
    sock.settimeout(PATIENCE)
    sock.bind((host, 0))
    sock.connect(("127.0.0.1", service.port))
    return sock


def connect_many(stack, service, host, count):
    """Not all at once: the kernel keeps few until they are taken."""
    socks = []
    for i in range(count):
        socks.append(connect_from(stack, service, host))
        if i % 32 == 31:
            time.sleep(0.01)
    return socks


def heard(socks):
    """What each was sent so far; None: nothing, and it is open."""
    def one(sock):
        sock.setblocking(False)
        try:
            return sock.recv(4096)
        except BlockingIOError:
            return None
        except OSError:
            return b""
    return [one(sock) for sock in socks]


def test_ap_02_2000_idle_connections(make_service):
    """They stay as long as one address has no more than its share; past it the eldest strangers of the same address make
    room, told so, and nobody else's."""
    service = make_service("--high-isolation=none")
    calm = times_of(service)
    is_well(service)
    before, memory = min(paused(lambda: descriptors(service)) for _ in range(20)), resident_kib(service)  # those of the last run are being closed
    with many_descriptors(3300), contextlib.ExitStack() as stack:
        here, there = (connect_many(stack, service, host, 1000) for host in ("127.0.0.1", "127.0.0.2"))
        wait_until(lambda: descriptors(service) >= before + 2000, "all of them")
        assert_undisturbed(calm, times_of(service))
        assert resident_kib(service) < memory + 40_000
        assert heard(here + there) == [None] * 2000, "none was closed"

        more = connect_many(stack, service, "127.0.0.1", 1100)
        assert_undisturbed(calm, times_of(service))
        told = [text for text in heard(here + more) if text is not None]
        assert len(told) >= 1000 + 1100 - 1024 and all(text.startswith(b"HTTP/1.1 503 ") for text in told), len(told)
        assert heard(more[-500:]) == [None] * 500, "the eldest first"
        assert heard(there) == [None] * 1000, "and of no other address"
    wait_until(lambda: descriptors(service) < before + 100, "descriptors given back")


@pytest.mark.parametrize("sent", [b"", b"G", b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n"],
                         ids=["silent", "one byte", "no body"])
def test_ap_02_who_has_no_token_shuts_nobody_out(make_service, sent):
    """All users of the machine come from one address, and one of them has many."""
    service = make_service("--connections=40", "--peer-connections=20")
    with contextlib.ExitStack() as stack:
        def flood(hosts, count):
            for i in range(count):
                sock = stack.enter_context(socket.socket())
                sock.bind((hosts[i % len(hosts)], 0))
                sock.connect(("127.0.0.1", service.port))
                with contextlib.suppress(OSError):  # has made room
                    sock.sendall(sent)
        keeps = stack.enter_context(Client(stack.enter_context(raw(service))))
        assert keeps.ask(head(service, "GET /api/v1/sandbox")).status == 200
        flood(["127.0.0.1"], 60)
        assert service.run("print(1)", token=True).json["stdout"] == "1\n"
        flood([f"127.0.0.{i}" for i in range(1, 6)], 120)
        assert service.run("print(1)", token=True).json["stdout"] == "1\n"
        assert is_well(service), "over the socket too"
        assert keeps.ask(head(service, "GET /api/v1/sandbox")).status == 200


# ---- AP-03, AP-04 ----

BAD_JSON = {
    "truncated": '{"code": "1"', "nothing": " ", "an array": "[]", "a text": '"x"', "two": "{}{}", "trailing comma": '{"code":"1",}',
    "duplicate": '{"code": "1", "code": "2"}', "duplicate inside": '{"code":"1","env":{"A":"1","A":"2"}}', "NaN": '{"code":"1","input":NaN}',
    "Infinity": '{"code":"1","input":Infinity}', "1e999": '{"code":"1","input":1e999}', "BOM": b'\xef\xbb\xbf{"code":"1"}',
    "lone surrogate": '{"code":"\\ud800"}', "NUL": '{"code":"a\\u0000b"}', "raw NUL": b'{"code":"a\0b"}', "bad UTF-8": b'{"code":"\xff"}',
    "overlong": b'{"code":"\xc0\xaf"}', "comment": '{"code":"1"/**/}', "single quotes": "{'code':'1'}", "control": '{"code":"a\nb"}',
    "hex": '{"code":"1","input":0x1}', "leading zero": '{"code":"1","input":01}', "UTF-16": '{"code":"1"}'.encode("utf-16"),
    "2^64": '{"code":"1","timeout_seconds":18446744073709551616}', "long and wrong": '{"code":"1","input":0%s}' % ("1" * 30),
    "long and cut": '{"code":"1","input":%s.}' % ("1" * 30),
}


@pytest.mark.parametrize("name", BAD_JSON)
def test_ap_03_bad_json(service, name):
    reply = body_of(service, BAD_JSON[name])
    assert reply.status == 400 and json.loads(reply.body)["message"], reply.body


def test_ap_03_no_word_of_a_library(service):
    told = json.loads(body_of(service, BAD_JSON["NUL"]).body)
    assert "u0000" in told["message"] and "JSON_" not in told["message"], told


def test_ap_03_control_good_json(service):
    assert body_of(service, '\r\n\t{"code" : "print(1)", "input": [1e2, -0.5, "\\u00e9\\ud83d\\ude00", null]} ').status == 200


HUGE = {
    "deep lists": '{"code":"1","input":' + "[" * 100_000 + "]" * 100_000 + "}",
    "deep objects": '{"code":"1","input":' + '{"a":' * 100_000 + "1" + "}" * 100_001,
    "deep and open": '{"code":"1","input":' + "[" * 1_000_000,
    "a million keys": '{"code":"1","input":{' + ",".join(f'"{i}":0' for i in range(1_000_000)) + "}}",
    "a million fields": "{" + ",".join(f'"{i}":0' for i in range(1_000_000)) + "}",
    "a long number": '{"code":"1","input":' + "9" * (10 << 20) + "}",
    "a long fraction": '{"code":"1","input":0.' + "9" * (10 << 20) + "}",
    "a long number where one belongs": '{"code":"1","timeout_seconds":' + "9" * (10 << 20) + "}",
    "a long string where a number belongs": '{"code":"1","timeout_seconds":"' + "9" * (10 << 20) + '"}',
    "a long name": '{"code":"1","profile":"' + "\\u00e9" * ((10 << 20) // 6) + '"}',
    "a long key": '{"' + "k" * (10 << 20) + '":1}',
    "a long field name": '{"code":"1","' + "k" * 1_000_000 + '":1}',
}


# Of the same size, and nothing is wrong with them.
LONG = {
    "a long string": '{"code":"import json, sys; print(len(json.load(sys.stdin)))","input":"' + "x" * (10 << 20) + '"}',
    "a long program": '{"code":"print(%d) #' % (10 << 20) + "x" * (10 << 20) + '"}',
}


def spent(pid):
    """CPU time of its first thread, the loop's, and of the others; ns."""
    times = {int(path.parent.name): int(path.read_text().split()[0]) for path in pathlib.Path(f"/proc/{pid}/task").glob("*/schedstat")}
    return times.pop(pid), sum(times.values())


def spent_on(service, meanwhile):
    """Seconds of the loop and of the other threads, and what meanwhile returned."""
    pid = front(service)
    before = spent(pid)
    result = meanwhile()
    return *((now - then) / 1e9 for now, then in zip(spent(pid), before)), result


def longest_wait(service, meanwhile):
    """Of somebody who asks for nothing much all the time, and what meanwhile returned."""
    waits = []
    stop = threading.Event()

    def watch():
        with contextlib.closing(service.connect()) as connection:
            while not stop.is_set():
                began = time.monotonic()
                connection.request("GET", "/healthz")
                connection.getresponse().read()
                waits.append(time.monotonic() - began)
    thread = threading.Thread(target=watch)
    thread.start()
    try:
        wait_until(lambda: waits, "somebody else's answer")
        result = meanwhile()
        count = len(waits)
        wait_until(lambda: len(waits) > count + 1 or not thread.is_alive(), "the answer that was waited for")
    finally:
        stop.set()
        thread.join()
    return max(waits), result


def assert_cheap(service, text, most=0.1):
    """Little of the loop's time, which is everybody's; not much of a worker's; nobody waits for it. The reply."""
    slower = SLOW * (10 if has_asan() else 1)
    loop, others, _ = spent_on(service, lambda: body_of(service, text))
    assert loop < 0.1 * slower and loop + others < most * slower, (loop, others)
    calm, _ = longest_wait(service, lambda: time.sleep(0.3))
    longest, reply = longest_wait(service, lambda: body_of(service, text))
    assert longest < calm + 5 * slower, (calm, longest)
    return reply


@pytest.mark.parametrize("name", HUGE)
def test_ap_04_huge_json(service, name):
    reply = assert_cheap(service, HUGE[name])
    assert reply.status == 400 and len(reply.body) < 2000, reply.body


@pytest.mark.parametrize("name", LONG)
def test_ap_04_long_values(service, name):
    reply = assert_cheap(service, LONG[name], 0.3)
    assert (reply.status, json.loads(reply.body)["stdout"]) == (200, f"{10 << 20}\n"), reply.body[:2000]


def test_ap_04_control_a_loop_that_works_or_stands_still_would_be_seen(service):
    def ask_often():
        with contextlib.closing(service.connect()) as connection:
            for _ in range(1000):
                connection.request("GET", "/healthz")
                connection.getresponse().read()

    def stand_still():
        os.kill(front(service), signal.SIGSTOP)
        try:
            time.sleep(6 * SLOW)
        finally:
            os.kill(front(service), signal.SIGCONT)
    began = spent(front(service))[0]
    wait_until(lambda: ask_often() or spent(front(service))[0] > began + 0.1e9, "a tenth of a second of work")
    assert longest_wait(service, stand_still)[0] > 5 * SLOW


MANY_VALUES = json.dumps({"code": "import json, sys; print(len(json.load(sys.stdin)))", "input": [[[]]] * 90_000})


def test_a_large_body_is_not_parsed_on_the_loop(make_service):
    service = make_service("--durability=off", "--high-isolation=none")
    assert body_of(service, MANY_VALUES).status == 200
    loop, others, replies = spent_on(service, lambda: [body_of(service, MANY_VALUES) for _ in range(10)])
    assert {json.loads(reply.body)["stdout"] for reply in replies} == {"90000\n"}
    assert loop < others / 2, (loop, others)


def test_large_bodies_everywhere(service):
    """They go another way from there on: in a sandbox, with a key, async, and with something wrong."""
    large = {"files": [{"path": "f", "content": "x" * 300_000}]}
    count = "print(len(open('f').read()))"
    box = service.create(**large)
    url = f"/api/v1/sandbox/{box['sandbox_id']}"
    assert service.post(f"{url}/execute", code=count).json["output"] == "300000\n"
    assert service.post(f"{url}/execute", code=count, files=[{"path": "f", "content": "y" * 70_000}]).json["output"] == "70000\n"
    first, again = (service.post("/api/v1/run", key="large", code=count, **large) for _ in range(2))
    assert first.json["stdout"] == "300000\n" and again.json == first.json and again.headers["Idempotent-Replayed"] == "true"
    other = service.post("/api/v1/run", key="large", code=count, files=[{"path": "f", "content": "z" * 300_000}])
    assert other.status == 409, other
    execution = service.post("/api/v1/run", code=count, **large, **{"async": True}).json["execution_id"]
    row = wait_until(lambda: (got := service.get(f"/api/v1/executions/{execution}").json)["state"] == "finished" and got, "its end")
    assert row["result"]["stdout"] == "300000\n"
    for more, field in (({"cide": 1}, "cide"), ({"timeout_seconds": "x"}, "timeout_seconds"), ({"profile": "nosuch"}, "profile")):
        reply = service.post("/api/v1/run", code=count, **large, **more)
        assert (reply.status, reply.json["field"]) == (400, field), reply
    service.delete(url)
    assert service.post(f"{url}/execute", code=count, **large).status == 404


def test_clients_that_go_while_their_body_is_parsed(service):
    for _ in range(20):
        with contextlib.closing(service.connect()) as connection:
            connection.request("POST", "/api/v1/run", MANY_VALUES)
    assert service.run("print(1)").json["stdout"] == "1\n"


# ---- AP-05, AP-24 ----

@pytest.mark.parametrize("field", ["privileged", "uid", "user", "__proto__", "constructor", "cap_add", "mount", "volumes", "image", "rootfs",
                                   "network", "seccomp", "isolation", "require", "allow_missing", "apparmor", "Code", "tenant", "report", ""])
def test_ap_05_fields_that_are_not_offered(service, field):
    for path in ("/api/v1/run", "/api/v1/sandbox/create"):
        reply = service.ask("POST", path, {"code": "1", field: True} if "run" in path else {field: True})
        assert (reply.status, reply.json["field"]) == (400, field or '""'), reply
    reply = service.run("1", resource_limits={field: 1})
    assert (reply.status, reply.json["field"]) == (400, f"resource_limits.{field}")


@pytest.mark.parametrize("value", ["/", "file:///etc", "docker://user:secret@host/image", "a;reboot", "$(reboot)", "../../etc", "-v/:/host"])
def test_ap_24_nothing_names_a_place_of_the_host(service, value):
    for field in ("image", "rootfs", "mount", "copy"):
        assert service.run("1", **{field: value}).status == 400
    for body in ({"profile": value}, {"language": value}, {"isolation_level": value}):
        assert service.run("1", **body).status == 400


@pytest.mark.parametrize("limits", [{"memory": "none"}, {"memory_mb": 100_000}, {"pids": "none"}, {"pids": 10**9}, {"cpus": "none"}, {"cpu": 1000},
                                    {"disk": "1000g"}, {"memory": -1}, {"memory": "x"}, {"pids": 0}, {"memory": {}}, {"noexec": 1}, {"memory": 1e300}])
def test_no_caller_is_above_the_ceiling(service, limits):
    reply = service.run("1", resource_limits=limits)
    assert reply.status == 400 and reply.json["field"].startswith("resource_limits."), reply


# ---- AP-06 ----

ID = "00000000-0000-4000-8000-000000000000"


def files_of(service):
    """Names in its directories and who they are; without what it does of itself: the records' log."""
    return {str(path): path.lstat().st_ino for place in (service.state, service.runtime) for path in sorted(place.rglob("*"))
            if not path.name.endswith(("-wal", "-shm"))}


@pytest.mark.parametrize("name", ["../x", "%2e%2e%2f", "a/b", ".", "", "x" * 4096, "%00", "%0a", ID.upper().replace("0", "A"), ID + "x", ID[:-1],
                                  ID.replace("0", "%EF%BC%90", 1), f" {ID}", f"{ID}%20", f"{ID}/", f"{ID}/execute/", "create", "..;", "*", "%ff"])
def test_ap_06_ids(service, name):
    before = files_of(service)
    for method, path in (("GET", ""), ("DELETE", ""), ("POST", "/execute"), ("GET", "/files")):
        for room in ("sandbox", "executions"):
            line = f"{method} /api/v1/{room}/{name}{path}".replace(" /", "\0").replace(" ", "%20").replace("\0", " /")
            status = send(service, head(service, line, "Content-Length: 0")).status
            assert status in (400, 404, 405, 414) or (name == "" and status == 200), (line, status)
    assert service.get(f"/api/v1/sandbox/{ID}").status == 404
    assert files_of(service) == before, "no file was made, removed or renamed"


# ---- AP-07, AP-08 ----

@pytest.mark.parametrize("fields, status", [
    (["Content-Length: 2", "Transfer-Encoding: chunked"], 400), (["Content-Length: 2", "Content-Length: 3"], 400),
    (["Transfer-Encoding : chunked"], 400), (["Transfer-Encoding: chunked, identity"], 501), (["A: b\r\n c"], 400), (["A: b\nC: d"], 400)])
def test_ap_07_smuggling(service, fields, status):
    with raw(service) as sock, Client(sock) as client:
        client.send(head(service, "POST /api/v1/run", *fields) + b"{}" + head(service, "GET /api/v1/sandbox"))
        assert client.reply("POST").status == status
        assert sock.recv(1000) == b"", "and closed: what follows is no request"


def test_ap_08_methods(service):
    for method, status in (("TRACE", 405), ("CONNECT", 405), ("PATCH", 405), ("OPTIONS", 405), ("GET", 405), ("HEAD", 405)):
        assert send(service, head(service, f"{method} /api/v1/run")).status == status, method
    before = service.get("/api/v1/sandbox", token=True).json
    assert send(service, head(service, "GET /api/v1/sandbox/create")).status in (404, 405)
    assert service.get("/api/v1/sandbox", token=True).json == before, "GET makes nothing"
    assert send(service, head(service, "GET /healthz", "A: " + "b" * 65536)).status == 431
    assert send(service, head(service, "GET /healthz", *["A: b"] * 1000)).status == 431
    with raw(service) as sock:
        sock.sendall(b"GET /healthz\r\n")
        assert sock.recv(100).startswith(b"HTTP/1.1 400")


# ---- AP-13, AP-14 ----

def test_ap_13_a_token_opens_its_own_sandbox_only(service):
    first, second = service.create(), service.create()
    token = first["access_token"]
    other = f"/api/v1/sandbox/{second['sandbox_id']}"
    for method, path in (("GET", other), ("POST", f"{other}/execute"), ("GET", f"{other}/files"), ("PUT", f"{other}/files?path=a"),
                         ("GET", f"{other}/archive"), ("GET", f"{other}/artifacts")):
        assert service.ask(method, path, {"code": "1"} if method == "POST" else None, token=token).status == 404, path
    for method, path in (("DELETE", other), ("GET", "/api/v1/sandbox"), ("POST", "/api/v1/run"), ("POST", "/api/v1/sandbox/create"),
                         ("GET", "/metrics"), ("GET", "/api/v1/executions"), ("GET", "/api/v1/capabilities")):
        assert service.ask(method, path, {"code": "1"} if method == "POST" else None, token=token).status == 403, path
    own = f"/api/v1/sandbox/{first['sandbox_id']}"
    assert service.post(f"{own}/execute", code="print(1)", token=token).status == 200, "control"
    assert service.get(own, token=True).status == 404, "another tenant's service"


def test_ap_14_a_token_ends_with_its_sandbox(service):
    box = service.create()
    path = f"/api/v1/sandbox/{box['sandbox_id']}"
    assert service.get(path, token=box["access_token"]).status == 200
    service.delete(path)
    assert service.get(path, token=box["access_token"]).status in (401, 404)


# ---- names ----

@pytest.mark.parametrize("odd", ["\n", "\x1b[2J", "\x7f", "\x85", "\u202e", "\t", "\u2028"])
@pytest.mark.parametrize("field", ["agent_id", "language", "profile", "callback_url"])
def test_names_have_no_control_characters(service, field, odd):
    """They end up in records and logs, where they would be another's words."""
    paths = ["/api/v1/run"] + (["/api/v1/sandbox/create"] if field != "callback_url" else [])
    for path in paths:
        body = {field: f"a{odd}b"} | ({"code": "print(1)"} if path.endswith("run") else {})
        reply = service.post(path, **body)
        assert (reply.status, reply.json["field"], reply.json["message"]) == (400, field, f"{field}: must not have control characters"), reply
    assert not service.rows("SELECT * FROM executions WHERE agent LIKE 'a%b'")


def test_other_letters_may_be_in_names(service):
    """The control: it is not that they are refused for being no ASCII."""
    name = "añ b/ü-\u4e2d\U0001f600"
    reply = service.run("print(1)", agent_id=name)
    assert reply.status == 200
    assert service.get(f"/api/v1/executions/{reply.json['execution_id']}").json["agent_id"] == name


# ---- AP-18 ----

def test_ap_18_the_api_is_out_of_reach_from_inside(service):
    code = f"""
import os, socket
for where in [('127.0.0.1', {service.port}), ('::1', {service.port}), ('10.0.2.2', {service.port})]:
    try:
        socket.create_connection(where, timeout=1); print('reached', where)
    except OSError as e: print('no', e.errno)
for path in {[str(service.runtime / 'api.sock'), str(service.runtime / 'token')]!r}:
    print(os.path.exists(path))
try:
    s = socket.socket(socket.AF_UNIX); s.connect({str(service.runtime / 'api.sock')!r}); print('reached')
except OSError as e: print('no', e.errno)
"""
    for text in (service.run(code).json["stdout"], service.run(code, cold=True).json["stdout"]):
        assert "reached" not in text and "True" not in text and text.count("no") == 4, text
    with raw(service):
        pass  # control: from outside it can be reached


# ---- AP-22, AP-23 ----

def test_ap_22_environment_is_the_programs_alone(service):
    env = {"LD_PRELOAD": "/tmp/evil.so", "PATH": "/evil:/usr/bin:/bin", "BASH_ENV": "/evil", "PYTHONSTARTUP": "/evil", "GCONV_PATH": "/evil", "A": "b\nc=d"}
    for cold in (False, True):
        result = service.run("import os, json; print(json.dumps(dict(os.environ)))", env=env, cold=cold).json
        assert result["verdict"] == "ok", result
        seen = json.loads(result["stdout"])
        assert {key: seen.get(key) for key in env} == env
        assert not set(seen) - set(env) - {"HOME", "LANG", "LC_ALL", "LC_CTYPE", "PWD", "TMPDIR", "USER", "LOGNAME", "SHLVL", "_", "HOSTNAME",
                                           "COTO_OUTPUT", "SHELL", "PYTHONDONTWRITEBYTECODE"}, set(seen)
    for pid, _ in service.members():
        with contextlib.suppress(PermissionError, FileNotFoundError, ProcessLookupError):  # undumpable: only root may look; or it has ended
            assert b"evil" not in pathlib.Path(f"/proc/{pid}/environ").read_bytes()


@pytest.mark.parametrize("env", [{"": "x"}, {"A=B": "x"}, {"=x": "y"}, {"A\nB": "x"}, {"A B": "x"}, {"A": "x" * (1 << 20)}, {"A\u0000": "x"}])
def test_ap_22_bad_names_and_sizes(service, env):
    reply = service.run("print(1)", env=env)
    assert reply.status == 400, reply


@pytest.mark.parametrize("args", [["x" * (2 << 20)], ["x"] * 100_000, ["a\u0000b"], ["x" * 200_000] * 5, "x", [1], {}])
def test_ap_23_arguments(service, args):
    reply = service.run("print(1)", args=args)
    assert reply.status == 400, reply


def test_ap_23_control(service):
    reply = service.run("import sys; print(len(sys.argv), repr(sys.argv[1]), sys.argv[2])", args=["", "-c", *["x"] * 4000])
    assert reply.json["stdout"] == "4003 '' -c\n", reply


# ---- AP-25 ----

LASTS = "import subprocess, time; it = [subprocess.Popen(['sleep', '300']) for _ in range(20)]; time.sleep(300)"


def inhabitants(init):
    """pid -> its cgroups, of the sandbox's init and all below it, as the host sees them."""
    found = {}
    for pid in (init, *descendants(init)):
        with contextlib.suppress(OSError):
            found[pid] = sorted(line for line in read(f"/proc/{pid}/cgroup").splitlines())
    return found


def marked(text):
    """Processes of the machine with it in their command line."""
    found = []
    for path in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            if text.encode() in path.read_bytes():
                found.append(int(path.parent.name))
    return found


def sandbox_inits(service):
    return {pid for pid, row in descendants(service.process.pid).items() if row[1].lstrip(".").startswith("coto-init")}


@pytest.fixture
def ending(make_service):
    """A service, a sandbox that was told to end and cannot yet, and its init, which does not hear it."""
    service = make_service("--high-isolation=none", "--pool-min=0", "--pool-max=0")
    path = f"/api/v1/sandbox/{service.create()['sandbox_id']}"
    service.post(f"{path}/execute", code=LASTS, **{"async": True})
    init, = wait_until(lambda: [pid for pid in sandbox_inits(service)
                                if sum(row[1] == "sleep" for row in descendants(pid).values()) == 20], "its programs")
    os.kill(init, signal.SIGSTOP)
    try:
        assert service.delete(path).status == 202 and service.get(path).json["state"] == "ending"
        yield service, path, init
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(init, signal.SIGCONT)


def test_ap_25_execute_in_a_sandbox_that_ends(ending):
    service, path, init = ending
    before = inhabitants(init)
    groups = {tuple(it) for it in before.values()}
    outside = tuple(inhabitants(service.process.pid)[service.process.pid])
    assert len(before) > 20 and len(groups) == 1 and (not CGROUPS or outside not in groups), "all of it is in its own group"
    mark = f"{random.randrange(10**9)}.5"
    bodies = ({"code": f"sleep {mark}", "language": "sh"}, {"code": f"import os; os.execlp('sleep', 'sleep', '{mark}')"},
              {"code": f"sleep {mark}", "language": "sh", "async": True})
    rounds = 0
    while rounds < 10:
        replies = [service.post(f"{path}/execute", **body) for body in bodies] + [service.ask("PUT", f"{path}/files?path=a", b"x")]
        if service.get(path).status == 404:
            break  # it is not waited for without end
        for reply in replies:
            assert (reply.status, reply.headers["Retry-After"]) == (409, "1") and "ending" in reply.json["message"], reply
        rounds += 1
    assert rounds > 0, "control: it was ending all the while"
    assert not marked(mark), "nothing was begun, neither in it nor beside it"
    now = inhabitants(init)
    assert set(now) <= set(before) and {tuple(it) for it in now.values()} <= groups
    with contextlib.suppress(ProcessLookupError):
        os.kill(init, signal.SIGCONT)
    wait_until(lambda: service.get(path).status == 404, "its end")
    assert service.post(f"{path}/execute", code=f"sleep {mark}", language="sh").status == 404
    wait_until(lambda: not any(pathlib.Path(f"/proc/{pid}").exists() for pid in before), "the end of all that was in it")
    assert not marked(mark)


def test_ap_25_control_what_runs_is_found(make_service):
    """By its mark, below an init, in that sandbox's cgroup."""
    service = make_service("--high-isolation=none", "--pool-min=0", "--pool-max=0")
    path = f"/api/v1/sandbox/{service.create()['sandbox_id']}"
    mark = f"{random.randrange(10**9)}.5"
    assert service.post(f"{path}/execute", code=f"sleep {mark}; true", language="sh", **{"async": True}).status == 202
    pid = wait_until(lambda: [pid for pid in marked(f"sleep\0{mark}")], "its program")[0]
    init, = [it for it in sandbox_inits(service) if pid in descendants(it)]
    groups = inhabitants(init)
    assert groups[pid] == groups[init]
    assert not CGROUPS or groups[pid] != inhabitants(service.process.pid)[service.process.pid]
    assert service.delete(path).status == 202
    wait_until(lambda: not marked(mark), "its end")


def test_ap_25_executions_while_it_is_being_removed(service):
    """Whatever the moment: all the answers are refusals, and nothing of it is left."""
    path = f"/api/v1/sandbox/{service.create()['sandbox_id']}"
    mark = f"{random.randrange(10**9)}.5"
    service.post(f"{path}/execute", code=LASTS, **{"async": True})
    wait_until(lambda: service.get(path).json["state"] == "busy", "the execution")
    statuses = {False: set(), True: set()}  # by whether it was told to end before they were asked
    told, stop = threading.Event(), threading.Event()

    def hammer():
        while not stop.is_set():
            was_told = told.is_set()
            statuses[was_told].add(service.post(f"{path}/execute", code=f"sleep {mark}", language="sh").status)
    threads = [threading.Thread(target=hammer) for _ in range(4)]
    for thread in threads:
        thread.start()
    try:
        wait_until(lambda: 409 in statuses[False], "a refusal while it runs")
        assert service.delete(path).status == 202
        told.set()
        wait_until(lambda: service.get(path).status == 404 and 404 in statuses[True], "its end for all")
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert statuses[False] <= {409, 404} and statuses[True] <= {409, 404}, statuses
    assert not marked(mark)


# ---- damage of all kinds ----

def damaged(good, rng):
    """One way to spoil a request."""
    data = bytearray(good)
    how = rng.randrange(7)
    at = rng.randrange(len(data))
    if how == 0:
        data[at] ^= 1 << rng.randrange(8)
    elif how == 1:
        del data[at:at + rng.randrange(1, 30)]
    elif how == 2:
        data[at:at] = rng.randbytes(rng.randrange(1, 30))
    elif how == 3:
        data = data[:at]
    elif how == 4:
        data[at:at] = rng.choice([b"\r\n", b"\0", b"\n", b"{", b"[" * 50, b"%00", b"../", b"\xff\xfe", b'"', b" HTTP/1.1"])
    elif how == 5:
        other = rng.randrange(len(data))
        data[at:at + 20], data[other:other + 20] = data[other:other + 20], data[at:at + 20]
    else:
        data = bytearray(rng.randbytes(rng.randrange(1, 400)))
    return bytes(data)


def test_ten_thousand_malformed_requests(make_service):
    """None crashes it, none leaks a descriptor, and it serves as before."""
    service = make_service("--durability=off")
    box = service.create()["sandbox_id"]
    rng = random.Random(4)
    bodies = ['{"code":"print(1)","timeout_seconds":1,"env":{"A":"b"},"files":[{"path":"a","content":"b"}]}', '{"code":1}', "{}"]
    lines = [f"POST /api/v1/run", f"POST /api/v1/sandbox/{box}/execute", "POST /api/v1/sandbox/create", f"GET /api/v1/sandbox/{box}/files?path=a",
             f"PUT /api/v1/sandbox/{box}/files?path=a", f"PUT /api/v1/sandbox/{box}/archive", f"DELETE /api/v1/executions/{ID}", "GET /metrics"]
    pid = front(service)
    is_well(service)
    answered, before = 0, None
    for i in range(11_000):
        if i == 1_000:
            before = kept(service, box)
        body = rng.choice(bodies)
        good = head(service, rng.choice(lines), f"Content-Length: {len(body)}", "Content-Type: application/json") + body.encode()
        with socket.create_connection(("127.0.0.1", service.port), timeout=60) as sock:
            with contextlib.suppress(OSError):
                sock.sendall(damaged(good, rng))
                sock.shutdown(socket.SHUT_WR)
                reply = sock.recv(65536)
                answered += reply.startswith(b"HTTP/1.1 ")
    assert front(service) == pid, "it was not started again"
    assert answered > 5_000
    wait_until(lambda: kept(service, box) <= before + 2, "descriptors given back")
    assert is_well(service)
    assert service.stop() == 0


def test_control_leaked_descriptors_and_a_new_front_would_be_seen(make_service):
    """Requests that never end hold descriptors; a front that died is another process."""
    service = make_service("--durability=off")
    is_well(service)
    pid, before = front(service), descriptors(service)
    with contextlib.ExitStack() as stack:
        for _ in range(60):
            stack.enter_context(raw(service)).sendall(b"POST /api/v1/run HTTP/1.1\r\n")
        wait_until(lambda: descriptors(service) > before + 40, "descriptors that are held")
    wait_until(lambda: descriptors(service) <= before + 40, "descriptors given back")
    service.kill_front()
    assert front(service) != pid


# ---- DR-04 ----

FEW = 64


@pytest.fixture
def poor(make_service):
    """A service that may have few descriptors."""
    service = make_service("--workers=4", "--pool-min=1", "--pool-max=4", "--high-isolation=none", start=False)
    service.before = lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (FEW, FEW))
    service.start()
    assert is_well(service)
    return service


def sleeps(pid):
    """Whether its first thread waits, most of the times we look: a loop that spins runs or wants to, however busy the machine is."""
    def state():
        time.sleep(0.005)
        return pathlib.Path(f"/proc/{pid}/task/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    return [state() for _ in range(200)].count("S") > 150


def is_told(text):
    """503, when to come back, and why."""
    first, _, body = text.partition(b"\r\n\r\n")
    return first.startswith(b"HTTP/1.1 503 ") and b"\r\nRetry-After: 1" in first and json.loads(body)["message"] == "too many connections"


def assert_at_rest(service):
    """While it cannot take anybody, with more at the door."""
    loop, _, is_asleep = spent_on(service, lambda: sleeps(front(service)))
    assert is_asleep and loop < 0.3 * SLOW, f"it spins: {loop} s"


def test_dr_04_strangers_make_room_and_are_told(poor):
    with contextlib.ExitStack() as stack:
        clients = []
        for _ in range(200):
            clients.append(connect_from(stack, poor, "127.0.0.1"))
            clients[-1].sendall(b"GET /healthz HTTP/1.1\r\n")
            if len(clients) > FEW:
                assert poor.get("/healthz", token=True).status == 200, "others are served"
        assert_at_rest(poor)
        said = heard(clients)
        told = [text for text in said if text is not None]
        assert len(told) >= 200 - FEW and all(map(is_told, told)), told
        assert said[:len(told)] == told, "the eldest"
    wait_until(lambda: is_well(poor), "recovery")


def hold(stack, service):
    """Requests of known people, whose bodies are on their way, as many as it takes: none of these makes room."""
    request = head(service, "POST /api/v1/run", "Content-Length: 100") + b"{"
    socks = []

    def is_turned_away():
        socks.append(connect_from(stack, service, "127.0.0.1"))
        with contextlib.suppress(ConnectionError):
            socks[-1].sendall(request)
        return len(socks) > FEW and select.select([socks[-1]], [], [], 0.1)[0]
    wait_until(is_turned_away, "one for whom there is no room")
    held = [sock for sock, text in zip(socks, heard(socks)) if text is None]
    assert len(held) > 10, "control: most of what there is"
    return held


def limit_descriptors(service, most):
    """Of the front, by itself where that is another's process."""
    limit = struct.pack("QQ", most, FEW)
    if ROOT:
        with puppet.Puppet(front(service)) as it:
            assert it.call(puppet.PRLIMIT64, 0, resource.RLIMIT_NOFILE, limit, 0) == 0
    else:
        resource.prlimit(front(service), resource.RLIMIT_NOFILE, (most, FEW))


def test_dr_04_nobody_can_make_room(poor):
    """Newcomers are told so; who is at work stays; the loop does not spin, and it recovers."""
    with contextlib.ExitStack() as stack:
        held = hold(stack, poor)
        newcomers = [connect_from(stack, poor, "127.0.0.1") for _ in range(140)]
        assert_at_rest(poor)
        answered = wait_until(lambda: len(found := select.select(newcomers, [], [], 0)[0]) > 130 and found, "answers")
        said = heard(answered)
        assert all(map(is_told, said)), said
        held[0].settimeout(PATIENCE)
        held[0].sendall(b" " * 98 + b"}")
        assert held[0].recv(12) == b"HTTP/1.1 400", "who was let in is served"
    wait_until(lambda: is_well(poor), "recovery")


@only(not ROOT or puppet.IS_POSSIBLE)
def test_dr_04_not_even_one_to_turn_them_away_with(poor):
    """The listener rests, and those who wait are served later."""
    with contextlib.ExitStack() as stack:
        held = hold(stack, poor)
        limit_descriptors(poor, 5)
        waiting = [connect_from(stack, poor, "127.0.0.1") for _ in range(20)]
        for sock in waiting:
            sock.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert_at_rest(poor)
        assert heard(waiting) == [None] * 20, "control: they wait"
        for sock in held:
            sock.close()
        wait_until(lambda: descriptors(poor) <= FEW - len(held), "room for those who wait")
        limit_descriptors(poor, FEW)
        for sock in waiting:
            sock.settimeout(PATIENCE)
            assert sock.recv(12) == b"HTTP/1.1 200"
    wait_until(lambda: is_well(poor), "recovery")


def test_dr_04_control_a_loop_that_spins_would_be_seen():
    with subprocess.Popen(["sh", "-c", "while :; do :; done"]) as it:
        try:
            assert not sleeps(it.pid)
        finally:
            it.kill()
