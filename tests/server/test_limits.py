"""Too many, too slow, too greedy: others are served all the same."""
import contextlib
import json
import resource
import select
import socket
import time

import pytest

from .helpers import HELLO, PATIENCE, Client, Server, get


def test_idle_connections_end():
    with Server("idle_ms=200") as server, server.connect() as never, server.connect() as once:
        assert once.ask(HELLO).status == 200
        began = time.monotonic()
        assert never.is_closed() and once.is_closed()
        assert time.monotonic() - began < PATIENCE / 2


def test_a_request_may_run_longer_than_any_deadline():
    with Server("idle_ms=50", "head_ms=50", "body_ms=50", "write_ms=50") as server:
        assert server.ask(get("/later?ms=400")).status == 200
        assert server.ask(get("/events?n=30")).status == 200


# ---- slow readers ----

def small_window(server):
    sock = socket.socket()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    sock.settimeout(PATIENCE)
    sock.connect(server.address)
    return Client(sock)


def test_a_stream_nobody_reads_is_dropped_at_its_limit(server):
    """One that is read is not: test_a_large_download_is_never_in_memory."""
    before = server.stats()
    memory = server.resident_kib()
    with small_window(server) as client:
        client.send(get("/flood"))
        server.wait_stats(dropped=before["dropped"] + 1, gone=before["gone"] + 1, connections=1)
    assert server.resident_kib() - memory < 8192


def test_a_reply_nobody_reads_is_dropped_in_time():
    with Server("write_ms=300") as server, small_window(server) as client:
        client.send(get("/download?bytes=100000000"))
        server.wait_stats(dropped=1, gone=1, connections=1)


def test_a_trickling_reader_is_dropped_too():
    """Progress alone is not enough: 64 KiB per write_ms."""
    with Server("write_ms=300") as server, small_window(server) as client:
        client.send(get("/download?bytes=100000000"))
        end = time.monotonic() + PATIENCE
        while server.stats()["dropped"] == 0:
            assert time.monotonic() < end
            client.sock.recv(512)
            time.sleep(0.01)


# ---- too many ----

def times_of(server):
    """How long each of fifty requests takes, one after the other."""
    def one():
        began = time.monotonic()
        assert server.ask(HELLO).status == 200
        return time.monotonic() - began
    return sorted(one() for _ in range(50))


def test_2000_idle_connections_disturb_nobody():
    need = 2100
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < need:
        pytest.skip(f"only {hard} descriptors allowed")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, need), hard))
    try:
        with Server("per_peer=3000") as server:
            calm = times_of(server)
            began_kib = server.resident_kib()
            idle = [server.connect() for _ in range(2000)]
            for client in idle[::2]:
                client.send(HELLO[:10])
            meanwhile = times_of(server)
            assert meanwhile[25] < calm[25] + 1 and meanwhile[-1] < calm[-1] + 5, (calm, meanwhile)
            assert server.resident_kib() - began_kib < 12288
            assert server.stats()["connections"] == 2001
            for client in idle:
                client.sock.close()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_the_longest_idle_one_makes_room():
    with Server("connections=4") as server:
        clients = [server.connect() for _ in range(4)]
        for client in clients:
            assert client.ask(HELLO).status == 200
        with server.connect() as too_soon:
            assert too_soon.reply().status == 503
        time.sleep(1.1)
        for client in clients[2:] + clients[:1]:
            assert client.ask(HELLO).status == 200
        with server.connect() as fifth:
            assert fifth.ask(HELLO).status == 200
            assert clients[1].is_closed()
            for client in clients[2:] + clients[:1]:
                assert client.ask(HELLO).status == 200
        for client in clients:
            client.sock.close()


def test_busy_ones_make_no_room():
    with Server("connections=2") as server:
        busy = [server.connect() for _ in range(2)]
        for client in busy:
            client.send(get("/events?n=1000"))
            client.head()
        with server.connect() as third:
            reply = third.reply()
            assert (reply.status, reply.headers["retry-after"]) == (503, "1")
            assert third.is_closed()
        for client in busy:
            client.sock.close()


def test_one_peer_cannot_take_all(tmp_path):
    path = tmp_path / "s"
    with Server("per_peer=3", listen=["127.0.0.1:0", f"unix:{path}"]) as server:
        clients = [server.connect() for _ in range(3)]
        for client in clients:
            assert client.ask(HELLO).status == 200
        with server.connect() as fourth:
            assert fourth.reply().status == 503
        other = socket.socket()
        other.bind(("127.0.0.2", 0))
        other.settimeout(PATIENCE)
        other.connect(server.address)
        unix = socket.socket(socket.AF_UNIX)
        unix.settimeout(PATIENCE)
        unix.connect(str(path))
        for sock in other, unix:
            with Client(sock) as client:
                assert client.ask(HELLO).status == 200
        clients.pop().sock.close()
        server_is_free = clients[0]
        while b'"connections":2' not in server_is_free.ask(get("/stats")).body:
            pass
        with server.connect() as again:
            assert again.ask(HELLO).status == 200
        for client in clients:
            client.sock.close()


def test_at_an_ipv6_listener_each_ipv4_address_is_a_peer():
    """Where IPv4 comes too, as at [::] and at a port of systemd's, its addresses are all in one /64."""
    with Server("per_peer=2", listen=["[::]:0"]) as server:
        def connect(host):
            sock = socket.socket()
            sock.settimeout(PATIENCE)
            sock.bind((host, 0))
            sock.connect(("127.0.0.1", server.address[1]))
            return Client(sock)
        with connect("127.0.0.2") as first, connect("127.0.0.2") as second:
            assert [it.ask(HELLO).status for it in (first, second)] == [200, 200]
            with connect("127.0.0.2") as third:
                assert third.reply().status == 503
            with connect("127.0.0.3") as other:
                assert other.ask(HELLO).status == 200


# ---- strangers, of whom no request was vouched for: they make room at once ----

STRANGERS = {
    "silent": b"", "one byte": b"G", "half a head": b"GET /hello HTTP/1.1\r\nHos", "open to all": get("/open"),
    "no body": get("/open", "Content-Length: 9"), "refused": b"nonsense\r\n\r\n", "deaf": get("/open") * 4,
}


def from_address(server, host):
    sock = socket.socket()
    sock.settimeout(PATIENCE)
    sock.bind((host, 0))
    sock.connect(server.address)
    return Client(sock)


def at_unix(path):
    sock = socket.socket(socket.AF_UNIX)
    sock.settimeout(PATIENCE)
    sock.connect(str(path))
    return Client(sock)


@pytest.mark.parametrize("sent", STRANGERS.values(), ids=STRANGERS)
def test_strangers_of_ones_own_address_keep_nobody_out(sent):
    """All users of a machine are one peer. AP-02."""
    with Server("per_peer=8") as server, contextlib.ExitStack() as stack:
        known = stack.enter_context(server.connect())
        assert known.ask(HELLO).status == 200
        strangers = [stack.enter_context(server.connect()) for _ in range(30)]
        for client in strangers:
            with contextlib.suppress(OSError):  # made room already
                client.send(sent)
        time.sleep(0.1)
        for _ in range(3):
            assert server.ask(HELLO).status == 200
        assert known.ask(HELLO).status == 200, "who is known stays, as long as there are strangers"


def test_a_stranger_does_not_stay_by_sending_bytes():
    with Server("per_peer=3") as server, server.connect() as trickling, server.connect() as second, server.connect() as third:
        for client in (second, third):
            assert client.ask(get("/open")).status == 200
        for byte in b"GET /hello":
            trickling.send(bytes([byte]))
            time.sleep(0.01)
        with server.connect() as newcomer:
            assert newcomer.ask(HELLO).status == 200
            assert trickling.reply().status == 503
            assert second.ask(get("/open")).status == 200


@pytest.mark.parametrize("sent", [b"", b"G"], ids=["silent", "one byte"])
def test_strangers_of_many_addresses_keep_nobody_out(tmp_path, sent):
    path = tmp_path / "s"
    with Server("connections=8", listen=["127.0.0.1:0", f"unix:{path}"]) as server, contextlib.ExitStack() as stack:
        for i in range(40):
            client = stack.enter_context(from_address(server, f"127.0.0.{i % 5 + 2}"))
            with contextlib.suppress(OSError):
                client.send(sent)
        assert server.ask(HELLO).status == 200
        with at_unix(path) as client:
            assert client.ask(HELLO).status == 200


def test_unix_sockets_have_connections_of_their_own(tmp_path):
    path = tmp_path / "s"
    with Server("connections=2", listen=["127.0.0.1:0", f"unix:{path}"]) as server, contextlib.ExitStack() as stack:
        def begin(client):
            stack.enter_context(client).send(get("/events?n=100000"))
            return client.head().status
        assert [begin(server.connect()) for _ in range(2)] == [200, 200]
        assert [begin(at_unix(path)) for _ in range(64)] == [200] * 64
        assert [client.reply().status for client in (server.connect(), at_unix(path))] == [503, 503]


def test_no_request_that_is_answered_makes_room():
    with Server("per_peer=2") as server, server.connect() as first, server.connect() as second:
        first.send(get("/later?ms=600"))
        second.send(get("/later?ms=600"))
        time.sleep(0.1)
        with server.connect() as third:
            assert third.reply().status == 503
        assert [client.reply().status for client in (first, second)] == [200, 200]


def test_who_is_turned_away_is_told_in_json():
    with Server("connections=1") as server, server.connect() as busy:
        busy.send(get("/events?n=100000"))
        busy.head()
        with server.connect() as second:
            reply = second.reply()
            assert (reply.status, reply.headers["retry-after"], reply.headers["content-type"]) == (503, "1", "application/json")
            told = json.loads(reply.body)
            assert told["code"] == "busy" and told["message"] and told["remedy"] and second.is_closed()


def limit_descriptors():
    resource.setrlimit(resource.RLIMIT_NOFILE, (40, 40))


def test_without_descriptors_clients_are_told_and_the_loop_does_not_spin():
    with Server(preexec_fn=limit_descriptors) as server, contextlib.ExitStack() as stack:
        clients = [stack.enter_context(server.connect()) for _ in range(60)]
        for client in clients:
            with contextlib.suppress(ConnectionError):  # turned away already
                client.send(get("/later?ms=100000"))
        select.select([], [], [], 0.3)
        held = sum(client.is_silent(0) for client in clients)
        assert 20 < held < 40, "control: most of what there is"
        for _ in range(90):  # who says nothing yet loses nothing
            newcomer = stack.enter_context(server.connect())
            assert newcomer.reply().status == 503 and newcomer.is_closed()
        assert sleeps(server), "the accept loop spins"
        stack.close()
        end = time.monotonic() + PATIENCE
        while True:
            try:
                assert server.ask(HELLO).status == 200
                break
            except (AssertionError, OSError):
                assert time.monotonic() < end, "does not recover"
        assert server.stats()["refused"] >= 150 - held


def test_without_any_descriptor_the_listener_rests():
    """Not even the spare one can be had again: somebody else in the process took it."""
    with Server(preexec_fn=limit_descriptors) as server:
        held = [server.connect() for _ in range(60)]
        for client in held:
            client.send(get("/later?ms=100000"))
        select.select([], [], [], 0.3)
        resource.prlimit(server.process.pid, resource.RLIMIT_NOFILE, (5, 40))
        waiting = [server.connect() for _ in range(5)]
        assert sleeps(server), "the accept loop spins"
        resource.prlimit(server.process.pid, resource.RLIMIT_NOFILE, (40, 40))
        for client in held:
            client.sock.close()
        assert waiting[0].ask(HELLO).status == 200
        for client in waiting:
            client.sock.close()


def sleeps(server):
    """Whether it waits, most of the times we look: a loop that spins runs or wants to, however busy the machine is."""
    def state():
        time.sleep(0.005)
        with open(f"/proc/{server.process.pid}/stat") as file:
            return file.read().rsplit(")", 1)[1].split()[0]
    return [state() for _ in range(40)].count("S") > 20
