"""AR-13: a file grows or shrinks while it is read, so that sizes lie and readers never end.

The collector and --copy are attacked here; downloads from the service by tests/api/test_files.py
(test_a_file_that_changes_while_it_is_read, test_what_grows_while_it_is_removed_costs_no_sandbox)."""
import hashlib

from escape.harness import SLOW, escaped
from escape.lib_files import file, folder, room
from escape.lib_race import for_seconds

TITLE = "files that grow and shrink while they are read"
TRIED = "another sandbox appends to and cuts a file during collection and --copy, 0.5 s each; size, hash and end checked"
WALLS = ["disk", "mount_namespace"]

CHANGE = """
import os, time
fd = os.open("/s/f", os.O_WRONLY | os.O_APPEND)
block = b"g" * 65536
print("ready", flush=True)
end = time.monotonic() + 20
while time.monotonic() < end and not os.path.exists("/s/stop"):
    for n in range(40): os.write(fd, block)
    os.truncate("/s/f", 1000)
"""
GROW = CHANGE.replace('os.truncate("/s/f", 1000)', 'os.truncate("/s/f", 4 << 20) if os.fstat(fd).st_size > 64 << 20 else 0')
SECONDS = 5 * SLOW


def attack(box):
    turns = 0
    with room() as here:
        shared = folder(here / "shared")
        file(shared / "f", "s" * 1000)
        mount = ["--mount", f"{shared}:/s:rw"]
        with box.running(CHANGE, flags=mount):
            for turn in for_seconds(0.5):
                out = here / f"out{turn}"
                result = box.run(["true"], flags=["--mount", f"{shared}:/workspace/output:rw", "--artifacts", out])
                honest(result, out)
                turns += 1
            (shared / "stop").touch()
        (shared / "stop").unlink()
        with box.running(GROW, flags=mount):
            for _ in for_seconds(0.5):
                result = box.sh("stat -c %s in", flags=["--disk", "2m", "--copy", f"{shared}/f:in"], may_refuse=True)
                assert result.error is None or result.status == 66, result
                if result.seconds > SECONDS:
                    escaped("CRASH", f"a copy took {result.seconds:.0f} s")
            (shared / "stop").touch()
    return f"{turns} collections: size and hash as brought; copies ended, at the latest by --disk"


def honest(result, out):
    for row in result.json["artifacts"]:
        data = (out / row["name"]).read_bytes()
        if row["bytes"] != len(data) or row["sha256"] != hashlib.sha256(data).hexdigest():
            escaped("WRITE", f"{row} for {len(data)} bytes")


def control(box):
    """A reader that asks for the size first gets another number of bytes."""
    with room() as here:
        shared = folder(here / "shared")
        path = file(shared / "f", "s" * 1000)
        with box.running(CHANGE, flags=["--mount", f"{shared}:/s:rw"]):
            for _ in for_seconds(15):
                size = path.stat().st_size
                if len(path.read_bytes()) != size:
                    break
            else:
                raise AssertionError("the size was right every time")
            (shared / "stop").touch()
    return "stat and read disagreed"
