"""DR-12: what strangers and tenants do does not write the service's log."""
import concurrent.futures
import contextlib
import json
import re
import socket
import uuid

import pytest

from .daemon import Production
from .helpers import PATIENCE, Reply, wait_until

# Whatever happens a few times, and that it happens no longer.
FEW_LINES = 3
DENIED = 1_000_000


@pytest.fixture
def service(make_service):
    return make_service("--high-isolation=none", "--tenant-rate=100000", "--tenant-burst=100000", "--durability=off")


def lines(service):
    return len(service.messages.splitlines())


def counter(service, name):
    reply = wait_until(lambda: (got := service.get("/metrics")).status == 200 and got, "an answer to who may ask once a second")
    return int(re.search(rf"^coto_{name} (\d+)$", reply.body.decode(), re.M)[1])


CALLS = f"""
import ctypes
call = ctypes.CDLL(None).syscall
print(sum(call(165, None, None, None, 0, None) == -1 for _ in range({DENIED})))  # mount
"""


def test_denied_calls_write_no_log(service):
    before = lines(service)
    with concurrent.futures.ThreadPoolExecutor(3) as pool:
        for done in pool.map(lambda _: service.run(CALLS, timeout_seconds=300).json, range(3)):
            assert done["stdout"] == f"{DENIED}\n", f"control: all of them were made, and denied: {done}"
    assert lines(service) <= before + FEW_LINES, service.messages[-2000:]


def test_what_programs_say_is_not_in_the_log(service):
    before = lines(service)
    done = service.run("import sys\nfor i in range(300_000): sys.stderr.write('to the log\\n')\nsys.exit(70)").json
    assert done["stderr"].startswith("to the log\n") and done["verdict"] in ("nonzero", "output")
    for code in ("1/0", "import os; os.abort()", "import os; os.kill(os.getpid(), 9)"):
        for _ in range(50):
            assert service.run(code).json["verdict"] in ("nonzero", "signal", "killed")
    assert lines(service) <= before + FEW_LINES and "to the log" not in service.messages


def ask_often(service, count, method, path, body=None, headers=None):
    """The set of what was answered, all over one connection while it lasts."""
    statuses = set()
    with contextlib.closing(service.connect(tcp=True)) as connection:
        for _ in range(count):
            connection.request(method, path, body=body, headers=headers or {})
            reply = Reply(connection.getresponse())
            statuses.add(reply.status)
    return statuses


def test_refused_requests_are_counted_and_write_no_log(service):
    good, bad = ({"Authorization": f"Bearer {token}"} for token in (service.token, "x"))
    before, asked, refused = lines(service), counter(service, "http_requests_total"), counter(service, "http_refused_total")
    assert ask_often(service, 2000, "GET", "/api/v1/sandbox", headers=bad) == {401}
    assert ask_often(service, 1000, "POST", "/api/v1/run", body="{}") == {401}
    assert counter(service, "http_refused_total") == refused + 3000
    assert ask_often(service, 2000, "POST", "/api/v1/run", body='{"code": 1, \x1b[31m', headers=good) == {400}
    assert ask_often(service, 1000, "POST", "/api/v1/run", body=json.dumps({"code": "1", "profile": "nosuch"}), headers=good) == {400}
    assert ask_often(service, 2000, "GET", f"/api/v1/sandbox/{uuid.uuid4()}", headers=good) == {404}
    assert ask_often(service, 1000, "GET", "/no/such/path") == {404}
    assert ask_often(service, 1000, "GET", "/healthz", headers={"Origin": "http://evil.example"}) == {403}
    assert counter(service, "http_requests_total") >= asked + 10_000
    assert lines(service) <= before + FEW_LINES, service.messages[-2000:]


def test_who_is_over_its_rate_is_counted_and_writes_no_log(make_service):
    service = make_service("--high-isolation=none", "--tenant-rate=1", "--tenant-burst=1")
    before, refused = lines(service), counter(service, "http_refused_total")
    headers = {"Authorization": f"Bearer {service.token}"}
    assert ask_often(service, 2000, "GET", "/api/v1/sandbox", headers=headers) == {200, 429}
    assert counter(service, "http_refused_total") > refused + 1000
    assert lines(service) <= before + FEW_LINES, service.messages[-2000:]


def test_what_is_no_request_writes_no_log(service):
    before = lines(service)
    for text in (b"\x16\x03\x01 nonsense\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n", b"\0" * 100):
        for _ in range(300):
            with socket.create_connection(("127.0.0.1", service.port), timeout=PATIENCE) as sock, contextlib.suppress(OSError):
                sock.sendall(text)
                sock.shutdown(socket.SHUT_WR)
                sock.recv(100)
    assert lines(service) <= before + FEW_LINES, service.messages[-2000:]


def test_failed_handshakes_write_no_log():
    with Production() as service:
        before = lines(service)
        for text in (b"GET / HTTP/1.1\r\n\r\n", b"\x16\x03\x01\0\x05hello", b"\0" * 100):
            for _ in range(200):
                with socket.create_connection(("127.0.0.1", service.port), timeout=PATIENCE) as sock, contextlib.suppress(OSError):
                    sock.sendall(text)
                    sock.shutdown(socket.SHUT_WR)
                    sock.recv(100)
        assert lines(service) <= before + FEW_LINES, service.messages[-2000:]
        assert service.get("/healthz").status == 200, "control: a good one"


def test_control_what_the_operator_is_to_know_is_in_the_log(service):
    """Once for each time it happens."""
    before = lines(service)
    service.kill_front()
    assert lines(service) > before and service.messages.count("the front ended") == 1
