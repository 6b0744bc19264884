"""AR-12: modes that outlive the run: set-id files for the host, files that nobody can read or remove."""
import os
import stat

from escape.harness import escaped
from escape.lib_artifacts import LEVELS, collect, contents
from escape.lib_files import room

TITLE = "set-id and unreadable files"
TRIED = "files of modes 000, 4777, 2755, 6777, 1777 and directories of 000, 2777 collected at both levels, and as --copy"
WALLS = ["uid", "mount_namespace"]

CODE = """
for mode in (0o000, 0o4777, 0o2755, 0o6777, 0o1777, 0o111, 0o222, 0o777):
    name = f"{mode:04o}"
    open(name, "w").write(name)
    os.mkdir("d" + name); open(f"d{name}/f", "w").write(name)
    os.chmod(f"d{name}/f", mode); os.chmod(name, mode); os.chmod("d" + name, mode)
"""
NAMES = ["0000", "4777", "2755", "6777", "1777", "0111", "0222", "0777"]


def attack(box):
    with room() as here:
        for number, level in enumerate(LEVELS.values()):
            out = here / f"out{number}"
            result = collect(box, CODE, out, level)
            found = contents(out)
            assert set(found) == {*NAMES, *(f"d{name}/f" for name in NAMES)}, (sorted(found), result.json)
            for top, dirs, files in os.walk(out):
                for info in (os.lstat(os.path.join(top, name)) for name in dirs + files):
                    if info.st_mode & 0o7022 or info.st_uid != os.geteuid():
                        escaped("WRITE", f"mode {info.st_mode:o} of uid {info.st_uid} came out")
        copied = box.sh("find in -type f -perm /7000; find in -type f ! -perm -600",
                        flags=["--copy", f"{tricky(here)}:in"]).text
        if copied:
            escaped("WRITE", f"came in: {copied}")
    return f"{2 * len(NAMES)} entries as plain 0644, also of directories without any right"


def tricky(here):
    top = here / "in"
    top.mkdir()
    for name in NAMES:
        (top / name).write_text(name)
        (top / name).chmod(int(name, 8) | 0o400)  # the caller must be able to read it
    return top


def control(box):
    """In a writable mount the program's modes are the host's, where no filter looks at them."""
    with room() as here:
        shared = here / "shared"
        shared.mkdir()
        shared.chmod(0o777)
        box.sh("cp /bin/true /s/t; chmod 6755 /s/t", flags=["--mount", f"{shared}:/s:rw"], without=["seccomp"])
        assert (shared / "t").stat().st_mode & stat.S_ISUID
    return "a set-id bit is kept where neither filter nor collector stands between"
