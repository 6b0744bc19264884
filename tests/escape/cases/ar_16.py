"""AR-16: names in /tmp that somebody else can guess and make first, on a host with protected_symlinks=0."""
import ctypes
import os
import stat
import struct

from cli.conftest import somebody_else_runs_coto
from escape.harness import escaped
from escape.lib_files import file, folder, room, tree, unchanged

TITLE = "temporary names on the host"
TRIED = "/tmp and TMPDIR watched with inotify over runs of both levels; guessable names made as links to a victim first"
WALLS = ["mount_namespace"]

CREATED = 0x100 | 0x80  # IN_CREATE, IN_MOVED_TO
RUNS = 10
LIBC = ctypes.CDLL(None, use_errno=True)


class Watch:
    """Names that appear in some directories."""

    def __init__(self, *places):
        self.fd = LIBC.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        assert self.fd >= 0, os.strerror(ctypes.get_errno())
        self.places = {LIBC.inotify_add_watch(self.fd, os.fsencode(place), CREATED): str(place) for place in places}

    def names(self):
        data, found = b"", []
        try:
            while chunk := os.read(self.fd, 65536):
                data += chunk
        except BlockingIOError:
            pass
        while data:
            watch, _, _, length = struct.unpack("iIII", data[:16])
            found.append(self.places[watch] + "/" + data[16:16 + length].rstrip(b"\0").decode())
            data = data[16 + length:]
        return found

    def close(self):
        os.close(self.fd)


def guesses(victim, place):
    """Links under names that a careless program would use next."""
    for base in ("coto", "coto-init", "coto-work", "coto-tmp", "coto.lock", "coto.sock", "coto.json"):
        yield place / base, victim
    here = os.getpid()
    for pid in range(here, here + 200):
        yield place / f"coto-{pid}", victim
        yield place / f"coto.{pid}", victim


def attack(box):
    with room() as here:
        place, victim = folder(here / "tmp"), folder(here / "victim")
        file(victim / "file", "untouched")
        for link, target in guesses(victim / "file", place):
            link.symlink_to(target)
        before, env = tree(victim), {"TMPDIR": str(place)}
        watch = Watch("/tmp", place)
        try:
            for _ in range(RUNS):
                box.sh("echo x > output/f", env=env, flags=["--artifacts", here / "out", "--report", here / "reports"])
            judge(watch.names(), place)
            modes = [mode_inside(box, env) for _ in range(5)]
            names = {name for name in watch.names() if is_ours(name)}
        finally:
            watch.close()
        unchanged(before, tree(victim))
        if any(mode != 0o700 for mode in modes):
            escaped("WRITE", f"modes {modes}")
        assert len(names) >= 5, names
    return f"no name at all at level process; {len(names)} random ones of mode 0700 at level subprocess"


def judge(names, place):
    """Others on this host may run coto, too; names of a run's own would be at least as many as there were runs."""
    made = [name for name in names if is_ours(name)]
    if any(name.startswith(str(place)) for name in names) or len(made) >= RUNS and not somebody_else_runs_coto():
        escaped("WRITE", f"runs made {names[:3]}")


def is_ours(path):
    name = os.path.basename(path)
    return name.startswith("coto-") and not name.startswith("coto-test-") and os.path.dirname(path) == "/tmp"


def mode_inside(box, env):
    return box.inside("import os, stat\nprint(stat.S_IMODE(os.stat('.').st_mode))", env=env,
                      flags=["--isolation", "subprocess"])


def control(box):
    """A file opened by such a name writes to the victim."""
    with room() as here:
        place, victim = folder(here / "tmp"), folder(here / "victim")
        file(victim / "file", "untouched")
        for link, target in guesses(victim / "file", place):
            link.symlink_to(target)
        with open(place / "coto.lock", "w") as guessed:
            guessed.write("evil")
        assert (victim / "file").read_text() == "evil" and stat.S_ISLNK(os.lstat(place / "coto.lock").st_mode)
    return "a guessed name written through"
