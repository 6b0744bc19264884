"""FS-10: write to a layer that is shared read-only with other sandboxes."""
from escape.harness import escaped
from escape.lib_files import all_refused, attempts, file, folder, room, tree, unchanged

TITLE = "writes to a shared read-only layer"
TRIED = "open, mmap(MAP_SHARED), mprotect, fallocate, truncate, copy_file_range, splice, clone, re-open, rename, dates"
WALLS = ["mount_namespace", "root_read_only", "landlock"]

SETUP = """
path = "/layer/file"
fd = os.open(path, os.O_RDONLY)
own = os.open("/workspace/own", os.O_CREAT | os.O_RDWR)
os.write(own, b"x" * 4096)
pipe = os.pipe()
os.write(pipe[1], b"x" * 64)
def mapped(prot):
    view = mmap.mmap(fd, 4096, mmap.MAP_SHARED, prot)
    view[0:1] = b"x"
def protected():
    libc.mmap.restype = ctypes.c_void_p
    at = libc.mmap(None, ctypes.c_long(4096), mmap.PROT_READ, mmap.MAP_SHARED, fd, ctypes.c_long(0))
    if libc.mprotect(ctypes.c_void_p(at), ctypes.c_long(4096), mmap.PROT_READ | mmap.PROT_WRITE):
        raise OSError(ctypes.get_errno(), "")
    ctypes.memset(at, 120, 1)
"""
TABLE = {
    "open write": "attempt(os.open, path, os.O_WRONLY)",
    "open read and write": "attempt(os.open, path, os.O_RDWR)",
    "append": "attempt(os.open, path, os.O_WRONLY | os.O_APPEND)",
    "cut on open": "attempt(os.open, path, os.O_RDONLY | os.O_TRUNC)",
    "truncate": "attempt(os.truncate, path, 0)",
    "ftruncate": "attempt(os.ftruncate, fd, 0)",
    "map shared": "attempt(mapped, mmap.PROT_READ | mmap.PROT_WRITE)",
    "mprotect": "attempt(protected)",
    "fallocate": "attempt(os.posix_fallocate, fd, 0, 8192)",
    "copy_file_range": "attempt(os.copy_file_range, own, fd, 10)",
    "splice": "attempt(os.splice, pipe[0], fd, 10)",
    "sendfile": "attempt(os.sendfile, fd, own, 0, 10)",
    "clone": "attempt(fcntl.ioctl, fd, 0x40049409, own)",
    "reopen": "attempt(os.open, f'/proc/self/fd/{fd}', os.O_RDWR)",
    "reopen by dev": "attempt(os.open, f'/dev/fd/{fd}', os.O_WRONLY)",
    "write to it": "attempt(os.write, fd, b'x')",
    "dates": "attempt(os.utime, path, (1, 1))",
    "mode": "attempt(os.chmod, path, 0o777)",
    "fchmod": "attempt(os.fchmod, fd, 0o777)",
    "rename": "attempt(os.rename, path, '/layer/other')",
    "move out": "attempt(os.rename, path, '/workspace/other')",
    "unlink": "attempt(os.unlink, path)",
    "link": "attempt(os.link, path, '/layer/link')",
    "create": "attempt(os.open, '/layer/new', os.O_CREAT | os.O_WRONLY)",
    "tmpfile": "attempt(os.open, '/layer', os.O_TMPFILE | os.O_RDWR)",
    "replace": "attempt(os.rename, '/workspace/own', path)",
    "xattr": "attempt(os.setxattr, path, 'user.x', b'x')",
}


def layer(here):
    made = folder(here / "layer")
    file(made / "file", "l" * 8192)
    return made


def attack(box):
    """As a mount, and as part of a root file system."""
    with room() as here:
        made = layer(here)
        before = tree(here)
        found = attempts(box, TABLE, SETUP, flags=["--mount", f"{made}:/layer"])
        unchanged(before, tree(here))
    # The host's /usr is such a layer too, shared by all sandboxes.
    usr = attempts(box, TABLE, SETUP.replace("/layer/file", "/usr/bin/env"))
    all_refused({name: usr[name] for name in usr if "/layer" not in TABLE[name]}, "WRITE")
    if found["mprotect"] == "done":
        escaped("WRITE", "a read-only mapping was made writable")
    return all_refused(found, "WRITE")


def control(box):
    """The same layer, writable: it changes on the host."""
    with room() as here:
        made = layer(here)
        before = tree(here)
        rows = {name: TABLE[name] for name in ("open write", "truncate", "reopen", "create")}
        found = attempts(box, rows, SETUP, flags=["--mount", f"{made}:/layer:rw"])
        assert set(found.values()) == {"done"} and tree(here) != before, found
    return "the layer changed on the host"
