"""A project directory shown writable, with parts that are protected by read-only mounts inside it."""
from escape.lib_files import file, folder

PROTECTED = [".git", ".vscode", "sub/deep/.git"]
FILES = [".bashrc", "sub/.profile"]


def project(here):
    top = folder(here / "project")
    for name in ("sub", "sub/deep", *PROTECTED):
        folder(top / name)
    for name in (".git", "sub/deep/.git"):
        folder(top / name / "hooks")
        file(top / name / "hooks/pre-commit", "#!/bin/sh\n")
        file(top / name / "config", "[core]\n")
    for name in FILES:
        file(top / name, "# start\n")
    file(top / "code.py", "pass\n")
    return top


def shown(top, *protected):
    """Flags: all of it writable, and on top of that the protected parts read-only."""
    flags = ["--mount", f"{top}:/p:rw"]
    for name in protected:
        flags += ["--mount", f"{top}/{name}:/p/{name}:ro"]
    return flags
