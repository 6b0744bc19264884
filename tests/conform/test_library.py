"""The public C library, as a program that embeds it sees it."""
import json
import os
import pathlib
import shutil
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
BIN = pathlib.Path(os.environ.get("COTO_TEST_BIN", ROOT / "build"))
STRICT = ["-Wall", "-Wextra", "-Werror", "-pedantic"]


def run(command, **options):
    options.setdefault("stdin", subprocess.DEVNULL)
    return subprocess.run([str(part) for part in command], capture_output=True, text=True,
                          timeout=60, **options)


def flags_like_library():
    """A library built with sanitizers or counters wants a program built with them."""
    symbols = run(["nm", BIN / "libcoto.a"]).stdout
    return ["-fsanitize=address,undefined"] * ("__asan_" in symbols) + ["--coverage"] * ("__gcov_" in symbols)


def compile_with_library(source, target):
    done = run(["gcc", "-std=gnu11", *STRICT, *flags_like_library(), f"-I{ROOT / 'include'}", source,
                BIN / "libcoto.a", "-o", target])
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def room(tmp_path_factory):
    """Where coto-init lies beside the embedding program."""
    folder = tmp_path_factory.mktemp("embed")
    for name in ("coto-init", "coto-policy"):
        shutil.copy2(BIN / name, folder / name)
    compile_with_library(ROOT / "examples/embed.c", folder / "embed")
    compile_with_library(ROOT / "tests/conform/library_probe.c", folder / "probe")
    return folder


@pytest.fixture
def probe(room):
    def call(*arguments):
        done = run([room / "probe", *arguments])
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout.splitlines()
    return call


@pytest.mark.parametrize("language", [["-x", "c", "-std=c99"], ["-x", "c++", "-std=c++11"]])
def test_header_stands_alone(tmp_path, language):
    text = '#include <coto.h>\n#include <coto.h>\nint main(void) { return !coto_version(); }\n'
    done = run(["gcc", *STRICT, *language, f"-I{ROOT / 'include'}", "-fsyntax-only", "-"],
               input=text, stdin=None)
    assert done.returncode == 0, done.stderr


def test_header_needs_no_other_header_of_ours():
    includes = [line for line in (ROOT / "include/coto.h").read_text().splitlines()
                if line.startswith("#include")]
    assert includes == ["#include <stdbool.h>", "#include <stddef.h>"]


def test_example_runs(room):
    done = run([room / "embed"])
    assert done.returncode == 0, done.stderr
    assert done.stdout == "verdict: ok\nexit code: 0\nstdout: 4\n"


def test_without_coto_init_it_says_so(room, tmp_path):
    shutil.copy2(room / "embed", tmp_path / "embed")
    if pathlib.Path("/usr/local/libexec/coto/coto-init").exists():
        return  # coto is installed on this machine, so there is one to be found
    done = run([tmp_path / "embed"])
    assert done.returncode == 71
    assert "coto-init" in done.stderr and "remedy" in done.stderr


def test_code_with_arguments(probe):
    assert probe("code") == ["nonzero code=3 signal=0 status=3 out=11[] err=0[]"]


def test_file(probe, tmp_path):
    (tmp_path / "hello.py").write_text("print('hi from a file')\n")
    assert probe("file", tmp_path / "hello.py")[0].startswith("ok code=0 signal=0 status=0 out=15[hi")


def test_signal(probe):
    assert probe("signal") == ["signal code=-1 signal=11 status=139 out=0[] err=0[]"]


def test_timeout(probe):
    assert probe("timeout")[0].startswith("timeout code=-1 ")
    assert " status=124 " in probe("timeout")[0]


def test_settings(probe):
    lines = probe("settings")
    assert lines[0].startswith("refused policy: ") and "lots" in lines[0]
    assert lines[1].startswith("refused usage: ") and "memory" in lines[1]
    assert lines[2].startswith("refused usage: ")
    assert lines[3].startswith("refused ") and "no-such-profile" in lines[3]
    assert lines[4].endswith("out=11[second 1 2") and lines[4].startswith("ok ")


def test_sources_rank(probe, tmp_path):
    policy = tmp_path / "policy.yaml"
    policy.write_text("user-name: from-file\nenv: {A: from-file}\n")
    lines = [line for line in probe("sources", policy) if line != "] err=0[]"]
    seen = [line.partition("[")[2] for line in lines]
    assert seen[0] == "coto sandbox"  # the environment is not read unless asked
    assert seen[1] == "from-environment from-environment"
    assert seen[2] == "from-environment from-file from-file"
    assert seen[3] == "from-environment from-file set"
    assert lines[4].startswith("error input 66: ") and "/nonexistent/policy.yaml" in lines[4]
    assert lines[5].startswith("ok ")


def test_streams(probe):
    text = "\n".join(probe("streams"))
    assert text == ("ok code=0 signal=0 status=0 out=0[] err=0[]\npipe [from the caller]\n"
                    "ok code=0 signal=0 status=0 out=5[both\n] err=7[stderr\n]\npipe [both\n]")


def test_reader_gone_is_no_signal_for_the_caller(probe):
    assert probe("reader_gone")[-1] == "pending=0 handler=0"


def test_cancel(probe):
    assert probe("cancel")[0].startswith("killed ")


def test_json_is_the_result_object(probe):
    result = json.loads(probe("json")[0])
    assert result["schema_version"] == 1 and result["verdict"] == "ok"
    assert result["stdout"] == "hello\n"
    assert [item["name"] for item in result["artifacts"]] == ["a.txt"]


def test_artifacts_and_report_are_written(probe, tmp_path):
    probe("artifacts", tmp_path / "files")
    assert (tmp_path / "files/a.txt").read_text() == "made\n"
    reports = list((tmp_path / "files-report").glob("*.json"))
    assert len(reports) == 1 and json.loads(reports[0].read_text())["verdict"] == "ok"


def test_errors_name_their_kind(probe):
    lines = probe("errors")
    starts = ["error usage 64: run: nothing to run", "refused usage: command", "ok ",
              "error not_found 127: ", "error input 66: ", "error ", "error forbidden 68: ",
              "error usage 64: run: descriptor 0 is closed"]
    assert len(lines) == len(starts)
    for line, start in zip(lines, starts):
        assert line.startswith(start)
    assert "klingon" in lines[5] and "/etc" in lines[6]


def test_nothing_is_left_in_the_caller(probe):
    assert probe("leftovers") == ["descriptors 0 children -1"]


if (BIN / "build.ninja").exists():
    def test_installed_library_is_found_by_pkg_config(tmp_path):
        done = run(["meson", "install", "-C", BIN, "--no-rebuild", "--destdir", tmp_path])
        assert done.returncode == 0, done.stdout + done.stderr
        pc = next(tmp_path.rglob("coto.pc"))
        env = dict(os.environ, PKG_CONFIG_PATH=str(pc.parent), PKG_CONFIG_SYSROOT_DIR=str(tmp_path))
        flags = run(["pkg-config", "--cflags", "--libs", "coto"], env=env).stdout.split()
        done = run(["gcc", *flags_like_library(), ROOT / "examples/embed.c", *flags, "-o", tmp_path / "embed"])
        assert done.returncode == 0, done.stderr
        shutil.copy2(BIN / "coto-init", tmp_path / "coto-init")
        assert run([tmp_path / "embed"]).stdout.startswith("verdict: ok\n")
