"""How requests and replies share a connection, and what happens when it ends."""
import os
import signal
import socket
import stat
import subprocess
import time

import pytest

from .helpers import BIN, HELLO, PATIENCE, Client, Server, chunked, get, post


def test_keep_alive(server):
    accepted = server.stats()["accepted"]
    with server.connect() as client:
        for _ in range(3):
            reply = client.ask(HELLO)
            assert reply.status == 200 and "connection" not in reply.headers
            assert reply.headers["content-type"] == "application/json"
            assert reply.headers["date"].endswith(" GMT")
        assert client.is_silent(0)
    assert server.stats()["accepted"] == accepted + 2


@pytest.mark.parametrize("version, field, stays", [
    ("1.1", "X: y", True), ("1.1", "Connection: close", False), ("1.1", "connection: TE, CLOSE", False),
    ("1.0", "X: y", False), ("1.0", "Connection: keep-alive", True),
])
def test_who_closes(server, version, field, stays):
    with server.connect() as client:
        reply = client.ask(get("/hello", field, version=version))
        assert reply.status == 200
        assert (reply.headers.get("connection") == "close") == (not stays)
        if stays:
            assert client.ask(HELLO).status == 200
        else:
            assert client.is_closed()


def test_pipelined_requests_are_answered_in_order(server):
    """The slow ones first: nobody overtakes."""
    wanted = [b"a", None, b"b" * 70000, None, b"c", b""]
    with server.connect() as client:
        client.send(b"".join(get("/later?ms=30") if body is None else post("/echo", body)
                             for body in wanted))
        for body in wanted:
            reply = client.reply()
            assert reply.status == 200
            assert reply.body == body if body is not None else b"message" in reply.body
        assert client.is_silent(0)


def test_a_client_that_pipelines_and_never_reads_fills_no_memory():
    with Server("write_ms=1000") as server:
        before = server.resident_kib()
        with server.connect() as client:
            client.sock.setblocking(False)
            end = time.monotonic() + PATIENCE
            try:
                while time.monotonic() < end:
                    try:
                        client.sock.send(HELLO * 500)
                    except BlockingIOError:
                        time.sleep(0.01)
            except (BrokenPipeError, ConnectionResetError):
                pass
            assert time.monotonic() < end, "never dropped"
        assert server.resident_kib() - before < 4096
        assert server.stats()["dropped"] == 1


def test_head(server):
    with server.connect() as client:
        whole = client.ask(HELLO)
        head = client.ask(get("/hello", method="HEAD"))
        assert head.headers == whole.headers or head.headers["content-length"] == str(len(whole.body))
        assert client.ask(get("/events?n=2", method="HEAD")).headers["transfer-encoding"] == "chunked"
        assert client.ask(get("/download?bytes=9", method="HEAD")).headers["content-length"] == "9"
        assert client.ask(HELLO).body == whole.body


# ---- what the handler sees ----

def test_the_request_as_the_handler_sees_it(server):
    reply = server.ask(get("/path/a%20%c3%a9?q=%2B+x&r=1", "x-TEST: \t some value \t"))
    assert reply.body.decode() == "GET\n/path/a é\nq=%2B+x&r=1\n1 + x\nsome value\n"


@pytest.mark.parametrize("query, seen", [
    ("", "0 "), ("?q", "1 "), ("?q=", "1 "), ("?q=a&q=b", "-1 "), ("?q=%zz", "-1 "), ("?q=%00", "-1 "),
    ("?qq=a", "0 "), ("?x=q&q=b=c", "1 b=c"), ("?q=" + "a" * 64, "-1 "), ("?q=" + "a" * 63, "1 " + "a" * 63),
])
def test_query_parameters(server, query, seen):
    assert server.ask(get("/path/" + query)).body.decode().split("\n")[3] == seen


def test_a_value_cannot_add_header_lines(server):
    headers = server.ask(get("/path/")).headers
    assert headers["x-fine"] == "yes"
    assert "x-split" not in headers and "x-injected" not in headers


# ---- bodies ----

@pytest.mark.parametrize("path", ["/echo", "/echo-late"])
@pytest.mark.parametrize("size", [0, 1, 65535, 65536, 1 << 20])
def test_bodies_come_whole(server, path, size):
    body = os.urandom(size)
    with server.connect() as client:
        assert client.ask(post(path, body)).body == body
        assert client.ask(chunked(path, *(body[at:at + 7777] for at in range(0, size, 7777)))).body == body
        assert client.ask(HELLO).status == 200


def test_one_byte_too_many(server):
    for request in post("/echo", b"x" * ((1 << 20) + 1)), chunked("/echo", b"x" * (1 << 20), b"x"):
        with server.connect() as client:
            assert client.ask(request).status == 413
            assert client.is_closed()


def test_a_slow_sink_slows_the_client_down(server):
    began = time.monotonic()
    reply = server.ask(post("/count?pause=20", b"x" * 1000000))
    assert reply.body == b"1000000\n"
    assert time.monotonic() - began > 0.2


def test_the_deadline_for_a_body_is_the_clients_not_ours():
    """It sends the second half in good time after the first one was dealt with."""
    with Server("body_ms=800") as server, server.connect() as client:
        request = post("/count?pause=900", b"x" * 10)
        client.send(request[:-5])
        time.sleep(1)
        client.send(request[-5:])
        assert client.reply().body == b"10\n"


def test_a_long_body_has_a_deadline_for_every_piece():
    """Longer than body_ms in all, never slower than 64 KiB in that time; then it stalls."""
    with Server("body_ms=600") as server, server.connect() as client:
        client.send(get("/count", "Content-Length: 2000000", method="POST"))
        for _ in range(12):
            client.send(b"x" * 100000)
            time.sleep(0.1)
        assert client.is_silent(0)
        assert client.reply().status == 408


def test_a_sink_may_refuse(server):
    gone = server.stats()["gone"]
    with server.connect() as client:
        assert client.ask(post("/count", b"fine")).body == b"4\n"
        assert client.ask(post("/count", b"not fine!")).status == 400
        assert client.is_closed()
    assert server.stats()["gone"] == gone + 1


@pytest.mark.parametrize("path", ["/echo", "/echo-late", "/count"])
def test_100_continue(server, path):
    with server.connect() as client:
        client.send(get(path, "Content-Length: 5", "Expect: 100-continue", method="POST"))
        assert client.reply().status == 100
        client.send(b"hello")
        assert client.reply().body in (b"hello", b"5\n")
        assert client.ask(HELLO).status == 200


def test_who_expects_100_is_told_at_once_when_it_is_in_vain(server):
    for path, length, status in ("/nothing", 5, 404), ("/echo", 1 << 30, 413):
        with server.connect() as client:
            client.send(get(path, f"Content-Length: {length}", "Expect: 100-continue", method="POST"))
            assert client.reply().status == status
            assert client.is_closed()


def test_a_body_nobody_asked_for_is_not_taken_for_a_request(server):
    with server.connect() as client:
        reply = client.ask(post("/nothing", HELLO))
        assert (reply.status, reply.headers["connection"]) == (404, "close")
        assert client.is_closed()


# ---- streams ----

def test_events(server):
    with server.connect() as client:
        client.send(get("/events?n=3"))
        reply = client.reply()
        assert reply.headers["content-type"] == "text/event-stream"
        assert reply.body == b"event: tick\ndata: one\ndata: two\n\n:\n\n" * 3
        assert client.ask(HELLO).status == 200


def test_events_come_when_they_happen(server):
    with server.connect() as client:
        client.send(get("/events?n=1000"))
        client.head()
        while client.rest.count(b"event: tick") < 2:
            assert client._more()


def test_a_stream_in_http_1_0_ends_with_the_connection(server):
    reply = server.ask(get("/events?n=2", "Connection: keep-alive", version="1.0"))
    assert "transfer-encoding" not in reply.headers and reply.headers["connection"] == "close"
    assert reply.body.count(b"event: tick") == 2


@pytest.mark.parametrize("kind", ["", "&chunked=1"])
def test_a_large_download_is_never_in_memory(server, kind):
    size = 50_000_000
    before = server.resident_kib()
    with server.connect() as client:
        client.send(get(f"/download?bytes={size}{kind}"))
        time.sleep(0.1)
        assert server.resident_kib() - before < 4096
        assert client.reply().body == b"x" * size
        assert client.ask(HELLO).status == 200


def test_a_download_that_ends_early_is_not_taken_for_whole(server):
    with server.connect() as client, pytest.raises((AssertionError, ConnectionResetError)):
        client.ask(get("/download?bytes=1000&short=1"))
    assert server.ask(get("/download?bytes=1000&short=0")).body == b"x" * 1000


# ---- the end ----

def wait_handled(server, client, request):
    """Sends it and waits until the handler has it, though it does not answer."""
    asked = server.stats()["requests"]
    client.send(request)
    while server.stats()["requests"] == asked + 1:  # our own question
        asked += 1


@pytest.mark.parametrize("path", ["/later?ms=100000", "/events?n=100000", "/download?bytes=100000000", "/flood"])
@pytest.mark.parametrize("how", ["close", "reset", "half"])
def test_the_handler_learns_that_the_client_is_gone(server, path, how):
    gone = server.stats()["gone"]
    client = server.connect()
    if path.startswith("/later"):
        assert client.ask(HELLO).status == 200
        wait_handled(server, client, get(path))
    else:
        client.send(get(path))
        client.head()
    if how == "half":
        client.sock.shutdown(socket.SHUT_WR)
    elif how == "reset":
        client.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    if how != "half":
        client.sock.close()
    server.wait_stats(gone=gone + 1, connections=1)
    client.sock.close()


def test_gone_in_the_middle_of_a_body(server):
    gone = server.stats()["gone"]
    with server.connect() as client:
        client.send(post("/count", b"x" * 10)[:-1])
    server.wait_stats(gone=gone + 1, connections=1)


def test_a_half_closed_connection_still_gets_what_is_ready(server):
    with server.connect() as client:
        client.send(HELLO * 3)
        client.sock.shutdown(socket.SHUT_WR)
        assert [client.reply().status for _ in range(3)] == [200] * 3
        assert client.is_closed()


def test_drain_lets_running_requests_finish():
    with Server() as server:
        with server.connect() as idle, server.connect() as later, server.connect() as stream, \
                server.connect() as half:
            assert idle.ask(HELLO).status == 200
            wait_handled(server, later, get("/later?ms=300") + HELLO)
            stream.send(get("/events?n=30"))
            half.send(HELLO[:20])
            stream.head()
            server.process.send_signal(signal.SIGTERM)
            assert idle.is_closed()
            with pytest.raises(ConnectionRefusedError):
                server.connect()
            half.send(HELLO[20:])
            for client in half, later:
                reply = client.reply()
                assert (reply.status, reply.headers["connection"]) == (200, "close")
                assert client.is_closed()
            assert stream._chunks().count(b"event: tick") == 30
            assert stream.is_closed()
        assert server.process.wait(PATIENCE) == 0


def test_recycled_connections_end_after_their_reply(server):
    with server.connect() as idle, server.connect() as later, server.connect() as half:
        assert idle.ask(HELLO).status == 200
        half.send(HELLO[:20])
        wait_handled(server, later, get("/later?ms=200"))
        assert server.reload() == "reload: ok"
        assert idle.is_closed()
        half.send(HELLO[20:])  # it has no certificate that could be another one now
        for client in later, half:
            assert client.reply().headers["connection"] == "close"
            assert client.is_closed()
    assert server.ask(HELLO).status == 200


# ---- where it listens ----

def connect_unix(path):
    sock = socket.socket(socket.AF_UNIX)
    sock.settimeout(PATIENCE)
    sock.connect(str(path))
    return Client(sock)


def test_a_unix_socket_tells_who_connects(tmp_path):
    path = tmp_path / "s"
    with Server(listen=[f"unix:{path}"]):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        with connect_unix(path) as client:
            lines = client.ask(get("/peer")).body.decode().split("\n")
            assert lines[:2] == ["unix", f"{os.getuid()} {os.getgid()} {os.getpid()}"]
    assert not path.exists()


def test_a_socket_left_behind_is_replaced_a_live_one_not(tmp_path):
    path = tmp_path / "s"
    with socket.socket(socket.AF_UNIX) as left_behind:
        left_behind.bind(str(path))
    with Server(listen=[f"unix:{path}"]):
        second = subprocess.run([BIN / "coto-http-test", f"listen=unix:{path}"], capture_output=True,
                                timeout=PATIENCE)
        assert second.returncode == 1 and b"in use" in second.stderr
        with connect_unix(path) as client:
            assert client.ask(HELLO).status == 200


def test_a_file_in_the_place_of_the_socket_stays(tmp_path):
    path = tmp_path / "s"
    path.write_text("precious")
    done = subprocess.run([BIN / "coto-http-test", f"listen=unix:{path}"], capture_output=True, timeout=PATIENCE)
    assert done.returncode == 1 and path.read_text() == "precious"


def test_an_inherited_socket():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = listener.getsockname()
        fd = listener.fileno()
        with Server(f"listen-fd={fd}", listen=[], pass_fds=[fd]):
            with Client(socket.create_connection(address, timeout=PATIENCE)) as client:
                assert client.ask(HELLO).status == 200


def test_several_listeners_and_the_peers_address():
    with Server(listen=["127.0.0.1:0", "[::1]:0"]) as server:
        for where in server.where:
            host, port = where.rsplit(":", 1)
            with Client(socket.create_connection((host.strip("[]"), int(port)), timeout=PATIENCE)) as client:
                mine = client.sock.getsockname()
                wanted = f"{host}:{mine[1]}\n-1 -1 -1\n0\n\n\n\n"
                assert client.ask(get("/peer")).body.decode() == wanted


@pytest.mark.parametrize("where", ["", "127.0.0.1", "localhost:1", "::1:80", "127.0.0.1:x", "unix:", "[::1]"])
def test_what_is_not_an_address(where):
    done = subprocess.run([BIN / "coto-http-test", f"listen={where}"], capture_output=True, timeout=PATIENCE)
    assert done.returncode == 1 and b"not an address" in done.stderr
