"""AR-10: something small that grows: sparse giants, a million members, trees in trees.

Trees come in with --copy, as images and as tar uploads of the service, which tests/api/test_files.py attacks
(test_too_many_members_and_too_many_bytes, test_damaged_archives_are_refused), and go out as artifacts. An archive in an archive is
a file, but for the layers of an image, whose sum counts: tests/image/test_hostile.py
(test_a_limit_counts_all_layers_together, test_a_blob_that_is_many_layers_counts_as_often)."""
import gzip
import io
import os
import tarfile

from escape.harness import BIN, SLOW, escaped
from escape.lib_artifacts import collect, contents
from escape.lib_files import file, folder, refusal, room

TITLE = "bombs: sparse files, many members, deep trees"
TRIED = ("archives for coto image import, which may have 16 MiB and 1000 members: 10 MiB that are 10 GiB, a million members, 1001, "
         "an archive in an archive; 10 GiB sparse files in and out, 1200 members over --inodes 1000, 100 levels in, 4 EiB out; each in seconds")
WALLS = ["disk", "inodes"]
CONTROL = "option"

SPARSE = """
for name, size in (("big", 10 << 30), ("huge", 1 << 60), ("most", (1 << 63) - 1)):
    with open(name, "w") as f: os.truncate(f.fileno(), size)
for n in range(50):
    with open(f"part{n}", "w") as f: os.truncate(f.fileno(), 200 << 10)
open("small", "w").write("x")
"""
SECONDS = 10 * SLOW
MILLION = 1_000_000
LIMITS = ["--max-size", "16m", "--max-files", "1000"]


def giant(here, size=10 << 30):
    path = file(here / "giant")
    os.truncate(path, size)
    return path


def quick(result):
    if result.seconds > SECONDS:
        escaped("CRASH", f"it took {result.seconds:.0f} s")
    return result


def header(name, size=0, kind=tarfile.REGTYPE):
    info = tarfile.TarInfo(name)
    info.size, info.type = size, kind
    return info.tobuf(tarfile.GNU_FORMAT)


def bomb(size):
    """An archive of one file of zeros, a thousandth of its size: gzip's parts may follow one another."""
    part = gzip.compress(bytes(1 << 20))
    return gzip.compress(header("zeros", size)) + part * (size >> 20) + gzip.compress(bytes(1024))


def crowd(count):
    """An archive of so many members, all of one name: to be counted, not to be kept."""
    assert count % 1000 == 1
    part = gzip.compress(header("d/", kind=tarfile.DIRTYPE) * 1000)
    return part * (count // 1000) + gzip.compress(header("d/", kind=tarfile.DIRTYPE) + bytes(1024))


def nested():
    """An archive that holds a bomb: a file like any other."""
    inner, out = bomb(1 << 30), io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        info = tarfile.TarInfo("inner.tar.gz")
        info.size = len(inner)
        archive.addfile(info, io.BytesIO(inner))
    return out.getvalue()


def imported(box, here, archive, *flags):
    """coto image import from a pipe: how it ended, and how many bytes its store has now."""
    store = here / "images"
    done = quick(box.start_and_wait([BIN / "coto", "image", "import", "--images-dir", store, "-", "bomb", *flags], archive))
    return done, sum(path.lstat().st_size for path in store.rglob("*") if path.is_file())


def archives(box, here):
    """Each refused by what it says of itself, or once it is too much, and nothing of it stays."""
    words = []
    for archive, told in ((bomb(10 << 30), b"larger than"), (crowd(MILLION + 1), b"larger than"),
                          (crowd(1001), b"too many members")):
        done, stored = imported(box, here, archive, *LIMITS)
        if done.status != 66 or told not in done.err or stored > 1 << 20:
            escaped("WRITE", f"{len(archive)} bytes: {done}, {stored} bytes stored")
        words.append(f"{done.seconds:.1f} s")
    done, stored = imported(box, here, nested(), *LIMITS)
    if done.status != 0 or stored > 16 << 20:
        escaped("WRITE", f"an archive in an archive: {done}, {stored} bytes stored")
    return f"archives refused after {', '.join(words)}"


def attack(box):
    with room() as here:
        told = archives(box, here)
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
    return f"{told}; in: {', '.join(words)}; out: {total >> 10} KiB of 1 MiB, {result.json['artifacts_skipped']} skipped"


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
        done, stored = imported(box, here, bomb(16 << 20))
        assert done.status == 0 and stored >= 16 << 20, (done, stored)
        done, _ = imported(box, here, crowd(2001))
        assert done.status == 0, done
    return "32 MiB and 1200 members in, 8 MiB out; an image of 16 MiB of zeros, one of 2001 members"
