"""What the cases about mounting share: a program that tries every way, and the ways."""
import errno

# mounts WAY... : one line "WAY ERRNO" each (0: done). With "ns" as the first word it first tries
# user and mount namespaces of its own, where mounting would be allowed.
SOURCE = r"""
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static const char *mask = "/proc/kallsyms";
struct { unsigned long long set, clear, propagation, userns; } attr = {.clear = 1};

static long fs(const char *type, const char *at)
{
    long fd = syscall(430 /* fsopen */, type, 0);
    if (fd < 0)
        return -1;
    if (syscall(431 /* fsconfig */, fd, 6, 0, 0, 0))
        return -1;
    long made = syscall(432 /* fsmount */, fd, 0, 0);
    return made < 0 ? made : syscall(429 /* move_mount */, made, "", AT_FDCWD, at, 4);
}

static long tree(const char *from, unsigned flags, const char *at)
{
    long fd = syscall(428 /* open_tree */, AT_FDCWD, from, 1 | flags);
    return fd < 0 ? fd : syscall(429, fd, "", AT_FDCWD, at, 4);
}

/* A mask may also be an empty file that can be opened. */
static long look(const char *path)
{
    char byte;
    int fd = open(path, O_RDONLY);
    long n = fd < 0 ? -1 : read(fd, &byte, 1);

    if (n == 0)
        errno = ENODATA;
    return n == 1 ? 0 : -1;
}

#define IS(word) (strcmp(way, word) == 0)
static long go(const char *way)
{
    if (IS("tmpfs")) return mount("x", "m", "tmpfs", 0, "size=4k");
    if (IS("proc")) return mount("x", "m", "proc", 0, 0);
    if (IS("sysfs")) return mount("x", "m", "sysfs", 0, 0);
    if (IS("overlay")) return mount("x", "m", "overlay", 0, "lowerdir=/usr:/etc");
    if (IS("fuse")) return mount("x", "m", "fuse", 0, "fd=0,rootmode=40000,user_id=0,group_id=0");
    if (IS("cgroup")) return mount("x", "m", "cgroup2", 0, 0);
    if (IS("devpts")) return mount("x", "m", "devpts", 0, "newinstance");
    if (IS("mqueue")) return mount("x", "m", "mqueue", 0, 0);
    if (IS("bind")) return mount("/usr", "m", 0, MS_BIND, 0);
    if (IS("rbind")) return mount("/", "m", 0, MS_BIND | MS_REC, 0);
    if (IS("move")) return mount("/tmp", "m", 0, MS_MOVE, 0);
    if (IS("remount")) return mount(0, "/", 0, MS_REMOUNT | MS_BIND, 0);
    if (IS("remount_usr")) return mount(0, "/usr", 0, MS_REMOUNT | MS_BIND, 0);
    if (IS("shared")) return mount(0, "/", 0, MS_SHARED | MS_REC, 0);
    if (IS("umount")) return umount2("/tmp", MNT_DETACH);
    if (IS("pivot")) return syscall(SYS_pivot_root, ".", ".");
    if (IS("chroot")) return chroot("m");
    if (IS("fsopen")) return syscall(430, "tmpfs", 0);
    if (IS("new_tmpfs")) return fs("tmpfs", "m");
    if (IS("new_proc")) return fs("proc", "m");
    if (IS("fspick")) return syscall(433, AT_FDCWD, "/", 0);
    if (IS("open_tree")) return syscall(428, AT_FDCWD, "/usr", 1);
    if (IS("new_bind")) return tree("/usr", 0, "m");
    if (IS("setattr")) return syscall(442, AT_FDCWD, "/", 0, &attr, sizeof attr);
    if (IS("open_tree_attr")) return syscall(467, AT_FDCWD, "/usr", 1, &attr, sizeof attr);
    if (IS("mask_read") || IS("mask_first")) return look(mask);
    if (IS("mask_under")) return look("m/kallsyms");
    if (IS("mask_bind")) return mount("/dev/null", mask, 0, MS_BIND, 0);
    if (IS("mask_move")) return mount(mask, "f", 0, MS_MOVE, 0);
    if (IS("mask_umount")) return umount2(mask, 0);
    if (IS("mask_detach")) return umount2(mask, MNT_DETACH);
    if (IS("mask_remount")) return mount(0, mask, 0, MS_REMOUNT | MS_BIND, 0);
    if (IS("mask_tree")) return tree("/proc", 0, "m");
    if (IS("mask_proc_over")) return mount("x", "/proc", "proc", 0, 0);
    if (IS("mask_sys")) return tree("/proc/sys", 0, "m");
    errno = ENOTSUP;
    return -1;
}

int main(int argc, char **argv)
{
    mkdir("m", 0700);
    close(open("f", O_CREAT | O_WRONLY, 0600));
    for (int i = 1; i < argc; i++) {
        errno = 0;
        long done = strcmp(argv[i], "ns") == 0 ? unshare(CLONE_NEWUSER | CLONE_NEWNS) : go(argv[i]);
        printf("%s %d\n", argv[i], done < 0 ? errno : 0);
    }
    return 0;
}
"""


def tried(box, ways, **more):
    """way -> 'done' or the errno's name."""

    result = box.run([box.c(SOURCE), *ways], **more)
    assert result.verdict == "ok", result
    rows = (line.split() for line in result.text.splitlines())
    return {way: errno.errorcode[int(code)] if int(code) else "done" for way, code in rows}
