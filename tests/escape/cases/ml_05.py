"""ML-05: a shell that is `#!/proc/self/exe`, so that whoever starts it executes himself.

Every execution in a sandbox, the second one of a session of the service too, is started by a child of coto-init, as
here: what such a name executes is coto-init."""
import hashlib

from cli.helpers import BIN, make_rootfs
from escape.harness import Untestable, escaped
from escape.lib_files import counted, refusal, room

TITLE = "#!/proc/self/exe in place of a shell"
TRIED = "--rootfs whose /bin/sh, loader and commands are such scripts, or links to /proc/self/exe and /proc/1/exe"
WALLS = ["landlock"]

FORMS = {"script": "#!/proc/self/exe\n", "script of init": "#!/proc/1/exe\n", "script of a descriptor": "#!/proc/self/fd/3\n",
         "no interpreter": "#!\n"}
ITSELF = {"script", "link to /proc/self/exe", "link to /proc/thread-self/exe"}  # who executes it is executed
# The first frame that coto-init sends: 14 bytes, type 1, its version.
READY = bytes.fromhex("0e00000001000000")
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


def started(box, here, **more):
    for name, root in images(here):
        for command in (["/bin/sh", "-c", "id"], ["tool"], ["/bin/tool", "--setup", "--in=0"]):
            flags = ["--rootfs", root, "--timeout", "5s"]
            yield name, box.run(command, flags=flags, may_refuse=True, **more)


def attack(box):
    words, before = [], programs()
    with room() as here:
        for name, result in started(box, here):
            if result.error or box.situation != "old" or name not in ITSELF:
                words.append(refusal(result, 126))
    if programs() != before:
        escaped("WRITE", "coto's own programs have changed")
    if box.situation == "old":
        raise Untestable("Landlock alone refuses it: coto-init starts once more, as the program and with its rights")
    return counted(words)


def control(box):
    """Without Landlock coto-init is executed once more, by what it starts: its frames come out."""
    with room() as here:
        found = {(name, result.out) for name, result in started(box, here, without=["landlock"]) if not result.error}
    names = {name for name, out in found if READY in out or b"the supervisor went away" in out}
    assert names == ITSELF, found
    return f"coto-init started as the program by {len(names)} of {len(FORMS) + len(LINKS)} forms"
