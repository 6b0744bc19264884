"""ME, XS and NE: memory, neighbours."""
import json
import os
import socket

import pytest

from cli.helpers import ROOT, ok, run, run_json, running

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


def test_me_06_inotify_instances():
    """They count for the host user who made the sandbox, who must keep most of them."""
    result = python("c = ctypes.CDLL(None, use_errno=True)\nn = 0\nwhile n < 500 and c.inotify_init1(0) >= 0: n += 1\n"
                    "print(n, errno.errorcode[ctypes.get_errno()])")
    assert result["stdout"] == "8 EMFILE\n"


