"""AR-10: something small that grows: sparse giants, a million members, trees in trees.

Archives are unpacked by the service's API (a later issue); today trees come in with --copy and go out as artifacts."""
import os

from escape.harness import escaped
from escape.lib_artifacts import collect, contents
from escape.lib_files import file, folder, refusal, room

TITLE = "bombs: sparse files, many members, deep trees"
TRIED = "10 GiB sparse files in and out, 1200 members over --inodes 1000, 100 levels in, 4 EiB out; each in seconds"
WALLS = ["disk", "inodes"]

SPARSE = """
for name, size in (("big", 10 << 30), ("huge", 1 << 60), ("most", (1 << 63) - 1)):
    with open(name, "w") as f: os.truncate(f.fileno(), size)
for n in range(50):
    with open(f"part{n}", "w") as f: os.truncate(f.fileno(), 200 << 10)
open("small", "w").write("x")
"""
SECONDS = 10


def giant(here, size=10 << 30):
    path = file(here / "giant")
    os.truncate(path, size)
    return path


def quick(result):
    if result.seconds > SECONDS + 20:  # the machine may be stopped for a while
        escaped("CRASH", f"it took {result.seconds:.0f} s")
    return result


def attack(box):
    with room() as here:
        words = [refusal(quick(box.run(["true"], may_refuse=True,
                                       flags=["--disk", "4m", "--copy", f"{giant(here)}:x"])), 66)]
        many = folder(here / "many")
        for number in range(1200):
            (many / str(number)).touch()
        words.append(refusal(quick(box.run(["true"], may_refuse=True,
                                           flags=["--inodes", "1000", "--copy", f"{many}:x"])), 66))
        deep = folder(here / "deep")
        os.makedirs("/".join([str(deep)] + ["d"] * 100))
        words.append(refusal(quick(box.run(["true"], flags=["--copy", f"{deep}:x"], may_refuse=True)), 66))
        out = here / "out"
        result = quick(collect(box, SPARSE, out, ["--disk", "1m"]))
        total = sum(len(data) for data in contents(out).values())
        if total > 1 << 20:
            escaped("WRITE", f"{total} bytes came out of a workspace of 1 MiB")
        assert result.json["artifacts_skipped"] >= 3 and "small" in contents(out), result.json
    return f"in: {', '.join(words)}; out: {total >> 10} KiB of 1 MiB, {result.json['artifacts_skipped']} skipped"


def control(box):
    """Within larger limits the same goes in and out."""
    with room() as here:
        many = folder(here / "many")
        for number in range(1200):
            (many / str(number)).touch()
        flags = ["--disk", "64m", "--copy", f"{giant(here, 32 << 20)}:x", "--copy", f"{many}:m"]
        result = box.sh("stat -c %s x; ls m | wc -l; truncate -s 8m output/o", flags=[*flags, "--artifacts", here / "out"])
        assert result.text.split() == [str(32 << 20), "1200"], result
        assert (here / "out/o").stat().st_size == 8 << 20
    return "32 MiB and 1200 members in, 8 MiB out"
