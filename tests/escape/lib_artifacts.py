"""What the cases about files that come back share.

Files are collected by coto-init, inside; at the level without isolation the same collector stands on the
host itself, where every link is live. Both are attacked. In the controls it follows names, as naive ones do
(FOLLOWS), and stands on the host."""
import os

from escape.harness import escaped
from escape.lib_files import SECRET

LEVELS = {"process": [], "subprocess": ["--isolation", "subprocess"]}
# What keeps a link from being followed: the look before an entry is opened, and the way it is opened.
FOLLOWS = ["lstat", "beneath"]
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


def followed(box, here, code, args=()):
    """The same program and the host's collector, which follows links; where its files went."""
    out = here / "followed"
    result = collect(box, code, out, LEVELS["subprocess"], args=args, without=FOLLOWS)
    assert result.verdict == "ok", result
    return out
