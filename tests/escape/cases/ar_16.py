"""AR-16: names in /tmp that somebody else can guess and make first, on a host with protected_symlinks=0."""
import ctypes
import os
import stat
import struct

from escape.harness import escaped
from escape.lib_files import file, folder, room, tree, unchanged

TITLE = "temporary names on the host"
TRIED = ("/tmp, /var/tmp, /dev/shm and TMPDIR watched with inotify over runs of both levels; guessable names made as links "
         "to a victim first")
WALLS = ["mount_namespace"]

CREATED = 0x100 | 0x80  # IN_CREATE, IN_MOVED_TO
RUNS = 10
# Others make names, too, so not every run is alone; one that made a name each time would never be.
TRIES = 200
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
        watch = Watch(place, *(name for name in ("/tmp", "/var/tmp", "/dev/shm") if os.path.isdir(name)))
        try:
            runs = alone(box, here, watch, place, env)
            modes = [mode_inside(box, env) for _ in range(5)]
            names = {name for name in watch.names() if is_ours(name)}
        finally:
            watch.close()
        unchanged(before, tree(victim))
        if any(mode != 0o700 for mode in modes):
            escaped("WRITE", f"modes {modes}")
        assert len(names) >= 5, names
    return f"no name at all in {runs} runs at level process; random ones of mode 0700 at level subprocess"


def alone(box, here, watch, place, env):
    """Runs during which nobody made a name in any of the places; the directory that is ours sees none at all."""
    quiet, seen = 0, []
    for _ in range(TRIES):
        watch.names()
        box.sh("echo x > output/f", env=env, flags=["--artifacts", here / "out", "--report", here / "reports"])
        seen = watch.names()
        if any(name.startswith(str(place)) for name in seen):
            escaped("WRITE", f"a run made {seen[:3]}")
        quiet += not seen
        if quiet == RUNS:
            return quiet
    return escaped("WRITE", f"only {quiet} of {TRIES} runs made no name; the last: {seen[:3]}")


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
