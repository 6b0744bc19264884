"""DI-01: fill every place that can be written to."""
from escape.harness import escaped
from escape.lib_files import TRY

TITLE = "filling all writable places"
TRIED = ("every directory below / tried; each that takes a file filled by writes, fallocate, links, long "
         "names, extended attributes and deleted files")
WALLS = ["disk", "root_read_only"]
CONTROL = "option"
FILL = TRY + """
places, seen = [], set()
for top, dirs, _ in os.walk("/"):
    if top in ("/proc", "/usr", "/sys"): dirs[:] = []
    try:
        fd = os.open(top, os.O_TMPFILE | os.O_RDWR)
        device = os.fstat(fd).st_dev
        if device not in seen: places.append(top)
        seen.add(device); os.close(fd)
    except OSError: pass
def blocks(place): return os.statvfs(place).f_blocks * os.statvfs(place).f_frsize
def fill(place):
    total, keep = 0, []
    def more(work):
        try: return work()
        except OSError as reason:
            if reason.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EOPNOTSUPP): raise
            return 0
    fd = os.open(place + "/written", os.O_RDWR | os.O_CREAT)
    while n := more(lambda: os.write(fd, bytes(65536))): total += n
    gone = os.open(place, os.O_TMPFILE | os.O_RDWR)
    while n := more(lambda: os.write(gone, bytes(4096))): total += n
    if more(lambda: os.posix_fallocate(gone, total, 1 << 20) is None): total += 1 << 20
    for i in range(2000):
        if more(lambda: os.setxattr(place + "/written", "user.%d" % i, bytes(4000)) is None): total += 4000
        else: break
    return total
print(json.dumps({place: [fill(place), blocks(place)] for place in places}))
"""
SMALL = ["--disk", "2m", "--tmp-size", "1m", "--tmpfs", "/extra:512k"]


def attack(box):
    found = box.inside(FILL, flags=SMALL)
    # Extended attributes come on top; the kernel bounds them by the inodes allowed.
    wrong = {place: pair for place, pair in found.items() if pair[0] > pair[1] + (512 << 10) or pair[1] > 2 << 20}
    if wrong or not 3 <= len(found) <= 5:
        escaped("WRITE", f"{wrong or found}")
    total, allowed = (sum(pair[i] for pair in found.values()) >> 10 for i in (0, 1))
    return f"ENOSPC in {', '.join(sorted(found))}: {total} KiB in all, {allowed} allowed"


def control(box):
    found = box.inside(FILL, flags=["--disk", "16m", "--tmp-size", "8m", "--tmpfs", "/extra:4m"])
    assert max(pair[0] for pair in found.values()) >= 15 << 20, found
    return f"{sum(pair[0] for pair in found.values()) >> 20} MiB with 36 MiB allowed"
