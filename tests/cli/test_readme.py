"""README's commands do what it says: each line of its examples is run, but for those that other tests have.
The service is tests/api/test_readme.py's, the engine's level tests/docker's, make is what brought us here."""
import re
import shutil
import subprocess

import pytest

from .helpers import BIN, PATH, SLOW, SOURCE

ELSEWHERE = r"(make|docker|api|build/coto serve)\b|id=|.*SANDBOX_TYPE=docker|coto run --image"


def lines():
    blocks = re.findall(r"```sh\n(.*?)```", (SOURCE / "README.md").read_text(), re.S)
    found = [line for block in blocks for line in block.splitlines()]
    return [line for line in found if not re.match(ELSEWHERE, line)]


def test_there_are_as_many_as_we_know_of():
    assert len(lines()) == 17 and sum("coto test" in line for line in lines()) == 1


@pytest.fixture
def clone(tmp_path):
    """What a reader has around: the examples, and files of the names that README uses."""
    shutil.copytree(SOURCE / "examples", tmp_path / "examples")
    (tmp_path / "models").mkdir()
    for name, text in (("script.py", "import sys; print('script', *sys.argv[1:])\n"), ("script", "echo script\n"), ("data.csv", "1,2\n")):
        (tmp_path / name).write_text(text)
    return tmp_path


@pytest.mark.parametrize("line", lines())
def test_line(clone, line):
    line = line.replace("build/coto", "coto").replace("/srv/models", str(clone / "models"))
    done = subprocess.run(["bash", "-o", "pipefail", "-ec", line], cwd=clone, env={"PATH": f"{BIN}:{PATH}", "HOME": str(clone)},
                          stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120 * SLOW)
    # The course's submission has a mistake, which is what its tests are there to find.
    assert done.returncode == (1 if "coto test" in line else 0), done
    if "script" in line:
        assert "script" in done.stdout, done
    assert done.stdout and "coto: " not in done.stderr, done
