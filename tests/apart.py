#!/usr/bin/python3
"""A run of tests beside other users of the machine: in cgroups and a mount namespace of its own, so
that checks for what is left behind see all that the run has made and nothing else. As a program,
apart.py COMMAND..., it runs the command so.

coto and runtimes make their groups below the caller's own, in every hierarchy of cgroup v1. Where there is only v2
root's groups are at the top, beside everybody's: there whose they are is told by who lives in them (cli/conftest.py).
"""
import atexit
import contextlib
import ctypes
import os
import re
import signal
import subprocess
import sys
import time

TOP = "/sys/fs/cgroup"
NAME = "apart-tests-"
CLONE_NEWNS, MS_REC, MS_PRIVATE = 0x20000, 0x4000, 1 << 18
PR_SET_PDEATHSIG = 1


def own_groups():
    """This process's directory in each hierarchy; none where v2 is all there is."""
    if os.path.exists(f"{TOP}/cgroup.controllers"):
        return []
    places = []
    for line in open("/proc/self/cgroup"):
        _, names, path = line.rstrip("\n").split(":", 2)
        mount = names.removeprefix("name=") or "unified"
        place = f"{TOP}/{mount}{path.rstrip('/')}"
        if os.path.isdir(place):
            places.append(place)
    return places


def is_apart():
    return any(f"/{NAME}" in place for place in own_groups())


def cgroup_places():
    """Below which all is that this run can have made."""
    return own_groups() if is_apart() else [TOP]


def write(path, text):
    with open(path, "w") as file:
        file.write(text)


def read(path):
    with open(path) as file:
        return file.read()


def sweep(place):
    """Groups of runs that were killed."""
    for entry in os.scandir(place):
        found = re.fullmatch(NAME + r"(\d+)", entry.name)
        if found and not os.path.exists(f"/proc/{found[1]}"):
            remove(entry.path)


def remove(top, seconds=5):
    """What has just ended is in it for a moment longer; whoever lives in it keeps it."""
    end = time.monotonic() + seconds
    while os.path.isdir(top):
        for path, _, _ in os.walk(top, topdown=False):
            with contextlib.suppress(OSError):
                os.rmdir(path)
        if time.monotonic() > end:
            return
        time.sleep(0.01)


def join_new(place):
    group = f"{place}/{NAME}{os.getpid()}"
    os.mkdir(group)
    for name in ("cpuset.cpus", "cpuset.mems"):  # without these nobody can join
        if os.path.exists(f"{group}/{name}"):
            write(f"{group}/{name}", read(f"{place}/{name}"))
    with contextlib.suppress(OSError):  # nor take on a real-time class; groups share what there is of it
        write(f"{group}/cpu.rt_runtime_us", str(int(read(f"{place}/cpu.rt_runtime_us")) // 8))
    write(f"{group}/cgroup.procs", str(os.getpid()))


def leave(places):
    for place in places:
        write(f"{place}/cgroup.procs", str(os.getpid()))
        remove(f"{place}/{NAME}{os.getpid()}")


def own_mounts():
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(CLONE_NEWNS) or libc.mount(None, b"/", None, MS_REC | MS_PRIVATE, None):
        raise OSError(ctypes.get_errno(), "a mount namespace of the tests' own")


def enter():
    """For root, and once; what was made goes when this process ends."""
    if os.geteuid() or is_apart():
        return
    places = own_groups()
    atexit.register(leave, places)
    for place in places:
        sweep(place)
        join_new(place)
    own_mounts()


def end_with_parent():
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


if __name__ == "__main__":
    enter()
    sys.exit(abs(subprocess.run(sys.argv[1:], preexec_fn=end_with_parent).returncode))
