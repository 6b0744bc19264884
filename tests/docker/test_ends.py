"""Whoever is killed, and whenever: nothing stays."""
import os
import shutil
import signal
import subprocess
import time

import pytest

import engine
from server.pki import Authority
from cli.conftest import reap
from cli.helpers import BIN, refused, run
from .helpers import FLAGS, Sleeping, on, wait_for


def test_coto_is_killed(docker):
    with Sleeping(docker) as it:
        helper = it.helper()
        it.process.kill()
        assert it.is_gone() and wait_for(lambda: not docker.containers())
        assert wait_for(lambda: reap() or not os.path.exists(f"/proc/{helper}"))


def test_coto_docker_is_killed(docker):
    with Sleeping(docker) as it:
        os.kill(it.helper(), signal.SIGKILL)
        status, message = it.ends()
        assert status == 70 and "coto-docker" in message and "remedy" in message, message
        assert it.is_gone() and docker.containers() == []


def test_both_are_killed(docker):
    with Sleeping(docker) as it:
        for pid in (it.process.pid, it.helper()):
            os.kill(pid, signal.SIGKILL)
        assert it.is_gone() and wait_for(lambda: not docker.containers())


def test_somebody_removes_the_container(docker):
    with Sleeping(docker) as it:
        docker.call("DELETE", f"/containers/{docker.of_execution()['Id']}?force=1")
        assert it.ends()[0] == 70 and it.is_gone()


def orphan(docker, owner):
    body = f'{{"Image": "{engine.IMAGE}", "Cmd": ["true"], "Labels": {{"coto.owner": "{owner}"}}}}'
    status, answer = docker.call("POST", "/containers/create", body, **{"Content-Type": "application/json"})
    assert status == 201, answer
    return answer["Id"]


def test_what_never_started_is_swept_by_the_next_run(docker):
    boot = open("/proc/sys/kernel/random/boot_id").read().strip()
    with open("/proc/self/stat") as file:
        start = file.read().rpartition(")")[2].split()[19]
    space = os.readlink("/proc/self/ns/pid").strip("pid:[]")
    young = int(time.clock_gettime(time.CLOCK_BOOTTIME) * os.sysconf("SC_CLK_TCK"))
    hour = 3700 * os.sysconf("SC_CLK_TCK")
    gone = [orphan(docker, f"{boot} {os.getpid()} 1 {space}"),
            orphan(docker, f"{boot} {os.getpid()} {young - hour} 1")]  # of a coto in a container, long ago
    kept = [orphan(docker, f"{boot} {os.getpid()} {start} {space}"), orphan(docker, f"{boot} {os.getpid()} {young} 1"),
            orphan(docker, f"another-boot {os.getpid()} 1 {space}")]
    try:
        assert on(docker, "--", "true").status == 0
        assert {item["Id"] for item in docker.containers()} == set(kept)
    finally:
        for name in gone + kept:
            docker.call("DELETE", f"/containers/{name}?force=1")


# ---- the engine itself ----

class Tls:
    """Certificates of both sides, and directories as DOCKER_CERT_PATH names them."""

    def __init__(self, room):
        authority = Authority(room / "ca")
        server, client = authority.issue("server", "server"), authority.issue("client")
        other = Authority(room / "other")
        self.room, self.port = room, 20000 + os.getpid() % 20000
        self.arguments = ["-H", f"tcp://127.0.0.1:{self.port}", "--tlsverify", "--tlscacert", authority.ca,
                          "--tlscert", server[0], "--tlskey", server[1]]
        for name, pair, ca in (("good", client, authority.ca), ("bad", other.issue("stranger"), authority.ca),
                               ("blind", client, other.ca)):
            (room / name).mkdir()
            for to, source in zip(("cert.pem", "key.pem", "ca.pem"), (*pair, ca)):
                (room / name / to).symlink_to(source)

    def env(self, name):
        return {"DOCKER_HOST": f"tcp://127.0.0.1:{self.port}", "DOCKER_TLS_VERIFY": "1",
                "DOCKER_CERT_PATH": str(self.room / name)}

    def run(self, name, *args, **more):
        return run(*FLAGS, *args, env=self.env(name), **more)


@pytest.fixture(scope="module")
def own(tmp_path_factory):
    """An engine that may be stopped, behind TCP too."""
    made = engine.Engine()
    made.tls = Tls(tmp_path_factory.mktemp("tls"))
    made.more = made.tls.arguments
    try:
        made.start()
        made.bring_image(engine.IMAGE, engine.root_tar())
        yield made
    finally:
        made.close()


def test_over_tls(own):
    """Certificates of both sides are checked; bytes come through whole."""
    data = os.urandom(1 << 20)
    done = own.tls.run("good", "--", "cat", input=data)
    assert done.status == 0 and done.out == data, done.err
    refused(own.tls.run("bad", "--", "echo", "ran"), 69, "docker: ")
    refused(own.tls.run("blind", "--", "echo", "ran"), 69, "TLS with 127.0.0.1")
    refused(own.tls.run("none", "--", "echo", "ran"), 66, "ca.pem")
    refused(run(*FLAGS, "--", "echo", "ran", env={"DOCKER_HOST": "tcp://192.0.2.1:2375"}), 68, "without TLS")
    assert own.containers() == []


def volumes(docker):
    return [volume["Name"] for volume in docker.call("GET", "/volumes")[1]["Volumes"] or []]


def test_init_is_sent_over_tcp(own):
    """An engine behind TCP may be anywhere: it gets coto-init in a volume, which goes with the run."""
    with Sleeping(own, env=own.tls.env("good")) as it:
        shown = own.of_execution()
        assert [(m["Type"], m["Destination"], m["RW"]) for m in shown["Mounts"]] == [
            ("volume", "/.coto-init", False)]
        assert volumes(own) == [shown["Name"].lstrip("/")]
        it.process.send_signal(signal.SIGINT)
        it.ends()
    assert volumes(own) == [] and own.containers() == []


def test_whoever_is_killed_the_volume_goes(own):
    with Sleeping(own, env=own.tls.env("good")) as it:
        os.kill(it.helper(), signal.SIGKILL)
        assert it.ends()[0] == 70
        assert volumes(own) == []
    with Sleeping(own, env=own.tls.env("good")) as it:
        for pid in (it.process.pid, it.helper()):
            os.kill(pid, signal.SIGKILL)
        assert it.is_gone() and wait_for(lambda: not own.containers())
    assert len(volumes(own)) == 1  # nobody was left to do it
    assert own.tls.run("good", "--", "true").status == 0 and volumes(own) == []


def test_an_engine_that_does_not_see_our_files(tmp_path):
    """As through a forwarded socket: our programs are not there, where it runs."""
    made = engine.Engine()
    made.prefix = ["unshare", "--mount", "sh", "-c", 'mount -t tmpfs none "$0" && exec "$@"', BIN]
    try:
        made.start()
        empty = tmp_path / "empty.tar"
        subprocess.run(["tar", "-cf", empty, "-T", "/dev/null"], check=True)
        made.bring_image(engine.EMPTY, empty)
        data = os.urandom(1 << 20)
        done = on(made, "--image", engine.EMPTY, "--copy", f"{shutil.which('busybox')}:/workspace/busybox", "--",
                  "/workspace/busybox", "cat", input=data)
        assert done.status == 0 and done.out == data, done.err
        assert volumes(made) == [] and made.containers() == []
        refused(on(made, "--image", "no/such:image", "--", "true"), 66, "no image")
        assert volumes(made) == []
    finally:
        made.close()


def test_the_engine_stops_in_the_middle(own):
    for signo in (signal.SIGTERM, signal.SIGKILL):
        with Sleeping(own) as it:
            own.stop(signo)
            status, message = it.ends()
            assert status == 69 and "lost while the program ran" in message and "remedy" in message, message
            assert it.is_gone()
        own.start()
        assert wait_for(lambda: not own.containers()), own.containers()
    own.stop()
    refused(on(own, "--", "echo", "ran"), 69, "no engine", "DOCKER_HOST")
