"""FS-10: write to a layer that is shared read-only with other sandboxes."""
from escape.harness import escaped
from escape.lib_files import all_done, all_refused, attempts, file, folder, room, tree, unchanged

TITLE = "writes to a shared read-only layer"
TRIED = ("open, mmap(MAP_SHARED), mprotect, fallocate, truncate, copy_file_range, splice, clone, re-open, rename, "
         "dates; by descriptors opened O_RDWR, or where that is refused O_RDONLY")
WALLS = ["mount_namespace", "root_read_only", "landlock"]

# A file for each row: what one of them cut off is not missing in the next.
SETUP = """
modes = set()
own = os.open("/workspace/own", os.O_CREAT | os.O_RDWR)
os.write(own, b"x" * 4096)
pipe = os.pipe()
os.write(pipe[1], b"x" * 64)
def opened(path, *modes_wanted):
    for mode in modes_wanted or (os.O_RDWR, os.O_RDONLY):
        try: fd = os.open(path, mode)
        except OSError: continue
        modes.add("O_RDWR" if mode == os.O_RDWR else "O_RDONLY")
        return fd
def mapped(path):
    view = mmap.mmap(opened(path), 4096, mmap.MAP_SHARED, mmap.PROT_READ | mmap.PROT_WRITE)
    view[0:1] = b"x"
def protected(path):
    libc.mmap.restype = ctypes.c_void_p
    at = libc.mmap(None, ctypes.c_long(4096), mmap.PROT_READ, mmap.MAP_SHARED, opened(path), ctypes.c_long(0))
    if libc.mprotect(ctypes.c_void_p(at), ctypes.c_long(4096), mmap.PROT_READ | mmap.PROT_WRITE):
        raise OSError(ctypes.get_errno(), "")
    ctypes.memset(at, 120, 1)
"""
# {p}: the row's own file, {d}: its directory, {s}: another file there
TABLE = {
    "open write": "attempt(os.open, '{p}', os.O_WRONLY)",
    "open read and write": "attempt(os.open, '{p}', os.O_RDWR)",
    "append": "attempt(os.open, '{p}', os.O_WRONLY | os.O_APPEND)",
    "cut on open": "attempt(os.open, '{p}', os.O_RDONLY | os.O_TRUNC)",
    "truncate": "attempt(os.truncate, '{p}', 0)",
    "ftruncate": "attempt(os.ftruncate, opened('{p}'), 0)",
    "map shared": "attempt(mapped, '{p}')",
    "mprotect": "attempt(protected, '{p}')",
    "fallocate": "attempt(os.posix_fallocate, opened('{p}'), 0, 65536)",
    "copy_file_range": "attempt(os.copy_file_range, opened('{s}', os.O_RDONLY), opened('{p}'), 10)",
    "splice": "attempt(os.splice, pipe[0], opened('{p}'), 10)",
    "sendfile": "attempt(os.sendfile, opened('{p}'), own, 0, 10)",
    "clone": "attempt(fcntl.ioctl, opened('{p}'), 0x40049409, opened('{s}', os.O_RDONLY))",
    "reopen": "attempt(os.open, '/proc/self/fd/%d' % opened('{p}'), os.O_RDWR)",
    "reopen by dev": "attempt(os.open, '/dev/fd/%d' % opened('{p}'), os.O_WRONLY)",
    "write to it": "attempt(os.write, opened('{p}'), b'x')",
    "dates": "attempt(os.utime, '{p}', (1, 1))",
    "mode": "attempt(os.chmod, '{p}', 0o777)",
    "fchmod": "attempt(os.fchmod, opened('{p}'), 0o777)",
    "rename": "attempt(os.rename, '{p}', '{d}/renamed')",
    "move out": "attempt(shutil.move, '{p}', '/workspace/other')",
    "unlink": "attempt(os.unlink, '{p}')",
    "link": "attempt(os.link, '{p}', '{d}/link')",
    "create": "attempt(os.open, '{d}/new', os.O_CREAT | os.O_WRONLY)",
    "tmpfile": "attempt(os.open, '{d}', os.O_TMPFILE | os.O_RDWR)",
    "replace": "attempt(os.rename, '{s}', '{p}')",
    "xattr": "attempt(os.setxattr, '{p}', 'user.x', b'x')",
}
NAMES = [f"file{number}" for number in range(len(TABLE))]


def table():
    return {row: text.format(p=f"/layer/{name}", d="/layer", s="/layer/spare")
            for name, (row, text) in zip(NAMES, TABLE.items())}


def tried(box, rows, setup=SETUP, **more):
    """Answers by row, and how the rows' descriptors could be opened."""
    found = attempts(box, {**rows, "modes": "sorted(modes)"}, setup, **more)
    return found, found.pop("modes")


def attack(box):
    """As a mount, and as part of a root file system."""
    with room() as here:
        made = folder(here / "layer")
        for name in [*NAMES, "spare"]:
            file(made / name, "l" * 8192)
        before = tree(here)
        found, modes = tried(box, table(), flags=["--mount", f"{made}:/layer"])
        unchanged(before, tree(here))
    # The host's /usr is such a layer too, shared by all sandboxes.
    rows = {row: text.format(p="/usr/bin/env", d="/usr/bin", s="/usr/bin/cat") for row, text in TABLE.items()}
    usr, _ = tried(box, rows)
    all_refused(usr, "WRITE")
    if modes != ["O_RDONLY"]:
        escaped("WRITE", f"opened {modes}")
    return f"{all_refused(found, 'WRITE')}; descriptors O_RDONLY only"


def control(box):
    """The same layer, writable, of files of the program's own: every row changes it, on the host."""
    make = f"for name in {[*NAMES, 'spare']}: open('/layer/' + name, 'w').write('lx'[name == 'spare'] * 8192)"
    with room() as here:
        made = folder(here / "layer")
        # The filter has a word of its own about attributes.
        found, modes = tried(box, table(), SETUP + make, flags=["--mount", f"{made}:/layer:rw"], without=["seccomp"])
        text = {name: (made / name).read_text() for name in NAMES if (made / name).exists()}
    # Not every file system shares blocks or has attributes; the call itself comes that far.
    absent = {row for row in ("clone", "xattr") if found[row] == "ENOTSUP"}
    all_done({row: word for row, word in found.items() if row not in absent})
    assert modes == ["O_RDONLY", "O_RDWR"], modes
    by_row = {row: text.get(name) for name, row in zip(NAMES, TABLE)}
    for row in ("map shared", "mprotect", "copy_file_range", "splice", "sendfile", "write to it"):
        assert by_row[row].startswith("x"), (row, by_row[row][:20])
    assert by_row["truncate"] == by_row["ftruncate"] == "" and by_row["unlink"] is None
    return f"{len(found) - len(absent)} of {len(found)} rows changed the layer on the host"
