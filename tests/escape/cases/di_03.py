"""DI-03: hand out sparse files of 7 EiB."""
from escape.harness import escaped
from escape.lib_files import folder, room

TITLE = "sparse files as artifacts"
TRIED = ("a hole of 7 EiB, one of 1 GiB and a plain file in output/, collected to a directory "
         "and as hashes")
WALLS = ["disk", "timeout"]
CONTROL = "option"
LEAVE = """
import os
for name, size in (("huge", 7 << 60), ("large", 1 << 30)):
    with open("output/" + name, "wb") as file:
        try: file.truncate(size)
        except OSError: pass
open("output/plain", "w").write("kept")
print(sorted((name, os.path.getsize("output/" + name)) for name in os.listdir("output")))
"""


def collect(box, here, flags=()):
    return box.python(LEAVE, flags=["--artifacts", folder(here / "out"), "--timeout", "20s", *flags], timeout=120)


def attack(box):
    with room() as here:
        result = collect(box, here)
        used = sum(path.stat().st_blocks * 512 for path in here.rglob("*") if path.is_file())
    names = {one["name"]: one["bytes"] for one in result.json["artifacts"]}
    if used > 2 << 30 or max(names.values()) > 2 << 30 or result.seconds > 60:
        escaped("WRITE", f"{used} bytes on the host's disk, {names}, {result.seconds:.0f} s")
    assert names.get("plain") == 4, (names, result)
    return f"{used >> 20} MiB on the host, {result.json['artifacts_skipped']} skipped, {result.seconds:.1f} s"


def control(box):
    """Holes that fit are handed out as their full size: the size is what is bounded."""
    with room() as here:
        result = box.python(LEAVE.replace("7 << 60", "1 << 20").replace("1 << 30", "2 << 20"),
                            flags=["--artifacts", folder(here / "out")])
        sizes = {path.name: path.stat().st_size for path in here.rglob("*") if path.is_file()}
    assert sizes == {"huge": 1 << 20, "large": 2 << 20, "plain": 4}, (sizes, result)
    return "holes of 1 and 2 MiB come out whole"
