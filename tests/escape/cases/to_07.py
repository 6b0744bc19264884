"""TO-07: a process that waits for a disk does not hear SIGKILL until it comes back."""
from escape.lib_ends import goes_on, is_timed_out
from escape.lib_files import folder, room

TITLE = "uninterruptible waits"
TRIED = ("4 processes write and fsync 8 MiB at a time to a host directory shown read-write, and to tmpfs, "
         "until the limit")
WALLS = ["timeout"]
CODE = """
os.fork(); os.fork()
place = "/mnt/disk" if os.getpid() % 2 else "/workspace"
fd = os.open(f"{place}/f{os.getpid()}", os.O_RDWR | os.O_CREAT | os.O_TRUNC)
block = os.urandom(1 << 20) * 8
while time.monotonic() < end:
    os.pwrite(fd, block, 0); os.fsync(fd); os.fdatasync(fd)
rest()
"""


def attack(box):
    with room() as place:
        return is_timed_out(box, CODE, flags=["--mount", f"{folder(place / 'disk')}:/mnt/disk:rw"])


def control(box):
    with room() as place:
        return goes_on(box, CODE, flags=["--mount", f"{folder(place / 'disk')}:/mnt/disk:rw"])
