"""AR-09: a tree that is brought in holds names that lead out, links, devices, set-id files, the same name twice.

Three parsers bring trees in. --copy is attacked here; uploads as tar to the service by tests/api/test_files.py
(test_hostile_members_are_refused, test_a_link_inside_does_not_lead_an_archive_out), and archives that become images
by tests/image/test_hostile.py (test_nothing_outside_is_written, with a control of its own)."""
import os
import stat

from escape.harness import escaped
from escape.lib_artifacts import FOLLOWS
from escape.lib_files import SECRET, file, folder, refusal, room, secret

TITLE = "hostile trees brought in"
TRIED = "--copy of a tree with links out, devices, set-id and unreadable files, a name twice, a link under a later name"
WALLS = ["mount_namespace", "uid", "beneath"]

LOOK = """
import json, os, stat
rows = {}
for top, dirs, files in os.walk("/workspace"):
    for name in dirs + files:
        path = os.path.join(top, name)
        info = os.lstat(path)
        try: text = open(path).read() if not stat.S_ISDIR(info.st_mode) else ""
        except (OSError, ValueError): text = None
        rows[path] = [stat.S_IFMT(info.st_mode), stat.S_IMODE(info.st_mode), info.st_uid, text]
print(json.dumps(rows))
"""


def hostile(here):
    top = folder(here / "tree")
    host = secret(here / "host-secret")
    (top / "absolute").symlink_to(host)
    (top / "up").symlink_to("../host-secret")
    (top / "magic").symlink_to(f"/proc/self/root{host}")
    (top / "dir").symlink_to(here)
    file(top / "setuid", "x", 0o6777)
    file(top / "closed", "x", 0o200 if os.geteuid() == 0 else 0o400)
    folder(top / "setgid").chmod(0o3777)
    os.mkfifo(top / "fifo")
    if os.geteuid() == 0:
        os.mknod(top / "device", stat.S_IFCHR | 0o666, os.makedev(1, 3))
    return top


def attack(box):
    with room() as here:
        top = hostile(here)
        rows = box.inside(LOOK, flags=["--copy", f"{top}:t"])
        for path, (kind, mode, uid, text) in rows.items():
            if text and SECRET in text:
                escaped("READ", f"{path} shows the host's file")
            if kind not in (stat.S_IFREG, stat.S_IFDIR, stat.S_IFLNK):
                escaped("WRITE", f"{path} is a special file")
            if mode & 0o7000 or uid != 10000:
                escaped("WRITE", f"{path} has mode {mode:o}, uid {uid}")
        assert {"/workspace/t/setuid", "/workspace/t/closed", "/workspace/t/absolute"} <= set(rows), rows
        return f"{len(rows)} entries: plain modes, own uid, links as links; {twice(box, here)} through a link refused"


def twice(box, here):
    """The second of two copies is written where the first has put a link: it must not follow."""
    first, second = folder(here / "first"), folder(here / "second")
    for name, target in (("out", "/tmp"), ("etc", "/etc"), ("self", ".")):
        (first / name).symlink_to(target)
        folder(second / name)
        file(second / name / "planted", "evil")
        file(here / name, "evil")
    count = 0
    for name in ("out", "etc", "self"):
        for source, target in ((second / name, f"t/{name}"), (here / name, f"t/{name}"), (here / name, f"t/{name}/x")):
            result = box.sh("cat /tmp/planted /tmp/x", may_refuse=True,
                            flags=["--copy", f"{first}:t", "--copy", f"{source}:{target}"])
            refusal(result, 66)
            count += 1
    plain = box.sh("cat t/f", flags=["--copy", f"{file(here / 'a', '1')}:t/f", "--copy", f"{file(here / 'b', '2')}:t/f"])
    assert plain.text == "2", plain
    return count


def control(box):
    """Where links are followed, the host's file is in the tree."""
    with room() as here:
        top = hostile(here)
        (top / "dir").unlink()
        rows = box.inside(LOOK, flags=["--copy", f"{top}:t"], without=FOLLOWS)
        assert rows["/workspace/t/absolute"][3] == rows["/workspace/t/up"][3] == SECRET, rows
    return "coto's own copy, made to follow links, brought the host's file in"
