"""AR-04: names that coto writes later are made beforehand, as links to a file of the host (CVE-2024-28185)."""
import os

from escape.harness import escaped
from escape.lib_files import file, folder, room, tree, unchanged
from escape.lib_race import for_seconds

TITLE = "names that are written later, made as links first"
TRIED = "reports, artifacts, JUnit files and copied files where a program with a writable mount has put links"
WALLS = ["mount_namespace", "uid", "beneath"]

# Every name it sees or can guess becomes a link, also while the report is written.
PLANT = """
import os, sys, time
names = ["f", "report.json", "stdout", "stderr", "result.json", "run.sh", "main.py", "junit.xml", "compile.sh", "meta"]
stamp = time.strftime("%Y%m%dT%H%M%S", time.gmtime())
names += [f"{stamp}.{ms:03d}Z-{os.environ.get('COTO_ID', 'x')}.json" for ms in range(0, 1000, 50)]
for name in names:
    try: os.symlink(sys.argv[1], "/shared/" + name)
    except OSError: pass
os.symlink(sys.argv[1], "output/f") if not os.path.exists("output/f") else None
os.unlink("output/f"); open("output/f", "w").write("evil")
"""
WATCH = PLANT + """
print("ready", flush=True)
seen, end = set(names), time.monotonic() + 10
while time.monotonic() < end and not os.path.exists("/shared/stop"):
    for name in os.listdir("/shared"):
        if name not in seen:
            try: os.symlink(sys.argv[1], "/shared/x"); os.rename("/shared/x", "/shared/" + name)
            except OSError: pass
"""


def planted(box, here):
    """A directory where reports and artifacts go, in the hands of the program."""
    shared, victim = folder(here / "shared"), folder(here / "victim")
    file(victim / "file", "untouched")
    return shared, victim, ["--mount", f"{shared}:/shared:rw"]


def attack(box):
    runs = 0
    with room() as here:
        shared, victim, mount = planted(box, here)
        before = tree(victim)
        own = [*mount, "--report", shared, "--artifacts", shared]
        box.python(PLANT, flags=own, args=[victim / "file"], may_refuse=True)
        unchanged(before, tree(victim))
        with box.running(WATCH, flags=mount, args=[victim / "file"]):
            for runs in for_seconds(0.5):
                box.sh("echo evil > output/f", flags=["--report", shared, "--artifacts", shared], may_refuse=True)
                unchanged(before, tree(victim))
            (shared / "stop").touch()
        copied_over(box, here, victim)
        replaced_directory(box, here, victim)
        unchanged(before, tree(victim))
    return f"nothing written through a link in {runs + 1} raced runs"


def copied_over(box, here, victim):
    """--copy and the code itself are written inside: where a mount holds links under their names they are refused."""
    part = folder(here / "part")
    for name in ("main.py", "data"):
        (part / name).symlink_to(victim / "file")
    (part / "dir").symlink_to(victim)
    source = file(here / "source", "evil")
    for target in ("part/data", "part/main.py", "part/dir/file", "part/dir/new"):
        flags = ["--mount", f"{part}:/workspace/part:rw", "--copy", f"{source}:{target}"]
        result = box.run(["true"], flags=flags, may_refuse=True)
        if not result.error:
            escaped("WRITE", f"--copy to {target} went through a link")


def replaced_directory(box, here, victim):
    """The report's directory is moved away and a link put in its place while the program runs."""
    top = folder(here / "top")
    folder(top / "reports")
    code = "import os, sys\nos.rename('/t/reports', '/t/old'); os.symlink(sys.argv[1], '/t/reports')\n"
    box.python(code, flags=["--mount", f"{top}:/t:rw", "--report", top / "reports"], args=[victim], may_refuse=True)
    names = os.listdir(victim)
    if names != ["file"]:
        escaped("WRITE", f"a report went to {names}")


def control(box):
    """Where names are followed, what the program has planted leads its artifact to the victim."""
    with room() as here:
        shared, victim, mount = planted(box, here)
        code = "import os, sys\nos.symlink(sys.argv[1], '/shared/d'); os.mkdir('output/d'); open('output/d/new', 'w').write('evil')"
        box.python(code, flags=[*mount, "--artifacts", shared], args=[victim], without=["beneath"])
        assert (victim / "new").read_text() == "evil"
    return "coto, made to follow links, wrote the artifact to the victim"
