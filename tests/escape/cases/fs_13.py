"""FS-13: names that break careless code: NULL, too long, format strings, bytes that are no text."""
import os

from escape.harness import escaped
from escape.lib_files import attempts, counted, room

TITLE = "odd path names"
TRIED = "15 odd names opened inside; scripts, arguments and options of coto itself with such names"
WALLS = ["seccomp", "landlock", "mount_namespace"]

WANTED = {
    "long": ("attempt(os.open, 'a' * 4352, 0)", "ENAMETOOLONG"),
    "long component": ("attempt(os.open, '/tmp/' + 'a' * 256, 0)", "ENAMETOOLONG"),
    "longest": ("attempt(os.open, '/' * 4094 + 'x', 0)", "ENOENT"),
    "too many slashes": ("attempt(os.open, '/' * 4096, 0)", "ENAMETOOLONG"),
    "format": ("attempt(os.open, '%s%n%s%x', 0)", "ENOENT"),
    "bytes": ("attempt(os.open, b'\\xff\\xfe\\x80', 0)", "ENOENT"),
    "control": ("attempt(os.open, '\\x1b]0;x\\x07\\r\\n', 0)", "ENOENT"),
    "empty": ("attempt(os.open, '', 0)", "ENOENT"),
    "dots": ("attempt(os.open, '../' * 600 + 'nothing', 0)", "ENOENT"),
    "null": ("kernel(257, -100, None, 0)", "EFAULT"),
    "bad pointer": ("kernel(257, -100, 0x7fffffffffff000, 0)", "EFAULT"),
    "kernel pointer": ("kernel(257, -100, -4096, 0)", "EFAULT"),
    "bad descriptor": ("kernel(257, 99999, b'x', 0)", "EBADF"),
    "file as directory": ("attempt(os.open, '/etc/passwd/x', 0)", "ENOTDIR"),
    "loop": ("[os.symlink('loop', '/workspace/loop'), attempt(os.open, '/workspace/loop', 0)][1]", "ELOOP"),
}
ODD = [b"%s%n%s.py", b"\xff\xfe.py", b"new\nline.py", b"\x1b[31m.py", b"-rf.py", b"sp ace;$(id).py", b"a" * 251 + b".py"]


def scripts_run(box):
    """coto runs scripts of any name, and hands any argument on, byte for byte."""
    with room() as here:
        for name in ODD:
            path = os.path.join(os.fsencode(here), name)
            with open(path, "wb") as script:
                script.write(b"import os, sys; print(os.fsencode(sys.argv[1]) == " + repr(name).encode() + b")")
            argv, env = box.command(["true"], flags=["--json"])
            argv = [*argv[:argv.index("--")], path, name]
            done = box.start_and_wait(argv, env=env)
            if done.status not in (0, 64, 65, 66) or b"\x1b" in done.out + done.err:
                escaped("CRASH", f"script {name!r}: {done}")
            assert done.status or b'"stdout":"True\\n"' in done.out.replace(b": ", b":"), done


def attack(box):
    found = attempts(box, {name: text for name, (text, _) in WANTED.items()})
    wrong = {name: word for name, word in found.items() if word != WANTED[name][1]}
    if wrong:
        escaped("CRASH", str(wrong))
    scripts_run(box)
    for flag in ("--copy", "--mount", "--rootfs", "--workdir", "--artifacts", "--policy"):
        for name in ("a" * 5000, "%n%n%s", "/nothing/" + "b" * 300 + ":/x", ":", "::", "nothing:/", "\x1b[31m:/x"):
            done = box.plain(["true"], flags=[flag, name], cwd=box.folder)
            if done.status not in (0, *range(64, 74)) or b"\x1b" in done.err:
                escaped("CRASH", f"{flag} {name[:40]!r}: {done}")
    return counted(found.values())


def control(box):
    """The same calls with plain names open files: what failed above failed by its name."""
    rows = {"relative": "attempt(os.open, 'main.py', 0)", "absolute": "attempt(os.open, '/etc/passwd', 0)",
            "dots": "attempt(os.open, '../' * 600 + 'etc/passwd', 0)",
            "slashes": "attempt(os.open, '/' * 4000 + 'etc/passwd', 0)",
            "kernel": "kernel(257, -100, b'/etc/passwd', 0)"}
    found = attempts(box, rows)
    assert set(found.values()) == {"done"}, found
    return f"{len(found)} plain names opened"
