"""Requests that two programs could read differently, or that no honest client sends: each is
refused and the connection closed, so that what follows it is never taken for a request."""
import random
import socket
import time

import pytest

from .helpers import HELLO, PATIENCE, Server, chunked, get, post

GET = "GET /hello HTTP/1.1\r\nHost: a\r\n"
POST = "POST /echo HTTP/1.1\r\nHost: a\r\n"
CHUNKED = POST + "Transfer-Encoding: chunked\r\n\r\n"

# Each with what it would be without the flaw: that must be served, or the row proves nothing.
HOSTILE = {
    "length and coding": (400, POST + "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
                          CHUNKED + "0\r\n\r\n"),
    "coding and length": (400, POST + "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n",
                          CHUNKED + "0\r\n\r\n"),
    "two lengths": (400, POST + "Content-Length: 3\r\nContent-Length: 4\r\n\r\nabcd",
                    POST + "Content-Length: 4\r\n\r\nabcd"),
    "the same length twice": (400, POST + "Content-Length: 3\r\nContent-Length: 3\r\n\r\nabc",
                              POST + "Content-Length: 3\r\n\r\nabc"),
    "a list of lengths": (400, POST + "Content-Length: 3, 3\r\n\r\nabc",
                          POST + "Content-Length: 3\r\n\r\nabc"),
    "blank before the colon": (400, POST + "Content-Length : 3\r\n\r\nabc",
                               POST + "Content-Length: 3\r\n\r\nabc"),
    "coding, blank before the colon": (400, POST + "Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n",
                                       CHUNKED + "0\r\n\r\n"),
    "+3": (400, POST + "Content-Length: +3\r\n\r\nabc", POST + "Content-Length: 3\r\n\r\nabc"),
    "length past 2^64": (413, POST + "Content-Length: 18446744073709551619\r\n\r\nabc",
                         POST + "Content-Length: 3\r\n\r\nabc"),
    "NUL in a value": (400, GET + "A: b\0c\r\n\r\n", GET + "A: bc\r\n\r\n"),
    "NUL in a name": (400, GET + "A\0: bc\r\n\r\n", GET + "A: bc\r\n\r\n"),
    "folded line": (400, GET + "A: b\r\n c\r\n\r\n", GET + "A: b c\r\n\r\n"),
    "bare LF": (400, GET.replace("\r\n", "\n") + "\n", GET + "\r\n"),
    "bare LF after a field": (400, GET + "A: b\n\r\n", GET + "A: b\r\n\r\n"),
    "bare CR": (400, GET + "A: b\rc\r\n\r\n", GET + "A: bc\r\n\r\n"),
    "empty line before": (400, "\r\n" + GET + "\r\n", GET + "\r\n"),
    "no Host": (400, "GET /hello HTTP/1.1\r\n\r\n", GET + "\r\n"),
    "two Hosts": (400, GET + "Host: b\r\n\r\n", GET + "Hosts: b\r\n\r\n"),
    "Host with a path": (400, "GET /hello HTTP/1.1\r\nHost: a/b\r\n\r\n", GET + "\r\n"),
    "gzip, chunked": (501, POST + "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", CHUNKED + "0\r\n\r\n"),
    "chunked in HTTP/1.0": (400, CHUNKED.replace("1.1", "1.0") + "0\r\n\r\n", CHUNKED + "0\r\n\r\n"),
    "chunk size xyz": (400, CHUNKED + "xyz\r\nabc\r\n0\r\n\r\n", CHUNKED + "3\r\nabc\r\n0\r\n\r\n"),
    "chunk size 0x3": (400, CHUNKED + "0x3\r\nabc\r\n0\r\n\r\n", CHUNKED + "03\r\nabc\r\n0\r\n\r\n"),
    "chunk size -1": (400, CHUNKED + "-1\r\nabc\r\n0\r\n\r\n", CHUNKED + "3\r\nabc\r\n0\r\n\r\n"),
    "chunk size past 2^64": (400, CHUNKED + "10000000000000003\r\nabc\r\n0\r\n\r\n",
                             CHUNKED + "00000003\r\nabc\r\n0\r\n\r\n"),
    "empty chunk size": (400, CHUNKED + "\r\nabc\r\n0\r\n\r\n", CHUNKED + "3\r\nabc\r\n0\r\n\r\n"),
    "chunk extension": (400, CHUNKED + "3;a=b\r\nabc\r\n0\r\n\r\n", CHUNKED + "3\r\nabc\r\n0\r\n\r\n"),
    "chunk size, bare LF": (400, CHUNKED + "3\nabc\r\n0\r\n\r\n", CHUNKED + "3\r\nabc\r\n0\r\n\r\n"),
    "chunk longer than its size": (400, CHUNKED + "3\r\nabcd\r\n0\r\n\r\n", CHUNKED + "3\r\nabc\r\n0\r\n\r\n"),
    "trailer": (400, CHUNKED + "0\r\nContent-Length: 3\r\n\r\n", CHUNKED + "0\r\n\r\n"),
    "TRACE": (405, GET.replace("GET", "TRACE") + "\r\n", GET + "\r\n"),
    "CONNECT": (405, "CONNECT a:80 HTTP/1.1\r\nHost: a\r\n\r\n", GET + "\r\n"),
    "HTTP/0.9": (400, "GET /hello\r\n", GET + "\r\n"),
    "HTTP/2.0": (505, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", GET + "\r\n"),
    "HTTP/1.10": (505, GET.replace("1.1", "1.10") + "\r\n", GET + "\r\n"),
    "absolute target": (400, GET.replace("/hello", "http://a/hello") + "\r\n", GET + "\r\n"),
    "64 KiB of one field": (431, GET + "A: " + "b" * 65536 + "\r\n\r\n", GET + "A: " + "b" * 8192 + "\r\n\r\n"),
    "1000 fields": (431, GET + "A: b\r\n" * 1000 + "\r\n", GET + "A: b\r\n" * 63 + "\r\n"),
    "64 KiB of path": (414, GET.replace("/hello", "/" + "a" * 65536) + "\r\n", GET + "\r\n"),
    "unknown expectation": (417, POST + "Expect: more\r\nContent-Length: 0\r\n\r\n",
                            POST + "Expect: 100-continue\r\nContent-Length: 0\r\n\r\n"),
}
for trick in ("/a/../b", "/a/%2e%2e/b", "/.%2E/b", "/..", "/.", "//b", "/a//b", "/a%2fb", "/a%5cb", "/a\\b",
              "/%00", "/a%0d%0aX:%20y", "/%c0%ae%c0%ae/", "/%c0%af", "/%ff", "/%zz", "/%4", "/%u002e", "/a#b"):
    HOSTILE[f"path {trick}"] = (400, get("/path" + trick).decode("latin-1"),
                                get("/path/ab").decode("latin-1"))


@pytest.mark.parametrize("name", HOSTILE)
def test_refused_and_closed(server, name):
    status, hostile, honest = (part if isinstance(part, int) else part.encode("latin-1")
                               for part in HOSTILE[name])
    assert server.ask(honest).status == 200
    with server.connect() as client:
        client.send(hostile + HELLO)
        reply = client.reply()
        assert reply.status == status
        assert reply.headers["connection"] == "close"
        assert b'"code":' in reply.body and b'"remedy":' in reply.body
        assert ("allow" in reply.headers) == (status == 405)
        assert client.is_closed(), "what followed was answered"


@pytest.mark.parametrize("name", ["length and coding", "bare LF", "chunk size xyz", "path /a/../b"])
def test_refused_however_the_bytes_arrive(server, name):
    status, hostile, _ = HOSTILE[name]
    with server.connect() as client:
        client.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            for byte in hostile.encode("latin-1"):
                client.send(bytes([byte]))
        except (BrokenPipeError, ConnectionResetError):
            pass  # refused before the end
        assert client.reply().status == status
        assert client.is_closed()


def test_nothing_hostile_reaches_the_handler(server):
    before = server.stats()["requests"]
    heads = [row for row in HOSTILE.values() if not row[1].startswith(CHUNKED)]
    for _, hostile, _ in heads:
        server.ask(hostile.encode("latin-1"))
    assert server.stats()["requests"] == before + 1  # our own question


# ---- how much, how slow ----

def send_until_refused(client, piece, limit):
    sent = 0
    try:
        while sent < limit:
            client.send(piece)
            sent += len(piece)
    except (BrokenPipeError, ConnectionResetError):
        pass
    return sent


@pytest.mark.parametrize("path", ["/echo", "/echo-late"])
def test_an_endless_chunked_body_is_cut_with_flat_memory(server, path):
    before = server.resident_kib()
    with server.connect() as client:
        client.send(chunked(path, end=False))
        sent = send_until_refused(client, b"10000\r\n" + b"x" * 65536 + b"\r\n", 1 << 28)
        assert sent < 1 << 28
        try:
            assert client.reply().status == 413
        except ConnectionResetError:
            pass  # we were still sending when the server's patience ended
    assert server.resident_kib() - before < 8192


def test_a_body_announced_too_large_is_not_waited_for(server):
    with server.connect() as client:
        client.send(get("/echo", f"Content-Length: {1 << 30}", method="POST"))
        assert client.reply().status == 413
        assert client.is_closed()


def test_many_tiny_chunks_are_a_body_too(server):
    assert server.ask(chunked("/echo", *[b"x"] * 5000)).body == b"x" * 5000


def drip(client, data, seconds=0.03):
    """One byte after the other until the server has had enough; the time it took."""
    began = time.monotonic()
    try:
        for byte in data:
            client.send(bytes([byte]))
            if not client.is_silent(seconds):
                break
    except (BrokenPipeError, ConnectionResetError):
        pass
    return time.monotonic() - began


@pytest.mark.parametrize("request_bytes", [
    GET.encode() + b"A: b\r\n" * 1000, b"POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 999\r\n\r\n" + b"x" * 999,
], ids=["head", "body"])
def test_slowloris_is_cut_though_bytes_keep_coming(request_bytes):
    with Server("head_ms=400", "body_ms=400") as server, server.connect() as client:
        if request_bytes.startswith(b"POST"):
            head, body = request_bytes.split(b"\r\n\r\n")
            client.send(head + b"\r\n\r\n")
            request_bytes = body
        assert 0.3 < drip(client, request_bytes) < PATIENCE / 2
        assert client.reply().status == 408
        assert client.is_closed()


def test_a_slow_client_within_the_deadline_is_served():
    with Server("head_ms=30000") as server, server.connect() as client:
        drip(client, HELLO[:-1], 0.005)
        client.send(HELLO[-1:])
        assert client.reply().status == 200


def test_random_damage_neither_crashes_nor_leaks():
    chance = random.Random(4)
    seeds = [HELLO, post("/echo", b"abc"), chunked("/echo", b"abc", b"defg"), get("/path/a%20b?q=1", "X-Test: y")]
    with Server("head_ms=20", "body_ms=20", "idle_ms=1000") as server:
        server.ask(HELLO)
        before = server.descriptors()
        for _ in range(10000):
            damaged = bytearray(chance.choice(seeds))
            for _ in range(chance.randrange(1, 4)):
                at = chance.randrange(len(damaged))
                damaged[at:at + chance.randrange(2)] = bytes([chance.randrange(256)])
            with server.connect() as client:
                client.send(bytes(damaged))
        server.wait_stats(connections=1)
        assert server.descriptors() <= before + 1
