"""Peak memory of a running supervisor, as the kernel counts it (VmHWM).

Not ru_maxrss: that begins with what its parent had when it forked.
"""
import re
import threading

from cli.helpers import COTO

# A sanitizer keeps what is freed and shadows the rest: ten times as much is still flat.
with open(COTO, "rb") as program:
    ROOM = 10 if b"__asan_init" in program.read() else 1


def high_water(pid):
    try:
        with open(f"/proc/{pid}/status") as file:
            found = re.search(r"VmHWM:\s+(\d+) kB", file.read())
    except OSError:
        return 0
    return int(found[1]) << 10 if found else 0


class Peak(threading.Thread):
    """Watches a process until stop(); bytes."""

    def __init__(self, pid):
        super().__init__(daemon=True)
        self.pid, self.peak, self.ended = pid, 0, threading.Event()
        self.start()

    def run(self):
        while True:
            # The first looks may find the parent's memory, before execve.
            self.peak = high_water(self.pid) or self.peak
            if self.ended.wait(0.005):
                return

    def stop(self):
        self.ended.set()
        self.join()
        return self.peak
