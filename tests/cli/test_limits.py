"""Limits: enforced, measured, and as the kernel's own files say (R1.3, R1.4, R3.1, R3.2, R3.5)."""
import json
import os
import re
import signal
import socket
import subprocess

import pytest

from .helpers import (CGROUPS, COTO, CPUS, ROOT, RESERVED, SLOW, WAITER, cgroups_of, descendants, environment,
                      fastest, inside, only, read, refused, run, run_json, running, sh)

PY = ("--lang", "python", "-c")


# ---- wall-clock time ----

FORKS = "import os\nwhile True:\n    try: os.fork()\n    except OSError: pass"
HARD_TO_END = {
    "sleeps": ["--", "sleep", "60"],
    "burns": ["--", "sh", "-c", "while :; do :; done"],
    "ignores SIGTERM": [*PY, "import signal, time\nfor n in range(1, 65):\n"
                        "    try: signal.signal(n, signal.SIG_IGN)\n    except (OSError, ValueError): pass\n"
                        "time.sleep(60)"],
    "double fork and setsid": [*PY, "import os, time\nif os.fork() == 0:\n    os.setsid()\n"
                               "    if os.fork() == 0: time.sleep(60)\n    os._exit(0)\ntime.sleep(60)"],
    "stops itself": ["--", "sh", "-c", "kill -STOP $$"],
    "stops its parent": ["--", "sh", "-c", "kill -STOP $PPID 1; sleep 60"],
    "forks without end": [*PY, FORKS],
    "threads without end": [*PY, "import threading, time\nwhile True:\n"
                            "    try: threading.Thread(target=time.sleep, args=(60,)).start()\n"
                            "    except RuntimeError: pass"],
    "talks without end": ["--output-limit", "10k", "--", "yes"],
    "closes its output": ["--", "sh", "-c", "exec sleep 60 >&- 2>&- <&-"],
}


@pytest.mark.alone
@pytest.mark.parametrize("how", HARD_TO_END)
def test_timeout_ends_everything(how, leftovers):
    """Back within 1.3 s with 124, whatever the program does; nobody of it lives on."""
    def measure():
        done = run("--timeout", "1s", *HARD_TO_END[how], input=b"x" * 300000)
        assert done.status == 124, done
        return done.seconds, done

    fastest(measure, 1.3)
    assert not leftovers(0.5)


def turn_of(pid):
    """How long the kernel lets a process run at a time, ns; None before Linux 6.12."""
    found = re.search(r"^se\.slice\s*:\s*(\d+)", read(f"/proc/{pid}/sched"), re.MULTILINE)
    return int(found[1]) if found else None


def test_who_holds_the_limits_is_heard_among_any_number():
    """coto and the sandbox's init have short turns, which come soon; the program has those it would have anyway."""
    usual = turn_of(os.getpid())
    with running("--", *WAITER) as it:
        assert turn_of(it.program()) == usual
        assert {turn_of(it.process.pid), turn_of(it.init())} == ({100000} if usual else {None})


def test_timeout_holds_for_orphans_that_keep_the_pipes():
    """The main process ends at once; its children hold the pipes open and are ended with it."""
    code = ("import os, time\nfor i in range(3):\n    if os.fork() == 0:\n        os.setsid()\n"
            "        time.sleep(60)\nprint('main ends', flush=True)")
    done = run("--timeout", f"{SLOW:g}s", *PY, code)
    assert (done.status, done.out) == (0, b"main ends\n") and done.seconds < 1.3 * SLOW


def test_no_timeout_before_its_time():
    """The positive control: the same second is not taken from a program that keeps within it."""
    done = run("--timeout", "2s", "--", "sleep", "1")
    assert done.status == 0 and done.seconds >= 1


def test_timeout_keeps_output_and_tells():
    result = run_json("--timeout", "700ms", "--", "sh", "-c", "echo before; sleep 60")
    assert (result["stdout"], result["verdict"], result["limit"]) == ("before\n", "timeout", "timeout")
    assert 690 < result["duration_ms"] < 1500 * SLOW
    assert result["walls"]["timeout"]["value"] == "700ms"


def test_timeout_covers_the_build():
    result = run_json("--timeout", "15ms", "--lang", "c", "-c", "int main(void) { return 0; }")
    assert (result["exit_status"], result["stage"]) == (124, "build")


# ---- CPU time ----

# The limit counts the sandbox from the start of the program, the result the program: ms of init beside it.
OF_INIT = 5 * SLOW


def test_cpu_time():
    burn = "while True: pass"
    done = run("--cpu-time", "300ms", "--timeout", "20s", *PY, burn)
    assert done.status == 124 and done.seconds < 4 * SLOW
    result = run_json("--cpu-time", "1s", "--timeout", "20s", *PY, burn)
    assert (result["verdict"], result["limit"]) == ("timeout", "cpu-time")
    if CGROUPS:
        assert result["walls"]["cpu_time"]["up"]
        assert 1000 - OF_INIT < sum(result["cpu_ms"].values()) < 2000
    else:
        assert "cpu_time" in result["missing_walls"]


def test_cpu_time_counts_no_ticks():
    """Ticks count too much on a busy host, and nothing for who sleeps across them."""
    if not CGROUPS:
        return
    for limit in (100, 300):
        result = run_json("--cpu-time", f"{limit}ms", "--timeout", "20s", *PY, "while True: pass")
        assert result["limit"] == "cpu-time" and sum(result["cpu_ms"].values()) > limit - OF_INIT
    dodger = ("import time\nwhile True:\n    now = time.monotonic_ns()\n    tick = now - now % 4000000\n"
              "    while time.monotonic_ns() < tick + 3300000: pass\n"
              "    time.sleep(max(0, tick + 4400000 - time.monotonic_ns()) / 1e9)")
    result = run_json("--cpu-time", "500ms", "--timeout", "20s", *PY, dodger)
    assert result["limit"] == "cpu-time", result["cpu_ms"]


def test_cpu_time_counts_the_whole_tree():
    burn = "import os\nfor i in range(4): os.fork()\nwhile True: pass"
    if CGROUPS:
        result = run_json("--cpu-time", "600ms", "--timeout", "20s", *PY, burn)
        assert (result["verdict"], result["limit"]) == ("timeout", "cpu-time")
        assert sum(result["cpu_ms"].values()) < 2000
    else:
        refused(run("--cpu-time", "600ms", "--require", "cpu_time", *PY, burn), 72, "cpu_time")


def test_cpu_time_lets_sleepers_be():
    assert run("--cpu-time", f"{500 * SLOW:g}ms", "--", "sleep", f"{SLOW:g}").status == 0


# ---- memory ----

TOUCH = "x = bytearray({} << 20)\nfor i in range(0, len(x), 4096): x[i] = 1\nprint('done')"


def test_memory_limit():
    """R1.4, R3.2: over the limit exits 137 with the verdict oom; below it nothing happens."""
    assert run("--memory", "128m", *PY, TOUCH.format(60)).out == b"done\n"
    if CGROUPS:
        result = run_json("--memory", "64m", *PY, TOUCH.format(200))
        assert (result["verdict"], result["limit"], result["exit_status"]) == ("oom", "memory", 137)
        assert 60 << 20 < result["memory_peak_bytes"] <= 64 << 20
        assert run("--memory", "64m", *PY, TOUCH.format(200)).status == 137
    else:
        result = run_json("--memory", "64m", *PY, TOUCH.format(200))
        assert "memory" in result["missing_walls"] and result["walls"]["memory"]["note"]
        assert result["verdict"] != "ok"  # the per-process limit holds still


def test_memory_limit_counts_the_whole_tree():
    code = ("import os, time\nfor i in range(4):\n    if os.fork() == 0:\n"
            "        x = bytearray(30 << 20)\n        time.sleep(1.5); os._exit(0)\n"
            "bad = sum(os.wait()[1] != 0 for i in range(4))\nraise SystemExit(9 if bad else 0)")
    assert run("--memory", "512m", *PY, code).status == 0
    if CGROUPS:
        result = run_json("--memory", "64m", *PY, code)
        assert (result["verdict"], result["exit_status"]) == ("oom", 137)
    else:
        refused(run("--memory", "64m", "--require", "memory", *PY, code), 72, "memory")


def test_memory_limit_counts_tmpfs():
    """Files in the writable file systems are memory: they cannot be a way around it."""
    if CGROUPS:
        result = run_json("--memory", "32m", "--disk", "200m", "--", "head", "-c", "40m", "/dev/zero")
        assert result["verdict"] in ("ok", "oom")  # output is not memory of the sandbox
        result = run_json("--memory", "32m", "--disk", "200m", "--", "sh", "-c",
                          "head -c 100m /dev/zero > big")
        assert result["exit_status"] == 137 and result["verdict"] == "oom"
    else:
        assert "memory" in run_json("--", "true")["missing_walls"]


def test_oom_survived_by_the_main_process_is_not_a_verdict():
    if not CGROUPS:
        assert "memory" in run_json("--", "true")["missing_walls"]
        return
    code = ("import os\nif os.fork() == 0:\n    x = bytearray(300 << 20)\n    os._exit(0)\n"
            "print(os.wait()[1])")
    result = run_json("--memory", "64m", *PY, code)
    assert (result["verdict"], result["stdout"]) == ("ok", "9\n")


# ---- CPU rate ----

BURN = ("import time, json\nw, c = time.monotonic(), time.process_time()\n"
        "while time.monotonic() - w < 1.5: pass\n"
        "print(json.dumps((time.process_time() - c) / (time.monotonic() - w)))")


@pytest.mark.alone # beside others a program that may have two CPUs has less than one that may have half a one
def test_cpu_rate():
    """R3.1: half a CPU is half a CPU, measured by the program itself."""
    if not CGROUPS:
        result = run_json("--cpus", "0.5", "--", "true")
        assert "cpus" in result["missing_walls"] and result["walls"]["cpus"]["note"]
        refused(run("--cpus", "0.5", "--require", "cpus", "--", "true"), 72, "cpus")
        return
    half = inside(BURN, "--cpus", "0.5")
    assert half < 0.6, half
    assert inside(BURN, "--cpus", "2") > half * 1.2


CLASS = "import os; print(os.sched_getscheduler(0))"


def in_class(policy):
    """What makes a child begin in it."""
    return lambda: os.sched_setscheduler(0, policy, os.sched_param(os.sched_get_priority_min(policy)))


def test_a_lower_class_of_the_caller_stays():
    assert inside(CLASS, preexec_fn=in_class(os.SCHED_BATCH)) == os.SCHED_BATCH


@only(ROOT)
@pytest.mark.parametrize("policy", [os.SCHED_FIFO, os.SCHED_RR])
def test_a_real_time_class_of_the_caller_does_not(policy):
    """No quota holds in it, although the wall is up."""
    control = subprocess.run(["/usr/bin/python3", "-c", CLASS], capture_output=True, timeout=60, preexec_fn=in_class(policy))
    assert int(control.stdout) == policy
    assert inside(CLASS, "--cpus", "0.5", preexec_fn=in_class(policy)) == os.SCHED_OTHER


# ---- processes ----

COUNT = ("import os, time, errno, json\nn, e = 1, None\nwhile n < 150 and not e:\n    try:\n"
         "        if os.fork() == 0: time.sleep(30); os._exit(0)\n        n += 1\n"
         "    except OSError as error: e = errno.errorcode[error.errno]\nprint(json.dumps([n, e]))")


@pytest.mark.parametrize("limit, found", [(1, [1, "EAGAIN"]), (10, [10, "EAGAIN"]),
                                          (64, [64, "EAGAIN"]), (200, [150, None])])
def test_pids_limit(limit, found):
    """That many processes and no more; the last row is the positive control."""
    assert inside(COUNT, "--pids", limit) == found


def test_pids_verdict():
    code = "import os, time\nwhile True:\n    if os.fork() == 0: time.sleep(30)"
    result = run_json("--pids", "12", *PY, code)
    if CGROUPS:
        assert (result["verdict"], result["limit"], result["pids_peak"]) == ("pids", "pids", 12)
    else:
        assert result["verdict"] in ("pids", "nonzero") and result["walls"]["pids"]["up"]


def test_threads_count_too():
    code = ("import threading, time, json\nn = 1\ntry:\n    while n < 200:\n"
            "        t = threading.Thread(target=time.sleep, args=(20,), daemon=True); t.start(); n += 1\n"
            "except RuntimeError: pass\nprint(json.dumps(n), flush=True)\nimport os; os._exit(0)")
    assert inside(code, "--pids", "20") == 20


# ---- disk ----

FILL = ("import os, errno, json\nn = 0\ntry:\n    with open('{0}/fill', 'wb', 0) as f:\n"
        "        while n < 64 << 20: n += f.write(bytes(65536))\n    e = None\n"
        "except OSError as error: e = errno.errorcode[error.errno]\nprint(json.dumps([n, e]))")


@pytest.mark.parametrize("place, flag", [("/workspace", "--disk"), ("/tmp", "--tmp-size"),
                                         ("/dev/shm", "--tmp-size")])
def test_disk_limit(place, flag):
    written, error = inside(FILL.format(place), flag, "4m")
    assert error == "ENOSPC" and 3 << 20 <= written <= 4 << 20
    assert inside(FILL.format(place), flag, "96m") == [64 << 20, None]


def test_disk_verdict():
    result = run_json("--disk", "1m", "--", "sh", "-c", "head -c 4m /dev/zero > big")
    assert (result["verdict"], result["limit"]) == ("disk", "disk")


MANY = ("import errno, json\nn = 0\ntry:\n    while n < 1000: open('{0}/%d' % n, 'x').close(); n += 1\n"
        "    e = None\nexcept OSError as error: e = errno.errorcode[error.errno]\nprint(json.dumps([n, e]))")


@pytest.mark.parametrize("place", ["/workspace", "/tmp", "/dev/shm"])
def test_inode_limit(place):
    made, error = inside(MANY.format(place), "--inodes", "100")
    assert error == "ENOSPC" and 80 <= made <= 100
    assert inside(MANY.format(place)) == [1000, None]


def test_no_writable_place_escapes_the_limits():
    """Every mount that takes a file has a size and an inode limit."""
    code = ("import os, json\nfound = {}\nfor line in open('/proc/self/mountinfo'):\n"
            "    at = line.split()[4]\n    try:\n        name = os.path.join(at, 'probe')\n"
            "        open(name, 'x').close(); os.unlink(name)\n    except OSError: continue\n"
            "    v = os.statvfs(at); found[at] = [v.f_blocks * v.f_frsize, v.f_files]\n"
            "print(json.dumps(found))")
    found = inside(code, "--disk", "8m", "--tmp-size", "2m", "--inodes", "500")
    assert found == {"/workspace": [8 << 20, 500], "/tmp": [2 << 20, 500], "/dev/shm": [2 << 20, 500]}


# ---- terminals ----

TERMINALS = ("import errno, json, os\nn = 0\ntry:\n    while n < 80: os.openpty(); n += 1\n    e = None\n"
             "except OSError as error: e = errno.errorcode[error.errno]\n"
             "mounted = [line.split()[4] for line in open('/proc/self/mountinfo') if ' - devpts ' in line]\n"
             "print(json.dumps([n, e, mounted, sorted({'ptmx', 'pts'} & set(os.listdir('/dev')))]))")


def test_no_terminals_unless_asked_for():
    """Kernel threads work on what is written to one, in no cgroup: CP-01 has the attack."""
    assert inside(TERMINALS) == [0, "ENOENT", [], []]


@pytest.mark.parametrize("count", [1, 2, 64])
def test_as_many_terminals_as_asked_for(count):
    assert inside(TERMINALS, "--ptys", count) == [count, "ENOSPC", ["/dev/pts"], ["ptmx", "pts"]]


def test_a_terminal_works():
    code = "import json, os, pty\nm, s = os.openpty(); os.write(m, b'x\\n'); print(json.dumps([os.isatty(s), os.read(s, 9).decode()]))"
    assert inside(code, "--ptys", 1) == [True, "x\n"]


@pytest.mark.parametrize("count", ["65", "-1", "none"])
def test_more_terminals_than_there_can_be(count):
    refused(run("--ptys", count, "--", "true"), 65, "ptys")


# ---- output ----

def test_output_limit_cuts_and_counts():
    """R1.3: what is past the limit is dropped, and the result says so."""
    script = "head -c 300000 /dev/zero; head -c 5000 /dev/zero >&2; exit 3"
    done = run("--output-limit", "10k", "--", "sh", "-c", script)
    assert (done.status, len(done.out), len(done.err)) == (3, 10240, 5000)
    result = run_json("--output-limit", "10k", "--", "sh", "-c", script)
    assert result["stdout_bytes_seen"] == 300000 and result["stdout_bytes_kept"] == 10240
    assert result["stdout_truncated"] and not result["stderr_truncated"]
    assert len(result["stdout"]) == 10240 and result["exit_code"] == 3
    assert result["walls"]["output_limit"]["value"] == "10240"


def test_output_at_the_limit_is_not_cut():
    result = run_json("--output-limit", "10k", "--", "head", "-c", "10240", "/dev/zero")
    assert not result["stdout_truncated"] and result["stdout_bytes_kept"] == 10240


def test_output_limit_of_zero():
    done = run("--output-limit", "0", "--", "echo", "x")
    assert (done.status, done.out) == (0, b"")


def test_output_limit_kills_when_asked():
    done = run("--output-limit", "10k", "--on-output-limit", "kill", "--", "yes")
    assert done.status == 137 and len(done.out) == 10240 and done.seconds < 5
    result = run_json("--output-limit", "10k", "--on-output-limit", "kill", "--", "yes")
    assert (result["verdict"], result["limit"]) == ("output", "output-limit")


def test_json_keeps_ten_megabytes():
    result = run_json("--", "head", "-c", "12000000", "/dev/zero")
    assert result["stdout_bytes_seen"] == 12000000 and result["stdout_truncated"]
    assert result["stdout_bytes_kept"] == 10 << 20 == len(result["stdout"])


# ---- rlimits ----

def test_nofile():
    code = ("import os, errno, json, resource\nn = 3\ntry:\n    while True: os.open('/dev/null', 0); n += 1\n"
            "except OSError as e: print(json.dumps([n, errno.errorcode[e.errno],"
            " resource.getrlimit(resource.RLIMIT_NOFILE)]))")
    for limit in (40, 8):  # the least that is taken
        assert inside(code, "--nofile", str(limit)) == [limit, "EMFILE", [limit, limit]]


def test_fsize():
    result = run_json("--fsize", "1m", *PY, "import resource\nopen('x', 'wb').write(bytes(3 << 20))")
    assert result["exit_status"] in (1, 128 + signal.SIGXFSZ)
    size = sh("head -c 3m /dev/zero > x; stat -c %s x", "--fsize", "1m")
    assert int(size) == 1 << 20
    assert int(sh("head -c 3m /dev/zero > x; stat -c %s x")) == 3 << 20


def test_rlimits_from_inside():
    code = ("import resource as r, json\nprint(json.dumps({n: r.getrlimit(getattr(r, 'RLIMIT_' + n)) for n in "
            "('NOFILE', 'CORE', 'MEMLOCK', 'FSIZE', 'RTPRIO', 'NICE', 'MSGQUEUE')}))")
    limits = inside(code, "--nofile", "77", "--fsize", "5m")
    assert limits["NOFILE"] == [77, 77] and limits["CORE"] == [1, 1]
    assert limits["FSIZE"] == [5 << 20, 5 << 20]
    assert limits["RTPRIO"] == limits["NICE"] == limits["MSGQUEUE"] == [0, 0]


# ---- what the kernel's own files say ----

FLAGS = ["--memory", "96m", "--swap", "0", "--cpus", "0.7", "--pids", "33", "--iops", "500"]


def rate(quota, period):
    """Thousandths of a CPU; without a quota all there are."""
    return CPUS * 1000 if quota.strip() in ("-1", "max") else 1000 * int(quota) // int(period)


def kernel_limits(pid):
    """Limits of a process's cgroup, in coto's units, from the files of this host."""
    where = cgroups_of(pid)
    if "memory" in where:  # v1
        memory, cpu, pids, io = (where[name] for name in ("memory", "cpu", "pids", "blkio"))
        limit = int(read(memory / "memory.limit_in_bytes"))
        found = {"memory": limit, "pids": int(read(pids / "pids.max")) - 1,
                 "cpus": rate(read(cpu / "cpu.cfs_quota_us"), read(cpu / "cpu.cfs_period_us")),
                 "iops": {int(line.split()[1]) for name in ("read", "write") for line in
                          read(io / f"blkio.throttle.{name}_iops_device").splitlines()}}
        memsw = memory / "memory.memsw.limit_in_bytes"
        found["swap"] = int(read(memsw)) - limit if memsw.exists() else 0
        return found
    group = where[""]
    quota, period = read(group / "cpu.max").split()
    words = dict(word.split("=") for word in read(group / "io.max").split()[1:] if "=" in word)
    return {"memory": int(read(group / "memory.max")), "swap": int(read(group / "memory.swap.max")),
            "cpus": rate(quota, period), "pids": int(read(group / "pids.max")) - 1,
            "iops": {int(words[name]) for name in ("riops", "wiops") if name in words}}


def test_limits_in_the_kernel():
    """The cgroup of the running program holds the numbers, and the result tells the same."""
    with running(*FLAGS, "--", *WAITER) as it:
        program = it.program()
        if CGROUPS:
            assert kernel_limits(program) == {"memory": 96 << 20, "swap": 0, "cpus": 700, "pids": 33,
                                              "iops": {500}}
            own = cgroups_of(os.getpid())
            for name, path in cgroups_of(program).items():
                if name in ("memory", "cpu", "pids", "blkio"):
                    assert path != own[name] and path.name.startswith("coto-"), path
        else:
            # Linux 5.14 and later count this per user namespace.
            row = next(line for line in read(f"/proc/{program}/limits").splitlines()
                       if line.startswith("Max processes"))
            assert row.split()[2:4] == ["34", "34"]
        assert all(cgroups_of(pid) == cgroups_of(program) for pid in descendants(it.init()))
    walls = run_json(*FLAGS, "--", "true")["walls"]
    said = {name: walls[name]["value"] for name in ("memory", "swap", "cpus", "pids", "iops")}
    if CGROUPS:
        assert said == {"memory": str(96 << 20), "swap": "0", "cpus": "700", "pids": "33", "iops": "500"}
        assert all("cgroup" in walls[name]["mechanism"] for name in said)
    else:
        assert said["pids"] == "33"
        assert not walls["memory"]["up"] and not walls["cpus"]["up"] and not walls["iops"]["up"]


def test_limits_from_inside_agree_with_the_result():
    flags = ["--disk", "7m", "--inodes", "300", "--nofile", "55", "--fsize", "3m"]
    code = ("import os, json, resource as r\nv = os.statvfs('/workspace')\n"
            "print(json.dumps({'disk': v.f_blocks * v.f_frsize, 'inodes': v.f_files, "
            "'nofile': r.getrlimit(r.RLIMIT_NOFILE)[1], 'fsize': r.getrlimit(r.RLIMIT_FSIZE)[1]}))")
    seen = inside(code, *flags)
    assert seen == {"disk": 7 << 20, "inodes": 300, "nofile": 55, "fsize": 3 << 20}
    walls = run_json(*flags, "--", "true")["walls"]
    assert {name: int(walls[name]["value"]) for name in seen} == seen


def test_swap_is_zero_by_default():
    wall = run_json("--memory", "64m", "--", "true")["walls"]["swap"]
    assert wall["up"] and wall["value"] == "0"


def test_none_is_no_limit():
    result = run_json("--memory", "none", "--cpus", "none", "--pids", "none", "--", "true")
    for name in ("memory", "cpus", "pids"):
        assert not result["walls"][name]["wanted"] and name not in result["missing_walls"]


# ---- limits that cannot be had (R3.5) ----

def test_missing_limits_are_named():
    result = run_json("--", "true")
    assert set(result["missing_walls"]) == (set() if ROOT else RESERVED)
    for name in result["missing_walls"]:
        assert result["walls"][name]["note"] and not result["walls"][name]["up"]


@pytest.mark.parametrize("wall", ["memory", "cpus", "unique_uid"])
def test_required_limit_or_refusal(wall):
    done = run("--require", wall, "--cpus", "0.5", "--", "echo", "ran")
    if ROOT or CGROUPS and wall != "unique_uid":
        assert (done.status, done.out) == (0, b"ran\n")
    else:
        refused(done, 72, wall)
        assert run_json("--require", wall, "--cpus", "0.5", "--", "true")["error"]["code"] == "wall_missing"


def test_require_all():
    done = run("--require", "all", "--", "echo", "ran")
    assert done.out == b"ran\n" if ROOT else refused(done, 72)


def test_host_without_cgroups():
    """With no cgroup to be had the limits are named as missing, or the run is refused."""
    hidden = ["unshare", *([] if ROOT else ["--user", "--map-current-user", "--keep-caps"]), "--mount",
              "sh", "-c", 'mount -t tmpfs none /sys/fs/cgroup && exec "$@"', "sh"]
    command = [*(hidden if CGROUPS else []), COTO, "run", "--json"]

    def start(*args):
        done = subprocess.run([*command, *args, "--", "true"], capture_output=True, timeout=20,
                              env=environment())
        return done.returncode, json.loads(done.stdout)

    status, result = start("--cpus", "0.5")
    assert status == 0 and {"memory", "cpus"} <= set(result["missing_walls"])
    assert all(result["walls"][name]["note"] for name in result["missing_walls"])
    assert result["walls"]["pids"]["up"]
    status, result = start("--require", "memory")
    assert status == 72 and result["error"]["code"] == "wall_missing"
    assert "memory" in result["error"]["message"] and result["error"]["remedy"]


# ---- what the kernel does not bound by itself ----

MANY_KILLS = """import os, time
for i in range(200):
    if os.fork() == 0:
        b = bytearray(100 << 20)
        os._exit(0)
    os.wait()
print("went on")"""


@only(CGROUPS)
def test_processes_that_the_memory_limit_ends_are_few():
    """Each one is a dozen lines in the host's log, under a name of the program's choice."""
    result = run_json("--memory", "64m", *PY, MANY_KILLS)
    assert (result["verdict"], result["limit"], result["exit_status"], result["stdout"]) == ("oom", "memory", 137, "")
    assert 8 < result["oom_kills"] < 100


@only(CGROUPS)
def test_a_few_are_told():
    result = run_json("--memory", "64m", *PY, MANY_KILLS.replace("200", "2"))
    assert (result["verdict"], result["oom_kills"], result["stdout"]) == ("ok", 2, "went on\n")


CONNECTIONS = """import os, socket, time
held = []
for child in range(8):
    if os.fork() == 0:
        held.append(socket.create_server(("127.0.0.1", 0), backlog=64))
        for i in range(400):
            held += [socket.create_connection(held[0].getsockname()), held[0].accept()[0]]
            held[-2].setblocking(False)
            try:
                while True: held[-2].send(bytes(60000))
            except OSError: pass
        time.sleep(60)
for child in range(8): os.wait()"""


LOCKS = """import fcntl, os, sys, time
files, each, procs = map(int, sys.argv[1:])
if procs > 1 and os.fork() == 0: os.fork()
held = [open(f"{os.getpid()}-{i}", "w") for i in range(files)]
for file in held:
    for at in range(each): fcntl.lockf(file, fcntl.LOCK_EX, 1, 2 * at)
print("held", flush=True)
time.sleep(2 if procs == 1 else 60)"""


@only(CGROUPS)
@pytest.mark.parametrize("procs", [1, 3])
def test_who_holds_very_many_locks_is_ended(procs):
    """No cgroup counts them: 80 MB here, with a memory limit of 64."""
    result = run_json("--memory", "64m", "--timeout", f"{30 * SLOW:g}s", *PY, LOCKS, "420", "1000", procs)
    assert (result["verdict"], result["limit"], result["stdout"].count("held")) == ("oom", "memory", 0), result


def test_who_holds_many_locks_is_not():
    result = run_json(*PY, LOCKS, "10", "1000", "1")
    assert (result["verdict"], result["stdout"]) == ("ok", "held\n"), result


@pytest.mark.parametrize("command", [36, 37, 38])
def test_locks_of_an_open_file_are_refused(command):
    """In a socket they would be seen by nobody who counts."""
    code = ("import fcntl, struct\nlock = struct.pack('hhqqi4x', fcntl.F_WRLCK, 0, 0, 1, 0)\n"
            f"try: fcntl.fcntl(open('x', 'w'), {command}, lock)\nexcept OSError as reason: print(reason.errno)")
    assert run_json(*PY, code)["stdout"] == "1\n"


@only(CGROUPS and os.path.isdir("/sys/fs/cgroup/memory"))
def test_buffers_of_connections_are_memory():
    """cgroup v1 counts them, and refuses none."""
    result = run_json("--memory", "128m", "--timeout", "20s", *PY, CONNECTIONS)
    assert (result["verdict"], result["limit"]) == ("oom", "memory")


# ---- output that somebody else holds ----

GIVE = """import array, socket, time
c = socket.socket(socket.AF_UNIX); c.connect("/s/k")
c.sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [1, 2]))])
print("given", flush=True)
time.sleep(60)"""


@pytest.mark.parametrize("flags", [[], ["--json"]])
def test_pipes_that_were_given_away_hold_nothing_up(tmp_path, flags):
    with socket.socket(socket.AF_UNIX) as holder:
        holder.bind(str(tmp_path / "k"))
        holder.listen()
        (tmp_path / "k").chmod(0o777)
        tmp_path.chmod(0o755)
        done = run(*flags, "--timeout", f"{SLOW:g}s", "--mount", f"{tmp_path}:/s:ro", *PY, GIVE)
    assert done.status == 124 and b"given" in done.out and done.seconds < 3 * SLOW, done


def test_a_program_does_not_make_its_reader_lose_output():
    """Packets (O_DIRECT) of a pipe are lost to a reader that takes less than one at once."""
    code = ("import fcntl, os\nfcntl.fcntl(1, fcntl.F_SETFL, fcntl.fcntl(1, fcntl.F_GETFL) | os.O_DIRECT)\n"
            "for i in range(5): os.write(1, b'line %d\\n' % i)")
    with subprocess.Popen([COTO, "run", *PY, code], env=environment(), stdout=subprocess.PIPE) as child:
        assert child.wait(60) == 0
        text = b""
        while byte := os.read(child.stdout.fileno(), 1):
            text += byte
    assert text == b"".join(b"line %d\n" % i for i in range(5))


def test_much_output_through_a_pipe_is_exact():
    """More than its reader takes at once, in pieces of any size."""
    code = "import sys\nfor i in range(300): sys.stdout.buffer.write(bytes([i % 251]) * (i * 997 % 70001))"
    with subprocess.Popen([COTO, "run", *PY, code], env=environment(), stdout=subprocess.PIPE) as child:
        text = bytearray()
        while piece := os.read(child.stdout.fileno(), 5000):
            text += piece
        assert child.wait(60) == 0
    assert text == b"".join(bytes([i % 251]) * (i * 997 % 70001) for i in range(300))
