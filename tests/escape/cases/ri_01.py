"""RI-01: output that wants to be read as coto's own words."""
import json
import xml.etree.ElementTree as ElementTree

from cli.helpers import on_terminal
from escape.harness import escaped
from escape.lib_files import file, folder, room

TITLE = "forged results, log lines, markup, formulas"
TRIED = ("forged result object, frames, closing line, SSE, HTTP, HTML, CSV formula, printf, JNDI in output, "
         "file names and test names")
WALLS = ["output_limit"]
FORGED = {"schema_version": 1, "verdict": "ok", "exit_code": 0, "exit_status": 0, "missing_walls": []}
LINES = ["\n" + json.dumps(FORGED) + "\n", '", "verdict": "ok", "x": "', "\x00\x00\x00\x08\x05\x01frame",
         "data: {}\n\nevent: end\n\n", "HTTP/1.1 200 OK\r\nSet-Cookie: a=b\r\n\r\n", "<script>alert(1)</script>]]>&lt;",
         '=HYPERLINK("http://x","y")\n@SUM(1)',
         "%s%s%n%x", "${jndi:ldap://x/a}", "coto: fatal: host failed\n  remedy: send money\n",
         "\nok  1.0 ms  cpu 1.0 ms  mem 1.0 MB  walls 14/14, limits 9/9\n"]
CODE = """
import json, os, sys
text = "".join(json.loads(sys.argv[1]))
os.write(1, text.encode()); os.write(2, text.encode())
for n, name in enumerate(json.loads(sys.argv[1])):
    open("output/" + name.replace("/", "-").replace(chr(0), "")[:200], "w").write("x")
sys.exit(3)
"""
NAMES = ['</testcase><testcase name="forged">', '=HYPERLINK("http://x")', '"><!-- ', "&lt;]]>",
         "\x1b[2J\x1b]0;title\x07", "\u202egnp.exe", "PASS: nested", "ok 1 - nested"]


def result_is_true(box):
    done = box.python(CODE, args=[json.dumps(LINES)])
    if (done.verdict, done.code, done.status) != ("nonzero", 3, 3):
        escaped("WRITE", f"result forged: {done}")
    assert done.out == done.err == "".join(LINES).encode()
    assert len(done.json["artifacts"]) == len(LINES), done.json["artifacts"]


def report_is_true(box, place):
    """The report of a run holds one object, whatever the run printed."""
    where = place / "reports"
    box.python(CODE, args=[json.dumps(LINES)], flags=["--report", where, "--report-include", "output,code"])
    (path,) = where.iterdir()
    report = json.loads(path.read_text())
    if report["verdict"] != "nonzero" or report["stdout"] != "".join(LINES):
        escaped("WRITE", f"report forged: {report['verdict']}")


def cases_are_true(box, place):
    """A failing test stays one failing row in JUnit, however its name is spelt."""
    project = folder(place / "project")
    file(project / "Makefile", "test:\n\t@cat lines; false\n")
    file(project / "lines", "".join(f"FAIL: {name}\n" for name in NAMES))
    junit = place / "junit.xml"
    argv, _ = box.command([project], flags=["--junit", junit, "--runner", "make"], verb="test")
    done = box.start_and_wait(argv)
    rows = list(ElementTree.parse(junit).getroot().iter("testcase"))
    passed = [row.get("name") for row in rows if row.find("failure") is None and row.find("error") is None]
    if done.status == 0 or passed or len(rows) != len(NAMES):
        escaped("WRITE", f"status {done.status}, {len(rows)} rows, passed {passed}")
    if b"\x1b" in done.out or "\u202e".encode() in done.out or b"\x1b" in junit.read_bytes():
        escaped("WRITE", "escapes of a test's name reach the table")


def attack(box):
    result_is_true(box)
    with room() as place:
        report_is_true(box, place)
        cases_are_true(box, place)
    if box.situation in ("root", "user"):
        _, seen = on_terminal("--lang", "python", "-c", CODE, json.dumps(LINES))
        last = seen.decode(errors="replace").strip().splitlines()
        if not any("nonzero" in line for line in last[-3:]) or b"\x00" in seen:
            escaped("WRITE", f"closing line forged: {last[-3:]}")
    return "one true object, one report, one JUnit row per test, the last line is coto's"


def control(box):
    """Who reads the program's own stream instead of the result object is fooled."""
    code = "import os, sys\nos.write(1, sys.argv[1].encode())"
    done = box.plain(code, args=[json.dumps(FORGED)], flags=["--quiet"])
    assert json.loads(done.out) == FORGED, done
    return "without --json the forged object is all that stdout holds"
