"""The configuration, its file, reload, socket activation, and words to the service manager."""
import contextlib
import os
import pathlib
import re
import signal
import socket
import subprocess

import pytest

from cli.helpers import only

from .daemon import Daemon, Production
from .helpers import BIN, PATIENCE, ROOT, SOURCE, Unix, wait_until

COTO = str(BIN / "coto")


@pytest.fixture
def service():
    it = Daemon()
    yield it
    it.__exit__()


def write(service, text, mode=0o600):
    path = service.room / "serve.yaml"
    path.write_text(text)
    path.chmod(mode)
    return path


def serve(*arguments, **more):
    return subprocess.run([COTO, "serve", *map(str, arguments)], capture_output=True, text=True, timeout=PATIENCE, **more)


def test_file_and_flags(service):
    """A flag wins over the file."""
    path = write(service, "tenant-sandboxes: 1\nidle: 77s\nlifetime: 99s\n")
    service.start(f"--config={path}", "--lifetime=2h")
    made = service.create()
    assert (made["idle_seconds"], made["lifetime_seconds"]) == (77, 7200)
    assert service.post("/api/v1/sandbox/create").status == 429


@pytest.mark.parametrize("text, words", [
    ("prot: 1", ["no setting 'prot'", "port"]),
    ("port: many", ["port: 'many' is not possible", "0 to 65535"]),
    ("idle: [1s, 2s]", ["idle: takes one value"]),
    ("durability: maybe", ["promises|disk|kernel|off"]),
    ("idle: 1ms", ["1s to 168h"]),
    ("pool-min: 50\npool-max: 10", ["pool-min: 50 is more than pool-max, 10", "raise pool-max to 50"]),
    ("high-pool-min: 5", ["high-pool-min: 5 is more than high-pool-max, 2", "raise high-pool-max to 5"]),
    ("max-sandboxes: 5", ["max-sandboxes: 5 are no more than the 5 that are kept ready", "raise max-sandboxes to 6"]),
    ("max-sandboxes: 8\nhigh-pool-min: 3\nhigh-pool-max: 3", ["no more than the 8", "lower pool-min"]),
    ("port: 1\nport: 2", ["line 2"]),
    ("port: &a 1", ["line 1"]),
    ("jwt-key: [/nowhere/key.pem]", ["/nowhere/key.pem", "No such file"]),
    ("profile: nothing", ["nothing"]),
    ("state-dir: here", ["'here'", "absolute", "remedy"]),
    ("high-runtime: foo", ["high-runtime: runtime 'foo' is not known", "runsc"]),
    ("listen: [nowhere]", ["'nowhere': not an address", "127.0.0.1:8080"]),
    ("jwt-audience: ''", ["jwt-audience: it is empty", "leave it out"]),
    ("jwt-issuer: coto-serve", ["jwt-issuer: 'coto-serve' is the service's own name", "leave it out"]),
    ("- a\n- b", ["not a map of 'key: value' lines", "lists the settings"]),
    ("listen: ['127.0.0.1:0']", ["listen: tls-certificate, tls-key, client-ca, jwt-key are missing", "coto pki init"]),
    ("listen: ['127.0.0.1:0']\ntls-key: /x", ["listen: tls-certificate, client-ca, jwt-key are missing"]),
    *((f"listen: ['127.0.0.1:{port}']", [f"'127.0.0.1:{port}': not an address: '{port}' is not a port", "65535"])
      for port in ("65536", "99999", "+80", "http", "")),
])
def test_check_says_what_is_wrong(service, text, words):
    done = serve("--check", "--config", write(service, text))
    assert done.returncode != 0 and done.stdout == "" and "--check" not in done.stderr and "a policy is" not in done.stderr
    for word in words:
        assert word in done.stderr, done.stderr


@pytest.mark.parametrize("end", [b"\n", b"\r\n"])
def test_check_counts_bytes_of_a_callback_key_as_the_start_does(service, end):
    """A line end is not part of it."""
    key = service.room / "key"
    for count, is_good in ((31, False), (32, True)):
        key.write_bytes(b"x" * count + end)
        key.chmod(0o600)
        done = serve("--check", "--callback-origin=https://x", f"--callback-key={key}")
        assert (done.returncode == 0) == is_good, done
        assert is_good or "less than 32 bytes" in done.stderr and "openssl rand -hex 32 >FILE" in done.stderr, done


def test_a_runtime_that_nobody_knows_does_not_start(service):
    status, text = service.fails("--high-runtime=foo")
    assert status and "high-runtime: runtime 'foo' is not known" in text
    assert serve("--check", "--high-runtime=kata").returncode == 0, "one that is not installed is told who asks for it"
    assert serve("--check", "--high-runtime=foo", "--high-isolation=docker").returncode == 0, "an engine knows its own"
    assert serve("--check", "--high-runtime=foo", "--high-isolation=none").returncode == 0


@only(ROOT)  # nobody else's front becomes another user
@pytest.mark.parametrize("name, words", [("nosuchuser", "there is no user 'nosuchuser'"), ("root", "is root")])
def test_a_user_that_cannot_be(service, name, words):
    """Who names one does not get nobody."""
    for done in (serve("--check", f"--user={name}"), serve("--check", "--config", write(service, f"user: {name}"))):
        assert done.returncode == 64 and words in done.stderr, done
    status, text = service.fails(f"--user={name}")
    assert status == 64 and words in text
    assert serve("--check", "--user=nobody").returncode == 0


@pytest.fixture
def production():
    it = Production()
    yield it
    it.__exit__()


@pytest.mark.parametrize("name, file, words", [
    ("tls-certificate", "alice.crt", ["alice.crt': it is not for TLS servers", "coto pki issue server"]),
    ("tls-key", "alice.key", ["alice.key': it is not the key of certificate", "localhost.crt", "name the key"]),
    ("tls-certificate", "none.crt", ["none.crt': No such file", "PEM"]),
    ("client-ca", "none.crt", ["none.crt': No such file", "PEM"]),
    ("client-crl", "none.crt", ["none.crt': No such file", "PEM"]),
    ("client-ca", "alice.crt", ["alice.crt': it is no certificate of an authority", "ca.crt"]),
    ("tls-certificate", "localhost.key", ["localhost.key': a certificate (BEGIN CERTIFICATE) was expected, BEGIN PRIVATE KEY is there", "PEM"]),
    ("tls-key", "closed.crt", ["closed.crt': a private key (BEGIN PRIVATE KEY) was expected, BEGIN CERTIFICATE is there"]),
    ("client-crl", "ca.crt", ["ca.crt': a revocation list (BEGIN X509 CRL) was expected, BEGIN CERTIFICATE is there", "crl.pem"]),
    ("client-ca", "crl.pem", ["crl.pem': a certificate (BEGIN CERTIFICATE) was expected, BEGIN X509 CRL is there"]),
    ("client-crl", "nonsense", ["nonsense': a revocation list (BEGIN X509 CRL) was expected, no PEM text is there"]),
])
def test_check_says_what_is_wrong_with_a_certificate(production, name, file, words):
    (production.pki / "nonsense").write_text("nonsense\n")
    (production.pki / "closed.crt").write_text((production.pki / "localhost.crt").read_text())
    (production.pki / "closed.crt").chmod(0o600)
    settings = production.settings | {name: production.pki / file}
    if (name, file) == ("tls-certificate", "alice.crt"):
        settings["tls-key"] = production.pki / "alice.key"
    done = serve("--check", *(f"--{key}={value}" for key, value in settings.items()))
    assert done.returncode and all(word in done.stderr for word in words), done
    assert serve("--check", *(f"--{key}={value}" for key, value in production.settings.items())).returncode == 0


def test_a_client_may_be_its_own_authority(production):
    """A certificate that nobody else has signed is trusted as itself."""
    own = production.pki / "own.crt"
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj", "/CN=own", "-days", "2",
                    "-addext", "basicConstraints=critical,CA:FALSE", "-keyout", own.with_suffix(".key"), "-out", own], check=True, capture_output=True)
    production.settings = {key: value for key, value in production.settings.items() if key != "client-crl"} | {"client-ca": own}
    production.start()
    assert production.is_let_in(production.context(own)) and not production.is_let_in(production.context())


@only(ROOT)
def test_check_of_a_place_that_the_front_cannot_reach(tmp_path):
    place = tmp_path / "private"
    place.mkdir(mode=0o700)
    done = serve("--check", f"--state-dir={place}/a/b")
    assert done.returncode == 64 and "of the front cannot reach it" in done.stderr and f"'{place}'" in done.stderr, done
    for top in (tmp_path, *tmp_path.parents):
        if top.stat().st_uid == os.geteuid() and top != pathlib.Path("/"):
            top.chmod(top.stat().st_mode | 0o011)
    place.chmod(0o711)
    assert serve("--check", f"--state-dir={place}/a/b").returncode == 0


def test_check_of_places_that_cannot_be(service):
    """As the start does, and nothing is made."""
    room = service.room / "places"
    room.mkdir()
    (room / "open").mkdir()
    (room / "open").chmod(0o755)
    (room / "file").write_text("")
    for flag, words in ((f"--runtime-dir={room}/none/here", f"make '{room}/none'"), (f"--runtime-dir={room}/open", "chmod 700"),
                        (f"--runtime-dir={room}/file", "is not a directory of yours alone"), (f"--socket={room}/none/api.sock", f"make '{room}/none'"),
                        (f"--runtime-dir={room}/file/here", f"make '{room}/file'")):
        done = serve("--check", flag)
        assert done.returncode and not done.stdout and words in done.stderr, done
        status, text = service.fails(flag)
        assert status == done.returncode and flag.split("=")[1] in text, text
    for flags in ((f"--runtime-dir={room}/here", f"--socket={room}/api.sock"), (f"--runtime-dir={room}/here/", f"--state-dir={room}/state/")):
        assert serve("--check", *flags).returncode == 0
    assert sorted(it.name for it in room.iterdir()) == ["file", "open"]


@pytest.mark.parametrize("run, socket", [("run", "run/my.sock"), ("run/", "run/my.sock"), ("run//", "run//my.sock"), ("run", "my.sock")])
def test_check_of_a_socket_in_the_directory_that_is_made_for_it(service, run, socket):
    """Which was refused, though a service started with it."""
    room = service.room / "places"
    room.mkdir()
    flags = f"--runtime-dir={room}/{run}", f"--socket={room}/{socket}"
    done = serve("--check", *flags)
    assert done.returncode == 0, done
    assert not list(room.iterdir()), "nothing is made"
    done = serve("--check", flags[0], f"--socket={room}/run/none/my.sock")
    assert done.returncode and f"make '{room}/run/none'" in done.stderr, "control"
    service.runtime = f"{room}/{run}"
    service.begin(flags[1])
    wait_until(lambda: service.process.poll() is not None or "listening" in service.messages, "a start")
    with contextlib.closing(Unix(room / socket)) as connection:
        connection.request("GET", "/healthz")
        assert connection.getresponse().status == 200
    assert service.stop() == 0


def same_as_start(service, words, *flags):
    """--check fails with these words, and so does the start."""
    done = serve("--check", *flags)
    assert done.returncode and not done.stdout and all(word in done.stderr for word in words), done
    status, text = service.fails(*flags)
    assert status, text


def test_check_of_a_socket_that_cannot_be(service):
    file = service.room / "file"
    file.write_text("")
    same_as_start(service, [f"socket '{file}': something else than a socket is there", "remove it"], f"--socket={file}")
    same_as_start(service, ["longer than the 107 bytes"], f"--socket={service.room}/{'x' * 100}")


def test_check_of_addresses_that_cannot_be_had(production):
    flags = [f"--{key}={value}" for key, value in production.settings.items() if key != "listen"]
    for address, words in (("192.0.2.7:8443", ["Cannot assign", "no address of this host"]), *([("127.0.0.1:80", ["Permission denied", "below 1024"])] if not ROOT else [])):
        same_as_start(production, words, *flags, f"--listen={address}")
        production.settings.pop("listen", None)
        production.begin(f"--listen={address}")
        assert production.process.wait(PATIENCE) and all(word in production.messages for word in words), production.messages
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        same_as_start(production, ["Address already in use", "another program has it"], *flags, f"--listen=127.0.0.1:{port}")
        done = serve("--check", f"--port={port}")
        assert done.returncode and "Address already in use" in done.stderr, done
    assert serve("--check", f"--port={port}").returncode == 0, "control: it is let go"


@pytest.mark.parametrize("more, words", [
    (["--listen=unix:{room}/none/x.sock"], ["make '{room}/none/x.sock'", "let this user write there"]),
    (["--listen=127.0.0.1:{a}", "--listen=127.0.0.1:{a}"], ["listen '127.0.0.1:{a}': listen has '127.0.0.1:{a}' already", "choose another port"]),
    (["--port={a}", "--listen=0.0.0.0:{a}"], ["listen '0.0.0.0:{a}': port has '127.0.0.1:{a}' already", "--port=none"]),
    (["--listen=127.0.0.1:{b}", "--listen=127.0.0.1:{a}", "--listen=0.0.0.0:{a}"], ["listen '0.0.0.0:{a}': listen has '127.0.0.1:{a}' already"]),
    (["--listen=unix:{room}/x.sock", "--listen=unix:{room}//x.sock"], ["listen 'unix:{room}//x.sock': listen has 'unix:{room}/x.sock' already", "name another path"]),
    (["--socket={room}/x.sock", "--listen=unix:{room}/x.sock"], ["listen 'unix:{room}/x.sock': socket has", "--socket=none"]),
    ([f"--listen=127.0.{i}.1:{{a}}" for i in range(33)], ["listen '127.0.32.1:{a}': there are 32 addresses before it", "0.0.0.0 and [::]"]),
])
def test_check_of_addresses_that_cannot_be_had_together(production, more, words):
    with socket.create_server(("127.0.0.1", 0)) as one, socket.create_server(("127.0.0.1", 0)) as two:
        names = {"room": production.room, "a": one.getsockname()[1], "b": two.getsockname()[1]}
    more, words = ([text.format(**names) for text in them] for them in (more, words))
    names = [text[2:].split("=")[0] for text in more]
    flags = [f"--{key}={value}" for key, value in production.settings.items() if key not in names]
    same_as_start(production, words, *flags, *more)
    without = [text for text in more if text != more[-1]]
    done = serve("--check", *flags, *without, *([] if "listen" in str(without) else ["--listen=127.0.0.1:0"]))
    assert done.returncode == 0, f"control: without the last one {done}"


def test_check_of_addresses_that_can_be_had_together(production):
    with socket.create_server(("127.0.0.1", 0)) as one:
        port = one.getsockname()[1]
    flags = [f"--{key}={value}" for key, value in production.settings.items() if key not in ("listen", "port", "socket")]
    listen = (f"127.0.0.2:{port}", "127.0.0.1:0", "127.0.0.1:0", f"unix:{production.room}/x.sock")
    done = serve("--check", *flags, f"--port={port}", f"--socket={production.room}/y.sock", *(f"--listen={one}" for one in listen))
    assert done.returncode == 0, done


def test_check_beside_the_service_that_has_the_address(service):
    service.start()
    flags = f"--runtime-dir={service.runtime}", f"--state-dir={service.state}", f"--port={service.port}"
    done = serve("--check", *flags)
    assert done.returncode == 0 and "taken for its own" in done.stderr, done
    assert serve("--check", flags[2]).returncode, "control: by another it is not"
    beside = f"--runtime-dir={service.room}/other", "--port=none"
    done = serve("--check", flags[1], *beside)
    assert done.returncode == 75 and f"state directory '{service.state}' is in use by another coto serve" in done.stderr, done
    done = serve("--check", f"--state-dir={service.room}/another", *beside)
    assert done.returncode == 0, done


@only(ROOT)
@pytest.mark.parametrize("place, words", [("/proc", "not private"), ("/proc/coto", "nothing can be made in '/proc'")])
def test_check_of_records_where_nothing_can_be(service, place, words):
    service.state = None
    same_as_start(service, [f"state-dir '{place}'", words], f"--state-dir={place}")


def test_check_of_a_level_that_cannot_be_had(service, monkeypatch):
    """It is a warning: all else can be had, and so may that be tomorrow. A start says it too."""
    monkeypatch.setenv("DOCKER_HOST", "unix:///nowhere")
    for flags, words in ((["--high-image=nosuch"], "image 'nosuch'"), (["--high-isolation=docker"], "no engine at unix:///nowhere")):
        done = serve("--check", *flags)
        assert (done.returncode, done.stdout) == (0, "settings, keys and certificates are fine\n"), done
        assert "warning: isolation_level high cannot be had here" in done.stderr and words in done.stderr, done
        service.begin(*flags)
        service.wait_for_message("warning: isolation_level high cannot be had here")
        service.wait_for_message("listening")
        assert words in service.messages and service.messages.count("warning:") == 1 and service.stop() == 0
    for flags in ([], ["--high-isolation=none", "--high-pool-min=1"], ["--high-image=nosuch", "--allow-isolation=standard"]):
        assert "warning" not in serve("--check", *flags).stderr, flags


@only(not ROOT)
def test_check_of_records_that_cannot_be_written(tmp_path):
    (tmp_path / "closed").mkdir(mode=0o500)
    for below in ("closed", "closed/a/b"):
        done = serve("--check", f"--state-dir={tmp_path}/{below}")
        assert done.returncode == 64 and "Permission denied" in done.stderr and f"write to '{tmp_path}/closed'" in done.stderr, done
    assert serve("--check", f"--state-dir={tmp_path}/a/b").returncode == 0
    assert sorted(it.name for it in tmp_path.iterdir()) == ["closed"]


def test_check_of_a_good_file(service):
    done = serve("--check", "--config", write(service, "port: 0\nqueue: 12\n"))
    assert (done.returncode, done.stdout) == (0, "settings, keys and certificates are fine\n")


@pytest.mark.parametrize("mode", [0o666, 0o622, 0o660])
def test_a_file_that_others_may_write_is_refused(service, mode):
    """DR-11"""
    path = write(service, "port: 0\n", mode)
    done = serve("--check", "--config", path)
    assert done.returncode == 68 and "others may write to it" in done.stderr and "chmod" in done.stderr
    path.chmod(0o644)
    assert serve("--check", "--config", path).returncode == 0


@only(ROOT)  # it needs a second user
def test_a_file_of_another_is_refused(service):
    """DR-11"""
    path = write(service, "port: 0\n")
    os.chown(path, 65533, 65533)
    done = serve("--check", "--config", path)
    assert done.returncode == 68 and "belongs to uid 65533" in done.stderr


def test_help_lists_every_setting_and_flags_are_checked():
    text = serve("--help").stdout
    assert "--tls-certificate FILE" in text and "--drain TIME (30s)" in text
    done = serve("--prot=1")
    assert done.returncode == 64 and "did you mean 'port'" in done.stderr
    for flag, meant in (("--confg", "config"), ("--chek", "check"), ("--hlep", "help")):
        assert f"did you mean '{meant}'" in serve(flag, "x").stderr
    assert serve("--port").returncode == 64 and serve("port").returncode == 64


def test_reload_changes_what_it_can_and_names_the_rest(service):
    path = write(service, "tenant-sandboxes: 1\nworkers: 8\n")
    service.start(f"--config={path}")
    front = service.front
    service.create()
    assert service.post("/api/v1/sandbox/create").status == 429
    write(service, "tenant-sandboxes: 2\nworkers: 9\n")
    service.signal(signal.SIGHUP)
    service.wait_for_message("reloaded")
    assert "a change needs a restart: workers" in service.messages
    wait_until(lambda: service.post("/api/v1/sandbox/create").status == 201, "the new limit")
    assert service.post("/api/v1/sandbox/create").status == 429
    assert service.front == front


def test_reload_of_nonsense_changes_nothing(service):
    path = write(service, "tenant-sandboxes: 1\n")
    service.start(f"--config={path}")
    write(service, "tenant-sandboxes: lots\n")
    service.signal(signal.SIGHUP)
    service.wait_for_message("everything is as before")
    service.create()
    assert service.post("/api/v1/sandbox/create").status == 429


# ---- the service manager ----

@pytest.fixture
def production():
    it = Production()
    yield it
    it.__exit__()


class Manager:
    """What systemd does: hands over listening sockets, and is told how it goes."""

    def __init__(self, service):
        self.words = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.words.bind(str(service.room / "notify"))
        self.words.settimeout(PATIENCE)
        self.service = service

    def start(self, sockets, *flags):
        fds = [sock.fileno() for sock in sockets]
        moves = " ".join(f"{3 + i}<&{fd}" for i, fd in enumerate(fds))
        script = f'exec {moves}; export LISTEN_PID=$$ LISTEN_FDS={len(fds)}; exec "$@"'
        command = ["bash", "-c", script, "sh", COTO, "serve", f"--state-dir={self.service.state}",
                   f"--runtime-dir={self.service.runtime}", *flags]
        with open(self.service.log, "wb") as log:
            self.service.process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, start_new_session=True,
                pass_fds=fds, env={"NOTIFY_SOCKET": str(self.service.room / "notify"), "PATH": os.environ["PATH"]})

    def hear(self, word):
        while word not in (heard := self.words.recv(4096).decode()):
            pass
        return heard


def test_socket_activation_and_notification(service):
    manager = Manager(service)
    service.runtime.mkdir(mode=0o700)
    path = service.runtime / "api.sock"
    with socket.socket(socket.AF_UNIX) as unix, socket.create_server(("127.0.0.1", 0)) as tcp:
        unix.bind(str(path))
        unix.listen()
        manager.start([unix, tcp])
        assert manager.hear("READY=1")
        service.port = tcp.getsockname()[1]
        assert service.run("print(3)").json["stdout"] == "3\n"
        assert service.get("/api/v1/sandbox", token=True).status == 200
        service.signal(signal.SIGHUP)
        manager.hear("RELOADING=1")
        manager.hear("READY=1")
        service.signal(signal.SIGTERM)
        manager.hear("STOPPING=1")
        assert service.process.wait(PATIENCE) == 0
    assert path.exists()  # it is the manager's


def listening(service):
    return re.findall(r"^listening (\S+)$", service.messages, re.M)


def test_what_is_configured_is_opened_beside_inherited_sockets(production):
    """coto.socket hands over one socket; the configuration has more. Nobody has named the default port."""
    manager = Manager(production)
    production.runtime.mkdir(mode=0o700)
    settings = [f"--{name}={value}" for name, value in production.settings.items() if name not in ("socket", "port")]
    with socket.socket(socket.AF_UNIX) as unix:
        unix.bind(str(production.runtime / "api.sock"))
        unix.listen()
        manager.start([unix], *settings)
        assert manager.hear("READY=1")
        inherited, https = listening(production)
        assert inherited == f"unix:{production.runtime}/api.sock"
        production.port = int(https.rsplit(":", 1)[1])
        assert https.startswith("https://") and production.get("/api/v1/sandbox", token=production.mint("alice")).status == 200
        assert production.stop() == 0
        config = production.room / "more.yaml"
        config.write_text(f"port: 0\nsocket: {production.room}/other.sock\n")
        manager.start([unix], *settings, f"--config={config}")
        assert manager.hear("READY=1")
        inherited, other, http, https = listening(production)
        assert other == f"unix:{production.room}/other.sock" and http.startswith("http://127.0.0.1:")
        assert production.stop() == 0
    assert (production.runtime / "api.sock").exists() and not (production.room / "other.sock").exists()


@pytest.mark.parametrize("inherited, listen", [("127.0.0.1", "127.0.0.1"), ("0.0.0.0", "0.0.0.0"), ("0.0.0.0", "127.0.0.1"), ("::", "0.0.0.0")])
def test_an_inherited_socket_that_is_configured_too_is_not_opened_twice(production, inherited, listen):
    """And is served as the configuration says: with TLS, also on loopback."""
    manager = Manager(production)
    family = socket.AF_INET6 if ":" in inherited else socket.AF_INET
    with socket.create_server((inherited, 0), family=family, dualstack_ipv6=family == socket.AF_INET6) as tcp:
        production.port = tcp.getsockname()[1]
        production.settings["listen"] = f"{listen}:{production.port}"
        manager.start([tcp], *(f"--{name}={value}" for name, value in production.settings.items()))
        assert manager.hear("READY=1")
        assert listening(production) == [f"https://[::]:{production.port}" if family == socket.AF_INET6 else
                                         f"https://{inherited}:{production.port}"]
        assert production.get("/api/v1/sandbox", token=production.mint("alice")).status == 200
        assert production.stop() == 0


def test_an_inherited_socket_for_others_needs_tls(service):
    manager = Manager(service)
    with socket.create_server(("0.0.0.0", 0)) as tcp:
        manager.start([tcp])
        assert service.process.wait(PATIENCE) == 64
    assert "others can reach it" in service.messages


def unit(name, section):
    """The lines of a section, as systemd reads them."""
    text = (SOURCE / "deploy/systemd" / name).read_text().split(f"[{section}]")[1].split("\n[")[0]
    return dict(line.split("=", 1) for line in text.splitlines() if "=" in line and not line.startswith("#"))


def test_the_user_of_the_front_is_made_by_systemd(tmp_path):
    """By the file that is shipped for it."""
    file = SOURCE / "deploy/systemd/coto.sysusers.conf"
    (tmp_path / "etc").mkdir()
    done = subprocess.run(["systemd-sysusers", f"--root={tmp_path}", file], capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 0, done
    [line] = [line for line in (tmp_path / "etc/passwd").read_text().splitlines() if line.startswith("coto:")]
    assert line.split(":")[5:] == ["/nonexistent", "/usr/sbin/nologin"] and int(line.split(":")[2]) < 1000
    assert "sysusers.d" in (SOURCE / "meson.build").read_text()


def test_the_units_fit_each_other():
    """The socket is in the service's directory, which a stopped service must leave where it is."""
    service, sock = unit("coto.service", "Service"), unit("coto.socket", "Socket")
    assert pathlib.Path(sock["ListenStream"]).parent == pathlib.Path("/run", service["RuntimeDirectory"])
    assert service["RuntimeDirectoryPreserve"] == "yes"
    assert service["RuntimeDirectoryMode"] == sock["DirectoryMode"] == "0700", "others are refused by the service"


def open_files(pid):
    """What a process has open; descriptors come and go while one looks."""
    names = []
    for fd in os.listdir(f"/proc/{pid}/fd"):
        with contextlib.suppress(FileNotFoundError):
            names.append(os.readlink(f"/proc/{pid}/fd/{fd}"))
    return names


def test_descriptors_of_others_are_not_passed_on(service):
    """Whatever the caller had open stays out of front and launcher."""
    with open("/etc/hostname") as file:
        os.set_inheritable(file.fileno(), True)
        command = [COTO, "serve", "--port=0", f"--state-dir={service.state}", f"--runtime-dir={service.runtime}"]
        with open(service.log, "wb") as log:
            service.process = subprocess.Popen(command, stdout=log, stderr=log, close_fds=False, start_new_session=True)
    wait_until(service.is_ready, "readiness")
    for pid in (service.process.pid, service.front, service.launcher):
        names = open_files(pid) if ROOT else []
        assert "/etc/hostname" not in names


# ---- ceilings ----

CEILINGS = """\
max-memory: 128m
max-cpus: 0.5
max-timeout: 5s
max-pids: 20
max-disk: 32m
max-output: 1k
allow-profile: [default, enis]
allow-isolation: [standard]
"""


@pytest.fixture(scope="module")
def low():
    it = Daemon()
    try:
        yield it.start(f"--config={write(it, CEILINGS)}")
    finally:
        it.__exit__()


@pytest.mark.parametrize("body,field,words", [
    ({"resource_limits": {"memory_mb": 129}}, "resource_limits.memory_mb", "128m at most"),
    ({"resource_limits": {"memory": "1g"}}, "resource_limits.memory", "128m at most"),
    ({"resource_limits": {"cpu": 0.6}}, "resource_limits.cpu", "0.5 at most"),
    ({"timeout_seconds": 6}, "timeout_seconds", "5s at most"),
    ({"resource_limits": {"pids": 21}}, "resource_limits.pids", "20 at most"),
    ({"resource_limits": {"disk_mb": 33}}, "resource_limits.disk_mb", "32m at most"),
    ({"resource_limits": {"output_limit": "2k"}}, "resource_limits.output_limit", "1k at most"),
    ({"resource_limits": {"output_limit": "none"}}, "resource_limits.output_limit", "1k at most"),
    ({"profile": "gemini"}, "profile", "not allowed"),
    ({"isolation_level": "high"}, "isolation_level", "not allowed"),
])
def test_more_than_the_ceiling_is_refused(low, body, field, words):
    reply = low.post("/api/v1/run", code="print(1)", **body)
    assert 400 <= reply.status < 500, reply
    assert reply.json["field"] == field and words in reply.json["message"], reply
    refused = low.post("/api/v1/sandbox/create", **body)
    assert "timeout_seconds" in body or "output_limit" in str(body) or refused.status == reply.status, refused


TERMINALS = ("import errno, os\nn = 0\ntry:\n    while True: os.openpty(); n += 1\n"
             "except OSError as error: print(n, errno.errorcode[error.errno], os.path.lexists('/dev/ptmx'))")


def test_there_are_no_terminals(low):
    assert low.run(TERMINALS).json["stdout"] == "0 ENOENT False\n"
    reply = low.post("/api/v1/run", code="print(1)", resource_limits={"ptys": 1})
    assert (reply.status, reply.json["field"]) == (400, "resource_limits.ptys") and "0 at most" in reply.json["message"], reply


def test_terminals_that_the_operator_allows():
    """Each request gets its own number, from a pool and a shared root too."""
    with Daemon("--high-isolation=none", "--max-ptys=2") as service:
        for count in (0, 2, 1, 0, 2, 0, 1):
            words = f"{count} ENOSPC True\n" if count else "0 ENOENT False\n"
            limits = {"ptys": count} if count else {}
            assert service.run(TERMINALS, resource_limits=limits).json["stdout"] == words, count
            box = service.create(resource_limits=limits)
            path = f"/api/v1/sandbox/{box['sandbox_id']}"
            assert service.post(f"{path}/execute", code=TERMINALS).json["output"] == words, count
            assert service.delete(path).status in (200, 204)
        reply = service.post("/api/v1/run", code="print(1)", resource_limits={"ptys": 3})
        assert reply.status == 400 and "2 at most" in reply.json["message"], reply


def test_what_is_not_asked_for_is_cut_down(low):
    """And what is asked for within it is given: the ceiling is not the value."""
    result = low.run("print('x' * 5000)").json
    assert result["walls"]["memory"]["value"] in ("134217728", "128m") or not result["walls"]["memory"]["up"], result["walls"]["memory"]
    assert len(result["stdout"]) <= 1024
    assert low.run("import time; time.sleep(20)").json["verdict"] == "timeout"
    result = low.run("print(1)", resource_limits={"memory_mb": 64, "pids": 10}, timeout_seconds=4).json
    assert result["verdict"] == "ok"


@pytest.mark.parametrize("line,words", [
    ("max-memory: 9g", "8g at most"), ("max-timeout: 301s", "5m at most"), ("max-pids: many", "max-pids"), ("max-ptys: 65", "max-ptys"),
    ("max-memory: 1 GB", "a size such as 256m: 4m at least, 8g at most"), ("max-timeout: soon", "a time such as 30s: "), ("max-memory: none", "4m at least, 8g at most"), ("max-pids: none", "1 at least, 4096 at most"),
    ("max-disk: x", "64k at least, 8g at most"), ("max-cpus: 65", "serve.yaml: max-cpus: '65'"),
    ("allow-profile: [nosuch]", "no profile 'nosuch'"), ("allow-profile: [enis]", "profile 'default' is not among"),
    ("allow-isolation: [weak]", "neither standard nor high")])
def test_ceilings_that_cannot_be(low, line, words):
    done = serve("--check", f"--config={write(low, line)}")
    assert done.returncode != 0 and words in done.stderr and "to none" not in done.stderr, done.stderr


def words_of_launcher(*flags):
    with Daemon("--high-isolation=none", *flags) as service:
        return pathlib.Path(f"/proc/{service.launcher}/cmdline").read_text().split("\0")


def test_the_launcher_knows_what_no_profile_has():
    """It is the one that refuses a front that was taken over (conform/launcher_wire)."""
    all_profiles, one = words_of_launcher(), words_of_launcher("--allow-profile=default", "--max-memory=1g")
    assert {"--caps=0", "--seccomp=1", "--idmaps=1", "--ids=10000:10000", f"--memory={1 << 30}", "--inodes=1000000", "--ptys=0"} <= set(one)
    assert sum(word.startswith("--ids=") for word in one) == 1
    chown_setgid_setuid_fowner = 1 << 0 | 1 << 6 | 1 << 7 | 1 << 3
    assert f"--caps={chown_setgid_setuid_fowner}" in all_profiles and "--ids=9999:9999" in all_profiles


@pytest.fixture(scope="module")
def service_of_all():
    with Daemon("--high-isolation=none") as it:
        yield it


@pytest.mark.parametrize("profile", ["default", "ia-libre", "gemini", "antigravity", "deepresearch", "enis"])
def test_every_profile_is_within_what_the_launcher_allows(service_of_all, profile):
    most = {"memory": "8g", "swap": "8g", "tmp_size": "8g", "inodes": 1_000_000, "disk": "8g", "pids": 4096, "cpus": 64}
    for limits in ({}, most):
        reply = service_of_all.run("print(1)", profile=profile, resource_limits=limits)
        assert (reply.status, reply.json.get("stdout")) == (200, "1\n"), reply


# ---- cold ----

LATER = "x = 1"


@pytest.mark.parametrize("word, kept", [("yes", False), ("true", False), ("no", True), ("false", True)])
def test_cold_is_the_operators_word(make_service, word, kept):
    """In a file also as a boolean; no request undoes it."""
    service = make_service(start=False)
    config = service.room / "config.yaml"
    config.write_text(f"cold: {word}\nhigh-isolation: none\n")
    service.start(f"--config={config}")
    for more in ({}, {"cold": False}):
        box = f"/api/v1/sandbox/{service.create(**more)['sandbox_id']}"
        for again in ({}, {"cold": False}):
            reply = service.post(f"{box}/execute", code=LATER, **again).json
            assert (reply["verdict"], reply["state_kept"]) == ("ok", kept), reply
            assert kept or "created cold" in reply["state_note"]
    assert service.run("print(1)", cold=False).json["stdout"] == "1\n"
    assert ('language="python"' in service.get("/metrics").body.decode()) == kept, "kept ready"


def test_cold_is_the_sandboxs_word(make_service):
    """What was created cold stays so."""
    service = make_service("--high-isolation=none")
    box = f"/api/v1/sandbox/{service.create(cold=True)['sandbox_id']}"
    assert service.post(f"{box}/execute", code=LATER, cold=False).json["state_kept"] is False
