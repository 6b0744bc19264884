"""The container level: bundles run by runc, crun and runsc. What every level promises is in
tests/conform; here is what is this one's own: which runtime may run, what is read back before a
program starts, and what is left when something goes wrong."""
import glob
import json
import os
import pathlib
import random
import shutil
import signal
import subprocess
import time

import pytest

from .helpers import (COTO, PATH, ROOT, WAITER, cgroup_directories, cgroups_of, coto, environment,
                      make_rootfs, only, package_version, refused, run, run_json, running, sh, status_of)

RUNC = ["--isolation", "container", "--runtime", "runc", "--allow-runtime", "runc"]
RUNSC = ["--isolation", "container", "--runtime", "runsc"]
HYBRID = os.path.isdir("/sys/fs/cgroup/unified")
BASE = "/run" if ROOT else os.environ.get("XDG_RUNTIME_DIR", "/tmp")


def has(program):
    return shutil.which(program, path=PATH) is not None


def levels():
    """runc without root needs subordinate ids, which the tests' ordinary user has not."""
    found = [pytest.param(RUNC, id="runc")] if ROOT and has("runc") else []
    return found + ([pytest.param(RUNSC, id="runsc")] if has("runsc") else [])


def directories():
    return set(glob.glob(f"{BASE}/coto-oci-*"))


@pytest.fixture(autouse=True)
def no_directory_is_left():
    before = directories()

    def left():  # but those of a coto that lives beside us
        return {path for path in directories() - before if not os.path.exists(f"/proc/{os.path.basename(path).split('-')[2]}")}
    yield
    mine, end = left(), time.monotonic() + 10
    while mine and time.monotonic() < end:  # one that another test has just killed is still being seen to
        time.sleep(0.05)
        mine &= left()
    assert not mine


# ---- which runtime ----

def test_unknown_runtime():
    refused(run("--isolation", "container", "--runtime", "lxc", "--", "true"), 65, "lxc", "runsc")


@only(not has("kata-runtime"))
def test_runtime_that_is_not_installed():
    refused(run("--isolation", "container", "--runtime", "kata", "--", "true"), 69, "kata-runtime")


@only(package_version("runc").startswith("1.1.5"))
def test_old_runc_is_refused_and_says_how_it_was_judged():
    """Debian 12 mended CVE-2024-21626 in 1.1.5, and nothing of 2025."""
    version = package_version("runc")
    plain = ["--isolation", "container", "--runtime", "runc"]
    message = refused(run(*plain, "--", "true"), 72, version, "Debian package", "CVE-2025-31133",
                      "--allow-runtime")
    assert "CVE-2024-21626" not in message
    refused(run(*plain, "--allow-runtime", "runc@1.0", "--", "true"), 72, "CVE-2025-31133")
    refused(run(*plain, "--allow-runtime", "crun", "--", "true"), 72, "CVE-2025-31133")
    if ROOT:
        result = run_json(*plain, "--allow-runtime", f"runc@{version}", "--", "true")
        assert result["verdict"] == "ok" and "CVE-2025-31133" in result["runtime"]


def test_the_choice_of_the_level_has_no_known_escape():
    result = run_json("--isolation", "container", "--", "true")
    assert result["verdict"] == "ok" and "CVE-" not in result["runtime"], result


@only(has("crun") and HYBRID and ROOT)
def test_crun_on_hybrid_cgroups():
    refused(run("--isolation", "container", "--runtime", "crun", "--allow-runtime", "crun", "--", "true"), 72,
            "crun: ", "hybrid", "--runtime runc")


@only(not ROOT and has("runc"))
def test_runc_without_subordinate_ids():
    refused(run(*RUNC, "--", "true"), 72, "two ids", "usermod", "runsc")


def test_other_levels_have_no_runtime():
    refused(run("--runtime", "runsc", "--", "true"), 69, "runtime")


def test_what_gvisor_cannot_do():
    refused(run(*RUNSC, "--workspace-writable", "output", "--", "true"), 69, "Landlock", "--runtime runc")
    refused(run(*RUNSC, "--require", "landlock", "--", "true"), 72, "landlock")


def test_doctor_tells_the_runtime():
    done = coto("doctor", "--json")
    oci = json.loads(done.out)["drivers"]["oci"]
    assert oci["usable"] and oci["walls"]["seccomp"]["present"]
    assert oci["walls"]["seccomp"]["mechanism"].startswith(("runc ", "crun ", "runsc "))


@only(has("runsc"))
def test_doctor_and_a_run_agree_on_gvisor():
    walls = json.loads(coto("doctor", "--json").out)["drivers"]["oci"]["walls"]
    assert walls["seccomp"]["mechanism"].startswith("runsc "), "the level's own choice"
    missing = json.loads(run(*RUNSC, "--json", "--", "true").out)["missing_walls"]
    assert "pids" in missing and {name for name in missing if walls[name]["present"]} == set()


# ---- what is up ----

@only(ROOT and has("runc"))
def test_walls_of_runc_on_the_host():
    with running(*RUNC, "--memory", "64m", "--pids", "20", "--cpus", "0.5", "--", *WAITER) as it:
        program, init = it.program(), it.init()
        for pid in (program, init):
            status = status_of(pid)
            assert status["Seccomp"] == "2" and status["NoNewPrivs"] == "1"
            assert {int(status[name], 16) for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")} == {0}
            assert int(status["Uid"].split()[0]) > 0x70000000
        assert int(status_of(program)["Seccomp_filters"]) == int(status_of(init)["Seccomp_filters"]) + 1
        for kind in ("user", "pid", "mnt", "net", "ipc", "uts", "cgroup"):
            assert os.readlink(f"/proc/{init}/ns/{kind}") != os.readlink(f"/proc/self/ns/{kind}"), kind
        groups = cgroups_of(init)
        if "memory" in groups:
            assert (groups["memory"] / "memory.limit_in_bytes").read_text().strip() == str(64 << 20)
            assert (groups["memory"] / "memory.memsw.limit_in_bytes").read_text().strip() == str(64 << 20)
            assert (groups["pids"] / "pids.max").read_text().strip() == "21"
            assert (groups["cpu"] / "cpu.cfs_quota_us").read_text().strip() == "50000"


@only(ROOT)
@pytest.mark.parametrize("level", levels())
def test_a_real_time_class_of_the_caller_is_not_its_containers(level):
    """No quota holds in one; gVisor's kernel runs its programs in the class that it has itself. The control is coto."""
    def in_real_time():
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))

    with running(*level, "--cpus", "0.5", "--", *WAITER, preexec_fn=in_real_time) as it:
        own = {name: os.sched_getscheduler(pid) for pid, (_, name, state) in it.family().items()
               if not name.startswith("coto-guard") and state != "Z"}
        assert own and os.SCHED_RR not in own.values(), own
        assert os.sched_getscheduler(it.process.pid) == os.SCHED_RR


@only(has("runsc"))
def test_walls_of_gvisor_are_marked():
    result = run_json(*RUNSC, "--", "uname", "-r")
    assert result["stdout"] != os.uname().release + "\n"
    walls = result["walls"]
    for name in ("seccomp", "capabilities", "no_new_privs", "root_read_only", "uid", "pid_namespace"):
        assert walls[name]["up"] and "guest kernel" in walls[name]["mechanism"], (name, walls[name])
    assert "guest" not in walls["timeout"]["mechanism"]
    assert "landlock" in result["missing_walls"] and "gVisor" in walls["landlock"]["note"]
    assert "platform" in result["runtime"]
    if ROOT:
        assert "guest" not in walls["memory"]["mechanism"] and walls["memory"]["up"]


@pytest.mark.parametrize("flags", levels())
@pytest.mark.parametrize("bits", [0o111, 0o777])
def test_the_callers_umask_changes_nothing_inside(flags, bits):
    done = run(*flags, "--", "sh", "-c", "umask; echo x > a; cat a", preexec_fn=lambda: os.umask(bits))
    assert (done.status, done.out) == (0, b"0022\nx\n"), done


@pytest.mark.parametrize("flags", levels())
@pytest.mark.parametrize("end", ["disk", "output-limit", *(["memory", "cpu-time", "pids"] if ROOT else [])])
def test_verdicts(flags, end):
    limits = {"memory": ["--memory", "64m"], "disk": ["--disk", "1m"], "cpu-time": ["--cpu-time", "300ms"],
              "output-limit": ["--output-limit", "1k", "--on-output-limit", "kill"], "pids": ["--pids", "4"]}
    code = {"memory": "x = [bytearray(1 << 20) for _ in range(200)]",
            "disk": "open('f', 'wb').write(bytes(3 << 20))", "cpu-time": "while True: pass",
            "output-limit": "while True: print('y' * 100)",
            "pids": "import os, time\nfor i in range(200):\n    if not os.fork(): time.sleep(9); os._exit(0)"}
    result = run_json(*flags, *limits[end], "--timeout", "30s", "--lang", "python", "-c", code[end])
    assert result["limit"] == end, result
    assert result["verdict"] == {"memory": "oom", "cpu-time": "timeout", "output-limit": "output"}.get(end, end)


def forgetful(name, tmp_path, change):
    """The command that puts another runtime in the place of one: it changes config.json (c) first."""
    place = shutil.which(name, path=PATH)
    real = tmp_path / f"real-{name}"
    shutil.copy(place, real)
    fake = tmp_path / f"fake-{name}"
    fake.write_text("#!/usr/bin/python3\nimport json, os, sys\n"
                    "if '--bundle' in sys.argv:\n"
                    "    p = sys.argv[sys.argv.index('--bundle') + 1] + '/config.json'\n"
                    "    c = json.load(open(p))\n"
                    f"    {change}\n"
                    "    json.dump(c, open(p, 'w'))\n"
                    f"os.execv('{real}', sys.argv)\n")
    fake.chmod(0o755)
    return f"mount --bind {fake} {place}"


WITHOUT = {
    "seccomp": "del c['linux']['seccomp']",
    "no_new_privs": "c['process']['noNewPrivileges'] = False",
    "capabilities": "c['process']['capabilities']['bounding'] = ['CAP_CHOWN']",
    "root_read_only": "c['root']['readonly'] = False",
    "net_namespace": "c['linux']['namespaces'] = [n for n in c['linux']['namespaces'] if n['type'] != 'network']",
    "uts_namespace": "c.pop('hostname'); c['linux']['namespaces'] = "
                     "[n for n in c['linux']['namespaces'] if n['type'] != 'uts']",
    "cgroup": "c['linux']['cgroupsPath'] = 'coto-somewhere-else'",
}


@only(ROOT and has("runc"))
@pytest.mark.parametrize("wall", [None, *WITHOUT])
def test_a_wall_that_the_runtime_left_out(wall, tmp_path):
    """A runc that forgets one, in a mount namespace of its own: what is read back is not what was
    asked for, and nothing runs. The control forgets none."""
    script = forgetful("runc", tmp_path, WITHOUT.get(wall, "pass")) + ' && exec "$@"'
    done = subprocess.run(["unshare", "-m", "sh", "-c", script, "sh", COTO, "run", *RUNC, "--", "echo", "ran"],
                          capture_output=True, env=environment(), timeout=60)
    for left in cgroup_directories():
        if left.endswith("/coto-somewhere-else"):
            os.rmdir(left)
    if wall:
        assert done.returncode == 72 and wall in done.stderr.decode() and done.stdout == b"", done
    else:
        assert done.returncode == 0 and done.stdout == b"ran\n", done


# ---- files ----

@pytest.mark.parametrize("flags", levels())
def test_a_root_file_system_stays_as_it_is(flags, tmp_path):
    """Nothing is made in it, not even a place to mount on."""
    root = make_rootfs(tmp_path / "root")
    (root / "srv").symlink_to(tmp_path)
    os.mkfifo(root / "fifo")
    os.chmod(tmp_path, 0o755)
    before = sorted((str(path), os.lstat(path).st_mode, os.lstat(path).st_mtime_ns) for path in tmp_path.rglob("*"))
    text = sh("cat /etc/marker; echo x > /tmp/x; cat /tmp/x; cat /proc/self/comm", *flags, "--rootfs", root)
    assert text.split("\n")[:2] == ["a root of its own", "x"]
    after = sorted((str(path), os.lstat(path).st_mode, os.lstat(path).st_mtime_ns) for path in tmp_path.rglob("*"))
    assert before == after


@pytest.mark.parametrize("flags", levels())
def test_mounts(flags, tmp_path):
    (tmp_path / "in").mkdir()
    (tmp_path / "in/file").write_text("shown")
    assert sh("cat /data/file; touch /data/x 2>/dev/null || echo read-only", *flags,
              "--mount", f"{tmp_path / 'in'}:/data") == "shownread-only\n"
    refused(run(*flags, "--rootfs", make_rootfs(tmp_path / "root"), "--mount", f"{tmp_path / 'in'}:/etc/x/y", "--", "sh"),
            65, "/etc/x/y")


@only(ROOT and has("runc"))
@pytest.mark.parametrize("knows", [True, False])
def test_what_is_mounted_below_a_read_only_mount_is_read_only_too(knows, tmp_path):
    """Landlock keeps a program from writing there, but not from re-dating, and not every kernel has it. A
    runtime that does not know the word (here: one that is not told it) runs nothing."""
    script = ("mkdir -p tree/sub && mount -t tmpfs none tree/sub && chmod 777 tree/sub && "
              "touch tree/sub/file && chmod 666 tree/sub/file && touch -d 2001-01-01 tree/sub/file && ")
    if not knows:
        script += forgetful("runc", tmp_path, "for m in c['mounts']: m['options'] = [o for o in m['options'] "
                                              "if o != 'rro' or m['destination'] != '/data']") + " && "
    done = subprocess.run(["unshare", "-m", "sh", "-c", script + '"$@"; s=$?; stat -c %Y tree/sub/file; exit $s', "sh",
                           COTO, "run", *RUNC, "--mount", "tree:/data", "--", "touch", "/data/sub/file"],
                          capture_output=True, env=environment(), cwd=tmp_path, timeout=60)
    assert int(done.stdout) < 1e9, done
    if not knows:
        assert done.returncode == 72 and "/data/sub" in done.stderr.decode(), done
    else:
        assert done.returncode == 1 and b"Read-only file system" in done.stderr, done


@only(ROOT)
@pytest.mark.parametrize("flags", levels())
@pytest.mark.parametrize("what", [None, "mount", "rootfs"])
def test_what_is_replaced_before_the_runtime_looks_is_not_shown(flags, what, tmp_path):
    """A neighbour that may write above it puts a link in its place, at the worst moment."""
    tmp_path.chmod(0o755)
    secret = tmp_path / "secret"
    (secret / "bin").mkdir(parents=True)
    (secret / "marker").write_text("secret")
    inside = make_rootfs(tmp_path / "root") / "srv" if what == "rootfs" else tmp_path / "data"
    inside.mkdir(exist_ok=True)
    (inside / "marker").write_text("fine\n")
    swap = f"os.rename('{inside}', '{inside}.old'); os.symlink('{secret}', '{inside}')" if what else "pass"
    script = forgetful(flags[3], tmp_path, swap) + ' && exec "$@"'
    order = ["--rootfs", tmp_path / "root"] if what == "rootfs" else ["--mount", f"{inside}:/srv"]
    done = subprocess.run(["unshare", "-m", "sh", "-c", script, "sh", COTO, "run", *flags, *order, "--", "cat",
                           "/srv/marker"], capture_output=True, env=environment(), timeout=60)
    if what:
        assert done.returncode == 68 and b"replaced" in done.stderr and done.stdout == b"", done
    else:
        assert done.returncode == 0 and done.stdout == b"fine\n", done


STRANGER = """
import os, sys
bundle = sys.argv[1]
for what in (lambda: os.stat(bundle), lambda: os.listdir(bundle), lambda: os.stat(bundle + "/rootfs"),
             lambda: os.listdir(bundle + "/rootfs/tmp"), lambda: os.mkdir(bundle + "/rootfs/tmp/mine")):
    try:
        what()
        print("done")
    except OSError as e:
        print(e.strerror)
"""


@only(ROOT)
@pytest.mark.parametrize("flags", levels())
def test_no_stranger_comes_into_a_bundle(flags):
    """All can see its name. Whoever could write there could keep root from ever ending its removal. The
    controls: root can do all of it, and the program inside has a /tmp."""
    with running(*flags, "--", "sh", "-c", "echo ready > /tmp/x; cat /tmp/x; read line") as it:
        bundle, = glob.glob(f"{BASE}/coto-oci-{it.process.pid}-*")
        said = [subprocess.run([*who, "/usr/bin/python3", "-c", STRANGER, bundle], capture_output=True, text=True, timeout=30).stdout.split("\n")[:-1]
                for who in (["setpriv", "--reuid=65533", "--regid=65533", "--clear-groups"], [])]
        assert said == [["done"] + ["Permission denied"] * 4, ["done"] * 5]


# ---- what is left ----

@pytest.mark.parametrize("flags", levels())
def test_kill_9_at_any_moment(flags, leftovers):
    """The directory, the cgroups of every controller and all processes go, whenever it comes."""
    moments = random.Random(5)
    for _ in range(4):
        process = subprocess.Popen([COTO, "run", *flags, "--", "sleep", "67.3"], env=environment(),
                                   stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                   stderr=subprocess.DEVNULL)
        time.sleep(moments.uniform(0.005, 0.5))
        process.send_signal(signal.SIGKILL)
        process.wait()
    assert not leftovers(10)


@only(ROOT)
@pytest.mark.parametrize("flags", levels())
def test_nothing_is_left_of_a_caller_in_a_group_of_its_own(flags):
    """Where both versions are mounted runc makes its v2 group at the top, wherever the caller is."""
    group = pathlib.Path("/sys/fs/cgroup/unified" if HYBRID else "/sys/fs/cgroup", f"test-oci-{os.getpid()}")
    group.mkdir()
    try:
        process = subprocess.Popen(["sh", "-c", 'echo $$ > "$0/cgroup.procs" && exec "$@"', group, COTO, "run", *flags, "--", "true"],
                                   env=environment(), stdin=subprocess.DEVNULL)
        assert process.wait(60) == 0
        assert not glob.glob(f"/sys/fs/cgroup/**/coto-{process.pid}-*", recursive=True)
    finally:
        group.rmdir()


@only(has("runsc"))
def test_what_both_left_is_swept_later(tmp_path):
    """Guard and coto were killed together: the next run removes it once it is ten seconds old, and
    nothing that only looks like it."""
    base = pathlib.Path(BASE)
    stale = base / f"coto-oci-{2 ** 22 - 3}-deadbeef"
    young = base / f"coto-oci-{2 ** 22 - 3}-c0ffee00"
    others = [base / f"coto-oci-{2 ** 22 - 3}x-deadbeef", base / f"coto-oci-{os.getpid()}-deadbeef"]
    try:
        for path in (stale, *others, young):
            (path / "rootfs/usr").mkdir(parents=True)
        for path in (stale, *others):
            os.utime(path, (1, 1))
        assert run(*RUNSC, "--", "true").status == 0
        assert not stale.exists() and all(path.exists() for path in (*others, young))
    finally:
        for path in (stale, *others, young):
            shutil.rmtree(path, ignore_errors=True)


@only(ROOT and has("runsc"))
def test_a_large_one_is_swept_by_and_by(tmp_path):
    """And one that cannot be removed, having a mount in it, keeps neither that nor a run from ending."""
    script = """mount -t tmpfs tmpfs /run && cd /run && mkdir -p coto-oci-4194301-1/rootfs coto-oci-4194301-2
                mount -t tmpfs tmpfs coto-oci-4194301-1/rootfs
                cd coto-oci-4194301-2 && seq -f %g/x 4000 | xargs mkdir -p && cd ..
                touch -d 2001-01-01 coto-oci-4194301-1 coto-oci-4194301-2
                runs=0
                while [ -d coto-oci-4194301-2 ] && [ $runs -lt 20 ]; do "$@" > out; cat out; runs=$((runs + 1)); done
                ls -d coto-oci-*"""
    done = subprocess.run(["unshare", "-m", "sh", "-c", script, "sh", COTO, "run", *RUNSC, "--json", "--", "true"],
                          capture_output=True, env=environment(), timeout=120)
    *runs, left = done.stdout.decode().splitlines()
    assert runs and left == "coto-oci-4194301-1", done
    assert min(json.loads(line)["duration_ms"] for line in runs) < 2500, runs
