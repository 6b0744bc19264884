"""HumanEval's own solutions with their own tests, at default limits: 164 of 164 ok."""
import pytest

from cli.helpers import run_json

from . import humaneval

PROBLEMS = humaneval.problems()


def verdict(text):
    """(verdict, stdout) of a Python program that comes from stdin, as most callers send it."""
    result = run_json("--lang", "python", "-", input=text)
    return result["verdict"], result["stdout"]


if PROBLEMS:
    def test_all_of_them_are_there():
        assert len({problem["task_id"] for problem in PROBLEMS}) == 164

    @pytest.mark.parametrize("problem", PROBLEMS, ids=lambda problem: problem["task_id"])
    def test_solution(problem):
        assert verdict(humaneval.program(problem)) == ("ok", f"tested {problem['task_id']}\n")

    def test_a_wrong_solution_is_told():
        wrong = humaneval.program(PROBLEMS[0], "    return None\n")
        assert verdict(wrong) == ("nonzero", "")
