"""Every case of tests/escape/cases/: the attack with all walls, and its control without."""
import importlib
import os
import pathlib
import re

import pytest

from cli.helpers import CORE, SOURCE
from .catalogue import IDS
from .evidence import judged, write
from .harness import Box
from .levels import different

FOLDER = pathlib.Path(__file__).with_name("cases")
MISSING = {"root": set(), "user": set(), "userns": set(), "old": {"landlock"}}
NAMES = sorted(path.stem for path in FOLDER.glob("[a-z][a-z]_[0-9][0-9].py"))
FAMILIES = os.environ.get("COTO_TEST_FAMILIES", "").lower().split()
CHOSEN = [name for name in NAMES if not FAMILIES or name[:2] in FAMILIES]


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


@pytest.mark.parametrize("name", CHOSEN, ids=title)
def test_attack(name, box):
    case = load(name)
    with judged(case, "attack", different(box.level, case.ID)) as words:
        words.append(case.attack(box))


@pytest.mark.parametrize("name", CHOSEN, ids=title)
def test_control(name, box):
    case = load(name)
    with judged(case, "control") as words:
        words.append(case.control(box))


def test_walls_here(box):
    """Which walls this situation gives, for the table."""
    walls = {name: wall["mechanism"] if wall["up"] else "missing"
             for name, wall in box.sh("true").json["walls"].items() if wall["wanted"]}
    assert all(state != "missing" for name, state in walls.items() if name in CORE - MISSING[box.situation])
    write({"part": "walls", "walls": walls})


def test_every_id_is_known():
    assert not set(map(title, NAMES)) - set(IDS)


def test_security_md_leads_to_every_case():
    """From a claim to its proof in one step, and no proof without a claim."""
    linked = re.findall(r"\(tests/escape/cases/(\w+)\.py\)", (SOURCE / "SECURITY.md").read_text())
    assert sorted(set(linked)) == NAMES
