"""What the cases about files share: a room on the host, attempts inside, and their judgement."""
import collections
import contextlib
import hashlib
import os
import pathlib
import stat
import subprocess
import tempfile

from escape.harness import Refused, escaped

SECRET = "canary-bird-7431"
TRY = """
import ctypes, errno, fcntl, json, mmap, os, shutil, socket, stat, sys, time
libc = ctypes.CDLL(None, use_errno=True)
def attempt(call, *args, **more):
    try:
        call(*args, **more)
        return "done"
    except OSError as reason:
        return errno.errorcode[reason.errno]
def kernel(number, *args):
    "A system call by its number: 'done' or the errno's name."
    words = [ctypes.c_long(a) if isinstance(a, int) else a for a in args]
    return "done" if libc.syscall(ctypes.c_long(number), *words) >= 0 else errno.errorcode[ctypes.get_errno()]
"""


@contextlib.contextmanager
def room():
    """A directory on the host that every uid may enter, gone afterwards with all in it."""
    path = pathlib.Path(tempfile.mkdtemp(prefix="coto-test-")).resolve()
    path.chmod(0o755)
    try:
        yield path
    finally:
        subprocess.run(["chmod", "-R", "u+rwx", path], stderr=subprocess.DEVNULL, timeout=60)
        subprocess.run(["rm", "-rf", "--", path], timeout=60)


def folder(path):
    """A directory that any uid may write to: no permission bit stands in an attack's way."""
    path.mkdir()
    path.chmod(0o777)
    return path


def file(path, text="", mode=0o666):
    path.write_text(text)
    path.chmod(mode)
    return path


def secret(path, mode=0o644):
    """A file of the host that no sandbox may read."""
    return file(path, SECRET, mode)


# ---- attempts inside ----

def attempts(box, table, before="", **more):
    """name -> 'done' or the errno's name, for each expression of the table, tried inside."""
    lines = [f"out[{name!r}] = {text}" for name, text in table.items()]
    code = "\n".join([TRY, before, "out = {}", *lines, "print(json.dumps(out))"])
    return box.inside(code, **more)


def ptys(box, count=1):
    """Flags for terminals of the program's own; an engine gives none."""
    return [] if box.level and box.level.isolation == "docker" else ["--ptys", count]


def counted(words):
    """'EROFS x12, EPERM': what was answered how often."""
    counts = collections.Counter(words).most_common()
    return ", ".join(f"{word} x{n}" if n > 1 else word for word, n in counts)


def all_refused(found, proof):
    """What was answered; an escape when one attempt was not refused."""
    done = sorted(name for name, word in found.items() if word == "done")
    if done:
        escaped(proof, ", ".join(done))
    return counted(found.values())


def all_done(found):
    refused = {name: word for name, word in found.items() if word != "done"}
    assert found and not refused, refused
    return f"all {len(found)} done"


# ---- coto's own refusals ----

def refusal(result, *statuses):
    """The kind of error coto ended with; an escape when it ran the program all the same."""
    if not result.error:
        escaped("ESCAPE", f"it ran: {result.out[:200]!r}")
    if result.status not in (statuses or (64, 65, 66, 68)):
        raise Refused(result.error)
    return result.error["code"]


# ---- the host's side ----

def taken_out(path):
    """The names that somebody put into a directory of the test's, which is empty again afterwards."""
    names = sorted(os.listdir(path))
    subprocess.run(["rm", "-rf", "--", *(path / name for name in names)], check=True, timeout=60)
    return names


def fingerprint(*paths):
    """What would show that somebody changed one of these files or directories."""
    seen = {}
    for path in map(os.fspath, paths):
        try:
            info = os.lstat(path)
        except FileNotFoundError:
            seen[path] = None
            continue
        content = None
        if stat.S_ISREG(info.st_mode) and info.st_size < 1 << 24 and os.access(path, os.R_OK):
            content = hashlib.sha256(pathlib.Path(path).read_bytes()).hexdigest()
        elif stat.S_ISDIR(info.st_mode) and os.access(path, os.R_OK):
            content = sorted(os.listdir(path))
        seen[path] = (info.st_mode, info.st_uid, info.st_gid, info.st_nlink, info.st_size,
                      info.st_mtime_ns, info.st_ino, content)
    return seen


def tree(path):
    """fingerprint of everything below a directory."""
    return fingerprint(path, *sorted(pathlib.Path(path).rglob("*")))


def unchanged(before, after, proof="WRITE"):
    """An escape when the host is not as it was."""
    changed = sorted(path for path in before.keys() | after.keys() if before.get(path) != after.get(path))
    if changed:
        escaped(proof, f"changed on the host: {', '.join(changed)}")
