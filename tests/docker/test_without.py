"""No engine, or one that lies: what needs no privilege. A stand-in answers as an engine does,
and keeps a list of what it was asked."""
import http.server
import io
import json
import os
import socketserver
import tarfile
import threading

import pytest

from cli.helpers import BIN, ROOT, refused, run

RUN = ("--isolation", "docker", "--", "echo", "ran")


def test_no_engine(tmp_path):
    refused(run(*RUN, env={"DOCKER_HOST": f"unix://{tmp_path}/none"}), 69, "no engine at unix://", "start it")


@pytest.mark.parametrize("host", ["tcp://192.0.2.1:2375", "tcp://127.example.org:2375"])
def test_an_engine_elsewhere_wants_tls(host):
    refused(run(*RUN, env={"DOCKER_HOST": host}), 68, "without TLS", "DOCKER_TLS_VERIFY")


@pytest.mark.parametrize("host", ["ssh://a", "unix://relative", "tcp://nohost", "tcp://:1", "unix://" + "/x" * 60])
def test_bad_host(host):
    refused(run(*RUN, env={"DOCKER_HOST": host}), 64, "DOCKER_HOST", "unix:///var/run/docker.sock")


class StandIn(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    daemon_threads = True
    changes = staticmethod(lambda shown: None)
    changed = staticmethod(lambda archive: archive)

    def __init__(self, path):
        super().__init__(str(path), Handler)
        self.calls, self.body, self.removed = [], None, False
        self.runc = {"Name": "runc", "Version": "1.4.3", "Details": {"GitCommit": "v1.4.3-0-gabcdef01"}}
        self.sees_files, self.archive, self.volumes = True, b"", []
        self.env = {"DOCKER_HOST": f"unix://{path}"}
        threading.Thread(target=self.serve_forever, args=(0.02,), daemon=True).start()

    def shown(self):
        config = {key: value for key, value in self.body.items() if key != "HostConfig"}
        host = dict(self.body["HostConfig"], MaskedPaths=["/proc/kcore"], ReadonlyPaths=["/proc/sys"])
        found = {"Config": config, "HostConfig": host, "State": {"Pid": 0},
                 "Mounts": [{"Destination": "/.coto-init", "RW": False}]}
        self.changes(found)
        return found


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def answer(self, status, body=None):
        self.answer_bytes(status, json.dumps(body).encode() if body is not None else b"")

    def answer_bytes(self, status, data):
        self.send_response(status)
        self.send_header("Api-Version", "1.41")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def handle_any(self):
        server, path = self.server, self.path.removeprefix("/v1.41").partition("?")[0]
        server.calls.append(f"{self.command} {path}")
        length = int(self.headers.get("Content-Length") or 0)
        text = self.rfile.read(length)
        if path == "/_ping":
            self.answer(200)
        elif path == "/info":
            self.answer(200, {"DefaultRuntime": "runc"})
        elif path == "/version":
            self.answer(200, {"Components": [{"Name": "Engine", "Version": "29.0"}, server.runc]})
        elif path.startswith("/volumes"):
            self.answer_volumes(path, text)
        elif path == "/containers/create" and b'"bind"' in text and not server.sees_files:
            self.answer(400, {"message": "invalid mount config: bind source path does not exist: /x"})
        elif path.endswith("/archive"):
            self.answer_archive(text)
        elif path == "/containers/create":
            server.body = json.loads(text)
            self.answer(201, {"Id": "ab" * 32})
        elif path == "/containers/json":
            self.answer(200, [])
        elif path.endswith("/json"):
            self.answer(200, server.shown())
        elif self.command == "DELETE":
            self.answer(404 if server.removed else 204, {})
            server.removed = True
        else:
            self.answer(500, {"message": "that is enough"})
    do_GET = do_POST = do_DELETE = do_PUT = handle_any

    def answer_volumes(self, path, text):
        volumes = self.server.volumes
        if self.command == "DELETE":
            volumes.remove(path.rpartition("/")[2])
            return self.answer(204)
        if path == "/volumes":
            return self.answer(200, {"Volumes": []})
        volumes.append(json.loads(text)["Name"])
        return self.answer(201, {})

    def answer_archive(self, text):
        if self.command == "PUT":
            self.server.archive = text
            return self.answer(200)
        return self.answer_bytes(200, self.server.changed(self.server.archive))

    def address_string(self):
        return "unix"


@pytest.fixture
def stand_in(tmp_path):
    with StandIn(tmp_path / "s") as server:
        yield server
        server.shutdown()


def test_profile_of_a_policy_around_the_container(stand_in):
    """The narrow one would keep coto-init from putting files; any other is asked for by name."""
    flags = ("--isolation", "docker", "--require", "apparmor", "--image", "x")
    refused(run(*flags, "--profile", "enis", "--", "true", env=stand_in.env), 72, "enis-sandbox-strict", "coto-init",
            "--runtime runc")
    assert not stand_in.body
    for more, name in (([], "coto-sandbox"), (["--apparmor", "mine"], "mine")):
        run(*flags, *more, "--", "true", env=stand_in.env)
        assert f"apparmor={name}" in stand_in.body["HostConfig"]["SecurityOpt"]


def put(*path):
    """A change of what inspect shows: the last word is the value."""
    *way, key, value = path

    def change(shown):
        for word in way:
            shown = shown[word]
        shown[key] = value
    return change


LIES = {
    "HostConfig.Privileged": put("HostConfig", "Privileged", True),
    "HostConfig.NetworkMode": put("HostConfig", "NetworkMode", "bridge"),
    "HostConfig.Memory": put("HostConfig", "Memory", 0),
    "HostConfig.MemorySwap": put("HostConfig", "MemorySwap", 1 << 40),
    "HostConfig.PidsLimit": put("HostConfig", "PidsLimit", None),
    "HostConfig.ReadonlyRootfs": put("HostConfig", "ReadonlyRootfs", False),
    "HostConfig.CapAdd": put("HostConfig", "CapAdd", ["SYS_ADMIN"]),
    "HostConfig.CapDrop": put("HostConfig", "CapDrop", []),
    "HostConfig.SecurityOpt": put("HostConfig", "SecurityOpt", ["no-new-privileges", "seccomp=unconfined"]),
    "HostConfig.Binds": put("HostConfig", "Binds", ["/:/host"]),
    "HostConfig.Tmpfs": lambda shown: shown["HostConfig"]["Tmpfs"].update({"/etc": "rw"}),
    "HostConfig.Tmpfs is": lambda shown: shown["HostConfig"]["Tmpfs"].pop("/dev/pts"),
    "HostConfig.PidMode": put("HostConfig", "PidMode", "host"),
    "HostConfig.AutoRemove": put("HostConfig", "AutoRemove", False),
    "HostConfig.MaskedPaths": put("HostConfig", "MaskedPaths", []),
    "Config.User": put("Config", "User", "0:0"),
    "Config.Healthcheck": put("Config", "Healthcheck", {"Test": ["CMD", "x"]}),
    "a volume at": lambda shown: shown["Mounts"].append({"Destination": "/data", "RW": True}),
}


@pytest.mark.parametrize("flag", LIES)
def test_another_container_than_was_asked_for_is_not_started(stand_in, flag):
    stand_in.changes = LIES[flag]
    refused(run(*RUN, env=stand_in.env), 72, flag)
    assert stand_in.removed and not any("start" in call for call in stand_in.calls), stand_in.calls


def test_control(stand_in):
    """The same without a lie goes on to the next step, which this stand-in cannot."""
    refused_at = run(*RUN, env=stand_in.env)
    assert refused_at.status == 70 and b"attach" in refused_at.err, refused_at
    assert stand_in.removed and any(call.endswith("/attach") for call in stand_in.calls)


def test_a_kernel_that_counts_no_swap_is_no_reason_to_refuse(stand_in):
    stand_in.changes = put("HostConfig", "MemorySwap", -1)
    assert b"attach" in run(*RUN, env=stand_in.env).err


# ---- which runc (BK-02) ----

@pytest.mark.parametrize("version, commit, escape", [
    ("1.1.11", "v1.1.11-0-g4bccb38c", "CVE-2024-21626"), ("1.3.2", "", "CVE-2025-31133"),
    ("1.1.5+ds1", "1.1.5+ds1-1+deb12u1", "CVE-2025-52881"), ("", "", "CVE-2026-41579")])
def test_an_engine_with_an_old_runc_is_refused(stand_in, version, commit, escape):
    stand_in.runc = {"Name": "runc", "Version": version, "Details": {"GitCommit": commit}}
    message = refused(run(*RUN, env=stand_in.env), 72, escape, "--allow-runtime runc@")
    assert ("CVE-2024-21626" in message) == (version in ("1.1.11", "")), message
    assert not any("containers" in call for call in stand_in.calls), stand_in.calls
    for allowed in ("runc", message.split("--allow-runtime ")[1].strip()):
        assert b"attach" in run("--allow-runtime", allowed, *RUN, env=stand_in.env).err
    refused(run("--allow-runtime", "runc@9.9", *RUN, env=stand_in.env), 72, escape)


def test_an_engine_that_tells_no_runc_is_refused_but_for_other_runtimes(stand_in):
    stand_in.runc = {"Name": "containerd", "Version": "2.0"}
    refused(run(*RUN, env=stand_in.env), 72, "runc unknown", "--runtime runsc")
    assert b"attach" in run("--runtime", "runsc", *RUN, env=stand_in.env).err


# ---- an engine that does not see our files ----

def test_init_is_sent_and_read_back(stand_in):
    stand_in.sees_files = False
    stand_in.changes = put("Mounts", [{"Destination": "/.coto-init", "RW": False}])
    assert b"attach" in run(*RUN, env=stand_in.env).err
    mount = stand_in.body["HostConfig"]["Mounts"]
    assert [(item["Type"], item["ReadOnly"]) for item in mount] == [("volume", True)]
    assert stand_in.body["Entrypoint"] == ["/.coto-init/coto-init"]
    with tarfile.open(fileobj=io.BytesIO(stand_in.archive)) as archive:
        assert [item.name for item in archive] == ["coto-init"]
        assert archive.extractfile("coto-init").read() == (BIN / "coto-init").read_bytes()
    assert stand_in.volumes == []


@pytest.mark.parametrize("change", [lambda data: data.replace(b"coto", b"toto"), lambda data: data[:-2048],
                                    lambda data: b"", lambda data: data[:512] + b"\0" + data[513:]])
def test_another_init_than_was_sent_is_not_started(stand_in, change):
    stand_in.sees_files, stand_in.changed = False, change
    refused(run(*RUN, env=stand_in.env), 72, "another coto-init")
    assert stand_in.volumes == [] and not any("start" in call for call in stand_in.calls), stand_in.calls


def test_labels_and_names_are_in_the_call(stand_in):
    run(*RUN, env=stand_in.env)
    labels, host = stand_in.body["Labels"], stand_in.body["HostConfig"]
    assert len(labels["coto.execution"]) == 36 and labels["coto.owner"].count(" ") == 3
    assert host["NetworkMode"] == "none" and host["LogConfig"] == {"Type": "none"}


def test_garbage_instead_of_an_engine(tmp_path):
    class Garbage(socketserver.BaseRequestHandler):
        def handle(self):
            self.request.recv(4096)
            self.request.sendall(os.urandom(3000) + b"\r\n\r\n")
    with socketserver.UnixStreamServer(str(tmp_path / "s"), Garbage) as server:
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        done = run(*RUN, env={"DOCKER_HOST": f"unix://{tmp_path}/s"})
        server.shutdown()
    assert done.status == 70 and b"not an HTTP answer" in done.err, done


def test_no_permission(tmp_path, stand_in):
    """Root may talk to every socket: there it gets as far as the stand-in goes."""
    os.chmod(tmp_path / "s", 0)
    done = run(*RUN, env=stand_in.env)
    if ROOT:
        assert done.status == 70 and b"attach" in done.err, done
    else:
        refused(done, 69, "may not talk to the engine", "group")
