"""DI-06: let the tmpfs of many sandboxes together be more than the host's memory.

What a tmpfs holds is charged to its sandbox, so a --disk far beyond the host's memory gives
nothing beyond --memory, however many run side by side. How many there may be is the service's to
say: tests/api/test_tenants.py (test_sandboxes, test_a_thousand_creates_at_once, test_a_queue_has_an_end)
and tests/api/test_settings.py (test_more_than_the_ceiling_is_refused).
"""
import contextlib

from escape.harness import escaped
from escape.lib_hogs import need_limit

TITLE = "tmpfs beyond the host's memory"
TRIED = ("five sandboxes side by side, each with 1 TiB of disk and of /tmp and 48 MiB of memory,"
         " all writing 90 MiB")
WALLS = ["memory", "disk"]
CONTROL = "option"
WRITE = """
import os
print("ready", flush=True); input()
for place in ("/workspace", "/tmp", "/dev/shm"):
    fd = os.open(place + "/x", 66)
    for i in range(30): os.write(fd, bytes(1 << 20))
print("held", flush=True)
"""


def together(box, memory, count):
    """Exit statuses and output of so many sandboxes that write at the same time."""
    flags = ["--memory", memory, "--disk", "1t", "--tmp-size", "1t", "-q"]
    with contextlib.ExitStack() as stack:
        boxes = [stack.enter_context(box.running(WRITE, flags=flags)) for _ in range(count)]
        for it in boxes:
            it.say("\n")
        return [it.end(60) for it in boxes]


def attack(box):
    need_limit(box, "memory")
    ended = together(box, "48m", 5)
    if any(done.status != 137 or b"held" in done.out for done in ended):
        escaped("CRASH", f"{ended}")
    return "all five ended at their memory limit (137)"


def control(box):
    need_limit(box, "memory")
    ended = together(box, "200m", 2)
    assert all(done.status == 0 and done.out == b"held\n" for done in ended), ended
    return "with 200 MiB each both hold their 90 MiB"
