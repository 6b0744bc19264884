"""How many sandboxes are kept ready: as many as are asked for, at least pool-min, and no more than pool-max of all kinds together."""
import contextlib
import re
import threading
import time

import pytest

from .helpers import wait_until
from .test_metrics import promtool, value

PYTHON, OTHER, GEMINI = ("default", "python"), ("default", "other"), ("gemini", "python")
KINDS = {PYTHON: {"code": "print(1)"}, OTHER: {"code": "echo 1", "language": "sh"}, GEMINI: {"code": "print(1)", "profile": "gemini"}}


def kinds(service, name):
    """Of each kind that is kept ready, by profile and language."""
    rows = re.findall(rf'^coto_pool_kind_{name}{{level="standard",profile="(.*?)",language="(.*?)"}} (\d+)$',
                      service.get("/metrics").body.decode(), re.M)
    found = {(profile, language): int(number) for profile, language, number in rows}
    assert len(found) == len(rows), rows
    return found


@contextlib.contextmanager
def load(service, clients=24, **body):
    """So many who ask again and again."""
    ended = threading.Event()

    def ask():
        while not ended.is_set():
            assert service.post("/api/v1/run", **body).json["stdout"] == "1\n"
    threads = [threading.Thread(target=ask) for _ in range(clients)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        ended.set()
        for thread in threads:
            thread.join()


def watch(service, kind, until):
    """Every target that was seen until then."""
    targets = []

    def look():
        targets.append(kinds(service, "target").get(kind, 0))
        return until(targets)
    wait_until(look, "the target")
    return targets


def grows_and_shrinks(service, kind, least, most):
    """What the others had meanwhile."""
    with load(service, **KINDS[kind]):
        watch(service, kind, lambda targets: targets[-1] >= most)
        assert max(watch(service, kind, lambda targets: len(targets) > 20)) == most, "no more, although many wait"
        others = {it: target for it, target in kinds(service, "target").items() if it != kind}
        assert kinds(service, "ready")[kind] <= most
    watch(service, kind, lambda targets: targets[-1] == least)
    wait_until(lambda: kinds(service, "ready")[kind] == least, "the end of those that are too many")
    return others


def test_the_usual_numbers(make_service):
    """At least five and at most a hundred where nobody has said anything."""
    service = make_service()
    assert kinds(service, "target") == {PYTHON: 5} and value(service, "pool_max") == 100
    wait_until(lambda: kinds(service, "ready") == {PYTHON: 5}, "five")


@pytest.mark.parametrize("most", [9, 20])
def test_the_target_follows_what_is_asked_for(make_service, most):
    """Four are worked on at once and twenty wait: as many are wanted as wait, but no more than pool-max."""
    service = make_service("--workers=4", "--pool-min=3", f"--pool-max={most}", "--high-isolation=none")
    assert kinds(service, "target") == {PYTHON: 3}
    assert grows_and_shrinks(service, PYTHON, 3, most) == {}
    assert value(service, "pool_target") == value(service, "pool_ready") == 3


def test_each_kind_has_a_target_of_its_own(make_service):
    """Another profile, and programs for which no Python waits: one of them is kept ready, more while many ask."""
    service = make_service("--workers=4", "--pool-min=3", "--pool-max=8", "--high-isolation=none")
    for kind in (OTHER, GEMINI):
        assert service.post("/api/v1/run", **KINDS[kind]).json["stdout"] == "1\n"
    for name in ("target", "ready"):
        wait_until(lambda: kinds(service, name) == {PYTHON: 3, OTHER: 1, GEMINI: 1}, "one of each")
    assert grows_and_shrinks(service, GEMINI, 1, 4) == {PYTHON: 3, OTHER: 1}, "the others stay as they are, and all are eight"
    assert grows_and_shrinks(service, OTHER, 1, 4) == {PYTHON: 3, GEMINI: 1}
    wait_until(lambda: kinds(service, "ready") == {PYTHON: 3, OTHER: 1, GEMINI: 1}, "one of each again")


def test_all_kinds_together_are_no_more_than_pool_max(make_service):
    """However many ask for however many kinds; each of them has its part."""
    service = make_service("--workers=12", "--pool-min=2", "--pool-max=8", "--high-isolation=none")
    seen = {"target": [], "ready": []}
    with contextlib.ExitStack() as stack:
        for body in KINDS.values():
            stack.enter_context(load(service, clients=12, **body))

        def look():
            for name, rows in seen.items():
                rows.append(kinds(service, name))
            return sum(len(row) == 3 for row in seen["target"]) > 60
        wait_until(look, "a while")
    wait_until(lambda: sum(kinds(service, "ready").values()) <= 4 and look(), "the end of those that are too many")
    for name, rows in seen.items():
        assert max(sum(row.values()) for row in rows) <= 8, (name, rows)
    full = [row for row in seen["target"] if len(row) == 3 and sum(row.values()) == 8]
    assert len(full) > 10 and all(min(row.values()) >= 1 for row in full), seen["target"]
    assert any(max(row.values()) <= 4 for row in full), "about as many each"
    assert value(service, "pool_max") == 8


@pytest.mark.parametrize("least, most, expected", [(1, 2, 2), (2, 2, 2), (1, 1, 1)])
def test_with_more_kinds_than_places(make_service, least, most, expected):
    """The operator's own has what he wants, and the last that was asked for the rest."""
    service = make_service("--workers=4", f"--pool-min={least}", f"--pool-max={most}", "--high-isolation=none")
    for _ in range(3):
        for body in KINDS.values():
            assert service.post("/api/v1/run", **body).json["stdout"] == "1\n"
            assert sum(kinds(service, "ready").values()) <= most
    wait_until(lambda: kinds(service, "ready") == kinds(service, "target"), "rest")
    ready = kinds(service, "ready")
    assert ready[PYTHON] >= least and sum(ready.values()) == expected and ready[OTHER] == 0, ready


def test_one_that_waits_long_is_replaced(make_service):
    """So that what is handed out is never much older than its lifetime says."""
    service = make_service("--pool-min=3", "--pool-wait=2s", "--high-isolation=none")
    before, began = value(service, "sandboxes_destroyed_total"), time.monotonic()
    wait_until(lambda: value(service, "sandboxes_destroyed_total") >= before + 6, "the end of three, and of those that came instead")
    assert time.monotonic() - began > 2
    wait_until(lambda: value(service, "pool_ready") == 3, "three again")
    assert service.run("print(1)").json["stdout"] == "1\n"


def test_one_that_does_not_is_not(make_service):
    """The control."""
    service = make_service("--pool-min=3", "--high-isolation=none")
    wait_until(lambda: value(service, "pool_ready") == 3, "three")
    before = value(service, "sandboxes_destroyed_total")
    time.sleep(5)
    assert value(service, "sandboxes_destroyed_total") == before


def test_hits_are_told_by_kind(make_service):
    service = make_service("--pool-min=3", "--high-isolation=none")
    for body in KINDS.values():
        service.post("/api/v1/run", **body)
    wait_until(lambda: kinds(service, "ready") == {PYTHON: 3, OTHER: 1, GEMINI: 1}, "one of each")
    before = {name: kinds(service, name) for name in ("hits_total", "misses_total")}
    for kind, body in KINDS.items():
        service.post("/api/v1/run", **body)
        after = {name: kinds(service, name) for name in before}
        assert after["hits_total"] == {**before["hits_total"], kind: before["hits_total"][kind] + 1}
        assert after["misses_total"] == before["misses_total"]
        before = after
    assert value(service, "pool_hits_total") == sum(before["hits_total"].values())
    assert value(service, "pool_misses_total") == sum(before["misses_total"].values())
    service.run("print(1)", resource_limits={"pids": 77})
    assert {name: kinds(service, name) for name in before} == before, "that one is of no kind"
    done = promtool(service.get("/metrics").body)
    assert (done.returncode, done.stdout + done.stderr) == (0, b""), done


@pytest.mark.parametrize("flags, own", [([], PYTHON), (["--cold=yes"], OTHER)], ids=["ordinary", "cold"])
def test_no_request_makes_the_operators_own_fewer(make_service, flags, own):
    """All that a default service keeps ready stays: it was one after the first request where no interpreter waits."""
    service = make_service("--high-isolation=none", *flags)
    profiles = service.get("/api/v1/capabilities").json["profiles"]
    assert kinds(service, "target") == {own: 5}, "five, if nobody says anything else"
    for body in [{"profile": profile, **body} for profile in profiles for body in (KINDS[PYTHON], KINDS[OTHER])]:
        assert service.post("/api/v1/run", **body).json["stdout"] == "1\n"
    targets = kinds(service, "target")
    assert targets[own] >= 5 and len(targets) > 3, targets


def test_what_the_operator_changes_holds_for_every_kind(make_service):
    """pool-max is live: also for kinds that were there before."""
    service = make_service(start=False)
    config = service.room / "config.yaml"
    config.write_text("pool-min: 2\npool-max: 30\nworkers: 4\nhigh-isolation: none\n")
    service.start(f"--config={config}")
    service.post("/api/v1/run", **KINDS[GEMINI])
    config.write_text("pool-min: 2\npool-max: 4\nworkers: 4\nhigh-isolation: none\n")
    service.process.send_signal(1)
    wait_until(lambda: "reloaded" in service.messages, "the new numbers")
    for kind, least, most in ((PYTHON, 2, 3), (GEMINI, 1, 2)):
        grows_and_shrinks(service, kind, least, most)
