/* old all|NAME,... PROGRAM [ARG...]: runs a program on a kernel that answers ENOSYS to the
 * named system calls, as one from before them would. The name userns stands for a host
 * that denies user namespaces (EPERM), as some distributions do. */
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

static const struct {
    const char *name;
    int number;
} calls[] = {
    {"clone3", 435},        {"openat2", 437},
    {"close_range", 436},   {"mount_setattr", 442},
    {"open_tree", 428},     {"move_mount", 429},
    {"fsopen", 430},        {"fsconfig", 431},
    {"fsmount", 432},       {"landlock_create_ruleset", 444},
    {"landlock_add_rule", 445}, {"landlock_restrict_self", 446},
    {"pidfd_send_signal", 424}, {"pidfd_open", 434},
    {"pidfd_getfd", 438},   {"statx", SYS_statx},
    {"faccessat2", 439},
};
#define CALLS (sizeof calls / sizeof calls[0])
#define NR offsetof(struct seccomp_data, nr)
#define FLAGS offsetof(struct seccomp_data, args[0])
#define NEW_USER 0x10000000

static int is_named(const char *list, const char *name)
{
    size_t len = strlen(name);

    if (strcmp(list, "all") == 0)
        return 1;
    for (const char *at = list; *at; at += strcspn(at, ","), at += *at == ',')
        if (strcspn(at, ",") == len && strncmp(at, name, len) == 0)
            return 1;
    return 0;
}

/* clone and unshare with that flag; clone3 hides its flags and is masked instead. */
static unsigned short deny_user_namespaces(struct sock_filter *code, unsigned short n)
{
    static const struct sock_filter part[] = {
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 435, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone, 1, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_unshare, 0, 3),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, FLAGS),
        BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, NEW_USER, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
    };

    memcpy(code + n, part, sizeof part);
    return n + sizeof part / sizeof part[0];
}

int main(int argc, char **argv)
{
    struct sock_filter code[2 * CALLS + 16] = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, NR)};
    unsigned short n = 1;

    if (argc < 3)
        return 64;
    for (size_t i = 0; i < CALLS; i++) {
        if (!is_named(argv[1], calls[i].name))
            continue;
        code[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, calls[i].number, 0, 1);
        code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS);
    }
    if (strcmp(argv[1], "userns") == 0)
        n = deny_user_namespaces(code, n);
    code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    struct sock_fprog program = {n, code};
    /* Root needs no promise of no new privileges; for others it is the price. */
    if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) &&
        (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
         syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program))) {
        perror("old: filter");
        return 70;
    }
    execv(argv[2], argv + 2);
    perror("old: exec");
    return 71;
}
