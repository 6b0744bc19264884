"""Each profile has its own list of modules that a Python which waits has imported (option `modules`), and the operator may
add some (setting `modules`)."""
import json
import os
import pathlib
import platform
import subprocess
import sys

import pytest

from cli.helpers import BIN, PATH, SOURCE, descendants, only

from .daemon import Daemon
from .helpers import PATIENCE, ROOT, wait_until

USUAL = "json"
LARGE = ["numpy", "pandas", "networkx"]  # of profile deepresearch
WRITES = "matplotlib.pyplot"  # makes places in the home while it is imported
HAS = "import sys; print(*(name for name in ({}) if name in sys.modules))"


def has(service, *names, **more):
    result = service.run(HAS.format(", ".join(map(repr, names)) + ","), **more).json
    assert result["verdict"] == "ok" and (not ROOT or result["missing_walls"] == []), result
    return result["stdout"].split()


def templates(service):
    return [pid for pid, row in descendants(service.process.pid).items()
            if row[0] == service.launcher and row[1].startswith("python3")]


@pytest.fixture(scope="module")
def research():
    """A service whose sandboxes of profile deepresearch wait."""
    with Daemon("--high-isolation=none", "--pool-min=2", "--pool-max=4") as it:
        assert has(it, *LARGE, profile="deepresearch", cold=True) == []  # the control
        wait_until(lambda: "numpy" in has(it, "numpy", profile="deepresearch"))
        yield it
        assert it.stop() == 0, it.messages


def test_a_profile_has_its_own(research):
    assert has(research, *LARGE, USUAL, profile="deepresearch") == [*LARGE, USUAL]
    assert has(research, *LARGE, USUAL) == [USUAL]
    assert has(research, *LARGE, USUAL, profile="gemini") == [USUAL]
    assert len(templates(research)) == 2


def test_nothing_of_the_host_is_written(research):
    """One that makes files is imported where they are its own, and left out where they would be the host's."""
    places = [pathlib.Path("/workspace"), *pathlib.Path("/tmp").glob("matplotlib-*")]
    assert not any(place.exists() for place in places)
    if ROOT:
        assert has(research, WRITES, profile="deepresearch") == [WRITES]
        for pid in templates(research):
            mounts = pathlib.Path(f"/proc/{pid}/mountinfo").read_text().splitlines()
            writable = [line.split()[4] for line in mounts if "ro" not in line.split()[5].split(",")]
            assert writable == ["/"] and pathlib.Path(f"/proc/{pid}/root/workspace").is_dir(), mounts
            with pytest.raises(OSError):
                (pathlib.Path(f"/proc/{pid}/root/tmp") / "coto-test").write_text("")
    else:
        assert has(research, WRITES, profile="deepresearch") == []
        assert f"left out: {WRITES}" in research.messages


def test_copies_work_and_differ(research):
    code = """
import numpy, networkx, threading
print(numpy.dot(numpy.ones((700, 700)), numpy.ones((700, 700)))[0, 0], networkx.path_graph(4).number_of_edges(),
      threading.active_count(), numpy.random.rand(), numpy.random.default_rng().random())
"""
    rows = [research.run(code, profile="deepresearch").json["stdout"].split() for _ in range(4)]
    assert {tuple(row[:3]) for row in rows} == {("700.0", "3", "1")}
    assert len({row[3] for row in rows}) == len({row[4] for row in rows}) == 4


def test_plots_come_back(research):
    code = "import matplotlib; matplotlib.use('Agg'); import matplotlib.pyplot as p; p.plot([1, 2]); p.savefig('output/a.png')"
    result = research.run(code, profile="deepresearch", artifacts=True).json
    assert result["verdict"] == "ok" and [it["name"] for it in result["artifacts"]] == ["a.png"], result


def test_a_copy_has_the_capabilities_of_its_profile(research):
    """All five sets, as a program has them that was started; and others have none."""
    code = "print(*(line.split()[1] for line in open('/proc/self/status') if line.startswith('Cap')))"
    wanted = sum(1 << bit for bit in (0, 3, 6, 7))
    for more in ({}, {"cold": True}):
        sets = research.run(code, profile="deepresearch", **more).json["stdout"].split()
        assert [int(it, 16) for it in sets] == [wanted] * 5, more
    assert [int(it, 16) for it in research.run(code).json["stdout"].split()] == [0] * 5
    works = "import os; open('a', 'w'); os.chown('a', 10000, 10000); print(os.getuid())"
    assert research.run(works, profile="deepresearch").json["stdout"] == "10000\n"


def test_state_is_kept_with_them(research):
    place = f"/api/v1/sandbox/{research.create(profile='deepresearch')['sandbox_id']}/execute"
    assert research.post(place, code="import numpy; x = numpy.arange(4)").json["state_kept"]
    assert research.post(place, code="print(x.sum())").json["output"] == "6\n"


def test_what_the_operator_adds(make_service):
    it = make_service("--high-isolation=none", "--modules=xml.dom.minidom", "--modules=no_such_module", "--modules=wave")
    wait_until(lambda: has(it, "wave", "xml.dom.minidom", USUAL) == ["wave", "xml.dom.minidom", USUAL])
    assert it.messages.count("left out: no_such_module") == 1
    failed = it.run("import no_such_module").json
    assert failed["verdict"] == "nonzero" and "No module named 'no_such_module'" in failed["stderr"]


@pytest.mark.parametrize("name", ["os;print(1)", "1os", "a b", "../os", "os.", ".os", "a" * 101])
def test_what_is_no_module_is_refused(make_service, name):
    status, words = make_service(f"--modules={name}", start=False).fails()
    assert status != 0 and "is not a Python module" in words


def test_one_that_dies_is_replaced(research):
    before = set(templates(research))
    for pid in before:
        os.kill(pid, 9)
    wait_until(lambda: "numpy" in has(research, "numpy", profile="deepresearch") and len(set(templates(research)) - before) == 2)


# Modules that hold what a template makes anew for its copies, or make it something else.
HOLDERS = {
    "holds_buffer": "import sys\nout = sys.stdout.buffer",
    "holds_method": "from random import random as number",
    "holds_library": "import ctypes\nlibrary = ctypes.CDLL(__file__.replace('holds_library.py', 'own.so'))",
    "own_generator": "import random\nclass Own(random.Random):\n    def __init__(self, seed):\n        super().__init__(seed)\n"
                     "random._inst = Own(7)\nrandom.random = random._inst.random",
}
# A page of its variables is executable, of which nothing but the page tables knows.
LIBRARY = """
#include <string.h>
#include <sys/mman.h>
static unsigned char page[4096] __attribute__((aligned(4096)));
static int calls = 1;
int f(void) { return ((int (*)(void))page)() + calls++; }
static __attribute__((constructor)) void make(void)
{
    static const unsigned char code[] = {0xb8, 41, 0, 0, 0, 0xc3};
    memcpy(page, code, sizeof code);
    mprotect(page, sizeof page, PROT_READ | PROT_EXEC);
}
"""
HELD = """
import sys
there = [name in sys.modules for name in ('holds_buffer', 'holds_method', 'holds_library')]
import holds_buffer, holds_method, holds_library, random
print(*there, holds_buffer.out is sys.stdout.buffer, holds_buffer.out.closed, holds_method.number is random.random,
      [holds_library.library.f() for _ in range(2)], flush=True)
holds_buffer.out.write(f'{random.random()} {holds_method.number()}\\n'.encode())
"""
OWN = """
import sys
print('own_generator' in sys.modules)
import own_generator, random
print(random.random(), random._inst.random())
"""
SERVE = """
import json, os
from api.daemon import Daemon
with Daemon('--modules=' + os.environ['NAMES'], '--high-isolation=none', '--pool-min=2', '--pool-max=4') as service:
    said = []
    while len(said) < 3:  # from the moment on that copies are there
        result = service.run(os.environ['CODE']).json
        if result['verdict'] != 'ok' or result['stdout'].startswith('True'):
            said.append(result['stdout'] + result['stderr'])
    print(json.dumps(said))
"""


@only(ROOT and platform.machine() == "x86_64")
@pytest.mark.parametrize("names, code, line", [
    (["holds_buffer", "holds_method", "holds_library"], HELD, "True True True True False True [42, 43]"), (["own_generator"], OWN, "True")])
def test_what_a_module_holds_stays_what_it_was(tmp_path, names, code, line):
    """Also where a library's pages are not what the file says; and none of it leaves programs without a template."""
    for name, text in HOLDERS.items():
        (tmp_path / f"{name}.py").write_text(text)
    (tmp_path / "own.c").write_text(LIBRARY)
    subprocess.run(["gcc", "-shared", "-fPIC", "-O1", "own.c", "-o", "own.so"], cwd=tmp_path, check=True)
    tmp_path.chmod(0o755)
    place = subprocess.run(["/usr/bin/python3", "-c", "import sys; print(next(it for it in sys.path if it.startswith('/usr/local/')))"],
                           stdout=subprocess.PIPE, text=True, check=True).stdout.strip()
    done = subprocess.run(["unshare", "--mount", "bash", "-c", f'mount --bind "$MODULES" {place} && exec "$PYTHON" -c "$SERVE"'], capture_output=True,
                          text=True, timeout=PATIENCE, env={"PATH": PATH, "PYTHONPATH": str(SOURCE / "tests"), "COTO_TEST_BIN": str(BIN), "HOME": "/",
                                                            "PYTHON": sys.executable, "MODULES": str(tmp_path), "SERVE": SERVE, "CODE": code,
                                                            "NAMES": ",".join(names)})
    assert done.returncode == 0, done
    rows = [text.splitlines() for text in json.loads(done.stdout)]
    assert {row[0] for row in rows} == {line}, rows
    numbers = [number for row in rows for number in row[1].split()]
    assert len(set(numbers)) == len(numbers) == 6, rows
