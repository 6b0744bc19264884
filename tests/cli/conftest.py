"""Every test ends with the host as it was: no process, cgroup, mount, key or file stays."""
import ctypes
import glob
import os
import signal
import time

import pytest

from .helpers import SLOW, cgroup_directories, descendants, parents

PR_SET_CHILD_SUBREAPER = 36
# Sandboxes of root have host uids from here on; keys of theirs show in key-users.
SANDBOX_UIDS = 0x70000000
SECONDS = 2.0


def pytest_sessionstart():
    """Orphans of a killed coto become our children, so none escapes the count."""
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def mounts():
    with open("/proc/self/mountinfo") as file:
        found = {line.split(" - ")[0].split(" ", 2)[2].rsplit(" shared", 1)[0] for line in file}
    return {line for line in found if "/coto-test-docker-" not in line}  # an engine's, of the tests


def temporaries():
    places = {"/tmp", os.environ.get("TMPDIR", "/tmp")}
    return {path for place in places for path in glob.glob(place + "/coto-*")
            if not os.path.basename(path).startswith("coto-test-")}


def sandbox_keys():
    with open("/proc/key-users") as file:
        return {line.split(":")[0].strip() for line in file
                if int(line.split(":")[0]) >= SANDBOX_UIDS}


def is_somebody_elses(path):
    """A live coto that we did not start owns it (cgroups are called coto-PID-ID), or it
    holds processes that we did not start: orphans of our own are our children, and
    those of another pid namespace are listed as 0."""
    word = os.path.basename(path).split("-")[1]
    mine = descendants(os.getpid())
    if word.isdigit() and int(word) in parents() and int(word) not in mine:
        return True
    try:
        with open(os.path.join(path, "cgroup.procs")) as file:
            return any(int(line) not in mine for line in file)
    except OSError:
        return False


def somebody_else_runs_coto():
    mine = descendants(os.getpid())
    return any(row[1].startswith("coto") and pid not in mine for pid, row in parents().items())


def is_surely_ours(path):
    """Names carry no pid: next to a live coto of somebody else they may be its, but for those in a directory of our own, and
    those of another user are not ours."""
    own = os.environ.get("TMPDIR", "/tmp")
    if own != "/tmp" and path.startswith(own + "/"):
        return True
    try:
        uid = os.stat(path, follow_symlinks=False).st_uid
    except OSError:
        return False
    is_ours = uid == os.geteuid() or not os.geteuid() and uid >= SANDBOX_UIDS
    return is_ours and not somebody_else_runs_coto()


class Host:
    """What of coto is on this host now."""

    def __init__(self):
        self.processes = {pid: row[1] for pid, row in descendants(os.getpid()).items()
                          if row[2] != "Z"}
        self.cgroups = cgroup_directories()
        self.mounts = mounts()
        self.files = temporaries()
        self.keys = sandbox_keys()

    def added(self, before):
        more = {
            "processes": {pid: name for pid, name in self.processes.items()
                          if pid not in before.processes},
            "cgroups": {path for path in self.cgroups - before.cgroups
                        if not is_somebody_elses(path)},
            "mounts": self.mounts - before.mounts,
            "files": {path for path in self.files - before.files if is_surely_ours(path)},
            "keys": self.keys - before.keys,
        }
        return {name: found for name, found in more.items() if found}


def reap():
    """Orphans that came to us and have ended."""
    for pid, row in descendants(os.getpid()).items():
        if row[0] == os.getpid() and row[2] == "Z":
            try:
                os.waitpid(pid, os.WNOHANG)
            except ChildProcessError:
                pass


def still_there(left, added):
    """Processes are all our own and may fork; of the rest only what was there before."""
    now = {kind: found if kind == "processes" else found & left.get(kind, set())
           for kind, found in added.items()}
    return {kind: found for kind, found in now.items() if found}


def left_after(before, seconds=SECONDS):
    """What is left is there at every look; what others make meanwhile comes and goes."""
    end = time.monotonic() + seconds
    left = Host().added(before)
    while left and time.monotonic() < end:
        time.sleep(0.05)
        left = still_there(left, Host().added(before))
    return left


def end_processes(pids):
    """What stayed must not be found again by the next test. All are our own descendants."""
    for pid in set(pids) & set(descendants(os.getpid())):
        try:
            os.kill(pid, signal.SIGKILL)
        except OSError:
            pass


@pytest.fixture(autouse=True)
def leftovers():
    before = Host()
    yield lambda seconds=SECONDS: left_after(before, seconds)
    added = left_after(before, SECONDS * SLOW)
    end_processes(added.get("processes", ()))
    reap()
    assert not added, f"left behind: {added}"
