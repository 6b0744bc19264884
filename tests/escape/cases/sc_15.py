"""SC-15: a branch of the filter that no test has taken may lead anywhere."""
import errno
import itertools
import random

from cli.helpers import WAITER
from escape.harness import escaped
from escape.lib_calls import UNFILTERED, answers, published_hash, row, table
from escape.lib_files import room
from escape.lib_filter import (ALLOW, ARCH, ARGUMENTS, ERRNO, KILL, NUMBER, TIERS, X86_64, Walk, arguments, compiled,
                               installed, verdict_of)

TITLE = "every branch of the filter"
TRIED = ("an input for every path through the filter of each tier, with and without noexec and a writable "
         "mount, made as a real call inside; 12 000 generated inputs per tier against docs/SYSCALLS.md")
WALLS = ["seccomp"]
EACH = 20  # generated inputs per number
LIE = ERRNO  # errno 0: sync(2), which without a filter would make the host wait


def name_of(words):
    """One name per input; the architecture decides how the call is made."""
    abi = 64 if words.get(ARCH, X86_64) == X86_64 else 32
    values = [words.get(NUMBER, 0), *arguments(words)]
    return "_".join(f"{value:x}" for value in [abi, *values]), abi, values


def rows_of(walk):
    """input's name -> (row, verdict); paths that differ in nothing a call can show share one."""
    found = {}
    for _, words, verdict in walk.paths:
        name, abi, values = name_of(words)
        assert found.get(name, (None, verdict))[1] == verdict, f"two verdicts for {name}"
        found[name] = (row(name, *values, abi=abi), verdict)
    return found


def word_of(verdict):
    code = verdict & 0xffff
    return "ok" if code == 0 else "EOPNOTSUPP" if code == errno.EOPNOTSUPP else errno.errorcode[code]


def against_table(tier, walk):
    """Inputs that the compiled filter answers otherwise than the published table does, and how many were tried."""
    published, chance, values = table(tier), random.Random(15), sorted(walk.values)
    wrong, tried = [], 0
    for number in set(range(601)) - set(UNFILTERED):
        name, state, word = published.get(number, (str(number), "-", "ENOSYS"))
        for _ in range(EACH):
            words = {ARGUMENTS + 4 * i: chance.choice((0, chance.choice(values), chance.getrandbits(32)))
                     for i in range(12)}
            verdict = verdict_of(walk.program, {**words, NUMBER: number, ARCH: X86_64})
            told = "allowed" if verdict == ALLOW else word_of(verdict)
            if told not in {"yes": {"allowed"}, "-": {word}, "check": {"allowed", word}}[state]:
                wrong.append(f"{name} {told}, not {state} {word}")
            tried += 1
    return wrong, tried


def wrong_answers(found, free, verdicts):
    for name, verdict in verdicts.items():
        if verdict == ALLOW:
            wanted = {free.get(name, "ok")}
        elif verdict == KILL:
            wanted = {"SIGSYS", "SIGSEGV"} if name.startswith("20_") else {"SIGSYS"}
        else:
            assert verdict & 0xffff0000 == ERRNO, f"unknown verdict {verdict:#x}"
            wanted = {word_of(verdict)}
        if found[name] not in wanted:
            yield f"{name}: {found[name]}, not {wanted}"


def is_in_force(box, flags, program):
    """The filter of a running program, where the caller may read it back."""
    with box.running(WAITER, flags=flags) as it:
        in_force = installed(it.program())
    if in_force is not None and in_force != program:
        escaped("ESCAPE", f"{' '.join(flags)}: the kernel runs another filter than the compiler made")
    return in_force is not None


def walked(box, tier, noexec, shared=None):
    """The walk through one program, its inputs, and the flags that put it in force."""
    hashed, program = compiled(tier, noexec, shared is not None)
    flags = ["--seccomp", tier, *(["--noexec"] if noexec else []),
             *(["--mount", f"{shared}:/mnt/shared:rw"] if shared else [])]
    done = box.run(["true"], flags=flags)
    assert done.json["seccomp_filter_hash"] == hashed, "the product's filter is not this tree's"
    assert noexec or shared or hashed == published_hash(tier), f"docs/SYSCALLS.md has another hash for {tier}"
    walk = Walk(program)
    dead = walk.branches() - walk.covered()
    assert not dead, f"{tier}: no input takes {sorted(dead)[:9]}"
    return walk, rows_of(walk), flags


def attack(box):
    with room() as shared:
        # An engine mounts nothing of the host.
        mounts = (None,) if box.level and box.level.isolation == "docker" else (None, shared)
        return compare(box, itertools.product(TIERS, (False, True), mounts))


def compare(box, variants):
    paths = branches = generated = 0
    read_back = []
    for tier, noexec, shared in variants:
        walk, rows, flags = walked(box, tier, noexec, shared)
        if not noexec and not shared:
            wrong, tried = against_table(tier, walk)
            generated += tried
            if wrong:
                escaped("ESCAPE", f"{tier}: the filter is not the table: {'; '.join(wrong[:5])}")
        found = answers(box, [line for line, _ in rows.values()], flags=flags)
        free = answers(box, [line for line, verdict in rows.values() if verdict == ALLOW], without=["seccomp"])
        wrong = list(wrong_answers(found, free, {name: verdict for name, (_, verdict) in rows.items()}))
        if wrong:
            escaped("ESCAPE", f"{' '.join(flags)}: {len(wrong)} answers differ: {'; '.join(wrong[:5])}")
        paths, branches = paths + len(rows), branches + len(walk.branches())
        read_back.append(is_in_force(box, flags, walk.program))
    told = f"all {len(read_back)} filters read back from the kernel, " if all(read_back) else ""
    return f"{told}{branches} branches, none dead, {paths} calls answered as compiled, {generated} inputs as published"


def control(box):
    """Without the filter the same calls are answered otherwise: the walk can tell."""
    _, rows, _ = walked(box, "default", False)
    refused = {name: line for name, (line, verdict) in rows.items() if verdict not in (ALLOW, LIE)}
    free = answers(box, list(refused.values()), without=["seccomp", "capabilities"])
    wrong = list(wrong_answers(free, {}, {name: rows[name][1] for name in refused}))
    assert len(wrong) > 60, wrong
    return f"{len(wrong)} of {len(refused)} refused inputs reach the kernel"
