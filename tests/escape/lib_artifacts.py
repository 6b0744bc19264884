"""What the cases about files that come back share.

Files are collected by coto-init, inside; at the level without isolation the same collector stands on the
host itself, where every link is live. Both are attacked. The control is a collector that follows names."""
import os
import shutil

from escape.harness import escaped
from escape.lib_files import SECRET, folder

LEVELS = {"process": [], "subprocess": ["--isolation", "subprocess"]}
INTO_OUTPUT = "import os, sys\nos.chdir('output')\n"


def collect(box, code, out, flags=(), **more):
    """Runs a program in its output directory; the result, its files brought to `out`."""
    return box.python(INTO_OUTPUT + code, flags=["--artifacts", out, *flags], **more)


def contents(out):
    """name -> bytes of what was brought back; links and odd things are an escape by themselves."""
    found = {}
    for top, dirs, names in os.walk(os.fsencode(out)):
        for name in dirs + names:
            path = os.path.join(top, name)
            if os.path.islink(path):
                escaped("READ", f"a link came back: {path!r}")
            if name in names:
                with open(path, "rb") as file:
                    found[os.fsdecode(os.path.relpath(path, os.fsencode(out)))] = file.read()
    return found


def no_secret(result, out):
    """An escape when a byte of the host's came back, or its hash was told."""
    for name, data in contents(out).items():
        if SECRET.encode() in data or b"root:x:0:0" in data:
            escaped("READ", f"{name} holds {data[:60]!r}")
    listed = {row["name"] for row in result.json["artifacts"]}
    brought = set(contents(out))
    if listed != brought:
        escaped("WRITE", f"listed {sorted(listed)}, brought {sorted(brought)}")
    return len(brought)


def followed(box, here, code, without=(), args=()):
    """The same program with a host directory for its output, copied by a collector that follows links."""
    shared = folder(here / "naive")
    box.python(INTO_OUTPUT + code, flags=["--mount", f"{shared}:/workspace/output:rw"], without=without, args=args)
    out = here / "copy"

    def special(top, names):
        paths = {name: os.path.join(top, name) for name in names}
        return [name for name, path in paths.items() if not (os.path.isfile(path) or os.path.isdir(path))]

    shutil.copytree(shared, out, symlinks=False, ignore=special)
    return out
