"""coto doctor says what a run then finds."""
import json
import subprocess

from .helpers import APPARMOR, COTO, CORE, RESERVED, ROOT, coto, environment, ok, refused, run_json


def findings(**more):
    done = coto("doctor", "--json", **more)
    return done.status, json.loads(done.out)


def test_doctor_meets_the_default():
    status, found = findings()
    assert status == 0 and found["default_policy_met"] and found["schema_version"] == 1
    walls = found["drivers"]["native"]["walls"]
    assert all(walls[name]["present"] and walls[name]["core"] for name in CORE)


def test_doctor_agrees_with_a_run():
    """Every wall that doctor calls present is up in a run that wants it, and the other way round."""
    walls = findings()[1]["drivers"]["native"]["walls"]
    result = run_json("--cpu-time", "5s", "--output-limit", "1m", "--fsize", "1m", "--iops", "100", "--cpus", "0.5",
                      "--", "true")
    assert set(walls) == set(result["walls"])
    assert {name: row["present"] for name, row in walls.items()} == \
        {name: row["up"] for name, row in result["walls"].items()}


def test_absent_walls_have_a_reason_and_a_remedy():
    walls = findings()[1]["drivers"]["native"]["walls"]
    absent = {name for name, row in walls.items() if not row["present"]}
    expected = set() if APPARMOR else {"apparmor"}
    assert absent == expected if ROOT else RESERVED | expected <= absent
    for name in absent:
        assert walls[name]["why"] and walls[name]["remedy"], name


def test_text_form():
    text = ok(coto("doctor")).decode()
    assert "can be met" in text and "subprocess: no isolation" in text
    for name in CORE | RESERVED:
        assert f"\n{name} " in text
    is_whole = ROOT and APPARMOR
    native = text.partition("\nsubprocess: ")[0]
    assert ("ABSENT" in native) == (not is_whole) and ("remedy: " in native) == (not is_whole)


def test_host_that_cannot_meet_the_default():
    """No user namespaces: exit 1, the wall and the sysctl that gives it; and no run."""
    limit = "echo 0 > /proc/sys/user/max_user_namespaces"
    command = ["unshare", "--user", "--map-root-user", "sh", "-c", f'{limit} && exec "$@"', "sh", COTO]
    done = subprocess.run([*command, "doctor", "--json"], capture_output=True, env=environment(), timeout=20)
    found = json.loads(done.stdout)
    assert done.returncode == 1 and not found["default_policy_met"]
    wall = found["drivers"]["native"]["walls"]["user_namespace"]
    assert not wall["present"] and "max_user_namespaces" in wall["remedy"]
    done = subprocess.run([*command, "run", "--", "echo", "ran"], capture_output=True, env=environment(), timeout=20)
    assert done.returncode == 72 and done.stdout == b"" and b"user_namespace" in done.stderr
    assert b"max_user_namespaces" in done.stderr


def test_unknown_argument():
    refused(coto("doctor", "--everything"), 64, "--everything")
