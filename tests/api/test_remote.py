"""coto run --server: the same output, exit status and result as without."""
import json
import os
import socket
import subprocess
import threading

import pytest

from .daemon import Daemon, Production
from .helpers import BIN, PATIENCE

COTO = str(BIN / "coto")


@pytest.fixture(scope="module")
def service():
    with Daemon() as it:
        yield it
        assert it.stop() == 0, it.messages


def coto(*arguments, stdin=b"", env=None):
    return subprocess.run([COTO, "run", *map(str, arguments)], input=stdin, capture_output=True, timeout=PATIENCE,
                          env={"PATH": os.environ["PATH"], "HOME": "/", **(env or {})})


def server(service):
    return f"--server=unix:{service.runtime / 'api.sock'}"


@pytest.mark.parametrize("arguments, stdin", [
    (["-c", "print(2+2)", "--lang", "python"], b""),
    (["-c", "import sys; print(sys.argv[1:]); sys.exit(3)", "--lang", "python", "a", "b c"], b""),
    (["-c", "import sys; sys.stdout.write(sys.stdin.read().upper())", "--lang", "python"], "grüße\n".encode()),
    (["-c", "import sys; sys.stderr.write('bad\\n'); sys.exit(1)", "--lang", "python"], b""),
    (["-c", "import sys; sys.stdout.buffer.write(bytes(range(256)))", "--lang", "python"], b""),
    (["-c", "import os; os.kill(os.getpid(), 15)", "--lang", "python"], b""),
    (["--timeout=300ms", "-c", "while True: pass", "--lang", "python"], b""),
    (["--env", "A=b c", "-c", "echo $A", "--lang", "sh"], b""),
    (["--lang", "sh", "-"], b"echo from stdin; exit 4\n"),
    (["--", "/bin/echo", "two  words", "$HOME"], b""),
    (["--", "/nowhere"], b""),
], ids=range(11))
def test_as_without(service, arguments, stdin):
    here, there = coto(*arguments, stdin=stdin), coto(server(service), *arguments, stdin=stdin)
    assert (there.returncode, there.stdout) == (here.returncode, here.stdout), there.stderr
    assert arguments[-1] == "/nowhere" or there.stderr == here.stderr


def test_a_file_of_this_host(service, tmp_path):
    script = tmp_path / "script.sh"
    script.write_text("echo $1\n")
    assert coto(server(service), script, "x").stdout == b"x\n"
    assert coto(server(service), tmp_path / "none.py").returncode == 66


def test_json_is_the_result(service):
    done = coto(server(service), "--json", "-c", "import sys; sys.exit(5)", "--lang", "python")
    result = json.loads(done.stdout)
    assert done.returncode == result["exit_status"] == 5 and result["verdict"] == "nonzero" and result["walls"]


def test_limits_are_the_services_too(service):
    done = coto(server(service), "--json", "--memory=100m", "--pids=20", "-c", "pass", "--lang", "python")
    walls = json.loads(done.stdout)["walls"]
    assert walls["memory"]["value"] in ("104857600", None) and walls["pids"]["value"] == "20", walls


def test_the_variable(service):
    env = {"COTO_SERVER": f"unix:{service.runtime / 'api.sock'}"}
    coto("-c", "print(7)", "--lang", "python", env=env)
    before = len(service.get("/api/v1/executions?limit=100").json["executions"])
    assert coto("-c", "print(7)", "--lang", "python", env=env).stdout == b"7\n"
    assert len(service.get("/api/v1/executions?limit=100").json["executions"]) == before + 1


@pytest.mark.parametrize("flags, status, words", [
    (["--mount=/tmp:/x"], 69, "--mount: not possible with --server"),
    (["--isolation=subprocess"], 69, "--isolation: not possible with --server"),
    (["--dry-run"], 69, "--dry-run: not possible with --server"),
    (["--report=/tmp"], 69, "--report: not possible with --server"),
    (["--server=http://example.com"], 64, "https:// for other hosts"),
    (["--server=ftp://127.0.0.1"], 64, "is not possible"),
    (["--server=http://localhost:1@example.org"], 64, "is not possible"),
    (["--server=http://localhost.example.org"], 64, "is not possible"),
    (["--server=http://127.0.0.1.example.com"], 64, "is not possible"),
    (["--server=unix:/nowhere"], 69, "/nowhere"),
    (["--token-file=/nowhere"], 66, "/nowhere"),
])
def test_refusals(service, flags, status, words):
    done = coto(server(service), "-c", "1", "--lang", "python", *flags)
    assert done.returncode == status and words in done.stderr.decode(), done.stderr


def test_a_token_and_the_port(service):
    at = f"--server=http://127.0.0.1:{service.port}"
    done = coto(at, "-c", "print(1)", "--lang", "python")
    assert done.returncode == 68 and b"no valid token" in done.stderr and b"--token-file" in done.stderr
    assert coto(at, f"--token-file={service.runtime / 'token'}", "-c", "print(1)", "--lang", "python").stdout == b"1\n"


def test_certificates():
    with Production() as it:
        (it.room / "token").write_text(it.mint("alice") + "\n")
        flags = [f"--server=https://localhost:{it.port}", f"--token-file={it.room / 'token'}", "-c", "print(1)", "--lang", "python"]
        ca = f"--server-ca={it.pki / 'ca.crt'}"
        shown = [f"--client-certificate={it.pki / 'alice.crt'}", f"--client-key={it.pki / 'alice.key'}"]
        assert coto(ca, *shown, *flags).stdout == b"1\n"
        assert coto(ca, *flags).returncode == 69
        assert coto(*shown, *flags).returncode == 69


def test_copies_and_artifacts(service, tmp_path):
    """Files and directories go there, what is left in output/ comes here; as without a service."""
    tree = tmp_path / "tree"
    (tree / "deep").mkdir(parents=True)
    (tree / "deep/raw").write_bytes(bytes(range(256)))
    (tree / "tool").write_text("#!/bin/sh\necho from a tool\n")
    (tree / "tool").chmod(0o755)
    (tmp_path / "data.csv").write_text("1,2\n")
    code = ("cat data.csv in/name.csv; src/tool; mkdir -p output/d; cp src/deep/raw output/d/raw; "
            "printf 'plain' > output/text; printf 'x' > /tmp/y; cat /tmp/z.csv")
    flags = [f"--copy={tmp_path}/data.csv:data.csv", f"--copy={tmp_path}/data.csv:in/name.csv", f"--copy={tree}:src",
             f"--copy={tmp_path}/data.csv:/tmp/z.csv"]
    for extra in ([], ["--json"]):
        told = []
        for where, at in (("here", []), ("there", [server(service)])):
            left = tmp_path / (where + "".join(extra))
            done = coto(*at, *flags, *extra, f"--artifacts={left}", "-c", code, "--lang", "sh")
            assert done.returncode == 0, done.stderr
            told.append((done.stdout if not extra else json.loads(done.stdout)["stdout"],
                         {str(p.relative_to(left)): p.read_bytes() for p in left.rglob("*") if p.is_file()}))
        assert told[0] == told[1]
        assert told[1][1] == {"d/raw": bytes(range(256)), "text": b"plain"}


def test_what_cannot_travel_is_said(service, tmp_path):
    (tmp_path / "big").write_bytes(b"x" * (12 << 20))
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree/link").symlink_to("/etc/passwd")
    for path, words in (("big", "more than a request to a service can hold"), ("tree", "a link cannot be sent")):
        done = coto(server(service), f"--copy={tmp_path / path}:it", "-c", "1", "--lang", "python")
        assert done.returncode == 69 and words in done.stderr.decode(), done.stderr
    done = coto(server(service), f"--artifacts={tmp_path / 'out'}", "-c", "open('output/b','wb').write(b'x'*11_000_000)", "--lang", "python")
    assert done.returncode == 73 and "larger than what a service sends" in done.stderr.decode(), done.stderr


@pytest.mark.parametrize("name", ["../evil", "/evil", "a/../../evil", "a//b", "."])
def test_names_of_another_host_stay_below(tmp_path, name):
    """A service that is not what it seems."""
    answer = json.dumps({"exit_status": 0, "artifacts": [{"name": name, "content": "x"}, {"name": "fine", "content": "x"}]}).encode()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        def serve():
            client, _ = listener.accept()
            with client:
                client.recv(65536)
                client.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s" % (len(answer), answer))
        threading.Thread(target=serve, daemon=True).start()
        at = f"--server=http://127.0.0.1:{listener.getsockname()[1]}"
        (tmp_path / "d").mkdir()
        done = coto(at, "--json", f"--artifacts={tmp_path / 'd/out'}", "-c", "1", "--lang", "python")
    assert done.returncode == 73 and b"a name that is none" in done.stdout + done.stderr
    assert [p for p in tmp_path.rglob("*") if p.is_file()] == []
