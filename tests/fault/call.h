/* How a system call of a traced process is made to fail, for inject.c and attend.c. */
#pragma once

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

/* brk has no error: it says where the end of the memory is, as before. The rest fails without being
 * made; getpid is harmless, and no filter forbids it. A failed close has closed all the same. */
static inline void call_refuse(pid_t pid, long number, unsigned long long *ret_asked)
{
    struct user_regs_struct regs;

    *ret_asked = 0;
    if (number == SYS_close || ptrace(PTRACE_GETREGS, pid, 0, &regs))
        return;
    *ret_asked = number == SYS_brk ? regs.rdi : 0;
    if (*ret_asked)
        regs.rdi = 0;
    else
        regs.orig_rax = SYS_getpid;
    ptrace(PTRACE_SETREGS, pid, 0, &regs);
}

/* When it returns. */
static inline void call_answer(pid_t pid, unsigned long long asked, int error)
{
    struct user_regs_struct regs;

    if (ptrace(PTRACE_GETREGS, pid, 0, &regs))
        return;
    if (asked)
        regs.rdi = asked;
    else
        regs.rax = (unsigned long long)-(long long)error;
    ptrace(PTRACE_SETREGS, pid, 0, &regs);
}

/* A pipe can be interrupted, and be out of pages when it is written to; nothing else
 * can happen to it, whatever we were told. */
static inline int call_error(pid_t pid, long number, int fd, int wanted)
{
    char link[64];
    char target[16] = "";

    if (number != SYS_read && number != SYS_write)
        return wanted;
    snprintf(link, sizeof link, "/proc/%d/fd/%d", (int)pid, fd);
    /* Of a process that lets nobody look (init, once it is ready) we do not know. */
    bool hidden = readlink(link, target, sizeof target - 1) < 0;
    if ((hidden || strncmp(target, "pipe:", 5) == 0) && wanted != EINTR)
        return number == SYS_read ? EINTR : ENOMEM;
    return wanted;
}

/* What cannot fail, or not so that a program could go on. */
static inline bool call_is_exempt(const struct __ptrace_syscall_info *info)
{
    switch ((long)info->entry.nr) {
    case SYS_exit:
    case SYS_exit_group:
    case SYS_rt_sigreturn:
    case SYS_arch_prctl:
    case SYS_set_tid_address:
    case SYS_getpid:
    case SYS_getppid:
    case SYS_gettid:
    case SYS_getuid:
    case SYS_geteuid:
    case SYS_getgid:
    case SYS_getegid:
    case SYS_umask:
    case SYS_rt_sigaction:
    case SYS_rt_sigprocmask:
        return true;
    case SYS_futex:
        return (info->entry.args[1] & 0x7f) == 1; /* a wake-up finds who waits, or nobody */
    case SYS_wait4:
        return info->entry.args[2] & WNOHANG; /* a question, of a parent */
    case SYS_brk:
        return info->entry.args[0] == 0; /* a question */
    default:
        return false;
    }
}
