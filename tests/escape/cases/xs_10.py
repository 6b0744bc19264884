"""XS-10: learn which shared files others have read, from what lies in the page cache."""
import os

from escape.harness import Untestable, escaped
from escape.lib_files import TRY

TITLE = "page-cache probing"
TRIED = ("mincore, cachestat and preadv2(RWF_NOWAIT) on a file of /usr, half of which was read "
         "before")
WALLS = ["seccomp", "unique_uid"]
PROBE = TRY + """
size, page = 64 << 12, 4096
fd = os.open(sys.argv[1], os.O_RDONLY)
def mincore(fd):
    libc.mmap.restype = ctypes.c_void_p
    area = libc.mmap(None, ctypes.c_size_t(size), 1, 1, fd, ctypes.c_long(0))
    vector = (ctypes.c_ubyte * 64)()
    if libc.mincore(ctypes.c_void_p(area), ctypes.c_size_t(size), vector): return errno.errorcode[ctypes.get_errno()]
    return [sum(b & 1 for b in vector[:32]), sum(b & 1 for b in vector[32:])]
def cachestat(fd):
    out = (ctypes.c_uint64 * 5)()
    halves = []
    for start in (0, size // 2):
        area = (ctypes.c_uint64 * 2)(start, size // 2)
        if libc.syscall(451, fd, area, out, 0): return errno.errorcode[ctypes.get_errno()]
        halves.append(out[0])
    return halves
def nowait(fd):
    def half(first):
        got = 0
        for i in range(first, first + 32):
            try: got += os.preadv(fd, [bytearray(1)], i * page, 8) == 1
            except BlockingIOError: pass
        return got
    try: return [half(0), half(32)]
    except OSError as reason: return errno.errorcode[reason.errno]
own = os.open("/workspace/own", os.O_RDWR | os.O_CREAT)
os.ftruncate(own, size)
os.pwrite(own, bytes(size // 2), 0)
print(json.dumps({"mincore": mincore(fd), "cachestat": cachestat(fd), "nowait": nowait(fd), "own": mincore(own)}))
"""


def unused():
    """A file of /usr that nobody maps, of 64 pages at least."""
    for top, _, names in os.walk("/usr/share"):
        for path in (os.path.join(top, name) for name in names):
            if not os.path.islink(path) and 64 << 12 <= os.path.getsize(path) < 1 << 24 and os.access(path, os.R_OK):
                return path
    raise Untestable("no file of 256 KiB in /usr/share")


def probe(box, **more):
    """What each call tells of a file whose first half is in the cache."""
    path = unused()
    with open(path, "rb", buffering=0) as file:
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_RANDOM)
        os.pread(file.fileno(), 32 << 12, 0)
        return box.inside(PROBE, args=[path], **more)


def tells(halves):
    return isinstance(halves, list) and halves[0] > halves[1] + 8


def attack(box):
    found = probe(box)
    told = [name for name in ("mincore", "cachestat", "nowait") if tells(found[name])]
    if told:
        escaped("READ", f"which half was read is told by {', '.join(told)}: {found}")
    return f"mincore {found['mincore']}, cachestat {found['cachestat']}, RWF_NOWAIT {found['nowait']}"


def control(box):
    found = probe(box, without=["seccomp"])
    told = [name for name in ("cachestat", "nowait") if tells(found[name])]
    if not told:
        raise Untestable(f"this kernel tells nothing: {found}")
    # The kernel answers mincore for one's own files only; on those it works.
    assert tells(found["own"]), found
    return f"told by {', '.join(told)}: {found[told[0]]} of 32 pages each"
