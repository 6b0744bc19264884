"""AR-03: a file and a link to the host change places while the tree is listed, read, written, copied, archived or removed.

Listing, reading, archiving and removal by the service are raced in tests/api/test_files.py
(test_a_link_swapped_in_never_shows_a_host_byte, test_what_grows_while_it_is_removed_costs_no_sandbox).
"""
from escape.harness import BIN, SLOW, escaped, met
from escape.lib_artifacts import LEVELS, collect, contents
from escape.lib_files import SECRET, file, folder, room, secret, tree, unchanged
from escape.lib_race import for_seconds, swapping

TITLE = "files and links swapped during the work on them"
TRIED = ("renameat2(EXCHANGE) by another sandbox, 10 000 times a second and more, during collection, --artifacts, --copy and "
         "image import; by the program's own processes during collection and the removal of a workspace on the host")
WALLS = ["mount_namespace", "uid", "beneath"]
LEAST = 10000  # swaps a second; the fastest of the races must have had as many
SECONDS = 0.2

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
# Two directories with files, one of them a link to the host's by turns, as long as there is anything.
REMOVED = """
import ctypes, os, sys, time
libc = ctypes.CDLL(None)
for i in range(100):
    os.makedirs(f"t/a{i}"); os.symlink(sys.argv[1], f"t/b{i}"); open(f"t/a{i}/secret", "w").write("mine")
for k in range(2):
    if os.fork() == 0:
        os.setsid()
        top, end = os.open("t", os.O_RDONLY), time.monotonic() + 0.4
        pairs = [(b"a%d" % i, b"b%d" % i) for i in range(100)]
        while time.monotonic() < end:
            for one, other in pairs: libc.renameat2(top, one, top, other, 2)
        os._exit(0)
time.sleep(0.05)
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
        with swapping(box, where, *names) as swap:
            for turn in for_seconds(SECONDS):
                out = here / f"collected-{names[0]}-{turn}"
                box.run(["true"], flags=["--mount", f"{where}:/workspace/output:rw", "--artifacts", out])
                judge(data.decode() for data in contents(out).values())
        yield swap.rate


def swarm(box, here):
    """The program's own processes: ended before anything is collected; and where they are not, the collector holds."""
    for turn, without in enumerate(([], ["kill_all"])):
        out = here / f"swarm{turn}"
        result = collect(box, SWARM, out, ["--timeout", "5s"], without=without)
        assert result.verdict == "ok", result
        judge(data.decode() for data in contents(out).values())
    box.host.end(box.host.survivors(0.2))


def removing(box, host):
    """On the host, with the caller's rights: a workspace is removed, and its processes go on swapping."""
    for without in ([], ["kill_all"]):
        result = box.python(REMOVED, flags=[*LEVELS["subprocess"], "--timeout", "5s"], args=[host], without=without)
        assert result.verdict == "ok", result
    box.host.end(box.host.survivors(0.2))


def writing(box, here):
    """On the host, with the caller's rights: artifacts go to a directory that a sandbox changes all the time."""
    for names, name in ((("f", "l"), "f"), (("d", "k"), "d/secret")):
        where = place(here, f"write-{names[0]}")
        code = f"os.makedirs(os.path.dirname('{name}') or '.', exist_ok=True); open('{name}', 'w').write('evil')"
        with swapping(box, where, *names) as swap:
            for _ in for_seconds(SECONDS):
                collect(box, code, where, may_refuse=True)
        yield swap.rate


def copied(box, where, names, seconds, **more):
    """(what a program finds in a tree that was copied in while a sandbox changed it, each time; swaps a second)"""
    found = []
    with swapping(box, where, *names) as swap:
        for _ in for_seconds(seconds):
            result = box.sh("cat in/f in/l in/d/secret in/k/secret", may_refuse=True,
                            flags=["--copy", f"{where}:in"], **more)
            found.append(result.out.decode())
            if more and SECRET in found[-1]:
                break
    return found, swap.rate


def copying(box, here):
    """On the host, with the caller's rights: a tree is copied in while a sandbox changes it."""
    for names in (("f", "l"), ("d", "k")):
        found, rate = copied(box, place(here, f"copy-{names[0]}"), names, SECONDS)
        judge(found)
        yield rate


def archiving(box, here):
    """On the host, with the caller's rights: a directory becomes an image, listed and hashed."""
    for names in (("f", "l"), ("d", "k")):
        where, images = place(here, f"image-{names[0]}"), here / f"images-{names[0]}"
        with swapping(box, where, *names) as swap:
            for turn in for_seconds(SECONDS):
                box.start_and_wait([BIN / "coto", "image", "import", "--images-dir", images, where, f"raced{turn}"])
        for path in images.rglob("*"):
            if path.is_file() and not path.is_symlink():
                judge([path.read_bytes().decode(errors="replace")])
        yield swap.rate


def attack(box):
    with room() as here:
        host = folder(here / "host")
        secret(host / "secret", 0o600)
        before = tree(host)
        swarm(box, here)
        removing(box, host)
        rates = [rate for race in (collecting, writing, copying, archiving) for rate in race(box, here)]
        unchanged(before, tree(host))
    # A kernel of the level's own makes its swaps slowly.
    met(max(rates) >= LEAST / SLOW or box.level, f"no race: only {rates} swaps a second")
    return f"no host byte, no change; {len(rates)} races at {min(rates)} to {max(rates)} swaps a second, and a removal"


def control(box):
    """Where coto looks at an entry and then opens its name, as it comes, it is caught."""
    with room() as here:
        host = folder(here / "host")
        secret(host / "secret", 0o600)
        found, rate = copied(box, place(here, "naive"), ("f", "l"), 20, without=["beneath"])
        assert SECRET in found[-1], f"the race was never won in {len(found)} copies at {rate} swaps a second"
    return f"coto, made to open names as they come, copied the host's secret in at try {len(found)}"
