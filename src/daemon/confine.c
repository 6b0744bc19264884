#include "daemon/confine.h"

#include "base/own.h"
#include "kernel/caps.h"
#include "kernel/landlock.h"
#include "kernel/self.h"
#include "schema/options.h"

#include <errno.h>
#include <grp.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

static int become(unsigned uid, unsigned gid, struct coto_err *err)
{
    if (getuid() != 0)
        return 0;
    if (setgroups(0, NULL) || setresgid(gid, gid, gid) || setresuid(uid, uid, uid))
        return coto_err_set(err, COTO_ERR_WALL, errno, "become uid %u", uid);
    if (setuid(0) == 0 || getuid() == 0)
        return coto_err_set(err, COTO_ERR_WALL, 0, "root could not be given up");
    return 0;
}

static int drop_capabilities(struct coto_err *err)
{
    struct coto_caps caps;

    if (coto_caps_keep(0, err) || coto_caps_read(&caps, err))
        return -1;
    if (caps.effective | caps.permitted | caps.inheritable | caps.ambient)
        return coto_err_set(err, COTO_ERR_WALL, 0, "capabilities could not be given up");
    return 0;
}

/* Its descriptors can be handed to those who have rights, and are closed there: that must not wait. */
static int forbid_linger(struct coto_err *err)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_setsockopt, 0, 5),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[1])),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SOL_SOCKET, 0, 3),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[2])),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SO_LINGER, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    const struct sock_fprog prog = {.len = sizeof code / sizeof code[0], .filter = code};
    const struct linger linger = {0};
    coto_auto_fd fd = -1;

    if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &prog))
        return coto_err_set(err, COTO_ERR_WALL, errno, "seccomp");
    fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd >= 0 && setsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, sizeof linger) == 0)
        return coto_err_set(err, COTO_ERR_WALL, 0, "seccomp: what the filter refuses is possible");
    return 0;
}

int coto_confine(unsigned uid, unsigned gid, const char *const *writable,
                 struct coto_confined *ret_confined, struct coto_err *err)
{
    const struct coto_landlock_ask ask = {
        .abi_max = coto_landlock_abi(), .writable = writable, .noexec = true};

    *ret_confined = (struct coto_confined){0};
    if (become(uid, gid, err) || drop_capabilities(err))
        return -1;
    prctl(PR_SET_PDEATHSIG, SIGKILL); /* here: another uid clears it */
    prctl(PR_SET_DUMPABLE, 0);
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
        return coto_err_set(err, COTO_ERR_WALL, errno, "no_new_privs");
    if (ask.abi_max > 0 && coto_landlock_apply(&ask, &ret_confined->landlock_abi, err))
        return -1;
    if (forbid_linger(err) || coto_self_filter(COTO_SECCOMP_DEFAULT, ret_confined->filter_hash, err)) /* the second lets no more be added */
        return -1;
    ret_confined->uid = getuid();
    ret_confined->gid = getgid();
    return 0;
}
