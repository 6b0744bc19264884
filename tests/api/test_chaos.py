"""The short form of `make chaos`."""
import os
import subprocess
import types

import apart
import pytest

from cli.helpers import only

from .helpers import ROOT, promised, wait_until
from .storm import KINDS, LEFT, Odd, Storm, Strike


def test_kills_at_random_lose_nothing_that_was_told():
    storm = Storm(15, clients=16)
    wrong = storm.blow()
    print(storm.table())
    promised(not wrong, (wrong[:5], storm.seed))
    assert sum(storm.kills.values()) >= 3 and storm.tally["runs"] and storm.ends["ok"] and storm.tally["trespasses refused"]


def test_control_a_wrong_answer_would_be_seen():
    """A service that forgets an execution, and one that answers another tenant."""
    storm = Storm(0)
    storm.told = {"a": ("anna", "ok"), "b": ("ben", "ok"), "c": ("cleo", "ok")}

    class Forgetful:
        def rows(self, _):
            return [{"id": "a", "tenant": "anna", "verdict": "ok"}, {"id": "b", "tenant": "dora", "verdict": "ok"}]
    storm.service = Forgetful()
    storm.check_records()
    assert len(storm.wrong) == 2


def judged(strikes, odd):
    """What is wrong about these outcomes, of a storm with these kills."""
    storm = Storm(0)
    storm.strikes, storm.odd = strikes, odd
    storm.check_odd()
    return storm.wrong


def test_control_an_outcome_without_a_kill_would_be_seen():
    late = Odd(120, 121, KINDS, "lost")
    assert len(judged([], [late])) == 1
    assert len(judged([Strike("launcher", 110, 111), Strike("init", 115)], [late])) == 1, "long before"
    assert len(judged([Strike("launcher", 122)], [late])) == 1, "afterwards"
    assert judged([Strike("launcher", 119, 119.5)], [late] * 5) == [], "everybody's"
    assert judged([Strike("init", 120.5)], [late]) == []
    assert len(judged([Strike("init", 120.5)], [late, late])) == 1, "one sandbox has one init"
    broken = Odd(120, 121, ("front", "starter"), "no answer")
    assert len(judged([Strike("launcher", 120.5)], [broken])) == 1 and judged([Strike("front", 120.5)], [broken]) == []


def test_control_a_service_where_little_is_ok_would_be_seen():
    for ok, hit, wrong in ((0, 0, 1), (10, 10, 1), (10, 1, 0)):
        storm = Storm(0)
        storm.tally.update({"runs": 100})
        storm.ends.update({"ok": ok, "hit, and told so": hit})
        storm.check_most()
        assert len(storm.wrong) == wrong, storm.wrong


@pytest.fixture
def ended(tmp_path):
    """A storm after its service: its room as it should be, and nothing else of it."""
    for name in sorted(LEFT):
        path = tmp_path / name
        path.mkdir() if any(other.startswith(f"{name}/") for other in LEFT) or name == "state/async" else path.touch()
    storm = Storm(0)
    storm.service = types.SimpleNamespace(room=tmp_path)
    assert storm.orphans() == []
    return storm


@pytest.mark.parametrize("name, is_directory", [("run/api.sock", False), ("run/box", True), ("state/async/1", False), ("state/records.db-wal", False),
                                                ("other", True)])
def test_control_a_file_that_is_left_would_be_seen(ended, name, is_directory):
    path = ended.service.room / name
    path.mkdir() if is_directory else path.touch()
    assert ended.orphans(0) == [name]


def test_control_a_process_that_is_left_would_be_seen(ended):
    shell = subprocess.run(["sh", "-c", "sleep 300 >&- 2>&- & echo $!"], capture_output=True, text=True, timeout=60)
    try:
        assert [row[1] for row in ended.orphans(0)] == ["sleep"], "an orphan, which has come to us"
    finally:
        os.kill(int(shell.stdout), 9)
    wait_until(lambda: not ended.orphans(0), "its end")


@only(ROOT)
def test_control_a_mount_that_is_left_would_be_seen(ended):
    place = ended.service.room / "run"
    subprocess.run(["mount", "-t", "tmpfs", "planted", place], check=True, timeout=60)
    try:
        assert any(f" {place} " in it for it in ended.orphans(0))
    finally:
        subprocess.run(["umount", place], check=True, timeout=60)
    assert not ended.orphans(0)


@only(ROOT)
def test_control_a_cgroup_that_is_left_would_be_seen(ended):
    place = os.path.join(apart.cgroup_places()[0], f"coto-{os.getpid()}-planted")
    ended.launchers = {os.getpid()}
    os.mkdir(place)
    try:
        assert ended.orphans(0) == [place]
    finally:
        os.rmdir(place)
    assert not ended.orphans(0)
