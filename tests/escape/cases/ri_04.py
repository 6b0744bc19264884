"""RI-04: change, remove or lead astray what coto writes about a run."""
import json
import xml.etree.ElementTree as ElementTree

from escape.harness import escaped
from escape.lib_files import file, folder, room

TITLE = "reports, forged or led astray"
TRIED = ("report directory and JUnit file in a writable mount swapped for links while the program runs; old "
         "reports searched for and changed from inside")
WALLS = ["mount_namespace", "uid"]
CONTROL = "option"
SWAP = """
cd /mnt/shared || exit 9
mv reports moved; ln -s ../victim reports
rm -f junit.xml; ln -s ../victim/file junit.xml
echo "ok 1 - one"; echo 1..1
"""
CHANGE = """
import json, os
out = {}
for top, _, names in os.walk("/mnt/reports"):
    for name in names:
        for how, call in (("write", lambda p: os.open(p, os.O_WRONLY)), ("remove", os.unlink),
                          ("truncate", lambda p: os.truncate(p, 0)), ("rename", lambda p: os.rename(p, p + "x"))):
            try: call(os.path.join(top, name)); out[how] = "done"
            except OSError as reason: out[how] = reason.strerror
print(json.dumps(out))
"""


def astray(box, place):
    """Links put where coto will write when the run has ended."""
    shared, victim = folder(place / "shared"), folder(place / "victim")
    folder(shared / "reports")
    target = file(victim / "file", "untouched")
    mount = ["--mount", f"{shared}:/mnt/shared:rw", "--report", shared / "reports"]
    box.sh(SWAP, flags=mount)
    if len(list(victim.iterdir())) > 1:
        escaped("WRITE", "the report went through a link of the program's")
    (shared / "junit.xml").unlink()
    project = folder(place / "project")
    file(project / "Makefile", "test:\n\t@sh ./swap\n")
    file(project / "swap", SWAP.replace("mv reports moved; ln -s ../victim reports\n", ""))
    argv, _ = box.command([project], flags=[*mount[:2], "--junit", shared / "junit.xml"], verb="test")
    done = box.start_and_wait(argv)
    if target.read_text() != "untouched":
        escaped("WRITE", "the JUnit file went through a link of the program's")
    assert (shared / "junit.xml").is_symlink(), f"the link was not planted: {done}"


def attack(box):
    with room() as place:
        astray(box, place)
        kept = place / "kept"
        flags = ["--report", kept]
        box.sh("true", flags=flags)
        before = {path: path.read_bytes() for path in kept.iterdir()}
        assert len(before) == 1 and all(path.stat().st_mode & 0o777 == 0o600 for path in before)
        kept.chmod(0o755)
        told = box.inside(CHANGE, flags=["--mount", f"{kept}:/mnt/reports:ro"])
        if "done" in told.values() or {path: path.read_bytes() for path in before} != before:
            escaped("WRITE", f"reports changed: {told}")
        return f"links are not followed; old reports shown read-only: {told}"


def control(box):
    """The same changes where the policy gives the directory away."""
    with room() as place:
        given = folder(place / "given")
        file(given / "report.json", json.dumps({"verdict": "nonzero"}))
        told = box.inside(CHANGE, flags=["--mount", f"{given}:/mnt/reports:rw"])
        assert "done" in told.values() and not (given / "report.json").exists(), told
        junit = place / "plain.xml"
        project = folder(place / "project")
        file(project / "Makefile", "test:\n\t@echo PASS: one\n")
        argv, _ = box.command([project], flags=["--junit", junit], verb="test")
        box.start_and_wait(argv)
        rows = list(ElementTree.parse(junit).getroot().iter("testcase"))
        assert len(rows) == 1, rows
        return f"in a directory given away: {told}"
