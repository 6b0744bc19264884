"""isolation_level high: containers of a runtime or an engine, made ahead and each used once."""
import glob
import os
import pathlib
import re
import shutil

import pytest

import engine
from cli.helpers import cgroup_directories, only
from image.helpers import Store, busybox_tree

from .daemon import Daemon
from .helpers import ROOT, wait_until

KEPT = ("--high-pool-min=1", "--high-pool-max=2")
PROGRAMS = "/usr/sbin:/usr/bin:/sbin:/bin"
COTO_BOX = "coto-box"


def has(runtime):
    return shutil.which(runtime, path=PROGRAMS) is not None


class Level:
    """A service whose level high is made like that, and what is on the host because of it."""

    def __init__(self, service, driver, runtime):
        self.service, self.driver, self.runtime = service, driver, runtime
        self.seen = set()

    def run(self, code, **more):
        reply = self.service.run(code, isolation_level="high", **more)
        assert reply.status == 200, reply
        return reply.json

    def create(self, **more):
        path = f"/api/v1/sandbox/{self.service.create(isolation_level='high', **more)['sandbox_id']}"
        self.boxes()
        return path

    def execute(self, path, code, **more):
        reply = self.service.post(f"{path}/execute", code=code, **more)
        assert reply.status == 200, reply
        return reply.json

    def metric(self, name):
        return int(re.search(rf"^coto_{name} (\d+)$", self.service.get("/metrics").body.decode(), re.M)[1])

    def wait_until_full(self):
        wait_until(lambda: self.metric("pool_starting") == 0 and self.metric("pool_ready") >= self.metric("pool_target"), "a full pool")

    def boxes(self):
        """pids of this service's processes that keep a container each."""
        found = {pid for pid, name in self.service.members() if name == COTO_BOX} if self.service.process else set()
        self.seen |= found
        return found

    def left(self):
        """What boxes of this service that do not live any more have left: processes, directories, cgroups."""
        words = [f"coto-{pid}-" for pid in self.seen - self.boxes()] + [f"coto-oci-{pid}-" for pid in self.seen - self.boxes()]
        named = [*glob.glob("/run/coto-oci-*"), *glob.glob("/tmp/coto-oci-*"), *cgroup_directories()]
        for entry in pathlib.Path("/proc").glob("[0-9]*"):
            try:
                named.append(f"{entry.name} {(entry / 'cmdline').read_bytes().decode(errors='replace')}")
            except OSError:
                pass
        return [name for name in named if any(word in name for word in words)]

    def nothing_is_left(self):
        wait_until(lambda: not self.left(), f"the end of {self.left()}")
        if self.driver == "docker":
            wait_until(lambda: len(engine.engine().containers()) <= len(self.boxes()), "the removal of containers")


def levels():
    found = [pytest.param(("oci", "runsc"), id="oci+runsc")] if has("runsc") else []
    return found + ([pytest.param(("docker", "runc"), id="docker+runc")] if engine.is_here() else [])


def flags_of(driver, runtime):
    return (f"--high-isolation={'container' if driver == 'oci' else 'docker'}", f"--high-runtime={runtime}",
            *(["--high-image=" + engine.IMAGE, "--high-allow-runtime=runc"] if driver == "docker" else []), *KEPT)


@pytest.fixture(scope="module", params=levels())
def level(request):
    driver, runtime = request.param
    patch = pytest.MonkeyPatch()
    if driver == "docker":
        patch.setenv("DOCKER_HOST", engine.engine().env["DOCKER_HOST"])
    with patch.context(), Daemon(*flags_of(driver, runtime)) as it:
        made = Level(it, driver, runtime)
        yield made
        made.boxes()
        assert it.stop() == 0 and "AddressSanitizer" not in it.messages, it.messages
        made.nothing_is_left()
    patch.undo()


def test_the_service_says_what_it_is(level):
    told = level.service.get("/api/v1/capabilities").json
    assert told["isolation_levels"] == ["standard", "high"]
    assert told["high"]["available"] and told["high"]["message"] is None
    assert (told["high"]["isolation"], told["high"]["runtime"]) == ({"oci": "container", "docker": "docker"}[level.driver], level.runtime)


def test_a_result_names_what_was_up(level):
    result = level.run("import os; print(os.uname().release)")
    assert (result["verdict"], result["driver"]) == ("ok", level.driver) and level.runtime in result["runtime"]
    assert all(result["walls"][name]["up"] for name in ("pid_namespace", "mount_namespace", "net_namespace", "seccomp", "no_new_privs", "root_read_only", "timeout"))
    host = level.service.run("import os; print(os.uname().release)").json
    assert (host["driver"], host["stdout"].strip()) == ("native", os.uname().release), "the control: level standard"
    assert (result["stdout"] == host["stdout"]) == (level.runtime == "runc"), "gVisor is a kernel of its own"


def test_a_sandbox_is_there_at_once_and_keeps_its_state(level):
    level.wait_until_full()
    hits, misses = level.metric("pool_hits_total"), level.metric("pool_misses_total")
    path = level.create(files=[{"path": "in.txt", "content": "brought"}])
    assert (level.metric("pool_hits_total"), level.metric("pool_misses_total")) == (hits + 1, misses)
    assert level.execute(path, "import sys; x = len(sys.modules); print(open('in.txt').read(), x > 100)")["output"] == "brought True\n", \
        "an interpreter that has imported its libraries"
    assert level.execute(path, "print(x > 100, input())", stdin="line\n")["output"] == "True line\n"
    assert level.execute(path, "raise SystemExit(x > 0)")["exit_code"] == 1
    assert level.execute(path, "print('fresh', 'x' in globals())", cold=True)["output"] == "fresh False\n"
    assert level.execute(path, "print(x > 0)")["output"] == "True\n", "which leaves the state alone"
    level.execute(path, "import os; os._exit(0)")
    again = level.execute(path, "print('x' in globals()); x = 'again'")
    assert (again["output"], again["state_found"], again["state_kept"]) == ("False\n", False, True), "another interpreter, which keeps state"
    assert level.execute(path, "print(x, input())", stdin="line\n")["output"] == "again line\n"
    result = level.execute(path, "import os; os.makedirs('output', exist_ok=True); open('output/a', 'w').write('found')", artifacts=True)
    assert [item["content"] for item in result["artifacts"]] == ["found"]
    assert result["metrics"]["memory_peak_mb"] is None or result["metrics"]["memory_peak_mb"] > 1
    assert level.service.delete(path).json["destroyed"] and level.service.get(path).status == 404
    level.nothing_is_left()


def test_no_two_callers_get_the_same(level):
    """Nor the same seeds: interpreters that wait are no copies of each other."""
    told = []
    for _ in range(2):
        level.wait_until_full()
        path = level.create()
        told.append(level.execute(path, "import os, random, uuid; print(os.path.exists('/tmp/mark'), hash('a'), random.random(), uuid.uuid4())\n"
                                        "open('/tmp/mark', 'w').close()")["output"].split())
        assert level.execute(path, "import os; print(os.path.exists('/tmp/mark'))")["output"] == "True\n", "the control"
        level.service.delete(path)
    first, second = told
    assert (first[0], second[0]) == ("False", "False")
    assert all(a != b for a, b in zip(first[1:], second[1:]))


def test_what_makes_an_interpreter_wait_is_no_longer_there(level):
    level.wait_until_full()
    code = "import os, sys; print(os.listdir('/tmp'), len(sys.modules) > 100, sorted(os.listdir('/proc/self/fd')))"
    assert level.run(code)["stdout"] == "[] True ['0', '1', '2', '3']\n", "3 is what reads the directory"


def test_every_end_is_told(level):
    """In one sandbox, which outlives them: a program that takes the interpreter along costs only its state."""
    path = level.create()
    for code, more, verdict in (
            ("while True: pass", {"timeout_seconds": 0.3}, "timeout"), ("import os; os._exit(4)", {}, "nonzero"),
            ("import os, signal; os.kill(os.getpid(), 9)", {}, "signal"), ("echo hi", {"language": "sh"}, "ok"), ("print(1)", {}, "ok")):
        assert level.execute(path, code, **more)["verdict"] == verdict, code
    level.service.delete(path)


def test_sandboxes_with_limits_of_their_own_are_made_for_them(level):
    misses = level.metric("pool_misses_total")
    result = level.run("print(1)", resource_limits={"memory_mb": 200})
    assert result["verdict"] == "ok" and level.metric("pool_misses_total") == misses + 1
    assert not ROOT or result["walls"]["memory"]["value"] == str(200 << 20)


def test_what_is_required_is_there_or_refused(level):
    walls = level.run("1")["walls"]
    for name, wall in walls.items():
        reply = level.service.post("/api/v1/run", code="print(1)", isolation_level="high", require=[name], resource_limits={"pids": 10})
        assert reply.status == 200 if wall["up"] else reply.status in (400, 412, 422) and name in reply.json["message"], (name, wall, reply)


@only(has("runsc"))
def test_one_is_kept_from_the_first_request_on(make_service):
    level = Level(make_service("--pool-min=0", "--pool-max=0"), "oci", "runsc")
    assert (level.metric("pool_target"), level.metric("pool_ready")) == (0, 0)
    level.run("1")
    wait_until(lambda: (level.metric("pool_target"), level.metric("pool_ready")) == (1, 1), "one that waits")
    level.run("1")
    assert level.metric("pool_hits_total") == 1


# ---- images ----

@only(has("runsc"))
def test_an_image_of_the_operator_is_its_root(make_service, tmp_path):
    """One without a Python: nothing waits in it, and programs start as they can."""
    store = Store(tmp_path / "images")
    digest = store.take(busybox_tree(tmp_path / "root"), "box")
    flags = (f"--high-images-dir={store.path}", f"--high-image=box@sha256:{digest}")
    level = Level(make_service(*flags), "oci", "runsc")
    assert level.run("cat /etc/motd; touch /etc/x || ls /usr", language="sh")["stdout"] == "from the image\n"
    reply = level.service.run("print(1)", isolation_level="high")
    assert (reply.status, reply.json["code"]) == (422, "tool_missing") and "box" in reply.json["message"], reply
    key = tmp_path / "key"
    key.write_text("none")
    refused(make_service(*flags, f"--high-image-key={key}"), "key")


# ---- ends nobody asked for ----

def test_a_killed_box_is_cleaned_up_after(level):
    path = level.create()
    level.wait_until_full()
    before = level.boxes()
    for pid in before:
        os.kill(pid, 9)
    wait_until(lambda: not before & level.boxes(), "their end")
    reply = level.service.post(f"{path}/execute", code="1")
    assert reply.status == 404 or reply.json["verdict"] == "lost", reply
    assert level.run("print(5)")["stdout"] == "5\n" and not before & level.boxes()
    level.nothing_is_left()


def test_a_launcher_that_is_killed_leaves_nothing(level):
    path = level.create()
    os.kill(level.service.launcher, 9)
    wait_until(lambda: level.service.get(path).status == 404, "the end of its sandbox")
    assert level.run("print(5)")["stdout"] == "5\n"
    level.nothing_is_left()


def test_a_container_ends_with_its_front(level):
    path = level.create()
    level.service.kill_front()
    assert level.service.get(path).status == 404
    assert level.run("print(5)")["stdout"] == "5\n"
    level.wait_until_full()
    level.nothing_is_left()


def test_what_a_killed_service_left_is_removed_by_the_next(level):
    level.create()
    level.service.kill()
    level.service.start()
    level.nothing_is_left()
    assert level.run("print(5)")["stdout"] == "5\n"


# ---- what a host may lack ----

def refused(service, *words, is_told=True):
    for reply in (service.run("1", isolation_level="high"), service.post("/api/v1/sandbox/create", isolation_level="high")):
        assert (reply.status, reply.json["field"]) == (422, "isolation_level"), reply
        assert all(word in reply.json["message"] + (reply.json["remedy"] or "") for word in words), reply
        assert reply.json["remedy"]
    told = service.get("/api/v1/capabilities").json
    assert (told["isolation_levels"] == ["standard"]) == is_told and told["high"]["available"] != is_told
    assert service.run("print(1)").status == 200


@pytest.mark.parametrize("flags, words", [
    (("--high-runtime=kata",), ("kata", "install")),
    (("--high-image=no-such-image",), ("no-such-image", "coto image")),
    (("--high-isolation=none",), ("high-isolation",)),
    *([(("--high-runtime=runc",), ("CVE-", "update runc"))] if has("runc") else [])])
def test_what_is_missing_is_named(make_service, flags, words):
    refused(make_service(*flags), *words)


@only(engine.is_here())
@pytest.mark.parametrize("flags, words", [
    (("--high-runtime=runc",), ("CVE-", "runc")), (("--high-runtime=nosuch",), ("nosuch", "daemon.json")),
    (("--high-allow-runtime=runc", "--high-runtime=runc", "--high-image=nosuch:latest"), ("nosuch:latest", "pull"))])
def test_what_an_engine_lacks_is_named(make_service, monkeypatch, flags, words):
    monkeypatch.setenv("DOCKER_HOST", engine.engine().env["DOCKER_HOST"])
    service = make_service("--high-isolation=docker", *flags)
    refused(service, *words, is_told="nosuch:latest" not in words)


def test_an_engine_that_is_not_there_is_named(make_service, monkeypatch, tmp_path):
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/none.sock")
    refused(make_service("--high-isolation=docker"), "docker", "none.sock")


@pytest.mark.parametrize("flag, word", [("--high-runtime=/bin/sh", "runtime"), ("--high-image=../x", "image"), ("--high-isolation=vm", "high-isolation"),
                                        ("--high-image-key=/dev/null", "high-image"), ("--high-images-dir=here", "high-image")])
def test_settings_that_cannot_be(make_service, flag, word):
    status, said = make_service(flag, start=False).fails()
    assert status != 0 and word in said and ("remedy" in said or "allowed" in said)


@only(has("runsc"))
def test_an_operator_may_allow_it_alone(make_service):
    """Programs run in the sandboxes that there are then; who asks for less is refused."""
    service = make_service("--allow-isolation=high", "--high-pool-max=0")
    for path, more in (("run", {"code": "1"}), ("run", {"code": "1", "isolation_level": "standard"}), ("sandbox/create", {})):
        reply = service.post(f"/api/v1/{path}", **more)
        assert (reply.status, reply.json["field"]) == (400, "isolation_level"), reply
    sandbox = f"/api/v1/sandbox/{service.create(isolation_level='high')['sandbox_id']}"
    for more in ({}, {"language": "sh"}):
        reply = service.post(f"{sandbox}/execute", code="print(6 * 7)" if not more else "echo 42", **more)
        assert (reply.status, reply.json.get("output")) == (200, "42\n"), reply
    execution = service.post(f"{sandbox}/execute", code="print(7)", **{"async": True}).json["execution_id"]
    row = wait_until(lambda: (row := service.get(f"/api/v1/executions/{execution}").json)["state"] == "finished" and row, "its end")
    assert row["result"]["output"] == "7\n"
    told = service.get("/api/v1/capabilities").json
    assert told["isolation_levels"] == ["high"] and told["walls"]["net_namespace"]["up"], told
    assert "coto_sandboxes_created_total 4\n" in service.get("/metrics").body.decode(), "no other was made than for capabilities, not even for the pool"


@pytest.mark.parametrize("path", ["run", "sandbox/create"])
def test_an_operator_may_keep_callers_from_it(make_service, path):
    service = make_service("--allow-isolation=standard")
    reply = service.post(f"/api/v1/{path}", isolation_level="high", **({"code": "1"} if path == "run" else {}))
    assert (reply.status, reply.json["field"]) == (400, "isolation_level")
    assert service.get("/api/v1/capabilities").json["isolation_levels"] == ["standard"]
