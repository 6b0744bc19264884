"""An installed tree works from wherever it lies, also through a link."""
import shutil
import subprocess

import pytest

from .helpers import BIN, environment


@pytest.fixture
def installed(tmp_path):
    for program, place in (("coto", "bin"), ("coto-init", "libexec/coto"),
                           ("coto-policy", "libexec/coto")):
        directory = tmp_path / "usr" / place
        directory.mkdir(parents=True, exist_ok=True)
        shutil.copy2(BIN / program, directory / program)
    return tmp_path / "usr"


def output_of(*command, **more):
    done = subprocess.run(command, capture_output=True, env=environment(), timeout=60, **more)
    assert done.returncode == 0, done
    return done.stdout


def test_by_absolute_name(installed):
    assert output_of(installed / "bin/coto", "run", "--", "echo", "x") == b"x\n"


def test_by_relative_name(installed):
    assert output_of("bin/coto", "run", "--", "echo", "x", cwd=installed) == b"x\n"


def test_through_a_link(installed, tmp_path):
    link = tmp_path / "elsewhere"
    link.symlink_to(installed / "bin/coto")
    assert output_of(link, "run", "--", "echo", "x") == b"x\n"


def test_policy_files_find_their_program(installed, tmp_path):
    policy = tmp_path / "policy.yaml"
    policy.write_text("timeout: 5s\n")
    text = output_of(installed / "bin/coto", "run", "--policy", policy, "--", "echo", "x")
    assert text == b"x\n"
