"""HumanEval's own solutions with their own tests, at default limits: 164 of 164 ok."""
import pytest

from cli.helpers import only, run_json
from levels import LEVELS, here

from . import humaneval

PROBLEMS = humaneval.problems()
# `make levels` runs all of them at each level, `make test` three.
ELSEWHERE = [level for level in LEVELS if level.is_here() and level.isolation in ("container", "docker") and not here()]


def verdict(text, level=here()):
    """(verdict, stdout) of a Python program that comes from stdin, as most callers send it."""
    flags, env = (level.command_flags, {**level.env, **level.prepare()}) if level else ([], {})
    result = run_json(*flags, "--lang", "python", "-", input=text, env=env)
    return result["verdict"], result["stdout"]


if PROBLEMS:
    def test_all_of_them_are_there():
        assert len({problem["task_id"] for problem in PROBLEMS}) == 164

    @pytest.mark.parametrize("problem", PROBLEMS, ids=lambda problem: problem["task_id"])
    def test_solution(problem):
        assert verdict(humaneval.program(problem)) == ("ok", f"tested {problem['task_id']}\n")

    @only(ELSEWHERE)
    @pytest.mark.parametrize("level", ELSEWHERE, ids=lambda level: level.name)
    @pytest.mark.parametrize("problem", PROBLEMS[::60], ids=lambda problem: problem["task_id"])
    def test_solution_at_level(problem, level):
        assert verdict(humaneval.program(problem), level) == ("ok", f"tested {problem['task_id']}\n")

    def test_a_wrong_solution_is_told():
        wrong = humaneval.program(PROBLEMS[0], "    return None\n")
        assert verdict(wrong) == ("nonzero", "")
