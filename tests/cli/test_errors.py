"""coto's own failures: `coto: what: why`, a remedy, and a documented status."""
import json
import re
import subprocess

import pytest

from .helpers import BIN, COTO, SOURCE, coto, environment, has_asan, ok, refused, run, run_json

SIZES = ["x", "", "5zz", "-1m", "1.2.3m", "64 m", "0x10m", "99999999999t", "1e9", "m"]
DURATIONS = ["x", "", "-1s", "5 s", "1s1h", "25h", "0", "1.5.2s", "s"]


@pytest.mark.parametrize("flag", ["--memory", "--disk", "--tmp-size"])
@pytest.mark.parametrize("value", SIZES)
def test_bad_size(flag, value):
    """A bad value names the flag, the value and what is allowed."""
    message = refused(run(flag, value, "--", "echo", "ran"), 65, f"coto: {flag}: ", f"'{value}'", "allowed: ")
    assert re.search(r"allowed: \d+\w* to \w+, for example \w+", message), message


@pytest.mark.parametrize("flag", ["--timeout", "--cpu-time"])
@pytest.mark.parametrize("value", DURATIONS)
def test_bad_duration(flag, value):
    if (flag, value) == ("--cpu-time", "25h"):
        assert run(flag, value, "--", "true").status == 0
        return
    refused(run(flag, value, "--", "echo", "ran"), 65, f"coto: {flag}: ", f"'{value}'", "allowed: ")


@pytest.mark.parametrize("flag, value", [
    ("--cpus", "0"), ("--cpus", "-1"), ("--cpus", "many"), ("--pids", "0"), ("--pids", "1.5"), ("--pids", "-3"),
    ("--nofile", "2"), ("--inodes", "1"), ("--user", "0"), ("--user", "root"), ("--user", "1:0"),
    ("--user", "99999999999"), ("--hostname", "a b"), ("--hostname", ""), ("--workdir", "relative"),
    ("--workdir", "/"), ("--workdir", "/proc/x"), ("--seccomp", "off"), ("--isolation", "none"),
    ("--cap-add", "sys_admin"), ("--cap-add", "all"), ("--require", "nowall"), ("--allow-missing", "nowall"),
    ("--env", "NOVALUE"), ("--env", "=x"), ("--profile", "nope"), ("--prompt-hash", "123"),
    ("--mount", "nothing"), ("--copy", ":"), ("--tmpfs", "relative"), ("--tmpfs", "/x:lots"),
    ("--on-output-limit", "shout"), ("--workspace-writable", "some"), ("--idmap", "mine"),
    ("--report-include", "everything")])
def test_bad_value(flag, value):
    done = run(flag, value, "--", "echo", "ran")
    assert done.status in (64, 65), done
    refused(done, done.status, flag[2:])
    assert not value or value in done.message, done


@pytest.mark.parametrize("wrong, right", [("--memroy", "--memory"), ("--time-out", "--timeout"),
                                          ("--pid", "--pids"), ("--jsn", "--json"), ("--artefacts", "--artifacts")])
def test_unknown_flag_is_told_the_nearest(wrong, right):
    refused(run(wrong, "x", "--", "true"), 64, wrong, f"did you mean {right}?")


def test_unknown_verb():
    refused(coto("rum"), 64, "'rum'", "coto run")
    refused(coto("xyzzyx"), 64, "xyzzyx", "coto help")
    refused(coto(), 64, "verb")


def test_flag_without_its_value():
    refused(run("--memory"), 64, "--memory")


def test_nothing_to_run():
    refused(run(), 64, "nothing to run", "coto run FILE")


def test_files_that_cannot_be_read(tmp_path):
    refused(run(tmp_path / "none.py"), 66, "none.py", "No such file")
    done = run(tmp_path)
    assert done.status == 66 and str(tmp_path) in done.message, done


def test_code_without_end_on_stdin():
    """The limit is ours: no ulimit of the caller's is blamed."""
    with open("/dev/zero", "rb") as zero:
        done = subprocess.run([COTO, "run", "--lang", "python", "-"], stdin=zero, capture_output=True, env=environment(), timeout=60)
    assert done.returncode == 66 and b"64 MiB at most" in done.stderr and b"ulimit" not in done.stderr, done


def test_hostile_text_in_messages_is_visible():
    done = run("--hostname", "a\x1b[31m\x07", "--", "true")
    assert done.status == 65 and not set(done.err) & {0x1b, 0x07}, done


def test_wall_that_is_not_needed_is_no_error():
    assert run("--allow-missing", "memory,landlock", "--", "true").status == 0


def documented():
    """word -> status from docs/RESULT.md."""
    rows = re.findall(r"^\| `(\w+)` \| (\d+) \|", (SOURCE / "docs/RESULT.md").read_text(), re.M)
    return {word: int(status) for word, status in rows}


@pytest.mark.parametrize("word, args", [
    ("usage", ["--nope"]), ("policy", ["--memory", "1", "--", "true"]), ("input", ["/nowhere.py"]),
    ("forbidden", ["--mount", "/etc:/x", "--", "true"]), ("unavailable", ["--isolation", "vm", "--", "true"]),
    ("cannot_write", ["--artifacts", "/proc/x/y", "--", "true"]), ("not_found", ["--", "nope"]),
    ("not_executable", ["--", "/etc/passwd"])])
def test_statuses_are_the_documented_ones(word, args):
    done = run("--json", *args)
    error = json.loads(done.out)["error"]
    assert error["code"] == word and done.status == documented()[word]
    assert ": " in error["message"] and error["remedy"]


def test_documented_statuses_are_all_there():
    codes = documented()
    assert codes["wall_missing"] == 72 and codes["internal"] == 70 and len(codes) == 13
    assert min(codes.values()) == 64 and len(set(codes.values())) == 13


def test_closed_output_is_an_error_not_a_lie():
    done = subprocess.run(f"{COTO} run --json -- true > /dev/full", shell=True, capture_output=True,
                          env=environment(), timeout=20)
    assert done.returncode == 73 and b"No space" in done.stderr, done


def test_help_and_version():
    assert b"usage: coto" in ok(coto("help")) and b"usage: coto" in ok(coto("--help"))
    text = ok(coto("run", "--help"))
    for flag in (b"--timeout", b"--cpu-time", b"--memory", b"--swap", b"--cpus", b"--pids", b"--disk", b"--inodes",
                 b"--output-limit", b"--nofile", b"--env", b"--copy", b"--mount", b"--artifacts", b"--rootfs",
                 b"--profile", b"--policy", b"--isolation", b"--require", b"--hostname", b"--user", b"--workdir",
                 b"--report", b"--prompt-hash", b"--prompt-file", b"--dry-run", b"--verbose", b"--json", b"--quiet"):
        assert flag in text, flag
    assert re.fullmatch(rb"coto \d+\.\d+\.\d+\S*\n", ok(coto("version")))
    assert ok(coto("--version")) == ok(coto("version"))


def test_programs_are_lean():
    """coto-init under 100 KB; coto is static and loads no library."""
    if not has_asan():
        assert (BIN / "coto-init").stat().st_size < 100 * 1024
        for name in ("coto", "coto-init"):
            assert b"ld-linux" not in (BIN / name).read_bytes() and b"ld-musl" not in (BIN / name).read_bytes()
    else:
        assert (BIN / "coto-init").exists()


def test_json_errors_have_the_same_words():
    error = run_json("--memory", "x", "--", "true")["error"]
    assert run("--memory", "x", "--", "true").message.splitlines()[0] == "coto: " + error["message"]
