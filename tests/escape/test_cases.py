"""Every case of tests/escape/cases/: the attack with all walls, and its control without."""
import importlib
import os
import pathlib
import re

import pytest

from cli.helpers import CORE, SOURCE
from .catalogue import IDS
from .evidence import judged, write
from .harness import CONTROLS, Box
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
    assert getattr(case, "CONTROL", "measure") in CONTROLS, f"{case.ID}: {case.CONTROL}"
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
    with judged(case, "attack", box, different(box.level, case.ID)) as words:
        words.append(case.attack(box))


@pytest.mark.parametrize("name", CHOSEN, ids=title)
def test_control(name, box):
    case = load(name)
    with judged(case, "control", box) as words:
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


def is_there(name, path):
    """A test by the name of its function, a case by its id, a fuzz target by its file."""
    file = SOURCE / path
    if not path.startswith("tests/") or not file.is_file():
        return False
    if name in IDS:
        return title(file.stem) == name
    if name.startswith("fuzz_"):
        return file.stem == name and "LLVMFuzzerTestOneInput" in file.read_text()
    return re.search(rf"^ *def {re.escape(name)}\(", file.read_text(), re.M) is not None


def claims(text):
    """Rows of tables without their heads, and items of lists."""
    lines = text.splitlines()
    return [line for line, after in zip(lines, lines[1:] + [""])
            if line.startswith(("| ", "- ")) and not after.startswith("|--")]


def unproved(text):
    """Claims that lead to no test, and links that lead to none."""
    links = {line: re.findall(r"\[([^]]*)\]\((tests/[^)]*)\)", line) for line in claims(text)}
    return [line for line, found in links.items() if not found] + \
           [link for found in links.values() for link in found if not is_there(*link)]


def test_security_md_proves_every_row():
    text = (SOURCE / "SECURITY.md").read_text()
    assert len(claims(text)) > 40 and unproved(text) == []


@pytest.mark.parametrize("line", [
    "- a claim", "| a | claim |", "- [test_gone](tests/escape/test_cases.py)", "- [FS-01](tests/escape/cases/fs_02.py)",
    "- [test_attack](tests/escape/gone.py)", "- [fuzz_frame](tests/fuzz/fuzz_units.c)", "- [main](docs/EVIDENCE.md)"])
def test_a_row_that_proves_nothing_is_found(line):
    assert unproved(line) and not unproved("- [test_attack](tests/escape/test_cases.py)")
