"""DR-06 for the service: see service.py. Quick in `make test`, all with COTO_FAULT_EVERY=1."""
import pytest

from . import service
from .faults import number_of
from .test_fault import EVERY, report

ROUNDS = 5 if EVERY == 1 else 2 # requests without faults: how often a call is made differs


@pytest.mark.parametrize("name", service.SCENARIOS)
def test_a_failed_call_of_the_service_is_survived_or_told(name):
    hunt = service.Hunt(service.SCENARIOS[name], EVERY, ROUNDS)
    print(*hunt.notes, sep="\n")
    report(name, hunt, [])


# What docs/FAULTS.md tells as found once: each such call of a request.
FOUND = {"service, run": {("init", "poll", "EINTR"), ("copy", "close_range", "ENOSYS")},
         "service, sandbox": {("launcher", "sendmsg", "EIO"), ("launcher", "epoll_ctl", "ENOMEM"), ("front", "sendmsg", "EIO")},
         "service, pool": {("template", "sendto", "ENOMEM")}}
if service.ROOT: # which has cgroups
    FOUND["service, sandbox"].add(("launcher", "openat", "EMFILE"))


@pytest.mark.parametrize("name", FOUND)
def test_what_was_found_once_in_the_service_stays_mended(name):
    wanted = {(role, number_of(call), error) for role, call, error in FOUND[name]}
    hunt = service.Hunt(service.SCENARIOS[name], 1, ROUNDS, lambda fault: (fault.role, fault.number, fault.error) in wanted)
    assert {(fault.role, fault.number, fault.error) for fault in hunt.tried} == wanted
    assert hunt.happened >= len(wanted) and not hunt.findings, "\n".join(hunt.findings)


# ---- controls ----

def attended(**more):
    it = service.Attended(*service.Scenario.flags)
    for name, value in more.items():
        setattr(it, name, value)
    return it


def test_a_fault_is_seen_in_the_reply():
    """The launcher has no descriptors: whoever asked is told so, and it is counted once."""
    with attended() as it:
        service.check_result(it.run(service.CODE), None)
        it.order("fail", "launcher", number_of("socketpair"), 1, 24)
        with pytest.raises(service.Told):
            service.check_result(it.run(service.CODE), None)
        it.order("quiet")
        assert it.fired == ("launcher", number_of("socketpair"))
        it.forget()
        service.check_result(it.run(service.CODE), None)
        it.order("quiet")
        assert it.fired is None and it.stop() == 0


class Answer:
    def __init__(self, status, **body):
        self.status, self.json = status, body


RIGHT = {"verdict": "ok", "stdout": "4\n", "stderr": "", "missing_walls": []}


@pytest.mark.parametrize("change", [{"verdict": "nonzero"}, {"stdout": ""}, {"missing_walls": ["memory"]}])
def test_a_wrong_reply_is_found(change):
    assert service.check_result(Answer(200, **RIGHT), [])
    with pytest.raises(service.Bad):
        service.check_result(Answer(200, **{**RIGHT, **change}), [])


@pytest.mark.parametrize("body", [{}, {"code": "", "message": "something failed"}, {"code": "system", "message": ""}])
def test_an_error_without_words_is_found(body):
    with pytest.raises(service.Told):
        service.check_error(Answer(500, code="system", message="something failed"))
    with pytest.raises(service.Bad):
        service.check_error(Answer(500, **body))


def test_what_stays_in_the_service_is_found():
    """A sandbox that nobody has deleted: a process, and descriptors of the launcher, which only root can see; of an ordinary user's
    launcher it looks at them in api/confined."""
    with attended() as it:
        service.Sandbox().ask(it)
        before = it.holdings()
        it.create()
        now = it.holdings()
        assert len(now["processes"]) > len(before["processes"])
        assert len(now["coto-launch"]) > len(before["coto-launch"]) if service.ROOT else "coto-launch" not in now
        it.delete_all()
        service.wait_until(lambda: it.holdings()["processes"] == before["processes"], "the end of it")
        assert it.stop() == 0


if service.ROOT: # whose looking at a program sees all of it
    def test_a_program_with_a_wall_less_is_found():
        """The same program, but for the filter that it should have."""
        hunt = service.Hunt(service.Scenario(), 10 ** 6, 1)
        role, seen = hunt.baselines[0]
        assert not hunt.differences(role, dict(seen.facts), {})
        assert hunt.differences(role, dict(seen.facts, Seccomp="0"), {})
