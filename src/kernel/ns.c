#include "kernel/ns.h"

#include "base/fd.h"
#include "base/rawcall.h"

#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#ifndef SYS_clone3
#define SYS_clone3 435
#endif
#ifndef SYS_pidfd_send_signal
#define SYS_pidfd_send_signal 424
#endif
#define K_CLONE_PIDFD 0x1000ULL
#define K_CLONE_INTO_CGROUP 0x200000000ULL

const char *const coto_ns_name[COTO_NS_COUNT] = {"user", "pid", "mnt", "net",
                                                 "ipc",  "uts", "cgroup"};

struct k_clone_args {
    uint64_t flags, pidfd, child_tid, parent_tid, exit_signal;
    uint64_t stack, stack_size, tls, set_tid, set_tid_size, cgroup;
};

static struct k_clone_args clone_args(uint64_t flags, int cgroup_fd, int *pidfd)
{
    struct k_clone_args args = {
        .flags = flags | K_CLONE_PIDFD,
        .pidfd = (uint64_t)(uintptr_t)pidfd,
        .exit_signal = SIGCHLD,
    };

    if (cgroup_fd >= 0) {
        args.flags |= K_CLONE_INTO_CGROUP;
        args.cgroup = (uint64_t)cgroup_fd;
    }
    return args;
}

/* clone knows no cgroup: the child, which waits for word from us anyway, is moved. */
static pid_t clone_then_join(uint64_t flags, int cgroup_fd, int *ret_pidfd)
{
    pid_t pid = (pid_t)syscall(SYS_clone, flags | K_CLONE_PIDFD | SIGCHLD, 0, ret_pidfd, 0, 0);
    char text[16];

    if (pid <= 0 || cgroup_fd < 0)
        return pid;
    snprintf(text, sizeof text, "%d", (int)pid);
    if (coto_file_write_at(cgroup_fd, "cgroup.procs", text) == 0)
        return pid;
    int saved = errno;
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    close(*ret_pidfd);
    errno = saved;
    return -1;
}

pid_t coto_ns_clone(uint64_t flags, int cgroup_fd, int *ret_pidfd)
{
    int pidfd = -1;
    struct k_clone_args args = clone_args(flags, cgroup_fd, &pidfd);
    pid_t pid = (pid_t)syscall(SYS_clone3, &args, sizeof args);

    if (pid < 0 && errno == ENOSYS) /* a filter around us masks clone3 */
        pid = clone_then_join(flags, cgroup_fd, &pidfd);
    if (pid > 0)
        *ret_pidfd = pidfd;
    return pid;
}

#if COTO_CAN_BORROW
/* clone3 onto a stack of its own: the child calls child(arg) there and exits with what
 * that returns. Registers survive the call, so nothing has to be put on the stack. */
static long clone_onto(struct k_clone_args *args, int (*child)(void *), void *arg)
{
    long result;

    __asm__ volatile("mov %[child], %%r12\n\t"
                     "mov %[arg], %%r13\n\t"
                     "syscall\n\t"
                     "test %%rax, %%rax\n\t"
                     "jnz 1f\n\t"
                     "xor %%ebp, %%ebp\n\t"
                     "mov %%r13, %%rdi\n\t"
                     "call *%%r12\n\t"
                     "mov %%eax, %%edi\n\t"
                     "mov $60, %%eax\n\t" /* exit */
                     "syscall\n\t"
                     "hlt\n"
                     "1:"
                     : "=a"(result)
                     : "a"((long)SYS_clone3), "D"(args), "S"(sizeof *args), [child] "r"(child),
                       [arg] "r"(arg)
                     : "rcx", "r11", "r12", "r13", "memory");
    return result;
}
#endif

pid_t coto_ns_spawn(uint64_t flags, int cgroup_fd, const struct coto_ns_child *child,
                    int *ret_pidfd)
{
#if COTO_CAN_BORROW
    int pidfd = -1;
    struct k_clone_args args = clone_args(flags | CLONE_VM, cgroup_fd, &pidfd);
    args.stack = (uint64_t)(uintptr_t)child->stack;
    args.stack_size = child->stack_size;
    long pid = clone_onto(&args, child->run, child->arg);

    if (pid > 0) {
        *ret_pidfd = pidfd;
        return (pid_t)pid;
    }
    if (pid != -ENOSYS) {
        errno = (int)-pid;
        return -1;
    }
#endif
    pid_t forked = coto_ns_clone(flags, cgroup_fd, ret_pidfd);
    if (forked == 0)
        _exit(child->run(child->arg));
    return forked;
}

void coto_ns_read(struct coto_ns_set *ret_set)
{
    int dir = openat(AT_FDCWD, "/proc/self/ns", O_PATH | O_DIRECTORY | O_CLOEXEC);

    /* As text, "net:[4026531840]": to stat it the kernel would make a file of it first. */
    for (int i = 0; i < COTO_NS_COUNT; i++) {
        char text[48];
        ssize_t n = readlinkat(dir, coto_ns_name[i], text, sizeof text - 1);
        text[n > 0 ? n : 0] = '\0';
        const char *number = strchr(text, '[');
        ret_set->inode[i] = number ? strtoull(number + 1, NULL, 10) : 0;
    }
    if (dir >= 0)
        close(dir);
}

int coto_ns_make_net(int *ret_fd)
{
    struct ifreq req = {.ifr_name = "lo", .ifr_flags = IFF_UP | IFF_RUNNING};
    long result = coto_raw_call(SYS_unshare, CLONE_NEWNET, 0, 0, 0);

    if (result < 0)
        return (int)-result;
    long sock = coto_raw_call(SYS_socket, AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0, 0);
    if (sock < 0)
        return (int)-sock;
    result = coto_raw_call(SYS_ioctl, sock, SIOCSIFFLAGS, (long)(intptr_t)&req, 0);
    coto_raw_call(SYS_close, sock, 0, 0, 0);
    if (result < 0 || !ret_fd)
        return (int)-result;
    result = coto_raw_call(SYS_openat, AT_FDCWD, (long)(intptr_t)"/proc/thread-self/ns/net",
                      O_RDONLY | O_CLOEXEC, 0);
    if (result < 0)
        return (int)-result;
    *ret_fd = (int)result;
    return 0;
}

int coto_pidfd_signal(int pidfd, pid_t child, int signo)
{
    int failed = (int)syscall(SYS_pidfd_send_signal, pidfd, signo, NULL, 0);

    /* EPERM: what filters of older containers answer to calls they do not know. */
    return failed && (errno == ENOSYS || errno == EPERM) && child > 0 ? kill(child, signo) : failed;
}
