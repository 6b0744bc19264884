"""coto test: a submission against its tests, one row per case (R1.5)."""
import json
import xml.etree.ElementTree as ElementTree

import pytest

from .helpers import CGROUPS, SOURCE, coto, refused, tool

# runner: files of the submission, files of the tests (one passes, one fails), and the tool
PROJECTS = {
    "go": ("go", {"go.mod": "module m\n\ngo 1.19\n", "add.go": "package m\n\nfunc Add(a, b int) int { return a + b }\n"},
           {"add_test.go": 'package m\n\nimport "testing"\n\nfunc TestGood(t *testing.T) {\n\tif Add(1, 2) != 3 {\n'
                           '\t\tt.Fatal("x")\n\t}\n}\n\nfunc TestBad(t *testing.T) { t.Error("expected") }\n'}),
    "pytest": ("python3", {"add.py": "def add(a, b): return a + b\n"},
               {"test_add.py": "from add import add\ndef test_good(): assert add(1, 2) == 3\n"
                               "def test_bad(): assert add(1, 2) == 4\n"}),
    "unittest": ("python3", {"add.py": "def add(a, b): return a + b\n"},
                 {"add_test_case.py": "import unittest\nfrom add import add\nclass T(unittest.TestCase):\n"
                                      "    def test_good(self): self.assertEqual(add(1, 2), 3)\n"
                                      "    def test_bad(self): self.assertEqual(add(1, 2), 4)\n"}),
    "node": ("node", {"add.js": "exports.add = (a, b) => a + b;\n"},
             {"add.test.js": "const test = require('node:test');\nconst assert = require('node:assert');\n"
                             "const { add } = require('./add.js');\ntest('good', () => assert.equal(add(1, 2), 3));\n"
                             "test('bad', () => assert.equal(add(1, 2), 4));\n"}),
    "make": ("make", {"add.c": "int add(int a, int b) { return a + b; }\n"},
             {"Makefile": "test: check\n\t./check\ncheck: add.c check.c\n\tcc -o $@ add.c check.c\n",
              "check.c": "#include <stdio.h>\nint add(int, int);\nint main(void) {\n"
                         "    printf(\"PASS: good\\n\");\n    int bad = add(1, 2) != 4;\n"
                         "    printf(\"%s: bad\\n\", bad ? \"FAIL\" : \"PASS\");\n    return bad;\n}\n"}),
    "ctest": ("cmake", {"add.c": "int add(int a, int b) { return a + b; }\n"},
              {"CMakeLists.txt": "cmake_minimum_required(VERSION 3.10)\nproject(m C)\nenable_testing()\n"
                                 "add_executable(check add.c check.c)\nadd_test(good check 3)\nadd_test(bad check 4)\n",
               "check.c": "#include <stdlib.h>\nint add(int, int);\n"
                          "int main(int n, char **v) { return n < 2 || add(1, 2) != atoi(v[1]); }\n"}),
}
FLAGS = ("--timeout", "120s", "--memory", "1g")


def lay(folder, files):
    folder.mkdir()
    for name, text in files.items():
        (folder / name).write_text(text)
    return folder


def project(name, tmp_path):
    program, submission, tests = PROJECTS[name]
    assert tool(program), f"make test installs {program}"
    return lay(tmp_path / "submission", submission), lay(tmp_path / "tests", tests)


def judged(*args):
    done = coto("test", "--json", *FLAGS, *args, timeout=150)
    assert done.err == b"" and done.out.count(b"\n") == 1, done
    return done.status, json.loads(done.out)


@pytest.mark.parametrize("name", PROJECTS)
def test_one_passes_one_fails(name, tmp_path):
    status, result = judged("--runner", name, *project(name, tmp_path))
    assert result["runner"] == name and result["passed"] is False
    cases = {case["name"].split("::")[-1].split(".")[-1].lower(): case for case in result["cases"]}
    good = next(case for key, case in cases.items() if "good" in key)
    bad = next(case for key, case in cases.items() if "bad" in key)
    assert len(result["cases"]) == 2 and good["passed"] and not bad["passed"]
    assert status == result["exit_status"] == 1 and result["exit_code"] != 0
    assert result["output"] and set(good) >= {"name", "passed", "duration_ms", "message"}


@pytest.mark.parametrize("name", PROJECTS)
def test_runner_is_found_and_all_pass(name, tmp_path):
    submission, tests = project(name, tmp_path)
    for file in tests.iterdir():
        text = file.read_text()
        for old, new in (('t.Error("expected")', "_ = t"), ("== 4", "== 3"), ("add(1, 2), 4)", "add(1, 2), 3)"),
                         ("add(1, 2) != 4", "add(1, 2) != 3"), ("bad check 4", "bad check 3")):
            text = text.replace(old, new)
        file.write_text(text)
    status, result = judged(submission, tests)
    assert (status, result["passed"], result["exit_code"]) == (0, True, 0), result["output"]
    expected = {"unittest": ("unittest", "pytest")}.get(name, (name,))
    assert result["runner"] in expected and all(case["passed"] for case in result["cases"])
    assert len(result["cases"]) == 2


def test_table(tmp_path):
    done = coto("test", "--runner", "pytest", *project("pytest", tmp_path))
    text = done.out.decode()
    assert done.status == 1 and "RESULT" in text and "1 passed, 1 failed" in text
    assert any(line.startswith("pass") and "test_good" in line for line in text.splitlines())
    assert any(line.startswith("FAIL") and "test_bad" in line for line in text.splitlines())
    assert "assert" in text  # why it failed


def test_junit(tmp_path):
    file = tmp_path / "junit.xml"
    coto("test", "--runner", "pytest", "--junit", file, *project("pytest", tmp_path))
    root = ElementTree.parse(file).getroot()
    suite = root if root.tag == "testsuite" else root.find("testsuite")
    assert (suite.get("tests"), suite.get("failures")) == ("2", "1")
    cases = {case.get("name"): case for case in suite.iter("testcase")}
    assert len(cases) == 2
    assert [name for name, case in cases.items() if case.find("failure") is not None] == \
        [name for name in cases if "bad" in name]


def test_a_submission_that_ends_the_runner_is_not_green(tmp_path):
    """Status 0 and no case at all: neither the result nor the JUnit file may look like success."""
    _, tests = project("pytest", tmp_path)
    submission = lay(tmp_path / "cheat", {"add.py": "import os; os._exit(0)\n"})
    file = tmp_path / "junit.xml"
    status, result = judged("--runner", "pytest", "--junit", file, submission, tests)
    assert (status, result["exit_status"], result["exit_code"], result["passed"]) == (1, 1, 0, False)
    suite = ElementTree.parse(file).getroot().find("testsuite")
    assert (suite.get("tests"), suite.get("errors")) == ("1", "1")
    assert "no test case" in suite.find("testcase/error").get("message")


def test_originals_are_untouched(tmp_path):
    submission, tests = project("pytest", tmp_path)
    before = {p: p.read_bytes() for d in (submission, tests) for p in d.rglob("*") if p.is_file()}
    coto("test", submission, tests)
    after = {p: p.read_bytes() for d in (submission, tests) for p in d.rglob("*") if p.is_file()}
    assert before == after


def test_walls_are_up_around_a_submission(tmp_path):
    """The submission is the untrusted part: it sees what coto run's programs see."""
    folder = lay(tmp_path / "s", {"test_walls.py": (
        "import os\ndef status(): return dict(l.split(':\\t', 1) for l in open('/proc/self/status') if ':\\t' in l)\n"
        "def test_caps(): assert int(status()['CapEff'], 16) == 0 == int(status()['CapBnd'], 16)\n"
        "def test_filter(): assert status()['Seccomp'].strip() == '2' and status()['NoNewPrivs'].strip() == '1'\n"
        "def test_files(): assert not os.path.exists('/root') and not os.path.exists('/home')\n"
        "def test_uid(): assert os.getuid() == 1001\n")})
    status, result = judged("--profile", "gemini", folder)
    assert status == 0 and len(result["cases"]) == 4, result["output"]


def test_submission_that_hangs(tmp_path):
    folder = lay(tmp_path / "s", {"test_x.py": "import time\ndef test_a(): pass\ndef test_hang(): time.sleep(60)\n"})
    done = coto("test", "--json", "--timeout", "3s", folder)
    result = json.loads(done.out)
    assert done.status == 124 and not result["passed"] and done.seconds < 5


def test_submission_that_eats_memory(tmp_path):
    folder = lay(tmp_path / "s", {"test_x.py": "def test_a():\n    x = bytearray(400 << 20)\n    x[::4096] = x[::4096]\n"
                                               "    for i in range(0, len(x), 4096): x[i] = 1\n"})
    done = coto("test", "--json", "--memory", "128m", folder)
    result = json.loads(done.out)
    assert not result["passed"] and done.status != 0
    if CGROUPS:
        assert done.status == 137


def test_course_example():
    """The example that README shows."""
    course = SOURCE / "examples/course"
    status, result = judged(course / "submission", course / "tests")
    assert result["cases"] and (status == 0) == result["passed"]


def test_mistakes(tmp_path):
    refused(coto("test"), 64, "submission")
    assert coto("test", tmp_path / "nothing").status == 66
    folder = lay(tmp_path / "s", {"readme.txt": "no tests"})
    done = coto("test", folder)
    assert done.status in (64, 66) and b"remedy: " in done.err, done
    refused(coto("test", "--runner", "nose", folder), 64, "nose", "pytest")
