"""ML-03: a link in place of /dev/console, /dev/pts or a device, followed while the terminal is set up (CVE-2025-52565).

coto gives a program no terminal of the caller's: there is no console to set up. What could be followed is a
device's name in --rootfs, also while it is being swapped. A terminal for a session belongs to a later issue."""
from cli.helpers import make_rootfs
from escape.harness import escaped
from escape.lib_files import file, folder, room, tree, unchanged
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


def attack(box):
    with room() as here:
        root, victim = image(here)
        before = tree(victim)
        seen = box.sh(LOOK, flags=["--rootfs", root]).text
        unchanged(before, tree(victim))
        if "untouched" in seen or str(victim) in seen:
            escaped("READ", seen)
        # /dev is a directory and a link to the victim in turn, as fast as another sandbox can.
        racing = make_rootfs(here / "racing")
        racing.chmod(0o777)
        (racing / "evil").symlink_to(victim)
        with swapping(box, racing, "dev", "evil"):
            for starts in for_seconds(0.5):
                box.run(["/bin/sh", "-c", "echo x > /dev/null"], flags=["--rootfs", racing], may_refuse=True)
        unchanged(before, tree(victim))
    return f"own devices only; {starts} starts raced"


def control(box):
    """Opened by name, as runtimes did, the victim is written."""
    with room() as here:
        root, victim = image(here)
        with open(root / "dev/console", "w") as console:
            console.write("x")
        assert (victim / "file").read_text() == "x"
    return "open by name wrote to the victim"
