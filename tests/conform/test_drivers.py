"""One suite for all drivers: what every level of isolation promises, whatever its
technology. A driver of the registry is picked up by itself; the native one runs a
second time with its stdio as frames, as at levels that have one byte stream only.
Prints a table of drivers and promises at the end."""
import hashlib
import json
import os
import pathlib
import random
import re
import signal
import subprocess
import sys
import time

import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tests"))
import apart  # noqa: E402
from levels import LEVELS  # noqa: E402
BIN = pathlib.Path(os.environ.get("COTO_TEST_BIN", ROOT / "build"))
COTO = BIN / "coto"
UNAVAILABLE = 69
SLOW = float(os.environ.get("COTO_TEST_SLOW") or 1)  # how much longer things may take here


class Driver:
    def __init__(self, level):
        self.level, self.name, self.isolation = level, level.name, level.isolation
        clean = {key: value for key, value in os.environ.items()
                 if not key.startswith(("COTO_", "SANDBOX_", "DOCKER_"))}
        self.env = dict(clean, **level.env)

    def command(self, *arguments):
        return [str(COTO), "run", *self.level.command_flags, *map(str, arguments)]

    def run(self, *arguments, **options):
        options.setdefault("stdin", None if "input" in options else subprocess.DEVNULL)
        options.setdefault("timeout", 60)
        return subprocess.run(self.command(*arguments), capture_output=True, env=self.env,
                              **options)

    def shell(self, script, *flags, **options):
        return self.run(*flags, "--", "sh", "-c", script, **options)

    def json(self, script, *flags, **options):
        done = self.shell(script, "--json", *flags, **options)
        return json.loads(done.stdout)

    def popen(self, *arguments, **options):
        return subprocess.Popen(self.command(*arguments), env=self.env, **options)


def find_drivers():
    """Every level whose programs are here; COTO_TEST_LEVEL names one."""
    only = os.environ.get("COTO_TEST_LEVEL")
    return [Driver(level) for level in LEVELS
            if level.is_here() and (not only or level.name == only)]


DRIVERS = find_drivers()
table = {}


@pytest.fixture(params=DRIVERS, ids=lambda driver: driver.name)
def driver(request):
    """One promise, one row: broken once is broken."""
    promise = (request.function.__doc__ or request.function.__name__).strip().rstrip(".")
    row = table.setdefault(promise, {})
    failed = request.session.testsfailed
    request.param.env.update(request.param.level.prepare())
    yield request.param
    kept = request.session.testsfailed == failed and row.get(request.param.name) != "BROKEN"
    row[request.param.name] = "kept" if kept else "BROKEN"


@pytest.fixture(scope="module", autouse=True)
def print_table(request):
    yield
    reporter = request.config.pluginmanager.getplugin("terminalreporter")
    if not reporter or not table:
        return
    names = [item.name for item in DRIVERS]
    width = max(map(len, table))
    lines = ["", f"{'promise':{width}}  " + "  ".join(names)]
    for promise, row in table.items():
        cells = "  ".join(f"{row.get(name, '-'):{len(name)}}" for name in names)
        lines.append(f"{promise:{width}}  {cells}")
    with request.config.pluginmanager.getplugin("capturemanager").global_and_fixture_disabled():
        reporter.write_line("\n".join(lines))


@pytest.fixture
def sleeper():
    """A number of seconds that nobody else sleeps: names processes on the host."""
    marker = f"67.{random.randrange(10**9):09}"
    yield marker
    for pid in alive(marker):  # of a broken promise
        os.kill(int(pid), signal.SIGKILL)


def alive(marker):
    """Processes of the host with the marker among their arguments, coto's left out."""
    found = []
    for entry in pathlib.Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            arguments = (entry / "cmdline").read_bytes().split(b"\0")
            state = (entry / "stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            continue
        if marker.encode() in b" ".join(arguments) and not arguments[0].endswith(b"/coto") \
                and state not in "ZX":
            found.append(entry.name)
    return found


def gone(marker, seconds=3):
    end = time.monotonic() + seconds
    while alive(marker) and time.monotonic() < end:
        time.sleep(0.02)
    return not alive(marker)


def test_registry():
    """every choice of --isolation that this build has is tested here"""
    row = re.search(r'X\(ISOLATION,.*?"([a-z|]+)", WALLS', (ROOT / "src/schema/options.h").read_text())
    tested = {level.isolation for level in LEVELS}
    for isolation in set(row.group(1).split("|")) - tested:
        done = subprocess.run([COTO, "run", "--isolation", isolation, "--", "true"],
                              capture_output=True, timeout=60)
        assert done.returncode == UNAVAILABLE, isolation


# ---- streams ----

def test_stdin(driver):
    """stdin arrives byte for byte (10 MB)"""
    data = random.Random(3).randbytes(10_000_000)
    done = driver.run("--", "cat", input=data)
    assert done.returncode == 0 and done.stdout == data


def test_stdin_of_a_pipe_that_trickles(driver):
    """stdin is passed on as it comes"""
    child = driver.popen("--", "sh", "-c", "read a; echo got $a; read b; echo got $b",
                         stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    for word in (b"one", b"two"):
        child.stdin.write(word + b"\n")
        child.stdin.flush()
        assert child.stdout.readline() == b"got " + word + b"\n"
    child.stdin.close()
    assert child.wait(10) == 0


def test_stdin_is_empty(driver):
    """an empty stdin ends at once"""
    assert driver.run("--", "cat").stdout == b""
    assert driver.run("--timeout", "5s", "-").returncode != 124


def test_stdin_that_nobody_reads(driver):
    """a stdin that is not read delays nothing"""
    before = time.monotonic()
    done = driver.run("--", "true", input=b"x" * 5_000_000)
    assert done.returncode == 0 and time.monotonic() - before < 5


def test_stdin_of_a_compiled_language(driver, tmp_path):
    """stdin goes to the program, not to its compiler"""
    source = tmp_path / "count.c"
    source.write_text('#include <stdio.h>\n'
                      'int main(void) { int n = 0; while (getchar() != EOF) n++;'
                      ' printf("%d", n); return 0; }\n')
    assert driver.run(source, input=b"x" * 300_000).stdout == b"300000"
    assert driver.run(source).stdout == b"0"


def test_output_is_byte_exact(driver):
    """stdout and stderr come byte for byte, each by itself"""
    code = "import os; os.write(1, bytes(range(256)) * 9); os.write(2, bytes(range(255, -1, -1)))"
    done = driver.run("-c", code, "--lang", "python")
    assert done.stdout == bytes(range(256)) * 9 and done.stderr == bytes(range(255, -1, -1))


def test_much_output(driver):
    """50 MB of output, and as much of errors at the same time"""
    script = "head -c 50000000 /dev/zero >&2 & head -c 50000000 /dev/zero; wait"
    done = driver.shell(script)
    assert done.returncode == 0
    assert len(done.stdout) == 50_000_000 and len(done.stderr) == 50_000_000
    assert not done.stdout.strip(b"\0")


def test_output_comes_live(driver):
    """output is passed on while the program runs"""
    child = driver.popen("--", "sh", "-c", "echo first; sleep 20", stdout=subprocess.PIPE)
    before = time.monotonic()
    assert child.stdout.readline() == b"first\n"
    assert time.monotonic() - before < 10
    child.send_signal(signal.SIGTERM)
    child.wait(10)


def test_output_in_the_result(driver):
    """the result object holds both streams"""
    result = driver.json("echo out; echo err >&2")
    assert (result["stdout"], result["stderr"]) == ("out\n", "err\n")


def test_reader_that_goes_away(driver):
    """a reader that goes away ends or starves the program, never hangs coto"""
    child = driver.popen("--timeout", "2s", "--", "yes", stdout=subprocess.PIPE)
    assert child.stdout.read(2) == b"y\n"
    child.stdout.close()
    child.wait(8)


def test_slow_reader(driver):
    """a slow reader loses nothing"""
    child = driver.popen("--", "head", "-c", "3000000", "/dev/zero", stdout=subprocess.PIPE)
    time.sleep(0.7)
    assert len(child.stdout.read()) == 3_000_000
    assert child.wait(10) == 0


# ---- how it ends ----

@pytest.mark.parametrize("status", [0, 1, 42, 124, 137, 255])
def test_exit_status(driver, status):
    """the exit status is the program's own"""
    assert driver.shell(f"exit {status}").returncode == status
    result = driver.json(f"exit {status}")
    assert result["verdict"] == ("nonzero" if status else "ok") and result["exit_code"] == status


@pytest.mark.parametrize("signo", [signal.SIGTERM, signal.SIGSEGV, signal.SIGKILL])
def test_signal(driver, signo):
    """death by a signal is 128+n and says so"""
    assert driver.shell(f"kill -{int(signo)} $$").returncode == 128 + signo
    result = driver.json(f"kill -{int(signo)} $$")
    assert result["verdict"] == "signal" and result["signal"] == signo


TREES = {
    "deaf": "trap '' TERM INT HUP; sleep {0}; sleep {0}",
    "session of its own": "setsid sleep {0} & sleep {0}",
    "orphan": "(setsid sh -c 'sleep {0}; true' &) ; sleep {0}",
    "stopped": "sleep {0} & kill -STOP $!; kill -STOP $$",
    "many": "for i in 1 2 3 4 5 6 7 8 9; do (sleep {0}; true) & done; wait",
}


@pytest.mark.parametrize("tree", TREES)
def test_timeout_of_a_tree(driver, tree, sleeper):
    """a timeout ends the whole tree, whatever it does"""
    before = time.monotonic()
    done = driver.shell(TREES[tree].format(sleeper), "--timeout", "700ms")
    assert done.returncode == 124 and time.monotonic() - before < 3
    assert gone(sleeper)


def test_timeout_in_the_result(driver):
    """the result names the limit that ended the run, and keeps what was written"""
    result = driver.json("echo before; echo x > output/f; sleep 60", "--timeout", f"{500 * SLOW:g}ms")
    assert result["verdict"] == "timeout" and result["limit"] == "timeout"
    assert result["stdout"] == "before\n" and result["exit_status"] == 124
    assert [item["name"] for item in result["artifacts"]] == ["f"]


def test_background_children_end_with_the_program(driver, sleeper):
    """the end of the program is the end of its children"""
    before = time.monotonic()
    done = driver.shell(f"setsid sleep {sleeper} & sleep {sleeper} & echo main")
    assert done.stdout == b"main\n" and done.returncode == 0
    assert time.monotonic() - before < 5 and gone(sleeper)


def test_what_cannot_be_started(driver, tmp_path):
    """a command that does not exist is 127, one that cannot run 126"""
    assert driver.run("--", "/no/such/program").returncode == 127
    plain = tmp_path / "plain"
    plain.write_text("text")
    plain.chmod(0o644)
    assert driver.run("--copy", f"{plain}:plain", "--", "./plain").returncode == 126


def test_interrupt(driver, sleeper):
    """Ctrl-C ends the run with 130 and leaves nothing"""
    child = driver.popen("--", "sh", "-c", f"echo up; sleep {sleeper}", stdout=subprocess.PIPE)
    child.stdout.readline()
    child.send_signal(signal.SIGINT)
    assert child.wait(5) == 130
    assert gone(sleeper)


# ---- limits of the supervisor ----

def test_output_limit_cuts(driver):
    """past the output limit bytes are counted and dropped"""
    done = driver.shell("head -c 100000 /dev/zero; echo end >&2", "--output-limit", "10k")
    assert len(done.stdout) == 10_240 and done.stderr == b"end\n" and done.returncode == 0
    result = driver.json("head -c 100000 /dev/zero", "--output-limit", "10k")
    assert result["verdict"] == "ok" and result["stdout_truncated"] is True
    assert result["stdout_bytes_seen"] == 100_000 and result["stdout_bytes_kept"] == 10_240


def test_output_limit_kills(driver):
    """on-output-limit kill ends the run"""
    before = time.monotonic()
    result = driver.json("yes", "--output-limit", "10k", "--on-output-limit", "kill")
    assert result["verdict"] == "output" and result["limit"] == "output-limit"
    assert time.monotonic() - before < 10


# ---- files ----

def test_artifacts(driver, tmp_path):
    """files in output/ come back with size, type and hash; links do not"""
    script = ("mkdir -p output/deep; printf data > output/a.txt; printf '\\211PNG' > output/deep/p.png; "
              "ln -s /etc/passwd output/link; mkfifo output/fifo")
    result = driver.json(script, "--artifacts", tmp_path / "files")
    found = {item["name"]: item for item in result["artifacts"]}
    assert set(found) == {"a.txt", "deep/p.png"}
    assert found["a.txt"]["bytes"] == 4 and found["deep/p.png"]["type"] == "image/png"
    assert found["a.txt"]["sha256"] == hashlib.sha256(b"data").hexdigest()
    assert (tmp_path / "files/a.txt").read_bytes() == b"data"
    assert (tmp_path / "files/deep/p.png").read_bytes() == b"\x89PNG"
    assert not os.path.lexists(tmp_path / "files/link")


def test_copy(driver, tmp_path):
    """files and directories are copied in, links as links, modes kept"""
    source = tmp_path / "source"
    (source / "sub").mkdir(parents=True)
    data = random.Random(4).randbytes(700_000)
    (source / "sub/data").write_bytes(data)
    (source / "link").symlink_to("sub/data")
    (source / "tool").write_text("#!/bin/sh\necho tool ran\n")
    (source / "tool").chmod(0o755)
    done = driver.shell("cd copied; ./tool; sha256sum < sub/data; readlink link; "
                        "cmp link sub/data; echo changed > sub/data",
                        "--copy", f"{source}:copied")
    assert done.stdout.decode().split() == ["tool", "ran", hashlib.sha256(data).hexdigest(), "-",
                                            "sub/data"]
    assert (source / "sub/data").read_bytes() == data


def test_code_file(driver, tmp_path):
    """a file is copied in and its arguments reach it"""
    code = tmp_path / "my code.py"
    code.write_text("import sys; print(sys.argv[1:]); open(__file__, 'a').write('#')")
    before = code.read_bytes()
    assert driver.run(code, "a", "b c", "--json").stdout == b"['a', 'b c', '--json']\n"
    assert code.read_bytes() == before


def test_environment(driver):
    """nothing of the caller's environment is inherited"""
    driver.env["SECRET_OF_THE_CALLER"] = "hunter2"
    try:
        done = driver.shell("env", "--env", "ONE=1", "--env", "TWO=a b=c")
    finally:
        del driver.env["SECRET_OF_THE_CALLER"]
    lines = done.stdout.decode().splitlines()
    assert {"ONE=1", "TWO=a b=c"} <= set(lines)
    assert "hunter2" not in done.stdout.decode()
    names = {line.partition("=")[0] for line in lines}
    assert names <= {"ONE", "TWO", "PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "TMPDIR",
                     "COTO_OUTPUT", "PWD", "OLDPWD", "SHLVL", "_"}


def test_working_directory(driver):
    """the working directory is fresh, writable, HOME, and gone afterwards"""
    result = driver.json("pwd; echo $HOME; ls -A; touch new && mkdir dir && echo $COTO_OUTPUT")
    work, home, content, output = result["stdout"].split()
    assert work == home and content == "output" and output == f"{work}/output"
    if driver.isolation == "subprocess":
        assert result["execution_id"] in work
    assert not pathlib.Path(work).exists() or work == "/workspace"
    again = driver.shell("ls -A").stdout.split()
    assert again == [b"output"]


def test_result_names_the_driver(driver):
    """the result object is whole, whatever the driver"""
    result = driver.json("exit 3")
    keys = {"schema_version", "execution_id", "verdict", "exit_code", "signal", "stdout", "stderr",
            "duration_ms", "cpu_ms", "memory_peak_bytes", "artifacts", "walls", "missing_walls",
            "started_at", "profile", "policy_hash", "driver"}
    assert keys <= set(result)
    names = {"process": "native", "container": "oci"}
    assert result["driver"] == names.get(driver.isolation, driver.isolation)
    assert result["duration_ms"] > 0 and result["cpu_ms"]["user"] >= 0


def test_missing_walls_are_refused_when_required(driver):
    """--require is kept or refused, never weakened"""
    done = driver.run("--require", "seccomp", "--", "grep", "Seccomp:", "/proc/self/status")
    assert done.returncode == 72 or done.stdout.split() == [b"Seccomp:", b"2"]


# ---- what is left ----

def directories_of(pid):
    """Its cgroups, and the throw-away directory of a bundle."""
    found = [path for place in ("/run", "/tmp", os.environ.get("XDG_RUNTIME_DIR", "/tmp"))
             for path in pathlib.Path(place).glob(f"coto-oci-{pid}-*")]
    for place in apart.cgroup_places():
        for top, names, _ in os.walk(place):  # others' come and go meanwhile
            found += [os.path.join(top, name) for name in names if name.startswith(f"coto-{pid}-")]
    return found


def mounts():
    return set(pathlib.Path("/proc/self/mountinfo").read_text().splitlines())


@pytest.mark.parametrize("end", ["by itself", "by a timeout", "by kill -9 of coto"])
def test_leftovers(driver, end, sleeper):
    """no process, mount, cgroup or directory is left, also after kill -9"""
    before = mounts()
    script = {"by itself": f"setsid sleep {sleeper} & echo $$ $PWD",
              "by a timeout": f"echo $$ $PWD; sleep {sleeper}",
              "by kill -9 of coto": f"setsid sleep {sleeper} & echo $$ $PWD; sleep {sleeper}"}[end]
    child = driver.popen("--timeout", "1s" if "timeout" in end else "30s", "--", "sh", "-c",
                         script, stdout=subprocess.PIPE)
    work = child.stdout.readline().split()[1].decode()
    if "kill" in end:
        child.kill()
    child.wait(10)
    assert gone(sleeper)

    def left():
        found = [str(path) for path in directories_of(child.pid)] + sorted(mounts() - before)
        return found + ([work] if work != "/workspace" and os.path.exists(work) else [])

    limit = time.monotonic() + 3
    while left() and time.monotonic() < limit:
        time.sleep(0.02)
    assert left() == []


# ---- the table ----

PAGE = ROOT / "docs/ISOLATION_STRATEGIES.md"
MARKS = ("<!-- promises -->\n", "<!-- /promises -->\n")


def rows_of(text):
    """{promise: {level: word}} of the page's table."""
    lines = text.partition(MARKS[0])[2].partition(MARKS[1])[0].splitlines()
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return {row[0]: dict(zip(cells[0][1:], row[1:])) for row in cells[2:]} if cells else {}


def test_the_table_in_the_docs():
    """What was kept here is what docs/ISOLATION_STRATEGIES.md says; COTO_TEST_TABLE=write writes it."""
    text = PAGE.read_text()
    told = rows_of(text)
    if os.environ.get("COTO_TEST_TABLE") == "write":
        names = [level.name for level in LEVELS]
        for promise, row in table.items():
            told.setdefault(promise, {}).update(row)
        lines = ["| promise | " + " | ".join(names) + " |", "|---" * (len(names) + 1) + "|"]
        lines += [f"| {promise} | " + " | ".join(told[promise].get(name, "-") for name in names) + " |"
                  for promise in told]
        head, _, rest = text.partition(MARKS[0])
        PAGE.write_text(head + MARKS[0] + "\n".join(lines) + "\n" + MARKS[1] + rest.partition(MARKS[1])[2])
        return
    different = {promise: row for promise, row in table.items()
                 if any(told.get(promise, {}).get(name) != word for name, word in row.items())}
    assert not different, "COTO_TEST_TABLE=write makes it anew"
