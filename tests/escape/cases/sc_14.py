"""SC-14: every number there is, in search of one that nobody thought of."""
from escape.harness import escaped
from escape.lib_calls import UNFILTERED, X32, answers, expect, row, summary, table

TITLE = "every system-call number"
TRIED = ("numbers 0 to 600 in three tiers against docs/SYSCALLS.md; the same with the x32 bit and through int "
         "0x80")
WALLS = ["seccomp"]
NUMBERS = range(601)
TIERS = ("strict", "default", "debug")
SWEEP = [row(number, number, *[-1] * 6) for number in NUMBERS]
# Arguments that satisfy the rule of each call the table marks `check`; -1 breaks all
# rules but these: no CLONE_NEW* is the only one of the kind, the query of personality.
HOLDS = {"ioctl": (-1, 0x5401, 0), "fcntl": (-1, 3, 0), "prctl": (3, 0, 0, 0, 0), "personality": (0xffffffff,),
         "clone": (17,), "socket": (1, 1, 0), "socketpair": (1, 1, 0, 0), "mknod": (-1, 0o100600, 0),
         "mknodat": (-1, -1, 0o10600, 0), "sched_setscheduler": (-1, 0, 0), "sched_setparam": (-1, 0),
         "setpriority": (0, -1, 0), "fadvise64": (-1, 0, 0, 3),
         "sched_setaffinity": (-1, 0, 0), "prlimit64": (-1, 0, 0, 0), "setrlimit": (0, 0), "perf_event_open": (-1, 0, -1, -1, 0),
         "mmap": (0, 0, 0, 0x22, -1, 0), "sendto": (-1, 0, 0, 0, 0, 0), "sendmsg": (-1, 0, 0), "sendmmsg": (-1, 0, 0, 0),
         "setsockopt": (-1, 1, 2, 0, 0), "inotify_add_watch": (-1, 0, 2), "memfd_create": (0, 0),
         "preadv2": (-1, 0, 0, 0, 0, 0), "renameat2": (-1, 0, -1, 0, 0), "shmget": (0, 0, 0), "madvise": (1, 1, 4)}
BREAKS = {"ioctl": (-1, 0x5412, 0), "fcntl": (-1, 1024, 0), "prctl": (35, 0, 0, 0, 0), "personality": (0x400000,),
          "clone": (0x10000011,), "socket": (38, 5, 0), "socketpair": (2, 1, 0, 0), "mknod": (-1, 0o20600, 0),
          "mknodat": (-1, -1, 0o60600, 0), "sched_setscheduler": (0, 1, 0), "sched_setparam": (1, 0),
          "setpriority": (0, 1, 0), "fadvise64": (-1, 0, 0, 4),
          "sched_setaffinity": (1, 0, 0), "prlimit64": (1, 0, 0, 0), "setrlimit": (4, 0), "perf_event_open": (-1, 1, -1, -1, 0),
          "mmap": (0, 0, 0, 0x40022, -1, 0), "sendto": (-1, 0, 0, 0x8000, 0, 0), "sendmsg": (-1, 0, 0x8000),
          "sendmmsg": (-1, 0, 0, 0x8000), "setsockopt": (-1, 17, 0, 0, 0), "inotify_add_watch": (-1, 0, 1),
          "memfd_create": (0, 4), "preadv2": (-1, 0, 0, 0, 0, 8), "renameat2": (-1, 0, -1, 0, 4), "shmget": (0, 0, 0o4000), "madvise": (1, 1, 12)}


def sweep(box, **more):
    return {int(name): word for name, word in answers(box, SWEEP, **more).items()}


def checked_rows(published):
    names = [(number, name) for number, (name, state, _) in published.items() if state == "check"]
    return ([row(f"{name}.holds", number, *HOLDS[name]) for number, name in names]
            + [row(f"{name}.breaks", number, *BREAKS[name]) for number, name in names])


def compare(tier, published, found, free):
    """What the sandbox answers to a number against the table; `free` is the kernel's own word."""
    wrong = []
    for number in NUMBERS:
        name, state, word = published.get(number, (str(number), "-", "ENOSYS"))
        wanted = {"yes": {free[number]}, "-": {word}}.get(state)
        if number in UNFILTERED:
            wanted = UNFILTERED[number]
        if wanted and found[number] not in wanted:
            wrong.append(f"{tier} {name} {found[number]}, not {wanted}")
    return wrong


def attack(box):
    # sync(2) would make the host wait: the kernel's own word is not asked for.
    rows = [line for line in SWEEP if line.split()[0] != "162"]
    free = {int(name): word for name, word in answers(box, rows, without=["seccomp"]).items()} | {162: "ok"}
    wrong, refused = [], {}
    for tier in TIERS:
        published, flags = table(tier), ["--seccomp", tier]
        found = sweep(box, flags=flags)
        wrong += compare(tier, published, found, free)
        refused[tier] = sum(found[number] != free[number] for number in NUMBERS)
        rows = checked_rows(published)
        inside, outside = answers(box, rows, flags=flags), answers(box, rows, without=["seccomp"])
        for number, (name, state, word) in published.items():
            if state == "check" and inside[f"{name}.breaks"] != word:
                wrong.append(f"{tier} {name} breaks its rule: {inside[f'{name}.breaks']}")
            if state == "check" and inside[f"{name}.holds"] != outside[f"{name}.holds"]:
                wrong.append(f"{tier} {name} keeps its rule: {inside[f'{name}.holds']}")
    if wrong:
        escaped("ESCAPE", f"{len(wrong)} differ from the table: {'; '.join(wrong[:9])}")
    foreign = [row(f"x32.{number}", X32 | number) for number in NUMBERS]
    foreign += [row(f"i386.{number}", number, abi=32) for number in NUMBERS]
    dead = answers(box, foreign)
    expect(dead, {name: {"SIGSYS"} if name.startswith("x32") else {"SIGSYS", "SIGSEGV"} for name in dead})
    return (f"exactly the table in 3 tiers; answered otherwise than by the kernel: {refused}; "
            f"x32 and i386: {summary(dead)}")


def control(box):
    """Without the filter the kernel answers most of what the table refuses."""
    published = table()
    closed = [number for number in NUMBERS if number not in UNFILTERED | {162: 0}
              and published.get(number, ("", "-", "ENOSYS"))[1] == "-"]
    found = answers(box, [row(number, number, *[-1] * 6) for number in closed], without=["seccomp", "capabilities"])
    other = [number for number in closed
             if found[str(number)] != published.get(number, ("", "-", "ENOSYS"))[2]]
    assert len(other) > 80, f"only {other}"
    old = answers(box, [row("getpid", 20, abi=32)], without=["seccomp"])["getpid"]
    return f"{len(other)} of {len(closed)} refused numbers reach the kernel; i386 getpid {old}"
