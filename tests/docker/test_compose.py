"""deploy/compose on a real engine: the course runner, with both overrides, and coto serve in a container."""
import json
import re
import subprocess

import pytest
import yaml

import engine
from cli.helpers import BIN, CORE, PATH, SLOW, SOURCE, has_asan
from .helpers import wait_for

FOLDER = SOURCE / "deploy/compose"
MB = 1 << 20


def compose(docker, room, override, *words, **variables):
    """A docker-compose that runs code-runner; the image has python3, not go."""
    env = {**docker.env, "PATH": PATH, "HOME": str(room), "COMPOSE_PROJECT_NAME": "cototest",
           "SUBMISSIONS": str(room / "submissions"), "TESTS": str(room / "tests"),
           "RUNNER_IMAGE": engine.IMAGE, "TEST_COMMAND": "python3 check.py", **variables}
    return subprocess.Popen(["docker-compose", "-f", "docker-compose.sandbox.yml", "-f", f"docker-compose.{override}.yml",
                             *words], cwd=FOLDER, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE)


def folders(room, check):
    for name, text in (("submissions/work.py", "def double(x): return 2 * x\n"), ("tests/check.py", check)):
        path = room / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    room.chmod(0o755)
    return room


def test_the_course_runner_runs(docker, tmp_path):
    """Local override: both folders are there, read-only; what the tests say is the exit status."""
    room = folders(tmp_path, "import os, work\n"
                             "assert work.double(21) == 42 and os.getuid() == 1001\n"
                             "for place in ('/submissions/x', '/tests/x', '/x'):\n"
                             "    try: open(place, 'w'); os._exit(9)\n"
                             "    except OSError: pass\n"
                             "raise SystemExit(print('42') or 3)\n")
    process = compose(docker, room, "local", "run", "-T", "--rm", "code-runner")
    out, err = process.communicate(timeout=120)
    assert (process.returncode, out.split()) == (3, [b"42"]), (out, err)


def test_staging_has_gvisor_and_the_limits_of_the_profile(docker, tmp_path):
    image = docker.call("GET", f"/images/{engine.IMAGE}/json")[1]["Id"]
    room = folders(tmp_path, "import time\nprint('up', flush=True)\ntime.sleep(60)\n")
    process = compose(docker, room, "staging", "run", "-T", "--rm", "code-runner", RUNNER_IMAGE=image, RUN_TIMEOUT="5")
    try:
        shown = wait_for(lambda: [item for item in docker.containers() if item["State"] == "running"], 60)
        host = docker.call("GET", f"/containers/{shown[0]['Id']}/json")[1]["HostConfig"]
        out, err = process.communicate(timeout=120)
    finally:
        process.kill()
        process.communicate()
    assert (process.returncode, out.split()) == (124, [b"up"]), (out, err)
    assert host["Runtime"] == "runsc" and host["NetworkMode"] == "none" and host["ReadonlyRootfs"]
    # 50 processes and 128 MB, and as much as gVisor's kernel needs.
    assert (host["PidsLimit"], host["Memory"], host["MemorySwap"]) == (256 + 24 * 51, 256 * MB, 256 * MB)
    assert host["NanoCpus"] == 500_000_000 and host["CapDrop"] == ["ALL"] and not host["Privileged"]
    assert {mount["Target"]: mount["ReadOnly"] for mount in host["Mounts"] or []} == {"/submissions": True, "/tests": True} \
        or sorted(host["Binds"]) == [f"{room}/{name}:/{name}:ro" for name in ("submissions", "tests")]


# ---- coto serve ----

FILE = "docker-compose.coto.yml"
API = ("curl", "-s", "--unix-socket", "/run/coto/coto/api.sock")


def recipe(room):
    """docker/coto.Dockerfile without its network: packages come from debootstrap, programs from this build."""
    text = re.sub(r"\\\n\s*", " ", (SOURCE / "docker/coto.Dockerfile").read_text())
    installed = re.findall(r"apt-get install -y --no-install-recommends (.*?) &&", text)[-1].replace("${LANGUAGES}", "python3")
    copied = "COPY --from=build /out/usr/local /usr/local\n"
    assert copied in text
    subprocess.run(["meson", "install", "-C", BIN, "--no-rebuild", "--quiet", "--destdir", room / "out"], check=True,
                   timeout=120, stdout=subprocess.DEVNULL)
    programs = next(path for path in (room / "out").rglob("bin/coto")).parent.parent
    (room / "Dockerfile").write_text(f"FROM coto-test-base:latest\nCOPY {programs.relative_to(room)} /usr/local\n"
                                     + text.partition(copied)[2])
    return ",".join(installed.split() + (["libasan8", "libubsan1"] if has_asan() else []))


@pytest.fixture(scope="module")
def service_image(docker, tmp_path_factory):
    room = tmp_path_factory.mktemp("recipe")
    docker.bring_image("coto-test-base:latest", engine.root_tar(recipe(room)))
    docker.build_image("coto-test-serve:latest", room)
    return "coto-test-serve:latest"


class Project:
    """docker-compose on a file, as a project of its own."""

    def __init__(self, docker, image, room, file):
        self.command = ["docker-compose", "-f", str(file)]
        self.env = {**docker.env, "PATH": PATH, "HOME": str(room), "COMPOSE_PROJECT_NAME": "cotoserve", "COTO_IMAGE_NAME": image}

    def do(self, *words):
        return subprocess.run([*self.command, *words], cwd=FOLDER, env=self.env, stdin=subprocess.DEVNULL, capture_output=True,
                              timeout=180 * SLOW)

    def inside(self, *words):
        return self.do("exec", "-T", "coto", *words)


def left(docker):
    """All that an engine could have left of a project."""
    volumes = docker.call("GET", "/volumes")[1]["Volumes"] or []
    networks = docker.call("GET", "/networks")[1]
    mounts = [line.split()[4] for line in open("/proc/self/mountinfo")]
    return (docker.containers(), [item["Name"] for item in volumes], sorted(item["Name"] for item in networks),
            [place for place in mounts if place.startswith(str(docker.room / "data/volumes"))])


def test_coto_serve_in_a_container(docker, service_image, tmp_path):
    """up, a program by curl, down: not privileged, not root, no capability, no host path, and nothing is left."""
    before = left(docker)
    project = Project(docker, service_image, tmp_path, FOLDER / FILE)
    try:
        up = project.do("up", "-d", "--no-build")
        assert up.returncode == 0, up
        assert wait_for(lambda: project.inside(*API, "-f", "http://coto/readyz").returncode == 0, 60 * SLOW), project.do("logs")
        ran = project.inside(*API, "http://coto/api/v1/run", "-d", json.dumps({"code": "print(2+2)"}))
        result = json.loads(ran.stdout)
        assert (result["verdict"], result["stdout"]) == ("ok", "4\n"), ran
        assert not CORE & set(result["missing_walls"]) and "memory" in result["missing_walls"]
        remote = project.inside("coto", "run", "--server", "unix:/run/coto/coto/api.sock", "-c", "print(6*7)", "--lang", "python")
        assert (remote.returncode, remote.stdout) == (0, b"42\n"), remote
        # The /proc that lets sandboxes have theirs is for nobody, also not for the root of a user namespace.
        for command in ("ls /run/closed/proc", "unshare --user --map-root-user ls /run/closed/proc", "ls /run/closed"):
            closed = project.inside("sh", "-c", command)
            assert closed.returncode != 0 and b"Permission denied" in closed.stdout + closed.stderr, closed
        host = docker.call("GET", f"/containers/{docker.containers()[0]['Id']}/json")[1]["HostConfig"]
        assert not host["Privileged"] and host["CapDrop"] == ["ALL"] and not host["CapAdd"] and host["ReadonlyRootfs"]
        assert "/proc/kcore" in host["MaskedPaths"] and "/proc/sys" in host["ReadonlyPaths"]
        assert sorted(bind.split(":")[0] for bind in host["Binds"]) == ["cotoserve_coto-state", "cotoserve_whole-proc"]
    finally:
        down = project.do("down", "-v", "-t", "20")
    assert down.returncode == 0, down
    assert left(docker) == before


@pytest.mark.parametrize("taken, told", [("whole-proc", b"private /proc"), ("seccomp=unconfined", b"user_namespace")])
def test_what_it_is_allowed_is_needed(docker, service_image, tmp_path, taken, told):
    """Without it nothing runs, and coto says what is missing."""
    whole = yaml.safe_load((FOLDER / FILE).read_text())
    service = whole["services"]["coto"]
    del service["build"]
    for key in ("volumes", "security_opt"):
        service[key] = [item for item in service[key] if not item.startswith(taken)]
    (tmp_path / "less.yml").write_text(yaml.safe_dump(whole))
    project = Project(docker, service_image, tmp_path, tmp_path / "less.yml")
    try:
        ran = project.do("run", "-T", "--rm", "coto", "run", "-c", "print(2+2)", "--lang", "python")
    finally:
        project.do("down", "-v", "-t", "20")
    assert 64 <= ran.returncode <= 75 and told in ran.stderr and ran.stdout == b"", ran
