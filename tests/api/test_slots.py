"""What a sandbox's first process borrows of the launcher until it is coto-init: descriptors, which it must not keep, and
a stack."""
import concurrent.futures
import os
import pathlib
import subprocess
import sys

import pytest

from cli.helpers import descendants, only

from .daemon import Daemon
from .helpers import ROOT, wait_until

OWN = {"resource_limits": {"memory_mb": 200}}


@pytest.fixture(scope="module")
def service():
    with Daemon() as it:
        yield it
        assert it.stop() == 0, it.messages


def fds(pid):
    found = []
    for link in pathlib.Path(f"/proc/{pid}/fd").iterdir():
        try:
            found.append(os.readlink(link).split(":")[0])
        except OSError:
            pass  # it was the listing's own
    return found


def new_init(service, make):
    before = set(descendants(service.launcher))
    box = make()["sandbox_id"]
    inits = [pid for pid, row in descendants(service.launcher).items() if row[1].startswith("coto-init") and pid not in before]
    assert len(inits) == 1, inits
    return box, inits[0]


def settled(service):
    """Descriptors of the launcher when as many sandboxes wait as are to."""
    wait_until(lambda: all(f"\ncoto_pool_{word} 5\n" in service.get("/metrics").body.decode() for word in ("ready", "target")), "a full pool")
    return len(fds(service.launcher))


def destroy(service, *boxes):
    for box in boxes:
        assert service.delete(f"/api/v1/sandbox/{box}").status < 300


@only(ROOT)  # an ordinary user does not see what an undumpable process has open
def test_descriptors_of_others_stay_where_they_are(service):
    """The hundredth has as many as the first, and when all are gone the launcher has as many as before."""
    counts = []
    for _ in range(3):
        first, init = new_init(service, lambda: service.create(**OWN))
        few, before = sorted(fds(init)), len(fds(service.launcher))
        boxes = [service.create(**OWN)["sandbox_id"] for _ in range(100)]
        assert len(fds(service.launcher)) >= before + 100, "control: it has some for each"
        last, init = new_init(service, lambda: service.create(**OWN))
        assert sorted(fds(init)) == few
        destroy(service, first, last, *boxes)
        counts.append(settled(service))
    assert counts[2] <= counts[1] + 5, counts


KILLER = """
import os, sys
path, known = "/proc/%s/task/%s/children" % (sys.argv[1], sys.argv[1]), None
while True:
    now = set(open(path).read().split())
    for pid in now - (known or now):
        try:
            early = open("/proc/%s/comm" % pid).read().startswith("coto-launch")
            os.kill(int(pid), 9)
            print("early" if early else "late", flush=True)
        except OSError:
            pass
    known = now
"""


def test_one_that_dies_before_it_is_init(service):
    """Its caller is told so; nobody waits for ever, and nothing of it is left."""
    with subprocess.Popen([sys.executable, "-c", KILLER, str(service.launcher)], stdout=subprocess.PIPE, text=True) as killer:
        with concurrent.futures.ThreadPoolExecutor(4) as makers:
            answers = list(makers.map(lambda _: service.post("/api/v1/sandbox/create", **OWN), range(200)))
        killer.kill()
        killed = killer.stdout.read().split()
    assert {reply.status for reply in answers} <= {201, 503}, {(reply.status, reply.json.get("message")) for reply in answers}
    assert {"early", "late"} <= set(killed), killed
    destroy(service, *(reply.json["sandbox_id"] for reply in answers if reply.status == 201))
    wait_until(lambda: service.run("print(7)").json.get("stdout") == "7\n", "a program that runs")
