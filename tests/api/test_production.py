"""What others can reach: client certificates, service tokens, tokens of single sandboxes, reload."""
import base64
import contextlib
import datetime
import hashlib
import hmac
import http.client
import ipaddress
import json
import os
import signal
import socket
import ssl
import subprocess
import time

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from auth.helpers import token as signed
from cli.helpers import COTO

from .daemon import NO_TOKEN, UNAUTHORIZED, Daemon, Production, refusal
from .helpers import Reply, wait_until

NEEDED = ["tls-certificate", "tls-key", "client-ca", "jwt-key"]


@pytest.fixture(scope="module")
def service():
    with Production() as it:
        yield it
        assert it.stop() == 0, it.messages


@pytest.fixture
def own():
    it = Production()
    yield it
    it.__exit__()


@pytest.fixture(scope="module")
def alice(service):
    return service.mint("alice")


@pytest.fixture(scope="module")
def bob(service):
    return service.mint("bob")


# ---- nothing without all of it ----

@pytest.mark.parametrize("missing", NEEDED)
def test_nothing_listens_for_others_without(own, missing):
    own.begin(leave_out=[missing])
    assert own.process.wait(60) == 64
    assert f"listen: {missing} is missing" in own.messages and "coto pki init" in own.messages


def test_any_address_needs_it(own):
    for address in ("0.0.0.0:0", "[::]:0", "127.0.0.1:0", "[::1]:0"):
        own.begin(f"--listen={address}", leave_out=["jwt-key"])
        assert own.process.wait(60) == 64, address


def test_a_key_that_everybody_can_read_is_refused(own):
    (own.pki / "localhost.key").chmod(0o644)
    own.begin()
    assert own.process.wait(60) == 68 and "open to everybody" in own.messages


def test_a_start_tells_how_to_use_it(service):
    assert f"curl --cacert CA.crt --cert CLIENT.crt --key CLIENT.key -H \"Authorization: Bearer TOKEN\" https://127.0.0.1:{service.port}/api/v1/run" in service.messages


def test_a_key_that_is_there_twice_is_told_with_both_files(own):
    again = own.keys / "again.pub"
    again.write_bytes((own.keys / "es256.pub").read_bytes())
    own.begin(f"--jwt-key={again}")
    assert own.process.wait(60) == 66 and f"key file '{again}'" in own.messages and f"in '{own.keys / 'es256.pub'}' too" in own.messages, own.messages


def test_there_is_no_other_way_in(service):
    """No socket, no port, and no token of the zero configuration."""
    assert sorted(os.listdir(service.runtime)) == ["life", "lock"]
    assert service.messages.count("listening") == 1


# ---- certificates (AP-15) ----

def other_authority(service):
    service.coto("pki", "init", "other")
    service.issue("client", "alice", "other")
    return service.context(service.room / "other/alice.crt")


def server_as_client(service):
    return service.context(service.pki / "localhost.crt")


def self_signed(service):
    """The same names, signed by itself."""
    key, cert = service.room / "self.key", service.room / "self.crt"
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj",
                    "/CN=alice", "-addext", "subjectAltName=URI:urn:coto:client:alice", "-addext",
                    "extendedKeyUsage=clientAuth", "-keyout", key, "-out", cert], check=True, capture_output=True)
    return service.context(cert, key)


def none_at_all(service):
    return ssl.create_default_context(cafile=service.pki / "ca.crt")


def old_version(service):
    context = service.context()
    context.minimum_version = ssl.TLSVersion.TLSv1
    context.maximum_version = ssl.TLSVersion.TLSv1_1
    context.set_ciphers("ALL:@SECLEVEL=0")
    return context


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("make", [none_at_all, other_authority, server_as_client, self_signed, old_version])
def test_only_good_certificates_are_let_in(service, make):
    assert not service.is_let_in(make(service))
    assert service.is_let_in(service.context())


def test_who_is_not_let_in_hears_why(service):
    """Although it has sent a request by then, which nobody reads: that would make the kernel drop what it was told."""
    for _ in range(20):
        with socket.create_connection(("127.0.0.1", service.port)) as plain, \
                none_at_all(service).wrap_socket(plain, server_hostname="localhost") as it:
            with pytest.raises(ssl.SSLError, match="(?i)certificate.required"):
                it.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n" * 100)
                time.sleep(0.02)
                it.sendall(b"more")
                it.recv(1)


def test_a_certificate_alone_is_not_enough(service, alice):
    assert refusal(service.get("/api/v1/sandbox")) == NO_TOKEN
    assert service.get("/api/v1/sandbox", token=alice).status == 200


# ---- whose certificates, and whose tokens with them (AP-15) ----

STRANGER = (403, "the client certificate has no name that is let in here")
OTHERS = (401, "the token is for a name that the client certificate does not have")
UNHELD = (401, "the token is good with another client certificate only (cnf)")


def told(reply):
    return reply.status, reply.json["message"]


def certificate(service, name, *names, cn=None, authority=None):
    """A client's, of the service's authority or of another (certificate, key), with any names in it."""
    issuer = x509.load_pem_x509_certificate((service.pki / "ca.crt").read_bytes()) if not authority else authority[0]
    signer = authority[1] if authority else serialization.load_pem_private_key((service.pki / "ca.key").read_bytes(), None)
    key = ec.generate_private_key(ec.SECP256R1())
    start = datetime.datetime.now(datetime.timezone.utc) - datetime.timedelta(minutes=5)
    made = x509.CertificateBuilder(
        subject_name=x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, cn or name)]), issuer_name=issuer.subject,
        public_key=key.public_key(), serial_number=x509.random_serial_number(), not_valid_before=start,
        not_valid_after=start + datetime.timedelta(days=1)).add_extension(
            x509.ExtendedKeyUsage([x509.ExtendedKeyUsageOID.CLIENT_AUTH]), False)
    if names:
        made = made.add_extension(x509.SubjectAlternativeName(names), False)
    made = made.sign(signer, hashes.SHA256())
    file = service.room / f"{name}.crt"
    file.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    file.with_suffix(".key").write_bytes(key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()))
    return service.context(file)


def configure(service, **settings):
    """In its file, which a SIGHUP has it read again."""
    file = service.room / "serve.yaml"
    file.write_text("".join(f"{name.replace('_', '-')}: {json.dumps(value)}\n" for name, value in settings.items()))
    file.chmod(0o600)
    return f"--config={file}"


@pytest.mark.parametrize("names, cn, is_let_in", [
    ([x509.UniformResourceIdentifier("urn:coto:client:worker")], "x", True),
    ([x509.DNSName("worker.example")], "x", True),
    ([x509.DNSName("other"), x509.UniformResourceIdentifier("spiffe://a/b")], "x", True),
    ([], "worker", True),
    ([x509.DNSName("other")], "worker", False),  # it has a SAN: the CN says nothing
    ([x509.IPAddress(ipaddress.ip_address("10.0.0.1"))], "worker", False),
    ([x509.RFC822Name("worker")], "x", False),
    ([x509.DNSName("other.worker.example")], "x", False),
    ([x509.DNSName("worker.example.evil")], "x", False),
    ([x509.UniformResourceIdentifier("urn:coto:client:worker.example")], "x", True),
    ([x509.UniformResourceIdentifier("urn:coto:client:worker/../bob")], "x", False),
    ([x509.UniformResourceIdentifier("worker\0.evil")], "x", False),
    ([], "other", False)])
def test_only_names_of_the_list_are_let_in(named, names, cn, is_let_in):
    """Of the right authority, all of them."""
    context = certificate(named, "tried", *names, cn=cn)
    told = named.ask("GET", "/healthz", context=context)
    assert told.status == 200 if is_let_in else refusal(told) == STRANGER
    assert named.ask("GET", "/healthz").status == 200, "control: alice"


@pytest.fixture(scope="module")
def named():
    with Production("--client-names=worker", "--client-names=worker.example", "--client-names=URI:spiffe://a/b",
                    "--client-names=alice") as it:
        yield it
        assert it.stop() == 0, it.messages


def test_a_stranger_gets_nothing(named):
    """Not with a good token either, nor a word of what there is."""
    bob, token = certificate(named, "bob", x509.DNSName("bob")), named.mint("bob")
    for method, path in (("GET", "/api/v1/sandbox"), ("POST", "/api/v1/run"), ("GET", "/openapi.json"), ("GET", "/nothing")):
        told = named.ask(method, path, body={"code": "print(1)"} if method == "POST" else None, token=token, context=bob)
        assert refusal(told) == STRANGER and "client-names" in told.json["remedy"]
    assert named.ask("GET", "/api/v1/sandbox", token=token).status == 200, "control: the token itself"


def test_names_change_without_a_restart(own):
    """Also for a connection that is open; and a list with an error changes nothing."""
    flag = configure(own, client_names=["alice"])
    own.start(flag)
    own.issue("client", "bob")
    front, bob, token = own.front, own.context(own.pki / "bob.crt"), own.mint("bob")
    assert refusal(own.ask("GET", "/healthz", context=bob)) == STRANGER and own.is_let_in(own.context())
    configure(own, client_names=["bob"])
    own.signal(signal.SIGHUP)
    wait_until(lambda: own.is_let_in(bob), "bob")
    assert refusal(own.ask("GET", "/healthz")) == STRANGER
    configure(own, client_names=[])
    own.signal(signal.SIGHUP)
    own.wait_for_message("client-names: it is empty")
    assert own.is_let_in(bob) and refusal(own.ask("GET", "/healthz")) == STRANGER
    assert own.front == front
    os.kill(front, signal.SIGKILL)
    wait_until(lambda: own.front not in (0, front) and own.is_let_in(bob), "a new front")
    assert refusal(own.ask("GET", "/healthz")) == STRANGER
    own.coto("pki", "revoke", "bob", "--dir", "pki")
    wait_until(lambda: not own.is_let_in(bob), "the revocation of one that is named")
    with pytest.raises((ssl.SSLError, ConnectionError, http.client.HTTPException)):
        own.ask("GET", "/api/v1/sandbox", token=token, context=bob)
    configure(own)
    own.signal(signal.SIGHUP)
    wait_until(lambda: own.is_let_in(own.context()), "everybody: no list")
    assert not own.is_let_in(bob)


def test_names_need_an_authority():
    with Daemon() as it:
        for flag in ("--client-names=alice", "--bind-tokens=certificate"):
            done = subprocess.run([COTO, "serve", "--check", f"--state-dir={it.room / 'other'}", f"--runtime-dir={it.room / 'run2'}",
                                   flag], capture_output=True, text=True, timeout=60)
            assert done.returncode == 64 and "client-ca is missing" in done.stderr


def test_a_token_is_for_its_own_certificate(own):
    """Where the operator says so: alice's certificate does nothing for bob's token. Control: without that it does."""
    flag = configure(own)
    own.start(flag)
    own.issue("client", "bob")
    alice, bob = own.mint("alice"), own.mint("bob")
    bobs = own.context(own.pki / "bob.crt")
    assert own.ask("GET", "/api/v1/sandbox", token=bob).status == 200
    made = own.post("/api/v1/sandbox/create", token=alice).json
    configure(own, bind_tokens="certificate")
    own.signal(signal.SIGHUP)
    own.wait_for_message("reloaded")
    wait_until(lambda: own.ask("GET", "/api/v1/sandbox", token=bob).status == 401, "the new rule")
    assert told(own.ask("GET", "/api/v1/sandbox", token=bob)) == OTHERS
    assert told(own.ask("GET", "/api/v1/sandbox", token=alice, context=bobs)) == OTHERS
    assert own.ask("GET", "/api/v1/sandbox", token=alice).status == 200
    assert own.ask("GET", "/api/v1/sandbox", token=bob, context=bobs).status == 200
    path = f"/api/v1/sandbox/{made['sandbox_id']}"
    assert own.ask("GET", path, token=made["access_token"]).status == 200
    assert told(own.ask("GET", path, token=made["access_token"], context=bobs)) == OTHERS
    several = certificate(own, "several", x509.DNSName("alice"), x509.DNSName("bob"))
    assert {own.ask("GET", "/api/v1/sandbox", token=token, context=several).status for token in (alice, bob)} == {200}


def test_without_a_certificate_no_token_is_for_it(own):
    """On this host; who has the local token or the socket needs none."""
    own.settings.update({"port": 0, "socket": own.room / "api.sock", "bind-tokens": "certificate"})
    own.start()
    plain = int(own.messages.split("http://127.0.0.1:")[1].split()[0])

    def local(token):
        with contextlib.closing(http.client.HTTPConnection("127.0.0.1", plain, timeout=60)) as connection:
            connection.request("GET", "/api/v1/sandbox", headers={"Authorization": f"Bearer {token}"})
            return Reply(connection.getresponse())
    assert told(local(own.mint("alice"))) == OTHERS
    assert local(own.token).status == 200
    assert own.get("/api/v1/sandbox", token=own.mint("alice")).status == 200, "control: with hers"


def test_a_token_that_names_its_certificate(own):
    """RFC 8705: with that one, and with no other; not where there is none."""
    own.settings.update({"port": 0})
    own.start()
    plain = int(own.messages.split("http://127.0.0.1:")[1].split()[0])
    bound = own.mint("alice", "--certificate", own.pki / "alice.crt")
    der = ssl.PEM_cert_to_DER_cert((own.pki / "alice.crt").read_text()[(own.pki / "alice.crt").read_text().index("-----BEGIN"):])
    claims = json.loads(base64.urlsafe_b64decode(bound.split(".")[1] + "=="))
    assert claims["cnf"] == {"x5t#S256": base64.urlsafe_b64encode(hashlib.sha256(der).digest()).rstrip(b"=").decode()}
    assert own.get("/api/v1/sandbox", token=bound).status == 200
    again = certificate(own, "again", x509.UniformResourceIdentifier("urn:coto:client:alice"))
    assert own.ask("GET", "/api/v1/sandbox", token=own.mint("alice"), context=again).status == 200, "control: it is let in"
    assert told(own.ask("GET", "/api/v1/sandbox", token=bound, context=again)) == UNHELD
    with contextlib.closing(http.client.HTTPConnection("127.0.0.1", plain, timeout=60)) as connection:
        connection.request("GET", "/api/v1/sandbox", headers={"Authorization": f"Bearer {bound}"})
        assert told(Reply(connection.getresponse())) == UNHELD
    one = own.post("/api/v1/sandbox/create", token=bound).json["sandbox_id"]
    for_one = own.mint("alice", "--sandbox", one, "--certificate", own.pki / "alice.crt")
    assert own.get(f"/api/v1/sandbox/{one}", token=for_one).status == 200
    assert told(own.ask("GET", f"/api/v1/sandbox/{one}", token=for_one, context=again)) == UNHELD


@pytest.mark.parametrize("cnf", [{}, {"jkt": "x" * 43}, {"x5t#S256": "A" * 43, "jkt": "x" * 43}, {"x5t#S256": ""},
                                 {"x5t#S256": "A" * 42}, {"x5t#S256": "A" * 42 + "B"}, {"x5t#S256": None}, "x", None, []])
def test_what_cannot_be_checked_is_refused(own, cnf):
    secret = own.room / "one.secret"
    secret.write_text("s" * 40)
    secret.chmod(0o600)
    own.settings["jwt-key"] = secret

    def made(**more):
        parts = [base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=").decode() for part in (
            {"alg": "HS256"}, {"sub": "alice", "aud": "coto", "exp": int(time.time()) + 600, **more})]
        signature = hmac.new(b"s" * 40, ".".join(parts).encode(), "sha256").digest()
        return ".".join([*parts, base64.urlsafe_b64encode(signature).rstrip(b"=").decode()])
    own.start()
    assert refusal(own.get("/api/v1/sandbox", token=made(cnf=cnf))) == UNAUTHORIZED
    assert own.get("/api/v1/sandbox", token=made()).status == 200, "control"


def authority(name, above=None):
    """(certificate, key), of itself or below another."""
    key = ec.generate_private_key(ec.SECP256R1())
    start = datetime.datetime.now(datetime.timezone.utc) - datetime.timedelta(minutes=5)
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
    made = x509.CertificateBuilder(
        subject_name=subject, issuer_name=above[0].subject if above else subject, public_key=key.public_key(),
        serial_number=x509.random_serial_number(), not_valid_before=start,
        not_valid_after=start + datetime.timedelta(days=1)).add_extension(x509.BasicConstraints(ca=True, path_length=None), True)
    return made.sign(above[1] if above else key, hashes.SHA256()), key


def pem(*certificates):
    return b"".join(one.public_bytes(serialization.Encoding.PEM) for one in certificates)


def test_a_chain_must_be_whole(own):
    """A certificate of an authority below: with that one's own it is let in, alone it is not."""
    root = authority("root")
    below = authority("below", root)
    (own.room / "root.crt").write_bytes(pem(root[0]))
    own.settings.update({"client-ca": own.room / "root.crt", "client-names": "deep"})
    del own.settings["client-crl"]  # of another authority
    own.start()
    for name in ("deep", "other"):
        assert not own.is_let_in(certificate(own, name, x509.DNSName(name), authority=below)), "it alone"
        with open(own.room / f"{name}.crt", "ab") as chain:
            chain.write(pem(below[0]))
    assert own.is_let_in(own.context(own.room / "deep.crt"))
    assert refusal(own.ask("GET", "/healthz", context=own.context(own.room / "other.crt"))) == STRANGER


def test_a_revoked_certificate_is_out_within_seconds(own):
    """The service looks at its files; connections that were made before have to show theirs again."""
    own.start()
    own.issue("client", "bob")
    alice = own.context()
    assert own.is_let_in(alice)
    own.coto("pki", "revoke", "alice", "--dir", "pki")
    wait_until(lambda: not own.is_let_in(alice), "the revocation")
    assert own.is_let_in(own.context(own.pki / "bob.crt"))


@pytest.mark.parametrize("is_ending", [False, True])
def test_a_handshake_begun_before_a_revocation_is_not_finished_after_it(own, is_ending):
    """It would have been judged by the list of before, and been good for one more request; of a service that ends too."""
    own.start()
    own.issue("client", "bob")
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    bob = own.context(own.pki / "bob.crt")
    tls = bob.wrap_bio(incoming, outgoing, server_hostname="localhost")
    with socket.create_connection(("127.0.0.1", own.port), timeout=60) as raw:
        def step(what, *arguments):
            while True:
                try:
                    return what(*arguments)
                except ssl.SSLWantReadError:
                    raw.sendall(outgoing.read())
                    incoming.write(raw.recv(65536) or b"the end")

        with pytest.raises(ssl.SSLWantReadError):
            tls.do_handshake()
        raw.sendall(outgoing.read())
        incoming.write(raw.recv(65536))
        own.coto("pki", "revoke", "bob", "--dir", "pki")
        own.wait_for_message("key files have changed")
        wait_until(lambda: not own.is_let_in(bob), "the revocation")
        if is_ending:
            own.signal(signal.SIGTERM)
            own.wait_for_message("ending")
        answer = b""
        with contextlib.suppress(ssl.SSLError, ConnectionError):
            step(tls.do_handshake)
            tls.write(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
            answer = step(tls.read, 100)
        assert b"200" not in answer


@pytest.mark.parametrize("is_revoked", [True, False])
def test_a_body_that_comes_after_a_revocation_begins_nothing(own, is_revoked):
    """Of who is let in still it is taken: an upload is not cut for somebody else's certificate."""
    own.start()
    for name in ("bob", "carol"):
        own.issue("client", name)
    bob = own.context(own.pki / "bob.crt")
    body = json.dumps({"code": "print(6 * 7)"})
    connection = http.client.HTTPSConnection("localhost", own.port, timeout=60, context=bob)
    with contextlib.closing(connection):
        connection.putrequest("POST", "/api/v1/run")
        for name, value in {"Authorization": f"Bearer {own.mint('alice')}", "Content-Length": str(len(body))}.items():
            connection.putheader(name, value)
        connection.endheaders(body[:5].encode())
        own.coto("pki", "revoke", "bob" if is_revoked else "carol", "--dir", "pki")
        own.wait_for_message("key files have changed")
        wait_until(lambda: own.is_let_in(bob) != is_revoked, "the revocation")
        status = None
        with contextlib.suppress(ssl.SSLError, ConnectionError, http.client.HTTPException):
            connection.send(body[5:].encode())
            status = connection.getresponse().status
    assert status == (None if is_revoked else 200)


# ---- service tokens ----

def part(value):
    return base64.urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=").decode()


def claims_of(token):
    text = token.split(".")[1]
    return json.loads(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))


@pytest.mark.parametrize("spoil", [
    lambda token: part({"alg": "none"}) + "." + token.split(".")[1] + ".",
    lambda token: token[:-6] + ("A" if token[-6] != "A" else "B") + token[-5:],
    lambda token: token.rsplit(".", 1)[0] + ".",
    lambda token: token + "=",
    lambda token: token.split(".")[0] + "." + part({**claims_of(token), "sub": "bob"}) + "." + token.split(".")[2],
    lambda token: "a" * 9000,
], ids=["none", "flipped", "unsigned", "padded", "changed", "long"])
def test_spoilt_tokens_are_all_refused_alike(service, alice, spoil):
    """AP-10, AP-12; the whole table is in tests/auth"""
    assert refusal(service.get("/api/v1/sandbox", token=spoil(alice))) == UNAUTHORIZED


@pytest.mark.parametrize("flags", [["--aud", "other"], ["--not-before", "10m", "--ttl", "20m"]])
def test_tokens_for_others_or_for_later_are_refused(service, flags):
    """AP-11"""
    assert refusal(service.get("/api/v1/sandbox", token=service.mint("alice", *flags))) == UNAUTHORIZED


def forge(service, **claims):
    """By the key of the service's tokens, of what `coto token mint` refuses to make."""
    key = serialization.load_pem_private_key((service.keys / "es256.key").read_bytes(), None)
    return signed(key, {"alg": "ES256"}, {"sub": "alice", "aud": "coto", "exp": int(time.time()) + 600, **claims})


@pytest.mark.parametrize("claims, words", [
    ({"sub": "local"}, "its sub 'local' is reserved"), ({"sub": "uid:0"}, "its sub 'uid:0' is reserved"), ({"iss": "coto-serve"}, "its iss 'coto-serve' is the service's own")])
def test_a_token_cannot_be_for_a_local_user(service, claims, words):
    """And `coto token show` says so too."""
    token = forge(service, **claims)
    assert refusal(service.get("/api/v1/sandbox", token=token)) == UNAUTHORIZED
    assert service.get("/api/v1/sandbox", token=forge(service)).status == 200, "control"
    done = subprocess.run([COTO, "token", "show", token, "--key", service.keys / "es256.pub"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 68 and words in done.stderr, done


def test_a_token_that_may_only_read_cannot_write(service):
    """AP-13"""
    read, write = service.mint("alice", "--scope", "read"), service.mint("alice", "--scope", "write")
    assert service.get("/api/v1/sandbox", token=read).status == 200
    reply = service.post("/api/v1/run", code="print(1)", token=read)
    assert refusal(reply) == (403, "the token's scope has no `write`") and "--scope" in reply.json["remedy"]
    assert service.post("/api/v1/run", code="print(1)", token=write).status == 200
    assert service.get("/api/v1/sandbox", token=write).status == 403


# ---- tenants and sandboxes (AP-13, AP-14) ----

@pytest.fixture
def sandboxes(service, alice, bob):
    """Two of alice's, one of bob's: id and token."""
    made = [service.create(token=token) for token in (alice, alice, bob)]
    yield [(one["sandbox_id"], one["access_token"]) for one in made]
    for one, token in zip(made, (alice, alice, bob)):
        service.delete(f"/api/v1/sandbox/{one['sandbox_id']}", token=token)


def execute(service, sandbox, token):
    return service.post(f"/api/v1/sandbox/{sandbox}/execute", code="print(5)", token=token)


def test_metrics_are_for_operators(service, alice):
    """They tell of all tenants: a token that may do all its tenant may does not open them."""
    for token in (alice, service.mint("alice", "--scope", "read write"), service.mint("alice", "--scope", "read")):
        assert refusal(service.get("/metrics", token=token)) == (403, "the token's scope has no `metrics`")
    assert service.get("/metrics").status == 401
    token = service.mint("prometheus", "--scope", "metrics")
    assert b"coto_executions_total" in service.get("/metrics", token=token).body
    assert service.get("/api/v1/sandbox", token=token).status == 403, "and opens nothing else"


def test_the_token_of_a_sandbox_opens_that_one_only(service, sandboxes, alice):
    (one, token), (two, _), (theirs, _) = sandboxes
    assert execute(service, one, token).json["output"] == "5\n"
    assert execute(service, two, token).status == 404
    assert execute(service, theirs, token).status == 404
    for method, path in [("GET", "/api/v1/sandbox"), ("DELETE", f"/api/v1/sandbox/{one}"), ("POST", "/api/v1/run"),
                         ("POST", "/api/v1/sandbox/create"), ("GET", "/api/v1/executions"), ("GET", "/metrics")]:
        assert service.ask(method, path, {"code": "1"} if method == "POST" else None, token=token).status == 403, path
    claims = claims_of(token)
    assert claims["sandbox"] == one and claims["sub"] == "alice"


def test_tenants_do_not_see_each_other(service, sandboxes, alice, bob):
    (one, _), (two, _), (theirs, _) = sandboxes
    seen = {row["sandbox_id"] for row in service.get("/api/v1/sandbox", token=bob).json["sandboxes"]}
    assert theirs in seen and not {one, two} & seen
    assert service.get(f"/api/v1/sandbox/{one}", token=bob).status == 404
    assert execute(service, one, bob).status == 404
    assert service.delete(f"/api/v1/sandbox/{one}", token=bob).status == 404
    assert execute(service, one, alice).json["output"] == "5\n"


def test_the_token_of_a_sandbox_ends_with_it(service, alice):
    made = service.create(token=alice)
    sandbox, token = made["sandbox_id"], made["access_token"]
    assert execute(service, sandbox, token).status == 200
    assert service.delete(f"/api/v1/sandbox/{sandbox}", token=alice).status == 200
    assert refusal(execute(service, sandbox, token)) == UNAUTHORIZED
    assert execute(service, sandbox, alice).status == 404


def test_a_service_cannot_mint_tokens_of_sandboxes_for_others(service, sandboxes, bob):
    """Signed with the service's key, not with coto's own."""
    (one, _), _, _ = sandboxes
    token = service.mint("bob", "--sandbox", one)
    assert execute(service, one, token).status in (401, 404)


def test_a_scope_holds_for_one_sandbox_too(service, sandboxes, alice):
    """Both narrow a token: the one does not undo the other."""
    (one, _), _, _ = sandboxes
    read, write, neither, both = (service.mint("alice", "--sandbox", one, "--scope", scope)
                                  for scope in ("read", "write", "", "read write"))
    assert service.get(f"/api/v1/sandbox/{one}", token=read).status == 200
    assert refusal(execute(service, one, read)) == (403, "the token's scope has no `write`")
    assert service.delete(f"/api/v1/sandbox/{one}/files?path=x", token=read).status == 403
    assert execute(service, one, write).json["output"] == "5\n"
    assert service.get(f"/api/v1/sandbox/{one}", token=write).status == 403
    assert execute(service, one, neither).status == 403
    assert execute(service, one, both).status == service.get(f"/api/v1/sandbox/{one}", token=both).status == 200
    assert execute(service, one, service.mint("alice", "--sandbox", one)).status == 200, "control: without a scope"


def test_a_token_for_a_sandbox_of_a_local_user_is_coto_s_own(own):
    """An issuer's key stands for none of the names that the socket gives."""
    with Daemon(f"--jwt-key={own.keys / 'es256.pub'}") as it:
        made = it.create()
        path = f"/api/v1/sandbox/{made['sandbox_id']}"
        token = forge(own, sub=f"uid:{os.getuid()}", sandbox=made["sandbox_id"])
        assert refusal(it.get(path, token=token)) == UNAUTHORIZED
        assert it.get(path, token=made["access_token"]).status == 200, "control"


# ---- revocation ----

def test_a_revoked_token_is_out_and_stays_out(own):
    own.start()
    token, other = own.mint("alice"), own.mint("alice")
    assert own.ask("POST", "/api/v1/token/revoke", {}, token=other).status == 400
    revoke = own.ask("POST", "/api/v1/token/revoke", {"token": token}, token=other)
    assert revoke.json == {"revoked": True}
    assert refusal(own.get("/api/v1/sandbox", token=token)) == UNAUTHORIZED
    assert own.get("/api/v1/sandbox", token=other).status == 200
    os.kill(own.front, signal.SIGKILL)
    wait_until(lambda: own.front and own.is_let_in(own.context()), "a new front")
    assert refusal(own.get("/api/v1/sandbox", token=token)) == UNAUTHORIZED
    assert own.get("/api/v1/sandbox", token=other).status == 200


SKEW = r"""
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>
static volatile long *skew;
__attribute__((constructor)) static void begin(void)
{
    int fd = open(getenv("SKEW"), O_RDONLY | O_CLOEXEC);
    skew = mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 0);
}
time_t time(time_t *to)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (skew != MAP_FAILED)
        now.tv_sec += *skew;
    if (to)
        *to = now.tv_sec;
    return now.tv_sec;
}
int gettimeofday(struct timeval *to, void *zone)
{
    struct timespec now;
    (void)zone;
    clock_gettime(CLOCK_REALTIME, &now);
    to->tv_sec = time(0);
    to->tv_usec = now.tv_nsec / 1000;
    return 0;
}
"""


def skewed(own, monkeypatch):
    """What starts it with a clock that is ahead by what is put."""
    place, library = own.room / "skew", own.room / "skew.so"
    place.write_bytes(bytes(4096))
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", library, "-xc", "-"], input=SKEW.encode(), check=True)
    for path in (own.room, place, library):
        path.chmod(path.stat().st_mode | 0o055)
    monkeypatch.setenv("SKEW", str(place))

    def start():
        monkeypatch.setenv("LD_PRELOAD", str(library))
        own.start()
        monkeypatch.delenv("LD_PRELOAD")

    def put(seconds):
        with open(place, "r+b") as file:
            file.write(seconds.to_bytes(8, "little"))
        time.sleep(2.5)  # it looks every second
    return start, put


def test_a_clock_that_is_ahead_at_the_start_makes_no_revoked_token_good(own, monkeypatch):
    """AP-14: records are tidied up then, by a clock that is a week ahead."""
    start, put = skewed(own, monkeypatch)
    start()
    token, other = own.mint("alice", "--ttl", "1h"), own.mint("alice", "--ttl", "9h")
    assert own.ask("POST", "/api/v1/token/revoke", {"token": token}, token=other).json == {"revoked": True}
    own.stop()
    own.change("INSERT INTO sandboxes (id, tenant, agent, created, state, ended, token_hash) VALUES ('i', 't', NULL, 'then', 'expired', strftime('%Y-%m-%dT%H:%M:%fZ', 'now', '-29 days'), 'h')")
    put(7 * 86400)
    start()
    wait_until(lambda: own.rows("SELECT id FROM sandboxes WHERE id = 'i'") == [], "the end of what is 30 days old by that clock")
    put(0)
    own.stop()
    own.start()
    assert own.get("/api/v1/sandbox", token=other).status == 200, "control"
    assert refusal(own.get("/api/v1/sandbox", token=token)) == UNAUTHORIZED


def test_a_clock_that_was_ahead_makes_no_revoked_token_good(own, monkeypatch):
    """AP-14: what has expired by it may be forgotten, but not sooner than it could have expired."""
    start, put = skewed(own, monkeypatch)
    start()
    token, other, brief = own.mint("alice", "--ttl", "1h"), own.mint("alice", "--ttl", "9h"), own.mint("alice", "--ttl", "1h")
    assert own.ask("POST", "/api/v1/token/revoke", {"token": token}, token=other).json == {"revoked": True}
    assert refusal(own.get("/api/v1/sandbox", token=token)) == UNAUTHORIZED
    assert own.get("/api/v1/sandbox", token=brief).status == 200
    put(2 * 3600)
    assert refusal(own.get("/api/v1/sandbox", token=brief)) == UNAUTHORIZED, "control: the clock is ahead"
    assert own.get("/api/v1/sandbox", token=other).status == 200
    put(0)
    assert own.get("/api/v1/sandbox", token=brief).status == 200, "control: it is right again"
    assert refusal(own.get("/api/v1/sandbox", token=token)) == UNAUTHORIZED


def test_one_tenant_leaves_room_for_revocations_of_others(own):
    """It can make tokens as it likes, those of its sandboxes: the table was full for everybody."""
    own.start()
    own.stop()
    own.change(f"WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 12499) INSERT INTO tokens_revoked "
               f"SELECT 'x' || i, 'alice', {int(time.time()) + 3600}, 'now' FROM n")
    own.start()
    def revoke(tenant):
        return own.ask("POST", "/api/v1/token/revoke", {"token": own.mint(tenant)}, token=own.mint(tenant))
    assert revoke("alice").json == {"revoked": True}
    reply = revoke("alice")
    assert reply.status == 429 and "too many tokens" in reply.json["message"] and reply.json["remedy"], reply
    assert revoke("bob").json == {"revoked": True}


def test_nobody_revokes_tokens_of_others(service, alice, bob):
    assert service.ask("POST", "/api/v1/token/revoke", {"token": alice}, token=bob).status == 400
    assert service.get("/api/v1/sandbox", token=alice).status == 200


def test_an_id_of_a_token_is_its_tenants(own):
    """An issuer may number the tokens of each tenant from 1."""
    secret = own.keys / "secret"
    secret.write_bytes(os.urandom(24).hex().encode())
    secret.chmod(0o600)
    own.settings["jwt-key"] = secret
    own.start()
    def mint(tenant):
        claims = {"sub": tenant, "aud": "coto", "exp": int(time.time()) + 600, "jti": "1"}
        data = ".".join(base64.urlsafe_b64encode(json.dumps(it).encode()).rstrip(b"=").decode()
                        for it in ({"alg": "HS256"}, claims))
        mac = hmac.new(secret.read_bytes(), data.encode(), hashlib.sha256).digest()
        return f"{data}.{base64.urlsafe_b64encode(mac).rstrip(b'=').decode()}"
    assert own.ask("POST", "/api/v1/token/revoke", {"token": mint("alice")}, token=mint("alice")).json == {"revoked": True}
    assert refusal(own.get("/api/v1/sandbox", token=mint("alice"))) == UNAUTHORIZED
    assert own.get("/api/v1/sandbox", token=mint("bob")).status == 200
    assert own.ask("POST", "/api/v1/token/revoke", {"token": mint("bob")}, token=mint("bob")).json == {"revoked": True}
    os.kill(own.front, signal.SIGKILL)
    wait_until(lambda: own.front and own.is_let_in(own.context()), "a new front")
    for tenant in "alice", "bob":
        assert refusal(own.get("/api/v1/sandbox", token=mint(tenant))) == UNAUTHORIZED


# ---- reload ----

def status(service, token):
    """None when the connection was ended: new keys and certificates end those made with old ones."""
    with contextlib.suppress(OSError, http.client.HTTPException):
        return service.get("/api/v1/sandbox", token=token).status


def test_new_keys_are_taken_without_a_restart(own):
    """A JWKS that the keeper can read and the front cannot."""
    jwks = own.room / "keys.json"
    jwks.write_text(own.coto("token", "jwks", own.keys / "es256.pub"))
    jwks.chmod(0o600)
    own.settings["jwt-key"] = jwks
    own.start()
    old = own.mint("alice")
    front = own.front
    own.coto("token", "keygen", "eddsa", "keys")
    new = own.coto("token", "mint", "--key", own.keys / "eddsa.key", "--sub", "alice").strip()
    assert own.get("/api/v1/sandbox", token=old).status == 200
    assert refusal(own.get("/api/v1/sandbox", token=new)) == UNAUTHORIZED
    jwks.write_text(own.coto("token", "jwks", own.keys / "eddsa.pub"))
    own.signal(signal.SIGHUP)
    wait_until(lambda: status(own, new) == 200, "the new key")
    assert wait_until(lambda: status(own, old), "an answer") == 401
    assert own.front == front


def b64(data):
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


@pytest.mark.parametrize("kind", ["hs256", "rs256", "es256", "eddsa"])
def test_each_kind_of_key_lets_its_own_tokens_in(own, kind):
    """And none that is HS256 with the text of the service's key file as the secret, the classic forgery."""
    own.coto("token", "keygen", kind, "more")
    key = own.room / "more" / ("hs256.secret" if kind == "hs256" else f"{kind}.key")
    file = key if kind == "hs256" else key.with_suffix(".pub")
    own.settings["jwt-key"] = file
    own.start()
    good = own.coto("token", "mint", "--key", key, "--sub", "alice").strip()
    assert own.get("/api/v1/sandbox", token=good).status == 200
    assert refusal(own.get("/api/v1/sandbox", token=own.mint("alice"))) == UNAUTHORIZED, "another key's"
    text_of_file = [] if kind == "hs256" else [file.read_bytes(), file.read_bytes().strip()]
    for secret in (*text_of_file, b"", b"secret"):
        text = f"{b64(json.dumps({'alg': 'HS256', 'typ': 'JWT'}).encode())}.{good.split('.')[1]}"
        forged = f"{text}.{b64(hmac.digest(secret, text.encode(), 'sha256'))}"
        assert refusal(own.get("/api/v1/sandbox", token=forged)) == UNAUTHORIZED, secret


def dated(own, name, first, last):
    """The same certificate with other dates, in the place of the first."""
    path = own.pki / f"{name}.crt"
    key = serialization.load_pem_private_key((own.pki / "ca.key").read_bytes(), None)
    now = x509.load_pem_x509_certificate(path.read_bytes())
    builder = x509.CertificateBuilder(now.issuer, now.subject, now.public_key(), now.serial_number, first, last, list(now.extensions))
    path.write_bytes(builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM))


def check(own):
    done = subprocess.run([COTO, "serve", "--check", f"--state-dir={own.state}", *(f"--{name}={value}" for name, value in own.settings.items())],
                          capture_output=True, text=True, timeout=60)
    return done.returncode, done.stdout + done.stderr


YEAR = datetime.timedelta(365)


@pytest.mark.parametrize("name, first, last, words", [
    ("localhost", -2, -1, "localhost.crt': expired on "), ("localhost", 1, 2, "localhost.crt': not valid before "),
    ("ca", -2, -1, "ca.crt': expired on ")])
def test_what_has_expired_is_told(own, name, first, last, words):
    """By --check, which fails; by a service that starts with it, or sees it come, in its log."""
    assert check(own) == (0, "settings, keys and certificates are fine\n")
    own.begin()
    own.wait_for_message("listening https")
    assert "expired" not in own.messages
    today = datetime.datetime.utcnow()
    dated(own, name, today + first * YEAR, today + last * YEAR)
    code, text = check(own)
    assert code == 66 and words in text and "remedy: " in text, text
    own.wait_for_message(words)
    assert own.stop() == 0
    own.begin()
    own.wait_for_message("listening https")
    assert words in own.messages


def test_a_list_that_has_expired_is_told(own):
    key = serialization.load_pem_private_key((own.pki / "ca.key").read_bytes(), None)
    today = datetime.datetime.utcnow()
    builder = x509.CertificateRevocationListBuilder(x509.load_pem_x509_certificate((own.pki / "ca.crt").read_bytes()).subject,
                                                    today - 2 * YEAR, today - YEAR)
    (own.pki / "crl.pem").write_bytes(builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM))
    code, text = check(own)
    assert code == 66 and "crl.pem': expired on " in text and "coto pki crl" in text, text


def test_a_broken_file_changes_nothing(own):
    own.start()
    token = own.mint("alice")
    (own.pki / "localhost.crt").write_text("broken")
    own.signal(signal.SIGHUP)
    own.wait_for_message("reload; certificates are as before")
    assert own.get("/api/v1/sandbox", token=token).status == 200
    assert "reloaded" not in own.messages and "have changed" not in own.messages


def with_jwks(own):
    own.settings["jwt-key"] = own.room / "keys.json"
    own.settings["jwt-key"].write_text(own.coto("token", "jwks", own.keys / "es256.pub"))
    own.start()
    return own.settings["jwt-key"]


@pytest.mark.parametrize("by_signal", [False, True], ids=["by itself", "SIGHUP"])
@pytest.mark.parametrize("broken", ["keys.json", "pki/localhost.crt"])
def test_a_revocation_takes_effect_whatever_else_is_broken(own, broken, by_signal):
    """Nor is that told as a success."""
    with_jwks(own)
    token, context = own.mint("bob"), own.context()
    own.issue("client", "bob")
    others = own.context(own.pki / "bob.crt")
    assert own.is_let_in(context)
    (own.room / broken).write_text("{ broken")
    own.coto("pki", "revoke", "alice", "--dir", "pki")
    if by_signal:
        own.signal(signal.SIGHUP)
    wait_until(lambda: not own.is_let_in(context), "the revocation")
    assert own.ask("GET", "/api/v1/sandbox", token=token, context=others).status == 200, "control: as before"
    own.wait_for_message("token keys are as before" if broken == "keys.json" else "certificates are as before")
    own.wait_for_message("reload; taken: ")
    assert "reloaded" not in own.messages and "have changed" not in own.messages


def test_new_keys_are_taken_whatever_is_wrong_with_certificates(own):
    """The other way round; and no key at all is the end of every token."""
    jwks = with_jwks(own)
    token = own.mint("alice")
    crl = own.pki / "crl.pem"
    good = crl.read_bytes()
    crl.write_text("broken")
    jwks.write_text('{"keys": []}')
    wait_until(lambda: status(own, token) == 401, "the end of every token")
    own.wait_for_message("reload; certificates are as before")
    own.wait_for_message("reload; taken: token keys")
    assert "have changed" not in own.messages
    crl.write_bytes(good)
    own.wait_for_message("key files have changed")
    front = own.front
    os.kill(front, signal.SIGKILL)  # the next one has no key either, and serves
    wait_until(lambda: own.front not in (0, front) and status(own, token) == 401, "a new front")


def serial(service):
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", service.port), timeout=60) as raw, \
            service.context().wrap_socket(raw, server_hostname="localhost") as conn:
        return conn.getpeercert()["serialNumber"]


def test_a_certificate_is_renewed_without_a_restart(own):
    own.start()
    before = serial(own)
    own.coto("pki", "issue", "server", "localhost", "--renew", "--dir", "pki")
    own.signal(signal.SIGHUP)
    wait_until(lambda: serial(own) not in (None, before), "the new certificate")


def test_zero_configuration_knows_service_tokens_when_it_has_keys(own):
    """And its own token is for this host only."""
    with Daemon(f"--jwt-key={own.keys / 'es256.pub'}") as it:
        assert it.get("/api/v1/sandbox", token=own.mint("alice")).status == 200
        assert it.get("/api/v1/sandbox", token=True).status == 200
        one = it.create(token=own.mint("alice"))["sandbox_id"]
        assert it.get(f"/api/v1/sandbox/{one}", token=True).status == 404
