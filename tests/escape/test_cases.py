"""Every case of tests/escape/cases/: the attack with all walls, and its control without."""
import importlib
import pathlib

import pytest

from .evidence import judged
from .harness import Box

FOLDER = pathlib.Path(__file__).with_name("cases")
NAMES = sorted(path.stem for path in FOLDER.glob("[a-z][a-z]_[0-9][0-9].py"))


def load(name):
    case = importlib.import_module("escape.cases." + name)
    case.ID = name.upper().replace("_", "-")
    for field in ("TITLE", "TRIED", "WALLS"):
        assert getattr(case, field, None), f"{case.ID} has no {field}"
    assert (case.__doc__ or "").startswith(case.ID + ":"), f"{case.ID} does not begin with its id"
    return case


def title(name):
    return name.upper().replace("_", "-")


@pytest.fixture
def box(tmp_path):
    return Box(tmp_path)


@pytest.mark.parametrize("name", NAMES, ids=title)
def test_attack(name, box):
    case = load(name)
    with judged(case, "attack") as words:
        words.append(case.attack(box))


@pytest.mark.parametrize("name", NAMES, ids=title)
def test_control(name, box):
    case = load(name)
    with judged(case, "control") as words:
        words.append(case.control(box))
