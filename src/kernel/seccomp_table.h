/* The system-call table: one row per call, and the only place where a call is
 * named. seccomp.c compiles it, decides by it, and publishes it; docs/SYSCALLS.md
 * is printed from it (tools/gensyscalls.c).
 *
 * Columns: name, tier, otherwise, check.
 *   tier        the first tier that allows it: STRICT (all three), DEFAULT,
 *               DEBUG, or NEVER
 *   otherwise   the errno below that tier; 0 is a lie (sync, syncfs)
 *   check       rule on the arguments where it is allowed, or NONE
 *
 * Which answer (threats: section 2.2): ENOSYS for what libraries probe and fall
 * back from, EPERM for what their users expect to be refused. A call that has
 * no row answers ENOSYS, so a new kernel opens nothing.
 *
 * COMMON rows exist on every architecture of the generic table (aarch64,
 * riscv64); X86_64 rows are the older calls that only x86_64 has. Another
 * architecture adds its AUDIT_ARCH in seccomp.c; numbers come from the C library.
 *
 * `strict` is the list measured with CPython, Node, bash, gcc, git, perl and tar,
 * and, beyond it, calls of no more power than one on that list: rmdir,
 * fsync, chown, lchown, renameat, faccessat, epoll_create, eventfd, getcpu,
 * getgroups, getresuid, getresgid, getitimer, alarm, pause, rt_sigpending,
 * prctl (checked), pkey_mprotect and pkey_free (a CPU with protection keys makes
 * Node call them after the pkey_alloc that was measured).
 */
#pragma once

#include <sys/syscall.h>

/* Numbers newer than the C library's headers. From 424 on they are the same
 * on every architecture. */
#ifndef __NR_futex_waitv
#define __NR_futex_waitv 449
#endif
#ifndef __NR_set_mempolicy_home_node
#define __NR_set_mempolicy_home_node 450
#endif
#ifndef __NR_process_mrelease
#define __NR_process_mrelease 448
#endif
#ifndef __NR_memfd_secret
#define __NR_memfd_secret 447
#endif
#ifndef __NR_landlock_create_ruleset
#define __NR_landlock_create_ruleset 444
#define __NR_landlock_add_rule 445
#define __NR_landlock_restrict_self 446
#endif
#ifndef __NR_quotactl_fd
#define __NR_quotactl_fd 443
#endif
#ifndef __NR_mount_setattr
#define __NR_mount_setattr 442
#endif
#ifndef __NR_epoll_pwait2
#define __NR_epoll_pwait2 441
#endif
#ifndef __NR_cachestat
#define __NR_cachestat 451
#endif
#ifndef __NR_fchmodat2
#define __NR_fchmodat2 452
#endif
#ifndef __NR_map_shadow_stack
#define __NR_map_shadow_stack 453
#endif
#ifndef __NR_futex_wake
#define __NR_futex_wake 454
#define __NR_futex_wait 455
#define __NR_futex_requeue 456
#endif
#ifndef __NR_statmount
#define __NR_statmount 457
#define __NR_listmount 458
#endif
#ifndef __NR_lsm_get_self_attr
#define __NR_lsm_get_self_attr 459
#define __NR_lsm_set_self_attr 460
#define __NR_lsm_list_modules 461
#endif
#ifndef __NR_mseal
#define __NR_mseal 462
#endif
#ifndef __NR_setxattrat
#define __NR_setxattrat 463
#define __NR_getxattrat 464
#define __NR_listxattrat 465
#define __NR_removexattrat 466
#endif
#ifndef __NR_open_tree_attr
#define __NR_open_tree_attr 467
#endif
#ifndef __NR_file_getattr
#define __NR_file_getattr 468
#define __NR_file_setattr 469
#endif
#if defined(__x86_64__) && !defined(__NR_uretprobe)
#define __NR_uretprobe 335
#endif
#if defined(__x86_64__) && !defined(__NR_uprobe)
#define __NR_uprobe 336
#endif

/* clang-format off */
#define COTO_SYSCALLS_FILES(X) \
    X(read, STRICT, ENOSYS, NONE) \
    X(write, STRICT, ENOSYS, NONE) \
    X(readv, STRICT, ENOSYS, NONE) \
    X(writev, STRICT, ENOSYS, NONE) \
    X(pread64, STRICT, ENOSYS, NONE) \
    X(pwrite64, STRICT, ENOSYS, NONE) \
    X(preadv, STRICT, ENOSYS, NONE) \
    X(pwritev, STRICT, ENOSYS, NONE) \
    X(preadv2, DEFAULT, ENOSYS, NOWAIT) \
    X(pwritev2, DEFAULT, ENOSYS, NONE) \
    X(openat, STRICT, ENOSYS, NONE) \
    X(openat2, DEFAULT, ENOSYS, NONE) \
    X(close, STRICT, ENOSYS, NONE) \
    X(close_range, STRICT, ENOSYS, NONE) \
    X(lseek, STRICT, ENOSYS, NONE) \
    X(dup, STRICT, ENOSYS, NONE) \
    X(dup3, STRICT, ENOSYS, NONE) \
    X(fcntl, STRICT, ENOSYS, FCNTL) \
    X(ioctl, STRICT, ENOSYS, IOCTL) \
    X(flock, STRICT, ENOSYS, NONE) \
    X(fstat, STRICT, ENOSYS, NONE) \
    X(newfstatat, STRICT, ENOSYS, NONE) \
    X(statx, STRICT, ENOSYS, NONE) \
    X(statfs, STRICT, ENOSYS, NONE) \
    X(fstatfs, STRICT, ENOSYS, NONE) \
    X(faccessat, STRICT, ENOSYS, NONE) \
    X(faccessat2, STRICT, ENOSYS, NONE) \
    X(getdents64, STRICT, ENOSYS, NONE) \
    X(getcwd, STRICT, ENOSYS, NONE) \
    X(chdir, STRICT, ENOSYS, NONE) \
    X(fchdir, STRICT, ENOSYS, NONE) \
    X(umask, STRICT, ENOSYS, NONE) \
    X(mkdirat, STRICT, ENOSYS, NONE) \
    X(unlinkat, STRICT, ENOSYS, NONE) \
    X(renameat, STRICT, ENOSYS, NONE) \
    X(renameat2, STRICT, ENOSYS, RENAME) \
    X(linkat, STRICT, ENOSYS, NONE) \
    X(symlinkat, STRICT, ENOSYS, NONE) \
    X(readlinkat, STRICT, ENOSYS, NONE) \
    X(mknodat, STRICT, ENOSYS, MKNODAT) \
    X(fchmod, STRICT, ENOSYS, NONE) \
    X(fchmodat, STRICT, ENOSYS, NONE) \
    X(fchmodat2, DEFAULT, ENOSYS, NONE) \
    X(fchown, STRICT, ENOSYS, NONE) \
    X(fchownat, STRICT, ENOSYS, NONE) \
    X(utimensat, STRICT, ENOSYS, NONE) \
    X(truncate, STRICT, ENOSYS, NONE) \
    X(ftruncate, STRICT, ENOSYS, NONE) \
    X(fallocate, STRICT, ENOSYS, NONE) \
    X(fadvise64, STRICT, ENOSYS, FADVISE) \
    X(readahead, DEFAULT, ENOSYS, NONE) \
    X(fsync, STRICT, ENOSYS, NONE) \
    X(fdatasync, STRICT, ENOSYS, NONE) \
    /* Own file systems are tmpfs, where it does nothing; on /usr it would flush the host's. */ \
    X(syncfs, NEVER, 0, NONE) \
    X(sync_file_range, DEFAULT, ENOSYS, NONE) \
    X(sendfile, STRICT, ENOSYS, NONE) \
    X(splice, STRICT, ENOSYS, NONE) \
    X(tee, DEFAULT, ENOSYS, NONE) \
    X(copy_file_range, STRICT, ENOSYS, NONE) \
    X(pipe2, STRICT, ENOSYS, NONE) \
    X(memfd_create, STRICT, ENOSYS, MEMFD) \
    X(inotify_init1, STRICT, ENOSYS, NONE) \
    X(inotify_add_watch, STRICT, ENOSYS, WATCH) \
    X(inotify_rm_watch, STRICT, ENOSYS, NONE) \
    /* A guest must not flush the whole host (SC-16). */ \
    X(sync, NEVER, 0, NONE) \
    /* ACLs, user.overlay.* marks and the like (FS-17, FS-18). The answer of a \
     * file system without attributes: cp -p, install and tar then do without, \
     * where EPERM would make them fail; ls -l and Python's copy2 stumble over \
     * ENOSYS when they only want to read some. */ \
    X(setxattr, NEVER, EOPNOTSUPP, NONE) \
    X(lsetxattr, NEVER, EOPNOTSUPP, NONE) \
    X(fsetxattr, NEVER, EOPNOTSUPP, NONE) \
    X(getxattr, DEFAULT, EOPNOTSUPP, NONE) \
    X(lgetxattr, DEFAULT, EOPNOTSUPP, NONE) \
    X(fgetxattr, DEFAULT, EOPNOTSUPP, NONE) \
    X(listxattr, DEFAULT, EOPNOTSUPP, NONE) \
    X(llistxattr, DEFAULT, EOPNOTSUPP, NONE) \
    X(flistxattr, DEFAULT, EOPNOTSUPP, NONE) \
    X(removexattr, DEFAULT, EOPNOTSUPP, NONE) \
    X(lremovexattr, DEFAULT, EOPNOTSUPP, NONE) \
    X(fremovexattr, DEFAULT, EOPNOTSUPP, NONE) \
    X(setxattrat, NEVER, ENOSYS, NONE) \
    X(getxattrat, NEVER, ENOSYS, NONE) \
    X(listxattrat, NEVER, ENOSYS, NONE) \
    X(removexattrat, NEVER, ENOSYS, NONE) \
    X(file_getattr, NEVER, ENOSYS, NONE) \
    X(file_setattr, NEVER, ENOSYS, NONE) \
    X(cachestat, NEVER, ENOSYS, NONE) \
    X(name_to_handle_at, NEVER, EPERM, NONE) \
    X(open_by_handle_at, NEVER, EPERM, NONE) \
    X(fanotify_init, NEVER, EPERM, NONE) \
    X(fanotify_mark, NEVER, EPERM, NONE) \
    X(vmsplice, NEVER, EPERM, NONE) \
    X(lookup_dcookie, NEVER, EPERM, NONE) \
    X(nfsservctl, NEVER, EPERM, NONE)

#define COTO_SYSCALLS_MEMORY(X) \
    X(brk, STRICT, ENOSYS, NONE) \
    X(mmap, STRICT, ENOSYS, MMAP) \
    X(mprotect, STRICT, ENOSYS, NONE) \
    X(munmap, STRICT, ENOSYS, NONE) \
    X(mremap, STRICT, ENOSYS, NONE) \
    X(msync, STRICT, ENOSYS, NONE) \
    X(mincore, STRICT, ENOSYS, NONE) \
    X(madvise, STRICT, ENOSYS, MADVISE) \
    X(mlock, STRICT, ENOSYS, NONE) \
    X(munlock, STRICT, ENOSYS, NONE) \
    X(mlock2, DEFAULT, ENOSYS, NONE) \
    X(mlockall, DEFAULT, ENOSYS, NONE) \
    X(munlockall, DEFAULT, ENOSYS, NONE) \
    X(mseal, DEFAULT, ENOSYS, NONE) \
    X(map_shadow_stack, DEFAULT, ENOSYS, NONE) \
    X(membarrier, STRICT, ENOSYS, NONE) \
    X(pkey_alloc, STRICT, ENOSYS, NONE) \
    X(pkey_free, STRICT, ENOSYS, NONE) \
    X(pkey_mprotect, STRICT, ENOSYS, NONE) \
    X(memfd_secret, NEVER, EPERM, NONE) \
    X(userfaultfd, NEVER, EPERM, NONE) \
    X(remap_file_pages, NEVER, EPERM, NONE) \
    X(mbind, NEVER, EPERM, NONE) \
    X(set_mempolicy, NEVER, EPERM, NONE) \
    X(get_mempolicy, NEVER, EPERM, NONE) \
    X(migrate_pages, NEVER, EPERM, NONE) \
    X(move_pages, NEVER, EPERM, NONE) \
    X(set_mempolicy_home_node, NEVER, EPERM, NONE)

#define COTO_SYSCALLS_PROCESSES(X) \
    X(clone, STRICT, ENOSYS, CLONE) \
    /* Its flags are in memory, where no filter may look: glibc falls back. */ \
    X(clone3, NEVER, ENOSYS, NONE) \
    X(execve, STRICT, ENOSYS, NONE) \
    X(execveat, DEFAULT, ENOSYS, NONE) \
    X(exit, STRICT, ENOSYS, NONE) \
    X(exit_group, STRICT, ENOSYS, NONE) \
    X(wait4, STRICT, ENOSYS, NONE) \
    X(waitid, STRICT, ENOSYS, NONE) \
    X(kill, STRICT, ENOSYS, NONE) \
    X(tkill, STRICT, ENOSYS, NONE) \
    X(tgkill, STRICT, ENOSYS, NONE) \
    X(pidfd_open, DEFAULT, ENOSYS, NONE) \
    X(pidfd_send_signal, DEFAULT, ENOSYS, NONE) \
    X(pidfd_getfd, NEVER, EPERM, NONE) \
    X(rt_sigaction, STRICT, ENOSYS, NONE) \
    X(rt_sigprocmask, STRICT, ENOSYS, NONE) \
    X(rt_sigreturn, STRICT, ENOSYS, NONE) \
    X(rt_sigpending, STRICT, ENOSYS, NONE) \
    X(rt_sigsuspend, STRICT, ENOSYS, NONE) \
    X(rt_sigtimedwait, STRICT, ENOSYS, NONE) \
    X(rt_sigqueueinfo, DEFAULT, ENOSYS, NONE) \
    X(rt_tgsigqueueinfo, DEFAULT, ENOSYS, NONE) \
    X(sigaltstack, STRICT, ENOSYS, NONE) \
    X(signalfd4, DEFAULT, ENOSYS, NONE) \
    X(restart_syscall, STRICT, ENOSYS, NONE) \
    X(getpid, STRICT, ENOSYS, NONE) \
    X(getppid, STRICT, ENOSYS, NONE) \
    X(gettid, STRICT, ENOSYS, NONE) \
    X(getpgid, STRICT, ENOSYS, NONE) \
    X(setpgid, STRICT, ENOSYS, NONE) \
    X(getsid, STRICT, ENOSYS, NONE) \
    X(setsid, STRICT, ENOSYS, NONE) \
    X(set_tid_address, STRICT, ENOSYS, NONE) \
    X(set_robust_list, STRICT, ENOSYS, NONE) \
    X(get_robust_list, DEFAULT, ENOSYS, NONE) \
    X(rseq, STRICT, ENOSYS, NONE) \
    X(futex, STRICT, ENOSYS, NONE) \
    X(futex_waitv, DEFAULT, ENOSYS, NONE) \
    X(futex_wake, DEFAULT, ENOSYS, NONE) \
    X(futex_wait, DEFAULT, ENOSYS, NONE) \
    X(futex_requeue, DEFAULT, ENOSYS, NONE) \
    X(prctl, STRICT, ENOSYS, PRCTL) \
    X(getrlimit, STRICT, ENOSYS, NONE) \
    X(setrlimit, DEFAULT, ENOSYS, RLIMIT) \
    X(prlimit64, STRICT, ENOSYS, PRLIMIT) \
    X(getrusage, STRICT, ENOSYS, NONE) \
    X(getpriority, STRICT, ENOSYS, NONE) \
    X(setpriority, STRICT, ENOSYS, PRIORITY) \
    X(sched_yield, STRICT, ENOSYS, NONE) \
    X(sched_getaffinity, STRICT, ENOSYS, NONE) \
    /* A caller that pins (taskset) means it for what it starts, too (LI-05, CP-03). */ \
    X(sched_setaffinity, DEBUG, EPERM, NOT_INIT) \
    X(sched_getparam, STRICT, ENOSYS, NONE) \
    X(sched_setparam, STRICT, ENOSYS, NOT_INIT) \
    X(sched_getscheduler, STRICT, ENOSYS, NONE) \
    X(sched_setscheduler, STRICT, ENOSYS, SCHED) \
    X(sched_getattr, STRICT, ENOSYS, NONE) \
    /* The policy is in memory; the other two calls cover honest uses (CP-02). */ \
    X(sched_setattr, NEVER, EPERM, NONE) \
    X(sched_get_priority_max, STRICT, ENOSYS, NONE) \
    X(sched_get_priority_min, STRICT, ENOSYS, NONE) \
    X(sched_rr_get_interval, STRICT, ENOSYS, NONE) \
    X(getcpu, STRICT, ENOSYS, NONE) \
    X(ioprio_get, DEFAULT, ENOSYS, NONE) \
    X(ioprio_set, NEVER, EPERM, NONE) \
    X(personality, DEFAULT, ENOSYS, PERSONALITY) \
    X(ptrace, DEBUG, EPERM, NONE) \
    X(process_vm_readv, DEBUG, EPERM, NONE) \
    X(process_vm_writev, DEBUG, EPERM, NONE) \
    X(kcmp, DEBUG, EPERM, NONE) \
    X(perf_event_open, DEBUG, EPERM, PERF) \
    X(process_madvise, NEVER, EPERM, NONE) \
    X(process_mrelease, NEVER, EPERM, NONE)

#define COTO_SYSCALLS_IDENTITY(X) \
    X(getuid, STRICT, ENOSYS, NONE) \
    X(geteuid, STRICT, ENOSYS, NONE) \
    X(getgid, STRICT, ENOSYS, NONE) \
    X(getegid, STRICT, ENOSYS, NONE) \
    X(getresuid, STRICT, ENOSYS, NONE) \
    X(getresgid, STRICT, ENOSYS, NONE) \
    X(getgroups, STRICT, ENOSYS, NONE) \
    X(capget, STRICT, ENOSYS, NONE) \
    X(capset, DEFAULT, ENOSYS, NONE) \
    X(setuid, DEFAULT, ENOSYS, NONE) \
    X(setgid, DEFAULT, ENOSYS, NONE) \
    X(setreuid, DEFAULT, ENOSYS, NONE) \
    X(setregid, DEFAULT, ENOSYS, NONE) \
    X(setresuid, DEFAULT, ENOSYS, NONE) \
    X(setresgid, DEFAULT, ENOSYS, NONE) \
    X(setfsuid, DEFAULT, ENOSYS, NONE) \
    X(setfsgid, DEFAULT, ENOSYS, NONE) \
    X(setgroups, DEFAULT, ENOSYS, NONE) \
    X(uname, STRICT, ENOSYS, NONE) \
    X(sysinfo, STRICT, ENOSYS, NONE) \
    X(getrandom, STRICT, ENOSYS, NONE) \
    /* Filters are the host's: its memory for compiled ones is shared, and chains of them \
     * outlive their process (docs/decisions/0015, SC-19). */ \
    X(seccomp, DEBUG, ENOSYS, NONE) \
    /* They can only tighten what is already in force. */ \
    X(landlock_create_ruleset, DEFAULT, ENOSYS, NONE) \
    X(landlock_add_rule, DEFAULT, ENOSYS, NONE) \
    X(landlock_restrict_self, DEFAULT, ENOSYS, NONE) \
    X(lsm_get_self_attr, NEVER, ENOSYS, NONE) \
    X(lsm_set_self_attr, NEVER, ENOSYS, NONE) \
    X(lsm_list_modules, NEVER, ENOSYS, NONE) \
    X(add_key, NEVER, EPERM, NONE) \
    X(request_key, NEVER, EPERM, NONE) \
    X(keyctl, NEVER, EPERM, NONE)

#define COTO_SYSCALLS_TIME(X) \
    X(nanosleep, STRICT, ENOSYS, NONE) \
    X(clock_nanosleep, STRICT, ENOSYS, NONE) \
    X(clock_gettime, STRICT, ENOSYS, NONE) \
    X(clock_getres, STRICT, ENOSYS, NONE) \
    X(gettimeofday, STRICT, ENOSYS, NONE) \
    X(times, STRICT, ENOSYS, NONE) \
    X(getitimer, STRICT, ENOSYS, NONE) \
    X(setitimer, STRICT, ENOSYS, NONE) \
    X(timer_create, STRICT, ENOSYS, NONE) \
    X(timer_settime, STRICT, ENOSYS, NONE) \
    X(timer_gettime, STRICT, ENOSYS, NONE) \
    X(timer_getoverrun, STRICT, ENOSYS, NONE) \
    X(timer_delete, STRICT, ENOSYS, NONE) \
    X(timerfd_create, STRICT, ENOSYS, NONE) \
    X(timerfd_settime, STRICT, ENOSYS, NONE) \
    X(timerfd_gettime, STRICT, ENOSYS, NONE) \
    X(settimeofday, NEVER, EPERM, NONE) \
    X(clock_settime, NEVER, EPERM, NONE) \
    X(adjtimex, NEVER, EPERM, NONE) \
    X(clock_adjtime, NEVER, EPERM, NONE)

#define COTO_SYSCALLS_IPC(X) \
    X(socket, STRICT, ENOSYS, SOCKET) \
    X(socketpair, STRICT, ENOSYS, SOCKETPAIR) \
    X(bind, STRICT, ENOSYS, NONE) \
    X(listen, STRICT, ENOSYS, NONE) \
    X(accept, STRICT, ENOSYS, NONE) \
    X(accept4, STRICT, ENOSYS, NONE) \
    X(connect, STRICT, ENOSYS, NONE) \
    X(shutdown, STRICT, ENOSYS, NONE) \
    X(getsockname, STRICT, ENOSYS, NONE) \
    X(getpeername, STRICT, ENOSYS, NONE) \
    X(getsockopt, STRICT, ENOSYS, NONE) \
    X(setsockopt, STRICT, ENOSYS, SOCKOPT) \
    X(sendto, STRICT, ENOSYS, SENDTO) \
    X(recvfrom, STRICT, ENOSYS, NONE) \
    X(sendmsg, STRICT, ENOSYS, SENDMSG) \
    X(recvmsg, STRICT, ENOSYS, NONE) \
    X(sendmmsg, DEFAULT, ENOSYS, SENDTO) \
    X(recvmmsg, DEFAULT, ENOSYS, NONE) \
    X(epoll_create1, STRICT, ENOSYS, NONE) \
    X(epoll_ctl, STRICT, ENOSYS, NONE) \
    X(epoll_pwait, STRICT, ENOSYS, NONE) \
    X(epoll_pwait2, DEFAULT, ENOSYS, NONE) \
    X(pselect6, STRICT, ENOSYS, NONE) \
    X(ppoll, STRICT, ENOSYS, NONE) \
    X(eventfd2, STRICT, ENOSYS, NONE) \
    X(shmget, DEFAULT, ENOSYS, SHMGET) \
    X(shmat, DEFAULT, ENOSYS, NONE) \
    X(shmdt, DEFAULT, ENOSYS, NONE) \
    X(shmctl, DEFAULT, ENOSYS, NONE) \
    X(semget, DEFAULT, ENOSYS, NONE) \
    X(semop, DEFAULT, ENOSYS, NONE) \
    X(semtimedop, DEFAULT, ENOSYS, NONE) \
    X(semctl, DEFAULT, ENOSYS, NONE) \
    X(msgget, DEFAULT, ENOSYS, NONE) \
    X(msgsnd, DEFAULT, ENOSYS, NONE) \
    X(msgrcv, DEFAULT, ENOSYS, NONE) \
    X(msgctl, DEFAULT, ENOSYS, NONE) \
    X(mq_open, NEVER, EPERM, NONE) \
    X(mq_unlink, NEVER, EPERM, NONE) \
    X(mq_timedsend, NEVER, ENOSYS, NONE) \
    X(mq_timedreceive, NEVER, ENOSYS, NONE) \
    X(mq_notify, NEVER, ENOSYS, NONE) \
    X(mq_getsetattr, NEVER, ENOSYS, NONE) \
    X(io_setup, NEVER, ENOSYS, NONE) \
    X(io_destroy, NEVER, ENOSYS, NONE) \
    X(io_submit, NEVER, ENOSYS, NONE) \
    X(io_cancel, NEVER, ENOSYS, NONE) \
    X(io_getevents, NEVER, ENOSYS, NONE) \
    X(io_pgetevents, NEVER, ENOSYS, NONE) \
    /* Would do opens and connects that no filter sees (SC-05). */ \
    X(io_uring_setup, NEVER, EPERM, NONE) \
    X(io_uring_enter, NEVER, EPERM, NONE) \
    X(io_uring_register, NEVER, EPERM, NONE)

#define COTO_SYSCALLS_SYSTEM(X) \
    X(unshare, NEVER, EPERM, NONE) \
    X(setns, NEVER, EPERM, NONE) \
    X(mount, NEVER, EPERM, NONE) \
    X(umount2, NEVER, EPERM, NONE) \
    X(pivot_root, NEVER, EPERM, NONE) \
    X(chroot, NEVER, EPERM, NONE) \
    X(fsopen, NEVER, EPERM, NONE) \
    X(fsconfig, NEVER, EPERM, NONE) \
    X(fsmount, NEVER, EPERM, NONE) \
    X(fspick, NEVER, EPERM, NONE) \
    X(open_tree, NEVER, EPERM, NONE) \
    X(open_tree_attr, NEVER, ENOSYS, NONE) \
    X(move_mount, NEVER, EPERM, NONE) \
    X(mount_setattr, NEVER, EPERM, NONE) \
    X(statmount, NEVER, ENOSYS, NONE) \
    X(listmount, NEVER, ENOSYS, NONE) \
    X(init_module, NEVER, EPERM, NONE) \
    X(finit_module, NEVER, EPERM, NONE) \
    X(delete_module, NEVER, EPERM, NONE) \
    X(kexec_load, NEVER, EPERM, NONE) \
    X(kexec_file_load, NEVER, EPERM, NONE) \
    X(reboot, NEVER, EPERM, NONE) \
    X(swapon, NEVER, EPERM, NONE) \
    X(swapoff, NEVER, EPERM, NONE) \
    X(acct, NEVER, EPERM, NONE) \
    X(quotactl, NEVER, EPERM, NONE) \
    X(quotactl_fd, NEVER, EPERM, NONE) \
    X(syslog, NEVER, EPERM, NONE) \
    X(vhangup, NEVER, EPERM, NONE) \
    X(sethostname, NEVER, EPERM, NONE) \
    X(setdomainname, NEVER, EPERM, NONE) \
    X(bpf, NEVER, EPERM, NONE)

#define COTO_SYSCALLS_COMMON(X) \
    COTO_SYSCALLS_FILES(X) \
    COTO_SYSCALLS_MEMORY(X) \
    COTO_SYSCALLS_PROCESSES(X) \
    COTO_SYSCALLS_IDENTITY(X) \
    COTO_SYSCALLS_TIME(X) \
    COTO_SYSCALLS_IPC(X) \
    COTO_SYSCALLS_SYSTEM(X)

#ifdef __x86_64__
#define COTO_SYSCALLS_X86_64(X) \
    X(open, STRICT, ENOSYS, NONE) \
    X(creat, STRICT, ENOSYS, NONE) \
    X(stat, STRICT, ENOSYS, NONE) \
    X(lstat, STRICT, ENOSYS, NONE) \
    X(access, STRICT, ENOSYS, NONE) \
    X(getdents, DEFAULT, ENOSYS, NONE) \
    X(mkdir, STRICT, ENOSYS, NONE) \
    X(rmdir, STRICT, ENOSYS, NONE) \
    X(link, STRICT, ENOSYS, NONE) \
    X(symlink, STRICT, ENOSYS, NONE) \
    X(readlink, STRICT, ENOSYS, NONE) \
    X(rename, STRICT, ENOSYS, NONE) \
    X(unlink, STRICT, ENOSYS, NONE) \
    X(mknod, DEFAULT, ENOSYS, MKNOD) \
    X(chmod, STRICT, ENOSYS, NONE) \
    X(chown, STRICT, ENOSYS, NONE) \
    X(lchown, STRICT, ENOSYS, NONE) \
    X(utime, DEFAULT, ENOSYS, NONE) \
    X(utimes, DEFAULT, ENOSYS, NONE) \
    X(futimesat, DEFAULT, ENOSYS, NONE) \
    X(pipe, STRICT, ENOSYS, NONE) \
    X(dup2, STRICT, ENOSYS, NONE) \
    X(inotify_init, DEFAULT, ENOSYS, NONE) \
    X(poll, STRICT, ENOSYS, NONE) \
    X(select, STRICT, ENOSYS, NONE) \
    X(epoll_create, STRICT, ENOSYS, NONE) \
    X(epoll_wait, STRICT, ENOSYS, NONE) \
    X(eventfd, STRICT, ENOSYS, NONE) \
    X(signalfd, DEFAULT, ENOSYS, NONE) \
    X(fork, STRICT, ENOSYS, NONE) \
    X(vfork, STRICT, ENOSYS, NONE) \
    X(getpgrp, STRICT, ENOSYS, NONE) \
    X(alarm, STRICT, ENOSYS, NONE) \
    X(pause, STRICT, ENOSYS, NONE) \
    X(time, STRICT, ENOSYS, NONE) \
    X(arch_prctl, STRICT, ENOSYS, NONE) \
    /* Trampolines of the kernel's own probes. Newer kernels let these two past \
     * every filter and answer themselves, SIGILL and ENXIO, outside of a probe. */ \
    X(uretprobe, NEVER, ENOSYS, NONE) \
    X(uprobe, NEVER, ENOSYS, NONE) \
    X(modify_ldt, NEVER, EPERM, NONE) \
    X(iopl, NEVER, EPERM, NONE) \
    X(ioperm, NEVER, EPERM, NONE) \
    X(uselib, NEVER, EPERM, NONE) \
    X(ustat, NEVER, EPERM, NONE) \
    X(sysfs, NEVER, EPERM, NONE) \
    X(_sysctl, NEVER, ENOSYS, NONE) \
    X(set_thread_area, NEVER, ENOSYS, NONE) \
    X(get_thread_area, NEVER, ENOSYS, NONE) \
    X(epoll_ctl_old, NEVER, ENOSYS, NONE) \
    X(epoll_wait_old, NEVER, ENOSYS, NONE) \
    X(create_module, NEVER, ENOSYS, NONE) \
    X(get_kernel_syms, NEVER, ENOSYS, NONE) \
    X(query_module, NEVER, ENOSYS, NONE) \
    X(getpmsg, NEVER, ENOSYS, NONE) \
    X(putpmsg, NEVER, ENOSYS, NONE) \
    X(afs_syscall, NEVER, ENOSYS, NONE) \
    X(tuxcall, NEVER, ENOSYS, NONE) \
    X(security, NEVER, ENOSYS, NONE) \
    X(vserver, NEVER, ENOSYS, NONE)
#else
#define COTO_SYSCALLS_X86_64(X)
#endif

#define COTO_SYSCALLS(X) COTO_SYSCALLS_COMMON(X) COTO_SYSCALLS_X86_64(X)

/* What the service itself gives up, for all that it starts too: sandboxes, runtimes, clients of engines. None of
 * them has a use for it at any level, and each is the whole host's: modules, kernels, clocks, swap,
 * quotas, the log, files without a name. Everything else is allowed, whatever its arguments, so that the
 * kernel's bitmap makes the filter free. keyctl and bpf are left to runtimes (runc: a keyring of its own, devices). */
#define COTO_SERVICE_REFUSES_COMMON(X) \
    X(init_module) \
    X(finit_module) \
    X(delete_module) \
    X(kexec_load) \
    X(kexec_file_load) \
    X(reboot) \
    X(swapon) \
    X(swapoff) \
    X(acct) \
    X(quotactl) \
    X(quotactl_fd) \
    X(syslog) \
    X(vhangup) \
    X(settimeofday) \
    X(clock_settime) \
    X(adjtimex) \
    X(clock_adjtime) \
    X(open_by_handle_at) \
    X(fanotify_init) \
    X(lookup_dcookie) \
    X(nfsservctl) \
    X(add_key) \
    X(request_key) \
    X(userfaultfd) \
    X(io_uring_setup) \
    X(io_uring_enter) \
    X(io_uring_register)

#ifdef __x86_64__
#define COTO_SERVICE_REFUSES_X86_64(X) \
    X(iopl) \
    X(ioperm) \
    X(uselib) \
    X(ustat) \
    X(sysfs)
#else
#define COTO_SERVICE_REFUSES_X86_64(X)
#endif

#define COTO_SERVICE_REFUSES(X) COTO_SERVICE_REFUSES_COMMON(X) COTO_SERVICE_REFUSES_X86_64(X)

/* What the front makes (the daemon, its starter and its async executions), with what its libraries do on other hosts: sockets
 * that it is given, its records, threads and copies of itself. Of these what tier `default` allows, with its rules
 * or those below; everything else is refused. No socket of its own, no program, no signal to anybody. */
#define COTO_FRONT_MAKES_FILES(X) \
    X(read) X(write) X(readv) X(writev) X(pread64) X(pwrite64) X(preadv) X(pwritev) \
    X(openat) X(openat2) X(close) X(close_range) X(lseek) X(dup) X(dup3) X(fcntl) X(ioctl) X(flock) \
    X(fstat) X(newfstatat) X(statx) X(statfs) X(fstatfs) X(faccessat) X(faccessat2) X(readlinkat) \
    X(getdents64) X(getcwd) X(umask) X(mkdirat) X(mknodat) X(unlinkat) X(renameat) X(renameat2) \
    X(fchmod) X(ftruncate) X(fallocate) X(fadvise64) X(fsync) X(fdatasync) X(pipe2) X(memfd_create)
#define COTO_FRONT_MAKES_OTHERS(X) \
    X(brk) X(mmap) X(mprotect) X(munmap) X(mremap) X(madvise) X(membarrier) X(map_shadow_stack) \
    X(clone) X(exit) X(exit_group) X(wait4) X(waitid) X(futex) X(futex_waitv) X(rseq) X(sched_yield) \
    X(sched_getaffinity) X(getcpu) X(set_tid_address) X(set_robust_list) X(restart_syscall) \
    X(rt_sigaction) X(rt_sigprocmask) X(rt_sigreturn) X(rt_sigsuspend) X(rt_sigtimedwait) X(sigaltstack) X(signalfd4) \
    X(prctl) X(getrlimit) X(prlimit64) X(getrusage) X(getpid) X(getppid) X(gettid) \
    X(getuid) X(geteuid) X(getgid) X(getegid) X(capget) X(uname) X(sysinfo) X(getrandom) \
    X(nanosleep) X(clock_nanosleep) X(clock_gettime) X(clock_getres) X(gettimeofday) X(times) \
    X(timerfd_create) X(timerfd_settime) X(timerfd_gettime) \
    X(socketpair) X(accept) X(accept4) X(shutdown) X(getsockname) X(getpeername) X(getsockopt) X(setsockopt) \
    X(sendto) X(recvfrom) X(sendmsg) X(recvmsg) \
    X(epoll_create1) X(epoll_ctl) X(epoll_pwait) X(epoll_pwait2) X(pselect6) X(ppoll) X(eventfd2)

#ifdef __x86_64__
#define COTO_FRONT_MAKES_X86_64(X) \
    X(open) X(stat) X(lstat) X(access) X(mkdir) X(rmdir) X(readlink) X(rename) X(unlink) X(mknod) \
    X(pipe) X(dup2) X(poll) X(select) X(epoll_create) X(epoll_wait) X(eventfd) X(signalfd) X(fork) X(time) X(arch_prctl)
#else
#define COTO_FRONT_MAKES_X86_64(X)
#endif

#define COTO_FRONT_MAKES(X) COTO_FRONT_MAKES_FILES(X) COTO_FRONT_MAKES_OTHERS(X) COTO_FRONT_MAKES_X86_64(X)

/* Rules on arguments: id, errno when it does not hold, the rule in words. */
#define COTO_SYSCALL_CHECKS(X) \
    X(NONE, 0, "") \
    X(CLONE, EPERM, "flags hold no CLONE_NEW*") \
    X(IOCTL, EPERM, "request is not TIOCSTI, TIOCLINUX, TIOCCONS, TIOCSETD, FS_IOC_SETFLAGS, FS_IOC_FSSETXATTR, FS_IOC_ENABLE_VERITY, nor one of btrfs that makes or seals subvolumes or syncs, nor one of bridges and VLANs (SIOC[GS]IFBR, SIOC[GS]IFVLAN, SIOCBR*, SIOC*DLCI)") \
    X(FCNTL, EPERM, "command is not F_OFD_GETLK, F_OFD_SETLK, F_OFD_SETLKW, F_SETLEASE, F_SETDELEG, F_NOTIFY") \
    X(PRCTL, EINVAL, "option is not PR_SET_SECCOMP, PR_SET_MM, PR_SET_PTRACER, PR_SCHED_CORE, PR_SET_MEMORY_MERGE, PR_SET_VMA") \
    X(PRCTL_DEBUG, EINVAL, "option is not PR_SET_MM, PR_SET_PTRACER, PR_SCHED_CORE, PR_SET_MEMORY_MERGE, PR_SET_VMA") \
    X(PERSONALITY, EPERM, "persona is 0, 8, 0x20000, 0x20008, 0x40000 or the query 0xffffffff") \
    X(MKNOD, EPERM, "mode is a regular file, FIFO or socket") \
    X(MKNODAT, EPERM, "mode is a regular file, FIFO or socket") \
    X(RENAME, EINVAL, "flags hold no RENAME_WHITEOUT") \
    X(SCHED, EPERM, "pid is not 1, coto-init; policy is SCHED_OTHER, SCHED_BATCH or SCHED_IDLE") \
    X(PRIORITY, EPERM, "which is PRIO_PROCESS; who is not 1, coto-init") \
    X(PERF, EPERM, "pid is 0, the caller itself") \
    X(NOT_INIT, EPERM, "pid is not 1, coto-init") \
    X(RLIMIT, EINVAL, "resource is not RLIMIT_CORE") \
    X(PRLIMIT, EINVAL, "pid is not 1, coto-init; RLIMIT_CORE is only read") \
    X(SOCKET, EAFNOSUPPORT, "UNIX stream, dgram, seqpacket; INET and INET6 stream with protocol 0, TCP, dgram with 0, UDP") \
    X(SOCKETPAIR, EAFNOSUPPORT, "UNIX stream, dgram or seqpacket, protocol 0") \
    X(SOCKOPT, ENOPROTOOPT, "the option is one of those listed in docs/SANDBOX.md") \
    X(SENDTO, EOPNOTSUPP, "flags hold no MSG_MORE") \
    X(SENDMSG, EOPNOTSUPP, "flags hold no MSG_MORE") \
    X(NOWAIT, EOPNOTSUPP, "flags hold no RWF_NOWAIT") \
    X(WATCH, EPERM, "mask holds no IN_ACCESS, IN_OPEN, IN_CLOSE_NOWRITE") \
    X(MMAP, EPERM, "flags hold no MAP_HUGETLB") \
    X(MEMFD, EPERM, "flags hold no MFD_HUGETLB") \
    X(SHMGET, EPERM, "flags hold no SHM_HUGETLB") \
    X(MADVISE, EINVAL, "advice is not MADV_MERGEABLE, MADV_COLLAPSE") \
    X(FADVISE, EPERM, "advice is not POSIX_FADV_DONTNEED") \
    /* Of the front only. */ \
    X(OWN_IOCTL, EPERM, "request is TCGETS, FIONREAD or FIONBIO") \
    X(OWN_FCNTL, EPERM, "command is none of those that programs may not have (FCNTL), nor F_SETOWN, F_SETOWN_EX, F_SETSIG") \
    X(OWN_SENDTO, EPERM, "flags hold neither MSG_MORE nor MSG_FASTOPEN; no address") \
    X(OWN_SENDMSG, EPERM, "flags hold neither MSG_MORE nor MSG_FASTOPEN") \
    X(OWN_LIMIT, EPERM, "pid is 0, the caller itself") \
    X(OWN_PAIR, EPERM, "UNIX stream or seqpacket, protocol 0") \
    /* With COTO_SECCOMP_NOSETID only. */ \
    X(CHMOD, EPERM, "mode has no set-id bits") \
    X(CHMODAT, EPERM, "mode has no set-id bits") \
    X(OPEN, EPERM, "flags create nothing, or mode has no set-id bits") \
    X(OPENAT, EPERM, "flags create nothing, or mode has no set-id bits") \
    X(MKNOD_PLAIN, EPERM, "mode is a regular file, FIFO or socket without set-id bits") \
    X(MKNODAT_PLAIN, EPERM, "mode is a regular file, FIFO or socket without set-id bits")
/* clang-format on */
