"""SC-08: the kernel looks at 32 bits of an argument, a filter may look at 64 (CVE-2019-10063)."""
from escape.harness import escaped
from escape.lib_calls import HIGH, answers, reached, row, summary

TITLE = "garbage in bits 32 to 63"
TRIED = ("every argument rule (ioctl, fcntl, prctl, clone, socket, socketpair, mknod, personality, sched, "
         "prlimit, setsockopt) with 0x123 above it")
WALLS = ["seccomp"]
SIGNED = 0xffffffff << 32
# name: number, arguments, position of the one that is judged, the filter's answer
CALLS = {
    "tiocsti": (16, (-1, 0x5412, 0), 1, "EPERM"), "tioclinux": (16, (-1, 0x541c, 0), 1, "EPERM"),
    "tioccons": (16, (-1, 0x541d, 0), 1, "EPERM"), "tiocsetd": (16, (-1, 0x5423, 0), 1, "EPERM"),
    "setflags": (16, (-1, 0x40086602, 0), 1, "EPERM"), "fssetxattr": (16, (-1, 0x401c5820, 0), 1, "EPERM"),
    "btrfs_subvolume": (16, (-1, 0x5000940e, 0), 1, "EPERM"), "btrfs_snapshot": (16, (-1, 0x50009417, 0), 1, "EPERM"),
    "btrfs_read_only": (16, (-1, 0x4008941a, 0), 1, "EPERM"), "btrfs_sync": (16, (-1, 0x9408, 0), 1, "EPERM"),
    "ifbr": (16, (-1, 0x8941, 0), 1, "EPERM"), "ifvlan": (16, (-1, 0x8982, 0), 1, "EPERM"),
    "setlease": (72, (-1, 1024, 0), 1, "EPERM"), "notify": (72, (-1, 1026, 0), 1, "EPERM"),
    "setdeleg": (72, (-1, 1040, 0), 1, "EPERM"), "whiteout": (316, (-1, "s:a", -1, "s:b", 4), 4, "EINVAL"),
    "mergeable": (28, (0, 0, 12), 2, "EINVAL"), "memory_merge": (157, (67, 1, 0, 0, 0), 0, "EINVAL"),
    "shm_huge": (29, (1, 4096, 0o4000), 2, "EPERM"),
    "set_mm": (157, (35, 0, 0), 0, "EINVAL"), "set_ptracer": (157, (0x59616d61, 0, 0), 0, "EINVAL"),
    "set_seccomp": (157, (22, 1, 0), 0, "EINVAL"),
    "sched_core": (157, (62, 0, 0), 0, "EINVAL"), "newuser": (56, (0x10000000 | 17,), 0, "EPERM"),
    "af_alg": (41, (38, 5, 0), 0, "EAFNOSUPPORT"), "raw": (41, (2, 3, 255), 1, "EAFNOSUPPORT"),
    "sctp": (41, (2, 1, 132), 2, "EAFNOSUPPORT"), "uevent": (41, (16, 3, 15), 2, "EAFNOSUPPORT"),
    "tipc_pair": (53, (30, 5, 0, "b:8"), 0, "EAFNOSUPPORT"),
    "mknod_char": (133, ("s:/workspace/c", 0o20666, 0x103), 1, "EPERM"),
    "mknodat_block": (259, (-100, "s:/workspace/b", 0o60666, 0xfe00), 2, "EPERM"),
    "read_implies_exec": (135, (0x400000,), 0, "EPERM"), "fifo_scheduler": (144, (0, 1, "m:1"), 1, "EPERM"),
    "prlimit_init": (302, (1, 7, 0, "b:16"), 0, "EINVAL"), "affinity_init": (203, (1, 8, "m:1,0"), 0, "EPERM"),
    "sockopt_level": (54, (-1, 282, 1, 0, 0), 1, "ENOPROTOOPT"), "sockopt_filter": (54, (-1, 1, 26, 0, 0), 2, "ENOPROTOOPT"),
}
# Allowed by value: with a high word that is not zero the value is another one, and refused.
ALLOWED = {"unix": (41, (1, 1, 0), 0, "EAFNOSUPPORT"), "unix_pair": (53, (1, 1, 0, "b:8"), 0, "EAFNOSUPPORT"),
           "mknod_file": (133, ("s:/workspace/f", 0o100600, 0), 1, "EPERM"), "persona": (135, (0,), 0, "EPERM"),
           "batch": (144, (0, 3, "m:0"), 1, "EPERM")}


def rows_of(calls, high, suffix):
    for name, (number, args, at, _) in calls.items():
        changed = [arg | high if i == at and high else arg for i, arg in enumerate(args)]
        yield row(name + suffix, number, *changed)


ROWS = [line for high, suffix in ((0, ""), (HIGH, ".high"), (SIGNED, ".signed"))
        for line in rows_of(CALLS, high, suffix)]
WORD = {line.split()[0]: CALLS[line.split()[0].split(".")[0]][3] for line in ROWS}


def attack(box):
    found = answers(box, ROWS)
    wrong = [name for name in found if found[name] != WORD[name]]
    if wrong:
        escaped("ESCAPE", f"answered otherwise: {', '.join(wrong)}")
    plain = answers(box, list(rows_of(ALLOWED, 0, "")))
    assert set(plain.values()) == {"ok"}, plain
    high = answers(box, list(rows_of(ALLOWED, HIGH, "")))
    opened = [name for name in high if high[name] != ALLOWED[name][3]]
    if opened:
        escaped("ESCAPE", f"allowed with garbage: {', '.join(opened)}")
    return f"{summary(found)}, the same with and without garbage"


def control(box):
    return reached(box, ROWS, WORD, least=30, without=["seccomp", "capabilities"])
