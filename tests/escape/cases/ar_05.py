"""AR-05: a change of mode or owner of the tree follows a link out of it (CVE-2024-28189, CVE-2026-32282)."""
import stat

from escape.lib_artifacts import FOLLOWS, LEVELS, collect
from escape.lib_files import file, folder, fingerprint, room, unchanged
from escape.lib_race import for_seconds, swapping

TITLE = "changes of mode and owner through links"
TRIED = "unreadable files and directories, links to a host file in their place, swapped while collected and removed"
WALLS = ["mount_namespace", "uid", "beneath"]

CODE = """
host = sys.argv[1]
for n in range(20):
    os.mkdir(f"d{n}"); open(f"d{n}/f", "w").write("x"); open(f"f{n}", "w").write("x")
    os.symlink(host + "/file", f"lf{n}"); os.symlink(host, f"ld{n}")
    os.symlink(host, f"d{n}/up")
    os.chmod(f"d{n}/f", 0); os.chmod(f"f{n}", 0); os.chmod(f"d{n}", 0)
"""


def victim(here):
    host = folder(here / "host")
    file(host / "file", "host's", 0o400)
    folder(host / "dir")
    host.chmod(0o555)
    return host


def state(host):
    return fingerprint(host, host / "file", host / "dir")


def swapped(box, here, host):
    """An unreadable file changes places with a link while it is collected; the same with directories."""
    for names, mode in ((("f", "lf"), 0), (("d", "ld"), 0)):
        where = folder(here / f"swap-{names[0]}")
        file(where / "f", "x", mode)
        folder(where / "d").chmod(mode)
        (where / "lf").symlink_to(host / "file")
        (where / "ld").symlink_to(host)
        flags = ["--mount", f"{where}:/workspace/output:rw", "--mount", f"{host}:{host}:rw"]
        with swapping(box, where, *names):
            for turn in for_seconds(0.4):
                box.run(["true"], flags=[*flags, "--artifacts", here / f"swapped-{names[0]}-{turn}"])


def attack(box):
    with room() as here:
        host = victim(here)
        before = state(host)
        for number, level in enumerate(LEVELS.values()):
            result = collect(box, CODE, here / f"out{number}", level, args=[host])
            assert len(result.json["artifacts"]) == 40, result.json
        unchanged(before, state(host))
        swapped(box, here, host)
        unchanged(before, state(host))
        host.chmod(0o755)
    return "modes, owners and dates of the host's files as before"


def control(box):
    """A collector on the host that follows the link makes the directory readable, for its owner only."""
    with room() as here:
        host = victim(here)
        before = stat.S_IMODE(host.stat().st_mode)
        collect(box, "os.symlink(sys.argv[1], 'd')", here / "out", LEVELS["subprocess"], args=[host], without=FOLLOWS)
        after = stat.S_IMODE(host.stat().st_mode)
        host.chmod(0o755)
        assert (before, after) == (0o555, 0o700), (oct(before), oct(after))
    return "coto's own collector, made to follow links, changed the host's directory from 0555 to 0700"
