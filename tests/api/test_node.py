"""Node that was started ahead runs a program as one that was not."""
import os
import re
import shutil
import signal

import pytest

from cli.helpers import descendants

from .daemon import Daemon
from .helpers import wait_until
from .test_metrics import value

pytestmark = pytest.mark.skipif(not shutil.which("node"), reason="no node here")


def waiting(service):
    """Node processes that have no code yet."""
    found = []
    for pid in descendants(service.process.pid):
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as file:
                found += [pid] if b".coto-ahead.js" in file.read() else []
        except OSError:
            pass
    return found


@pytest.fixture(scope="module")
def service():
    with Daemon("--node-ahead=1") as it:
        it.run("1", language="node")
        yield it
        assert it.stop() == 0, it.messages


def with_one_that_waited(service, code, **more):
    """Its result; None when it was still starting and a new one was taken."""
    pid, = wait_until(lambda: waiting(service), "a node that waits")
    ahead = service.run(code, language="node", **more).json
    return None if pid in waiting(service) else ahead


def both(service, code, **more):
    """The result with one that waited, and with a new one."""
    ahead = wait_until(lambda: with_one_that_waited(service, code, **more), "a run with it")
    return ahead, service.run(code, language="node", cold=True, **more).json


SAME = """\
console.log(process.argv, process.execArgv, process.argv0, __filename, __dirname, require.main === module);
console.log(module.paths, module.children.length, module.parent, Object.keys(require.cache), process._preload_modules);
console.log(process.cwd(), process.env, process.exitCode, process.title, require('fs').readdirSync('/tmp'));
console.log(Object.getOwnPropertyNames(globalThis).sort().join(), require.resolve.paths('x'), typeof require('crypto').webcrypto);
"""


@pytest.mark.parametrize("code,more", [
    (SAME, {}), (SAME, {"args": ["a", "b c", "\u00fc", "--flag"]}),
    ("process.stdin.on('data', d => process.stdout.write(String(d).toUpperCase()))", {"stdin": "gr\u00fc\u00dfe\n"}),
    ("console.log(require('fs').readFileSync(0).length)", {"stdin": "x" * 1_000_000}),
    ("console.log(require('fs').readFileSync(0).length)", {}),
    ("process.exit(7)", {}), ("process.exitCode = 3; console.error('bad')", {}),
    ("function f() { throw new TypeError('mine') }\nf()", {}), ("let x = ;", {}),
    ("Promise.reject(new Error('nobody cares'))", {}), ("process.kill(process.pid, 'SIGTERM'); setInterval(() => 1, 9)", {}),
    ("console.log(require('./lib').six * 7)", {"files": [{"path": "lib.js", "content": "exports.six = 6"}]}),
    ("setTimeout(() => console.log('later'), 50); process.on('exit', c => console.log('exit', c))", {}),
    ("while (true);", {"timeout_seconds": 0.4}),
    ("import('node:os').then(os => console.log(os.EOL.length))", {}),
    ("new (require('worker_threads').Worker)('console.log(1, process.execArgv)', {eval: true})", {}),
    ("console.log(require('child_process').execFileSync(process.execPath, ['-p', '1+1']).toString())", {}),
    ("require('fs').writeFileSync('output/a.txt', 'art')", {"artifacts": True}),
], ids=range(18))
def test_the_same(service, code, more):
    ahead, cold = both(service, code, **more)
    keys = ["stdout", "stderr", "verdict", "exit_code", "signal", "limit", "artifacts", "missing_walls"]
    assert {key: ahead[key] for key in keys} == {key: cold[key] for key in keys}
    assert {name: wall["up"] for name, wall in ahead["walls"].items()} == {name: wall["up"] for name, wall in cold["walls"].items()}


def test_walls_are_up_before_there_is_code(service):
    pid, = wait_until(lambda: waiting(service), "a node that waits")
    with open(f"/proc/{pid}/status") as file:
        status = dict(line.split(":\t") for line in file.read().splitlines())
    assert (status["Seccomp"], status["NoNewPrivs"], int(status["CapPrm"], 16)) == ("2", "1", 0)


def test_two_share_nothing(service):
    """Each in a sandbox of its own, with random numbers of its own."""
    code = "require('fs').appendFileSync('/tmp/seen', 'x'); console.log(require('fs').readFileSync('/tmp/seen').length, Math.random())"
    results = []
    for _ in range(3):
        wait_until(lambda: waiting(service), "a node that waits")
        results.append(service.run(code, language="node").json["stdout"].split())
    assert [it[0] for it in results] == ["1"] * 3 and len({it[1] for it in results}) == 3


@pytest.mark.parametrize("more", [{"env": {"A": "b"}}, {"resource_limits": {"pids": 100}}, {"cold": True}, {"profile": "gemini"}])
def test_whoever_asks_for_something_else_gets_a_new_one(service, more):
    before = wait_until(lambda: waiting(service), "a node that waits")
    assert service.run("console.log(process.env.A)", language="node", **more).json["stdout"] == ("b\n" if "env" in more else "undefined\n")
    assert waiting(service) == before


def test_one_that_was_killed_meanwhile_is_not_used(service):
    pid, = wait_until(lambda: waiting(service), "a node that waits")
    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: not os.path.exists(f"/proc/{pid}"), "its end")  # and a moment later its init has said so
    wait_until(lambda: service.run("console.log(1)", language="node").json["stdout"] == "1\n", "a run")


def test_arguments_that_are_long_as_json(service):
    """What waits takes them by its standard input, which has its bounds."""
    code = "console.log(process.argv.length, process.argv.slice(2).join('').length)"
    for args in (["\u0001" * 120_000], ["\x7f" * 100_000, "b" * 50_000], ["x"] * 4_000):
        for _ in range(2):
            wait_until(lambda: waiting(service), "a node that waits")
            reply = service.run(code, language="node", args=args)
            assert reply.status == 200 and reply.json["stdout"] == f"{2 + len(args)} {sum(map(len, args))}\n", reply.json


def test_the_filter_is_named(service):
    ahead, cold = both(service, "console.log(1)")
    assert ahead["seccomp_filter_hash"] == cold["seccomp_filter_hash"] == ahead["walls"]["seccomp"]["value"]


def kind(service, name, profile="default"):
    return float(re.search(rf'^coto_pool_kind_{name}{{level="standard",profile="{profile}",language="node"}} (\S+)$',
                           service.get("/metrics").body.decode(), re.M)[1])


def test_the_hit_rate_counts_programs_and_not_what_waits_for_them(service):
    wait_until(lambda: waiting(service), "a node that waits")
    hits, misses, of_node = value(service, "pool_hits_total"), value(service, "pool_misses_total"), kind(service, "hits_total")
    for count in range(1, 4):
        assert service.run("1", language="node").json["verdict"] == "ok"
        total = value(service, "pool_hits_total") + value(service, "pool_misses_total")
        assert total == hits + misses + count, "one request, one number"
        wait_until(lambda: waiting(service), "the next one")
        assert value(service, "pool_hits_total") + value(service, "pool_misses_total") == total, "nobody asked for that one"
    wait_until(lambda: with_one_that_waited(service, "1"), "a run with it")
    assert kind(service, "hits_total") > of_node and value(service, "pool_hits_total") > hits
    wait_until(lambda: kind(service, "ready") == 1 == kind(service, "target"), "the next one")


def test_the_numbers_of_a_front_that_died():
    """What is counted never becomes less, and is told by the profile it is of."""
    with Daemon("--node-ahead=1", "--profile=gemini") as it:
        it.run("1", language="node")
        wait_until(lambda: with_one_that_waited(it, "1"), "a run with it")
        hits = value(it, "pool_hits_total")
        assert hits >= 1 and kind(it, "hits_total", "gemini") >= 1
        assert value(it, "pool_hits_total") == hits, "told once"
        it.kill_front()
        assert value(it, "pool_hits_total") == hits
        assert 'profile="default"' not in it.get("/metrics").body.decode()


def test_the_operator_can_have_them_all_cold():
    """No node waits, and no python is a copy of another: their address secrets differ."""
    with Daemon("--cold=yes") as it:
        assert [it.run("1", language="node").json["verdict"] for _ in range(3)] == ["ok"] * 3
        assert not waiting(it)
        secrets = {it.run("print(hash('x'))").json["stdout"] for _ in range(3)}
        assert len(secrets) == 3


def test_control_copies_of_a_template_share_theirs(service):
    assert len({service.run("print(hash('x'))").json["stdout"] for _ in range(3)}) == 1
