"""ML-03: a link in place of /dev/console, /dev/pts or a device, followed while the terminal is set up (CVE-2025-52565).

coto gives a program no terminal of the caller's: there is no console to set up, in a session of the
service neither. What could be followed is a device's name in --rootfs, also while it is being swapped."""
from cli.helpers import make_rootfs
from escape.harness import escaped
from escape.lib_files import file, folder, room, taken_out, tree, unchanged
from escape.lib_race import for_seconds, swapping

TITLE = "links in place of consoles and devices"
TRIED = "--rootfs with 10 links in /dev to a host file and directory; /dev itself swapped for a link while starting, 0.5 s"
WALLS = ["mount_namespace", "root_read_only"]

NAMES = ["console", "ptmx", "null", "zero", "full", "random", "urandom", "tty", "stdin", "fd"]
LOOK = "ls -la /dev; cat /dev/console; echo x > /dev/console; echo x > /dev/null; echo y > /dev/tty; true"


def image(here):
    victim = folder(here / "victim")
    file(victim / "file", "untouched")
    root = make_rootfs(here / "root")
    for name in NAMES:
        (root / "dev" / name).symlink_to(victim / "file")
    for name in ("pts", "shm", "mqueue"):
        (root / "dev" / name).symlink_to(victim)
    return root, victim


def raced(box, here, victim, seconds, **more):
    """/dev is a directory and a link to the victim in turn, as fast as another sandbox can."""
    racing = make_rootfs(here / "racing")
    racing.chmod(0o777)
    (racing / "evil").symlink_to(victim)
    with swapping(box, racing, "dev", "evil"):
        for starts in for_seconds(seconds):
            box.run(["/bin/sh", "-c", "echo x > /dev/null"], flags=["--rootfs", racing, "--ptys", "2"], may_refuse=True, **more)
            yield starts


def attack(box):
    with room() as here:
        root, victim = image(here)
        before = tree(victim)
        seen = box.sh(LOOK, flags=["--rootfs", root]).text
        unchanged(before, tree(victim))
        if "untouched" in seen or str(victim) in seen:
            escaped("READ", seen)
        for starts in raced(box, here, victim, 0.5):
            pass
        unchanged(before, tree(victim))
    return f"own devices only; {starts} starts raced"


def control(box):
    """coto that follows names, as runtimes did: its devices and its /dev/pts are made in the victim."""
    with room() as here:
        victim = folder(here / "victim")
        for starts in raced(box, here, victim, 5, without=["beneath"]):
            made = taken_out(victim)
            if {"null", "pts", "ptmx"} <= set(made):
                return f"{len(made)} names made in the victim, /dev/pts among them"
    raise AssertionError(f"none of {starts} starts met the link")
