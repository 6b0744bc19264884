"""FS-04: find in the mount table what is shared with the host, writable there, or badly guarded."""
import os
import subprocess

from cli.helpers import Running, environment
from escape.harness import escaped
from escape.lib_files import folder, room

TITLE = "propagation, writable host mounts, missing flags"
TRIED = ("/proc/self/mountinfo read before and after a file system was mounted and another unmounted on the host, "
         "below a shown directory")
WALLS = ["mount_namespace", "root_read_only"]

TABLE = """
import os, time
table = lambda: open("/proc/self/mountinfo").read()
first = table()
print("ready", flush=True)
end = time.monotonic() + 30
while not os.path.exists("/shown/go") and time.monotonic() < end: time.sleep(0.005)
print(first + "--\\n" + table() + "==")
"""
OWN_USER = ["--user", "--map-current-user", "--keep-caps"]
DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/urandom", "/dev/random", "/dev/pts")
# Outside, mounts are shared, as on every host with systemd: what is mounted there reaches all who did not cut
# themselves off. A line on stdin lets it go on.
OUTSIDE = """
mount --make-rshared / && mount -t tmpfs -o size=4k early "$ROOM/early" || exit 9
"$@" &
read line
mount -t tmpfs -o size=4k late "$ROOM/late" && umount "$ROOM/early" && touch "$ROOM/go"
grep -c " $ROOM/late " /proc/self/mountinfo >&2
wait $!
"""


def weak_spots(lines):
    """What is wrong with a mount table, one text each."""
    for line in lines:
        left, right = line.split(" - ")
        words = left.split()
        place, flags, tags = words[4], set(words[5].split(",")), words[6:]
        kind, _, options = right.split(" ", 2)
        if tags:
            yield f"{place} is {' '.join(tags)}"
        if "nosuid" not in flags:
            yield f"{place} without nosuid"
        if "nodev" not in flags and not place.startswith(DEVICES):
            yield f"{place} without nodev"
        if "ro" not in flags and kind not in ("tmpfs", "devpts"):
            yield f"{place} writable on {kind}"
        if "ro" not in flags and kind == "tmpfs" and not ("size=" in options and "nr_inodes=" in options):
            yield f"{place} without a size"


def tables(box, **more):
    """The table at the start and after a mount and an unmount on the host, as a program saw them."""
    with room() as here:
        shown = folder(here / "shown")
        folder(shown / "late")
        folder(shown / "early")
        argv, env = box.command(TABLE, flags=["--mount", f"{shown}:/shown"], **more)
        unshare = ["unshare", "-m"] if os.geteuid() == 0 else ["unshare", "-m", *OWN_USER]
        process = subprocess.Popen([*unshare, "sh", "-c", OUTSIDE, "-", *argv], stdin=subprocess.PIPE, bufsize=0,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                   env=environment({**env, "ROOM": str(shown)}))
        try:
            assert Running(process).line() == "ready"
            out, err = process.communicate(b"go\n", 40)
        finally:
            process.kill()
            process.wait()
        assert err == b"1\n", err  # it was mounted outside
        return [text.splitlines() for text in out.decode().split("==")[0].split("--\n")]


def attack(box):
    first, last = tables(box)
    came, went = set(last) - set(first), set(first) - set(last)
    if came or went:
        escaped("READ", f"the table changed with the host's: came {came}, went {went}")
    assert box.level or any(" /shown/early " in line for line in first), first
    spots = [*weak_spots(first), *weak_spots(box.sh("cat /proc/self/mountinfo").text.splitlines())]
    if spots:
        escaped("ESCAPE", "; ".join(spots))
    return f"{len(first)} mounts, none shared or unguarded, constant"


def control(box):
    """Without a file system of its own the table names the host's writable ones, and follows what the host does."""
    first, last = tables(box, without=["mount_namespace", "landlock"])
    spots = list(weak_spots(first))
    assert any("writable on" in spot for spot in spots) and any(" is master:" in spot for spot in spots), spots
    assert any("/shown/late " in line for line in set(last) - set(first)), last
    assert any("/shown/early " in line for line in set(first) - set(last)), first
    return f"{len(spots)} weak spots: {spots[0]}; a mount of the host's came, another went"
