"""The compiled filter as data: every path through it, with an input that takes it.

The program is loop-free and compares words of the call with constants only, so the
constants of a word, their neighbours and single bits are enough to reach every branch
that can be reached at all. Nothing of the compiler is repeated here.
"""
import ctypes
import os
import signal
import struct
import subprocess

from escape.harness import cache
from escape.lib_calls import SOURCE, UNFILTERED

TIERS = ("strict", "default", "debug")
LOAD, AND, RETURN, ALWAYS = 0x20, 0x54, 0x06, 0x05
EQUAL, GREATER_EQUAL, ANY_BIT = 0x15, 0x35, 0x45
NUMBER, ARCH, ARGUMENTS = 0, 4, 16  # offsets in struct seccomp_data
SECCOMP = 317
X86_64, I386 = 0xc000003e, 0x40000003
ALLOW, ERRNO, KILL = 0x7fff0000, 0x00050000, 0x80000000
BITS = 0xffffffff


def compiled(tier, noexec=False, nosetid=False):
    """(hash, [(code, jt, jf, k)]) as the compiler of this source tree makes it."""
    tool = cache() / "print_filter"
    if not tool.exists():
        sources = ["tests/escape/print_filter.c", "src/kernel/seccomp.c", "src/base/err.c", "src/base/sha256.c"]
        new = cache() / f"print_filter-{os.getpid()}"
        subprocess.run(["gcc", "-std=gnu11", "-D_GNU_SOURCE", "-O1", "-Isrc", *sources, "-o", new],
                       cwd=SOURCE, check=True, timeout=120)
        new.rename(tool)
    done = subprocess.run([tool, str(TIERS.index(tier)), str(noexec + 2 * nosetid)], check=True, timeout=60,
                          capture_output=True, text=True)
    lines = done.stdout.splitlines()
    return lines[0], [tuple(map(int, line.split())) for line in lines[1:]]


def candidates(program):
    """Values that tell the comparisons of a word apart; any word gets those of all."""
    common, mask = {0, BITS}, BITS
    for code, _, _, k in program:
        mask = {LOAD: BITS, AND: k}.get(code, mask)
        if code in (EQUAL, GREATER_EQUAL, ANY_BIT):
            common |= {k, (k + 1) & BITS, (k - 1) & BITS, k | (~mask & BITS), ~k & BITS}
            common |= {1 << bit for bit in range(32) if code == ANY_BIT and k >> bit & 1}
    return common


def holds(code, value, k):
    return {EQUAL: value == k, GREATER_EQUAL: value >= k, ANY_BIT: bool(value & k)}[code]


def plainest(offset, values):
    """One of them. seccomp(2) itself answers otherwise to who has a filter already: another number where there is one."""
    return min(values, key=lambda value: (offset == NUMBER and value == SECCOMP, value))


def verdict_of(program, words):
    """What the program answers to an input: offset -> word, 0 where none is given."""
    at, value = 0, 0
    while True:
        code, yes, no, k = program[at]
        if code == RETURN:
            return k
        if code == LOAD:
            value, at = words.get(k, 0), at + 1
        elif code == AND:
            value, at = value & k, at + 1
        elif code == ALWAYS:
            at += 1 + k
        else:
            at += 1 + (yes if holds(code, value, k) else no)


class Walk:
    """All paths: [(edges, input, verdict)], edges being (instruction, taken)."""

    def __init__(self, program):
        self.program, self.paths = program, []
        self.values = candidates(program)
        # Numbers that the kernel answers without asking show nothing; architectures are those a
        # program can call with.
        self.only = {NUMBER: (self.values | set(range(601))) - set(UNFILTERED), ARCH: {X86_64, I386}}
        self.step(0, {}, (None, BITS), [])

    def step(self, at, known, word, edges):
        """known: offset -> values that the path so far leaves possible."""
        code, yes, no, k = self.program[at]
        if code == RETURN:
            self.paths.append((edges, {offset: plainest(offset, values) for offset, values in known.items()}, k))
        elif code == LOAD:
            self.step(at + 1, {**known, k: known.get(k, self.only.get(k, self.values))}, (k, BITS), edges)
        elif code == AND:
            self.step(at + 1, known, (word[0], k), edges)
        elif code == ALWAYS:
            self.step(at + 1 + k, known, word, edges)
        else:
            offset, mask = word
            for taken in (True, False):
                left = {value for value in known[offset] if holds(code, value & mask, k) == taken}
                if left:
                    self.step(at + 1 + (yes if taken else no), {**known, offset: left}, word,
                              edges + [(at, taken)])

    def branches(self):
        return {(at, taken) for at, row in enumerate(self.program) if row[0] in (EQUAL, GREATER_EQUAL, ANY_BIT)
                for taken in (True, False)}

    def covered(self):
        return {edge for edges, _, _ in self.paths for edge in edges}


def arguments(words):
    """The six arguments of an input, low and high words put together."""
    return [words.get(ARGUMENTS + 8 * i, 0) | words.get(ARGUMENTS + 8 * i + 4, 0) << 32 for i in range(6)]


# ---- what the kernel has installed ----

PTRACE_SEIZE, PTRACE_INTERRUPT, PTRACE_DETACH, PTRACE_GET_FILTER = 0x4206, 0x4207, 17, 0x420c


def installed(pid):
    """The newest filter of a running process as the kernel gives it back; None when it does not."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p]
    libc.ptrace.restype = ctypes.c_long
    if libc.ptrace(PTRACE_SEIZE, pid, None, None) or libc.ptrace(PTRACE_INTERRUPT, pid, None, None):
        return None
    os.waitpid(pid, 0x40000000)
    filters = []
    try:
        # Counted from the oldest, which may be the caller's own.
        while (count := libc.ptrace(PTRACE_GET_FILTER, pid, len(filters), None)) > 0:
            code = ctypes.create_string_buffer(8 * count)
            libc.ptrace(PTRACE_GET_FILTER, pid, len(filters), ctypes.cast(code, ctypes.c_void_p))
            filters.append(list(struct.iter_unpack("=HBBI", code.raw)))
    finally:
        libc.ptrace(PTRACE_DETACH, pid, None, None)
        os.kill(pid, signal.SIGCONT)
    return filters[-1] if filters else None
