"""coto pki: openssl and Python's TLS judge its certificates; it never overwrites and never leaks a key."""
import datetime
import json
import os
import re
import ssl
import stat
import subprocess

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization

from .helpers import COTO, INPUT, OUTPUT, USAGE, coto, ok, refused


class Authority:
    def __init__(self, folder):
        self.dir = folder
        ok(coto("pki", "init", folder))

    def run(self, verb, *arguments):
        return coto("pki", verb, "--dir", self.dir, *arguments)

    def issue(self, purpose, name, *flags):
        ok(self.run("issue", purpose, name, *flags))
        return self.dir / f"{name}.crt"

    def list(self):
        return json.loads(ok(self.run("list", "--json")))

    def states(self):
        return sorted((row["name"], row["purpose"], row["state"]) for row in self.list())


@pytest.fixture
def ca(tmp_path):
    return Authority(tmp_path / "pki")


def openssl(*arguments):
    return subprocess.run(["openssl", *map(str, arguments)], capture_output=True, text=True, timeout=60)


def judged(ca, certificate, purpose, *flags):
    return openssl("verify", "-x509_strict", "-crl_check", "-CRLfile", ca.dir / "crl.pem", "-CAfile", ca.dir / "ca.crt",
                   "-purpose", purpose, *flags, certificate)


def text_of(certificate):
    return openssl("x509", "-in", certificate, "-noout", "-text").stdout


def everything(folder):
    return {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


# ---- what openssl thinks ----

def test_certificates(ca):
    server, client = ca.issue("server", "localhost"), ca.issue("client", "alice")
    assert judged(ca, server, "sslserver", "-verify_hostname", "localhost").returncode == 0
    assert judged(ca, server, "sslserver", "-verify_ip", "127.0.0.1").returncode == 0
    assert judged(ca, client, "sslclient").returncode == 0
    # Each for its purpose only, each for its names only.
    assert "certificate purpose" in judged(ca, server, "sslclient").stderr
    assert "certificate purpose" in judged(ca, client, "sslserver").stderr
    assert "hostname mismatch" in judged(ca, server, "sslserver", "-verify_hostname", "other.example").stderr


def test_profile(ca):
    text = text_of(ca.issue("client", "alice"))
    for word in ("NIST CURVE: P-256", "ecdsa-with-SHA256", "CA:FALSE", "TLS Web Client Authentication",
                 "Subject: CN = alice", "URI:urn:coto:client:alice", "Authority Key Identifier"):
        assert word in text, text
    authority = text_of(ca.dir / "ca.crt")
    for word in ("CA:TRUE, pathlen:0", "Certificate Sign, CRL Sign", "NIST CURVE: P-256", "Version: 3"):
        assert word in authority
    assert "TLS Web" not in authority


def test_a_leaf_signs_nothing(ca, tmp_path):
    """alice uses her key to make a certificate for bob: nobody takes it."""
    ca.issue("client", "alice")
    openssl("req", "-new", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj", "/CN=bob",
            "-keyout", tmp_path / "bob.key", "-out", tmp_path / "bob.csr")
    made = openssl("x509", "-req", "-in", tmp_path / "bob.csr", "-CA", ca.dir / "alice.crt", "-CAkey", ca.dir / "alice.key",
                   "-CAcreateserial", "-CAserial", tmp_path / "serial", "-out", tmp_path / "bob.crt")
    assert (tmp_path / "bob.crt").exists(), made.stderr
    done = openssl("verify", "-CAfile", ca.dir / "ca.crt", "-untrusted", ca.dir / "alice.crt", tmp_path / "bob.crt")
    assert done.returncode != 0 and "CA certificate" in done.stderr


def test_names(ca):
    text = text_of(ca.issue("server", "api.example.com", "--san", "DNS:*.example.com,IP:10.0.0.5", "--san", "fe80::1",
                            "--san", "URI:spiffe://x/y"))
    for word in ("DNS:api.example.com", "DNS:*.example.com", "IP Address:10.0.0.5", "IP Address:FE80", "URI:spiffe://x/y"):
        assert word in text, text
    assert "URI:urn:team:b" in text_of(ca.issue("client", "b", "--san", "URI:urn:team:b"))
    assert "IP Address:10.1.2.3" in text_of(ca.issue("server", "10.1.2.3"))


@pytest.mark.parametrize("san", ["DNS:a b", "DNS:", "DNS:a..b", "IP:1.2.3", "IP:x", "URI:x", "URI:a b:c", "DNS:a\nb", "e mail",
                                 "DNS:-x", "URI:h:\x07", "é", "DSN:bar", "EMAIL:a", "X:y"])
def test_bad_names(ca, san):
    before = everything(ca.dir)
    refused(ca.run("issue", "server", "a", "--san", san), USAGE, "remedy: write DNS:", "IP:", "URI:")
    assert everything(ca.dir) == before


@pytest.mark.parametrize("name", ["ca", "", "..", "../x", "a/b", ".x", "-x", "a b", "x" * 65, "a\nb", "CN=x"])
def test_bad_subjects(ca, name):
    before = everything(ca.dir)
    refused(ca.run("issue", "client", "--", name), USAGE, "name", "remedy: ")
    assert everything(ca.dir) == before


def test_days(ca):
    def ends(name):
        done = openssl("x509", "-in", ca.dir / f"{name}.crt", "-noout", "-checkend", str(2 * 86400))
        return done.returncode != 0
    ca.issue("client", "short", "--days", "1")
    ca.issue("client", "long", "--days", "3")
    assert ends("short") and not ends("long")
    ca.issue("client", "forever", "--days", "36500")  # ends with its authority
    dates = [openssl("x509", "-in", ca.dir / name, "-noout", "-enddate").stdout for name in ("forever.crt", "ca.crt")]
    assert dates[0] == dates[1]
    for bad in ("0", "-1", "x", "1.5", "36501", "99999999999999999999"):
        refused(ca.run("issue", "client", "z", "--days", bad), USAGE, "--days")


# ---- revocation ----

def test_revoke(ca):
    bob, alice = ca.issue("client", "bob"), ca.issue("client", "alice")
    serial = next(row["serial"] for row in ca.list() if row["name"] == "bob")
    assert judged(ca, bob, "sslclient").returncode == 0  # control
    kept = bob.read_bytes()
    assert serial in ok(ca.run("revoke", "bob"))
    bob.with_name("kept.pem").write_bytes(kept)
    assert "certificate revoked" in judged(ca, bob.with_name("kept.pem"), "sslclient").stderr
    assert judged(ca, alice, "sslclient").returncode == 0
    crl = openssl("crl", "-in", ca.dir / "crl.pem", "-CAfile", ca.dir / "ca.crt", "-noout", "-text")
    assert "verify OK" in crl.stderr and serial in crl.stdout.replace(":", "").upper()
    assert "already" in ok(ca.run("revoke", "bob"))
    assert ca.states() == [("alice", "client", "valid"), ("bob", "client", "revoked")]
    new = ca.issue("client", "bob")  # the name is free again
    assert judged(ca, new, "sslclient").returncode == 0


def test_revoke_tells_what_it_did(ca):
    key = ca.issue("client", "bob").with_name("bob.key")
    said = ok(ca.run("revoke", "bob"))
    moved = re.findall(r"^Moved: (\S+) to (\S+)$", said, re.M)
    assert [source for source, _ in moved] == [f"{ca.dir}/bob.crt", str(key)], said
    assert all(os.path.exists(to) and not os.path.exists(source) for source, to in moved)
    assert "notices by itself" in said and "reload" not in said
    assert "Moved" not in ok(ca.run("revoke", "bob")), "once"
    ca.issue("client", "far").with_name("far.key").unlink()  # it went to where it is used
    assert ok(ca.run("revoke", "far")).count("Moved") == 1


def test_revoke_by_serial(ca):
    ca.issue("client", "bob")
    ok(ca.run("issue", "client", "bob", "--renew"))
    assert [row[2] for row in ca.states()] == ["renewed", "valid"]
    first = next(row for row in ca.list() if row["state"] == "renewed")
    ok(ca.run("revoke", first["serial"].lower()))
    assert [row[2] for row in ca.states()] == ["revoked", "valid"]
    assert judged(ca, ca.dir / "bob.crt", "sslclient").returncode == 0
    # Its files are lost, but the serial is known.
    ca.issue("client", "lost")
    lost = next(row for row in ca.list() if row["name"] == "lost")["serial"]
    kept = (ca.dir / "lost.crt").rename(ca.dir.parent / "lost.crt")
    ok(ca.run("revoke", lost))
    assert "certificate revoked" in judged(ca, kept, "sslclient").stderr


def test_revoking_a_name_revokes_all_of_it(ca):
    ca.issue("client", "bob")
    for _ in range(2):
        ok(ca.run("issue", "client", "bob", "--renew"))
    assert len(re.findall("Revoked: serial", ok(ca.run("revoke", "bob")))) == 3
    assert {row[2] for row in ca.states()} == {"revoked"}


def crl_field(ca, name):
    return openssl("crl", "-in", ca.dir / "crl.pem", "-noout", f"-{name}").stdout.strip()


def test_crl(ca):
    assert crl_field(ca, "crlnumber") == "crlNumber=0x01"
    end = crl_field(ca, "nextupdate").split("=")[1]
    assert end in text_of(ca.dir / "ca.crt")  # it does not expire before its authority
    ok(ca.run("crl", "--days", "7"))
    assert crl_field(ca, "crlnumber") == "crlNumber=0x02" and end not in crl_field(ca, "nextupdate")


@pytest.mark.parametrize("what", ["nobody", "", "12AB", "../ca", "ca"])
def test_revoke_unknown(ca, what):
    before = everything(ca.dir)
    refused(ca.run("revoke", "--", what), USAGE, "no certificate", "coto pki list")
    assert everything(ca.dir) == before


# ---- files ----

@pytest.mark.parametrize("umask", [0, 0o077])
def test_modes(umask, tmp_path):
    ok(coto("pki", "init", tmp_path / "p", umask=umask))
    ok(coto("pki", "issue", "client", "a", "--dir", tmp_path / "p", umask=umask))
    ok(coto("pki", "revoke", "a", "--dir", tmp_path / "p", umask=umask))
    ok(coto("pki", "issue", "server", "a", "--dir", tmp_path / "p", umask=umask))
    modes = {path.suffix: set() for path in (tmp_path / "p").rglob("*.*")}
    for path in (tmp_path / "p").rglob("*.*"):
        modes[path.suffix].add(stat.S_IMODE(path.stat().st_mode))
    assert modes == {".key": {0o600}, ".crt": {0o644}, ".pem": {0o644}}
    assert stat.S_IMODE((tmp_path / "p").stat().st_mode) == 0o700


def test_overwrites_nothing(ca):
    before = everything(ca.dir)
    refused(coto("pki", "init", ca.dir), OUTPUT, "not empty", "remedy: ")
    ca.issue("client", "a")
    refused(ca.run("issue", "server", "a"), OUTPUT, "has a certificate", "--renew", "revoke a")
    after = everything(ca.dir)
    assert all(after[name] == text for name, text in before.items())
    (ca.dir / "b.key").write_text("mine")
    refused(ca.run("issue", "client", "b"), OUTPUT, "b.key")
    assert (ca.dir / "b.key").read_text() == "mine" and not (ca.dir / "b.crt").exists()
    (ca.dir / "c.crt").symlink_to(ca.dir / "elsewhere")
    refused(ca.run("issue", "client", "c"), OUTPUT, "c.crt")
    assert not (ca.dir / "elsewhere").exists() and not (ca.dir / "c.key").exists()


def without_room(ca, *arguments):
    """No file may grow: what a full disk does, for every user."""
    return subprocess.run(["sh", "-c", "ulimit -f 0; exec \"$@\"", "sh", COTO, "pki", "issue", "--dir", str(ca.dir), *arguments],
                          capture_output=True, text=True, timeout=60)


def test_a_failed_renewal_leaves_what_there_was(ca):
    """A server that starts again needs its certificate and key."""
    ca.issue("server", "a")
    before = everything(ca.dir)
    refused(without_room(ca, "server", "a", "--renew"), OUTPUT, "a.key")
    assert everything(ca.dir) == before
    refused(without_room(ca, "server", "b"), OUTPUT, "b.key")
    assert everything(ca.dir) == before
    (ca.dir / "old").write_text("in the way")
    refused(ca.run("issue", "server", "a", "--renew"), OUTPUT, "old")
    (ca.dir / "old").unlink()
    assert everything(ca.dir) == before
    (ca.dir / "a.key.new").write_text("of one that was interrupted")
    ok(ca.run("issue", "server", "a", "--renew"))
    assert [row[2] for row in ca.states()] == ["renewed", "valid"] and not list(ca.dir.glob("*.new"))
    assert judged(ca, ca.dir / "a.crt", "sslserver").returncode == 0
    assert len(list((ca.dir / "old").iterdir())) == 2


def test_a_renewal_is_for_the_same(ca):
    """Names and purpose stay, unless other names are asked for."""
    def names():
        return next(row["names"] for row in ca.list() if row["state"] == "valid")
    ca.issue("server", "a.example", "--san", "DNS:b.example,IP:10.0.0.5")
    first = names()
    assert first == "DNS:a.example, DNS:b.example, IP:10.0.0.5"
    ok(ca.run("issue", "server", "a.example", "--renew"))
    assert names() == first and judged(ca, ca.dir / "a.example.crt", "sslserver", "-verify_hostname", "b.example").returncode == 0
    ok(ca.run("issue", "server", "a.example", "--renew", "--san", "c.example"))
    assert names() == "DNS:a.example, DNS:c.example"
    before = everything(ca.dir)
    refused(ca.run("issue", "client", "a.example", "--renew"), USAGE, "is for a server", "remedy: ")
    assert everything(ca.dir) == before


def test_an_expired_authority_issues_nothing(ca):
    """It would have expired already, whatever --days says."""
    key = serialization.load_pem_private_key((ca.dir / "ca.key").read_bytes(), None)
    now = x509.load_pem_x509_certificate((ca.dir / "ca.crt").read_bytes())
    builder = x509.CertificateBuilder(now.issuer, now.subject, now.public_key(), now.serial_number,
                                      datetime.datetime(2020, 1, 1), datetime.datetime(2021, 1, 1))
    (ca.dir / "ca.crt").write_bytes(builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM))
    before = everything(ca.dir)
    refused(ca.run("issue", "client", "a"), INPUT, "has expired", "coto pki init")
    assert everything(ca.dir) == before and ok(ca.run("list"))


def test_broken_authorities(ca, tmp_path):
    refused(coto("pki", "list", "--dir", tmp_path / "none"), INPUT, "coto pki init")
    refused(coto("pki", "list", "--dir", tmp_path), INPUT, "no authority", "coto pki init")
    (ca.dir / "ca.key").chmod(0o644)
    refused(ca.run("list"), INPUT, "ca.key", "chmod 600")
    (ca.dir / "ca.key").chmod(0o600)
    crl = (ca.dir / "crl.pem").read_bytes()
    (ca.dir / "crl.pem").unlink()  # with it would go what was revoked
    refused(ca.run("issue", "client", "a"), INPUT, "crl.pem", "backup")
    other = Authority(tmp_path / "other")
    (ca.dir / "crl.pem").write_bytes((other.dir / "crl.pem").read_bytes())
    refused(ca.run("issue", "client", "a"), INPUT, "not of this authority")
    (ca.dir / "crl.pem").write_bytes(crl)
    (ca.dir / "ca.key").write_bytes((other.dir / "ca.key").read_bytes())
    refused(ca.run("list"), INPUT, "not the key of ca.crt")


def test_directory_by_environment(tmp_path):
    env = {"COTO_PKI_DIR": str(tmp_path / "deep/er/pki")}
    ok(coto("pki", "init", env=env))
    ok(coto("pki", "issue", "client", "a", env=env))
    assert (tmp_path / "deep/er/pki/a.crt").exists()
    assert "a  " in ok(coto("pki", "list", env=env))


def test_many_at_once(ca):
    """Two writers never lose each other's revocation."""
    names = [f"n{number}" for number in range(6)]
    for step in (["issue", "client"], ["revoke"]):
        running = [subprocess.Popen([COTO, "pki", *step, name, "--dir", ca.dir], stdout=subprocess.DEVNULL) for name in names]
        assert [process.wait(timeout=60) for process in running] == [0] * len(names)
    assert ca.states() == [(name, "client", "revoked") for name in names]


# ---- in a handshake ----

def handshake(ca, certificate, server="localhost", host="localhost"):
    """What the server knows of the client, or SSLError. Both ends in memory of this process."""
    inner = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    inner.load_cert_chain(ca.dir / f"{server}.crt", ca.dir / f"{server}.key")
    inner.load_verify_locations(ca.dir / "ca.crt")
    inner.load_verify_locations(ca.dir / "crl.pem")
    inner.verify_flags |= ssl.VERIFY_CRL_CHECK_LEAF | ssl.VERIFY_X509_STRICT
    inner.verify_mode = ssl.CERT_REQUIRED
    outer = ssl.create_default_context(cafile=ca.dir / "ca.crt")
    if certificate:
        outer.load_cert_chain(*certificate)
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = [outer.wrap_bio(to_client, to_server, server_hostname=host), inner.wrap_bio(to_server, to_client, server_side=True)]
    for _ in range(6):
        for end in ends:
            try:
                end.do_handshake()
            except ssl.SSLWantReadError:
                pass
    return ends[1].getpeercert()


def pair(ca, name):
    return ca.dir / f"{name}.crt", ca.dir / f"{name}.key"


def test_handshakes(ca, tmp_path):
    ca.issue("server", "localhost")
    for name in ("alice", "bob"):
        ca.issue("client", name)
    assert dict(handshake(ca, pair(ca, "alice"))["subjectAltName"]) == {"URI": "urn:coto:client:alice"}
    assert handshake(ca, pair(ca, "bob"))  # control
    for suffix in ("crt", "key"):
        (tmp_path / f"bob.{suffix}").write_bytes((ca.dir / f"bob.{suffix}").read_bytes())
    ok(ca.run("revoke", "bob"))
    other = Authority(tmp_path / "other")
    other.issue("client", "alice")
    attacks = {"revoked": (tmp_path / "bob.crt", tmp_path / "bob.key"), "a server's": pair(ca, "localhost"),
               "another authority's": pair(other, "alice"), "none": None}
    for name, certificate in attacks.items():
        with pytest.raises(ssl.SSLError):
            handshake(ca, certificate)
            pytest.fail(name)
    with pytest.raises(ssl.SSLCertVerificationError, match="purpose"):
        handshake(ca, pair(ca, "alice"), server="alice")
    with pytest.raises(ssl.SSLCertVerificationError, match="[Hh]ostname mismatch"):
        handshake(ca, pair(ca, "alice"), host="evil.example")


# ---- the tool ----

def test_help(ca):
    whole = ok(coto("pki", "--help"))
    for word in ("init", "issue", "revoke", "list", "crl", "--san", "--days", "usage: coto pki"):
        assert word in whole
    assert "Nothing was issued" in ok(ca.run("list"))
    refused(coto("pki"), USAGE, "which verb")
    refused(ca.run("issue", "server"), USAGE, "missing", "server|client NAME")
    refused(ca.run("issue", "peer", "x"), USAGE, "'peer'", "remedy: ")
    refused(ca.run("list", "--san", "x"), USAGE, "no flag '--san'")
