"""FS-15: move a parent of a protected path away, put another in its place, write there."""
from escape.harness import escaped
from escape.lib_files import attempts, counted, fingerprint, room, unchanged
from escape.lib_project import project, shown

TITLE = "renamed parents of a protected path"
TRIED = "rename, exchange and replace of every directory above a read-only mount, then writes under the old name"
WALLS = ["mount_namespace"]
CONTROL = "option"

PARTS = [".git", "sub/deep/.git"]
NAMES = ["sub", "sub/deep", ".git", "sub/deep/.git"]
EVIL = "/p/sub/deep/.git/hooks/pre-commit"
SYS_RENAMEAT2, EXCHANGE = 316, 2


def table():
    rows = {}
    for name in NAMES:
        rows[f"rename {name}"] = f"attempt(os.rename, '/p/{name}', '/p/{name.replace('/', '-')}-old')"
        rows[f"exchange {name}"] = f"kernel({SYS_RENAMEAT2}, -100, b'/p/{name}', -100, b'/p/mine', {EXCHANGE})"
        rows[f"remove {name}"] = f"attempt(shutil.rmtree, '/p/{name}')"
    rows["make"] = f"attempt(os.makedirs, os.path.dirname('{EVIL}'), exist_ok=True)"
    rows["write"] = f"attempt(lambda: open('{EVIL}', 'w').write('evil'))"
    return rows


def attack(box):
    with room() as here:
        top = project(here)
        paths = [top / name for name in NAMES[2:]] + [top / part / "hooks/pre-commit" for part in PARTS]
        before = fingerprint(*paths)
        found = attempts(box, table(), "os.mkdir('/p/mine')", flags=shown(top, *PARTS))
        unchanged(before, fingerprint(*paths))
        moved = [name for name, word in found.items() if word == "done" and name != "make"]
        if moved:
            escaped("WRITE", ", ".join(moved))
    return counted(found.values())


def control(box):
    """Without protection the directory is moved away and a hook stands under the old name."""
    with room() as here:
        top = project(here)
        rows = {name: table()[name] for name in ("rename sub", "make", "write")}
        found = attempts(box, rows, flags=shown(top))
        assert set(found.values()) == {"done"}, found
        assert (top / "sub/deep/.git/hooks/pre-commit").read_text() == "evil"
    return "moved away, a hook written under the old name"
