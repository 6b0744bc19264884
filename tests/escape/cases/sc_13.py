"""SC-13: whoever holds a filter's listener decides what the filter lets through."""
from escape.harness import Untestable, escaped

TITLE = "seccomp listener in reach"
TRIED = ("own descriptors and those of every visible process searched for a listener; notification ioctls on "
         "fds 0 to 63")
WALLS = ["descriptors", "seccomp"]
# With an argument it makes a listener of its own first: the search must find that one.
SEARCH = r"""
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

static int listen_to_myself(void)
{
    struct sock_filter allow = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    struct sock_fprog program = {1, &allow};

    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    return (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER, &program);
}

static void search(const char *pid)
{
    char name[300], target[300] = "";
    snprintf(name, sizeof name, "/proc/%s/fd", pid);
    DIR *dir = opendir(name);

    for (struct dirent *entry; dir && (entry = readdir(dir));) {
        snprintf(name, sizeof name, "/proc/%s/fd/%s", pid, entry->d_name);
        ssize_t n = readlink(name, target, sizeof target - 1);
        if (n > 0 && (target[n] = 0, strstr(target, "seccomp")))
            printf("listener %s of %s\n", entry->d_name, pid);
    }
    if (dir)
        closedir(dir);
}

int main(int argc, char **argv)
{
    if (argc > 1 && listen_to_myself() < 0)
        return printf("%s\n", strerrorname_np(errno)), 2;
    DIR *proc = opendir("/proc");
    for (struct dirent *entry; proc && (entry = readdir(proc));)
        if (atoi(entry->d_name) > 0)
            search(entry->d_name);
    for (int fd = 0; fd < 64; fd++) {
        __u64 id = 0;
        if (!ioctl(fd, SECCOMP_IOCTL_NOTIF_ID_VALID, &id) || errno == ENOENT)
            printf("fd %d answers as a listener\n", fd);
    }
    return 0;
}
"""


def attack(box):
    done = box.run([box.c(SEARCH)])
    assert done.code == 0, done
    if done.out:
        escaped("ESCAPE", done.text)
    return "no listener in any descriptor"


def control(box):
    """The same search, with a listener in its own descriptors."""
    done = box.run([box.c(SEARCH)], args=["own"], flags=["--seccomp", "debug"])  # others make none (SC-19)
    if done.code == 2:
        raise Untestable(f"no listener can be made: {done.text}")
    assert "listener" in done.text and "answers as a listener" in done.text, done
    return done.text.replace("\n", ", ")
