"""The service's processes, and one that others can reach."""
import contextlib
import http.client
import json
import pathlib
import ssl
import subprocess
import threading
import time

from cli.conftest import pytest_sessionstart
from cli.helpers import COTO, status_of

from .helpers import PATIENCE, Reply, Service, wait_until

# Byte by byte: who sends no token learns how one is sent, who sends one that is not good never learns why it is not.
NO_TOKEN = (401, "Bearer", b'{"code":"unauthorized","message":"no valid token",'
            b'"remedy":"send Authorization: Bearer TOKEN","field":null}\n')
UNAUTHORIZED = (401, "Bearer", b'{"code":"unauthorized","message":"no valid token",'
                b'"remedy":"the one that was sent is not good: the local one is new with every start of the service, a sandbox\'s ends with its sandbox; '
                b'of others `coto token show` tells why","field":null}\n')
pytest_sessionstart()  # orphans become ours, so that leftovers finds them


def bearer(token):
    return {"Authorization": f"Bearer {token}"}


def refusal(reply):
    """What matters of it: of a 401 all."""
    if reply.status == 401:
        return 401, reply.headers["WWW-Authenticate"], reply.body
    return reply.status, reply.json["message"]


class Daemon(Service):
    """with Daemon('--drain=1s') as it: os.kill(it.front, 9)"""

    def child(self, name):
        """The pid of that half, 0 when there is none now."""
        pid = self.process.pid
        with contextlib.suppress(OSError):
            for child in pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
                if pathlib.Path(f"/proc/{child}/comm").read_text().strip() == name:
                    return int(child)
        return 0

    @property
    def front(self):
        return self.child("coto-front")

    @property
    def launcher(self):
        return self.child("coto-launch")

    def front_status(self):
        return status_of(self.front)

    def end(self):
        """Told to end: the status, and how long that took."""
        began = time.monotonic()
        return self.stop(), time.monotonic() - began

    def kill_keeper(self):
        """The keeper alone; the kernel has to see to the rest."""
        self.process.kill()
        self.process.wait(PATIENCE)

    def signal(self, number):
        self.process.send_signal(number)

    def wait_for_message(self, text):
        wait_until(lambda: text in self.messages, text)

    def count_running(self):
        return sum(row["state"] == "running" for row in self.get("/api/v1/executions?limit=100").json["executions"])

    def begin_runs(self, code, count=1):
        """That many at once, begun for certain. The result waits for their replies; None is a connection that broke."""
        replies = [None] * count

        def one(i):
            with contextlib.suppress(OSError, http.client.HTTPException):
                replies[i] = self.run(code)
        threads = [threading.Thread(target=one, args=(i,), daemon=True) for i in range(count)]
        for thread in threads:
            thread.start()
        wait_until(lambda: self.count_running() >= count, "the beginning of all runs")

        def join():
            for thread in threads:
                thread.join(PATIENCE)
            return replies
        return join


class Production(Daemon):
    """One with TLS, client certificates and service tokens, and nothing else to connect to."""

    def __init__(self, *flags):
        super().__init__(*flags)
        self.pki, self.keys = self.room / "pki", self.room / "keys"
        self.coto("pki", "init", "pki")
        self.issue("server", "localhost")
        self.issue("client", "alice")
        self.coto("token", "keygen", "es256", "keys")
        self.settings = {
            "port": "none", "socket": "none", "listen": "127.0.0.1:0",
            "tls-certificate": self.pki / "localhost.crt", "tls-key": self.pki / "localhost.key",
            "client-ca": self.pki / "ca.crt", "client-crl": self.pki / "crl.pem",
            "jwt-key": self.keys / "es256.pub"}
        self.certificate = "alice"

    def coto(self, *arguments):
        done = subprocess.run([COTO, *map(str, arguments)], capture_output=True, text=True, timeout=PATIENCE, cwd=self.room)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def issue(self, kind, name, pki="pki", *flags):
        self.coto("pki", "issue", kind, name, "--dir", pki, *flags)

    def mint(self, tenant, *flags):
        return self.coto("token", "mint", "--key", self.keys / "es256.key", "--sub", tenant, *flags).strip()

    def begin(self, *flags, leave_out=()):
        return super().begin(*(f"--{name}={value}" for name, value in self.settings.items() if name not in leave_out), *flags)

    def start(self, *flags):
        self.begin(*flags)
        wait_until(lambda: "listening https" in self.messages or self.process.poll() is not None, "readiness")
        assert self.process.poll() is None, self.messages
        self.port = int(self.messages.split("https://127.0.0.1:")[1].split()[0])
        return self

    def context(self, certificate=None, key=None):
        context = ssl.create_default_context(cafile=self.pki / "ca.crt")
        certificate = certificate or self.pki / f"{self.certificate}.crt"
        context.load_cert_chain(certificate, key or certificate.with_suffix(".key"))
        return context

    def ask(self, method, path, body=None, headers=None, token=None, context=None):
        fields = dict(headers or {}, **(bearer(token) if token else {}))
        connection = http.client.HTTPSConnection("localhost", self.port, timeout=PATIENCE, context=context or self.context())
        with contextlib.closing(connection):
            connection.request(method, path, body=json.dumps(body) if isinstance(body, dict) else body, headers=fields)
            return Reply(connection.getresponse())

    def is_let_in(self, context):
        try:
            return self.ask("GET", "/healthz", context=context).status == 200
        except (ssl.SSLError, ConnectionError, http.client.HTTPException):
            return False
