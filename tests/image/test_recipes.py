"""Dockerfiles and Compose files, as text: what a run or build of theirs will ask for.

Builds need an engine and a network; what was tried by hand is in docs/IMAGES.md."""
import pathlib
import re
import shutil
import subprocess

import pytest
import yaml

SOURCE = pathlib.Path(__file__).resolve().parent.parent.parent
DOCKERFILES = sorted((SOURCE / "docker").glob("*.Dockerfile"))
COMPOSE = SOURCE / "deploy/compose"
DIGEST = "registry.example/ia-libre/code-runner@sha256:" + "0" * 64


def instructions(path):
    """(word, rest) of each, lines joined and comments left out."""
    lines = [line for line in path.read_text().splitlines() if not line.lstrip().startswith("#")]
    text = re.sub(r"\\\n\s*", " ", "\n".join(lines))
    return [tuple(line.split(None, 1)) for line in text.splitlines() if line.strip()]


def problems(found):
    """What a linter of Dockerfiles complains about, and what coto asks for beyond it."""
    words = [word for word, _ in found]
    runs = [rest for word, rest in found if word == "RUN"]
    stages = [rest for word, rest in found if word == "FROM"]
    told = ["unknown instruction " + word for word in set(words) - {
        "ARG", "FROM", "RUN", "COPY", "ENV", "LABEL", "USER", "WORKDIR", "CMD", "ENTRYPOINT", "EXPOSE"}]
    if found[0][0] != "ARG" or not found[0][1].startswith("BASE=") or not all(stage.startswith("${BASE}") for stage in stages):
        told.append("the base is no argument")
    if ":latest" in found[0][1] or ":" not in found[0][1]:
        told.append("the base has no version")
    for run in runs:
        if "apt-get install" in run and "--no-install-recommends" not in run:
            told.append("apt-get install without --no-install-recommends")
        if run.count("apt-get install") > run.count("apt-get update"):
            told.append("apt-get install without update in the same layer")
        if "apt-get install" in run and "rm -rf /var/lib/apt/lists/*" not in run:
            told.append("package lists stay in the layer")
        if re.search(r"\b(sudo|chmod 777)\b|\b(curl|wget) +(-|http)", run) or re.search(r"\bapt (install|update)\b", run):
            told.append("sudo, curl, wget, apt or chmod 777")
    users = [rest for word, rest in found if word == "USER"]
    if not users or not re.fullmatch(r"[1-9]\d*:[1-9]\d*", users[-1]):
        told.append("it does not end as a numbered user that is not root")
    if words[-1] not in ("CMD", "ENTRYPOINT") or any(not rest.startswith("[") for word, rest in found if word in ("CMD", "ENTRYPOINT")):
        told.append("no CMD in its JSON form at the end")
    if any(re.search(r"(?i)(password|secret|token)=\S", rest) for word, rest in found if word in ("ENV", "ARG")):
        told.append("a secret")
    return told


@pytest.mark.parametrize("path", DOCKERFILES, ids=lambda path: path.name)
def test_dockerfiles(path):
    assert problems(instructions(path)) == []


@pytest.mark.parametrize("change, told", [
    (("--no-install-recommends", ""), "without --no-install-recommends"), (("USER 9999:9999", "USER root"), "not root"),
    (("rm -rf /var/lib/apt/lists/*", "true"), "lists stay"), (("debian:12-slim", "debian:latest"), "no version"),
    (("FROM ${BASE}", "FROM debian"), "no argument"), (('CMD ["/bin/sh"]', "CMD sh"), "JSON"), (("USER 9999", "ADD x /\nUSER 9999"), "ADD"),
    (("apt-get update \\\n    &&", ""), "without update"), (("ENV LANG", "ENV TOKEN=abc\nENV LANG"), "secret"),
    (("find / -xdev", "curl -sf http://x/y | sh"), "curl"),
])
def test_control_the_checks_find_it(tmp_path, change, told):
    text = (SOURCE / "docker/sandbox.Dockerfile").read_text()
    assert change[0] in text
    (tmp_path / "f").write_text(text.replace(*change))
    assert any(told in problem for problem in problems(instructions(tmp_path / "f")))


def test_the_users_and_packages_that_were_asked_for():
    sandbox = dict(instructions(SOURCE / "docker/sandbox.Dockerfile"))
    assert sandbox["USER"] == "9999:9999"
    plotting = (SOURCE / "docker/deepresearch.Dockerfile").read_text()
    for package in ("python3-matplotlib", "python3-networkx", "python3-pandas", "graphviz", "chromium", "@mermaid-js/mermaid-cli", "polars"):
        assert package in plotting


# ---- Compose ----

def config(*names, **variables):
    """What docker-compose makes of the files."""
    assert shutil.which("docker-compose"), "apt-get install docker-compose"
    command = ["docker-compose", *(word for name in names for word in ("-f", f"docker-compose.{name}.yml")), "config"]
    done = subprocess.run(command, cwd=COMPOSE, capture_output=True, text=True, timeout=300,
                          env={"PATH": "/usr/bin:/bin", "HOME": "/nonexistent", **variables})
    assert done.returncode == 0, done.stderr
    return yaml.safe_load(done.stdout)["services"]


G_PROFILE = {"user": "1001:1001", "network_mode": "none", "read_only": True, "cap_drop": ["ALL"], "pids_limit": 50,
             "mem_limit": "128m", "memswap_limit": "128m", "cpus": 0.5, "security_opt": ["no-new-privileges:true"]}


@pytest.mark.parametrize("files, variables", [(["sandbox"], {}), (["sandbox", "local"], {}),
                                              (["sandbox", "staging"], {"RUNNER_IMAGE": DIGEST})])
def test_the_course_runner(files, variables):
    runner = config(*files, **variables)["code-runner"]
    # gVisor's kernel has tasks and memory of its own, which the engine counts.
    more = {"pids_limit": 256 + 24 * 51, "mem_limit": "256m", "memswap_limit": "256m"} if "staging" in files else {}
    wanted = {**G_PROFILE, **more}
    assert {key: runner[key] for key in wanted} == wanted
    assert "privileged" not in runner and "cap_add" not in runner and "ports" not in runner and "devices" not in runner
    assert [(mount["target"], mount["read_only"]) for mount in runner["volumes"]] == [("/submissions", True), ("/tests", True)]
    assert "go test -v -timeout 30s ./..." in runner["command"][2]
    assert all("nosuid" in place and "nodev" in place and "size=" in place for place in runner["tmpfs"])
    if "staging" in files:
        assert runner["image"] == DIGEST and runner["runtime"] == "runsc" and "build" not in runner


def test_another_command_and_another_time():
    runner = config("sandbox", TEST_COMMAND="python3 -m pytest -q", RUN_TIMEOUT="5", SUBMISSIONS="/srv/s")["code-runner"]
    assert "5s python3 -m pytest -q" in runner["command"][2] and runner["volumes"][0]["source"] == "/srv/s"


def test_the_command_itself(tmp_path):
    """Its status: the program's own, 124 at the time limit, whatever the program does about signals."""
    for name in ("submissions", "tests", "workspace"):
        (tmp_path / name).mkdir()
    (tmp_path / "submissions/a").write_text("a")
    (tmp_path / "tests/b").write_text("b")

    whole = config("sandbox", TEST_COMMAND="COMMAND", RUN_TIMEOUT="4321")["code-runner"]["command"][2].replace("$$", "$")

    def status(command, seconds=60, before=""):
        script = before + whole.replace("4321", str(seconds)).replace("COMMAND", command)
        for name in ("submissions", "tests", "workspace"):
            script = script.replace(f"/{name}/", f"{tmp_path}/{name}/")
        return subprocess.run(["/bin/sh", "-c", script], cwd=tmp_path / "workspace", timeout=120, capture_output=True).returncode

    assert status("cat a b") == 0 and status("false") == 1 and status("sh -c 'exit 7'") == 7
    assert status("sleep 60", 1) == 124
    assert status("sh -c 'trap : TERM; sleep 60; sleep 60; sleep 60'", 1) == 124
    assert status("python3 -c 'import os; os.kill(os.getpid(), 9)'") == 137
    # Ended 59.1 s after its begin, by a clock of whole seconds: not by the time limit.
    clock = "date() { if [ -e clock ]; then echo 160; else echo 100; : > clock; fi; }\n"
    assert status("sh -c 'kill -9 $$'", before=clock) == 137


def test_staging_wants_a_pinned_image():
    done = subprocess.run(["docker-compose", "-f", "docker-compose.sandbox.yml", "-f", "docker-compose.staging.yml", "config"],
                          cwd=COMPOSE, capture_output=True, text=True, timeout=300, env={"PATH": "/usr/bin:/bin"})
    assert done.returncode != 0 and "pin it by digest" in done.stderr


def test_coto_serve_in_a_container():
    service = config("coto")["coto"]
    assert not service.get("privileged") and service["cap_drop"] == ["ALL"] and "cap_add" not in service
    assert service["user"] == "990:990" and service["read_only"] is True and "no-new-privileges:true" in service["security_opt"]
    assert not any("docker.sock" in str(mount) for mount in service["volumes"]) and "network_mode" not in service and "pid" not in service
    readme = (COMPOSE / "README.md").read_text()
    for option in service["security_opt"]:
        assert option.split(":")[0] in readme, option
    # None of the host's paths; of the volumes one is a /proc, below a directory that is closed to all but root.
    assert sorted(service["volumes"]) == ["coto-state:/var/lib/coto:rw", "whole-proc:/run/closed/proc:rw"]
    assert any(re.fullmatch(r"/run/closed:.*mode=0700", place) and "uid=" not in place for place in service["tmpfs"])
