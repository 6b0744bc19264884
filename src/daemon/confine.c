#include "daemon/confine.h"

#include "base/own.h"
#include "kernel/caps.h"
#include "kernel/landlock.h"
#include "kernel/self.h"
#include "kernel/seccomp.h"
#include "schema/options.h"

#include <errno.h>
#include <grp.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
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

/* Sockets that it was given stay in the network they were made in. An ordinary user would need a user namespace for
 * that, in which it could not tell other users' connections apart: the filter has to do. */
static bool leave_network(void)
{
    return geteuid() == 0 && unshare(CLONE_NEWNET) == 0;
}

/* The second filter lets no more be added. */
static int take_filters(bool is_alone, char ret_hash[COTO_SHA256_HEX], struct coto_err *err)
{
    return forbid_linger(err) ||
                   coto_self_filter(is_alone ? COTO_SECCOMP_FRONT : COTO_SECCOMP_DEFAULT, ret_hash, err)
               ? -1
               : 0;
}

/* Asked of the kernel: neither a socket nor a program. */
static int check_alone(struct coto_err *err)
{
    char *const nothing[] = {NULL};
    coto_auto_fd fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (fd >= 0 || errno != EPERM || execve("/", nothing, nothing) == 0 || errno != EPERM)
        return coto_err_set(err, COTO_ERR_WALL, 0, "seccomp: what the filter refuses is possible");
    return 0;
}

int coto_confine(const struct coto_confine_ask *ask, struct coto_confined *ret_confined, struct coto_err *err)
{
    const struct coto_landlock_ask landlock = {.abi_max = coto_landlock_abi(),
                                               .writable = ask->writable,
                                               .readable = ask->readable,
                                               .no_tcp = ask->is_alone,
                                               .noexec = true};

    *ret_confined = (struct coto_confined){.has_own_network = ask->is_alone && leave_network()};
    if (become(ask->uid, ask->gid, err) || drop_capabilities(err))
        return -1;
    prctl(PR_SET_PDEATHSIG, SIGKILL); /* here: another uid clears it */
    prctl(PR_SET_DUMPABLE, 0);
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
        return coto_err_set(err, COTO_ERR_WALL, errno, "no_new_privs");
    if (landlock.abi_max > 0 && coto_landlock_apply(&landlock, &ret_confined->landlock_abi, err))
        return -1;
    if (take_filters(ask->is_alone, ret_confined->filter_hash, err) || (ask->is_alone && check_alone(err)))
        return -1;
    ret_confined->uid = getuid();
    ret_confined->gid = getgid();
    return 0;
}
