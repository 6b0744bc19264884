"""CPython's own test modules (Debian: libpython3.11-testsuite), inside a sandbox and outside.

Both sides run `python3 -m test` on one module at a time with the same variables and no
terminal; outside as an ordinary user in a directory of its own. What differs then is what
the sandbox does.
"""
import json
import os
import pathlib
import platform
import re
import signal
import subprocess
import tempfile
import test
import xml.etree.ElementTree as ElementTree

from cli.helpers import COTO, PATH, ROOT

VERSION = platform.python_version()
SECONDS = 300
# Enough for every test; what the default limits end is a difference of its own.
WIDE = ["--memory", "8g", "--pids", "1024"]
TIMES = 3
# Debian's own account without rights, so that outside has no more of them than inside.
ORDINARY = ["setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups", "--inh-caps=-all"]
RESOURCES = "all,-network,-urlfetch,-gui,-audio,-largefile,-cpu"
# Modules that are not run, and why.
LEFT_OUT = {
    "test_largefile": "writes files of 2.5 GB to the disk",
}
# Tests that are left out of a module, because CPython's own runner breaks when they all fail.
IGNORED = {"test_socket": "*UDPLITE*"}
VARIABLES = {"PATH": PATH, "USER": "sandbox", "LOGNAME": "sandbox", "SHELL": "/bin/sh",
             "LANG": "C.UTF-8"}
NAMED = re.compile(r"^(FAIL|ERROR): (\S+) \((?:test\.)?([\w.<>]+?)\)", re.M)
SKIPPED = re.compile(r"^\S+ skipped(?: -- (.*))?$", re.M)


def modules():
    """Every test module there is, by name."""
    folder = pathlib.Path(test.__path__[0])
    return sorted(path.stem for path in folder.glob("test_*")
                  if path.suffix == ".py" or path.suffix == "" and (path / "__init__.py").exists())


def command(module, results):
    ignored = ["-i", IGNORED[module]] if module in IGNORED else []
    return ["/usr/bin/python3", "-m", "test", "-v", "-u", RESOURCES, *ignored,
            "--junit-xml", results, module]


class Outcome:
    """What came of one module: test -> (word, why); "" is the module as a whole."""

    def __init__(self, ended, text, results):
        self.tests = {}
        if results.exists():
            for case in ElementTree.parse(results).iter("testcase"):
                if case.get("name"):
                    self.tests[short(case.get("name"))] = judged(case)
        # Failed subtests and set-up code are told in words only.
        for _, name, place in NAMED.findall(text):
            whole = place if place.endswith("." + name) else f"{place}.{name}"
            self.tests.setdefault(short(whole), ("failed", told(text, name)))
        skipped = SKIPPED.search(text)
        assert "[1/1] " in text, text
        self.tests[""] = ("skipped", skipped[1] or "") if skipped else ended


def short(name):
    return name.removeprefix("test.")


def judged(case):
    for tag, word in (("error", "failed"), ("failure", "failed"), ("skipped", "skipped")):
        found = case.find(tag)
        if found is not None:
            why = found.get("message") or found.text or ""
            return word, why.strip().replace("\n", " ")[:300]
    return "passed", ""


def told(text, name):
    """Last line of the traceback of NAME."""
    block = text[re.search(rf"^(FAIL|ERROR): {re.escape(name)} ", text, re.M).start():]
    body = block.split("-" * 70, 2)[1].split("=" * 70)[0].strip()
    return body.splitlines()[-1][:300] if body else ""


def ending(status):
    """The whole module in one word: regrtest's statuses."""
    words = {0: "passed", 2: "failed", 3: "changed the environment", 4: "ran nothing"}
    return words.get(status, f"status {status}"), ""


def inside(module):
    """At default limits, with terminals; when one of them ends it the tests are told from a run with wide ones."""
    verdict, outcome = run_inside(module)
    if verdict not in ("ok", "nonzero"):
        _, outcome = run_inside(module, *WIDE)
        outcome.tests[""] = (verdict, "")
    return outcome


def run_inside(module, *flags):
    with tempfile.TemporaryDirectory(prefix="coto-test-") as room:
        done = subprocess.run([COTO, "run", "--json", "--timeout", f"{SECONDS}s", "--ptys", "8",
                               "--artifacts", room, *flags, "--", *command(module, "output/results.xml")],
                              stdin=subprocess.DEVNULL, capture_output=True, env={"PATH": PATH})
        result = json.loads(done.stdout)
        assert "error" not in result, result
        text = result["stdout"] + result["stderr"]
        outcome = Outcome(ending(result["exit_code"]), text, pathlib.Path(room) / "results.xml")
        return result["verdict"], outcome


def outside(module):
    with tempfile.TemporaryDirectory(prefix="coto-test-", ignore_cleanup_errors=True) as name:
        room = pathlib.Path(name)
        for folder in (room, room / "work", room / "tmp"):
            folder.mkdir(exist_ok=True)
            folder.chmod(0o777)
        env = dict(VARIABLES, HOME=str(room / "work"), TMPDIR=str(room / "tmp"))
        results = room / "tmp/results.xml"
        process = subprocess.Popen((ORDINARY if ROOT else []) + command(module, results),
                                   cwd=room / "work", env=env, start_new_session=True,
                                   stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                   stderr=subprocess.STDOUT)
        try:
            text, _ = process.communicate(timeout=SECONDS)
            ended = ending(process.returncode)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            text, ended = process.communicate()[0], ("timeout", "")
        return Outcome(ended, text.decode(errors="replace"), results)


class Comparison:
    """Differences of a module that are there every time, and how many tests it has."""

    def __init__(self, module):
        theirs = outside(module)
        self.tests = sum(name != "" for name in theirs.tests)
        self.differences = differences(inside(module), theirs)
        for _ in range(TIMES - 1):
            if self.differences:
                again = differences(inside(module), outside(module))
                self.differences = {name: row for name, row in self.differences.items()
                                    if again.get(name, ("", ""))[:2] == row[:2]}


def differences(ours, theirs):
    """test -> (outside, inside, why) where the two differ."""
    absent = ("absent", "")
    found = {}
    for name in sorted(ours.tests.keys() | theirs.tests.keys()):
        one, other = theirs.tests.get(name, absent), ours.tests.get(name, absent)
        if one[0] != other[0]:
            found[name] = (one[0], other[0], other[1] or one[1])
    return found
