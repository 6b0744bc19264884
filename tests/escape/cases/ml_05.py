"""ML-05: a shell that is `#!/proc/self/exe`, so that whoever starts it executes himself.

A second execution in a running sandbox is the service's (a later issue); today a build and a run share one."""
import hashlib

from cli.helpers import BIN, make_rootfs
from escape.harness import escaped
from escape.lib_files import room

TITLE = "#!/proc/self/exe in place of a shell"
TRIED = "--rootfs whose /bin/sh, loader and commands are such scripts, or links to /proc/self/exe and /proc/1/exe"
WALLS = ["mount_namespace", "pid_namespace", "uid"]

FORMS = {"script": "#!/proc/self/exe\n", "script of init": "#!/proc/1/exe\n", "script of a descriptor": "#!/proc/self/fd/3\n",
         "no interpreter": "#!\n"}
LINKS = ["/proc/self/exe", "/proc/1/exe", "/proc/self/fd/3", "/proc/thread-self/exe"]


def images(here):
    for number, (name, text) in enumerate(FORMS.items()):
        root = make_rootfs(here / f"script{number}", ())
        for program in ("sh", "tool"):
            (root / "bin" / program).write_text(text)
            (root / "bin" / program).chmod(0o755)
        yield name, root
    for number, target in enumerate(LINKS):
        root = make_rootfs(here / f"link{number}", ())
        for program in ("sh", "tool"):
            (root / "bin" / program).symlink_to(target)
        yield f"link to {target}", root


def programs():
    return [hashlib.sha256((BIN / name).read_bytes()).hexdigest() for name in ("coto", "coto-init")]


def attack(box):
    words, before = {}, programs()
    with room() as here:
        for name, root in images(here):
            for command in (["/bin/sh", "-c", "id"], ["tool"], ["/bin/tool", "--setup", "--in=0"]):
                result = box.run(command, flags=["--rootfs", root, "--timeout", "5s"], may_refuse=True)
                # Without Landlock coto-init itself may start once more, as the program and with its rights only.
                if not result.error and b"uid=" in result.out:
                    escaped("ESCAPE", f"{name}: {result!r}")
                word = result.error["code"] if result.error else f"{result.verdict} {result.code}"
                words[word] = words.get(word, 0) + 1
    if programs() != before:
        escaped("WRITE", "coto's own programs have changed")
    return ", ".join(f"{word} x{count}" for word, count in sorted(words.items()))


def control(box):
    """The same scripts with an interpreter of the image run."""
    with room() as here:
        root = make_rootfs(here / "root", ("/bin/sh", "/bin/cat"))
        (root / "bin/tool").write_text("#!/bin/cat\n")
        (root / "bin/tool").chmod(0o755)
        text = box.run(["tool"], flags=["--rootfs", root]).text
        assert text == "#!/bin/cat", text
    return "a script with a real interpreter ran"
