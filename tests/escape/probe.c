/* Tries system calls with arguments that do no harm where they are allowed, and prints
 * one line each: name, result, errno. The same program in a sandbox and without one
 * tells what the filter adds. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define HIGH (0x123ULL << 32)
#define TRY(name, ...)                                                                             \
    do {                                                                                           \
        fflush(stdout);                                                                            \
        pid_t pid = fork();                                                                        \
        if (pid == 0) {                                                                            \
            errno = 0;                                                                             \
            long result = syscall(__VA_ARGS__);                                                    \
            tell(name, result);                                                                    \
        }                                                                                          \
        ended(name, pid);                                                                          \
    } while (0)

static void tell(const char *name, long result)
{
    printf("%s %ld %d\n", name, result < 0 ? -1L : 0L, result < 0 ? errno : 0);
    fflush(stdout);
    _exit(0);
}

static void ended(const char *name, pid_t pid)
{
    int status = 0;

    waitpid(pid, &status, 0);
    if (WIFSIGNALED(status))
        printf("%s killed %d\n", name, WTERMSIG(status));
}

static void old_call(const char *name, long number, long a, long b)
{
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        long result;
        __asm__ volatile("int $0x80" : "=a"(result) : "a"(number), "b"(a), "c"(b) : "memory");
        errno = result < 0 ? (int)-result : 0;
        tell(name, result);
    }
    ended(name, pid);
}

static void namespaces(void)
{
    TRY("unshare", SYS_unshare, 0);
    TRY("setns", SYS_setns, -1, 0);
    TRY("clone_newuser", SYS_clone, (unsigned long)CLONE_NEWUSER | CLONE_SIGHAND, 0, 0, 0, 0);
    TRY("clone_newuser_high", SYS_clone, HIGH | CLONE_NEWUSER | CLONE_SIGHAND, 0, 0, 0, 0);
    TRY("clone3", SYS_clone3, 0L, 0L);
    TRY("chroot", SYS_chroot, "/does-not-exist");
    TRY("pivot_root", SYS_pivot_root, "/does-not-exist", "/does-not-exist");
    TRY("mount", SYS_mount, 1L, 1L, 1L, 0L, 0L);
    TRY("umount2", SYS_umount2, "/does-not-exist", 0x10000);
    TRY("open_tree", SYS_open_tree, -1, "does-not-exist", 0);
    TRY("move_mount", SYS_move_mount, -1, "a", -1, "b", 0x8000);
    TRY("fsopen", SYS_fsopen, "does-not-exist", 0x8000);
    TRY("fsconfig", SYS_fsconfig, -1, 99, 0L, 0L, 0);
    TRY("fsmount", SYS_fsmount, -1, 0, 0);
    TRY("fspick", SYS_fspick, -1, "a", 0);
    TRY("mount_setattr", 442, -1, "a", 0, 0L, 0L);
    TRY("setgroups", SYS_setgroups, 0, 0L);
}

static void kernel_doors(void)
{
    TRY("io_uring_setup", SYS_io_uring_setup, 0, 0L);
    TRY("io_uring_enter", SYS_io_uring_enter, -1, 0, 0, 0, 0L, 0L);
    TRY("bpf", SYS_bpf, 9999, 0L, 0);
    TRY("perf_event_open", SYS_perf_event_open, 1L, 0, -1, -1, 0);
    TRY("userfaultfd", SYS_userfaultfd, 1 | O_CLOEXEC);
    TRY("keyctl", SYS_keyctl, 0, -2, 0);
    TRY("add_key", SYS_add_key, 1L, 1L, 0L, 0L, -1);
    TRY("request_key", SYS_request_key, 1L, 1L, 0L, 0);
    TRY("ptrace", SYS_ptrace, 0, 0, 0, 0);
    TRY("process_vm_readv", SYS_process_vm_readv, 1, 0L, 0L, 0L, 0L, 0L);
    TRY("process_vm_writev", SYS_process_vm_writev, 1, 0L, 0L, 0L, 0L, 0L);
    TRY("pidfd_getfd", 438, -1, 3, 0);
    TRY("kcmp", SYS_kcmp, getpid(), getpid(), 0, 0L, 0L);
    TRY("process_madvise", 440, -1, 0L, 0L, 0, 0);
    TRY("open_by_handle_at", SYS_open_by_handle_at, -1, 1L, 0);
    TRY("name_to_handle_at", SYS_name_to_handle_at, -1, "a", 0L, 0L, 0);
    TRY("personality", SYS_personality, 0x0400000);
    TRY("personality_high", SYS_personality, HIGH | 0x0400000);
    TRY("modify_ldt", SYS_modify_ldt, 0, 0L, 0L);
    TRY("iopl", SYS_iopl, 0);
    TRY("syslog", SYS_syslog, 99, 0L, 0);
    TRY("fanotify_init", SYS_fanotify_init, 0xffff, 0);
    TRY("memfd_secret", 447, 0xffff);
    TRY("vmsplice", SYS_vmsplice, -1, 0L, 0L, 0);
    TRY("mq_open", SYS_mq_open, "/coto-probe", 0, 0, 0L);
    TRY("statmount", 457, 0L, 0L, 0L, 0);
    TRY("listmount", 458, 0L, 0L, 0L, 0);
    TRY("cachestat", 451, -1, 0L, 0L, 0);
    TRY("io_setup", SYS_io_setup, 0, 0L);
    TRY("sched_setattr", SYS_sched_setattr, 0, 0L, 0);
    TRY("prlimit_init", SYS_prlimit64, 1, 7, 0L, 0L);
    TRY("prlimit_init_high", SYS_prlimit64, HIGH | 1, 7, 0L, 0L);
    TRY("prctl_mm", SYS_prctl, 35, 0, 0, 0, 0);
    TRY("prctl_ptracer_high", SYS_prctl, HIGH | 0x59616d61, 0, 0, 0, 0);
    TRY("setlease", SYS_fcntl, -1, 1024, 0);
    TRY("number_600", 600, 0);
    TRY("sync", SYS_syncfs, -1);
}

static void sockets(void)
{
    static const struct {
        const char *name;
        unsigned long family, type, protocol;
    } rows[] = {
        {"af_alg", 38, 5, 0},         {"af_alg_high", HIGH | 38, 5, 0}, {"af_vsock", 40, 1, 0},
        {"af_packet", 17, 3, 0},      {"af_key", 15, 3, 2},             {"af_rxrpc", 33, 2, 2},
        {"af_xdp", 44, 3, 0},         {"af_tipc", 30, 1, 0},            {"af_can", 29, 3, 1},
        {"af_bluetooth", 31, 3, 1},   {"raw_ip", 2, 3, 255},            {"icmp", 2, 2, 1},
        {"sctp", 2, 1, 132},          {"mptcp", 2, 1, 262},             {"udplite", 2, 2, 136},
        {"netlink_audit", 16, 3, 9},  {"netlink_xfrm", 16, 3, 6},       {"netlink_nf", 16, 3, 12},
        {"netlink_diag", 16, 3, 4},   {"netlink_uevent", 16, 3, 15},    {"inet_high", HIGH | 2, 1, 0},
        {"netlink_route", 16, 3, 0},  {"inet", 2, 1, 0},                {"unix", 1, 1, 0},
    };

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        TRY(rows[i].name, SYS_socket, rows[i].family, rows[i].type, rows[i].protocol);
}

static void terminals_and_nodes(void)
{
    TRY("tiocsti", SYS_ioctl, -1, 0x5412UL, "x");
    TRY("tiocsti_high", SYS_ioctl, -1, HIGH | 0x5412, "x");
    TRY("tioclinux_high", SYS_ioctl, -1, HIGH | 0x541c, "x");
    TRY("tiocsetd", SYS_ioctl, -1, 0x5423UL, "x");
    TRY("setflags", SYS_ioctl, -1, 0x40086602UL, 0L);
    TRY("mknod_char", SYS_mknod, "/does-not-exist/null", 0020600, 0x103);
    TRY("mknod_block", SYS_mknodat, -1, "disk", 0060600, 0xfe00);
    TRY("mknod_high", SYS_mknod, "/does-not-exist/null", HIGH | 0020600, 0x103);
    TRY("mknod_fifo", SYS_mknod, "/does-not-exist/fifo", 0010600, 0);
}

int main(void)
{
    int arguments[3] = {38, 5, 0};

    namespaces();
    kernel_doors();
    sockets();
    terminals_and_nodes();
    old_call("int80_getpid", 20, 0, 0);
    old_call("int80_socketcall", 102, 1, (long)(int)(long)arguments);
    TRY("x32_getpid", 0x40000000 | 39);
    TRY("x32_execve", 0x40000000 | 520, 0L, 0L, 0L);
    return 0;
}
