"""coto token: what it mints others take, what others mint it takes, and nothing else."""
import json
import os
import re
import stat
import subprocess

import jwt
import pytest
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from cli.helpers import only

from .helpers import (ALGORITHMS, FORBIDDEN, INPUT, OUTPUT, USAGE, Key, b64, claims, coto, keygen, now, ok, refused,
                      sign, taken, token, verify)

BOX = "3f2b8c1e-5d64-4a0f-9c1b-2e7d8a90b1c2"


def mint(key_file, *flags):
    return ok(coto("token", "mint", "--key", key_file, "--sub", "alice", *flags)).strip()


def mode(path):
    return stat.S_IMODE(os.stat(path).st_mode)


# ---- good ones ----

@pytest.mark.parametrize("alg", ALGORITHMS)
def test_others_take_ours(alg, tmp_path):
    private, public = keygen(alg, tmp_path / "keys")
    text = mint(private, "--iss", "me", "--ttl", "10m", "--scope", "read write", "--sandbox", BOX)
    key = public.read_text().strip() if alg == "HS256" else public.read_bytes()
    got = jwt.decode(text, key, algorithms=[alg], audience="coto", issuer="me",
                     options={"require": ["exp", "iat", "jti", "sub"]})
    assert got["sub"] == "alice" and got["scope"] == "read write" and got["sandbox"] == BOX
    assert got["exp"] - got["iat"] == 600 and abs(got["iat"] - now()) < 60 and len(got["jti"]) == 22
    assert jwt.get_unverified_header(text)["alg"] == alg
    assert taken(text, public, "--iss", "me") == got


@pytest.mark.parametrize("alg", ALGORITHMS)
def test_we_take_others(alg, tmp_path):
    key = Key(alg, tmp_path)
    text = jwt.encode(claims(aud=["x", "coto"], nbf=now() - 5), key.private, algorithm=alg)
    assert taken(text, key.file)["sub"] == "alice"
    assert taken(jwt.encode(claims(), key.private, algorithm=alg, headers={"kid": "key"}), key.file)
    other = Key(alg, tmp_path, "other")
    refused_token(jwt.encode(claims(), other.private, algorithm=alg), key.file, "not signed")


def test_key_sets_both_ways(tmp_path):
    """One that coto prints is read by PyJWT and by coto; rotation: both keys verify."""
    pairs = [keygen(alg, tmp_path) for alg in ("RS256", "ES256", "EdDSA")]
    printed = ok(coto("token", "jwks", *(public for _, public in pairs)))
    file = tmp_path / "jwks.json"
    file.write_text(printed)
    keys = {key.key_id: key for key in jwt.PyJWKSet.from_dict(json.loads(printed)).keys}
    assert len(keys) == 3
    for private, _ in pairs:
        text = mint(private)
        header = jwt.get_unverified_header(text)
        assert jwt.decode(text, keys[header["kid"]].key, algorithms=[header["alg"]], audience="coto")
        assert taken(text, file)


def test_openssl_keys(tmp_path):
    """Keys that openssl makes sign and verify: its default forms, and the curve before the key."""
    for name, command in (("ec", "ecparam -name prime256v1 -genkey"), ("ed", "genpkey -algorithm ed25519"),
                          ("rsa", "genrsa -traditional")):
        file = tmp_path / f"{name}.pem"
        subprocess.run(["openssl", *command.split(), "-out", file, *(["2048"] if name == "rsa" else [])], check=True, capture_output=True, timeout=60)
        file.chmod(0o600)
        assert taken(mint(file), file)


# ---- attacks: AP-10, AP-11, AP-12 ----

def refused_token(text, key_file, *words, flags=()):
    done = verify(text, key_file, *flags)
    assert done.returncode in (FORBIDDEN, INPUT), (done.returncode, done.stdout, done.stderr)
    assert "good" not in done.stdout and done.stderr.startswith("coto: token refused: ") or done.returncode == INPUT
    for word in words:
        assert word in done.stderr, done.stderr


@pytest.fixture(scope="module")
def keys(tmp_path_factory):
    folder = tmp_path_factory.mktemp("keys")
    return {alg: Key(alg, folder, alg) for alg in ALGORITHMS}


HEADERS = {
    "none": {"alg": "none"}, "None": {"alg": "None"}, "empty": {"alg": ""}, "list": {"alg": ["ES256"]},
    "lower case": {"alg": "es256"}, "missing": {"alg": None}, "ES384": {"alg": "ES384"}, "PS256": {"alg": "PS256"},
    "crit": {"crit": ["exp"]}, "crit empty": {"crit": []}, "crit with b64": {"crit": ["b64"], "b64": False},
    "jku": {"jku": "https://evil.example/jwks.json"}, "x5u": {"x5u": "https://evil.example/cert.pem"},
    "x5c": {"x5c": ["MIIB"]}, "kid path": {"kid": "../../../../dev/null"}, "kid file": {"kid": "/etc/passwd"},
    "kid command": {"kid": "key|/bin/id"}, "kid sql": {"kid": "x' UNION SELECT 'a"}, "kid number": {"kid": 1},
    "kid other": {"kid": "unknown"}, "kid nul": {"kid": "ES256\0x"}, "typ": {"typ": "JWE"},
    "typ list": {"typ": ["JWT"]}, "typ logout": {"typ": "logout+jwt"},
}


@pytest.mark.parametrize("name", HEADERS)
def test_headers(name, keys):
    """Signed by the right key: the header alone is why they are refused."""
    key = keys["ES256"]
    assert taken(key.token(), key.file)  # control
    refused_token(key.token(**HEADERS[name]), key.file)


def test_alg_none_without_signature(keys):
    head, body = b64(b'{"alg":"none","typ":"JWT"}'), keys["ES256"].token().split(".")[1]
    for text in (f"{head}.{body}.", f"{head}.{body}", f"{head}.{body}.AAAA"):
        refused_token(text, keys["ES256"].file)


def test_own_key_in_the_header(keys):
    """jwk: the attacker brings the key that verifies."""
    mine = ec.generate_private_key(ec.SECP256R1())
    numbers = mine.public_key().public_numbers()
    jwk = {"kty": "EC", "crv": "P-256", "x": b64(numbers.x.to_bytes(32, "big")), "y": b64(numbers.y.to_bytes(32, "big"))}
    refused_token(token(mine, {"alg": "ES256", "jwk": jwk}), keys["ES256"].file, "jwk")


@pytest.mark.parametrize("alg", ["RS256", "ES256", "EdDSA"])
@pytest.mark.parametrize("dress", [lambda pem: pem, lambda pem: pem.strip(), lambda pem: b""])
def test_public_key_as_secret(alg, dress, keys):
    """HS256 signed with what everybody may know."""
    pem = keys[alg].public_pem()
    for header in ({"alg": "HS256"}, {"alg": "HS256", "kid": alg}):
        refused_token(token(dress(pem), header), keys[alg].file, "not signed")


def test_wrong_kind_of_signature(keys):
    """Right header, a signature of another algorithm; ECDSA in DER; psychic signatures."""
    key = keys["ES256"]
    data = key.token().rsplit(".", 1)[0]
    der = key.private.sign(data.encode(), ec.ECDSA(hashes.SHA256()))
    assert taken(f"{data}.{b64(sign(key.private, data.encode()))}", key.file)  # control
    for bad in (der, bytes(64), b"\0" * 31 + b"\1" + b"\0" * 31 + b"\1", sign(keys["EdDSA"].private, data.encode())):
        refused_token(f"{data}.{b64(bad)}", key.file, "not signed")


CLAIMS = {
    "expired": {"exp": now() - 120}, "no exp": {"exp": None}, "exp text": {"exp": str(now() + 600)},
    "exp float": {"exp": now() + 600.5}, "exp 2^64": {"exp": 2**64}, "exp 2^63-1": {"exp": 2**63 - 1},
    "exp negative": {"exp": -1}, "exp true": {"exp": True}, "exp list": {"exp": [now() + 600]},
    "nbf": {"nbf": now() + 3600}, "nbf text": {"nbf": "0"}, "iat ahead": {"iat": now() + 3600},
    "aud": {"aud": "other"}, "aud none": {"aud": None}, "aud part": {"aud": "cot"}, "aud more": {"aud": "coto "},
    "aud list": {"aud": ["a", "b"]}, "aud object": {"aud": {"coto": True}}, "sub none": {"sub": None},
    "sub empty": {"sub": ""}, "sub number": {"sub": 1}, "sub long": {"sub": "a" * 128}, "sub newline": {"sub": "a\nb"},
    "sub nul": {"sub": "alice\0"}, "sub turned": {"sub": "\u202eecila"}, "scope list": {"scope": ["read"]},
    "cnf empty": {"cnf": {}}, "cnf other": {"cnf": {"jkt": "x" * 43}}, "cnf short": {"cnf": {"x5t#S256": "x"}},
}


@pytest.mark.parametrize("name", CLAIMS)
def test_claims(name, keys):
    refused_token(keys["EdDSA"].token(claims(**CLAIMS[name])), keys["EdDSA"].file)


@pytest.mark.parametrize("iss", [None, "mallory", "m", "me ", ["me"]])
def test_issuer(iss, keys):
    key = keys["EdDSA"]
    assert taken(key.token(claims(iss="me")), key.file, "--iss", "me")  # control
    refused_token(key.token(claims(iss=iss)), key.file, flags=("--iss", "me"))


@pytest.mark.parametrize("body", [
    b'{"sub":"alice","sub":"bob","aud":"coto","exp":4000000000}', b"[]", b"null", b'"x"', b"", b"{",
    b'{"sub":"alice","aud":"coto","exp":4000000000}x', b'{"sub":"alice","aud":"coto","exp":NaN}',
    b'{"sub":"alice","aud":"coto","exp":1e999}', b'{"sub":"\xff","aud":"coto","exp":4000000000}',
    b'{"sub":"alice","aud":"coto","exp":4000000000,"x":' + b"[" * 2500 + b"]" * 2500 + b"}"])
def test_bad_json(body, keys):
    refused_token(keys["HS256"].token(body), keys["HS256"].file)


def test_reencoded(keys):
    """One token, one text: padding, left-over bits, the other alphabet, spaces, more dots."""
    for alg in ALGORITHMS:
        key = keys[alg]
        text = key.token()
        last = {"A": "B", "Q": "R", "g": "h", "w": "x"}.get(text[-1])  # zero bits left over: set one
        variants = [text + "=", text + "==", text + "A", text[:-1], text[:-4], text + ".", "." + text, text + " ",
                    " " + text, text.replace(".", "=.", 1), text.replace(".", "..", 1), text.upper(),
                    "Bearer " + text, text + "." + text]
        variants += [text[:-1] + last] if last else []
        assert taken(text, key.file)  # control
        for variant in variants:
            refused_token(variant, key.file)


def test_flipped_bits(keys):
    key = keys["RS256"]
    head, body, signature = key.token().split(".")
    for at in range(0, len(signature), 37):
        flipped = "B" if signature[at] != "B" else "C"
        refused_token(f"{head}.{body}.{signature[:at]}{flipped}{signature[at + 1:]}", key.file)


def test_large(keys):
    key = keys["HS256"]
    assert taken(key.token(claims(x="a" * 4000)), key.file)
    refused_token(key.token(claims(x="a" * 8000)), key.file, "longer than 8192")
    refused_token(b64(os.urandom(1 << 20)), key.file)


# ---- the tool ----

@pytest.mark.parametrize("umask", [0, 0o077, 0o777])
def test_keygen_files(umask, tmp_path):
    for alg in ("HS256", "EdDSA"):
        folder = tmp_path / alg
        folder.mkdir()
        out = ok(coto("token", "keygen", alg.lower(), folder, "--name", "k-1", umask=umask))
        assert f"coto token mint --key {folder}/k-1." in out
        secret = folder / ("k-1.secret" if alg == "HS256" else "k-1.key")
        assert mode(secret) == 0o600
        assert alg == "HS256" or mode(folder / "k-1.pub") == 0o644
        assert len(list(folder.iterdir())) == (1 if alg == "HS256" else 2)


@pytest.mark.parametrize("end", ["", "/", "//", "/.", "/./"])
def test_keygen_makes_a_private_directory(end, tmp_path):
    ok(coto("token", "keygen", "es256", f"{tmp_path}/above/keys{end}", umask=0o022))
    assert (mode(tmp_path / "above"), mode(tmp_path / "above" / "keys")) == (0o755, 0o700)


def test_keygen_overwrites_nothing(tmp_path):
    private, public = keygen("es256", tmp_path)
    before = private.read_bytes()
    assert "--name" in refused(coto("token", "keygen", "es256", tmp_path), OUTPUT, "exists already")
    assert private.read_bytes() == before
    private.unlink()
    refused(coto("token", "keygen", "es256", tmp_path), OUTPUT, "es256.pub")
    assert not private.exists()  # no half of a pair is left
    (tmp_path / "link.key").symlink_to(tmp_path / "elsewhere")
    refused(coto("token", "keygen", "es256", tmp_path, "--name", "link"), OUTPUT, "exists already")
    assert not (tmp_path / "elsewhere").exists()


@pytest.mark.parametrize("name", ["", ".", "..", "../x", "a/b", "-x", ".x", "a b", "a\nb", "x" * 65])
def test_keygen_names(name, tmp_path):
    refused(coto("token", "keygen", "es256", tmp_path, f"--name={name}"), USAGE, "not a name")
    assert not list(tmp_path.iterdir())


def test_secret_files_open_to_others(tmp_path):
    for alg in ("HS256", "ES256"):
        private, _ = keygen(alg, tmp_path)
        assert mint(private)
        for bits in (0o604, 0o644, 0o601, 0o602):
            private.chmod(bits)
            assert "remedy: chmod" in refused(coto("token", "mint", "--key", private, "--sub", "a"), INPUT)
        private.chmod(0o640)
        assert mint(private)


def test_weak_keys(tmp_path):
    file = tmp_path / "k"
    weak = {"RSA key of 1024": rsa.generate_private_key(65537, 1024), "secp384r1": ec.generate_private_key(ec.SECP384R1())}
    for word, key in weak.items():
        file.write_bytes(key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8,
                                           serialization.NoEncryption()))
        file.chmod(0o600)
        refused(coto("token", "mint", "--key", file, "--sub", "a"), INPUT, word, "remedy: ")
    file.write_text("short\n")
    refused(coto("token", "mint", "--key", file, "--sub", "a"), INPUT, "secret of 5 bytes", "remedy: ")
    key = ec.generate_private_key(ec.SECP256R1())
    file.write_bytes(key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8,
                                       serialization.BestAvailableEncryption(b"x")))
    refused(coto("token", "mint", "--key", file, "--sub", "a"), INPUT, "password", "remedy: openssl pkey")


def test_public_key_does_not_sign(tmp_path):
    _, public = keygen("es256", tmp_path)
    refused(coto("token", "mint", "--key", public, "--sub", "a"), INPUT, "cannot sign", "remedy: ")


@pytest.mark.parametrize("flags, word", [
    (["--ttl", "0"], "--ttl"), (["--ttl", "none"], "--ttl"), (["--ttl", "1y"], "--ttl"), (["--ttl", "500d"], "--ttl"),
    (["--ttl", "-5m"], "--ttl"), (["--sub", "b"], "given twice"), (["--scope", "a  b"], "scope"), (["--subb", "x"], "--subb"),
    (["-x"], "-x"), (["extra"], "too many"), (["--aud"], "needs a value"), (["--sandbox", "x" * 200], "--sandbox"),
    (["--sandbox", ""], "--sandbox: empty"), (["--iss="], "--iss: empty"), (["--aud", ""], "--aud: empty")])
def test_wrong_usage(flags, word, tmp_path):
    private, _ = keygen("es256", tmp_path)
    refused(coto("token", "mint", "--key", private, "--sub", "alice", *flags), USAGE, word)


@pytest.mark.parametrize("scope", ["foo", "read foo", "READ", "reads", "rea", "read,write", " read", "read ", " "])
def test_a_scope_that_is_none(scope, tmp_path):
    """It would open nothing."""
    private, _ = keygen("es256", tmp_path)
    refused(coto("token", "mint", "--key", private, "--sub", "alice", "--scope", scope), USAGE, "is no scope",
            "remedy: choose among: read, write, metrics")


@pytest.mark.parametrize("scope", ["", "read", "write", "metrics", "metrics read write"])
def test_scopes(scope, tmp_path):
    private, _ = keygen("es256", tmp_path)
    assert jwt.decode(mint(private, "--scope", scope), options={"verify_signature": False})["scope"] == scope


def test_bound_to_a_certificate(tmp_path):
    """As RFC 8705 has it; the hash is openssl's."""
    private, public = keygen("es256", tmp_path)
    ok(coto("pki", "init", tmp_path / "pki"))
    ok(coto("pki", "issue", "client", "alice", "--dir", tmp_path / "pki"))
    file = tmp_path / "pki/alice.crt"
    text = mint(private, "--certificate", file)
    told = subprocess.run(["openssl", "x509", "-noout", "-fingerprint", "-sha256", "-in", file], capture_output=True, text=True,
                          timeout=60).stdout
    hashed = bytes.fromhex(told.split("=")[1].replace(":", ""))
    assert taken(text, public)["cnf"] == {"x5t#S256": b64(hashed)}
    for bad in (tmp_path / "none", private, tmp_path, "/dev/null"):
        refused(coto("token", "mint", "--key", private, "--sub", "alice", "--certificate", bad), INPUT, "certificate '")


def test_times(tmp_path):
    private, public = keygen("eddsa", tmp_path)
    text = mint(private, "--ttl", "1h30m", "--not-before", "10m")
    got = jwt.decode(text, options={"verify_signature": False})
    assert got["exp"] - got["nbf"] == 5400 and got["nbf"] - got["iat"] == 600
    refused_token(text, public, "not valid yet")


@pytest.mark.parametrize("flags, words", [
    (["--sub", "local"], ["--sub local: reserved", "another name"]), (["--sub", "uid:1000"], ["--sub uid:1000: reserved"]),
    (["--sub", "a", "--iss", "coto-serve"], ["--iss coto-serve: the service's own name", "jwt-issuer"]),
    *((["--sub", "a", "--sandbox", text], ["not the id of a sandbox", "UUID"]) for text in ("s-1", BOX[:-1], BOX + "0", BOX.upper(), "x" * 36))])
def test_nothing_is_minted_that_no_service_takes(flags, words, tmp_path):
    private, _ = keygen("es256", tmp_path)
    refused(coto("token", "mint", "--key", private, *flags), USAGE, "remedy: ", *words)
    mint(private, "--sandbox", BOX)


@pytest.mark.parametrize("over, words, status", [(-100, "", 0), (20, "more seconds, because clocks may differ by 60", 0), (70, ": expired", FORBIDDEN)])
def test_a_token_whose_time_is_just_over(over, words, status, tmp_path):
    key = Key("ES256", tmp_path)
    text = token(key.private, {"alg": "ES256"}, claims(exp=now() - over))
    for done in (verify(text, key.file), coto("token", "show", "-", stdin=text)):
        assert done.returncode in (status, 0) and words in done.stdout, done
        assert status or "expired" not in done.stdout + done.stderr, "not both"
    left = re.search(r"accepted for (\d+) more seconds", done.stdout)
    assert (left is None) == (over != 20) and (not left or 30 < int(left[1]) <= 40)


def test_a_refusal_names_the_key_file(tmp_path):
    private, _ = keygen("es256", tmp_path / "a")
    _, other = keygen("es256", tmp_path / "b")
    refused_token(mint(private), other, f"not signed by a key in '{other}'")


def test_keygen_makes_directories_as_pki_does(tmp_path):
    ok(coto("token", "keygen", "es256", tmp_path / "a/b/keys"))
    assert stat.S_IMODE((tmp_path / "a/b/keys").stat().st_mode) == 0o700


@only(os.getuid() != 0)
@pytest.mark.parametrize("command", [("pki", "init"), ("pki", "init", "/nowhere/pki"), ("token", "keygen", "es256", "/nowhere/keys")])
def test_a_place_that_is_not_ours_gets_a_remedy(command):
    refused(coto(*command, env={"COTO_PKI_DIR": "", "HOME": "/home/somebody"}), OUTPUT, "Permission denied", "remedy: name a directory", "below /home/somebody")


def test_show_without_key(tmp_path):
    """What the token says is shown, and that nobody looked; a terminal is not played tricks on."""
    private, _ = keygen("eddsa", tmp_path)
    out = ok(coto("token", "show", mint(private)))
    assert '"sub": "alice"' in out and "not looked at" in out and "expires 20" in out
    evil = token(b"x" * 32, {"alg": "HS256"}, claims(sub="\x1b]0;pwned\x07\u202e"))
    out = ok(coto("token", "show", evil))
    assert "\x1b" not in out and "\u202e" not in out and "\\u001B" in out
    for text in ("", "abc", "a.b.c", "..", "\x1b[2J.x.y"):
        assert "\x1b" not in refused(coto("token", "show", text), INPUT)


def test_help():
    whole = ok(coto("token", "--help"))
    for word in ("mint", "keygen", "show", "jwks", "--ttl", "--key", "usage: coto token"):
        assert word in whole
    assert "--ttl" in ok(coto("token", "mint", "-h")) and "--name" not in ok(coto("token", "mint", "--help"))
    refused(coto("token"), USAGE, "which verb", "--help")
    refused(coto("token", "steal"), USAGE, "no verb 'steal'")
    refused(coto("token", "keygen"), USAGE, "missing", "hs256|es256")


def test_found_through_coto():
    overview = ok(coto("help"))
    for verb in ("pki", "token"):
        assert f"\n  {verb} " in overview and ok(coto("help", verb)) == ok(coto(verb, "--help"))
    refused(coto("tokn"), USAGE, "did you mean 'coto token'?")
