"""Reports, and that nothing else stays (R7.1, R1.7)."""
import hashlib
import json
import os
import pathlib
import re
import stat
import subprocess

import pytest

from .helpers import COTO, environment, refused, run, run_json

CODE = "print('OUTPUT-MARK'); import sys; sys.stderr.write('STDERR-MARK')  # CODE-MARK"
PROMPT = "PROMPT-MARK: please write a program for Ana Diaz, ana@example.org"
FLAGS = ("--env", "ENV_MARK=ENV-VALUE-MARK", "--lang", "python", "-c", CODE, "ARG-MARK")
MARKS = ("OUTPUT-MARK", "STDERR-MARK", "CODE-MARK", "PROMPT-MARK", "ENV-VALUE-MARK", "ENV_MARK", "ARG-MARK",
         "ana@example.org")


def reported(tmp_path, *flags, status=0):
    folder = tmp_path / "reports"
    done = run("--report", folder, *flags)
    assert done.status == status, done
    files = sorted(folder.iterdir())
    return files[-1], json.loads(files[-1].read_text())


@pytest.fixture
def prompt(tmp_path):
    file = tmp_path / "prompt.txt"
    file.write_text(PROMPT)
    return file


def test_report_holds_hashes_and_a_summary(tmp_path, prompt):
    """Hash of the prompt, duration, summary: never the prompt, the code, the output, the environment."""
    file, report = reported(tmp_path, "--prompt-file", prompt, *FLAGS)
    assert report["prompt_sha256"] == hashlib.sha256(PROMPT.encode()).hexdigest()
    assert report["code_sha256"] == hashlib.sha256(CODE.encode()).hexdigest()
    assert report["verdict"] == "ok" and report["exit_code"] == 0 and report["duration_ms"] > 0
    assert report["stdout_bytes_seen"] == 12 and report["stderr_bytes_seen"] == 11
    assert report["report_version"] == 1 and report["profile"] == "default" and report["language"] == "python"
    assert report["walls"]["seccomp"]["up"] and isinstance(report["missing_walls"], list)
    text = file.read_text()
    for mark in MARKS:
        assert mark not in text, mark


def test_report_files_are_private(tmp_path):
    os.umask(0)
    try:
        file, _ = reported(tmp_path, "--", "true")
    finally:
        os.umask(0o022)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    assert file.stat().st_uid == os.geteuid()


def test_report_name_and_number(tmp_path):
    ids = []
    for _ in range(3):
        result = run_json("--report", tmp_path / "r", "--", "true")
        ids.append(result["execution_id"])
    names = sorted(os.listdir(tmp_path / "r"))
    assert len(names) == 3
    for name in names:
        assert re.fullmatch(r"\d{8}T\d{6}\.\d{3}Z-[0-9a-f-]{36}\.json", name), name
    assert {name[21:-5] for name in names} == set(ids)


@pytest.mark.parametrize("what, mark", [("code", "CODE-MARK"), ("prompt", "PROMPT-MARK"),
                                        ("output", "OUTPUT-MARK"), ("env", "ENV-VALUE-MARK")])
def test_what_is_named_is_included_and_no_more(tmp_path, prompt, what, mark):
    """The positive control: the same marks are found once they are asked for."""
    file, _ = reported(tmp_path, "--report-include", what, "--prompt-file", prompt, *FLAGS)
    text = file.read_text()
    assert mark in text
    others = {"CODE-MARK", "PROMPT-MARK", "OUTPUT-MARK", "ENV-VALUE-MARK"} - {mark}
    if what == "code":
        others.discard("OUTPUT-MARK")  # the code itself holds that word
    assert not [other for other in others if other in text]


def test_prompt_hash_is_taken_as_given(tmp_path):
    digest = hashlib.sha256(b"somewhere else").hexdigest()
    _, report = reported(tmp_path, "--prompt-hash", digest, "--", "true")
    assert report["prompt_sha256"] == digest
    assert run("--prompt-hash", "xyz", "--", "true").status == 65


def test_report_of_every_outcome(tmp_path):
    assert reported(tmp_path, "--", "sh", "-c", "exit 9", status=9)[1]["verdict"] == "nonzero"
    assert reported(tmp_path / "2", "--timeout", "300ms", "--", "sleep", "9", status=124)[1]["verdict"] == "timeout"
    assert reported(tmp_path / "3", "--", "sh", "-c", "kill -9 $$", status=137)[1]["signal"] == 9


def test_report_that_cannot_be_written(tmp_path):
    (tmp_path / "file").write_text("")
    done = run("--report", tmp_path / "file", "--", "echo", "ran")
    assert done.status == 73 and b"report" in done.err, done


def test_report_by_environment_and_policy(tmp_path):
    assert run("--", "true", env={"COTO_REPORT": str(tmp_path / "e")}).status == 0
    (tmp_path / "p.yaml").write_text(f"report: {tmp_path}/p\n")
    assert run("--policy", tmp_path / "p.yaml", "--", "true").status == 0
    assert len(os.listdir(tmp_path / "e")) == len(os.listdir(tmp_path / "p")) == 1


def test_prompt_file_must_exist(tmp_path):
    refused(run("--prompt-file", tmp_path / "none", "--report", tmp_path / "r", "--", "true"), 66, "none")


def made_by_name(command):
    """Paths of the host that a command and its children made, as the kernel saw it: names
    below a descriptor are in the sandbox's own new file system and left out."""
    calls = ("open,openat,openat2,creat,mkdir,mkdirat,mknod,mknodat,symlink,symlinkat,link,linkat,rename,"
             "renameat,renameat2")
    trace = subprocess.run(["strace", "-f", "-qq", "-e", "signal=none", "-e", f"trace={calls}", *command],
                           capture_output=True, text=True, env=environment(), timeout=60)
    making = re.compile(r'(?:mkdir|mknod|creat|rename)\w*\((?:AT_FDCWD, )?"([^"]*)"'
                        r'|open\w*\((?:AT_FDCWD, )?"([^"]*)"[^)]*O_(?:CREAT|TMPFILE)'
                        r'|link\w*\("[^"]*", AT_FDCWD, "([^"]*)"')
    return [next(filter(None, found.groups())) for line in trace.stderr.splitlines()
            if " = -1 " not in line and (found := making.search(line))]


def test_nothing_stays_on_the_host(tmp_path):
    """R1.7: a run without --report and --artifacts creates no file on the host's disk."""
    places = [pathlib.Path(p) for p in ("/tmp", "/var/tmp", "/dev/shm", "/var/log", "/run", os.environ.get("HOME", "/"))]
    mark = f"persist-{os.getpid()}"

    def marked():
        found = []
        for place in places:
            try:
                found += [str(p) for p in place.iterdir() if mark in p.name]
            except OSError:
                pass
        return found

    done = run("--", "sh", "-c", f"for d in /tmp /var/tmp /dev/shm . output; do echo x > $d/{mark}; done; echo {mark}",
               cwd=tmp_path)
    assert mark.encode() in done.out and marked() == [] and os.listdir(tmp_path) == []
    open(f"/tmp/{mark}", "w").close()  # the positive control: the search does find such a file
    assert marked()
    os.unlink(f"/tmp/{mark}")


def test_supervisor_makes_no_file(tmp_path):
    """What coto makes on the host by name: cgroup directories as root, else nothing."""
    made = made_by_name([COTO, "run", "--", "true"])
    assert [path for path in made if not path.startswith(("/sys/fs/cgroup/", "coto-"))] == []
    report = made_by_name([COTO, "run", "--report", str(tmp_path / "r"), "--", "true"])
    assert str(tmp_path / "r") in report  # the positive control
