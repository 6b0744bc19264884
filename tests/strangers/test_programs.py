"""Programs of the kind people run, at default limits: each prints what it must."""
import pytest

from cli.helpers import run_json

from . import programs

HERE = [row for row in programs.PROGRAMS if not programs.missing_module(row[0])]


@pytest.mark.parametrize("row", HERE, ids=[row[0] for row in HERE])
def test_program(row):
    _, language, code, expected = row
    result = run_json("--lang", language, "-", input=code)
    assert (result["verdict"], result["stdout"]) == ("ok", expected), result["stderr"]
