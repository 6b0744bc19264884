"""FS-08: a root file system whose /dev, /proc, /sys, /tmp or /etc is a link out of it (CVE-2026-41579, CVE-2026-47766).

Images take the same way once they are unpacked; what their layers may bring is in tests/image/test_hostile.py."""
import os

from escape.lib_files import folder, refusal, room, taken_out, tree, unchanged

TITLE = "root file system with links for /dev, /proc, /sys"
TRIED = "--rootfs with each of 7 names a link to a host directory: absolute, relative, through /proc, dangling"
WALLS = ["mount_namespace", "root_read_only"]

NAMES = ["dev", "proc", "sys", "tmp", "etc", "workspace", "run"]


def targets(victim):
    return [str(victim), os.path.relpath(victim, victim.parent / "image"), f"/proc/self/root{victim}",
            f"/proc/1/root{victim}", str(victim / "missing"), "/", "..", "/proc/self/fd/3"]


def image(here, name, target):
    root = here / "image"
    for folder_name in {"bin", "usr", *NAMES} - {name}:
        (root / folder_name).mkdir(parents=True, exist_ok=True)
    if (root / name).is_dir() and not (root / name).is_symlink():
        (root / name).rmdir()
    (root / name).unlink(missing_ok=True)
    (root / name).symlink_to(target)
    return root


def attack(box):
    words = set()
    with room() as here:
        victim = folder(here / "victim")
        for name in NAMES:
            for target in targets(victim):
                root = image(here, name, target)
                before = tree(victim)
                result = box.run(["/bin/true"], flags=["--rootfs", root], may_refuse=True)
                if name == "run":  # nothing of coto's goes there: the image is fine, the program is missing
                    assert result.error["code"] in ("not_found", "forbidden"), result
                else:
                    words.add(refusal(result, 68))
                unchanged(before, tree(victim))
                (root / name).unlink()
    return f"{len(NAMES) * len(targets(here))} images: {', '.join(sorted(words))}"


def control(box):
    """coto that follows names, as runtimes did: it makes its devices in the host's directory."""
    with room() as here:
        victim = folder(here / "victim")
        for target in (str(victim), f"/proc/self/root{victim}"):
            root = image(here, "dev", target)
            box.run(["/bin/true"], flags=["--rootfs", root], may_refuse=True, without=["beneath"])
            made = taken_out(victim)
            assert {"null", "zero", "shm"} <= set(made), (target, made)
            (root / "dev").unlink()
    return f"{len(made)} names made in the host's directory: {', '.join(made[:4])}"
