"""deploy/compose on a real engine: the course runner, with both overrides."""
import os
import subprocess

import engine
from cli.helpers import PATH, SOURCE
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
