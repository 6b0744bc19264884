"""Hosts that restrict user namespaces for ordinary users, as Ubuntu does: a clear refusal with the
remedy for this very restriction, or the weaker level when it is named. Changes settings of the
whole machine, so it runs alone, before everything else, as root."""
import contextlib
import json
import pathlib
import shutil
import subprocess

import pytest

from cli.helpers import BIN, COTO, Done, environment, refused

USER = ["setpriv", "--reuid=65533", "--regid=65533", "--clear-groups", "--inh-caps=-all"]
# What Ubuntu's profile for programs without one of their own does to a user namespace: it can
# be made, and no capability counts in it.
CONFINED = """
abi <abi/3.0>,
profile ubuntu-like /tests/confined/* {
  /** rwklmix,
  / r,
  network,
  unix,
  signal,
  ptrace,
}
"""


def as_user(*args, program=COTO):
    done = subprocess.run([*USER, program, *args], capture_output=True, env=environment(), timeout=60)
    return Done(done.returncode, done.stdout, done.stderr, 0)


def ran(done):
    return done.status == 0 and done.out == b"ran\n"


@contextlib.contextmanager
def setting(name, value):
    file = pathlib.Path("/proc/sys", *name.split("."))
    before = file.read_text()
    file.write_text(value)
    try:
        yield
    finally:
        file.write_text(before)


ECHO = ["--", "echo", "ran"]
SETTINGS = [("user.max_user_namespaces", "0", "sysctl user.max_user_namespaces="),
            ("kernel.unprivileged_userns_clone", "0", "sysctl kernel.unprivileged_userns_clone=1"),
            ("user.max_net_namespaces", "0", "sysctl user.max_net_namespaces="),
            ("user.max_pid_namespaces", "0", "sysctl user.max_pid_namespaces=")]


def test_control_nothing_is_restricted():
    assert ran(as_user("run", *ECHO))


@pytest.mark.parametrize("name, value, remedy", SETTINGS, ids=[row[0] for row in SETTINGS])
def test_refusal_names_the_setting(name, value, remedy):
    with setting(name, value):
        done = as_user("run", *ECHO)
        said = as_user("doctor", "--json")
    refused(done, 72, "namespace", remedy)
    found = json.loads(said.out)
    assert said.status == 1 and not found["default_policy_met"]
    kind = "user_namespace" if "user" in name.split(".")[1] else name.split("_")[1] + "_namespace"
    wall = found["drivers"]["native"]["walls"][kind]
    assert not wall["present"] and remedy.split()[1].split("=")[0] in wall["remedy"], wall


@pytest.mark.parametrize("name, value, remedy", SETTINGS, ids=[row[0] for row in SETTINGS])
def test_weaker_level_only_by_name(name, value, remedy):
    with setting(name, value):
        done = as_user("run", "--json", "--isolation", "subprocess", *ECHO)
        strict = as_user("run", "--isolation", "subprocess", "--require", "user_namespace", *ECHO)
    result = json.loads(done.out)
    assert result["stdout"] == "ran\n" and "user_namespace" in result["missing_walls"]
    refused(strict, 72, "user_namespace")


def test_root_is_told_too():
    with setting("user.max_user_namespaces", "0"):
        done = subprocess.run([COTO, "run", *ECHO], capture_output=True, env=environment(), timeout=60)
    refused(Done(done.returncode, done.stdout, done.stderr, 0), 72, "user_namespace", "max_user_namespaces")


@pytest.fixture
def confined():
    """coto under a profile that leaves it no capability in the namespace it makes."""
    folder = pathlib.Path("/tests/confined")
    shutil.copytree(BIN, folder)
    subprocess.run(["apparmor_parser", "-r"], input=CONFINED.encode(), check=True)
    yield str(folder / "coto")
    subprocess.run(["apparmor_parser", "-R"], input=CONFINED.encode(), check=True)
    shutil.rmtree(folder)


def test_apparmor_leaves_no_capability(confined):
    done = as_user("run", *ECHO, program=confined)
    refused(done, 72, "user_namespace", "kernel.apparmor_restrict_unprivileged_userns")
    said = as_user("doctor", program=confined)
    assert said.status == 1 and b"apparmor_restrict_unprivileged_userns" in said.out
    weaker = as_user("run", "--isolation", "subprocess", *ECHO, program=confined)
    assert weaker.status == 0, weaker
