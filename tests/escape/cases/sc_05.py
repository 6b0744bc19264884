"""SC-05: io_uring opens files and sockets without a system call that a filter could see."""
from escape.harness import Untestable, escaped
from escape.lib_calls import answers, expect, row, summary

TITLE = "io_uring past the filter"
TRIED = "io_uring_setup, enter and register; old AIO; a ring that opens a file and a netlink uevent socket"
WALLS = ["seccomp"]
ROWS = [row("setup", 425, 8, "b:120"), row("setup_bad", 425, 0, 0), row("enter", 426, -1, 0, 0, 0, 0, 0),
        row("register", 427, -1, 0, 0, 0), row("io_setup", 206, 8, "b:8"), row("io_submit", 209, 0, 1, "b:64"),
        row("io_getevents", 208, 0, 0, 0, 0, 0), row("io_pgetevents", 333, 0, 0, 0, 0, 0, 0)]
WANTED = {line.split()[0]: "ENOSYS" if line.startswith("io_") else "EPERM" for line in ROWS}
RING = r"""
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/io_uring.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

static char *sq, *cq;
static struct io_uring_sqe *sqes;
static struct io_uring_params p;
static int ring;

/* One operation through the ring; its result. */
static int operate(struct io_uring_sqe operation)
{
    unsigned *tail = (unsigned *)(sq + p.sq_off.tail), *head = (unsigned *)(cq + p.cq_off.head);
    unsigned slot = *tail & (p.sq_entries - 1);

    sqes[slot] = operation;
    ((unsigned *)(sq + p.sq_off.array))[slot] = slot;
    __atomic_store_n(tail, *tail + 1, __ATOMIC_RELEASE);
    if (syscall(SYS_io_uring_enter, ring, 1, 1, IORING_ENTER_GETEVENTS, NULL, 0) != 1)
        return -errno;
    struct io_uring_cqe *done = (struct io_uring_cqe *)(cq + p.cq_off.cqes) + (*head & (p.cq_entries - 1));
    int result = done->res;
    __atomic_store_n(head, *head + 1, __ATOMIC_RELEASE);
    return result;
}

int main(void)
{
    ring = (int)syscall(SYS_io_uring_setup, 8, &p);
    if (ring < 0)
        return printf("setup %s\n", strerrorname_np(errno)), 1;
    sq = mmap(NULL, 65536, PROT_READ | PROT_WRITE, MAP_SHARED, ring, IORING_OFF_SQ_RING);
    cq = mmap(NULL, 65536, PROT_READ | PROT_WRITE, MAP_SHARED, ring, IORING_OFF_CQ_RING);
    sqes = mmap(NULL, p.sq_entries * sizeof *sqes, PROT_READ | PROT_WRITE, MAP_SHARED, ring, IORING_OFF_SQES);
    if (sq == MAP_FAILED || cq == MAP_FAILED || sqes == MAP_FAILED)
        return 2;
    int file = operate((struct io_uring_sqe){.opcode = IORING_OP_OPENAT, .fd = AT_FDCWD,
                                             .addr = (unsigned long)"/etc/passwd", .open_flags = O_RDONLY});
    int uevent = operate((struct io_uring_sqe){.opcode = 45 /* SOCKET */, .fd = 16, .off = 3, .len = 15});
    printf("file %s, socket %s\n", file >= 0 ? "opened" : strerrorname_np(-file),
           uevent >= 0 ? "made" : strerrorname_np(-uevent));
    return 0;
}
"""


def attack(box):
    found = answers(box, ROWS)
    expect(found, WANTED)
    done = box.run([box.c(RING)])
    if done.code == 0:
        escaped("ESCAPE", done.text)
    assert (done.code, done.text) == (1, "setup EPERM"), done
    return summary(found)


def control(box):
    done = box.run([box.c(RING)], without=["seccomp"])
    if done.text in ("setup ENOSYS", "setup EPERM"):
        raise Untestable("this kernel has io_uring off")
    assert done.code == 0 and done.text.startswith("file opened"), done
    return f"a ring works: {done.text}"
