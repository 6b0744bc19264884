"""FS-14: leave something that the person runs later: hooks, shell start files, editor settings.

Protection is a read-only mount inside a writable one; what does not exist yet is protected by mounting an
empty directory there. No name is protected by itself: the policy says which."""
from escape.lib_files import all_done, all_refused, attempts, fingerprint, folder, room, tree, unchanged
from escape.lib_project import FILES, PROTECTED, project, shown

TITLE = "hooks, start files, editor settings of a project"
TRIED = "write, create, replace, rename, link, chmod, remove in protected parts; mounts given in either order"
WALLS = ["mount_namespace", "landlock"]
CONTROL = "option"


def table():
    rows = {}
    for name in PROTECTED:
        at = f"/p/{name}"
        rows.update({
            f"create {name}": f"attempt(os.open, '{at}/evil', os.O_CREAT | os.O_WRONLY)",
            f"mkdir {name}": f"attempt(os.mkdir, '{at}/evil.d')",
            f"remove {name}": f"attempt(os.rmdir, '{at}')",
            f"rename {name}": f"attempt(os.rename, '{at}', '{at}-old')",
            f"cover {name}": f"attempt(os.rename, '/p/mine', '{at}')",
            f"mode {name}": f"attempt(os.chmod, '{at}', 0o777)",
        })
    for name in (".git/hooks/pre-commit", ".git/config", "sub/deep/.git/hooks/pre-commit", *FILES):
        at = f"/p/{name}"
        rows.update({
            f"write {name}": f"attempt(os.open, '{at}', os.O_WRONLY)",
            f"cut {name}": f"attempt(os.truncate, '{at}', 0)",
            f"unlink {name}": f"attempt(os.unlink, '{at}')",
            f"replace {name}": f"attempt(os.rename, '/p/code.py', '{at}')",
            f"rename {name}": f"attempt(os.rename, '{at}', '{at}.old')",
        })
    return rows


def attack(box):
    words = []
    with room() as here:
        top = project(here)
        empty = folder(here / "empty")
        guarded = [*PROTECTED, *FILES]
        new = ["--mount", f"{empty}:/p/.idea:ro"]
        flags = shown(top, *guarded) + new
        backwards = [word for pair in reversed(list(zip(flags[::2], flags[1::2]))) for word in pair]
        paths = [path for name in guarded for path in [top / name, *(top / name).rglob("*")]]
        before = {**fingerprint(*paths), **tree(empty)}
        for order in (flags, backwards):
            rows = {**table(), "new": "attempt(os.open, '/p/.idea/evil.xml', os.O_CREAT | os.O_WRONLY)"}
            found = attempts(box, rows, "os.makedirs('/p/mine', exist_ok=True)", flags=order)
            words.append(all_refused(found, "WRITE"))
            unchanged(before, {**fingerprint(*paths), **tree(empty)})
            assert not list((top / ".idea").iterdir())
    return words[0]


def control(box):
    """The same project without its read-only parts."""
    with room() as here:
        top = project(here)
        rows = {name: text for name, text in table().items() if name.split()[0] in ("create", "write")}
        text = all_done(attempts(box, rows, flags=shown(top)))
        assert (top / ".git/evil").exists()
    return text
