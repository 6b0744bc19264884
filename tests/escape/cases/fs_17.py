"""FS-17: give a file powers that outlive the run: capabilities, access lists, flags, set-id bits."""
import os

from escape.harness import escaped
from escape.lib_files import all_done, all_refused, attempts, file, folder, fingerprint, room, unchanged

TITLE = "extended attributes, access lists, inode flags, set-id bits"
TRIED = ("setxattr of 9 names on own, shared and host files; FS_IOC_SETFLAGS, FSSETXATTR, file_setattr; chown to others; "
         "set-id bits by chmod, fchmod, open, creat, mknod, O_TMPFILE, openat2 in a writable mount")
WALLS = ["seccomp", "capabilities", "user_namespace"]

SETUP = """
import base64, struct
capability = base64.b64decode("AQAAAgAgAAAAAAAAAAAAAAAAAAA=")
acl = base64.b64decode("AgAAAAEABwD/////BAAHAP////8QAAcA/////yAABwD/////")
for path in ("/workspace/own", "/rw/own"): open(path, "w").close()
text = ctypes.create_string_buffer(b"x")
value = struct.pack("<QII", ctypes.addressof(text), 1, 0)  # struct xattr_args
nodump = struct.pack("<Q16x", 0x80)  # struct file_attr: a flag that anybody may set on his own file
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
        rows[f"at {place}"] = f"kernel({SYS_SETXATTRAT}, -100, b'{place}', 0, b'user.at', value, 16)"
        rows[f"file_setattr {place}"] = f"kernel({SYS_FILE_SETATTR}, -100, b'{place}', nodump, 24, 0)"
        rows[f"ioctl flags {place}"] = f"attempt(fcntl.ioctl, {fd}, {SETFLAGS}, b'\\x40' + b'\\0' * 7)"
        rows[f"ioctl xattr {place}"] = f"attempt(fcntl.ioctl, {fd}, {FSSETXATTR}, b'\\x80' + b'\\0' * 27)"
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
    """Without the filter a program's own files take attributes, access lists, flags and set-id bits; a capability
    is then the kernel's to refuse, and no longer the filter's."""
    names = ("user.x", "system.posix_acl_access", "at", "file_setattr", "ioctl flags", "ioctl xattr")
    rows = {f"{name} {place}": table()[f"{name} {place}"] for name in names for place in ("/workspace/own", "/rw/own")}
    capability = {"capability": table()["security.capability /workspace/own"]}
    with room() as here:
        _, flags = with_mount(here)
        found = attempts(box, rows, SETUP, flags=flags, without=["seccomp"])
        answers = [attempts(box, capability, SETUP, flags=flags, without=walls)["capability"]
                   for walls in ([], ["seccomp"])]
    with room() as here:
        top, flags = with_mount(here)
        attempts(box, set_id_ways(), SETUP, flags=flags, without=["seccomp"])
        kept = set_id_files(top)
    # These two are newer than some kernels, and not every file system below /rw has attributes or flags.
    absent = {name for name, word in found.items() if word == "ENOSYS" and name.split()[0] in ("at", "file_setattr")}
    absent |= {name for name, word in found.items() if word in ("ENOTSUP", "ENOTTY") and name.endswith("/rw/own")}
    all_done({name: word for name, word in found.items() if name not in absent})
    assert answers == ["ENOTSUP", "EPERM"], answers
    assert {"own", "o", "oa", "c", "o2", "m", "ma"} <= set(kept), kept
    return f"{len(found) - len(absent)} attributes and flags set; {len(kept)} set-id files on the host"
