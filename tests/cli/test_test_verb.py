"""coto test: a submission against its tests, one row per case (R1.5)."""
import json
import os
import py_compile
import sys
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


def test_a_run_that_fails_leaves_no_cases_of_one_before(tmp_path):
    """What collects the file does not look at the status."""
    file = tmp_path / "junit.xml"
    folders = project("pytest", tmp_path)
    coto("test", "--runner", "pytest", "--junit", file, *folders)
    assert b"testcase" in file.read_bytes()
    done = coto("test", "--isolation", "docker", "--runner", "pytest", "--junit", file, *folders, env={"DOCKER_HOST": "unix:///nowhere"})
    refused(done, 69, "no engine at unix:///nowhere")
    assert file.read_bytes() == b""


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


# A result that is equal to whatever a test expects, and a program that prints the same.
LIE = ("class Any:\n    def __eq__(self, other): return True\n    def __repr__(self): return 'any'\n"
       "def add(a, b): return Any()\nif __name__ == '__main__': print(add(1, 2))\n")
AS_PROGRAM = ("import subprocess, sys\ndef test_add():\n"
              "    assert subprocess.run([sys.executable, 'add.py'], capture_output=True).stdout == b'3\\n'\n")
TRUTH = "def add(a, b): return a + b\nif __name__ == '__main__': print(add(1, 2))\n"


def test_a_submission_in_the_process_of_its_tests_can_lie(tmp_path):
    """SECURITY.md, "known and not mended": a program of its own cannot, which is what helps."""
    lie, truth = (lay(tmp_path / name, {"add.py": text}) for name, text in (("lie", LIE), ("truth", TRUTH)))
    together = lay(tmp_path / "together", {"test_add.py": PROJECTS["pytest"][2]["test_add.py"]})
    apart = lay(tmp_path / "apart", {"test_add.py": AS_PROGRAM})
    passed = {(one.name, tests.name): judged("--runner", "pytest", one, tests)[1]["passed"]
              for one in (lie, truth) for tests in (together, apart)}
    assert passed == {("lie", "together"): True, ("lie", "apart"): False,
                      ("truth", "together"): False, ("truth", "apart"): True}


def lays(folder, files):
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


GO_THAT_PASSES = {"go.mod": "module m\n\ngo 1.19\n", "a_test.go": 'package m\n\nimport "testing"\n\nfunc TestGood(t *testing.T) {}\n'}


def test_a_submission_does_not_choose_its_runner(tmp_path):
    """Files of another runner in the submission must not keep the tests from being run."""
    _, tests = project("unittest", tmp_path)
    cheat = lays(tmp_path / "cheat", {"add.py": "def add(a, b): return 0\n", **GO_THAT_PASSES})
    status, result = judged(cheat, tests)
    assert (status, result["passed"]) == (1, False) and result["runner"] in ("pytest", "unittest"), result
    status, result = judged("--runner", "go", cheat, tests)
    assert status == 0 and result["cases"], "control: these files pass by themselves"


# what the submission brings: nothing of it may take the place of a test or its runner
SETTINGS = {
    "go": {".config/go/env": "GOFLAGS=-run=Good\n"},
    "pytest": {f".local/lib/python3.{sys.version_info.minor}/site-packages/pytest.py":
               "def main(args):\n    print('test_add.py::test_good PASSED [100%]\\n\\n=== 1 passed in 0.01s ===')\n    return 0\n"},
    "ctest": {"build/CTestCustom.cmake": "set(CTEST_CUSTOM_TESTS_IGNORE bad)\n"},
}


@pytest.mark.parametrize("name", SETTINGS)
def test_settings_that_a_submission_brings_are_not_read(name, tmp_path):
    submission, tests = project(name, tmp_path)
    lays(submission, SETTINGS[name])
    status, result = judged("--runner", name, submission, tests)
    assert (status, result["passed"], len(result["cases"])) == (1, False, 2), result["output"]


def test_compiled_files_of_a_submission_are_not_taken_for_tests(tmp_path):
    submission, tests = project("unittest", tmp_path)
    good = tests / "good.txt"
    good.write_text("import unittest\nclass T(unittest.TestCase):\n    def test_good(self): pass\n")
    for folder in ("", "deep/"):
        cache = submission / folder / "__pycache__"
        cache.mkdir(parents=True)
        py_compile.compile(good, cfile=cache / f"add_test_case.{sys.implementation.cache_tag}.pyc",
                           invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH)
    status, result = judged("--runner", "unittest", submission, tests)
    assert (status, result["passed"], len(result["cases"])) == (1, False, 2), result["output"]


@pytest.mark.parametrize("name, file", [("make", "GNUmakefile"), ("make", "makefile"), ("unittest", "add_test_case.so"),
                                        ("pytest", "test_add/__init__.py"), ("pytest", "test_add.cpython-311-x86_64-linux-gnu.so")])
def test_what_would_be_read_instead_of_a_test_is_refused(name, file, tmp_path):
    submission, tests = project(name, tmp_path)
    lays(submission, {file: "test:\n\t@echo PASS: all\n"})
    refused(coto("test", submission, tests), 66, "in place of the tests'", file.split("/")[0])
    lays(tests, {file.split("/")[0]: ""}) if name == "make" else None
    if name == "make":
        assert b"in place of" not in coto("test", submission, tests).err, "the tests have one themselves"


def test_a_module_around_a_test_is_refused(tmp_path):
    """go leaves folders with a go.mod of their own out of ./..., and says nothing of their tests."""
    bad = 'package calc\n\nimport "testing"\n\nfunc TestBad(t *testing.T) { t.Error("expected") }\n'
    tests = lays(tmp_path / "tests", {"calc/calc_test.go": bad})
    submission = lays(tmp_path / "submission", {**GO_THAT_PASSES, "calc/calc.go": "package calc\n"})
    status, result = judged(submission, tests)
    assert (status, len(result["cases"])) == (1, 2), result["output"]
    lays(submission, {"calc/go.mod": "module calc\n\ngo 1.19\n"})
    refused(coto("test", *FLAGS, submission, tests), 66, "calc/go.mod", "calc/calc_test.go")


def test_junit_is_neither_written_through_a_link_nor_waited_for(tmp_path):
    submission, tests = project("pytest", tmp_path)
    victim = tmp_path / "victim"
    victim.write_text("mine")
    (submission / "link.xml").symlink_to(victim)
    os.mkfifo(submission / "fifo.xml")
    refused(coto("test", "--junit", submission / "link.xml", submission, tests), 73, "link.xml")
    done = coto("test", "--junit", submission / "fifo.xml", submission, tests, timeout=60)
    refused(done, 73, "fifo.xml")
    assert victim.read_text() == "mine"
    done = coto("test", "-q", "--junit", "/dev/stdout", submission, tests)
    assert done.status == 1 and b"<testsuites" in done.out, done


# outputs of less than 10 MB that once took the supervisor minutes to read, after the time limit
SLOW_TO_READ = {
    "pytest": ("python3", {"test_a.py": "def test_a(): pass\n", "conftest.py": (
        "import fcntl, os\n"
        "def is_ours(f):\n"
        "    try: return os.readlink(f'/proc/self/fd/{f}')[:4] == 'pipe' and fcntl.fcntl(f, fcntl.F_GETFL) & 3 == 1\n"
        "    except OSError: return False\n"
        "fd = next(f for f in range(1, 64) if is_ours(f))\n"
        "def say(text):\n"
        "    data = memoryview(text.encode())\n"
        "    while data: data = data[os.write(fd, data[:65536]):]\n"
        "for i in range(9990): say('d/' * 100 + f't.py::t{i} FAILED [ 1%]\\n')\n"
        "say('=== FAILURES ===\\n' + '_ q _\\n' * 1200000)\n"
        "os._exit(0)\n")}),
    "node": ("node", {"big.test.js": "//" + "x" * ((4 << 20) - 200) + "\n", "z.test.js": (
        "const lines = Array.from({length: 9900}, (_, i) => `ok ${i} - /workspace/big.test.js\\n`);\n"
        "require('fs').writeFileSync(`/proc/${process.ppid}/fd/1`, lines.join(''));\n")}),
    "make": ("cc", {"Makefile": "test: slots\n\t@./slots\nslots: slots.c\n\t@cc -O2 -o $@ slots.c\n", "slots.c": (
        "#include <stdio.h>\nint main(void) {\n    char b[16], first[16] = \"\";\n"
        "    for (unsigned i = 0, n = 0; n < 9900; i++) {\n        unsigned h = 2166136261u;\n"
        "        snprintf(b, sizeof b, \"T%x\", i);\n"
        "        for (char *p = b; *p; p++) h = (h ^ (unsigned char)*p) * 16777619u;\n"
        "        if ((h ^ h >> 16) % 4096 != 7) continue;\n"
        "        if (!n++) snprintf(first, sizeof first, \"%s\", b);\n        printf(\"PASS: %s\\n\", b);\n    }\n"
        "    for (int i = 0; i < 700000; i++) printf(\"PASS: %s\\n\", first);\n    return 0;\n}\n")}),
}


@pytest.mark.parametrize("name", SLOW_TO_READ)
def test_no_output_keeps_the_supervisor_reading(name, tmp_path):
    program, files = SLOW_TO_READ[name]
    assert tool(program)
    done = coto("test", "--json", *FLAGS, "--runner", name, lays(tmp_path / "s", files), timeout=150)
    result = json.loads(done.out)
    assert len(result["cases"]) > 9000, result["output"][-500:]
    assert done.seconds - result["duration_ms"] / 1000 < 15, "read after the program's end"


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


@pytest.mark.parametrize("flags, env, words", [
    (["--server", "unix:/nowhere"], {}, ["--server: coto test runs on this host only", "remedy: leave it out"]),
    (["--token-file=/nowhere"], {}, ["--token-file: "]), (["--server-ca=/nowhere"], {}, ["--server-ca: "]),
    (["--client-certificate=/x"], {}, ["--client-certificate: "]), (["--client-key=/x"], {}, ["--client-key: "]),
    ([], {"COTO_SERVER": "unix:/nowhere"}, ["COTO_SERVER: coto test runs on this host only", "remedy: unset COTO_SERVER"]),
])
def test_a_service_is_not_passed_over(tmp_path, flags, env, words):
    """It ran here what was meant to run there."""
    submission = lay(tmp_path / "submission", {"Makefile": "test:\n\t@echo PASS: x\n"})
    refused(coto("test", *flags, submission, env=env), 64, *words)
    for fine in ({}, {"COTO_TOKEN_FILE": "/nowhere"}):
        assert coto("test", submission, env=fine).status == 0, "control"
    assert coto("test", "--server", "", submission, env={"COTO_SERVER": "unix:/nowhere"}).status == 0, "as the remedy says"


def test_help_offers_no_service():
    assert b"--server" in coto("run", "--help").out and b"--server" not in coto("test", "--help").out
