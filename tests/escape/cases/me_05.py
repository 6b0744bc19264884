"""ME-05: keep memory in files: tmpfs, /dev/shm, deleted files, the page cache."""
from escape.harness import escaped
from escape.lib_files import room
from escape.lib_hogs import LARGE, SMALL, all_ended, all_held, hold, need_limit

TITLE = "files in memory"
TRIED = ("80 MiB in /tmp, /dev/shm, the workspace, deleted files and name lengths; 80 MiB read"
         " into the page cache")
WALLS = ["memory"]
CONTROL = "option"
FILE = "fd = os.open('%s/x', 66)\nfor i in range(80): os.write(fd, bytes(1 << 20))"
HOGS = {
    "/tmp": FILE % "/tmp", "/dev/shm": FILE % "/dev/shm", "workspace": FILE % "/workspace",
    "deleted files": ("for n in range(20):\n    fd = os.open('/tmp', os.O_TMPFILE | os.O_RDWR)\n"
                      "    os.write(fd, bytes(4 << 20))"),
}
READ = "fd = os.open('/mnt/large', 0)\nwhile os.read(fd, 1 << 20): pass"


def read(box, flags):
    """A file of 80 MiB that nobody has read yet, read by the sandbox."""
    with room() as here:
        with open(here / "large", "wb") as file:
            file.truncate(80 << 20)
        (here / "large").chmod(0o644)
        result = hold(box, READ, [*flags, "--mount", f"{here}/large:/mnt/large:ro"])
    assert result.verdict == "ok" and b"held" in result.out, result
    return result.json["memory_peak_bytes"] >> 20


def attack(box):
    text = all_ended(box, HOGS)
    peak = read(box, SMALL)
    if peak > 49:
        escaped("CRASH", f"{peak} MiB of page cache with a limit of 48 MiB")
    return f"{text}; page cache stays at {peak} MiB"


def control(box):
    need_limit(box, "memory")
    text = all_held(box, HOGS)
    peak = read(box, LARGE)
    assert peak > 70, peak
    return f"{text}; page cache of {peak} MiB"
