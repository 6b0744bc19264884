"""What becomes of everything when a part of the service is killed, or all of it is told to end."""
import contextlib
import json
import os
import pathlib
import re
import resource
import signal
import subprocess
import tempfile
import time

import pytest

import apart
from cli.conftest import leftovers, reap  # noqa: F401: pytest finds leftovers by name

from cli.helpers import CGROUPS, SLOW, descendants, only

from .daemon import Daemon
from .helpers import ROOT, wait_until
from .traces import Traces

LONG = "import time; print('begun', flush=True); time.sleep(60)"
EXECUTIONS = "/api/v1/executions"
# What a killed service leaves must be gone by then, and a new one serve.
SECONDS = 5 * SLOW


@pytest.fixture
def service():
    it = Daemon()
    yield it
    it.__exit__()


def namespace(pid):
    """The pid namespace it is in; None when it is gone, or only remembered by its parent."""
    with contextlib.suppress(OSError):
        return os.readlink(f"/proc/{pid}/ns/pid")


def executions(service):
    return service.get("/api/v1/executions").json["executions"]


def begin(service, code, wait=True):
    """An async execution; its id."""
    execution = service.run(code, **{"async": True}).json["execution_id"]
    if wait:
        wait_until(lambda: service.get(f"{EXECUTIONS}/{execution}").json["state"] == "running", "its beginning")
    return execution


def is_seen(found, count):
    """The control of every look for what was left: sandboxes that are alive are found by all they have."""
    inits = [name for name in found["processes"].values() if name.startswith("coto-init")]
    groups = {os.path.basename(path) for path in found.get("cgroups", ())}
    return len(inits) >= count and len(found["mnt namespaces"]) >= count and len(found["pid namespaces"]) >= count and \
        (not CGROUPS or len(groups) >= count) and (not ROOT or len(found["networks"]) >= count)


def test_kill_of_the_keeper_with_twenty_runs(service):
    """DR-01: the kernel ends the front, that ends the launcher, that ends the sandboxes."""
    traces = Traces()
    service.start()
    traces.rests(service)
    runs = service.begin_runs(LONG, 20)
    traces.know(service)
    assert is_seen(traces.look(), 20)
    service.kill_keeper()
    end = time.monotonic() + SECONDS
    service.start()
    assert traces.left(service, end) == {} and time.monotonic() < end
    assert runs() == [None] * 20
    told = executions(service)
    assert len(told) == 20 and {row["state"] for row in told} == {"interrupted"}
    assert service.run("print(1)").json["verdict"] == "ok"
    assert service.stop() == 0


def test_kill_of_the_keeper_leaves_nothing_even_without_a_next_life(service, leftovers):  # noqa: F811
    service.start()
    service.begin_runs(LONG, 3)
    service.kill_keeper()
    wait_until(lambda: not service.members(), "the end of all processes")
    service.process = None
    reap()


def test_kill_of_all_three_at_once(service):
    """DR-01: nobody was left to clean up: the next life does, and is told apart from the last one while it lives."""
    traces = Traces()
    service.start()
    traces.rests(service)
    service.begin_runs(LONG, 20)
    traces.know(service)
    assert is_seen(traces.look(), 20)
    service.kill()
    assert traces.look().get("cgroups") or not CGROUPS, "control: there is something to clean up"
    end = time.monotonic() + SECONDS
    service.start()
    assert traces.left(service, end) == {}
    assert {row["state"] for row in executions(service)} == {"interrupted"}
    assert service.run("print(1)").json["verdict"] == "ok"
    traces.know(service)
    assert traces.look(), "control: of this life there is something"
    assert service.stop() == 0
    assert traces.left(None, time.monotonic() + SECONDS) == {}, "which is gone at its end"


@only(ROOT and os.path.exists("/dev/loop-control"))
def test_control_of_what_sandboxes_never_have(tmp_path):
    """A loop device, a directory for something temporary, a namespace that a mount keeps: each would be seen."""
    traces, image, place = Traces(), tmp_path / "image", tmp_path / "namespace"
    image.write_bytes(bytes(1 << 20))
    place.touch()
    assert traces.look() == {}
    temporary = pathlib.Path(tempfile.mkdtemp(prefix="coto-left-"))
    device = subprocess.run(["losetup", "--find", "--show", image], check=True, capture_output=True, text=True).stdout.strip()
    try:
        subprocess.run(["unshare", "--net", "mount", "--bind", "/proc/self/ns/net", place], check=True)
        assert {"loops", "files", "namespace_mounts", "mounts"} <= set(traces.look())
    finally:
        subprocess.run(["losetup", "--detach", device], check=True)
        subprocess.run(["umount", place], check=False)
        temporary.rmdir()
    assert traces.left(None, time.monotonic() + SECONDS) == {}


def test_kill_of_the_launcher(service):
    """DR-02: what ran is told as lost; sandboxes are gone; the next request works."""
    service.start()
    sandbox = service.create()
    runs = service.begin_runs(LONG, 3)
    front, killed = service.front, service.launcher
    inside = [pid for pid in descendants(killed) if namespace(pid) != namespace(killed)]
    assert len(inside) >= 3
    os.kill(killed, signal.SIGKILL)
    assert {reply.json["verdict"] for reply in runs()} == {"lost"}
    wait_until(lambda: not [pid for pid in inside if namespace(pid)], "the end of all that was in a sandbox")
    assert service.run("print(1)").json["verdict"] == "ok"
    assert service.front == front and service.launcher not in (0, killed)
    assert service.get(f"/api/v1/sandbox/{sandbox['sandbox_id']}").status == 404
    assert service.rows("select state from sandboxes where id = ?", sandbox["sandbox_id"]) == [{"state": "lost"}]
    assert "launcher ended (signal 9)" in service.messages
    assert service.create()["sandbox_id"] != sandbox["sandbox_id"]
    assert service.stop() == 0


def test_launchers_one_after_the_other(service):
    """A number of an old launcher's sandbox means nothing to the next."""
    service.start()
    for _ in range(3):
        held = service.create()["sandbox_id"]
        launcher = service.launcher
        os.kill(launcher, signal.SIGKILL)
        wait_until(lambda: service.launcher not in (0, launcher), "a new launcher")
        mine = service.create()["sandbox_id"]
        assert service.delete(f"/api/v1/sandbox/{held}").status == 404
        assert service.post(f"/api/v1/sandbox/{mine}/execute", code="print(7)").json["output"] == "7\n"
    assert service.stop() == 0


def test_kill_of_the_front(service):
    """What was acknowledged is still known; what ran is told as interrupted."""
    service.start()
    done = [service.run(f"print({i})").json["execution_id"] for i in range(5)]
    sandbox = service.create()
    runs = service.begin_runs(LONG, 2)
    killed, launcher = service.front, service.launcher
    os.kill(killed, signal.SIGKILL)
    assert runs() == [None] * 2
    began = time.monotonic()
    wait_until(lambda: service.front not in (0, killed) and service.is_ready(), "a new front")
    assert time.monotonic() - began < SECONDS and service.launcher == launcher
    states = {row["execution_id"]: row["state"] for row in executions(service)}
    assert {states[known] for known in done} == {"finished"}
    assert sorted(states.values()) == ["finished"] * 5 + ["interrupted"] * 2
    assert service.get(f"/api/v1/sandbox/{sandbox['sandbox_id']}").status == 200
    assert service.run("print(1)").json["verdict"] == "ok"
    assert service.stop() == 0


def test_end_waits_for_what_runs(service):
    """DR-10"""
    service.start()
    runs = service.begin_runs("import time; time.sleep(0.7); print('whole')", 3)
    status, seconds = service.end()
    assert status == 0 and seconds < 20
    assert {reply.json["stdout"] for reply in runs()} == {"whole\n"}


def test_end_waits_no_longer_than_it_was_told(service):
    """DR-10: who waits is told that it was ended, and so are the records."""
    service.start("--drain=300ms")
    runs = service.begin_runs(LONG, 3)
    execution = begin(service, LONG)
    status, seconds = service.end()
    assert status == 0 and seconds < 5
    assert [(reply.status, reply.json["verdict"], reply.json["stdout"]) for reply in runs()] == [(200, "killed", "begun\n")] * 3
    service.start()
    assert {(row["state"], row["verdict"]) for row in executions(service)} == {("finished", "killed")}
    assert service.get(f"{EXECUTIONS}/{execution}").json["result"]["stdout"] == "begun\n"
    assert "interrupted" not in service.messages
    assert service.stop() == 0


def test_end_tells_who_listens(service):
    """Server-sent events: a result is the last of them."""
    service.start("--drain=300ms")
    with contextlib.closing(service.connect()) as connection:
        connection.request("POST", "/api/v1/run", body=json.dumps({"code": LONG}), headers={"Accept": "text/event-stream"})
        response = connection.getresponse()
        while b"begun" not in response.readline():
            pass
        service.signal(signal.SIGTERM)
        name, data = response.read().decode().strip().split("\n\n")[-1].split("\n", 1)
    assert name == "event: result" and json.loads(data.removeprefix("data: "))["verdict"] == "killed"
    assert service.process.wait(60) == 0


def test_what_was_promised_and_has_not_begun_waits_for_the_next_life(service):
    """Not even when the end of others would make room for it."""
    service.start("--drain=300ms", "--workers=1")
    first, waits = begin(service, LONG), begin(service, "print('later')", wait=False)
    assert service.end()[0] == 0
    service.start()
    assert service.get(f"{EXECUTIONS}/{first}").json["verdict"] == "killed"
    wait_until(lambda: service.get(f"{EXECUTIONS}/{waits}").json["state"] == "finished", "its end")
    assert service.get(f"{EXECUTIONS}/{waits}").json["result"]["stdout"] == "later\n"
    assert service.stop() == 0


def test_while_it_ends_one_may_look_but_not_begin(service):
    """DR-10: /readyz tells who sends it work; results can be fetched, other executions be ended."""
    service.start("--drain=50s")
    box = service.create()["sandbox_id"]
    done = begin(service, "print('fetched')", wait=False)
    wait_until(lambda: service.get(f"{EXECUTIONS}/{done}").json["state"] == "finished", "its end")
    execution = begin(service, LONG)
    service.signal(signal.SIGTERM)
    service.wait_for_message("ending")
    ready = wait_until(lambda: (reply := service.get("/readyz")).status != 200 and reply, "the word of it")
    assert (ready.status, ready.json) == (503, {"status": "draining"})
    assert service.get("/healthz").status == 200
    assert service.get("/api/v1/sandbox", token=True).status == 200, "on the port too"
    assert service.get(f"{EXECUTIONS}/{done}").json["result"]["stdout"] == "fetched\n"
    assert service.get(f"{EXECUTIONS}/{execution}").json["state"] == "running"
    for method, path in (("POST", "/api/v1/run"), ("POST", "/api/v1/sandbox/create"), ("POST", f"/api/v1/sandbox/{box}/execute"),
                         ("PUT", f"/api/v1/sandbox/{box}/files?path=f")):
        reply = service.ask(method, path, {"code": "print(1)"})
        assert (reply.status, reply.headers["Retry-After"]) == (503, "1"), (path, reply)
        assert reply.json["code"] == "unavailable" and "ending" in reply.json["message"] and reply.json["remedy"]
    assert service.ask("POST", "/api/v1/run", {"code": ""}, token="none").status == 401, "strangers learn nothing"
    assert service.post("/api/v1/token/revoke", token="").status == 400, "a token may still be revoked"
    assert service.delete(f"{EXECUTIONS}/{execution}").status == 202
    assert service.process.wait(60) == 0
    service.start()
    assert service.get(f"{EXECUTIONS}/{execution}").json["verdict"] == "killed"
    assert service.stop() == 0


def test_what_had_half_come_does_not_begin_either(service):
    """DR-10: its head was there before the end began."""
    service.start("--drain=50s")
    begin(service, LONG)
    body = json.dumps({"code": "print(1)"}).encode()
    with contextlib.ExitStack() as stack:
        halves = []
        for path in ("/api/v1/run", "/api/v1/sandbox/create"):
            connection = stack.enter_context(contextlib.closing(service.connect()))
            connection.putrequest("POST", path)
            connection.putheader("Content-Length", str(len(body)))
            connection.endheaders()
            connection.send(body[:5])
            halves.append(connection)
        service.signal(signal.SIGTERM)
        wait_until(lambda: service.get("/readyz").status == 503, "the word of it")
        for connection in halves:
            connection.send(body[5:])
            assert connection.getresponse().status == 503
    service.end()


def test_a_sandbox_whose_end_was_told_ends_with_the_next_front_too(service):
    """202 is a promise: what ran in it has to end first, and the front ends before that."""
    service.start()
    box = f"/api/v1/sandbox/{service.create()['sandbox_id']}"
    service.post(f"{box}/execute", code=LONG, **{"async": True})
    wait_until(lambda: service.get(box).json["state"] == "busy", "the execution")
    os.kill(service.launcher, signal.SIGSTOP)  # it cannot be done before
    try:
        reply = service.delete(box)
        assert (reply.status, reply.json["ending"]) == (202, True), reply
        os.kill(service.front, signal.SIGKILL)
    finally:
        os.kill(service.launcher, signal.SIGCONT)
    wait_until(service.is_ready, "another front")
    wait_until(lambda: service.get(box).status == 404, "its end")
    assert service.stop() == 0


def test_a_launcher_that_hangs_is_replaced(service):
    service.start()
    launcher = service.launcher
    assert service.run("print(1)").json["stdout"] == "1\n"
    os.kill(launcher, signal.SIGSTOP)
    try:
        service.wait_for_message("the launcher does not answer")
        wait_until(lambda: service.launcher not in (None, launcher) and service.is_ready(), "another launcher")
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(launcher, signal.SIGCONT)
    assert service.run("print(2)").json["stdout"] == "2\n"
    assert service.stop() == 0


def test_a_launcher_that_is_only_slow_stays(service):
    """With what is in its sandboxes."""
    service.start()
    launcher, box = service.launcher, f"/api/v1/sandbox/{service.create()['sandbox_id']}"
    assert service.post(f"{box}/execute", code="x = 7").json["verdict"] == "ok"
    os.kill(launcher, signal.SIGSTOP)
    time.sleep(15)
    os.kill(launcher, signal.SIGCONT)
    assert service.post(f"{box}/execute", code="print(x)").json["output"] == "7\n"
    assert service.launcher == launcher and "does not answer" not in service.messages
    assert service.stop() == 0


def test_open_files_are_as_many_as_it_may_have(service):
    """A usual shell gives 1024, of which one tenant's sandboxes took all."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    service.before = lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (256, hard))
    service.start()
    for pid in (service.launcher, service.front):
        limits = re.search(r"^Max open files +(\d+) +(\d+)", pathlib.Path(f"/proc/{pid}/limits").read_text(), re.M)
        assert (int(limits[1]), int(limits[2])) == (min(hard, 65536), hard)
    assert service.run("import resource; print(resource.getrlimit(resource.RLIMIT_NOFILE)[1] < 65536)").json["stdout"] == "True\n"
    assert service.stop() == 0


def test_told_twice_it_ends_at_once(service):
    service.start()
    runs = service.begin_runs(LONG)
    service.signal(signal.SIGTERM)
    service.wait_for_message("ending")
    status, seconds = service.end()
    assert status == 0 and seconds < 10
    assert runs() == [None]


def test_a_key_press_reaches_the_keeper_alone(service):
    """Ctrl-C signals all three; two of them leave it to the first."""
    service.start()
    runs = service.begin_runs("import time; time.sleep(0.5); print('whole')")
    os.killpg(service.process.pid, signal.SIGINT)
    assert service.process.wait(60) == 0
    assert runs()[0].json["stdout"] == "whole\n"
    service.process = None


# ---- one part that is busy ----

STALE, LARGE = "coto-oci-4194301-deadbeef", "coto-oci-4194301-c0ffee00"


def leave_what_cannot_be_removed():
    """In a /run of its own: the directory of a dead box with a mount in it, and one that takes a while."""
    apart.own_mounts()
    subprocess.run(["sh", "-ec", f"""mount -t tmpfs tmpfs /run && cd /run && mkdir -p {STALE}/rootfs {LARGE}
        mount -t tmpfs tmpfs {STALE}/rootfs
        cd {LARGE} && seq -f %g/x 5000 | xargs mkdir -p
        touch -d 2001-01-01 /run/{STALE} /run/{LARGE}"""], check=True)


@only(ROOT)
def test_what_is_left_of_containers_holds_up_nobody(service):
    """Sweeping them is not the launcher's own work: neither one that cannot be removed, nor much of it."""
    service.before = leave_what_cannot_be_removed
    service.start()
    place = f"/proc/{service.process.pid}/root/run"
    took = []
    end = time.monotonic() + 5
    while time.monotonic() < end:
        began = time.monotonic()
        assert service.run("print(1)").json["stdout"] == "1\n"
        took.append(time.monotonic() - began)
        time.sleep(0.1)
    assert max(took) < 2, took
    assert os.path.isdir(f"{place}/{STALE}"), "the control: it was there all the time"
    wait_until(lambda: not os.path.exists(f"{place}/{LARGE}"), "the removal of the other one")
    assert sum(name == "coto-sweep" for _, name in service.members()) <= 1
    assert service.stop() == 0


def dead_pid():
    process = subprocess.Popen(["true"])
    process.wait()
    return process.pid


@only(ROOT and apart.own_groups())
def test_groups_of_a_container_are_removed_wherever_they_are(service):
    """A service in one group finds the directory of a box that a killed one in another group has left, and removes
    that: nobody would know of its groups any more."""
    name = f"{dead_pid()}-deadbeef"
    place = next(it for it in apart.own_groups() if "/freezer" in it)
    above = f"{place}/coto-test-{os.getpid()}"
    os.makedirs(f"{above}/coto-{name}")
    os.mkdir(f"/run/coto-oci-{name}")
    subprocess.run(["touch", "-d", "2001-01-01", f"/run/coto-oci-{name}"], check=True)
    try:
        service.start()
        wait_until(lambda: not os.path.exists(f"/run/coto-oci-{name}"), "the removal of its directory")
        assert not os.path.exists(f"{above}/coto-{name}"), "and of its group"
    finally:
        apart.remove(above)
    assert service.stop() == 0


def test_a_launcher_that_does_not_answer_holds_up_no_other_request(service):
    config = service.room / "config.yaml"
    config.write_text("pool-min: 1\n")
    service.start(f"--config={config}")
    launcher = service.launcher
    os.kill(launcher, signal.SIGSTOP)
    try:
        config.write_text("pool-min: 2\n")
        service.signal(signal.SIGHUP)
        service.wait_for_message("reloaded")
        for _ in range(10):
            began = time.monotonic()
            assert service.get("/api/v1/executions").status == 200
            assert time.monotonic() - began < SECONDS
            time.sleep(0.05)
    finally:
        os.kill(launcher, signal.SIGCONT)
    wait_until(lambda: "coto_pool_target 2\n" in service.get("/metrics").body.decode(), "what it was told meanwhile")
    assert service.run("print(1)").json["stdout"] == "1\n"
    assert service.stop() == 0
