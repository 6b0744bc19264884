"""AR-02: a directory on the way is the link: in the output, the output itself, or where artifacts are written."""
from escape.harness import escaped
from escape.lib_artifacts import LEVELS, collect, contents, followed, no_secret
from escape.lib_files import SECRET, file, folder, room, secret, tree, unchanged

TITLE = "links in place of directories"
TRIED = "output/ and directories in it as links to a host directory, at both levels; links in the --artifacts directory"
WALLS = ["mount_namespace", "beneath"]

IN_OUTPUT = "os.mkdir('real'); os.symlink(sys.argv[1], 'real/d'); os.symlink(sys.argv[1], 'd')"
FORMS = {
    "directory": IN_OUTPUT,
    "output": "os.chdir('..'); os.rmdir('output'); os.symlink(sys.argv[1], 'output')",
    "output up": "os.chdir('..'); os.rmdir('output'); os.symlink('../' * 12 + sys.argv[1][1:], 'output')",
    "output magic": "os.chdir('..'); os.rmdir('output'); os.symlink('/proc/self/root' + sys.argv[1], 'output')",
    "output file": "os.chdir('..'); os.rmdir('output'); open('output', 'w').write('x')",
}


def attack(box):
    with room() as here:
        host = folder(here / "host")
        secret(host / "inner")
        for number, (name, code) in enumerate(FORMS.items()):
            for level, flags in LEVELS.items():
                out = here / f"out-{number}-{level}"
                result = collect(box, code, out, flags, args=[host])
                assert result.verdict == "ok", (name, result)
                if out.exists():
                    no_secret(result, out)
                assert result.json["artifacts"] == [], (name, result.json["artifacts"])
        before = tree(host)
        refused = written_through(box, here, host)
        unchanged(before, tree(host))
    return f"{2 * len(FORMS)} trees, no host file; {refused} writes through links refused or replaced"


def written_through(box, here, host):
    """Links that an earlier run left in the directory where artifacts go."""
    count = 0
    for number, name in enumerate(("d/new", "d/inner", "d/deep/er", "f")):
        out = folder(here / f"target{number}")
        (out / "d").symlink_to(host)
        (out / "f").symlink_to(host / "inner")
        code = f"os.makedirs(os.path.dirname('{name}') or '.', exist_ok=True); open('{name}', 'w').write('evil')"
        result = collect(box, code, out, may_refuse=True)
        if not result.error and name != "f":
            escaped("WRITE", f"{name} was written: {contents(out)}")
        assert result.error or file(out / "f", (out / "f").read_text()).read_text() == "evil"
        count += 1
    return count


def control(box):
    with room() as here:
        host = folder(here / "host")
        secret(host / "inner")
        out = followed(box, here, IN_OUTPUT, args=[host])
        assert (out / "d/inner").read_text() == SECRET and (out / "real/d/inner").read_text() == SECRET
        target = folder(here / "target")
        (target / "d").symlink_to(host)
        collect(box, "os.mkdir('d'); open('d/new', 'w').write('evil')", target, without=["beneath"])
        assert (host / "new").read_text() == "evil"
    return "coto itself, made to follow links, brought the directory and wrote a file into it"
