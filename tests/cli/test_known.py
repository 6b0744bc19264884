"""What SECURITY.md calls known and not mended: that it is so, and that what is said to help does."""
import fcntl
import subprocess

import pytest

from .helpers import COTO, ROOT, WAITER, environment, inside, make_rootfs, only, running

FLUSH = """
import errno, os
def flush(call, fd):
    try:
        call(fd)
        return 0
    except OSError as error:
        return error.errno
fd = os.open("/usr/bin/env", os.O_RDONLY)
read, _ = os.pipe()
out = [flush(os.fsync, fd), flush(os.fdatasync, fd), flush(os.fsync, read) == errno.EINVAL]
"""
SAY = "\nprint(__import__('json').dumps(out))"


def test_a_flush_of_a_file_of_usr_is_let_through():
    """The kernel's answer for a pipe shows that the filter answers neither."""
    assert inside(FLUSH + SAY) == [0, 0, True]


CONNECT = """
import json, select, socket, time
listener = socket.socket(); listener.bind(("127.0.0.1", 0)); listener.listen(4096)
out, made = 0, []
try:
    for _ in range(200):
        made.append(socket.socket()); made[-1].setblocking(False); made[-1].connect_ex(listener.getsockname())
except OSError:
    pass
time.sleep(0.3)
if made and made[-1].fileno() < 0: made.pop()
out = sum(not s.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) for s in select.select([], made, [], 0)[1])
"""


def outside(code):
    space = {}
    exec(code, space)  # noqa: S102: this file's own text
    for each in space["made"] + [space["listener"]]:
        each.close()
    return space["out"]


CLOSED = """
import socket
listener = socket.create_server(("127.0.0.1", 0))
for _ in range(9000):
    with socket.create_connection(listener.getsockname()): there = listener.accept()[0]
    there.close()
out = int(open("/proc/net/sockstat").read().split(" tw ")[1].split()[0])
"""


def test_connections_that_were_closed_are_few():
    """The kernel remembers them for a minute, with no descriptor and in no limit."""
    assert 7000 < inside(CLOSED + SAY) <= 8192


@pytest.mark.parametrize("flags, least, most", [((), 60, 66), (("--nofile", "40"), 10, 40)])
def test_connections_that_nobody_accepts_are_few(flags, least, most):
    """As many as one listener holds, and fewer with fewer descriptors; the host lets all 200 wait."""
    assert least <= inside(CONNECT + SAY, *flags) <= most
    backlog = int(open("/proc/sys/net/core/somaxconn").read())
    assert outside(CONNECT) >= min(200, backlog)


LOCK = "exec 9</bin/cat && flock -s 9 && echo ready && exec sleep 60"


def is_locked(path):
    with open(path) as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


@pytest.mark.parametrize("has_root", [False, True])
def test_a_lock_on_a_file_of_usr_is_met_on_the_host(has_root, tmp_path):
    """And not with a root of its own, where it is the copy that is locked."""
    root = make_rootfs(tmp_path / "root", ("/bin/sh", "/bin/cat", "/bin/sleep", "/usr/bin/flock"))
    with running(*(["--rootfs", root] if has_root else []), "--", "sh", "-c", LOCK):
        assert (is_locked("/bin/cat"), is_locked(root / "bin/cat")) == (not has_root, has_root)


if ROOT:
    @pytest.mark.parametrize("setting", ["relatime", "noatime"])
    def test_access_times_of_usr_are_kept_as_the_host_has_them(setting):
        """In a mount namespace of the test's own; the host's mount stays as it is."""
        script = f'mount --bind /usr /usr && mount -o remount,bind,{setting} /usr && exec "$@"'
        look = "sed -n 's/.* \\/usr \\([^ ]*\\).*/\\1/p' /proc/self/mountinfo"
        done = subprocess.run(["unshare", "-m", "sh", "-c", script, "sh", COTO, "run", "--", "sh", "-c", look],
                              capture_output=True, text=True, env=environment(), timeout=60)
        assert setting in done.stdout.strip().split(","), done


@only(ROOT)
def test_only_a_limit_of_cpus_is_a_group_of_processor_time():
    """Without one the kernel divides between sessions, of which a program may begin any number."""
    def group(*flags):
        with running(*flags, "--", *WAITER) as it:
            rows = [line.strip().split(":") for line in open(f"/proc/{it.program()}/cgroup")]
        return [path for _, names, path in rows if "cpu" in names.split(",") and "coto-" in path]
    assert not group("--cpus", "none") and group("--cpus", "0.5")
    assert inside("import os\nfirst = open('/proc/self/autogroup').read()\nif os.fork() == 0:\n    os.setsid()\n"
                  "    open('later', 'w').write(open('/proc/self/autogroup').read())\n    os._exit(0)\nos.wait()\n"
                  "out = open('later').read() != first" + SAY), "a session is a share"
