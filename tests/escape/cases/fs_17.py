"""FS-17: give a file powers that outlive the run: capabilities, access lists, flags, set-id bits."""
import os

from escape.harness import escaped
from escape.lib_files import all_refused, attempts, file, folder, fingerprint, room, unchanged

TITLE = "extended attributes, access lists, inode flags, set-id bits"
TRIED = ("setxattr of 9 names on own, shared and host files; FS_IOC_SETFLAGS, FSSETXATTR, file_setattr; chown to others; "
         "set-id bits by chmod, fchmod, open, creat, mknod, O_TMPFILE, openat2 in a writable mount")
WALLS = ["seccomp", "capabilities", "user_namespace"]

SETUP = """
import base64, struct
capability = base64.b64decode("AQAAAgAgAAAAAAAAAAAAAAAAAAA=")
acl = base64.b64decode("AgAAAAEABwD/////BAAHAP////8QAAcA/////yAABwD/////")
for path in ("/workspace/own", "/rw/own"): open(path, "w").close()
"""
NAMES = {"security.capability": "capability", "security.selinux": "b'x'", "security.ima": "b'x'",
         "security.evm": "b'x'", "trusted.x": "b'x'", "trusted.overlay.opaque": "b'y'", "user.x": "b'x'",
         "system.posix_acl_access": "acl", "system.posix_acl_default": "acl"}
PLACES = ["/workspace/own", "/workspace", "/rw/own", "/rw/file", "/usr/bin/env", "/dev/null"]
SETFLAGS, FSSETXATTR = 0x40086602, 0x401c5820
SYS_SETXATTRAT, SYS_FILE_SETATTR = 463, 469


def table():
    rows = {}
    for place in PLACES:
        fd = f"os.open('{place}', os.O_RDONLY)"
        for name, value in NAMES.items():
            rows[f"{name} {place}"] = f"attempt(os.setxattr, '{place}', '{name}', {value})"
        rows[f"by descriptor {place}"] = f"attempt(os.setxattr, {fd}, 'security.capability', capability)"
        rows[f"no follow {place}"] = f"attempt(os.setxattr, '{place}', 'trusted.x', b'x', follow_symlinks=False)"
        rows[f"remove {place}"] = f"attempt(os.removexattr, '{place}', 'security.capability')"
        rows[f"at {place}"] = f"kernel({SYS_SETXATTRAT}, -100, b'{place}', 0, b'user.x', b'x' * 24, 24)"
        rows[f"file_setattr {place}"] = f"kernel({SYS_FILE_SETATTR}, -100, b'{place}', b'\\x10' + b'\\0' * 31, 24, 0)"
        rows[f"ioctl flags {place}"] = f"attempt(fcntl.ioctl, {fd}, {SETFLAGS}, b'\\x10' + b'\\0' * 7)"
        rows[f"ioctl xattr {place}"] = f"attempt(fcntl.ioctl, {fd}, {FSSETXATTR}, b'\\x08' + b'\\0' * 27)"
        rows[f"owner 0 {place}"] = f"attempt(os.chown, '{place}', 0, 0)"
        rows[f"owner 1 {place}"] = f"attempt(os.chown, '{place}', 1, -1)"
    return rows


def with_mount(here):
    top = folder(here / "rw")
    file(top / "file", "host's")
    return top, ["--mount", f"{top}:/rw:rw"]


def attack(box):
    with room() as here:
        top, flags = with_mount(here)
        before = fingerprint(top / "file", "/usr/bin/env")
        found = attempts(box, table(), SETUP, flags=flags)
        unchanged(before, fingerprint(top / "file", "/usr/bin/env"))
    with room() as here:
        top, flags = with_mount(here)
        # Without root the sandbox's host uid may be the caller's: its set-id program would be the caller.
        words = attempts(box, set_id_ways(), SETUP, flags=flags)
        kept = set_id_files(top)
        if kept:
            escaped("WRITE", f"set-id files on the host: {kept}")
        box.sh("cp /bin/true /rw/tool && chmod 1755 /rw/tool && mkdir -m 1777 /rw/d && rm /rw/tool", flags=flags)
    return f"{all_refused(found, 'WRITE')}; set-id bits: {all_refused(words, 'WRITE')}"


def set_id_files(top):
    found = [os.path.join(where, name) for where, dirs, files in os.walk(top) for name in dirs + files]
    return [os.path.basename(path) for path in found if os.lstat(path).st_mode & 0o6000]


def set_id_ways():
    """Every call that gives a file its mode; x86-64's numbers."""
    path = "b'/rw/own'"
    how = "struct.pack('<QQQ', os.O_CREAT | os.O_WRONLY, 0o6755, 0)"
    return {
        "chmod": "attempt(os.chmod, '/rw/own', 0o4755)", "chmod gid": "attempt(os.chmod, '/rw/own', 0o2755)",
        "chmod of a directory": "attempt(os.mkdir, '/rw/sub') and attempt(os.chmod, '/rw/sub', 0o2777)",
        "old chmod": f"kernel(90, {path}, 0o6755)", "fchmod": f"kernel(91, os.open({path}, 0), 0o6755)",
        "fchmodat2": f"kernel(452, -100, {path}, 0o6755, 0)", "high": f"kernel(268, -100, {path}, 0x12300000000 | 0o6755)",
        "open": "kernel(2, b'/rw/o', 0x41, 0o6755)", "openat": "kernel(257, -100, b'/rw/oa', 0x41, 0o6755)",
        "creat": "kernel(85, b'/rw/c', 0o6755)", "O_TMPFILE": "kernel(257, -100, b'/rw', 0x410002, 0o6755)",
        "openat2": f"kernel(437, -100, b'/rw/o2', {how}, 24)",
        "mknod": "kernel(133, b'/rw/m', 0o106755, 0)", "mknodat": "kernel(259, -100, b'/rw/ma', 0o106755, 0)",
    }


def control(box):
    """Without the filter a program's own files take an attribute, an access list, a flag, set-id bits."""
    rows = {name: table()[name] for name in ("user.x /workspace/own", "system.posix_acl_access /workspace/own",
                                             "user.x /rw/own")}
    with room() as here:
        _, flags = with_mount(here)
        found = attempts(box, rows, SETUP, flags=flags, without=["seccomp"])
    with room() as here:
        top, flags = with_mount(here)
        attempts(box, set_id_ways(), SETUP, flags=flags, without=["seccomp"])
        kept = set_id_files(top)
    done = [name for name, word in found.items() if word == "done"]
    assert done and {"own", "o", "oa", "c", "o2", "m", "ma"} <= set(kept), (found, kept)
    return f"set: {', '.join(done)}; {len(kept)} set-id files on the host"
