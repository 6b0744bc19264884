"""SC-19: filters of one's own: the host has one memory for compiled ones, and chains of them outlive their process.

Linux 6.18 frees a chain while it holds a lock: a thousand filters stop every process of the host that makes or
ends one. So nothing is loaded here, and by the control exactly one (docs/decisions/0015).
"""
from escape.harness import escaped

TITLE = "filters of one's own"
TRIED = ("seccomp(2) with every operation and flag, prctl(PR_SET_SECCOMP) in both modes, with garbage above 32 "
         "bits, in the tiers strict and default")
WALLS = ["seccomp"]
# load: each way in a child of its own. load KIND: that one way, in this process.
LOAD = r"""
#define _GNU_SOURCE
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static struct sock_filter allow = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
static struct sock_fprog program = {1, &allow};
static unsigned action = SECCOMP_RET_LOG;
static char sizes[64];
#define P (long)&program
#define HIGH 0x12300000000
static const struct {
    const char *name;
    long args[4];
} ways[] = {
    {"filter", {SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, P}},
    {"tsync", {SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, P}},
    {"log", {SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_LOG, P}},
    {"listener", {SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER, P}},
    {"high", {SYS_seccomp, HIGH | SECCOMP_SET_MODE_FILTER, HIGH, P}},
    {"strict", {SYS_seccomp, SECCOMP_SET_MODE_STRICT, 0, 0}},
    {"available", {SYS_seccomp, SECCOMP_GET_ACTION_AVAIL, 0, (long)&action}},
    {"sizes", {SYS_seccomp, SECCOMP_GET_NOTIF_SIZES, 0, (long)sizes}},
    {"prctl_filter", {SYS_prctl, PR_SET_SECCOMP, SECCOMP_MODE_FILTER, P}},
    {"prctl_high", {SYS_prctl, HIGH | PR_SET_SECCOMP, SECCOMP_MODE_FILTER, P}},
    {"prctl_strict", {SYS_prctl, PR_SET_SECCOMP, SECCOMP_MODE_STRICT, 0}},
};

static int try_way(int i)
{
    const long *a = ways[i].args;

    return syscall(a[0], a[1], a[2], a[3], 0, 0) < 0 ? errno : 0;
}

static int filters(void)
{
    char line[256];
    int count = -1;
    FILE *status = fopen("/proc/self/status", "r");

    while (status && fgets(line, sizeof line, status))
        sscanf(line, "Seccomp_filters: %d", &count);
    return count;
}

int main(int argc, char **argv)
{
    int before = filters();

    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    for (int i = 0; i < (int)(sizeof ways / sizeof ways[0]); i++) {
        int error;
        if (argc > 1) {
            if (strcmp(argv[1], ways[i].name))
                continue;
            error = try_way(i);
        } else {
            int status;
            pid_t child = fork();
            if (child == 0)
                syscall(SYS_exit, try_way(i));
            if (waitpid(child, &status, 0) != child || !WIFEXITED(status))
                return 3;
            error = WEXITSTATUS(status);
        }
        printf("%s %s\n", ways[i].name, error ? strerrorname_np(error) : "done");
    }
    printf("more %d\n", filters() - before);
    return 0;
}
"""


def answers(box, *args, **more):
    done = box.run([box.c(LOAD)], args=args, **more)
    assert done.code == 0, done
    return dict(line.split() for line in done.text.splitlines())


def attack(box):
    for tier in ("strict", "default"):
        found = answers(box, flags=["--seccomp", tier])
        assert len(found) == 12, found
        wrong = [f"{name} {word}" for name, word in found.items()
                 if word != ("0" if name == "more" else "EINVAL" if name.startswith("prctl") else "ENOSYS")]
        if wrong:
            escaped("CRASH", f"{tier}: {', '.join(wrong)}")
    return "seccomp ENOSYS 8 times, prctl EINVAL 3 times, in two tiers; no filter more"


def control(box):
    """One filter, with a listener where the kernel allows one; nothing that would stop the host."""
    words = []
    for way in ("filter", "listener"):
        found = answers(box, way, without=["seccomp"])
        assert found == {way: "done", "more": "1"}, found
        words.append(way)
    return f"one filter loaded each time: {', '.join(words)}"
