#include "kernel/sockwatch.h"

#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#if defined(__x86_64__)
#define NATIVE_ARCH AUDIT_ARCH_X86_64
#define FOREIGN_BIT 0x40000000u /* x32 */
#else
#define NATIVE_ARCH AUDIT_ARCH_AARCH64
#define FOREIGN_BIT 0x80000000u
#endif

#define LOAD(field) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, field))
#define IF(test, value, then, otherwise) BPF_JUMP(BPF_JMP | (test) | BPF_K, value, then, otherwise)
#define RETURN(what) BPF_STMT(BPF_RET | BPF_K, what)

int coto_sockwatch_install(void)
{
    static const unsigned calls[] = {COTO_SOCKWATCH_CALLS};
    enum { CALLS = sizeof calls / sizeof calls[0] };
    struct sock_filter code[CALLS + 6] = {
        LOAD(arch),
        IF(BPF_JEQ, NATIVE_ARCH, 0, CALLS + 3),
        LOAD(nr),
        IF(BPF_JGE, FOREIGN_BIT, CALLS + 1, 0),
    };
    for (int i = 0; i < CALLS; i++)
        code[4 + i] = (struct sock_filter)IF(BPF_JEQ, calls[i], (unsigned char)(CALLS - i), 0);
    code[4 + CALLS] = (struct sock_filter)RETURN(SECCOMP_RET_ALLOW);
    code[5 + CALLS] = (struct sock_filter)RETURN(SECCOMP_RET_USER_NOTIF);
    struct sock_fprog program = {.len = sizeof code / sizeof code[0], .filter = code};

    return (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER,
                        &program);
}

int coto_sockwatch_take(int listener, uint64_t *ret_id)
{
    struct seccomp_notif call;

    memset(&call, 0, sizeof call); /* else the kernel refuses */
    if (ioctl(listener, SECCOMP_IOCTL_NOTIF_RECV, &call))
        return -1;
    *ret_id = call.id;
    return 0;
}

int coto_sockwatch_allow(int listener, uint64_t id)
{
    struct seccomp_notif_resp answer = {.id = id, .flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE};

    return ioctl(listener, SECCOMP_IOCTL_NOTIF_SEND, &answer);
}
