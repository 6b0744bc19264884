"""A sandbox that was made while its caller waited has no interpreter until a program comes for one; and never one
where another program has run before."""
import os
import signal
import threading

import pytest

from cli.helpers import descendants

from .daemon import Daemon
from .helpers import wait_until
from .test_execute import LOOK
from .test_template import FILTERS, NAME, WARM, execute, template

# None like it is kept ready.
OWN = {"resource_limits": {"memory_mb": 200}}
INTERPRETERS = "python3"


@pytest.fixture(scope="module")
def service():
    with Daemon() as it:
        wait_until(lambda: template(it), "a template")
        yield it
        assert it.stop() == 0, it.messages


def parked(service):
    return int(service.get("/metrics").body.decode().split("\ncoto_sandboxes_parked_total ")[1].split()[0])


def inside(service, before):
    """Names of the processes of the only sandbox that has come since, without its init."""
    table = descendants(service.launcher)
    inits = [pid for pid, row in table.items() if row[1].startswith("coto-init") and pid not in before]
    assert len(inits) == 1, table
    return [row[1] for row in descendants(inits[0]).values()]


class Held:
    """A sandbox that nobody kept ready, and what is in it."""

    def __init__(self, service, **more):
        self.service, self.before = service, set(descendants(service.launcher))
        self.id = service.create(**{**OWN, **more})["sandbox_id"]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        assert self.service.delete(f"/api/v1/sandbox/{self.id}").status < 300

    def inside(self):
        return inside(self.service, self.before)

    def execute(self, code, **more):
        return execute(self.service, self.id, code, **more)


@pytest.fixture
def box(service):
    with Held(service) as it:
        yield it


def test_it_comes_with_the_first_program(service, box):
    count = parked(service)
    assert box.inside() == []
    first = box.execute(f"x = 41\n{FILTERS}")
    assert (first["output"], first["state_kept"], first["state_found"]) == (WARM, True, False), first
    assert [name.startswith(INTERPRETERS) for name in box.inside()] == [True]
    assert parked(service) == count + 1
    second = box.execute("print(x + 1)")
    assert (second["output"], second["state_found"]) == ("42\n", True), second


def test_it_is_a_copy_like_any_other(service, box):
    assert box.execute(NAME)["output"] == service.run(NAME).json["stdout"]
    assert box.execute(LOOK)["output"] == box.execute(LOOK, cold=True)["output"] == \
        service.run(LOOK, **OWN).json["stdout"].replace("/main.py", "/coto-main.py")


@pytest.mark.parametrize("first", [{"code": "true", "language": "bash"}, {"code": "pass", "cold": True}], ids=("another language", "cold"))
def test_none_comes_where_another_program_has_run(service, box, first):
    """Its state is kept all the same, by one that was started inside."""
    count = parked(service)
    assert box.execute(**first)["verdict"] == "ok"
    done = box.execute(f"x = 41\n{FILTERS}")
    assert (done["output"] != WARM, done["state_kept"]) == (True, True), done
    assert box.execute("print(x + 1)")["output"] == "42\n"
    assert parked(service) == count


def test_none_comes_for_files(service, box):
    assert service.ask("PUT", f"/api/v1/sandbox/{box.id}/files?path=a.txt", b"text").status < 300
    assert box.inside() == []
    assert box.execute("print(open('a.txt').read())")["output"] == "text\n"


def test_a_background_process_of_another_language_does_not_meet_one(service, box):
    """What it left is still there when the Python program comes: that one is started inside, behind all walls."""
    count = parked(service)
    assert box.execute("sleep 100 >/dev/null 2>&1 &", language="bash")["verdict"] == "ok"
    assert box.execute("print(7)")["output"] == "7\n"
    assert parked(service) == count


def test_a_new_front_finds_it_as_it_was(service):
    with Held(service) as box:
        service.kill_front()
        wait_until(service.is_ready, "a new front")
        assert box.inside() == []
        assert box.execute(FILTERS)["output"] == WARM


def test_without_a_template_it_is_started_inside(service):
    """The one it would be a copy of dies while it is asked."""
    with Held(service) as box:
        pid = template(service)[0]
        os.kill(pid, signal.SIGSTOP)
        done = []
        thread = threading.Thread(target=lambda: done.append(box.execute("x = 1\nprint(7)")))
        thread.start()
        thread.join(0.5)
        assert done == []
        os.kill(pid, signal.SIGKILL)
        thread.join(60)
        assert (done[0]["output"], done[0]["state_kept"]) == ("7\n", True), done
        assert box.execute("print(x)")["output"] == "1\n"
    wait_until(lambda: service.run(FILTERS, **OWN).json["stdout"] == WARM, "another template")


def test_a_template_that_hangs_is_replaced(service):
    """Whoever waits for a copy of it is served by another, or started inside, before long."""
    with Held(service) as box:
        pid = template(service)[0]
        os.kill(pid, signal.SIGSTOP)
        assert box.execute("print(7)")["output"] == "7\n"
    wait_until(lambda: service.run(FILTERS, **OWN).json["stdout"] == WARM, "another template")
    assert template(service) != [pid]


def test_one_that_ends_meanwhile(service):
    """Destroyed while its interpreter is on its way, or waits for a template that has no time."""
    pid = template(service)[0]
    os.kill(pid, signal.SIGSTOP)
    threads = []
    for _ in range(3):
        box = service.create(**OWN)["sandbox_id"]
        threads.append(threading.Thread(target=service.post, args=(f"/api/v1/sandbox/{box}/execute",), kwargs={"code": "print(7)"}))
        threads[-1].start()
        threads[-1].join(0.2)
        assert service.delete(f"/api/v1/sandbox/{box}").status < 300
    os.kill(pid, signal.SIGCONT)
    for thread in threads:
        thread.join(60)
    with Held(service) as box:
        wait_until(lambda: service.run(FILTERS).json["stdout"] == WARM, "copies")
        assert box.execute(FILTERS)["output"] == WARM
    assert template(service) == [pid]


def test_many_at_once(service):
    """More than start side by side, each with its first program at once."""
    done, lock = [], threading.Lock()

    def one(i):
        with_box = service.create()["sandbox_id"]
        output = execute(service, with_box, f"print({i})\n{FILTERS}")["output"]
        with lock:
            done.append((i, output))
        assert service.delete(f"/api/v1/sandbox/{with_box}").status < 300
    threads = [threading.Thread(target=one, args=(i,)) for i in range(60)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(done) == [(i, f"{i}\n{WARM}") for i in range(60)]


def test_one_that_is_on_its_way_for_the_pool_will_do(make_service):
    """Where there is room for no more: the pool fills the place of one that was destroyed at once."""
    service = make_service("--max-sandboxes=14", "--pool-min=6")
    for _ in range(11):
        service.create()
    for _ in range(30):
        assert service.delete(f"/api/v1/sandbox/{service.create()['sandbox_id']}").status < 300
