"""AR-03: a file and a link to the host change places while the tree is listed, read, written, copied or removed."""
import os

from escape.harness import escaped
from escape.lib_artifacts import collect, contents
from escape.lib_files import SECRET, file, folder, room, secret, tree, unchanged
from escape.lib_race import for_seconds, read_by_name, swapping

TITLE = "files and links swapped during the work on them"
TRIED = "renameat2(EXCHANGE) by another sandbox during collection, --artifacts, --copy and start, 0.5 s each"
WALLS = ["mount_namespace", "uid"]

SWARM = """
for i in range(40): open(f"g{i}", "w").write("mine")
os.mkdir("d"); open("d/x", "w").write("mine"); os.symlink("/etc", "e")
for k in range(3):
    if os.fork() == 0:
        os.setsid()
        while True:
            try: os.rename("d", "t"); os.rename("e", "d"); os.rename("t", "e")
            except OSError: pass
            for i in range(k, 40, 3):
                try:
                    os.symlink("/etc/passwd", f"s{k}"); os.rename(f"s{k}", f"g{i}")
                    open(f"n{k}", "w").write("mine"); os.rename(f"n{k}", f"g{i}")
                except OSError: pass
import time; time.sleep(0.1)
"""


def place(here, name):
    """A directory with a file and a link to the host's secret, and two directories of the same kind."""
    where = folder(here / name)
    host = here / "host"
    file(where / "f", "mine")
    (where / "l").symlink_to(host / "secret")
    folder(where / "d")
    file(where / "d/secret", "mine")
    (where / "k").symlink_to(host)
    return where


def judge(texts):
    for text in texts:
        if SECRET in text or "root:x:0:0" in text:
            escaped("READ", f"read while swapped: {text[:60]!r}")


def collecting(box, here):
    """Inside: the output is a directory that another sandbox changes all the time."""
    for names in (("f", "l"), ("d", "k")):
        where = place(here, f"collect-{names[0]}")
        (where / "l").unlink()
        (where / "l").symlink_to("/etc/passwd")
        (where / "k").unlink()
        (where / "k").symlink_to("/etc")
        with swapping(box, where, *names):
            for turn in for_seconds(0.4):
                out = here / f"collected-{names[0]}-{turn}"
                box.run(["true"], flags=["--mount", f"{where}:/workspace/output:rw", "--artifacts", out])
                judge(data.decode() for data in contents(out).values())


def swarm(box, here):
    """The program's own processes: ended before anything is collected; and where they are not, the collector holds."""
    for turn, without in enumerate(([], ["kill_all"])):
        out = here / f"swarm{turn}"
        result = collect(box, SWARM, out, ["--timeout", "5s"], without=without)
        assert result.verdict == "ok", result
        judge(data.decode() for data in contents(out).values())
    box.host.end(box.host.survivors(0.2))


def writing(box, here):
    """On the host, with the caller's rights: artifacts go to a directory that a sandbox changes all the time."""
    for names, name in ((("f", "l"), "f"), (("d", "k"), "d/secret")):
        where = place(here, f"write-{names[0]}")
        code = f"os.makedirs(os.path.dirname('{name}') or '.', exist_ok=True); open('{name}', 'w').write('evil')"
        with swapping(box, where, *names):
            for _ in for_seconds(0.4):
                collect(box, code, where, may_refuse=True)


def copying(box, here):
    """On the host, with the caller's rights: a tree is copied in while a sandbox changes it."""
    for names in (("f", "l"), ("d", "k")):
        where = place(here, f"copy-{names[0]}")
        with swapping(box, where, *names) as swap:
            for _ in for_seconds(0.4):
                result = box.sh("cat in/f in/l in/d/secret in/k/secret", may_refuse=True, flags=["--copy", f"{where}:in"])
                judge([result.out.decode()])
    return swap.count


def attack(box):
    with room() as here:
        host = folder(here / "host")
        secret(host / "secret", 0o600)
        before = tree(host)
        collecting(box, here)
        swarm(box, here)
        writing(box, here)
        count = copying(box, here)
        unchanged(before, tree(host))
    return f"no host byte, no change, at {'tens of' if count < 100000 else 'hundreds of'} thousands of swaps a second"


def control(box):
    """A reader that looks first and opens the name afterwards is caught."""
    with room() as here:
        host = folder(here / "host")
        secret(host / "secret", 0o600)
        where = place(here, "naive")
        with swapping(box, where, "f", "l"):
            for tries in for_seconds(15):
                if SECRET in read_by_name(os.path.join(where, "f")):
                    break
            else:
                raise AssertionError("the race was never won")
    return "read by name: the host's secret" + (" at the first tries" if tries < 100 else "")
