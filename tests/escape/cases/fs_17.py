"""FS-17: give a file powers that outlive the run: capabilities, access lists, flags."""
from cli.conftest import SANDBOX_UIDS
from escape.harness import escaped
from escape.lib_files import all_refused, attempts, file, folder, fingerprint, room, unchanged

TITLE = "extended attributes, access lists, inode flags"
TRIED = "setxattr of 9 names on own, shared and host files; FS_IOC_SETFLAGS, FSSETXATTR, file_setattr; chown to others"
WALLS = ["seccomp", "capabilities", "user_namespace"]

SETUP = """
import base64
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
        # A set-id bit on a file of one's own cannot be refused; on the host it must be worth nothing. Without
        # root the sandbox's host uid may be the caller's: such a mount is for projects, not for shared places.
        box.sh("cp /bin/true /rw/tool && chmod 6755 /rw/tool", flags=flags)
        made = (top / "tool").stat()
        if box.situation == "root" and made.st_uid < SANDBOX_UIDS:
            escaped("WRITE", f"a set-id file of uid {made.st_uid}")
    return all_refused(found, "WRITE")


def control(box):
    """Without the filter a program's own files take an attribute, an access list, a flag."""
    rows = {name: table()[name] for name in ("user.x /workspace/own", "system.posix_acl_access /workspace/own",
                                             "user.x /rw/own")}
    with room() as here:
        _, flags = with_mount(here)
        found = attempts(box, rows, SETUP, flags=flags, without=["seccomp"])
    done = [name for name, word in found.items() if word == "done"]
    assert done, found
    return "set: " + ", ".join(done)
