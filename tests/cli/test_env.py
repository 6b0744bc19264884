"""The environment as a source of policy (R1.2): values, refusals by name, precedence."""
import json

import pytest

from .helpers import CGROUPS, coto, inside, ok, refused, run, run_json

TRUE = ("--", "true")


def explained(*args, env=None):
    """key -> (value, who set it)."""
    rows = ok(coto("policy", "explain", *args, env=env)).decode().splitlines()
    head = rows[0]
    value, who = head.index("VALUE"), head.index("SET BY")
    return {row[:value].strip(): (row[value:who].strip(), row[who:].strip()) for row in rows[1:]}


def test_sandbox_type_local_is_the_default():
    result = run_json(*TRUE)
    assert (result["isolation"], result["driver"]) == ("process", "native")
    assert run_json(*TRUE, env={"SANDBOX_TYPE": "local"})["isolation"] == "process"


def test_sandbox_type_that_is_not_there_is_no_weaker_sandbox():
    refused(run("--", "echo", "ran", env={"SANDBOX_TYPE": "e2b"}), 69, "SANDBOX_TYPE=e2b", "not available")


def test_sandbox_timeout():
    result = run_json("--", "sleep", "20", env={"SANDBOX_TIMEOUT_SEC": "1"})
    assert result["verdict"] == "timeout" and 990 < result["duration_ms"] < 2500
    assert result["walls"]["timeout"]["value"] == "1000ms"
    assert run_json(*TRUE)["walls"]["timeout"]["value"] == "30000ms"


def test_sandbox_max_output():
    env = {"SANDBOX_MAX_OUTPUT_KB": "3"}
    result = run_json("--", "head", "-c", "9000", "/dev/zero", env=env)
    assert result["stdout_bytes_kept"] == 3072 and result["stdout_truncated"]
    assert len(run("--", "head", "-c", "9000", "/dev/zero", env=env).out) == 3072


@pytest.mark.parametrize("name, value", [
    ("DOCKER_IMAGE", "python:3.11-slim"), ("DOCKER_NETWORK_ENABLED", "false"), ("DOCKER_CPU_LIMIT", "0.5"),
    ("DOCKER_MEMORY_LIMIT", "256m"), ("DOCKER_HOST", "tcp://x"), ("COTO_INIT_X", "1")])
def test_good_values_are_taken(name, value):
    assert run(*TRUE, env={name: value}).status == 0


BAD = {"SANDBOX_TYPE": ["", "vm", "Local"], "SANDBOX_TIMEOUT_SEC": ["", "x", "0", "-1", "1.5", "30s", "99999999"],
       "SANDBOX_MAX_OUTPUT_KB": ["", "ten", "0", "-5", "10k"], "DOCKER_IMAGE": ["", "a b", "$(x)"],
       "DOCKER_NETWORK_ENABLED": ["", "maybe"], "DOCKER_CPU_LIMIT": ["", "x", "0", "-1"],
       "DOCKER_MEMORY_LIMIT": ["", "x", "-1", "256x"],
       "COTO_MEMORY": ["x", "1", "-5m"], "COTO_TIMEOUT": ["", "x", "0", "25h"], "COTO_PIDS": ["0", "many"],
       "COTO_JSON": ["perhaps"], "COTO_CPUS": ["0"], "COTO_SECCOMP": ["none"], "COTO_USER": ["0", "root"],
       "COTO_PROFILE": ["nope"], "COTO_NOSUCH": ["1"], "COTO_MEMROY": ["1g"]}


@pytest.mark.parametrize("name, value", [(name, value) for name, values in BAD.items() for value in values])
def test_bad_value_names_the_variable(name, value):
    """Never a silent default: the variable, the value and what is allowed."""
    done = run("--", "echo", "ran", env={name: value})
    assert done.status in (64, 65) and done.out == b"", done
    assert name in done.message and "remedy: " in done.message, done
    if value:
        assert f"'{value}'" in done.message or name in ("COTO_NOSUCH", "COTO_MEMROY"), done


def test_misspelt_variable_is_told_the_right_one():
    assert "COTO_MEMORY" in run(*TRUE, env={"COTO_MEMROY": "1g"}).message


def test_every_option_has_a_variable():
    values = {"COTO_HOSTNAME": ("hostname", "fromenv"), "COTO_MEMORY": ("memory", "111m"),
              "COTO_PIDS": ("pids", "17"), "COTO_CPUS": ("cpus", "0.3"), "COTO_TMP_SIZE": ("tmp-size", "5m"),
              "COTO_OUTPUT_LIMIT": ("output-limit", "9k"), "COTO_WORKSPACE_WRITABLE": ("workspace-writable", "output"),
              "COTO_NOEXEC": ("noexec", "true"), "COTO_SECCOMP": ("seccomp", "strict"),
              "COTO_ENV": ("env", "A=1")}
    rows = explained(env={name: value for name, (_, value) in values.items()})
    for name, (key, value) in values.items():
        assert rows[key][0].startswith(value) and name in rows[key][1], (name, rows[key])


def test_variables_reach_the_program():
    code = "import os, json, socket; print(json.dumps([os.environ['A'], os.environ['B'], socket.gethostname()]))"
    assert inside(code, env={"COTO_ENV": "A=1,B=2", "COTO_HOSTNAME": "named"}) == ["1", "2", "named"]
    assert json.loads(run(*TRUE, env={"COTO_JSON": "true"}).out)["verdict"] == "ok"
    assert run(env={"COTO_CODE": "print(5)", "COTO_LANG": "python"}).out == b"5\n"


def test_older_names_yield_to_ours():
    both = {"SANDBOX_TIMEOUT_SEC": "9", "COTO_TIMEOUT": "7s"}
    assert explained(env=both)["timeout"][0] == "7s"


def test_precedence(tmp_path):
    """default < profile < environment < policy file < flag."""
    policy = tmp_path / "p.yaml"
    policy.write_text("memory: 300m\n")
    env = {"COTO_MEMORY": "200m"}
    gemini, file = ("--profile", "gemini"), ("--policy", policy)
    steps = [((), None, "512m", "default"), (gemini, None, "128m", "profile gemini"),
             (gemini, env, "200m", "COTO_MEMORY"), ((*gemini, *file), env, "300m", str(policy)),
             ((*gemini, *file, "--memory", "400m"), env, "400m", "--memory")]
    for args, variables, value, who in steps:
        row = explained(*args, env=variables)["memory"]
        # A long path is shown by its end.
        assert row[0] == value and (who in row[1] or row[1][:3] == "..." and who.endswith(row[1][3:])), (row, value)
        wall = run_json(*args, *TRUE, env=variables)["walls"]["memory"]
        if CGROUPS:
            assert wall["value"] == str(int(value[:-1]) << 20)
        else:
            assert wall["wanted"] and not wall["up"]
