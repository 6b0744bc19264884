"""System calls by number, made inside a sandbox by calls.c, and the published table.

An answer is one word: 'ok', the errno's name, the signal's name, 'blocks' or 'exits'.
"""
import errno
import pathlib
import re
import signal

from escape.harness import Untestable, escaped

HERE = pathlib.Path(__file__).resolve().parent
SOURCE = HERE.parent.parent
HIGH = 0x123 << 32  # garbage above the 32 bits that the kernel looks at
X32 = 0x40000000
# Newer kernels answer these two themselves, before any filter (docs/SYSCALLS.md).
UNFILTERED = {335: {"ENOSYS", "SIGILL"}, 336: {"ENOSYS", "ENXIO"}}


def row(name, number, *args, abi=64):
    return " ".join(str(word) for word in (name, abi, number, *args))


def word_of(kind, value=""):
    if kind == "errno":
        # One number, two names: Python knows the other one.
        return "EOPNOTSUPP" if int(value) == errno.EOPNOTSUPP else errno.errorcode.get(int(value), f"errno{value}")
    return signal.Signals(int(value)).name if kind == "signal" else kind


def answers(box, rows, flags=(), **more):
    """name -> answer, in a sandbox with the given flags and missing walls."""
    program = box.c(HERE / "calls.c")
    # Shown read-only: with --noexec a copy in the workspace could not be started.
    if box.level and box.level.isolation == "docker" and not more.get("without"):
        what = [program]
    else:
        what, flags = ["/mnt/calls"], ["--mount", f"{program}:/mnt/calls:ro", *flags]
    done = box.run(what, flags=flags,
                   stdin=("\n".join(rows) + "\n").encode(), **{"timeout": 120, **more})
    assert done.code == 0, (done.code, done.out[-300:], done.err[-300:])
    found = {}
    for line in done.out.decode().splitlines():
        name, kind, *value = line.split()
        found[name] = word_of(kind, *value)
    assert len(found) == len(rows), f"{len(found)} answers to {len(rows)} rows: {done.err[-300:]!r}"
    return found


def need_i386(box):
    """The control of an i386 attack needs a kernel that has that table."""
    if answers(box, [row("getpid", 20, abi=32)], without=["seccomp"])["getpid"] != "ok":
        raise Untestable("this kernel has no i386 system calls")


def expect(found, wanted, kind="ESCAPE"):
    """Every row as wanted (a word or a set of words per name); what differs is an escape."""
    wrong = [f"{name} {found[name]}" for name, words in wanted.items()
             if found[name] not in ({words} if isinstance(words, str) else words)]
    if wrong:
        escaped(kind, ", ".join(wrong))


def summary(found):
    """'12 EPERM, 3 ENOSYS': what the rows were answered, most frequent first."""
    words = list(found.values())
    return ", ".join(f"{words.count(word)} {word}" for word in sorted(set(words), key=words.count, reverse=True))


def reached(box, rows, refused, least=1, without=("seccomp",), **more):
    """The control of a table: without the walls at least so many rows are answered
    otherwise than the filter would (`refused`: name -> its word)."""
    found = answers(box, rows, without=list(without), **more)
    other = [name for name in found if found[name] != refused[name]]
    assert len(other) >= least, f"only {other} of {found}"
    return f"{len(other)} of {len(found)} reach the kernel ({', '.join(f'{n} {found[n]}' for n in other[:3])})"


def table(tier="default"):
    """number -> (name, 'yes', 'check' or '-', answer when refused) of docs/SYSCALLS.md."""
    column = {"strict": 3, "default": 4, "debug": 5}[tier]
    found = {}
    for line in (SOURCE / "docs/SYSCALLS.md").read_text().splitlines():
        cells = [cell.strip() for cell in line.split("|")]
        if len(cells) < 8 or not cells[2].isdigit():
            continue
        state, answer = cells[column], cells[6]
        parts = re.fullmatch(r"(\w*)[^;]*(?:; (\w+) by check)?", answer)
        by_check = parts[2] or parts[1]
        word = by_check if state == "check" else parts[1]
        found[int(cells[2])] = (cells[1], state, "ok" if word == "0" else word)
    return found


def numbers(tier="default"):
    """name -> number of the published table."""
    return {name: number for number, (name, _, _) in table(tier).items()}


def published_hash(tier):
    text = (SOURCE / "docs/SYSCALLS.md").read_text()
    return re.search(rf"\| `{tier}` \|.*`(\w{{64}})`", text)[1]
