"""FS-03: change the root file system: make, link, rename, re-date, remove, remount."""
import os

from escape.lib_files import all_done, all_refused, attempts, fingerprint, ptys, unchanged

TITLE = "changes outside the writable places"
TRIED = "create, mkdir, links, O_TMPFILE, utime, chmod, chown, rename, unlink, truncate, remount in 13 places"
WALLS = ["root_read_only", "mount_namespace", "landlock", "uid"]

PLACES = ["/", "/usr", "/usr/bin", "/usr/lib", "/etc", "/dev", "/dev/pts", "/proc", "/proc/self", "/var", "/run",
          "/bin", "/lib"]
FILES = ["/usr/bin/env", "/etc/passwd", "/etc/ld.so.cache", "/usr/lib/os-release", "/bin/sh"]
DEVICES = ["/dev/null", "/dev/zero", "/dev/full", "/dev/urandom"]
MS_REMOUNT, MS_BIND = 32, 4096
SYS_MOUNT = 165


def in_place(place, own="/workspace/own"):
    at = place.rstrip("/")
    return {
        f"create {place}": f"attempt(os.open, '{at}/x', os.O_CREAT | os.O_WRONLY)",
        f"mkdir {place}": f"attempt(os.mkdir, '{at}/d')",
        f"symlink {place}": f"attempt(os.symlink, 'a', '{at}/l')",
        f"fifo {place}": f"attempt(os.mkfifo, '{at}/f')",
        f"link {place}": f"attempt(os.link, '{own}', '{at}/h')",
        f"move {place}": f"attempt(os.rename, '{own}', '{at}/r')",
        f"tmpfile {place}": f"attempt(os.open, '{place}', os.O_TMPFILE | os.O_RDWR)",
        f"date {place}": f"attempt(os.utime, '{place}', (1, 1))",
        f"mode {place}": f"attempt(os.chmod, '{place}', 0o777)",
        f"owner {place}": f"attempt(os.chown, '{place}', os.getuid(), os.getgid())",
        f"remount {place}": f"kernel({SYS_MOUNT}, None, b'{place}', None, {MS_REMOUNT | MS_BIND}, None)",
    }


def with_file(path):
    return {
        f"write {path}": f"attempt(os.open, '{path}', os.O_WRONLY)",
        f"cut {path}": f"attempt(os.truncate, '{path}', 0)",
        f"read and cut {path}": f"attempt(os.open, '{path}', os.O_RDONLY | os.O_TRUNC)",
        f"remove {path}": f"attempt(os.unlink, '{path}')",
        f"rename {path}": f"attempt(os.rename, '{path}', '{path}.old')",
        f"date {path}": f"attempt(os.utime, '{path}')",
        f"mode {path}": f"attempt(os.chmod, '{path}', 0o4777)",
        f"take {path}": f"attempt(os.rename, '{path}', '/workspace/taken')",
    }


def table():
    rows = {}
    for place in PLACES:
        rows.update(in_place(place))
    for path in FILES:
        rows.update(with_file(path))
    # Devices may be written; that the host's own node is not re-dated is what counts.
    rows.update({f"date {path}": f"attempt(os.utime, '{path}')" for path in DEVICES})
    return rows


def attack(box):
    hosts = [path for path in ["/usr", "/usr/bin", "/etc", "/usr/lib", *FILES] if os.path.exists(path)]
    before = fingerprint(*hosts)
    dates = {path: os.stat(path).st_mtime_ns for path in DEVICES}
    text = all_refused(attempts(box, table(), "open('/workspace/own', 'w').close()", flags=ptys(box)), "WRITE")
    unchanged(before, fingerprint(*hosts))
    assert dates == {path: os.stat(path).st_mtime_ns for path in DEVICES}
    return text


def control(box):
    """The sandbox's own root, writable: the same calls change it. Its own files are those that no other user owns."""
    rows, setup = {}, []
    for number, place in enumerate(["/", "/etc", "/dev", "/var", "/run"]):
        own = f"/own{number}"  # on the same file system
        setup.append(f"open('{own}', 'w').close()")
        rows.update(in_place(place, own))
    for number, name in enumerate(("write", "cut", "read and cut", "date", "mode", "rename", "remove")):
        path = f"/etc/own{number}"
        setup.append(f"open('{path}', 'w').close()")
        rows.update({key: text for key, text in with_file(path).items() if key == f"{name} {path}"})
    # Only mounts can be remounted, which takes privilege too.
    remount = "remount /"
    rows = {name: text for name, text in rows.items() if name == remount or not name.startswith("remount")}
    left_out = ["root_read_only", "landlock", "seccomp", "capabilities"]
    return all_done(attempts(box, rows, "\n".join(setup), without=left_out))
