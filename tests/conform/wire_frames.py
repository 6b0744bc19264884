"""The frames of src/wire/frame.h, written a second time from their description, so
that a mistake in the C code is not repeated on the other side. Numbers come from
the header itself: they are the contract."""
import os
import pathlib
import re
import select
import socket
import struct
import subprocess
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
HEADER = (ROOT / "src/wire/frame.h").read_text()
ERRORS = (ROOT / "src/base/err.h").read_text()

FRAME = {name: int(number) for name, number in
         re.findall(r'X\((\w+), (\d+), "(?:init|host|front|launcher)"', HEADER)}
TAG = {name: int(number) for name, number in
       re.findall(r'X\((\w+), (\d+)\)', HEADER.split("COTO_TAGS(X)")[1].split("enum coto_tag")[0])}
KIND = {name: index + 1 for index, name in
        enumerate(re.findall(r'X\((\w+), \d+, \d+, "', ERRORS))}
FRAME_NAME = {number: name for name, number in FRAME.items()}
FRAME_MAX = 256 * 1024
WINDOW = 256 * 1024
ORDINARY_UID = 65533


def field(tag, value):
    if isinstance(value, bool) or isinstance(value, int):
        value = struct.pack("<Q", value)
    elif isinstance(value, str):
        value = value.encode()
    return struct.pack("<HI", TAG[tag] if isinstance(tag, str) else tag, len(value)) + value


def frame(kind, proc=0, *fields):
    payload = b"".join(field(tag, value) for tag, value in fields)
    number = FRAME[kind] if isinstance(kind, str) else kind
    return struct.pack("<IHH", len(payload), number, proc) + payload


class Frame:
    def __init__(self, kind, proc, payload):
        self.kind = FRAME_NAME.get(kind, kind)
        self.proc = proc
        self.fields = []
        while payload:
            tag, size = struct.unpack_from("<HI", payload)
            assert len(payload) >= 6 + size, "a field runs past its frame"
            self.fields.append((tag, payload[6:6 + size]))
            payload = payload[6 + size:]

    def bytes(self, tag):
        return next((value for number, value in self.fields if number == TAG[tag]), None)

    def number(self, tag):
        value = self.bytes(tag)
        return None if value is None else struct.unpack("<Q", value)[0]

    def __repr__(self):
        return f"{self.kind}/{self.proc} {self.fields!r:.300}"


def as_ordinary_user():
    if os.geteuid() != 0:
        return []
    return ["setpriv", f"--reuid={ORDINARY_UID}", f"--regid={ORDINARY_UID}", "--clear-groups",
            "--inh-caps=-all"]


AS_PID1 = ["unshare", "--user", "--map-root-user", "--pid", "--fork", "--kill-child",
           "--mount-proc"]


def can_be_pid1():
    done = subprocess.run(as_ordinary_user() + AS_PID1 + ["true"], capture_output=True)
    return done.returncode == 0


class Init:
    """One running coto-init and the host's end of its stream."""

    def __init__(self, program, work, pid1=False, pipes=False):
        self.buffer = b""
        self.work = work
        self.pid1 = pid1
        work_fd = os.open(work, os.O_RDONLY | os.O_DIRECTORY)
        prefix = as_ordinary_user() + (AS_PID1 if pid1 else [])
        if pipes:  # as a container engine attaches: the stream is stdin and stdout
            command = prefix + [str(program), f"--work={work_fd}"]
            self.process = subprocess.Popen(command, pass_fds=[work_fd], env={},
                                            stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)
            self.write_fd, self.read_fd = self.process.stdin.fileno(), self.process.stdout.fileno()
            self.socket = None
        else:
            self.socket, theirs = socket.socketpair()
            command = prefix + [str(program), f"--in={theirs.fileno()}", f"--out={theirs.fileno()}",
                                f"--work={work_fd}"]
            self.process = subprocess.Popen(command, pass_fds=[theirs.fileno(), work_fd], env={},
                                            stdin=subprocess.DEVNULL)
            theirs.close()
            self.write_fd = self.read_fd = self.socket.fileno()
        os.close(work_fd)

    def send_raw(self, data):
        """Writes everything, and reads meanwhile: neither side may wait for the other."""
        view = memoryview(data)
        end = time.monotonic() + 20
        os.set_blocking(self.write_fd, False)
        while view:
            assert time.monotonic() < end, "coto-init takes no more bytes"
            readable, writable, _ = select.select([self.read_fd], [self.write_fd], [], 1)
            if readable and not self.fill():
                return
            if writable:
                try:
                    view = view[os.write(self.write_fd, view):]
                except BlockingIOError:
                    pass
                except (BrokenPipeError, ConnectionResetError):
                    return

    def send(self, kind, proc=0, *fields):
        self.send_raw(frame(kind, proc, *fields))

    def fill(self):
        try:
            data = os.read(self.read_fd, 1 << 20)
        except BlockingIOError:
            return True
        except ConnectionResetError:
            data = b""
        self.buffer += data
        return bool(data)

    def take(self):
        """The next whole frame in the buffer, or None."""
        if len(self.buffer) < 8:
            return None
        size, kind, proc = struct.unpack_from("<IHH", self.buffer)
        assert size <= FRAME_MAX, "a frame over its limit"
        if len(self.buffer) < 8 + size:
            return None
        payload, self.buffer = self.buffer[8:8 + size], self.buffer[8 + size:]
        return Frame(kind, proc, payload)

    def next(self, timeout=30):
        """The next frame; None at the end of the stream."""
        end = time.monotonic() + timeout
        while True:
            got = self.take()
            if got:
                return got
            left = end - time.monotonic()
            assert left > 0, f"no frame within {timeout} s"
            if select.select([self.read_fd], [], [], left)[0] and not self.fill():
                return self.take()

    def expect(self, kind, proc=None, timeout=30):
        got = self.next(timeout)
        assert got is not None, f"the stream ended before {kind}"
        assert got.kind == kind and proc in (None, got.proc), f"wanted {kind}, got {got}"
        return got

    def quiet(self, seconds=0.2):
        """Whether nothing arrives for a while."""
        return self.take() is None and not select.select([self.read_fd], [], [], seconds)[0]

    def execute(self, proc, argv, *fields, stdio=1, env=("PATH=/usr/bin:/bin",), cwd=None):
        items = [("ARGV", item) for item in argv] + [("ENV", item) for item in env]
        items += [("CWD", str(cwd or self.work)), ("STDIO", stdio)]
        self.send("EXEC", proc, *items, *fields)

    def finish(self, *procs, timeout=30):
        """Reads until all these processes have ended; what each of them did."""
        seen = {proc: {"out": bytearray(), "err": bytearray(), "done": 0, "exit": None} for proc in procs}
        while any(item["exit"] is None for item in seen.values()):
            got = self.next(timeout)
            assert got is not None, "the stream ended before EXIT"
            item = seen[got.proc]
            assert item["exit"] is None, f"{got} after EXIT"
            if got.kind in ("OUT", "ERR"):
                item[got.kind.lower()] += got.bytes("DATA")
            elif got.kind == "DONE":
                item["done"] += got.number("COUNT")
            elif got.kind == "EXIT":
                item["exit"] = got
                item["status"] = got.number("STATUS")
            else:
                assert got.kind == "STARTED", got
        return seen[procs[0]] if len(procs) == 1 else seen

    def run(self, argv, *fields, proc=1, stdin=b"", **options):
        self.execute(proc, argv, *fields, **options)
        if stdin:
            self.send("STDIN", proc, ("DATA", stdin))
        self.send("STDIN", proc)
        return self.finish(proc)

    def close_stream(self):
        if self.socket:
            self.socket.close()
        else:
            self.process.stdin.close()
            self.process.stdout.close()

    def wait(self, timeout=30):
        return self.process.wait(timeout)

    def stop(self):
        if self.process.poll() is None:
            self.close_stream()
            try:
                self.process.wait(10)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
                raise
