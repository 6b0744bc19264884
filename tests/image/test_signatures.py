"""Signatures as minisign, openssl (what cosign makes) and gpg make them, and what is refused."""
import base64
import os
import pathlib
import shutil
import subprocess
import time

import pytest

from .helpers import FORBIDDEN, INPUT, ok, refused


def tool(*command, **more):
    return subprocess.run([str(word) for word in command], check=True, capture_output=True, timeout=60, **more).stdout


class Minisign:
    legacy = False

    def __init__(self, room):
        self.public, self.secret, self.room = room / "m.pub", room / "m.key", room
        tool("minisign", "-G", "-W", "-f", "-p", self.public, "-s", self.secret)

    def sign(self, listing):
        out = self.room / "m.sig"
        tool("minisign", "-S", *(["-l"] if self.legacy else []), "-s", self.secret, "-m", listing, "-x", out)
        letters = base64.b64decode(out.read_text().splitlines()[1])[:2]
        assert letters == (b"Ed" if self.legacy else b"ED")
        return out


class OldMinisign(Minisign):
    legacy = True


class Openssl:
    kind = ["-algorithm", "ed25519"]

    def __init__(self, room):
        self.public, self.secret, self.room = room / "o.pub", room / "o.key", room
        tool("openssl", "genpkey", *self.kind, "-out", self.secret)
        tool("openssl", "pkey", "-in", self.secret, "-pubout", "-out", self.public)

    def sign(self, listing):
        out = self.room / "o.sig"
        raw = tool("openssl", "pkeyutl", "-sign", "-inkey", self.secret, "-rawin", "-in", listing,
                   *(["-digest", "sha256"] if self.kind[1] == "EC" else []))
        out.write_bytes(base64.b64encode(raw) + b"\n")
        return out


class OpensslCurve(Openssl):
    kind = ["-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256"]


class Gpg:
    armor = []

    def __init__(self, room):
        self.home, self.room, self.public = room / "gnupg", room, room / "g.pub"
        self.home.mkdir(mode=0o700)
        self.env = dict(os.environ, GNUPGHOME=str(self.home))
        self.gpg("--quick-gen-key", "images <images@example.org>", "ed25519", "sign", "never")
        self.public.write_bytes(self.gpg(*self.armor, "--export"))

    def gpg(self, *arguments):
        return tool("gpg", "--batch", "--pinentry-mode", "loopback", "--passphrase", "", *arguments, env=self.env)

    def sign(self, listing):
        out = self.room / "g.sig"
        out.unlink(missing_ok=True)
        self.gpg(*self.armor, "--detach-sign", "--output", out, listing)
        return out

    def close(self):
        subprocess.run(["gpgconf", "--kill", "all"], env=self.env, timeout=30, check=False)


class ArmoredGpg(Gpg):
    armor = ["--armor"]


SIGNERS = [Minisign, OldMinisign, Openssl, OpensslCurve, Gpg, ArmoredGpg]


@pytest.fixture(params=SIGNERS, ids=lambda kind: kind.__name__)
def signers(request, tmp_path):
    """Two of a kind: the one that is trusted, and another."""
    rooms = [tmp_path / "first", tmp_path / "second"]
    for room in rooms:
        room.mkdir()
    made = [request.param(room) for room in rooms]
    yield made
    for one in made:
        getattr(one, "close", lambda: None)()


@pytest.fixture
def listing(store, root, tmp_path):
    store.take(root, "box")
    path = tmp_path / "listing"
    path.write_bytes(store.image("show", "box", "--listing").stdout)
    return path


def run(store, key):
    return store.run("--image", "box", "--image-key", key, "--", "/bin/cat", "/etc/motd")


def test_refusals_and_the_good_one(store, signers, listing):
    trusted, other = signers
    refused(run(store, trusted.public), FORBIDDEN, "box", "it is not signed", str(trusted.public))
    ok(store.image("sign", "box", "--signature", other.sign(listing)))
    refused(run(store, trusted.public), FORBIDDEN, "none of its 1 signatures is by", str(trusted.public))
    ok(store.image("sign", "box", "--signature", trusted.sign(listing)))
    assert ok(run(store, trusted.public)) == "from the image\n"
    assert ok(run(store, other.public)) == "from the image\n"
    assert "signed by" in ok(store.image("verify", "box", "--key", trusted.public))
    motd = store.tree("box") / "etc/motd"
    motd.write_text(motd.read_text().replace("f", "F"))
    refused(run(store, trusted.public), FORBIDDEN, "changed since it was imported", "etc/motd")


def test_a_signature_of_something_else(store, signers, listing):
    trusted = signers[0]
    listing.write_bytes(listing.read_bytes() + b"\n")
    ok(store.image("sign", "box", "--signature", trusted.sign(listing)))
    text = refused(run(store, trusted.public), FORBIDDEN)
    assert "does not fit it" in text or "none of its 1 signatures" in text


@pytest.mark.parametrize("quick", [[], ["--quick"]])
def test_the_listing_of_another_image_is_not_this_ones(store, tmp_path, quick):
    """Signature and listing of a signed image beside the files of another, which were looked at before."""
    signer = Openssl(tmp_path)
    places = []
    for name in ("good", "evil"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").write_text(name)
        store.take(tmp_path / name, name)
        ok(store.image("verify", name))
        places.append(pathlib.Path(store.show(name)["directory"]))
    ok(store.image("sign", "good", "--key", signer.secret))
    good, evil = places
    shutil.copy(good / "listing", evil / "listing")
    for path in (good / "signatures").iterdir():
        shutil.copy(path, evil / "signatures")
    ok(store.image("verify", "good", "--key", signer.public, *quick))
    refused(store.image("verify", "evil", "--key", signer.public, *quick), FORBIDDEN, "changed", "listing")


def test_a_changed_signature(store, signers, listing, tmp_path):
    trusted = signers[0]
    good = trusted.sign(listing).read_bytes()
    at = good.index(b"\n") + 40 if good.startswith((b"untrusted", b"-----")) else len(good) // 2
    bad = tmp_path / "bad"
    bad.write_bytes(good[:at] + (b"A" if good[at:at + 1] != b"A" else b"B") + good[at + 1:])
    ok(store.image("sign", "box", "--signature", bad))
    refused(run(store, trusted.public), FORBIDDEN)


def test_the_trusted_comment_counts(store, listing, tmp_path):
    signer = Minisign(tmp_path)
    path = signer.sign(listing)
    path.write_text(path.read_text().replace("trusted comment: ", "trusted comment: not ", 2).replace("untrusted comment: not ", "untrusted comment: "))
    ok(store.image("sign", "box", "--signature", path))
    refused(run(store, signer.public), FORBIDDEN, "does not fit")


def revoke(signer):
    made = next((signer.home / "openpgp-revocs.d").glob("*.rev"))
    made.write_text(made.read_text().replace("\n:-----BEGIN", "\n-----BEGIN"))
    signer.gpg("--import", made)
    signer.public.write_bytes(signer.gpg("--export"))


def expire(signer):
    key = signer.gpg("--list-keys", "--with-colons").decode().split("\nfpr:::::::::")[1].split(":")[0]
    signer.gpg("--quick-set-expire", key, "seconds=2")
    signer.public.write_bytes(signer.gpg("--export"))
    while b"pub:e:" not in signer.gpg("--list-keys", "--with-colons"):
        time.sleep(0.2)


@pytest.mark.parametrize("end", [revoke, expire])
def test_a_key_that_is_good_no_longer(store, listing, tmp_path, end):
    """gpgv itself ends with 0 for its signatures."""
    signer = Gpg(tmp_path)
    try:
        ok(store.image("sign", "box", "--signature", signer.sign(listing)))
        ok(run(store, signer.public))
        end(signer)
    finally:
        signer.close()
    refused(run(store, signer.public), FORBIDDEN, "does not fit it")


@pytest.mark.parametrize("kind", [Openssl, OpensslCurve])
def test_coto_image_sign(store, listing, tmp_path, kind):
    """Our own signature is one that openssl accepts."""
    signer, out = kind(tmp_path), tmp_path / "out"
    ok(store.image("sign", "box", "--key", signer.secret, "--output", out))
    ok(store.image("verify", "box", "--key", signer.public))
    (tmp_path / "raw").write_bytes(base64.b64decode(out.read_bytes()))
    judged = tool("openssl", "pkeyutl", "-verify", "-pubin", "-inkey", signer.public, "-rawin", "-in", listing, "-sigfile",
                  tmp_path / "raw", *(["-digest", "sha256"] if kind is OpensslCurve else []))
    assert b"Success" in judged
    shown = ok(store.image("list"))
    assert "signed" in shown.splitlines()[1]


@pytest.mark.parametrize("text", [b"", b"nonsense", b"untrusted comment: x\nAAAA\n", b"-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n",
                                  b"-----BEGIN PGP PUBLIC KEY BLOCK-----\n\nAAAA\n-----END PGP PUBLIC KEY BLOCK-----\n"])
def test_bad_keys(store, listing, tmp_path, text):
    for signer in (Minisign, Openssl, Gpg):
        room = tmp_path / signer.__name__
        room.mkdir()
        made = signer(room)
        ok(store.image("sign", "box", "--signature", made.sign(listing)))
        getattr(made, "close", lambda: None)()
    key = tmp_path / "key"
    key.write_bytes(text)
    assert run(store, key).returncode in (INPUT, FORBIDDEN)


def test_weak_keys_and_absent_ones(store, listing, tmp_path):
    for kind in (["RSA", "rsa_keygen_bits:2048"], ["EC", "ec_paramgen_curve:P-384"]):
        tool("openssl", "genpkey", "-algorithm", kind[0], "-pkeyopt", kind[1], "-out", tmp_path / "k")
        refused(store.image("sign", "box", "--key", tmp_path / "k"), INPUT, "Ed25519 or P-256")
    refused(run(store, "/nonexistent"), INPUT, "/nonexistent")
    refused(store.run("--image-key", tmp_path / "k", "--", "/bin/true"), 65, "no image is used")


@pytest.mark.parametrize("command", [["sign", "--key"], ["sign", "--signature"], ["verify", "--key"], ["run", "--image-key"]],
                         ids=" ".join)
def test_what_is_not_a_file_is_not_waited_for(store, listing, tmp_path, command):
    """Nobody writes to the FIFO, or somebody does: it is refused either way."""
    verb, flag = command

    def give(path):
        if verb == "run":
            return store.run("--image", "box", flag, path, "--", "/bin/true")
        return store.image(verb, "box", flag, path)

    os.mkfifo(tmp_path / "fifo")
    refused(give(tmp_path / "fifo"), INPUT, "fifo", "it is a FIFO")
    fd = os.open(tmp_path / "fifo", os.O_RDWR)
    refused(give(tmp_path / "fifo"), INPUT, "fifo", "it is a FIFO")
    os.close(fd)
    refused(give("/dev/zero"), INPUT, "/dev/zero", "it is a device")


def test_a_key_from_a_pipe(store, listing, tmp_path):
    """As a shell's <(...) gives it."""
    signer = Openssl(tmp_path)
    read, write = os.pipe()
    os.write(write, signer.secret.read_bytes())
    os.close(write)
    ok(store.image("sign", "box", "--key", f"/proc/self/fd/{read}", pass_fds=[read]))
    os.close(read)
    ok(store.image("verify", "box", "--key", signer.public))
