"""A test server process (coto-http-test), and clients that speak to it byte by byte."""
import json
import os
import pathlib
import select
import signal
import socket
import subprocess
import time

BIN = pathlib.Path(os.environ.get("COTO_TEST_BIN", pathlib.Path(__file__).parents[2] / "build"))
ASAN = b"__asan_init" in (BIN / "coto-http-test").read_bytes()
# The machine may be stopped for a while; no test waits that long when all is well.
PATIENCE = 40

HELLO = b"GET /hello HTTP/1.1\r\nHost: a\r\n\r\n"


class Server:
    """with Server('head_ms=300') as it: it.connect()"""

    def __init__(self, *arguments, listen=("127.0.0.1:0",), **options):
        command = [str(BIN / "coto-http-test"), *arguments, *(f"listen={at}" for at in listen)]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                        stdin=subprocess.DEVNULL, **options)
        self.where = []
        for line in iter(lambda: self.process.stdout.readline().decode().strip(), "ready"):
            assert line, self.process.stderr.read().decode()
            self.where.append(line)

    def __enter__(self):
        return self

    def __exit__(self, failure, *_):
        """A drained server ends by itself, with nothing leaked where a sanitizer looks."""
        if failure:
            self.process.kill()
            print(self.process.communicate()[1].decode())
            return
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            _, noise = self.process.communicate(timeout=PATIENCE)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.communicate()
            raise
        assert (self.process.returncode, noise) == (0, b"")

    @property
    def address(self):
        host, port = self.where[0].rsplit(":", 1)
        return host, int(port)

    def connect(self):
        return Client(socket.create_connection(self.address, timeout=PATIENCE))

    def ask(self, request):
        with self.connect() as client:
            return client.ask(request)

    def stats(self):
        return json.loads(self.ask(get("/stats")).body)

    def wait_stats(self, **wanted):
        """Until the counters are as wanted; callbacks happen a moment after their cause."""
        end = time.monotonic() + PATIENCE
        while True:
            stats = self.stats()
            if all(stats[key] == value for key, value in wanted.items()):
                return stats
            assert time.monotonic() < end, stats
            time.sleep(0.01)

    def reload(self):
        self.process.send_signal(signal.SIGHUP)
        return self.process.stdout.readline().decode().strip()

    def descriptors(self):
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))

    def resident_kib(self):
        """0 with a sanitizer, which keeps what was freed."""
        if ASAN:
            return 0
        text = pathlib.Path(f"/proc/{self.process.pid}/status").read_text()
        return int(text.split("VmRSS:")[1].split()[0])


class Reply:
    def __init__(self, status, headers, body):
        self.status, self.headers, self.body = status, headers, body


class Client:
    """A connection; what was read too far stays for the next reply."""

    def __init__(self, sock):
        self.sock, self.rest = sock, bytearray()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.sock.close()

    def send(self, data):
        self.sock.sendall(data)

    def ask(self, request, method=None):
        self.send(request)
        return self.reply(method or request.split(b" ", 1)[0].decode())

    def _more(self):
        data = self.sock.recv(65536)
        self.rest += data
        return data

    def _until(self, mark):
        while mark not in self.rest:
            assert self._more(), f"connection ended after {self.rest!r}"
        text = bytes(self.rest[:self.rest.index(mark)])
        del self.rest[:len(text) + len(mark)]
        return text

    def _exactly(self, count):
        while len(self.rest) < count:
            assert self._more(), f"connection ended after {len(self.rest)} of {count} bytes"
        data = bytes(self.rest[:count])
        del self.rest[:count]
        return data

    def _chunks(self):
        body = bytearray()
        while size := int(self._until(b"\r\n"), 16):
            body += self._exactly(size)
            assert self._exactly(2) == b"\r\n"
        assert self._exactly(2) == b"\r\n"
        return bytes(body)

    def head(self):
        first, *lines = self._until(b"\r\n\r\n").decode("latin-1").split("\r\n")
        version, status, _ = first.split(" ", 2)
        assert version == "HTTP/1.1"
        pairs = [line.split(": ", 1) for line in lines]
        headers = {name.lower(): value for name, value in pairs}
        assert len(headers) == len(pairs), "a header came twice"
        return Reply(int(status), headers, b"")

    def reply(self, method="GET"):
        reply = self.head()
        if reply.status >= 200 and reply.status not in (204, 304) and method != "HEAD":
            if "chunked" in reply.headers.get("transfer-encoding", ""):
                reply.body = self._chunks()
            elif "content-length" in reply.headers:
                reply.body = self._exactly(int(reply.headers["content-length"]))
            else:
                while self._more():
                    pass
                reply.body = self._exactly(len(self.rest))
        return reply

    def is_silent(self, seconds=0.15):
        return not self.rest and not select.select([self.sock], [], [], seconds)[0]

    def is_closed(self):
        """Waits for the end of the connection; False when something else comes."""
        try:
            return not self.rest and self.sock.recv(1) == b""
        except ConnectionResetError:
            return True


def get(path, *fields, method="GET", version="1.1"):
    lines = [f"{method} {path} HTTP/{version}", "Host: a", *fields]
    return "\r\n".join(lines + ["", ""]).encode("latin-1")


def post(path, body, *fields):
    return get(path, f"Content-Length: {len(body)}", *fields, method="POST") + body


def chunked(path, *chunks, end=True):
    body = b"".join(b"%x\r\n%s\r\n" % (len(chunk), chunk) for chunk in chunks)
    head = get(path, "Transfer-Encoding: chunked", method="POST")
    return head + body + (b"0\r\n\r\n" if end else b"")
