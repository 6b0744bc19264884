"""Policy files: YAML or JSON, every mistake told with its place."""
import hashlib
import json
import os
import pathlib
import shutil
import subprocess

import pytest

from .helpers import BIN, COTO, coto, environment, inside, ok, refused, run, run_json

PROBE = ("import os, json, resource as r\nv = os.statvfs('/tmp')\nprint(json.dumps([os.getuid(), os.environ.get('K'), "
         "v.f_blocks * v.f_frsize, r.getrlimit(r.RLIMIT_NOFILE)[0], os.path.isdir('/cache')]))")


def policy(tmp_path, text, name="p.yaml"):
    file = tmp_path / name
    file.write_text(text) if isinstance(text, str) else file.write_bytes(text)
    return file


def test_yaml(tmp_path):
    file = policy(tmp_path, "# a comment\nprofile: gemini\ntmp-size: 9m\nnofile: 99\nenv:\n  K: 'a: b'\n"
                            "tmpfs:\n  - /cache:1m\n")
    assert inside(PROBE, "--policy", file) == [1001, "a: b", 9 << 20, 99, True]
    assert run_json("--policy", file, "--", "true")["profile"] == "gemini"


def test_json(tmp_path):
    file = policy(tmp_path, json.dumps({"profile": "ia-libre", "tmp-size": "9m", "nofile": 99, "env": {"K": "v"},
                                        "tmpfs": ["/cache:1m"]}), "p.json")
    assert inside(PROBE, "--policy", file) == [9999, "v", 9 << 20, 99, True]


def test_flag_wins_over_file_and_file_over_profile(tmp_path):
    file = policy(tmp_path, "profile: gemini\nuser: 2000:2000\nhostname: fromfile\n")
    code = "import os, json, socket; print(json.dumps([os.getuid(), socket.gethostname()]))"
    assert inside(code, "--policy", file) == [2000, "fromfile"]
    assert inside(code, "--policy", file, "--hostname", "fromflag") == [2000, "fromflag"]


BAD = {
    "unknown key": ("memroy: 1g\n", "memroy"),
    "bad value": ("memory: lots\n", "lots"),
    "out of range": ("pids: 0\n", "pids"),
    "not a map": ("- a\n- b\n", ""),
    "duplicate key": ("memory: 64m\nmemory: 65m\n", "memory"),
    "alias": ("memory: &m 64m\ndisk: *m\n", ""),
    "tag": ("memory: !!str 64m\n", ""),
    "second document": ("memory: 64m\n---\nmemory: 65m\n", ""),
    "broken": ("memory: [64m\n", ""),
    "nested": ("env:\n  A:\n    B: c\n", ""),
    "list for a number": ("memory: [64m, 65m]\n", "memory"),
    "command line only": ("json: true\n", "json"),
    "root": ("user: 0\n", "user"),
}


@pytest.mark.parametrize("what", BAD)
def test_mistakes_are_told(tmp_path, what):
    text, word = BAD[what]
    file = policy(tmp_path, text)
    done = run("--policy", file, "--", "echo", "ran")
    assert done.status in (64, 65) and done.out == b"", done
    assert "p.yaml" in done.message and word in done.message, done
    check = coto("policy", "check", file)
    assert check.status in (64, 65) and "p.yaml" in check.message


def test_not_utf8_and_too_large(tmp_path):
    assert run("--policy", policy(tmp_path, b"hostname: \xff\xfe\n"), "--", "true").status in (64, 65, 66)
    assert run("--policy", policy(tmp_path, "#" * (2 << 20)), "--", "true").status in (64, 65, 66)


def test_missing_file(tmp_path):
    refused(run("--policy", tmp_path / "none.yaml", "--", "true"), 66, "none.yaml")


def test_check_says_good(tmp_path):
    done = coto("policy", "check", policy(tmp_path, "memory: 64m\n"))
    assert done.status == 0, done


def test_helper_that_is_missing_is_named(tmp_path):
    """YAML is read by a program of its own; a coto without it says so."""
    for name in ("coto", "coto-init"):
        shutil.copy2(BIN / name, tmp_path / name)
    file = policy(tmp_path, "memory: 64m\n")

    done = subprocess.run([tmp_path / "coto", "run", "--policy", file, "--", "true"], capture_output=True,
                          env={"PATH": "/usr/bin"}, timeout=20)
    if not pathlib.Path("/usr/local/libexec/coto/coto-policy").exists():
        assert done.returncode >= 64 and b"coto-policy" in done.stderr, done


def test_explain_names_each_source(tmp_path):
    file = policy(tmp_path, "disk: 99m\n")
    text = ok(coto("policy", "explain", "--profile", "enis", "--policy", file, "--pids", "7",
                   env={"COTO_NOFILE": "88"})).decode()
    rows = {line.split()[0]: line for line in text.splitlines()}
    assert "99m" in rows["disk"] and "p.yaml" in rows["disk"]
    assert "--pids" in rows["pids"] and "COTO_NOFILE" in rows["nofile"]
    assert "profile enis" in rows["cpus"] and "default" in rows["fsize"]


def test_mount_in_a_file_is_judged_alike(tmp_path):
    file = policy(tmp_path, "mount:\n  - /etc:/data:ro\n")
    refused(run("--policy", file, "--", "true"), 68, "/etc")


def test_policy_from_a_pipe():
    """As a shell's <(...) gives it."""
    done = subprocess.run(["bash", "-c", f'exec {COTO} run --policy <(echo "hostname: piped") -- hostname'],
                          capture_output=True, env=environment(), timeout=20)
    assert done.stdout == b"piped\n", done


# ---- what is not a file is not waited for ----

@pytest.mark.parametrize("flag", ["--policy", "--prompt-file"])
def test_a_fifo_is_refused_at_once(flag, tmp_path):
    """Nobody writes to it, or somebody does: it is refused either way, and nobody is kept waiting."""
    os.mkfifo(tmp_path / "fifo")
    refused(run(flag, tmp_path / "fifo", "--report", tmp_path, "--", "true", timeout=20), 66, "fifo", "FIFO")
    fd = os.open(tmp_path / "fifo", os.O_RDWR)
    refused(run(flag, tmp_path / "fifo", "--report", tmp_path, "--", "true", timeout=20), 66, "fifo", "FIFO")
    os.close(fd)


@pytest.mark.parametrize("flag", ["--policy", "--prompt-file"])
@pytest.mark.parametrize("path, word", [("/dev/zero", "a device"), ("/dev/ptmx", "a device"), ("/tmp", "a directory")])
def test_devices_and_directories_are_refused(flag, path, word, tmp_path):
    refused(run(flag, path, "--report", tmp_path, "--", "true", timeout=20), 66, path, word)


def test_pipes_and_standard_input_are_read(tmp_path):
    assert ok(run("--policy", "/dev/stdin", "--", "hostname", input=b"hostname: given\n")) == b"given\n"
    assert ok(run("--policy", "/dev/null", "--hostname", "flag", "--", "hostname")) == b"flag\n"
    script = f'exec {COTO} run --report {tmp_path} --prompt-file <(sleep 0.3; printf prompt) -- true'
    subprocess.run(["bash", "-c", script], check=True, env=environment(), timeout=20, stdin=subprocess.DEVNULL)
    report = json.loads(next(tmp_path.glob("*.json")).read_text())
    assert report["prompt_sha256"] == hashlib.sha256(b"prompt").hexdigest()
