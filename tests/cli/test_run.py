"""coto run: what can be run, what comes out, and with which status (R1.1, R1.4)."""
import base64
import hashlib
import json
import os
import pathlib
import signal
import subprocess
import time

import pytest

from .helpers import (CGROUPS, COTO, CORE, RESERVED, ROOT, SLOW, environment, inside, ok, on_terminal, refused, run,
                      run_json, running, sh)

ALL_BYTES = bytes(range(256))
KEYS = {"schema_version", "execution_id", "verdict", "exit_code", "signal", "stdout", "stderr",
        "stdout_bytes_seen", "stdout_bytes_kept", "stdout_truncated", "stderr_bytes_seen",
        "stderr_bytes_kept", "stderr_truncated", "duration_ms", "cpu_ms", "memory_peak_bytes",
        "pids_peak", "artifacts", "walls", "missing_walls", "started_at", "profile", "policy_hash",
        "exit_status", "limit", "stage", "driver", "isolation", "language", "code_hash",
        "seccomp_filter_hash", "artifacts_skipped"}


# ---- what can be run ----

def test_zero_configuration(tmp_path):
    """R1.1: a file, no set-up, no flag: it runs, and every wall is up."""
    file = tmp_path / "hello.py"
    file.write_text("print('hello', 2 + 2)\n")
    assert ok(run(file)) == b"hello 4\n"
    result = run_json(file)
    assert result["verdict"] == "ok" and result["driver"] == "native"
    up = {name for name, wall in result["walls"].items() if wall["up"]}
    assert CORE <= up
    assert set(result["missing_walls"]) == (set() if ROOT else RESERVED)


def test_what_make_run_shows():
    text = ok(run(pathlib.Path(__file__).parents[2] / "examples/hello.py")).decode()
    assert "hello from a sandbox" in text and "interfaces: ['lo']" in text and "visible" not in text


def test_file_with_arguments(tmp_path):
    file = tmp_path / "args.py"
    file.write_text("import sys, json; print(json.dumps(sys.argv[1:]))")
    words = ["one", "--json", "-c", "", "two words", "ü", "--", "$(x)"]
    assert json.loads(ok(run(file, *words))) == words


def test_file_is_a_copy(tmp_path):
    """The program gets a copy: what it does to its own file stays inside."""
    file = tmp_path / "self.py"
    text = "import os; open(__file__, 'a').write('#'); print(os.stat(__file__).st_size)"
    file.write_text(text)
    assert int(ok(run(file))) == len(text) + 1
    assert file.read_text() == text


def test_code_as_text():
    assert ok(run("-c", "print(6 * 7)", "--lang", "python")) == b"42\n"
    assert ok(run("--lang", "sh", "-c", 'echo "$1-$2"', "a", "b")) == b"a-b\n"


def test_code_from_stdin():
    assert ok(run("--lang", "python", "-", input="print('from stdin')")) == b"from stdin\n"
    assert ok(run("-", input="#!/bin/sh\necho by its first line\n")) == b"by its first line\n"
    assert ok(run("--lang", "sh", "-", "x", input="echo $1")) == b"x\n"


def test_command():
    assert ok(run("--", "echo", "-n", "--json")) == b"--json"
    assert ok(run("--", "/bin/sh", "-c", "echo $0", "zero")) == b"zero\n"


@pytest.mark.parametrize("head, word", [("#!/usr/bin/env python3", "print('x')"),
                                        ("#!/bin/sh", "echo x"), ("#!/usr/bin/perl -w", "print \"x\\n\";"),
                                        ("#!/bin/bash", "a=(x); echo ${a[0]}")])
def test_language_by_first_line(tmp_path, head, word):
    file = tmp_path / "program"
    file.write_text(f"{head}\n{word}\n")
    assert ok(run(file)) == b"x\n"


def test_language_by_elf_header(tmp_path):
    file = tmp_path / "program.txt"
    file.write_bytes(open("/usr/bin/env", "rb").read())
    assert ok(run(file, "printf", "x")) == b"x"


def test_flag_wins_over_extension(tmp_path):
    file = tmp_path / "really.txt"
    file.write_text("print('python')")
    assert ok(run("--lang", "python", file)) == b"python\n"


# ---- stdin, stdout, stderr ----

def test_stdin_passes_through():
    data = ALL_BYTES * 20000
    done = run("--", "sha256sum", input=data)
    assert done.out.split()[0].decode() == hashlib.sha256(data).hexdigest()
    assert ok(run("--", "cat", input=data)) == data


def test_closed_stdin_is_the_end():
    assert ok(run("--", "wc", "-c")).strip() == b"0"
    done = subprocess.run(f"exec {COTO} run -- wc -c <&-", shell=True, capture_output=True,
                          env=environment(), timeout=20)
    assert done.stdout.strip() == b"0", done


def test_output_is_byte_exact():
    code = ("import sys\nfor s in (sys.stdout, sys.stderr):\n"
            "    s.buffer.write(bytes(range(256)) * 3 + s.name.encode())")
    done = run("-c", code, "--lang", "python")
    assert done.status == 0
    assert done.out == ALL_BYTES * 3 + b"<stdout>"
    assert done.err == ALL_BYTES * 3 + b"<stderr>"


def test_large_output_is_complete():
    done = run("--", "head", "-c", "50000000", "/dev/zero")
    assert done.status == 0 and len(done.out) == 50000000 and not done.out.strip(b"\0")


def test_output_streams_live():
    code = ("import time, sys\nprint('ready', flush=True)\ntime.sleep(0.6)\n"
            "print('second', flush=True)\ntime.sleep(0.6)\nprint('third', flush=True)")
    with running("--lang", "python", "-c", code) as it:
        times = [time.monotonic()]
        for word in ("second", "third"):
            assert it.line() == word
            times.append(time.monotonic())
    assert all(0.3 < later - earlier < 2 for earlier, later in zip(times, times[1:])), times


def test_stdin_streams_live():
    with running("--", "sh", "-c", "echo ready; while read l; do echo got $l; done") as it:
        for word in ("one", "two"):
            it.say(word + "\n")
            assert it.line() == "got " + word


def test_reader_that_goes_away_ends_the_program():
    began = time.monotonic()
    done = subprocess.run(f"{COTO} run -- yes | head -n 1", shell=True, capture_output=True,
                          env=environment(), timeout=20)
    assert done.stdout == b"y\n" and time.monotonic() - began < 5


def test_stdout_and_stderr_stay_apart():
    done = run("--", "sh", "-c", "echo out; echo err >&2")
    assert (done.out, done.err) == (b"out\n", b"err\n")


# ---- status ----

def test_every_exit_status():
    wrong = {n: done.status for n in range(256)
             for done in [run("--", "sh", "-c", f"exit {n}")] if done.status != n}
    assert not wrong


IGNORED = {signal.SIGCHLD, signal.SIGCONT, signal.SIGURG, signal.SIGWINCH}
STOPPING = {signal.SIGSTOP, signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU}


@pytest.mark.parametrize("number", [n for n in range(1, 32) if n not in IGNORED | STOPPING])
def test_signal(number):
    """A signal of the program's own making: 128+n, and no limit is blamed."""
    result = run_json("--", "sh", "-c", f"kill -{number} $$")
    assert result["exit_status"] == 128 + number
    assert result["signal"] == number and result["exit_code"] is None
    if number != signal.SIGSYS:  # the filter kills by this one
        assert result["verdict"] == "signal" and result["limit"] is None


@pytest.mark.parametrize("number", sorted(IGNORED))
def test_signal_that_does_nothing(number):
    assert run_json("--", "sh", "-c", f"kill -{number:d} $$; exit 3")["exit_code"] == 3


@pytest.mark.parametrize("number", [124, 137])
def test_own_status_is_told_from_ours(number):
    """R1.4: a program may exit 124 or 137 by itself."""
    result = run_json("--", "sh", "-c", f"exit {number}")
    assert (result["verdict"], result["exit_code"], result["limit"]) == ("nonzero", number, None)


def test_our_124_is_told_as_timeout():
    result = run_json("--timeout", "300ms", "--", "sleep", "20")
    assert (result["verdict"], result["limit"], result["exit_status"]) == ("timeout", "timeout", 124)


def test_own_sigkill_is_no_oom():
    result = run_json("--", "sh", "-c", "kill -9 $$")
    assert (result["verdict"], result["signal"], result["exit_status"]) == ("signal", 9, 137)


def test_command_not_found():
    refused(run("--", "no-such-command"), 127, "no-such-command", "--copy")
    assert run_json("--", "no-such-command")["error"]["code"] == "not_found"


def test_command_not_executable():
    refused(run("--", "/etc/passwd"), 126, "/etc/passwd")
    assert run_json("--", "/etc/passwd")["error"]["code"] == "not_executable"


def test_background_process_ends_with_the_program():
    done = run("--", "sh", "-c", "setsid sleep 61 & echo started")
    assert (done.status, done.out) == (0, b"started\n") and done.seconds < 3


# ---- --json ----

def test_json_is_one_object():
    result = run_json("--", "sh", "-c", "echo out; echo err >&2; exit 7")
    assert KEYS <= set(result)
    assert (result["stdout"], result["stderr"], result["exit_code"]) == ("out\n", "err\n", 7)
    assert (result["schema_version"], result["verdict"], result["stage"]) == (1, "nonzero", "run")
    assert result["stdout_bytes_seen"] == result["stdout_bytes_kept"] == 4
    assert result["duration_ms"] > 0 and result["memory_peak_bytes"] > 0
    assert set(result["cpu_ms"]) == {"user", "system"}
    assert "stdout_base64" not in result


def test_json_ids_differ():
    ids = {run_json("--", "true")["execution_id"] for _ in range(5)}
    assert len(ids) == 5


def test_json_bytes_are_lossless():
    result = run_json("-c", "import sys; sys.stdout.buffer.write(bytes(range(256)))", "--lang", "python")
    assert base64.b64decode(result["stdout_base64"]) == ALL_BYTES
    assert "\ufffd" in result["stdout"] and "stderr_base64" not in result


def test_json_text_is_exact():
    text = "\u00fc\u4e2d\U0001f600\"\\\x00\x01\x1b[31m\u2028\n"
    result = run_json("-c", f"import sys; sys.stdout.buffer.write({text.encode()!r})", "--lang", "python")
    assert result["stdout"] == text


def test_json_stdin_still_passes():
    assert run_json("--", "cat", input="through")["stdout"] == "through"


def test_json_error_is_one_object_too():
    for args in (["--memory", "x", "--", "true"], ["--no-such-flag"], ["/nowhere.py"]):
        error = run_json(*args)["error"]
        assert set(error) == {"code", "message", "remedy"} and error["remedy"]


def test_hashes(tmp_path):
    file = tmp_path / "x.py"
    file.write_text("print(1)")
    result = run_json(file)
    assert result["code_hash"] == hashlib.sha256(b"print(1)").hexdigest()
    assert run_json("--", "true")["code_hash"] is None
    other = run_json("--memory", "300m", file)
    assert other["policy_hash"] != result["policy_hash"] == run_json(file)["policy_hash"]
    assert len(result["seccomp_filter_hash"]) == 64
    assert result["walls"]["seccomp"]["value"] == result["seccomp_filter_hash"]
    assert run_json("--seccomp", "strict", file)["seccomp_filter_hash"] != result["seccomp_filter_hash"]


def test_measured_cpu_and_memory():
    code = "import time\nx = b'x' * (50 << 20)\nend = time.process_time() + 0.4\n" \
           "while time.process_time() < end: pass"
    result = run_json("--lang", "python", "-c", code)
    assert 350 < sum(result["cpu_ms"].values()) < 1500 * SLOW
    assert 50 << 20 < result["memory_peak_bytes"] < 200 << 20
    small = run_json("--", "true")
    assert small["memory_peak_bytes"] < 20 << 20 and sum(small["cpu_ms"].values()) < 200 * SLOW


def test_cpu_of_children_that_nobody_waits_for():
    """The kernel adds a child's time to its parent's account only when it is waited for."""
    if not CGROUPS:
        return
    code = ("import os, signal, time\nsignal.signal(signal.SIGCHLD, signal.SIG_IGN)\nif os.fork() == 0:\n"
            "    while time.process_time() < 0.8: pass\n    os._exit(0)\n"
            "try: os.wait()\nexcept ChildProcessError: print('gone')")
    result = run_json("--cpu-time", "20s", "--lang", "python", "-c", code)
    assert result["stdout"] == "gone\n" and sum(result["cpu_ms"].values()) > 700, result["cpu_ms"]
    if os.path.exists("/sys/fs/cgroup/cgroup.controllers"):  # v2: every group counts
        assert sum(run_json("--lang", "python", "-c", code)["cpu_ms"].values()) > 700


def test_pids_peak():
    code = "import os, time\nfor i in range(6):\n    if os.fork() == 0: time.sleep(0.4); os._exit(0)\ntime.sleep(0.2)"
    peak = run_json("--lang", "python", "-c", code)["pids_peak"]
    assert peak == 7 if CGROUPS else peak is None


# ---- telling ----

def test_quiet_by_default_without_terminal():
    done = run("--", "true")
    assert (done.out, done.err) == (b"", b"")


def test_verbose_tells_each_step():
    done = run("--verbose", "--", "echo", "x")
    assert done.out == b"x\n"
    for word in ("pivot_root", "workspace", "drop privilege", " ms "):
        assert word in done.message, done


def test_dry_run_runs_nothing(tmp_path):
    tmp_path.chmod(0o777)
    done = run("--dry-run", "--mount", f"{tmp_path}:/data:rw", "--memory", "77m", "--", "touch", "/data/x")
    plan = json.loads(ok(done))
    assert plan["limits"]["memory_bytes"] == 77 << 20
    assert plan["stages"][0]["argv"] == ["touch", "/data/x"]
    assert not (tmp_path / "x").exists()


def test_python_is_not_buffered_on_a_terminal():
    code = "import os\nprint('first')\nos.write(1, b'second\\n')"
    args = ("--quiet", "--lang", "python", "-c", code)
    assert on_terminal(*args) == (0, b"first\nsecond\n")
    assert on_terminal("--env", "PYTHONUNBUFFERED=", *args) == (0, b"second\nfirst\n")
    assert run(*args).out == b"second\nfirst\n"


def test_closing_line_on_a_terminal():
    status, seen = on_terminal("--", "echo", "hi")
    assert status == 0 and seen.startswith(b"hi\n")
    line = seen.decode().splitlines()[1]
    for word in ("ok", "ms", "cpu", "mem", f"walls {len(CORE)}/{len(CORE)}", "limits"):
        assert word in line, seen
    assert ("missing" in seen.decode()) == (not ROOT)
    if not ROOT:
        assert all(name in seen.decode() for name in RESERVED)


def test_closing_line_tells_why():
    status, seen = on_terminal("--timeout", "300ms", "--", "sleep", "9")
    assert status == 124 and b"timeout" in seen and b"--timeout 300ms" in seen
    status, seen = on_terminal("--", "sh", "-c", "exit 3")
    assert status == 3 and b"status 3" in seen


def test_quiet_drops_the_closing_line():
    assert on_terminal("--quiet", "--", "echo", "hi") == (0, b"hi\n")
    assert on_terminal("-q", "--", "echo", "hi") == (0, b"hi\n")


EVIL = r"\033]0;owned\007\033[2J\033[31mred\033[0m\b\177\302\233m ok \303\274\n"


def test_terminal_escapes_are_neutralised():
    for stream in ("", " >&2"):
        status, seen = on_terminal("-q", "--", "sh", "-c", f"printf '{EVIL}'{stream}")
        assert status == 0
        assert not set(seen) & {0x1b, 0x07, 0x08, 0x7f, 0x9b}, seen
        assert b"red" in seen and "ok ü".encode() in seen


def test_raw_lets_escapes_pass():
    _, seen = on_terminal("-q", "--raw", "--", "sh", "-c", f"printf '{EVIL}'")
    assert b"\x1b[31mred\x1b[0m" in seen


def test_escapes_pass_when_no_terminal():
    assert b"\x1b[31mred" in run("--", "sh", "-c", f"printf '{EVIL}'").out


def test_program_has_no_terminal():
    """The caller's terminal is not reachable: no TIOCSTI, no /dev/tty."""
    _, seen = on_terminal("-q", "--", "sh", "-c", "test -t 0 || echo no; (: < /dev/tty) || echo none")
    assert b"no\n" in seen and b"none\n" in seen


def test_working_directory_and_workspace():
    """R1.3, R1.6: a fresh directory each time, writable, home of the program."""
    script = "pwd; ls -A; touch x; echo $HOME"
    for _ in range(2):
        assert sh(script).split() == ["/workspace", "output", "/workspace"]
    assert inside("import os, json; print(json.dumps(os.listdir('/tmp')))") == []
    assert not os.path.exists("/workspace/x")
