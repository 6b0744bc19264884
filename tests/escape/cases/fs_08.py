"""FS-08: a root file system whose /dev, /proc, /sys, /tmp or /etc is a link out of it (CVE-2026-41579, CVE-2026-47766).

Images of the container drivers are a later issue; --rootfs is what there is today."""
import os

from escape.lib_files import folder, refusal, room, tree, unchanged

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
    """A set-up that follows names, as runtimes did: the link is live, and the host is written to."""
    with room() as here:
        victim = folder(here / "victim")
        for target in targets(victim)[:3]:
            os.makedirs(image(here, "dev", target) / "dev/pts", exist_ok=True)
            assert os.listdir(victim) == ["pts"]
            os.rmdir(victim / "pts")
    return "mkdir by name made victim/pts"
