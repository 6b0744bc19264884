"""Names of key files change at SIGHUP; files that others could have written are refused."""
import os
import resource
import shutil
import signal
import subprocess
import time

import pytest

from cli.helpers import only, status_of

from .daemon import UNAUTHORIZED, Production, refusal
from .helpers import ROOT, wait_until
from .test_production import check, serial, status


@pytest.fixture
def own():
    it = Production()
    it.file = it.room / "serve.yaml"
    yield it
    it.__exit__()


def write(own, **changes):
    """The configuration with these in the place of what is there; None: without it."""
    own.settings = {name: value for name, value in {**own.settings, **{key.replace("_", "-"): value for key, value in changes.items()}}.items()
                    if value is not None}
    lines = (f"{name}: [{', '.join(map(repr, map(str, value)))}]" if isinstance(value, list) else f"{name}: {str(value)!r}"
             for name, value in own.settings.items() if name != "listen")
    own.file.write_text("\n".join(lines) + "\nlisten: ['127.0.0.1:0']\n" * ("listen" in own.settings))
    own.file.chmod(0o600)


def start(own):
    write(own)
    super(Production, own).begin(f"--config={own.file}")
    wait_until(lambda: "listening https" in own.messages or own.process.poll() is not None, "readiness")
    assert own.process.poll() is None, own.messages
    own.port = int(own.messages.split("https://127.0.0.1:")[1].split()[0])


def reload(own, words, **changes):
    count = own.messages.count(words)
    write(own, **changes)
    own.signal(signal.SIGHUP)
    wait_until(lambda: own.messages.count(words) > count, f"'{words}' in {own.messages}")


def begin(own):
    """Room, socket and port of Production are flags, which no file changes: here all is in the file."""
    own.settings.update({"state-dir": own.state, "runtime-dir": own.runtime, "port": "none"})
    own.flags = ("--port=none",)
    start(own)


def minted(own, name, tenant="alice"):
    return own.coto("token", "mint", "--key", own.keys / f"{name}.key", "--sub", tenant).strip()


def test_keys_come_and_go_by_their_names(own):
    begin(own)
    front = own.front
    old, old_file = minted(own, "es256"), own.keys / "es256.pub"
    own.coto("token", "keygen", "eddsa", "keys")
    new, new_file = minted(own, "eddsa"), own.keys / "eddsa.pub"
    assert (status(own, old), refusal(own.get("/api/v1/sandbox", token=new))) == (200, UNAUTHORIZED)
    reload(own, "reloaded", jwt_key=[old_file, new_file])
    assert wait_until(lambda: status(own, new) == 200, "the new key") and status(own, old) == 200
    reload(own, "reloaded", jwt_key=[new_file])
    wait_until(lambda: status(own, old) == 401, "the end of the old key")
    assert status(own, new) == 200 and "a change needs a restart" not in own.messages
    assert own.messages.count("taken as it is named now: jwt-key") == 2 and own.front == front
    os.kill(front, signal.SIGKILL)
    wait_until(lambda: own.front not in (0, front) and status(own, new) == 200, "a new front with the new names")
    assert status(own, old) == 401
    old_file.write_text("whatever")  # nobody's any more
    new_file.rename(own.keys / "third.pub")
    reload(own, "reloaded", jwt_key=[own.keys / "third.pub"])
    wait_until(lambda: status(own, new) == 200, "the same key by another name")


def test_a_key_s_id_is_the_name_that_its_file_has_now(own):
    own.coto("token", "keygen", "es256", "keys", "--name", "prod-7")
    begin(own)
    token = minted(own, "prod-7")
    assert status(own, token) == 401
    shutil.copy(own.keys / "prod-7.pub", own.keys / "prod-8.pub")
    reload(own, "reloaded", jwt_key=[own.keys / "prod-8.pub"])
    wait_until(lambda: status(own, token) == 200, "the new key")


@pytest.mark.parametrize("name, words", [("none.pub", "No such file"), ("broken.pub", "broken.pub")])
def test_a_broken_new_key_changes_nothing(own, name, words):
    begin(own)
    token = minted(own, "es256")
    (own.keys / "broken.pub").write_text("-----BEGIN PUBLIC KEY-----\nnonsense\n-----END PUBLIC KEY-----\n")
    reload(own, "token keys are as before", jwt_key=[own.keys / name])
    assert words in own.messages and str(own.keys / name) in own.messages and "reloaded" not in own.messages
    assert status(own, token) == 200
    own.coto("token", "keygen", "eddsa", "keys")
    shutil.copy(own.keys / "eddsa.pub", own.keys / "es256.pub")  # what is used still is looked at still
    own.wait_for_message(f"key files have changed: {own.keys / 'es256.pub'}")
    wait_until(lambda: status(own, minted(own, "eddsa")) == 200, "the new content")


def test_certificates_are_taken_by_other_names(own):
    begin(own)
    before, front = serial(own), own.front
    own.issue("server", "localhost2", "pki", "--san", "localhost")
    reload(own, "reloaded", tls_certificate=own.pki / "localhost2.crt", tls_key=own.pki / "localhost2.key")
    wait_until(lambda: serial(own) not in (None, before), "the new certificate")
    after = serial(own)
    reload(own, "certificates are as before", tls_certificate=own.pki / "none.crt")
    wait_until(lambda: serial(own) == after, "connections: one that was being made at the reload has been ended")
    assert f"{own.pki / 'none.crt'}': No such file" in own.messages and own.front == front


def test_another_authority_and_another_list(own):
    own.issue("client", "bob")
    begin(own)
    alice, bob = own.context(), own.context(own.pki / "bob.crt")
    assert own.is_let_in(alice) and own.is_let_in(bob)
    own.coto("pki", "revoke", "bob", "--dir", "pki")
    own.wait_for_message("key files have changed")
    other = own.pki / "other.pem"
    shutil.copy(own.pki / "crl.pem", other)
    reload(own, "reloaded", client_crl=None)
    wait_until(lambda: own.is_let_in(bob), "no list any more")
    reload(own, "certificates are as before", client_crl=other, tls_certificate=own.pki / "none.crt")
    wait_until(lambda: not own.is_let_in(bob), "the list by its new name, whatever else is wrong")
    assert own.is_let_in(alice) and "taken as it is named now: client-crl" in own.messages
    own.coto("pki", "init", "second")
    own.issue("client", "carol", "second")
    carol = own.context(own.room / "second/carol.crt")
    assert not own.is_let_in(carol)
    reload(own, "reloaded", client_ca=own.room / "second/ca.crt", client_crl=own.room / "second/crl.pem", tls_certificate=own.pki / "localhost.crt")
    wait_until(lambda: own.is_let_in(carol), "the other authority")
    assert not own.is_let_in(alice)


def test_what_listens_keeps_what_it_needs(own):
    """`listen` stays until a restart: never without TLS, and never without keys."""
    begin(own)
    token = minted(own, "es256")
    own.settings["socket"] = own.room / "api.sock"
    reload(own, "a change needs a restart: listen", listen=None, tls_certificate=None, tls_key=None, client_ca=None, client_crl=None, jwt_key=None)
    own.wait_for_message("reloaded")
    for name in ("tls-certificate", "client-crl", "jwt-key"):
        assert f"what listens needs it until then: {name}" in own.messages
    assert status(own, token) == 200 and refusal(own.get("/api/v1/sandbox", token=token + "x")) == UNAUTHORIZED


# ---- whose files they are ----

FILES = ["tls-certificate", "tls-key", "client-ca", "client-crl", "jwt-key", "jwks"]


def named(own, name):
    if name == "jwks":
        own.settings["jwt-key"] = own.room / "keys.json"
        own.settings["jwt-key"].write_text(own.coto("token", "jwks", own.keys / "es256.pub"))
    return own.settings["jwt-key" if name == "jwks" else name]


@only(ROOT)  # it needs a second user
@pytest.mark.parametrize("name", FILES)
def test_a_file_of_another_is_refused(own, name):
    path = named(own, name)
    assert check(own)[0] == 0
    os.chown(path, 65533, 65533)
    code, text = check(own)
    assert code == 68 and f"{path}': it belongs to uid 65533" in text and f"chown 0 '{path}'" in text, text
    own.begin()
    assert own.process.wait(60) == 68 and f"{path}': it belongs to uid 65533" in own.messages


@pytest.mark.parametrize("mode", [0o620, 0o602])
@pytest.mark.parametrize("name", FILES)
def test_a_file_that_others_may_write_is_refused(own, name, mode):
    path = named(own, name)
    path.chmod(mode)
    code, text = check(own)
    assert code == 68 and f"{path}': others may write to it" in text and f"chmod go-w '{path}'" in text, text


@pytest.mark.parametrize("name", FILES)
def test_a_directory_that_others_may_write_is_refused(own, name):
    place = own.room / "place"
    place.mkdir()
    path = place / named(own, name).name
    shutil.copy(named(own, name), path)
    own.settings["jwt-key" if name == "jwks" else name] = path
    for mode, is_good in ((0o755, True), (0o777, False), (0o775, False), (0o1777, True)):
        place.chmod(mode)
        code, text = check(own)
        assert code == (0 if is_good else 68), text
        assert is_good or f"{path}': others may write to its directory '{place}'" in text and f"chmod go-w '{place}'" in text, text
    place.chmod(0o777)
    link = own.room / "link"
    link.symlink_to(path)
    own.settings["jwt-key" if name == "jwks" else name] = link
    assert check(own)[0] == 68


@pytest.mark.parametrize("name, kept", [("jwt-key", "token keys are as before"), ("client-ca", "certificates are as before"),
                                        ("client-crl", "certificates are as before")])
def test_so_is_one_at_a_reload(own, name, kept):
    own.start()
    token = own.mint("alice")
    path = own.settings[name]
    path.chmod(0o666)
    own.signal(signal.SIGHUP)
    own.wait_for_message(kept)
    assert f"{path}': others may write to it" in own.messages and "reloaded" not in own.messages
    wait_until(lambda: status(own, token) == 200, "connections: one that was being made then has been ended")
    path.chmod(0o644)
    own.signal(signal.SIGHUP)
    own.wait_for_message("reloaded")


# ---- lists ----

def second_authority(own):
    own.coto("pki", "init", "second")
    return own.room / "second"


def test_a_list_of_another_authority_is_refused(own):
    """With it no client at all would be let in."""
    own.settings["client-crl"] = second_authority(own) / "crl.pem"
    code, text = check(own)
    assert code == 66 and f"{own.settings['client-crl']}': it is of none of the authorities in client-ca" in text and "remedy: " in text, text
    own.settings["client-ca"] = own.room / "second/ca.crt"
    assert check(own)[0] == 0, "control"


@pytest.mark.parametrize("by_name", [True, False])
def test_another_authority_and_its_list_beside_a_broken_key(own, by_name):
    """The list alone is not taken: it does not go with the authority there is."""
    second = second_authority(own)
    begin(own)
    alice = own.context()
    assert own.is_let_in(alice)
    (own.pki / "localhost.key").write_text("broken")
    changes = {"client_ca": second / "ca.crt", "client_crl": second / "crl.pem"}
    if not by_name:
        shutil.copy(second / "ca.crt", own.pki / "ca.crt")
        shutil.copy(second / "crl.pem", own.pki / "crl.pem")
        changes = {}
    reload(own, "certificates are as before", **changes)
    assert own.is_let_in(alice) and "the revocation list" not in own.messages


def test_what_is_refused_is_tried_again_and_told_once(own):
    """The reason may be elsewhere: nothing happens to the file when that is mended."""
    place = own.room / "place"
    place.mkdir()
    shutil.copy(own.pki / "crl.pem", place)
    own.settings["client-crl"] = place / "crl.pem"
    own.issue("client", "bob")
    begin(own)
    bob = own.context(own.pki / "bob.crt")
    assert own.is_let_in(bob)
    place.chmod(0o777)
    own.coto("pki", "revoke", "bob", "--dir", "pki")
    shutil.copy(own.pki / "crl.pem", place)
    own.wait_for_message("certificates are as before")
    front = own.front
    time.sleep(7)  # three looks
    assert own.messages.count("as before") == 1 and own.is_let_in(bob) and own.front == front
    place.chmod(0o755)
    wait_until(lambda: not own.is_let_in(bob), "the list, without a signal")
    own.wait_for_message(f"key files have changed: {place / 'crl.pem'}")
    assert own.is_let_in(own.context()) and own.messages.count("as before") == 1


def limit_descriptors(pid, soft):
    """As its own user: root has not everywhere the capability to do it to others."""
    ids = {name: int(status_of(pid)[name].split()[0]) for name in ("Uid", "Gid")}
    who = {"user": ids["Uid"], "group": ids["Gid"], "extra_groups": []} if os.geteuid() == 0 else {}
    subprocess.run(["prlimit", f"--pid={pid}", f"--nofile={soft}:"], check=True, timeout=60, **who)


def test_want_of_descriptors_loses_no_list(own):
    """Copies of before are kept, also the list's: the next front has it."""
    own.issue("client", "bob")
    begin(own)
    alice, bob, front = own.context(), own.context(own.pki / "bob.crt"), own.front
    own.coto("pki", "revoke", "bob", "--dir", "pki")
    own.wait_for_message("key files have changed")
    before = resource.prlimit(own.process.pid, resource.RLIMIT_NOFILE)[0]
    limit_descriptors(own.process.pid, 3)
    (own.pki / "localhost.crt").write_text("broken")
    own.wait_for_message("certificates are as before")
    limit_descriptors(own.process.pid, before)
    os.kill(front, signal.SIGKILL)
    wait_until(lambda: own.front not in (0, front) and own.is_let_in(alice), "a new front")
    assert not own.is_let_in(bob)


def test_a_front_without_descriptors_does_not_miss_a_list(own):
    """Of a narrower list of names the descriptor is lost on its way: the next front has it. With no file that is good it is all that is sent."""
    own.issue("client", "bob")
    own.settings["client-names"] = ["alice", "bob"]
    del own.settings["client-crl"]
    begin(own)
    bob, front = own.context(own.pki / "bob.crt"), own.front
    assert own.is_let_in(bob)
    limit_descriptors(front, 3)
    for file in own.pki / "localhost.crt", own.keys / "es256.pub":
        file.write_text("broken")
    reload(own, "token keys are as before", client_names=["alice"])
    wait_until(lambda: own.front not in (0, front) and own.is_let_in(own.context()), "a new front")
    assert not own.is_let_in(bob)


def test_a_front_without_descriptors_does_not_miss_a_launcher(own):
    begin(own)
    token, front, launcher = own.mint("alice"), own.front, own.launcher
    limit_descriptors(front, 3)
    os.kill(launcher, signal.SIGKILL)
    wait_until(lambda: own.front not in (0, front) and own.launcher not in (0, launcher) and status(own, token) == 200, "both anew")
    assert own.post("/api/v1/run", code="print(7)", token=token).json["stdout"] == "7\n"
