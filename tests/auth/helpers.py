"""How the tests of coto token and coto pki start them, and how tokens are made by hand.

The judges are others' work: PyJWT and python3-cryptography for tokens, openssl and Python's ssl
for certificates.
"""
import base64
import hashlib
import hmac
import json
import os
import pathlib
import subprocess
import time

from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, padding, rsa, utils

SOURCE = pathlib.Path(__file__).resolve().parent.parent.parent
BIN = pathlib.Path(os.environ.get("COTO_TEST_BIN") or SOURCE / "build").resolve()
COTO = str(BIN / "coto")
ALGORITHMS = ["HS256", "RS256", "ES256", "EdDSA"]
FORBIDDEN, USAGE, INPUT, OUTPUT = 68, 64, 66, 73


def coto(*arguments, stdin="", umask=-1, env=None):
    return subprocess.run([COTO, *map(str, arguments)], input=stdin, capture_output=True, text=True, timeout=60,
                          umask=umask, env=dict(os.environ, **(env or {})))


def ok(done):
    assert done.returncode == 0, done.stderr
    return done.stdout


def refused(done, status, *words):
    """With that status, those words, a remedy, and nothing on standard output."""
    assert done.returncode == status, (done.returncode, done.stdout, done.stderr)
    assert done.stdout == "" and done.stderr.startswith("coto: "), (done.stdout, done.stderr)
    for word in words:
        assert word in done.stderr, done.stderr
    return done.stderr


# ---- tokens ----

def b64(data):
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def now():
    return int(time.time())


def claims(**more):
    """Good ones, with some changed; None leaves one out."""
    whole = {"sub": "alice", "aud": "coto", "exp": now() + 600, **more}
    return {name: value for name, value in whole.items() if value is not None}


def sign(key, data):
    """By the type of the key, as RFC 7518 says."""
    if isinstance(key, bytes):
        return hmac.new(key, data, hashlib.sha256).digest()
    if isinstance(key, rsa.RSAPrivateKey):
        return key.sign(data, padding.PKCS1v15(), hashes.SHA256())
    if isinstance(key, ec.EllipticCurvePrivateKey):
        r, s = utils.decode_dss_signature(key.sign(data, ec.ECDSA(hashes.SHA256())))
        return r.to_bytes(32, "big") + s.to_bytes(32, "big")
    return key.sign(data)


def text_of(value):
    return value if isinstance(value, bytes) else json.dumps(value).encode()


def token(key, header, payload=None):
    """Any header and payload (objects, or bytes as they are), signed."""
    data = f"{b64(text_of(header))}.{b64(text_of(claims() if payload is None else payload))}"
    return f"{data}.{b64(sign(key, data.encode()))}"


def verify(text, key_file, *flags):
    """As a service that has this key file would."""
    return coto("token", "show", "-", "--key", key_file, *flags, stdin=text)


def taken(text, key_file, *flags):
    out = ok(verify(text, key_file, *flags))
    assert out.endswith("signature and claims: good\n")
    return json.loads(out[out.index("claims {") + 7:out.rindex("}") + 1])


# ---- keys ----

class Key:
    """A private key of another library, and the file that verifies its tokens."""

    def __init__(self, alg, folder, name="key"):
        self.alg = alg
        self.private = {"HS256": lambda: os.urandom(24).hex().encode(),
                        "RS256": lambda: rsa.generate_private_key(65537, 2048),
                        "ES256": lambda: ec.generate_private_key(ec.SECP256R1()),
                        "EdDSA": ed25519.Ed25519PrivateKey.generate}[alg]()
        self.file = folder / f"{name}.pem"
        self.file.write_bytes(self.private if alg == "HS256" else self.public_pem())
        self.file.chmod(0o600 if alg == "HS256" else 0o644)

    def public_pem(self):
        return self.private.public_key().public_bytes(serialization.Encoding.PEM,
                                                      serialization.PublicFormat.SubjectPublicKeyInfo)

    def token(self, payload=None, **header):
        return token(self.private, {"alg": self.alg, "typ": "JWT", **header}, payload)


def keygen(alg, folder, *flags):
    """(what mints, what verifies), made by coto."""
    ok(coto("token", "keygen", alg, folder, *flags))
    if alg.lower() == "hs256":
        return folder / "hs256.secret", folder / "hs256.secret"
    return folder / f"{alg.lower()}.key", folder / f"{alg.lower()}.pub"
