"""TLS with client certificates: who gets in, and who does not even finish the handshake."""
import contextlib
import json
import socket
import ssl
import subprocess
import threading
import time

import pytest

from .helpers import BIN, HELLO, PATIENCE, Client, Server, get, post
from .pki import Authority

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")  # old versions, on purpose
OLD = ("-startdate", "20200101000000Z", "-enddate", "20200102000000Z")
FUTURE = ("-startdate", "20980101000000Z", "-enddate", "20990101000000Z")


@pytest.fixture(scope="module")
def pki(tmp_path_factory):
    room = tmp_path_factory.mktemp("pki")
    pki = Authority(room / "ours")
    pki.server = pki.issue("server", "server")
    pki.alice = pki.issue("alice")
    return pki


@pytest.fixture(scope="module")
def foreign(tmp_path_factory):
    return Authority(tmp_path_factory.mktemp("foreign") / "theirs")


def tls_option(pki, crl=True):
    files = [*pki.server, pki.ca] + ([pki.crl] if crl else [])
    return "tls=" + ",".join(map(str, files))


@pytest.fixture(scope="module")
def server(pki):
    with Server(tls_option(pki)) as it:
        yield it


def context(pki, identity=None, version=None):
    made = ssl.create_default_context(cafile=str(pki.ca))
    if identity:
        made.load_cert_chain(*map(str, identity))
    if version:
        made.set_ciphers("ALL:@SECLEVEL=0")
        made.minimum_version = made.maximum_version = version
    return made


def connect(server, tls):
    plain = socket.create_connection(server.address, timeout=PATIENCE)
    try:
        return Client(tls.wrap_socket(plain, server_hostname="127.0.0.1"))
    except OSError:
        plain.close()
        raise


def ask(server, tls, request=HELLO):
    with connect(server, tls) as client:
        return client.ask(request)


def assert_refused(server, tls):
    """With TLS 1.3 the client learns it with its first read, which may also be a reset."""
    before = stats(server)
    with pytest.raises((ssl.SSLError, ConnectionResetError, BrokenPipeError, AssertionError)) as caught:
        ask(server, tls)
    assert caught.type is not AssertionError or "connection ended after" in str(caught.value)
    after = stats(server)
    assert after["requests"] == before["requests"] + 1  # our own question
    assert after["handshakes_failed"] == before["handshakes_failed"] + 1


def stats(server):
    return json.loads(ask(server, server.good, get("/stats")).body)


@pytest.fixture(autouse=True)
def good(request, pki):
    """Positive control of every refusal: alice gets in before and after."""
    if "server" in request.fixturenames:
        it = request.getfixturevalue("server")
        it.good = context(pki, pki.alice)
        assert ask(it, it.good).status == 200


VERSIONS = [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3]


@pytest.mark.parametrize("version", VERSIONS)
def test_the_handler_knows_who_it_is(server, pki, version):
    lines = ask(server, context(pki, pki.alice, version), get("/peer")).body.decode().split("\n")
    serial = subprocess.run(["openssl", "x509", "-noout", "-serial", "-in", pki.alice[0]], text=True,
                            capture_output=True, timeout=60).stdout.strip().split("=")[1]
    assert lines[1:6] == ["-1 -1 -1", "1", "alice", "URI:coto://tenant/alice", serial]


def test_a_name_that_is_two_things_is_none(server, pki):
    """A control character in a name would end it early or split a log line."""
    evil = pki.issue("evil", "plain", subject="alice\n.example")
    assert ask(server, context(pki, evil), get("/peer")).body.decode().split("\n")[3:5] == ["", ""]


@pytest.mark.parametrize("version", VERSIONS)
def test_without_a_certificate(server, pki, version):
    assert_refused(server, context(pki, None, version))


@pytest.mark.parametrize("version", VERSIONS)
def test_of_a_foreign_ca(server, pki, foreign, version):
    assert_refused(server, context(pki, foreign.issue(f"alice{version}"), version))


def test_self_signed_with_the_same_name(server, pki, tmp_path):
    key, pem = tmp_path / "key", tmp_path / "pem"
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
                    "-keyout", key, "-out", pem, "-subj", "/CN=alice", "-days", "3"],
                   check=True, capture_output=True, timeout=60)
    assert_refused(server, context(pki, (pem, key)))


@pytest.mark.parametrize("name, dates", [("expired", OLD), ("future", FUTURE)])
def test_out_of_its_time(server, pki, name, dates):
    assert_refused(server, context(pki, pki.issue(name, dates=dates)))


def test_made_for_servers(server, pki):
    assert_refused(server, context(pki, pki.issue("wrong-use", "server")))


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1])
def test_old_versions(server, pki, version):
    """That this client can speak them is shown by a server of Python's, below."""
    assert_refused(server, context(pki, pki.alice, version))


def weak(pki):
    made = context(pki, pki.alice, ssl.TLSVersion.TLSv1_2)
    made.set_ciphers("ECDHE-ECDSA-AES128-SHA:@SECLEVEL=0")
    return made


def test_weak_ciphers(server, usual, pki):
    assert ask(usual, weak(pki)).status == 200
    assert_refused(server, weak(pki))


def test_another_protocol(server, pki):
    for protocols, fine in (["h2", "http/1.1"], True), (["h2"], False):
        tls = context(pki, pki.alice)
        tls.set_alpn_protocols(protocols)
        if fine:
            with connect(server, tls) as client:
                assert client.sock.selected_alpn_protocol() == "http/1.1"
                assert client.ask(HELLO).status == 200
        else:
            assert_refused(server, tls)


def test_no_renegotiation(server, pki):
    command = ["openssl", "s_client", "-connect", "%s:%d" % server.address, "-tls1_2", "-cert", pki.alice[0],
               "-key", pki.alice[1], "-CAfile", pki.ca]
    done = subprocess.run(list(map(str, command)), input=b"R\n" + HELLO, capture_output=True, timeout=60)
    assert b"no renegotiation" in done.stderr


def test_plain_http_to_a_tls_port(server, pki):
    before = stats(server)["requests"]
    with server.connect() as client:
        client.send(HELLO)
        with pytest.raises((AssertionError, ConnectionResetError)):
            client.reply()
    assert stats(server)["requests"] == before + 1


# ---- sessions ----

class PythonServer:
    """What a server with usual settings does: the positive control."""

    def __init__(self, pki):
        self.tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.tls.load_cert_chain(*map(str, pki.server))
        self.tls.load_verify_locations(str(pki.ca))
        self.tls.verify_mode = ssl.CERT_REQUIRED
        self.tls.set_ciphers("ALL:@SECLEVEL=0")
        self.tls.minimum_version = ssl.TLSVersion.TLSv1
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.address = self.listener.getsockname()
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self):
        while True:
            try:
                plain, _ = self.listener.accept()
                plain.settimeout(PATIENCE)
                with self.tls.wrap_socket(plain, server_side=True) as sock:
                    sock.recv(4096)
                    sock.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
            except ssl.SSLError:
                continue
            except OSError:
                return

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.listener.close()


@pytest.fixture
def usual(pki):
    with PythonServer(pki) as it:
        yield it


def s_client(server, pki, *arguments):
    """openssl's client can offer the session of another run, whoever it was."""
    command = ["openssl", "s_client", "-quiet", "-connect", "%s:%d" % server.address, "-CAfile", pki.ca,
               *arguments]
    sent = get("/peer", "Connection: close")
    return subprocess.run(list(map(str, command)), input=sent, capture_output=True, timeout=60)


@pytest.mark.parametrize("version", ["-tls1_2", "-tls1_3"])
def test_no_session_outlives_its_certificate(server, usual, pki, tmp_path, version):
    identity = ["-cert", pki.alice[0], "-key", pki.alice[1]]
    for it, served in (usual, True), (server, False):
        session = tmp_path / f"session-{served}"
        assert b"200 OK" in s_client(it, pki, version, *identity, "-sess_out", session).stdout
        if not session.exists() or not session.read_bytes():
            assert not served, "the usual server gave no session: the control proves nothing"
            continue
        again = s_client(it, pki, version, "-sess_in", session)
        assert (b"200 OK" in again.stdout) == served


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1])
def test_control_this_client_speaks_old_versions(usual, pki, version):
    assert ask(usual, context(pki, pki.alice, version)).status == 200


# ---- revocation, reload ----

def test_revoked_by_the_list(pki):
    bob = pki.issue("bob")
    with Server(tls_option(pki)) as server:
        server.good = context(pki, pki.alice)
        bobs = context(pki, bob)
        with connect(server, bobs) as kept, connect(server, server.good) as idle:
            assert kept.ask(HELLO).status == 200 and idle.ask(HELLO).status == 200
            pki.revoke(bob[0])
            assert server.reload() == "reload: ok"
            assert kept.is_closed(), "a connection outlived its certificate"
        assert_refused(server, bobs)
        assert ask(server, server.good).status == 200


class Slow:
    """A client that stops in the middle of its handshake: when the server has asked for its certificate."""

    def __init__(self, server, tls):
        self.plain = socket.create_connection(server.address, timeout=PATIENCE)
        self.read, self.write = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.tls = tls.wrap_bio(self.read, self.write, server_hostname="127.0.0.1")
        with pytest.raises(ssl.SSLWantReadError):
            self.tls.do_handshake()
        self.plain.sendall(self.write.read())
        self.read.write(self.plain.recv(65536))

    def step(self, what, *arguments):
        while True:
            try:
                return what(*arguments)
            except ssl.SSLWantReadError:
                self.plain.sendall(self.write.read())
                data = self.plain.recv(65536)
                if not data:
                    raise ConnectionResetError("the end") from None
                self.read.write(data)

    def ask(self, request):
        """The first bytes of the answer, b"" when there is none."""
        try:
            self.step(self.tls.do_handshake)
            self.tls.write(request)
            self.plain.sendall(self.write.read())
            return self.step(self.tls.read, 100)
        except (ssl.SSLError, ConnectionError):
            return b""
        finally:
            self.plain.close()


@pytest.mark.parametrize("version", VERSIONS)
def test_a_handshake_begun_before_a_reload_is_not_finished_after_it(pki, version):
    carol = pki.issue(f"carol{version}")
    with Server(tls_option(pki)) as server:
        server.good = context(pki, pki.alice)
        slow = [Slow(server, context(pki, carol, version)) for _ in range(2)]
        assert b" 200 " in slow[0].ask(HELLO), "control: without a reload it is"
        pki.revoke(carol[0])
        assert server.reload() == "reload: ok"
        assert slow[1].ask(HELLO) == b""
        assert ask(server, server.good).status == 200


def connect_small(server, tls):
    """Of what is sent to it little is with the kernel."""
    plain = socket.socket()
    plain.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 32768)
    plain.settimeout(PATIENCE)
    plain.connect(server.address)
    return Client(tls.wrap_socket(plain, server_hostname="127.0.0.1"))


def wait_until_it_waits(server):
    """Until no request is begun any more; how many have been."""
    counts = [stats(server)["requests"] for _ in range(2)]
    while counts[-1] != counts[-2] + 1:  # our own question
        time.sleep(0.3)
        counts.append(stats(server)["requests"])
    return counts[-1]


def test_no_request_is_begun_with_a_certificate_from_before_a_reload(pki):
    """Neither one whose head was there in part, nor the next after answers that nobody has taken yet."""
    dave = pki.issue("dave")
    with Server(tls_option(pki)) as server:
        server.good = context(pki, pki.alice)
        daves = context(pki, dave)
        with connect(server, daves) as half, connect_small(server, daves) as slow:
            half.send(HELLO[:20])
            slow.send(HELLO * 35000)
            count = wait_until_it_waits(server)
            assert 1000 < count < 35000
            pki.revoke(dave[0])
            assert server.reload() == "reload: ok"
            assert half.is_closed()
            with contextlib.suppress(OSError):
                half.send(HELLO[20:])
            with contextlib.suppress(OSError, AssertionError):
                while slow.reply().status == 200:
                    pass
            assert stats(server)["requests"] == count + 1, "our own question"


def with_lists(pki, file, *lists):
    file.write_bytes(b"".join(one.read_bytes() for one in lists))
    return "tls=" + ",".join(map(str, [*pki.server, pki.ca, file]))


def test_a_list_of_another_authority_alone_is_refused(pki, foreign, tmp_path):
    """It would keep everybody out. This one even has the same name."""
    file = tmp_path / "lists.pem"
    done = subprocess.run([BIN / "coto-http-test", with_lists(pki, file, foreign.crl)], capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 1 and f"{file}': it is of none of the authorities in client-ca" in done.stderr, done.stderr


def test_a_list_of_another_authority_beside_ours(pki, tmp_path):
    """It may be of an authority between, whose certificate only the clients send."""
    between = Authority(tmp_path / "between", "authority between")
    with Server(with_lists(pki, tmp_path / "lists.pem", between.crl, pki.crl)) as server:
        assert ask(server, context(pki, pki.alice)).status == 200


def test_a_reload_that_fails_changes_nothing(pki, tmp_path):
    certificate = tmp_path / "server.pem"
    certificate.write_bytes(pki.server[0].read_bytes())
    with Server(f"tls={certificate},{pki.server[1]},{pki.ca}") as server:
        server.good = context(pki, pki.alice)
        certificate.write_text("not a certificate")
        assert "certificate" in server.reload() and "ok" not in server.reload()
        assert ask(server, server.good).status == 200
        assert_refused(server, context(pki))


@pytest.mark.parametrize("broken", range(4))
def test_what_cannot_be_read_is_named(pki, tmp_path, broken):
    files = [*pki.server, pki.ca, pki.crl]
    files[broken] = tmp_path / "missing"
    done = subprocess.run([BIN / "coto-http-test", "tls=" + ",".join(map(str, files))], capture_output=True,
                          text=True, timeout=PATIENCE)
    assert done.returncode == 1
    assert str(tmp_path / "missing") in done.stderr and "PEM" in done.stderr


# ---- the same server behind it ----

def test_bodies_streams_and_pipelines_over_tls(server):
    body = b"0123456789" * 100000
    with connect(server, server.good) as client:
        assert client.ask(post("/echo", body)).body == body
        assert client.ask(get("/download?bytes=5000000&chunked=1")).body == b"x" * 5000000
        client.send(get("/later?ms=20") + HELLO * 50)
        assert [client.reply().status for _ in range(51)] == [200] * 51
        assert client.ask(get("/events?n=2")).body.count(b"event: tick") == 2
        assert client.ask(get("/hello", "Connection: close")).status == 200
        assert client.is_closed()


def test_gone_over_tls(server):
    before = stats(server)["gone"]
    client = connect(server, server.good)
    client.send(get("/events?n=100000"))
    client.head()
    client.sock.close()
    while stats(server)["gone"] != before + 1:
        pass


def test_a_handshake_that_never_ends_is_cut(pki):
    with Server("head_ms=200", tls_option(pki)) as server, server.connect() as client:
        client.send(b"\x16\x03\x01")
        assert client.is_closed()
