"""The short form of `make chaos`."""
from .storm import Storm


def test_kills_at_random_lose_nothing_that_was_told():
    storm = Storm(15, clients=16)
    wrong = storm.blow()
    print(storm.table())
    assert not wrong, (wrong[:5], storm.seed)
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
