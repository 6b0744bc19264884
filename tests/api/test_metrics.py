"""/metrics as Prometheus itself judges it, and what it says about the pool."""
import re
import subprocess

import pytest

from .helpers import PATIENCE, wait_until


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
