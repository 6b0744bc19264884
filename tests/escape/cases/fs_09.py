"""FS-09: a parent of a mount point is a link that leads out while the root is being built (CVE-2026-87766)."""
import os

from escape.lib_files import file, folder, refusal, room, taken_out, tree, unchanged
from escape.lib_race import for_seconds, swapping

TITLE = "links above mount points"
TRIED = "--mount, --tmpfs, --workdir below a link in --rootfs or in a writable --mount; directories and files"
WALLS = ["mount_namespace", "root_read_only"]


def places(here):
    """A root file system and a writable project, each with a link to the victim."""
    victim = folder(here / "victim")
    root = folder(here / "root")
    for name in ("bin", "opt", "proc", "dev", "tmp", "etc"):
        folder(root / name)
    project = folder(here / "project")
    for place in (root / "opt", project):
        (place / "out").symlink_to(victim)
        (place / "up").symlink_to(os.path.relpath(victim, place))
        (place / "old").symlink_to(f"/oldroot{victim}")
        (place / "magic").symlink_to(f"/proc/self/root{victim}")
    data = folder(here / "data")
    file(data / "file", "data")
    return victim, root, project, data


def starts(root, project, data):
    """Flags of every start that leads through a link."""
    for link in ("out", "up", "old", "magic"):
        for end in ("made", "made/deep", ""):
            at = f"{link}/{end}".rstrip("/")
            for source in (data, data / "file"):
                yield ["--rootfs", root, "--mount", f"{source}:/opt/{at}"]
                yield ["--mount", f"{project}:/p:rw", "--mount", f"{source}:/p/{at}"]
            yield ["--rootfs", root, "--tmpfs", f"/opt/{at}"]
            yield ["--rootfs", root, "--workdir", f"/opt/{at}"]


def attack(box):
    words = []
    with room() as here:
        victim, root, project, data = places(here)
        for flags in starts(root, project, data):
            before = {**tree(victim), **tree(data)}
            result = box.run(["/bin/true"], flags=flags, may_refuse=True)
            words.append(refusal(result, 64, 65, 66, 68, 71))
            unchanged(before, {**tree(victim), **tree(data)})
        before = {**tree(victim), **tree(data)}
        raced(box, here, victim, data)
        unchanged(before, {**tree(victim), **tree(data)})
        left_alone(box, here)
    return f"{len(words)} starts refused, nothing written outside, also while a parent was swapped"


def raced(box, here, victim, data):
    """The directory above the mount point becomes a link while the sandbox is being built."""
    racing = folder(here / "racing")
    folder(racing / "d")
    (racing / "evil").symlink_to(victim)
    with swapping(box, racing, "d", "evil"):
        for _ in for_seconds(0.5):
            flags = ["--mount", f"{racing}:/p:rw", "--mount", f"{data}:/p/d/made"]
            box.run(["true"], flags=flags, may_refuse=True)


def left_alone(box, here):
    """What is shown is as it was, wherever it is shown, and what is mounted over keeps its content."""
    shown = folder(here / "shown")
    file(shown / "file", "original")
    cover = file(here / "cover", "cover")
    before = tree(shown)
    for place in ("/var", "/run", "/opt", "/srv/deep/er"):
        for mode in ("ro", "rw"):
            flags = ["--mount", f"{shown}:{place}:{mode}", "--mount", f"{cover}:{place}/file"]
            assert box.run(["cat", f"{place}/file"], flags=flags).text == "cover"
            unchanged(before, tree(shown))


def control(box):
    """coto that follows names, as bubblewrap did: the mount point appears behind the link."""
    seen = 0
    with room() as here:
        victim, root, project, data = places(here)
        for flags in starts(root, project, data):
            at = flags[-1].rsplit(":", 1)[-1]
            if at not in ("/opt/out/made", "/opt/magic/made", "/p/out/made"):
                continue
            box.run(["/bin/true"], flags=flags, may_refuse=True, without=["beneath"])
            assert taken_out(victim) == ["made"], flags
            seen += 1
        assert seen == 10
        assert in_a_race(box, here, victim, data), "no start of 5 s met the link"
    return f"victim/made was made by {seen} starts, and by one that was raced"


def in_a_race(box, here, victim, data):
    racing = folder(here / "racing")
    folder(racing / "d")
    (racing / "evil").symlink_to(victim)
    flags = ["--mount", f"{racing}:/p:rw", "--mount", f"{data}:/p/d/made"]
    with swapping(box, racing, "d", "evil"):
        for _ in for_seconds(5):
            box.run(["true"], flags=flags, may_refuse=True, without=["beneath"])
            if taken_out(victim):
                return True
    return False
