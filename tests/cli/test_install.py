"""An installed tree works from wherever it lies, also through a link; its documents are whole."""
import re
import shutil
import subprocess

import pytest

from .helpers import BIN, SOURCE, coto, environment, ok


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


def test_make_install(tmp_path):
    """Programs, man page, completions, header: all below DESTDIR and the prefix."""
    if not (BIN / "meson-private").exists():
        return  # a copy of the programs, which an ordinary user may read
    done = subprocess.run(["meson", "install", "-C", BIN, "--no-rebuild", "--quiet", "--destdir", tmp_path],
                          capture_output=True, timeout=120)
    assert done.returncode == 0, done
    files = [str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file()]
    prefix = next(name for name in files if name.endswith("/bin/coto"))[:-len("bin/coto")]
    for name in ("libexec/coto/coto-init", "libexec/coto/coto-policy", "share/man/man1/coto.1", "share/man/man1/coto-serve.1",
                 "share/bash-completion/completions/coto", "share/zsh/site-functions/_coto", "include/coto.h"):
        assert prefix + name in files, name
    assert all(name.startswith(prefix) for name in files), files
    assert output_of(tmp_path / prefix / "bin/coto", "run", "--", "echo", "x") == b"x\n"


def test_every_verb_and_flag_is_in_the_man_page():
    verbs = re.findall(r"^  (\w+)  +\w", ok(coto("help")).decode(), re.M)
    flags = re.findall(r"^  (?:-\w, )?--([\w-]+)", ok(coto("help", "test")).decode(), re.M)
    assert {"run", "serve"} <= set(verbs) and {"memory", "junit", "help"} <= set(flags)
    man = (SOURCE / "man/coto.1").read_text()
    for verb in verbs:
        assert f".It Cm {verb}\n" in man, verb
    for flag in set(flags) - {"help"}:
        assert f"Fl Fl {flag}" in man, flag
