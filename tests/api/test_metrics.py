"""/metrics as Prometheus itself judges it, and what it says about the pool."""
import contextlib
import re
import shutil
import subprocess

import pytest

from .helpers import BIN, PATIENCE, wait_until


def promtool(text):
    return subprocess.run(["promtool", "check", "metrics"], input=text, capture_output=True, timeout=PATIENCE)


def value(service, name):
    return float(re.search(rf"^coto_{name} (\S+)$", service.get("/metrics").body.decode(), re.M)[1])


def test_promtool_has_nothing_to_say(service):
    service.run("print(1)")
    reply = service.get("/metrics")
    assert reply.headers["Content-Type"] == "text/plain; version=0.0.4"
    done = promtool(reply.body)
    assert (done.returncode, done.stdout + done.stderr) == (0, b""), done


def test_the_local_token_opens_them(service):
    assert promtool(service.get("/metrics", token=True).body).returncode == 0


def test_control_promtool_would_see_it(service):
    """A counter without its help, and a name that cannot be."""
    text = service.get("/metrics").body
    assert promtool(text.replace(b"# HELP coto_executions_total Executions that ended.\n", b"")).returncode != 0
    assert promtool(text + b"coto-pool-ready 1\n").returncode != 0


def test_the_hit_rate_of_the_pool(service):
    """A request that the pool serves is a hit; one of another kind of sandbox is not."""
    wait_until(lambda: value(service, "pool_ready") > 0, "a sandbox that is ready")
    hits, misses = value(service, "pool_hits_total"), value(service, "pool_misses_total")
    assert service.run("print(1)").status == 200
    assert (value(service, "pool_hits_total"), value(service, "pool_misses_total")) == (hits + 1, misses)
    assert service.run("print(1)", resource_limits={"pids": 77}).status == 200
    assert value(service, "pool_misses_total") == misses + 1
    ratio = value(service, "pool_hits_total") / (value(service, "pool_hits_total") + misses + 1)
    assert abs(value(service, "pool_hit_ratio") - ratio) < 0.001


@pytest.mark.parametrize("kind", [{"code": "echo 1", "language": "sh"}, {"code": "print(1)", "profile": "gemini"},
                                  {"code": "puts 1", "language": "ruby"}], ids=["sh", "profile", "ruby"])
def test_other_languages_and_profiles_come_from_the_pool_too(service, kind):
    """From the second one on."""
    service.post("/api/v1/run", **kind)

    def next_is_a_hit():
        hits = value(service, "pool_hits_total")
        assert service.post("/api/v1/run", **kind).json["stdout"] == "1\n"
        return value(service, "pool_hits_total") == hits + 1
    wait_until(next_is_a_hit, "a hit")


def test_what_a_caller_does_wrong_is_no_failed_execution(service):
    before = value(service, "execution_errors_total"), value(service, "executions_total")
    for body in ({"code": "1", "stdin": "a", "input": "b"}, {"code": "1", "resource_limits": {"memory": "1000G"}},
                 {"code": "1", "profile": "none such"}, {"code": "1", "async": True, "callback_url": "https://x/"}):
        assert 400 <= service.post("/api/v1/run", **body).status < 502, body
    box = service.create()["sandbox_id"]
    assert service.post(f"/api/v1/sandbox/{box}/execute", code="1", stdin="a", input="b").status == 400
    assert (value(service, "execution_errors_total"), value(service, "executions_total")) == before
    assert service.run("import sys; sys.exit(1)").json["verdict"] == "nonzero"
    assert (value(service, "execution_errors_total"), value(service, "executions_total")) == (before[0], before[1] + 1), "control"


# ---- readiness ----

def readiness(service):
    """The next answer of /readyz."""
    def look():
        assert service.process.poll() is None, service.messages
        with contextlib.suppress(OSError):
            return service.get("/readyz")
    reply = wait_until(look, "an answer")
    return reply.status, reply.json["status"]


def test_it_is_ready_when_its_pool_is(make_service):
    service = make_service(start=False)
    service.begin("--pool-min=30")
    seen = [readiness(service)]
    wait_until(lambda: seen.append(readiness(service)) or seen[-1][0] == 200, "readiness")
    assert value(service, "pool_ready") >= 30
    assert seen[0] == (503, "warming") and set(seen) == {(503, "warming"), (200, "ready")}


def test_a_pool_that_cannot_be_filled_is_told(make_service, tmp_path):
    """Nothing can run there: no work is to be sent."""
    for path in BIN.glob("coto*"):
        if path.is_file() and path.suffix in ("", ".so", ".py") and path.name != "coto-init":
            shutil.copy2(path, tmp_path)
    service = make_service(start=False)
    service.program = tmp_path / "coto"
    service.begin()
    wait_until(lambda: readiness(service) == (503, "failing"), "the word of it")
    assert "the pool does not reach its minimum of 5 sandboxes" in service.messages
    assert service.run("print(1)").status >= 500
    assert (value(service, "execution_errors_total"), value(service, "executions_total")) == (1, 1), "that one coto failed"
    shutil.copy2(BIN / "coto-init", tmp_path)
    wait_until(lambda: readiness(service) == (200, "ready"), "readiness")
