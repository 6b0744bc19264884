"""coto run --server: the same output, exit status and result as without."""
import contextlib
import fcntl
import hashlib
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import termios
import threading
import time

import pytest

from cli.helpers import on_terminal

from .daemon import Daemon, Production
from .helpers import BIN, PATIENCE, wait_until

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
    (["-"], b"#!/bin/sh\necho from a shell\n"),
    (["-c", "#!/usr/bin/perl\nprint 6 * 7;"], b""),
    (["-c", "print(1)"], b""),
    (["-"], b"print(1)\n"),
    (["--artifacts=/nowhere", "--", "sh", "-c", "echo x > output/f; ln -s f output/link"], b""),
    (["--env", "A" * 300 + "=b", "-c", "import os; print(max(map(len, os.environ)))", "--lang", "python"], b""),
    (["--cold", "-c", "print(2+2)", "--lang", "python"], b""),
], ids=range(18))
def test_as_without(service, tmp_path, arguments, stdin):
    arguments = [word.replace("/nowhere", str(tmp_path)) if word.startswith("--artifacts") else word for word in arguments]
    here, there = coto(*arguments, stdin=stdin), coto(server(service), *arguments, stdin=stdin)
    assert (there.returncode, there.stdout) == (here.returncode, here.stdout), there.stderr
    assert arguments[-1] == "/nowhere" or there.stderr == here.stderr


@pytest.mark.parametrize("flags, arguments, what", [
    ([], ["a\udcff"], "an argument"), (["--env", "A=\udcff"], [], "--env"), (["--copy=/etc/passwd:a\udcff"], [], "not UTF-8")])
def test_bytes_are_refused_and_not_changed(service, flags, arguments, what):
    """In JSON they would be others."""
    code = ["-c", "import os, sys; print(sys.argv[1:], os.environ.get('A'), os.listdir())", "--lang", "python", *arguments]
    assert coto(*flags, *code).returncode == 0, "control: without a service they reach the program"
    done = coto(server(service), *flags, *code)
    assert done.returncode in (66, 69) and what in done.stderr.decode() and not done.stdout, done


@pytest.mark.parametrize("data", [b"\xff\xfe\0\r\n", b"text with\0 in it", bytes(range(256)) * 4096], ids=["short", "NUL", "1 MiB"])
def test_bytes_of_standard_input_arrive_unchanged(service, data):
    code = ["-c", "import hashlib, sys; print(hashlib.sha256(sys.stdin.buffer.read()).hexdigest())", "--lang", "python"]
    there = coto(server(service), *code, stdin=data)
    assert there.stdout.decode() == hashlib.sha256(data).hexdigest() + "\n", there
    assert coto(*code, stdin=data).stdout == there.stdout, "as without a service"


def test_bytes_that_are_too_many(service, tmp_path):
    """As base64 they would be more than a request can hold; as text they are not."""
    for data, status in ((b"\xff" * (12 << 20), 66), (b"x" * (12 << 20), 0)):
        done = coto(server(service), "-c", "import sys; print(len(sys.stdin.buffer.read()))", "--lang", "python", stdin=data)
        assert done.returncode == status, done
        assert b"more than a request" in done.stderr if status else done.stdout == b"%d\n" % len(data)


def test_too_much_is_told_as_such(service, tmp_path):
    (tmp_path / "big.py").write_bytes(b"#" * (17 << 20))
    with open(tmp_path / "big.py", "rb") as big:
        done = subprocess.run([COTO, "run", server(service), "-c", "1", "--lang", "python"], stdin=big, capture_output=True, timeout=PATIENCE)
    for one in (done, coto(server(service), tmp_path / "big.py")):
        assert one.returncode == 66 and b"more than a request" in one.stderr and b"ulimit" not in one.stderr, one


def test_a_file_of_this_host(service, tmp_path):
    script = tmp_path / "script.sh"
    script.write_text("echo $1\n")
    assert coto(server(service), script, "x").stdout == b"x\n"
    assert coto(server(service), tmp_path / "none.py").returncode == 66
    script.rename(tmp_path / "script")
    done = coto(server(service), tmp_path / "script", "x")
    assert done.returncode == 64 and b"tells the language" in done.stderr, "it is not run as what the service would choose"


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
    (["--isolation=subprocess"], 69, "--isolation subprocess: not possible with --server\n  remedy: a service has process"),
    (["--isolation=docker"], 69, "--isolation docker: not possible with --server\n  remedy: a service has process"),
    (["--isolation=container", "--runtime=runsc"], 69, "--runtime: not possible with --server\n  remedy: leave it out: what --isolation container is"),
    (["--dry-run"], 69, "--dry-run: not possible with --server"),
    (["--report=/tmp"], 69, "--report: not possible with --server"),
    (["--server=http://example.com"], 64, "https:// for other hosts"),
    (["--server=ftp://127.0.0.1"], 64, "is not possible"),
    (["--server=http://localhost:1@example.org"], 64, "is not possible"),
    (["--server=http://localhost.example.org"], 64, "is not possible"),
    (["--server=http://127.0.0.1.example.com"], 64, "is not possible"),
    (["--server=unix:/nowhere"], 69, "unix:/nowhere: cannot connect to that socket: No such file or directory"),
    (["--token-file=/nowhere"], 66, "--token-file '/nowhere': No such file or directory"),
    (["--server-ca=/nowhere"], 66, "--server-ca '/nowhere': No such file or directory"),
    (["--client-certificate=/nowhere"], 66, "--client-certificate '/nowhere': No such file or directory"),
    (["--client-key=/nowhere"], 66, "--client-key '/nowhere': No such file or directory"),
    (["--server-ca=/etc"], 66, "--server-ca '/etc': Is a directory"),
    (["--server=https://localhost:1", "--client-key=/nowhere"], 66, "--client-key '/nowhere'"),
])
def test_refusals(service, flags, status, words):
    done = coto(server(service), "-c", "1", "--lang", "python", *flags)
    assert done.returncode == status and words in done.stderr.decode(), done.stderr


def test_a_socket_without_a_service(tmp_path):
    path = tmp_path / "api.sock"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
    whys = {0o777: b"Connection refused", **({0: b"Permission denied"} if os.geteuid() else {})}
    for mode, why in whys.items():
        path.chmod(mode)
        done = coto(f"--server=unix:{path}", "-c", "1", "--lang", "python")
        assert done.returncode == 69 and b"cannot connect to that socket: " + why in done.stderr and b"port" not in done.stderr, done


def test_a_token_and_the_port(service):
    at = f"--server=http://127.0.0.1:{service.port}"
    done = coto(at, "-c", "print(1)", "--lang", "python")
    assert done.returncode == 68 and b"no valid token" in done.stderr and b"--token-file" in done.stderr
    assert coto(at, f"--token-file={service.runtime / 'token'}", "-c", "print(1)", "--lang", "python").stdout == b"1\n"


def test_a_token_that_is_not_good(service, tmp_path):
    """Who named one is told what the service says of it, not to name one."""
    at, path = f"--server=http://127.0.0.1:{service.port}", tmp_path / "token"
    for text, status, words in (("x.y.z\n", 68, "remedy: the one that was sent is not good"), ("", 66, f"--token-file '{path}': no token in it"),
                                ("a\nX-Header: b\n", 66, "no token in it")):
        path.write_text(text)
        done = coto(at, f"--token-file={path}", "-c", "print(1)", "--lang", "python")
        told = done.stderr.decode()
        assert done.returncode == status and words in told and "name the file" not in told, done


@pytest.fixture(scope="module")
def strict():
    """One whose operator allows little."""
    with Daemon("--max-memory=300m", "--max-timeout=20s", "--allow-isolation=standard", "--allow-profile=default") as it:
        yield it
        assert it.stop() == 0, it.messages


@pytest.mark.parametrize("flags, status, message, remedy", [
    (["--timeout=1h"], 64, "--timeout: must be a number of seconds above 0, at most 300", "give --timeout what the service allows, or leave it out"),
    (["--timeout=30s"], 65, "--timeout: the service allows 20s at most", "give --timeout what"),
    (["--memory=1g"], 65, "--memory: the service allows 300m at most", "give --memory what"),
    (["--output-limit=1g", "--cpu-time=9h", "--pids=5000"], 65, "--pids: the service allows 4096 at most", "give --pids what"),
    (["--profile=enis"], 65, "--profile: 'enis' is not allowed here", "the service allows: default"),
    (["--isolation=container"], 65, "--isolation: 'high' is not allowed here", "the service allows: standard; --isolation process is the service's level standard"),
    (["--lang=nope"], 64, "--lang: no such language: 'nope'", "one of python, node"),
])
def test_refusals_of_the_service_name_flags(strict, flags, status, message, remedy):
    """Whoever gave flags has no fields, and does not read openapi.json."""
    for extra in ([], ["--json"]):
        done = coto(server(strict), *extra, "-c", "1", "--lang", "python", *flags)
        told = json.loads(done.stdout)["error"] if extra else dict(zip(("message", "remedy"), done.stderr.decode()[6:].split("\n  remedy: ")))
        assert done.returncode == status and told["message"] == message and told["remedy"].startswith(remedy), done
        assert "GET /" not in told["remedy"] and "_seconds" not in told["remedy"], done


def fields_of(*flags):
    """The request that they become."""
    got = []
    with socket.create_server(("127.0.0.1", 0)) as listener:
        def serve():
            client, _ = listener.accept()
            with client, client.makefile("rb") as file:
                headers = iter(file.readline, b"\r\n")
                length = next(int(line.split(b":")[1]) for line in list(headers) if line.lower().startswith(b"content-length:"))
                got.append(json.loads(file.read(length)))
                client.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 17\r\n\r\n{\"exit_status\":0}")
        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        assert coto(f"--server=http://127.0.0.1:{listener.getsockname()[1]}", *flags, "-c", "1", "--lang", "python").returncode == 0
        thread.join(PATIENCE)
    return got[0]


@pytest.mark.parametrize("flags, level", [([], None), (["--isolation=process"], "standard"), (["--isolation=container"], "high")])
def test_levels(flags, level):
    assert fields_of(*flags).get("isolation_level") == level


@pytest.mark.parametrize("flags, cold", [([], None), (["--cold"], True), (["--cold=false"], False)])
def test_cold(flags, cold):
    assert fields_of(*flags).get("cold") is cold


@pytest.mark.parametrize("flags, names", [([], None), (["--require=seccomp,memory"], ["seccomp", "memory"])])
def test_what_is_required(flags, names):
    assert fields_of(*flags).get("require") == names


@pytest.mark.parametrize("path", ["/api/v1", "/api/v1/run", "/x"])
def test_an_address_with_a_path(service, path):
    url = f"http://127.0.0.1:{service.port}"
    done = coto(f"--server={url}{path}", f"--token-file={service.runtime}/token", "-c", "1", "--lang", "python")
    assert done.returncode == 69 and f"no service below '{path}'" in done.stderr.decode() and f"--server {url}\n" in done.stderr.decode(), done
    assert coto(f"--server={url}/", f"--token-file={service.runtime}/token", "-c", "1", "--lang", "python").returncode == 0


@pytest.mark.skipif(not shutil.which("runsc", path="/usr/sbin:/usr/bin:/sbin:/bin"), reason="needs runsc")
def test_level_high(service):
    result = json.loads(coto(server(service), "--json", "--isolation=container", "-c", "print(2+2)", "--lang", "python").stdout)
    assert (result["stdout"], result["driver"]) == ("4\n", "oci") and "runsc" in result["runtime"], result


def test_https_at_a_plain_port(service):
    done = coto(f"--server=https://localhost:{service.port}", "-c", "1", "--lang", "python")
    assert done.returncode == 69 and b"no TLS is spoken there" in done.stderr and b"http://127.0.0.1:PORT" in done.stderr, done


@pytest.fixture(scope="module")
def production():
    """One with a client of its own authority, one that was revoked, one of another authority."""
    with Production() as it:
        (it.room / "token").write_text(it.mint("alice") + "\n")
        it.issue("client", "carol")
        for end in ("crt", "key"):
            shutil.copy(it.pki / f"carol.{end}", it.room / f"carol.{end}")
        it.coto("pki", "revoke", "carol", "--dir", "pki")
        it.coto("pki", "init", "other")
        it.issue("client", "eve", "other")
        (it.room / "both.pem").write_text((it.pki / "alice.crt").read_text() + (it.pki / "alice.key").read_text())
        it.signal(signal.SIGHUP)
        it.wait_for_message("reloaded")
        yield it


def ask_production(it, *flags, scheme="https://localhost"):
    return coto(f"--server={scheme}:{it.port}", f"--token-file={it.room / 'token'}", "-c", "print(1)", "--lang", "python", *flags)


def shown(certificate, key=None):
    return [f"--client-certificate={certificate}", f"--client-key={key or certificate.with_suffix('.key')}"]


def test_certificates(production):
    it = production
    ca, alice = f"--server-ca={it.pki / 'ca.crt'}", shown(it.pki / "alice.crt")
    assert ask_production(it, ca, *alice).stdout == b"1\n"
    assert ask_production(it, ca, f"--client-certificate={it.room / 'both.pem'}").stdout == b"1\n", "both in one file"
    done = ask_production(it, *alice)
    assert done.returncode == 69 and b"remedy: name the authority" in done.stderr and b"--server-ca FILE" in done.stderr, done
    done = ask_production(it, f"--server-ca={it.pki / 'alice.crt'}", *alice)
    assert done.returncode == 69 and b"--server-ca must be" in done.stderr, done
    done = ask_production(it, *alice, scheme="http://127.0.0.1")
    assert done.returncode == 69 and b"--server https://HOST:PORT" in done.stderr, done


@pytest.mark.parametrize("flags, status, message, remedy", [
    (lambda it: [], 69, "the service wants a certificate of yours", "--client-certificate FILE --client-key FILE"),
    (lambda it: shown(it.pki / "alice.crt")[:1], 64, "--client-certificate without --client-key", "alice.crt': --client-key FILE"),
    (lambda it: shown(it.pki / "alice.crt")[1:], 64, "--client-key without --client-certificate", "alice.key' is the key of"),
    (lambda it: shown(it.pki / "alice.crt", it.pki / "localhost.key"), 66, "localhost.key' does not belong to --client-certificate '", "made together"),
    (lambda it: shown(it.pki / "alice.crt", it.pki / "alice.crt"), 66, "alice.crt': no private key in it", "BEGIN PRIVATE KEY"),
    (lambda it: shown(it.pki / "alice.key", it.pki / "alice.key"), 66, "alice.key': no certificate in it", "BEGIN CERTIFICATE"),
    (lambda it: shown(it.room / "carol.crt"), 69, "certificate of --client-certificate is revoked", "coto pki issue"),
    (lambda it: shown(it.room / "other/eve.crt"), 69, "of no authority that the service trusts", "client-ca"),
], ids=["none", "no key", "key alone", "other key", "no key in it", "no certificate in it", "revoked", "other authority"])
def test_certificates_that_are_not_good(production, flags, status, message, remedy):
    done = ask_production(production, f"--server-ca={production.pki / 'ca.crt'}", *flags(production))
    told = done.stderr.decode().partition("remedy: ")
    assert done.returncode == status and message in told[0] and remedy in told[2], done
    assert "OpenSSL" not in told[0] and "SSL routines" not in told[0], done


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


@pytest.mark.parametrize("extra", [[], ["--json"]], ids=["stream", "json"])
def test_a_file_of_an_earlier_run_is_not_taken_for_this_one_s(service, tmp_path, extra):
    """Too large to be sent, and something has its name."""
    def write(size):
        return coto(server(service), f"--artifacts={tmp_path}", *extra, "-c", f"open('output/b','wb').write(b'x'*{size})\nopen('output/a','w').write('a')",
                    "--lang", "python")
    assert write(3).returncode == 0 and (tmp_path / "b").read_bytes() == b"xxx"
    done = write(11_000_000)
    told = done.stdout if extra else done.stderr
    assert done.returncode == 73 and b"larger than what a service sends" in told, done
    assert not extra or json.loads(told)["error"], "one object and nothing else"
    assert write(4).returncode == 0 and (tmp_path / "b").read_bytes() == b"xxxx"


def test_no_half_of_a_file_is_left(service, tmp_path):
    """As with a full disk: here no file may grow beyond a block."""
    done = subprocess.run(["sh", "-c", 'ulimit -f 1; exec "$@"', "sh", COTO, "run", server(service), f"--artifacts={tmp_path / 'out'}",
                           "-c", "open('output/b','wb').write(b'x' * 100_000)", "--lang", "python"], capture_output=True, timeout=PATIENCE, stdin=subprocess.DEVNULL)
    assert done.returncode == 73 and b"File too large" in done.stderr, done
    assert not list((tmp_path / "out").iterdir())


@contextlib.contextmanager
def not_a_service(answer):
    """Gives one caller that for a result; the flag that leads to it."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        def serve():
            client, _ = listener.accept()
            with client:
                client.recv(65536)
                client.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s" % (len(answer), answer))
        threading.Thread(target=serve, daemon=True).start()
        yield f"--server=http://127.0.0.1:{listener.getsockname()[1]}"


@pytest.mark.parametrize("name", ["../evil", "/evil", "a/../../evil", "a//b", "."])
def test_names_of_another_host_stay_below(tmp_path, name):
    """A service that is not what it seems."""
    answer = json.dumps({"exit_status": 0, "artifacts": [{"name": name, "content": "x"}, {"name": "fine", "content": "x"}]}).encode()
    with not_a_service(answer) as at:
        (tmp_path / "d").mkdir()
        done = coto(at, "--json", f"--artifacts={tmp_path / 'd/out'}", "-c", "1", "--lang", "python")
    assert done.returncode == 73 and b"a name that is none" in done.stdout + done.stderr
    assert [p for p in tmp_path.rglob("*") if p.is_file()] == []


MEASURED = re.compile(r"  [\d.]+ m?s(  cpu [\d.]+ [mµ]?s)?(  mem [\d.]+ \w+)?(?=  walls)")


def closing(*arguments):
    """Status, and all that a terminal got, with nothing in it that is measured."""
    status, seen = on_terminal(*arguments)
    return status, MEASURED.sub("", seen.decode())


@pytest.mark.parametrize("flags, code, words", [
    (["--timeout=300ms"], "print('x', end='', flush=True)\nwhile True: pass", "the program was ended by the time limit (--timeout 300ms)"),
    (["--output-limit=1k"], "print('x' * 4999)", "output was cut: 1024 of 5000 bytes passed on"),
    (["--memory=64m"], "x = bytearray(500 << 20)", None),
    ([], "import sys; sys.exit(3)", "the program ended with status 3"),
    ([], "import os; os.kill(os.getpid(), 11)", "the program died from SIGSEGV"),
    ([], "import sys; sys.stderr.write('a')", "ok"),
], ids=["timeout", "output", "memory", "status", "signal", "ok"])
def test_the_closing_lines(service, flags, code, words):
    arguments = [*flags, "-c", code, "--lang", "python"]
    (here, shown_here), (there, shown) = closing(*arguments), closing(server(service), *arguments)
    lines, lines_here = shown.splitlines(), shown_here.splitlines()
    assert there == here and (words is None or words in shown) and "walls" in shown, shown
    # Walls of a sandbox of the service are others, and so are the lines on those that are missing.
    assert [line for line in lines if "walls" not in line and "missing" not in line] == \
           [line for line in lines_here if "walls" not in line and "missing" not in line]
    assert [line.partition("  ")[0] for line in lines if "walls" in line] == [line.partition("  ")[0] for line in lines_here if "walls" in line]
    assert "walls" not in closing(server(service), "--quiet", *arguments)[1]


def test_notes_of_another_host_do_not_draw(tmp_path):
    """A service that is not what it seems, and one whose result makes no sense."""
    wall = {"wanted": True, "up": False, "note": "fine \x1b[2J \u009b2J"}
    result = {"exit_status": 5, "verdict": "timeout", "limit": "timeout", "duration_ms": 1e300, "exit_code": -1e300, "signal": "x",
              "walls": {"timeout": {"wanted": True, "up": True, "value": "9" * 200}, "pids": wall, "seccomp": {"wanted": True, "up": True}}}

    def seen(result):
        data = b"event: result\ndata: " + json.dumps(result).encode() + b"\n\n"
        return stand_in(lambda client: client.sendall(data), lambda at: on_terminal(at, "-c", "1", "--lang", "python"))
    status, shown = seen(result)
    assert status == 5 and b"fine" in shown and b"\x1b[2J" not in shown and b"\xc2\x9b" not in shown, shown
    for verdict in ("unheard of", None, 7):
        assert seen({**result, "verdict": verdict}) == (5, b"")


def stand_in(answer, run=None):
    """A service that answers so; how coto run ended."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        def serve():
            client, _ = listener.accept()
            with client:
                client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                client.recv(65536)
                client.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n")
                answer(client)
        threading.Thread(target=serve, daemon=True).start()
        at = f"--server=http://127.0.0.1:{listener.getsockname()[1]}"
        return run(at) if run else coto(at, "-c", "1", "--lang", "python")


EVENTS = b"".join(b'event: stdout\ndata: {"data": "%d\\n"}\n\n' % i for i in range(20)) + b'event: result\ndata: {"exit_status": 7}\n\n'


@pytest.mark.parametrize("piece", [1, 2, 3, 40, 41, len(EVENTS)])
def test_events_in_pieces(piece):
    def answer(client):
        for i in range(0, len(EVENTS), piece):
            client.sendall(EVENTS[i:i + piece])
            time.sleep(0.0002)
    done = stand_in(answer)
    assert (done.returncode, done.stdout) == (7, b"".join(b"%d\n" % i for i in range(20)))


def test_a_service_whose_host_is_gone_is_not_waited_for():
    """The kernel asks it from time to time whether it is still there."""
    seen = []

    def answer(client):
        port = client.getpeername()[1]
        end = time.monotonic() + PATIENCE / 2
        while not seen and time.monotonic() < end:
            with open("/proc/net/tcp") as file:
                rows = [line.split() for line in file][1:]
            seen.extend(row for row in rows if row[1] == f"0100007F:{port:04X}" and row[5].startswith("02:"))
            time.sleep(0.05)
        client.sendall(EVENTS)
    assert stand_in(answer).returncode == 7 and seen


def test_a_result_on_a_terminal():
    """A service that is not what it seems does not draw on it."""
    answer = b'{"exit_status": 0, "stdout": "fine \xc2\x9b2J"}'
    ours, theirs = os.openpty()
    with not_a_service(answer) as at:
        process = subprocess.Popen([COTO, "run", at, "--json", "-c", "1", "--lang", "python"],
                                   stdin=subprocess.DEVNULL, stdout=theirs)
        os.close(theirs)
        got = b""
        with contextlib.suppress(OSError), open(ours, "rb", buffering=0) as terminal:
            while piece := terminal.read(65536):
                got += piece
        assert process.wait(PATIENCE) == 0
    assert b"fine" in got and b"\xc2\x9b" not in got, got


@pytest.mark.parametrize("signo", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_one_has_an_object_too(service, signo):
    process = subprocess.Popen([COTO, "run", "--json", server(service), "--lang", "python", "-c", "import time\ntime.sleep(60)"],
                               stdout=subprocess.PIPE)
    wait_until(lambda: '"state":"running"' in service.get("/api/v1/executions").body.decode().replace(" ", ""), "its beginning")
    process.send_signal(signo)
    out = json.loads(process.communicate(timeout=PATIENCE)[0])
    assert process.returncode == 128 + signo and f"signal {signo:d}" in out["error"]["message"], out
    wait_until(lambda: '"state":"running"' not in service.get("/api/v1/executions").body.decode().replace(" ", ""), "its end")


def test_what_is_ignored_does_not_interrupt(service):
    """As nohup wants it."""
    process = subprocess.Popen([COTO, "run", "--json", server(service), "--lang", "python", "-c", "import time\ntime.sleep(1)"],
                               stdout=subprocess.PIPE, preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN))
    wait_until(lambda: '"state":"running"' in service.get("/api/v1/executions").body.decode().replace(" ", ""), "its beginning")
    process.send_signal(signal.SIGHUP)
    assert json.loads(process.communicate(timeout=PATIENCE)[0])["verdict"] == "ok" and process.returncode == 0


def test_who_does_not_read_the_object_can_end_it(service):
    """All of it is there by then, and nothing is waited for but the reader."""
    read, write = os.pipe()
    process = subprocess.Popen([COTO, "run", "--json", server(service), "--lang", "python", "-c", "print('x' * 3000000)"], stdout=write)
    os.close(write)
    wait_until(lambda: int.from_bytes(fcntl.ioctl(read, termios.FIONREAD, bytes(4)), sys.byteorder) == 1 << 16, "a full pipe")
    process.send_signal(signal.SIGTERM)
    assert process.wait(PATIENCE) == -signal.SIGTERM
    os.close(read)
