"""System calls in another process's name: what it may do is what the kernel lets it do, whatever it says of itself.

A thread that waits in a system call is stopped (ptrace), made to repeat that instruction with another number and other
arguments, and put back as it was; it sees no more of it than an interrupted wait."""
import contextlib
import ctypes
import os
import platform
import signal
import struct
import time

from .helpers import PATIENCE

libc = ctypes.CDLL(None, use_errno=True)
libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p]
libc.ptrace.restype = ctypes.c_long
SINGLESTEP, GETREGS, SETREGS, DETACH, SEIZE, INTERRUPT = 9, 12, 13, 17, 0x4206, 0x4207
TRACEEXEC, EVENT_EXEC, WALL = 0x10, 4, 0x40000000
# struct user_regs_struct of x86-64.
NAMES = ("r15 r14 r13 r12 rbp rbx r11 r10 r9 r8 rax rcx rdx rsi rdi orig_rax rip cs eflags rsp ss fs_base gs_base ds es fs gs").split()
LAYOUT = struct.Struct(f"{len(NAMES)}Q")
ARGUMENTS = ("rdi", "rsi", "rdx", "r10", "r8", "r9")
CALL, NO_CALL = b"\x0f\x05", (1 << 64) - 1
ROOM = 8192  # below the stack, of which 4096 are used
EXECUTED = "executed"
IS_POSSIBLE = os.geteuid() == 0 and platform.machine() == "x86_64"  # nobody else may trace what is not dumpable

OPENAT, EXECVE, KILL, MKDIR, UNLINK, RENAME, SOCKET, CONNECT, CLOSE, GETUID, PRLIMIT64 = 257, 59, 62, 83, 87, 82, 41, 42, 3, 102, 302
BIND, SENDTO, SOCKETPAIR, EXECVEAT, TGKILL, REQUEST_KEY, ADD_KEY, FCNTL = 49, 44, 53, 322, 234, 249, 248, 72
AT_FDCWD = -100


def ptrace(request, pid, address=0, data=0):
    if libc.ptrace(request, pid, address, data) == -1:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


class Puppet:
    """with Puppet(pid) as it: it.call(puppet.OPENAT, AT_FDCWD, b'/etc/passwd', os.O_RDONLY)"""

    def __init__(self, pid):
        self.pid = pid

    def __enter__(self):
        end = time.monotonic() + PATIENCE
        while not self.catch():
            assert time.monotonic() < end, "it never waits in a system call"
            time.sleep(0.01)
        return self

    def catch(self):
        """False, and let go, when it computes just now."""
        ptrace(SEIZE, self.pid, 0, TRACEEXEC)
        try:
            ptrace(INTERRUPT, self.pid)
            self.wait()
            self.memory = os.open(f"/proc/{self.pid}/mem", os.O_RDWR | os.O_CLOEXEC)
            self.before = self.registers()
            self.place = (self.before["rsp"] - ROOM) & ~15
            if self.before["orig_rax"] != NO_CALL and os.pread(self.memory, 2, self.before["rip"] - 2) == CALL:
                self.kept = os.pread(self.memory, ROOM // 2, self.place)
                return True
        except BaseException:
            self.let_go()
            raise
        self.let_go()
        os.close(self.memory)
        return False

    def __exit__(self, *_):
        with contextlib.suppress(OSError):  # another program has neither this stack nor these registers
            os.pwrite(self.memory, self.kept, self.place)
            self.set(self.before)
        self.let_go()
        os.close(self.memory)

    def let_go(self):
        with contextlib.suppress(OSError):
            ptrace(DETACH, self.pid)

    def wait(self):
        _, status = os.waitpid(self.pid, WALL)
        assert os.WIFSTOPPED(status), f"it has ended: {status:#x}"
        return status

    def registers(self):
        data = ctypes.create_string_buffer(LAYOUT.size)
        ptrace(GETREGS, self.pid, 0, ctypes.addressof(data))
        return dict(zip(NAMES, LAYOUT.unpack(data.raw)))

    def set(self, registers):
        data = ctypes.create_string_buffer(LAYOUT.pack(*(registers[name] for name in NAMES)))
        ptrace(SETREGS, self.pid, 0, ctypes.addressof(data))

    def put(self, arguments):
        """Numbers as they are; bytes, and lists of such, where the thread finds them."""
        at, found = self.place, []
        for it in arguments:
            texts = it if isinstance(it, list) else [it] if isinstance(it, bytes) else []
            where = []
            for text in texts:
                text += b"\0" * (8 - len(text) % 8)
                os.pwrite(self.memory, text, at)
                where.append(at)
                at += len(text)
            if isinstance(it, list):
                os.pwrite(self.memory, struct.pack(f"{len(where) + 1}Q", *where, 0), at)
                where = [at]
                at += 8 * (len(texts) + 1)
            found.append(where[0] if where else it & NO_CALL)
        assert at <= self.place + ROOM // 2
        return found

    def call(self, number, *arguments):
        """What the kernel answers: a number, -errno, or EXECUTED when it is another program now."""
        registers = dict(self.before, rip=self.before["rip"] - 2, rax=number, orig_rax=NO_CALL)
        registers.update(zip(ARGUMENTS, self.put(arguments)))
        self.set(registers)
        status = passed_on = 0
        while os.WSTOPSIG(status) != signal.SIGTRAP or self.registers()["rip"] != self.before["rip"]:
            ptrace(SINGLESTEP, self.pid, 0, passed_on)
            status = self.wait()
            if status >> 16 == EVENT_EXEC:
                return EXECUTED
            passed_on = os.WSTOPSIG(status) if os.WSTOPSIG(status) != signal.SIGTRAP and not status >> 16 else 0
        answer = self.registers()["rax"]
        return answer - (1 << 64) if answer >> 63 else answer
