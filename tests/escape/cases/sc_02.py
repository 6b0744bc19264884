"""SC-02: the i386 table, whose numbers mean something else to the filter."""
from escape.lib_calls import answers, expect, need_i386, row, summary

TITLE = "i386 calls by int 0x80"
TRIED = "int 0x80 with i386 getpid, open, ptrace, mount, unshare, bpf, keyctl, io_uring_setup"
WALLS = ["seccomp"]
NUMBERS = {"getpid": (20,), "open": (5, "s:/etc/passwd", 0), "ptrace": (26, 0), "mount": (21, -1, -1, -1),
           "unshare": (310, 0), "bpf": (357, 9999, 0, 0), "keyctl": (288, 0, -2, 0), "io_uring_setup": (425, 0, 0),
           "clone3": (435, 0, 0)}
ROWS = [row(name, *words, abi=32) for name, words in NUMBERS.items()]
MAIN = r"""
int main(void) { long r; __asm__ volatile("int $0x80" : "=a"(r) : "a"(20L) : "memory", "r8", "r9", "r10", "r11");
                 return r > 0 ? 7 : 8; }
"""


def attack(box):
    need_i386(box)
    found = answers(box, ROWS)
    expect(found, {name: "SIGSYS" for name in NUMBERS})
    done = box.run([box.c(MAIN)])
    assert (done.verdict, done.json["limit"]) == ("denied", "seccomp"), done.json
    return f"{summary(found)}; verdict denied"


def control(box):
    need_i386(box)
    found = answers(box, ROWS, without=["seccomp"])
    assert "SIGSYS" not in found.values() and found["getpid"] == found["open"] == "ok", found
    done = box.run([box.c(MAIN)], without=["seccomp"])
    assert done.code == 7, done.json
    return f"getpid and open by int 0x80 work, exit 7"
