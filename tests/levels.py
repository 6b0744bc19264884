"""Levels of isolation for the suites that run at each: a name, the flags that choose it, the
programs it needs, and what holds there by its nature."""
import os
import shutil

import engine


class Level:
    def __init__(self, name, isolation, flags=(), programs=(), env=None, guest_kernel=False,
                 as_user=True, prepare=dict, leaves_out=(), find_init=None):
        self.name, self.isolation, self.flags = name, isolation, list(flags)
        self.programs, self.env = programs, env or {}
        self.guest_kernel = guest_kernel  # programs run on a kernel of the level's own
        self.as_user = as_user  # works without root
        self.prepare = prepare  # brings about what it needs; more environment
        self.leaves_out = leaves_out  # cases that another level of the same driver has shown
        self.find_init = find_init  # a sandbox's first process, when coto did not start it

    @property
    def command_flags(self):
        return ["--isolation", self.isolation, *self.flags]

    def is_here(self):
        path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin"
        return (os.geteuid() == 0 or self.as_user) and \
            all(shutil.which(name, path=path) for name in self.programs)


# What is between coto, coto-docker and the engine, whatever the runtime: docker+runc shows it.
OF_THE_SUPERVISOR = {"test_much_output", "test_output_limit_cuts", "test_output_limit_kills", "test_slow_reader",
                     "test_reader_that_goes_away", "test_exit_status", "test_output_in_the_result",
                     "test_stdin_is_empty", "test_code_file"}


def of_engine():
    return engine.engine().env


def init_of_container(started):
    """The first process of the container whose coto-docker is among those."""
    for item in engine.engine().containers():
        owner = item["Labels"].get("coto.owner", "").split()
        if owner and int(owner[1]) in started:
            return engine.engine().call("GET", f"/containers/{item['Id']}/json")[1]["State"]["Pid"]
    raise AssertionError(f"no container of {started}")


# Debian 12's runc lacks fixes of 2025 that its containers here cannot reach; the policy names it.
LEVELS = [
    Level("process", "process"),
    Level("process, frames", "process", env={"COTO_TEST_FRAMES": "1"}),
    Level("subprocess", "subprocess"),
    Level("oci+runc", "container", ["--runtime", "runc", "--allow-runtime", "runc"], ["runc"],
          as_user=False),
    Level("oci+runsc", "container", ["--runtime", "runsc"], ["runsc"], guest_kernel=True),
    Level("docker+runc", "docker", ["--image", engine.IMAGE, "--runtime", "runc", "--allow-runtime", "runc"],
          engine.PROGRAMS, as_user=False, prepare=of_engine, find_init=init_of_container),
    Level("docker+runsc", "docker", ["--image", engine.IMAGE, "--runtime", "runsc"], [*engine.PROGRAMS, "runsc"],
          guest_kernel=True, as_user=False, prepare=of_engine, find_init=init_of_container,
          leaves_out=OF_THE_SUPERVISOR),
]


def level(name):
    return next(item for item in LEVELS if item.name == name)


def here():
    """The level that COTO_TEST_LEVEL names, for suites that run at one of them; None: the default."""
    name = os.environ.get("COTO_TEST_LEVEL")
    return level(name) if name else None
