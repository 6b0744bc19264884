"""Level 0: no isolation, by name only, and the result says so (R1.3)."""
import json
import os
import resource
import subprocess
import time

import pytest

from .helpers import COTO, CORE, fastest, ok, on_terminal, refused, run, run_json, running, sh

LEVEL = ("--isolation", "subprocess")
PY = (*LEVEL, "--lang", "python", "-c")


def test_it_is_never_chosen_by_itself():
    assert run_json("--", "true")["driver"] == "native"
    assert run_json(*LEVEL, "--", "true")["driver"] == "subprocess"


def test_the_result_says_no_isolation():
    result = run_json(*LEVEL, "--", "true")
    assert result["isolation"] == "subprocess"
    assert not any(result["walls"][name]["up"] for name in CORE)
    assert "no isolation" in result["walls"]["seccomp"]["note"]
    status, seen = on_terminal(*LEVEL, "--", "true")
    assert status == 0 and b"no isolation" in seen


def test_walls_and_limits_it_has_not_are_named():
    """R3.5 at this level too: a limit that was asked for and is not enforced is missing by name."""
    result = run_json(*LEVEL, "--memory", "64m", "--", "true")
    assert CORE | {"memory", "pids", "cpus"} <= set(result["missing_walls"])
    assert "timeout" not in result["missing_walls"]


def test_it_really_is_none():
    """What the positive controls of the other level rest on: the host is visible here."""
    code = "import os, json; print(json.dumps([os.readlink('/proc/self/ns/net'), os.getuid()]))"
    assert json.loads(ok(run(*PY, code))) == [os.readlink("/proc/self/ns/net"), os.geteuid()]


def test_a_required_wall_refuses_it():
    assert run(*LEVEL, "--require", "seccomp", "--", "echo", "ran").status == 72


def test_refused_program_never_runs(tmp_path):
    """A refusal comes before the program: no trace of it on the host, in a hundred attempts."""
    trace = tmp_path / "trace"
    script = f"echo ran >> {trace}"
    assert run(*LEVEL, "--", "sh", "-c", script).status == 0
    assert trace.read_text() == "ran\n"  # the positive control
    trace.unlink()
    for _ in range(100):
        assert run(*LEVEL, "--require", "seccomp", "--", "sh", "-c", script).status == 72
    assert not trace.exists(), f"it ran {len(trace.read_text().split())} times of 100"


def test_temporary_directory_is_fresh_and_gone():
    """R1.3: a working directory of its own, removed with everything in it."""
    code = ("import os, json\nos.makedirs('a/b/c'); open('a/b/c/f', 'w').close(); os.chmod('a/b', 0)\n"
            "os.symlink('/etc', 'link')\nprint(json.dumps([os.getcwd(), os.listdir('.'), os.environ['TMPDIR']]))")
    where, names, temporary = json.loads(ok(run(*PY, code)))
    assert where.startswith("/tmp/coto-") and temporary.startswith(where)
    assert {"a", "link", "output"} <= set(names)
    assert not os.path.lexists(where) and os.path.exists("/etc/passwd")


def test_nothing_of_the_environment_is_inherited():
    assert "SECRET" not in sh("env", *LEVEL, env={"SECRET": "x"})


@pytest.mark.parametrize("script", ["sleep 60", "trap '' TERM; sleep 60 & sleep 60", "setsid sleep 60 & sleep 60",
                                    "(setsid sleep 60 &) ; (setsid sleep 60 &) ; sleep 60", "kill -STOP $$"])
def test_timeout_ends_the_tree(script, leftovers):
    def measure():
        done = run(*LEVEL, "--timeout", "1s", "--", "sh", "-c", script)
        assert done.status == 124, done
        return done.seconds, done

    fastest(measure, 1.3)
    assert not leftovers(1)


def test_orphans_end_with_the_program(leftovers):
    done = run(*LEVEL, "--", "sh", "-c", "setsid sleep 60 & (setsid sleep 61 &) ; echo main")
    assert (done.status, done.out) == (0, b"main\n")
    assert not leftovers(1)


def test_output_is_cut():
    result = run_json(*LEVEL, "--output-limit", "1k", "--", "head", "-c", "5000", "/dev/zero")
    assert result["stdout_bytes_kept"] == 1024 and result["stdout_bytes_seen"] == 5000


def test_status_streams_and_artifacts_are_the_same(tmp_path):
    for number in (0, 1, 77, 124, 137, 255):
        assert run(*LEVEL, "--", "sh", "-c", f"exit {number}").status == number
    assert run(*LEVEL, "--", "sh", "-c", "kill -9 $$").status == 137
    assert ok(run(*LEVEL, "--", "cat", input=bytes(range(256)))) == bytes(range(256))
    result = run_json(*LEVEL, "--artifacts", tmp_path / "a", "--", "sh", "-c", "echo x > output/f")
    assert result["artifacts"][0]["name"] == "f" and (tmp_path / "a/f").read_text() == "x\n"
    refused(run(*LEVEL, "--", "no-such-command"), 127)


def test_what_it_cannot_do_is_refused(tmp_path):
    refused(run(*LEVEL, "--mount", f"{tmp_path}:/data", "--", "true"), 69, "subprocess")
    refused(run(*LEVEL, "--rootfs", tmp_path, "--", "true"), 69, "subprocess")


def test_ends_with_its_supervisor(leftovers):
    with running(*LEVEL, "--", "sh", "-c", "echo ready; setsid sleep 60 & sleep 60") as it:
        it.process.kill()
        it.process.wait()
        began = time.monotonic()
        assert not leftovers(2)
        assert time.monotonic() - began < 2


def test_a_workspace_that_may_not_be_written_goes_too(leftovers):
    """Whatever mode its program has left it with."""
    assert ok(run(*LEVEL, "--", "sh", "-c", "echo x > f; mkdir -p d/e; echo y > d/e/g; chmod 000 d/e; chmod 555 d .; echo done")) == b"done\n"
    assert not leftovers(2)


def test_a_deep_tree_is_ended_whole(leftovers):
    """Each a child of the one before, deeper than coto-init's stack could follow."""
    script = ("mkfifo bottom; f() { if [ $1 -gt 0 ]; then ( f $(($1 - 1)); : ); else echo $$ > bottom; sleep 60; fi; }\n"
              "f 250 & read word < bottom; echo there")
    small = 1 << 20, resource.getrlimit(resource.RLIMIT_STACK)[1]
    done = run(*LEVEL, "--", "sh", "-c", script, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_STACK, small))
    assert done.status == 0 and done.out == b"there\n", done
    assert not leftovers(5)


def test_nobody_else_is_killed_with_a_wide_tree():
    """More children than one look at them has room for; half of a number would be one of eight bystanders."""
    script = ("for i in 2 3 4 5 6 7 8 9; do sleep 300 & all=\"$all $!\"; done; echo 20000 > /proc/sys/kernel/ns_last_pid\n"
              f"{COTO} run --timeout 5m --isolation subprocess -- sh -c 'i=0; while [ $i -lt 1500 ]; do sleep 300 & i=$((i + 1)); done; echo $!' || exit\n"
              "for i in $all; do kill -0 $i && echo $i; done")
    done = subprocess.run(["unshare", "--user", "--map-root-user", "--pid", "--fork", "--kill-child", "--mount-proc", "sh", "-c", script],
                          capture_output=True, text=True, timeout=300)
    last, *alive = done.stdout.split()
    assert int(last) > 21500, done
    assert alive == list("23456789"), done
