"""AR-06: `link/`: a slash at the end lets the system follow what must not be followed (CVE-2026-39822)."""
from cli.helpers import make_rootfs
from escape.harness import escaped
from escape.lib_files import SECRET, file, folder, refusal, room, secret, tree, unchanged

TITLE = "a slash after a link"
TRIED = "--copy, --mount, --rootfs, --workdir and artifacts with link, link/, link// and link/."
WALLS = ["mount_namespace", "slash"]

ENDINGS = ["", "/", "//", "/.", "/./"]


def attack(box):
    words = set()
    with room() as here:
        host = folder(here / "host")
        secret(host / "inner")
        (here / "link").symlink_to(host)
        (here / "etc").symlink_to("/etc")
        (here / "file").symlink_to(host / "inner")
        for ending in ENDINGS[:3]:
            for name in ("link", "file", "etc"):
                result = box.run(["true"], flags=["--copy", f"{here}/{name}{ending}:in"], may_refuse=True)
                words.add(refusal(result, 66))
        for ending in ENDINGS:
            result = box.run(["true"], flags=["--mount", f"{here}/etc{ending}:/m"], may_refuse=True)
            words.add(refusal(result, 68))
            words.add(refusal(box.run(["true"], flags=["--rootfs", f"{here}/etc{ending}"], may_refuse=True), 68))
            words.add(refusal(linked_root(box, here, host, ending), 65, 68))
        out = folder(here / "out")
        (out / "d").symlink_to(host)
        before = tree(host)
        result = box.sh("mkdir -p output/d && echo evil > output/d/inner", flags=["--artifacts", f"{out}/"],
                        may_refuse=True)
        unchanged(before, tree(host))
        if not result.error:
            escaped("WRITE", "an artifact went through a link")
    return f"the same answer with and without: {', '.join(sorted(words))}"


def linked_root(box, here, host, ending):
    """A root file system whose workspace is a link, named with and without slashes."""
    root = here / "root"
    if not root.exists():
        make_rootfs(root, ())
        (root / "job").symlink_to(host)
    return box.run(["/bin/true"], flags=["--rootfs", root, "--workdir", f"/job{ending}"], may_refuse=True)


def control(box):
    """Where the slash stays, the link is followed although O_NOFOLLOW forbids it, and only then."""
    with room() as here:
        host = folder(here / "host")
        file(host / "inner", SECRET)
        (here / "link").symlink_to(host)
        done = box.sh("cat in/inner", flags=["--copy", f"{here}/link/:in"], without=["slash"])
        assert done.text == SECRET, done
        refusal(box.sh("cat in/inner", flags=["--copy", f"{here}/link:in"], without=["slash"], may_refuse=True), 66)
    return "coto, with the slash left on the name, copied link/ in, and not link"
