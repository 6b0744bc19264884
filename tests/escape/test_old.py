"""Older kernels, one missing system call at a time: coto does without, or says what it needs."""
import subprocess

import pytest

from cli.helpers import COTO, Done, environment, refused
from .harness import HERE, Box

DONE_WITHOUT = ["clone3", "pidfd_send_signal", "pidfd_open", "pidfd_getfd", "statx", "faccessat2",
                "openat2"]
REFUSED = {  # call -> words of the message
    "close_range": "start coto-init", "mount_setattr": "read-only",
    "open_tree": "clone mount", "move_mount": "mount on", "fsopen": "new tmpfs", "fsconfig": "tmpfs",
    "fsmount": "mount tmpfs", "landlock_create_ruleset": "landlock", "landlock_add_rule": "landlock",
    "landlock_restrict_self": "landlock", "all": "",
}


@pytest.fixture(scope="module")
def old(tmp_path_factory):
    launcher = Box(tmp_path_factory.mktemp("old")).c(HERE / "old.c")

    def start(calls, *args):
        done = subprocess.run([launcher, calls, COTO, *args], env=environment(), timeout=30,
                              capture_output=True, stdin=subprocess.DEVNULL)
        return Done(done.returncode, done.stdout, done.stderr, 0)
    return start


@pytest.mark.parametrize("call", DONE_WITHOUT)
def test_done_without(old, call):
    assert old(call, "run", "--", "echo", "ran").out == b"ran\n"
    late = old(call, "run", "--timeout", "100ms", "--", "sleep", "20")
    assert late.status == 124, late
    # A run that ends before its program: what it has started must still be ended.
    gone = old(call, "run", "--", "no-such-program")
    assert gone.status == 127, gone


@pytest.mark.parametrize("call", REFUSED)
def test_refused_with_a_remedy(old, call):
    done = old(call, "run", "--", "echo", "ran")
    assert b"ran" not in done.out
    refused(done, done.status, REFUSED[call])


def test_landlock_that_the_policy_names_may_be_missing(old):
    done = old("landlock_create_ruleset", "run", "--allow-missing", "landlock", "--", "echo", "ran")
    assert done.out == b"ran\n", done


def test_control(old):
    """The launcher itself changes nothing, and masks what it is told."""
    assert old("none", "run", "--", "echo", "ran").out == b"ran\n"
    assert b"ABSENT" in old("landlock_create_ruleset", "doctor").out
