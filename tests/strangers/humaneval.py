"""HumanEval: 164 small Python problems, each with a solution and a test of it.

The file is not part of the tree: it is looked for beside the checkout.
"""
import gzip
import json

from cli.helpers import SOURCE

FILE = SOURCE.parent / "shared/humaneval/HumanEval.jsonl.gz"
# Why there is nothing to run; empty when there is.
ABSENT = "" if FILE.is_file() else f"HumanEval's 164 programs: {FILE} is not there"


def problems():
    if ABSENT:
        return []
    with gzip.open(FILE, "rt") as lines:
        return [json.loads(line) for line in lines]


def program(problem, solution=None):
    """The problem's text, its solution, its test, and a last word that nothing else prints."""
    body = problem["canonical_solution"] if solution is None else solution
    return "\n".join([problem["prompt"] + body, problem["test"],
                      f"check({problem['entry_point']})", f"print('tested {problem['task_id']}')"])
