"""FS-11: a hard link in the workspace to a file outside it, to change the file through the link."""
from escape.lib_files import all_done, all_refused, attempts, file, folder, fingerprint, room, unchanged

TITLE = "hard links out of the workspace"
TRIED = "link and linkat (by name, by descriptor, AT_EMPTY_PATH) of host files into 4 writable places, and back"
WALLS = ["mount_namespace", "landlock"]
CONTROL = "option"

SOURCES = ["/usr/bin/env", "/etc/passwd", "/ro/file", "/dev/null", "/proc/self/status"]
PLACES = ["/workspace", "/tmp", "/dev/shm", "/rw"]
SYS_LINKAT, FOLLOW, EMPTY = 265, 0x400, 0x1000


def table():
    rows = {}
    for source in SOURCES:
        for place in PLACES:
            name = f"{place}/{source.replace('/', '-')}"
            fd = f"os.open({source!r}, os.O_PATH)"
            magic = f"('/proc/self/fd/%d' % {fd}).encode()"
            rows[f"link {source} {place}"] = f"attempt(os.link, {source!r}, {name!r})"
            rows[f"fd {source} {place}"] = (
                f"kernel({SYS_LINKAT}, -100, {magic}, -100, b'{name}2', {FOLLOW})")
            rows[f"empty {source} {place}"] = f"kernel({SYS_LINKAT}, {fd}, b'', -100, b'{name}3', {EMPTY})"
    for place in PLACES[:3]:
        rows[f"{place} to /rw"] = f"attempt(os.link, '{place}/own', '/rw/own-{place[1:4]}')"
    return rows


SETUP = "\n".join(f"open('{place}/own', 'w').close()" for place in PLACES)


def shared(here):
    """One directory of the host, shown twice: all of it read-only, a part of it writable."""
    top = folder(here / "top")
    file(top / "file", "original")
    folder(top / "part")
    return top


def attack(box):
    with room() as here:
        top = shared(here)
        before = fingerprint(top / "file")
        found = attempts(box, table(), SETUP, flags=["--mount", f"{top}:/ro", "--mount", f"{top}/part:/rw:rw"])
        unchanged(before, fingerprint(top / "file"))
    return all_refused(found, "WRITE")


def control(box):
    """Within one writable mount the link is made, and the file outside the part is changed through it."""
    with room() as here:
        top = shared(here)
        rows = {"link": "attempt(os.link, '/rw/file', '/rw/part/alias')",
                "write": "attempt(lambda: os.write(os.open('/rw/part/alias', os.O_WRONLY), b'X'))"}
        all_done(attempts(box, rows, flags=["--mount", f"{top}:/rw:rw"]))
        assert (top / "file").read_text() == "Xriginal"
    return "linked, and changed through the link"
