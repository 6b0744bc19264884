"""coto at the docker level, and what is on the host because of it."""
import contextlib
import os
import pathlib
import random
import signal
import subprocess
import time

import engine
from cli.helpers import COTO, environment, run, run_json

# Debian 12's runc lacks fixes of 2025 and later; the policy names it.
FLAGS = ("--isolation", "docker", "--image", engine.IMAGE, "--allow-runtime", "runc")


def on(docker, *args, **more):
    return run(*FLAGS, *args, env=docker.env, **more)


def result_on(docker, *args, **more):
    return run_json(*FLAGS, *args, env=docker.env, **more)


def pids_with(word):
    """Processes of the host with that word among their arguments; coto's own left out."""
    found = []
    for entry in pathlib.Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            arguments = (entry / "cmdline").read_bytes().split(b"\0")
            alive = (entry / "stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
            if word.encode() in b" ".join(arguments) and arguments[0] != COTO.encode() and alive:
                found.append(int(entry.name))
    return found


def wait_for(question, seconds=20):
    end = time.monotonic() + seconds
    while not (answer := question()) and time.monotonic() < end:
        time.sleep(0.05)
    return answer


class Sleeping:
    """A coto whose program sleeps a number of seconds that nobody else does."""

    def __init__(self, docker, *flags, env=None):
        self.marker = f"67.{random.randrange(10**9):09}"
        self.process = subprocess.Popen(
            [COTO, "run", *FLAGS, *map(str, flags), "--", "sh", "-c", f"echo up; sleep {self.marker}"],
            env=environment(env or docker.env), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE)
        line = self.process.stdout.readline()
        assert line == b"up\n", self.process.communicate(timeout=30)

    def helper(self):
        """Its coto-docker."""
        children = pathlib.Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        found = [int(pid) for pid in children
                 if pathlib.Path(f"/proc/{pid}/comm").read_text().strip() == "coto-docker"]
        assert len(found) == 1, children
        return found[0]

    def ends(self, seconds=30):
        """(status, message) once it has."""
        _, err = self.process.communicate(timeout=seconds)
        return self.process.returncode, err.decode()

    def is_gone(self):
        return wait_for(lambda: not pids_with(self.marker))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
        with contextlib.suppress(subprocess.TimeoutExpired, ValueError):
            self.process.communicate(timeout=30)
        for pid in pids_with(self.marker):  # of a broken promise
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
