"""FD, SG, PR, ME, LI, CP, CD, XS and verdicts: descriptors, signals, memory, neighbours."""
import json
import os
import resource
import socket
import subprocess
import time

import pytest

from cli.helpers import COTO, ROOT, inside, ok, run, run_json, running, sh

TRY = """
import ctypes, errno, json, os, resource, signal, socket, sys, time
def attempt(call, *args):
    try:
        call(*args)
        return "done"
    except OSError as reason:
        return errno.errorcode[reason.errno]
"""


def python(code, *flags, **more):
    return run_json(*flags, "--lang", "python", "-c", TRY + code, **more)


# ---- descriptors ----

def test_fd_01_fd_03_three_pipes_and_nothing_else():
    """The caller's own open files and sockets do not come along."""
    code = ("import json, os, stat\nfound = {}\nfor n in os.listdir('/proc/self/fd'):\n"
            "    try: found[n] = stat.S_ISFIFO(os.fstat(int(n)).st_mode)\n"
            "    except OSError: pass  # the listing's own\nprint(json.dumps(found))")
    one, two = socket.socketpair()
    with one, two, open("/etc/passwd") as file:
        fds = (one.fileno(), two.fileno(), file.fileno())
        assert inside(code, pass_fds=fds) == {"0": True, "1": True, "2": True}


THIEF = """
import os, sys, time
back = os.open("/proc/self/fd/1", os.O_RDONLY | os.O_NONBLOCK)
import fcntl
fcntl.fcntl(1, fcntl.F_SETFL, os.O_WRONLY | os.O_NONBLOCK | os.O_DIRECT)
fcntl.fcntl(1, 1031, 4096)
while True:
    try: os.write(1, b"abcd")
    except BlockingIOError: pass
    try: os.read(back, 4096)
    except BlockingIOError: pass
"""


@pytest.mark.parametrize("flags", [["--json"], []])
def test_fd_02_output_taken_back(flags):
    """What was announced is gone when the supervisor reads: it must not wait for it."""
    done = run(*flags, "--timeout", "700ms", "--lang", "python", "-c", THIEF)
    assert done.status == 124 and done.seconds < 5, done


def test_fd_02_standard_streams_by_name():
    done = run("--", "sh", "-c", "echo out > /dev/stdout; echo err > /dev/stderr; cat /dev/stdin", input="in")
    assert (done.status, done.out, done.err) == (0, b"out\nin", b"err\n"), done


def test_fd_02_writer_in_a_cycle():
    """Our pipes travel in sockets that hold each other: the run ends all the same."""
    code = ("import socket, array, os\na, b = socket.socketpair()\n"
            "for one in (a, b):\n    one.sendmsg([b'x'], [(socket.SOL_SOCKET, socket.SCM_RIGHTS,"
            " array.array('i', [1, 2, a.fileno(), b.fileno()]))])\nos._exit(3)")
    done = run("--lang", "python", "-c", code)
    assert done.status == 3 and done.seconds < 3, done


def test_fd_05_fd_06_own_descriptors():
    result = python("fds = []\ntry:\n    while True: fds.append(os.open('/dev/null', 0))\n"
                    "except OSError as e: n = e.errno\nfor fd in fds: os.close(fd)\nprint(n, flush=True)\n"
                    "for fd in (0, 1, 2): os.close(fd)\nfor _ in range(3): os.open('/workspace/f', 66)\n"
                    "print('into a file')", "--nofile", "64")
    assert (result["verdict"], result["stdout"]) == ("ok", "24\n")


@pytest.mark.parametrize("closed", ["0<&-", "1>&-", "2>&-", "0<&- 1>&- 2>&-"])
def test_fd_07_caller_without_streams(closed, tmp_path):
    out = tmp_path / "out"
    done = subprocess.run(["sh", "-c", f'exec {closed}; exec "$0" run --artifacts "$1" -- sh -c "'
                           'readlink /proc/self/fd/0 /proc/self/fd/1 > output/x; echo lost; exit 3"',
                           COTO, str(out)], timeout=20, capture_output=True, stdin=subprocess.DEVNULL)
    assert done.returncode == 3, done
    assert (out / "x").read_text().startswith("pipe:")


# ---- signals, limits of init ----

def test_sg_01_init_hears_nothing():
    result = python("print([attempt(os.kill, 1, n) for n in (9, 19, 17, 11, 15)],"
                    " attempt(os.kill, os.getpid(), 0))")
    assert (result["verdict"], result["stdout"]) == ("ok", f"{['EPERM'] * 5} done\n")


def test_sg_01_host_process_of_the_same_user():
    """Pids of the host name nobody inside."""
    bystander = subprocess.Popen(["sleep", "30"])
    try:
        result = python(f"print(attempt(os.kill, {bystander.pid}, 9), attempt(os.kill, -1, 0))",
                        "--pids", "8")
        assert result["stdout"].split()[0] == "ESRCH"
        assert bystander.poll() is None
    finally:
        bystander.kill()
        bystander.wait()


@pytest.mark.parametrize("name", ["DATA", "AS", "NOFILE", "FSIZE", "CPU"])
def test_li_01_limits_of_init(name, tmp_path):
    """Init has the program's uid, which is all prlimit asks for: with none of its memory
    or descriptors left it could not hand out artifacts. On a child of its own it works."""
    result = python("pid = os.fork()\nif pid == 0: time.sleep(9)\n"
                    f"what = resource.RLIMIT_{name}\nopen('output/a', 'w').write('kept')\n"
                    "def set(pid):\n    try:\n        resource.prlimit(pid, what, (0, 0)); return 'done'\n"
                    "    except PermissionError: return 'refused'\n"
                    "print(set(1), set(0) if what == resource.RLIMIT_FSIZE else 'done')")
    assert (result["verdict"], result["stdout"]) == ("ok", "refused done\n")
    assert [one["name"] for one in result["artifacts"]] == ["a"] and result["artifacts_skipped"] == 0


def test_li_02_cp_02_priorities():
    result = python("libc = ctypes.CDLL(None, use_errno=True)\n"
                    "print(attempt(os.nice, -5), attempt(os.sched_setaffinity, 1, {0}),"
                    " attempt(os.sched_setscheduler, 0, os.SCHED_FIFO, os.sched_param(1)),"
                    " attempt(os.sched_setscheduler, 0, os.SCHED_BATCH, os.sched_param(0)))")
    assert result["stdout"] == "EPERM EPERM EPERM done\n"


def test_cd_01_no_core(tmp_path):
    result = python("try: resource.setrlimit(resource.RLIMIT_CORE, (-1, -1)); print('raised')\n"
                    "except ValueError: print('refused', flush=True)\nos.abort()")
    assert (result["stdout"], result["signal"]) == ("refused\n", 6)
    assert result["artifacts"] == []


# ---- ends and verdicts ----

ENDS = {
    "PR-03 orphans are reaped": ("for i in range(200):\n    if os.fork() == 0:\n        os.fork(); os._exit(0)\n"
                                 "    os.wait()\ntime.sleep(0.1)\n"
                                 "sys.exit(len([p for p in os.listdir('/proc') if p.isdigit()]))", "nonzero", 2),
    "SG-04 kills all it can": ("os.fork()\nattempt(os.kill, -1, 9)\nos._exit(6)", None, None),
    "SG-05 sibling with another status": ("p = ctypes.CDLL(None).syscall(56, 0x8000 | 17, 0, 0, 0, 0)\n"
                                          "os._exit(77 if p == 0 else 3)", "nonzero", 3),
    "SG-05 main thread leaves first": ("import threading\nthreading.Thread(target=lambda: (time.sleep(.2),"
                                       " os._exit(8))).start()\nctypes.CDLL(None).syscall(60, 0)", "nonzero", 8),
    "own SIGXCPU is no time limit": ("os.kill(os.getpid(), signal.SIGXCPU)", "signal", 128 + 24),
    "own SIGKILL is no memory limit": ("os.kill(os.getpid(), signal.SIGKILL)", "signal", 137),
    "own 124 is no timeout": ("sys.exit(124)", "nonzero", 124),
}


@pytest.mark.parametrize("name", ENDS)
def test_ends(name):
    code, verdict, status = ENDS[name]
    began = time.monotonic()
    result = python(code, "--timeout", "1s", "--cpu-time", "20s")
    assert time.monotonic() - began < 4
    if verdict:
        assert (result["verdict"], result["exit_status"]) == (verdict, status), result
    else:
        assert result["verdict"] in ("nonzero", "signal") and result["exit_status"] in (6, 137)


def test_cpu_time_is_still_told():
    """The control of the row on SIGXCPU: time that is used up is a time limit."""
    result = run_json("--cpu-time", "1s", "--", "sh", "-c", "while :; do :; done")
    assert (result["verdict"], result["limit"]) == ("timeout", "cpu-time")


# ---- memory ----

HOGS = {
    "ME-01 anonymous": "b = bytearray(200 << 20)",
    "ME-02 shared anonymous": "import mmap\nm = mmap.mmap(-1, 200 << 20)\nfor i in range(0, 200 << 20, 4096): m[i] = 1",
    "ME-03 memfd": "fd = os.memfd_create('x')\nfor i in range(200): os.write(fd, bytes(1 << 20))",
    "ME-05 shm": ("fd = os.open('/dev/shm/x', 66)\nfor i in range(200): os.write(fd, bytes(1 << 20))"),
    "ME-02 SysV": ("c = ctypes.CDLL(None); c.shmat.restype = ctypes.c_void_p\n"
                   "i = c.shmget(0, ctypes.c_size_t(200 << 20), 0o1600)\n"
                   "ctypes.memset(c.shmat(i, None, 0), 1, 200 << 20)"),
    "ME-06 UNIX sockets": ("import socket\nkeep = []\nfor i in range(480):\n    a, b = socket.socketpair()\n"
                           "    a.setblocking(False); keep += [a, b]\n"
                           "    try:\n        while True: a.send(bytes(50000))\n"
                           "    except BlockingIOError: pass"),
}


# A cgroup is root's on most hosts; without one the result names the missing wall.
only_root = (lambda test: test) if ROOT else (lambda test: None)


@only_root
@pytest.mark.parametrize("name", HOGS)
def test_memory_of_every_kind_counts(name):
    flags = ["--memory", "48m", "--tmp-size", "300m"]
    small = python(HOGS[name] + "\nprint('held')", *flags)
    assert (small["verdict"], small["exit_status"], small["stdout"]) == ("oom", 137, ""), small
    large = python(HOGS[name] + "\nprint('held')", "--memory", "600m", "--tmp-size", "300m")
    assert large["verdict"] == "ok" and large["stdout"] == "held\n"


BUFFERS = """
s = socket.socket(); s.bind(("127.0.0.1", 0)); s.listen(100)
held, keep = 0, []
for i in range(40):
    c = socket.socket(); c.settimeout(1)
    try: c.connect(s.getsockname()); a, _ = s.accept()
    except OSError: break
    c.setblocking(False); keep += [c, a]
    try:
        while True: held += c.send(bytes(65536))
    except BlockingIOError: pass
print(held >> 20)
"""


@only_root
def test_me_06_buffers_of_tcp():
    """cgroup v1 leaves them out of the memory limit unless told otherwise."""
    small = python(BUFFERS, "--memory", "32m")
    assert small["verdict"] == "oom" or int(small["stdout"]) <= 32, small
    large = python(BUFFERS, "--memory", "4g")
    assert int(large["stdout"]) > 48, large


def test_me_06_terminals():
    """Their number is the host's: no sandbox gets them all."""
    result = python("n = 0\ntry:\n    while n < 500: os.open('/dev/ptmx', os.O_RDWR | os.O_NOCTTY); n += 1\n"
                    "except OSError as e: print(e.errno)\nprint(n)")
    assert result["stdout"] == "28\n64\n"


# ---- neighbours ----

LEAVE = """
import ctypes, os, socket, time
for place in ("/tmp", "/var/tmp", "/dev/shm", "/workspace", "/workspace/output"):
    open(place + "/left-here", "w").write("x")
ctypes.CDLL(None).shmget(4242, 4096, 0o1666)
s = socket.socket(socket.AF_UNIX); s.bind("\\0left-here"); s.listen()
t = socket.socket(); t.bind(("127.0.0.1", 45454)); t.listen()
print("ready", flush=True); input()
"""
LOOK = """
found = [p for p in ("/tmp", "/var/tmp", "/dev/shm", "/workspace", "/workspace/output")
         if os.path.exists(p + "/left-here")]
if ctypes.CDLL(None).shmget(4242, 4096, 0) >= 0: found.append("shm")
u = socket.socket(socket.AF_UNIX)
if attempt(u.connect, "\\0left-here") == "done": found.append("abstract")
if attempt(socket.socket().connect, ("127.0.0.1", 45454)) == "done": found.append("loopback")
print(json.dumps([found, len([p for p in os.listdir("/proc") if p.isdigit()]), os.uname().nodename]))
"""


def test_xs_01_02_03_07_08_09_ne_07_neighbours():
    with running("--lang", "python", "-c", LEAVE):
        here = json.loads(python(LOOK)["stdout"])
    after = json.loads(python(LOOK)["stdout"])
    assert here == after == [[], 2, "coto"]


def test_xs_control():
    """In one sandbox all of it is found: the look works."""
    both = LEAVE.replace("input()", "") + TRY + LOOK
    found = json.loads(ok(run("--lang", "python", "-c", both)).decode().splitlines()[1])
    assert len(found[0]) == 8, found


def test_ne_07_ne_08_host_sockets():
    with socket.socket() as tcp, socket.socket(socket.AF_UNIX) as local:
        tcp.bind(("127.0.0.1", 0))
        tcp.listen()
        name = "\0coto-host-%d" % os.getpid()
        local.bind(name)
        local.listen()
        code = (f"print(attempt(socket.socket().connect, ('127.0.0.1', {tcp.getsockname()[1]})),"
                f" attempt(socket.socket(socket.AF_UNIX).connect, {name!r}),"
                " attempt(socket.socket().connect, ('169.254.169.254', 80)),"
                " attempt(socket.socket().connect, ('10.0.0.1', 80)))")
        assert python(code)["stdout"] == "ECONNREFUSED ECONNREFUSED ENETUNREACH ENETUNREACH\n"
        with socket.create_connection(tcp.getsockname()), socket.socket(socket.AF_UNIX) as control:
            control.connect(name)


def test_fd_limit_of_this_process_is_untouched():
    """Nothing a program does reaches the caller's own limits."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    sh("ulimit -n 8; true")
    assert resource.getrlimit(resource.RLIMIT_NOFILE) == before


def test_me_06_inotify_instances():
    """They count for the host user who made the sandbox, who must keep most of them."""
    result = python("c = ctypes.CDLL(None, use_errno=True)\nn = 0\nwhile n < 500 and c.inotify_init1(0) >= 0: n += 1\n"
                    "print(n, errno.errorcode[ctypes.get_errno()])")
    assert result["stdout"] == "8 EMFILE\n"


def test_sg_03_queued_signals():
    """So do queued signals: a full queue would keep the host's root from making timers."""
    result = python("signal.pthread_sigmask(signal.SIG_BLOCK, {40})\nc = ctypes.CDLL(None)\nn = 0\n"
                    "while n < 9999 and c.sigqueue(os.getpid(), 40, None) == 0: n += 1\nprint(n)")
    assert result["stdout"] == "1024\n"
