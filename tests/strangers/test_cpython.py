"""Some of CPython's own tests, inside and outside; `make compat` runs all of them."""
import re

import pytest

from cli.helpers import SOURCE

from . import cpython, explained

PAGE = (SOURCE / "docs/COMPATIBILITY.md").read_text()
WALLS = set(re.findall(r'X\(\w+, "(\w+)"', (SOURCE / "src/schema/walls.h").read_text()))
# Of the modules that lean on the system, those that take a second or less.
QUICK = ["test_fcntl", "test_grp", "test_mmap", "test_openpty", "test_pty", "test_pwd",
         "test_resource", "test_tempfile", "test_uuid"]


@pytest.mark.parametrize("module", [name for name in QUICK if name in cpython.modules()])
def test_module(module):
    rows = explained.rows(module, cpython.Comparison(module).differences)
    assert [tests for key, tests in rows.items() if not key[3]] == []


def test_a_difference_is_seen():
    found = cpython.Comparison("test_fcntl").differences
    assert found["test_fcntl.TestFcntl.test_fcntl_64_bit"][:2] == ("passed", "failed")


def test_modules_are_there():
    assert len(cpython.modules()) > 300


@pytest.mark.parametrize("row", explained.ROWS, ids=[row[0] for row in explained.ROWS])
def test_explanation(row):
    """Names walls that exist, and is about something that still differs."""
    _, _, walls, why = row
    assert set(walls.split()) <= WALLS
    assert why in PAGE


def test_page_explains_everything():
    assert "not explained" not in PAGE and "| inside |" in PAGE
