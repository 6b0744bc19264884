"""SC-07: a namespace of one's own is the start of most kernel exploits."""
from escape.lib_calls import HIGH, answers, expect, reached, row, summary

TITLE = "namespace flags by clone and clone3"
TRIED = "clone with each CLONE_NEW* flag, alone, with SIGCHLD, with high bits; clone3; unshare of each kind"
WALLS = ["seccomp"]
FLAGS = {"ns": 0x20000, "cgroup": 0x2000000, "uts": 0x4000000, "ipc": 0x8000000, "user": 0x10000000,
         "pid": 0x20000000, "net": 0x40000000}
# clone_args: flags, then nine words of 64 bits; here the flags' low and high half come first.
CLONE3 = "m:" + ",".join(str(word) for word in [0x10000000, 0, 0, 0, 0, 0, 0, 0, 17, 0] + [0] * 12)
ROWS = ([row(f"clone_{name}", 56, flag | 17) for name, flag in FLAGS.items()]
        + [row(f"clone_{name}_high", 56, HIGH | flag | 17) for name, flag in FLAGS.items()]
        + [row(f"unshare_{name}", 272, flag) for name, flag in FLAGS.items()]
        + [row("unshare_time", 272, 0x80), row("clone_all", 56, 0x7e020000 | 17),
           row("clone3_user", 435, CLONE3, 88), row("clone3_null", 435, 0, 0)])
WANTED = {line.split()[0]: "ENOSYS" if line.startswith("clone3") else "EPERM" for line in ROWS}


def attack(box):
    found = answers(box, ROWS + [row("plain_fork", 56, 17)])
    expect(found, {**WANTED, "plain_fork": "ok"})
    return summary(found)


def control(box):
    return reached(box, ROWS, WANTED, least=5, without=["seccomp", "capabilities"])
