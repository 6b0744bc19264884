"""What the cases about descriptors, terminals and signals share."""
import contextlib
import fcntl
import os
import pty
import struct
import subprocess
import termios
import time

from cli.helpers import environment


class Terminal:
    """A pty; coto runs in a session of its own on it, as in a person's terminal."""

    def __init__(self):
        self.master, self.slave = pty.openpty()
        os.set_blocking(self.master, False)
        fcntl.ioctl(self.slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))

    def close(self):
        os.close(self.master)
        os.close(self.slave)

    def _take(self):
        os.setsid()
        fcntl.ioctl(self.slave, termios.TIOCSCTTY, 0)

    def run(self, argv, env=None, seconds=30, **more):
        """(status, what the terminal shows)."""
        streams = {"stdin": self.slave, "stdout": self.slave, "stderr": self.slave, **more}
        process = subprocess.Popen(argv, env=environment({"TERM": "xterm", **(env or {})}),
                                   preexec_fn=self._take, **streams)
        seen, end = b"", time.monotonic() + seconds
        try:
            while process.poll() is None:
                assert time.monotonic() < end, (argv, seen)
                seen += self.read()
                time.sleep(0.005)
        finally:
            process.kill()
            process.wait()
        return process.returncode, seen + self.read()

    def read(self):
        try:
            return os.read(self.master, 65536)
        except BlockingIOError:
            return b""

    def pending(self):
        """Bytes that wait in the terminal as if somebody had typed them."""
        modes = termios.tcgetattr(self.slave)
        raw = [*modes]
        raw[3] = modes[3] & ~termios.ICANON  # counts lines only, otherwise
        termios.tcsetattr(self.slave, termios.TCSANOW, raw)
        count = struct.unpack("i", fcntl.ioctl(self.slave, termios.FIONREAD, b"\0" * 4))[0]
        termios.tcsetattr(self.slave, termios.TCSANOW, modes)
        return count

    def state(self):
        size = fcntl.ioctl(self.slave, termios.TIOCGWINSZ, b"\0" * 8)
        return termios.tcgetattr(self.slave), size


@contextlib.contextmanager
def terminal():
    it = Terminal()
    try:
        yield it
    finally:
        it.close()
