/* Namespaces: cloning into new ones, and reading back which ones a process is in. */
#pragma once

#include "base/err.h"

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum coto_ns {
    COTO_NS_USER,
    COTO_NS_PID,
    COTO_NS_MNT,
    COTO_NS_NET,
    COTO_NS_IPC,
    COTO_NS_UTS,
    COTO_NS_CGROUP,
    COTO_NS_COUNT,
};

struct coto_ns_set {
    uint64_t inode[COTO_NS_COUNT]; /* 0: could not be read */
};

extern const char *const coto_ns_name[COTO_NS_COUNT];

/* Like fork, but the child is in new namespaces (CLONE_NEW* flags) and, when
 * cgroup_fd is not -1, born inside that v2 cgroup. Returns the child's pid (0
 * in the child, -1 on error) and a pidfd in the parent. */
pid_t coto_ns_clone(uint64_t flags, int cgroup_fd, int *ret_pidfd);
/* What a child that borrows the caller's memory runs, and on which stack. */
struct coto_ns_child {
    int (*run)(void *arg); /* ends in execve, or returns an exit status */
    void *arg;
    void *stack; /* 16-byte aligned; untouched by the caller until the child is gone */
    size_t stack_size;
};

/* Like coto_ns_clone, but nothing is copied: the child runs beside the caller in its
 * memory until it executes a program. Until then it may only make system calls and
 * use its own stack. The child's pid, or -1 with errno. */
pid_t coto_ns_spawn(uint64_t flags, int cgroup_fd, const struct coto_ns_child *child,
                    int *ret_pidfd);
/* Namespaces of the caller. */
void coto_ns_read(struct coto_ns_set *ret_set);
/* Moves the calling thread into a new network namespace with its loopback up and
 * opens it. 0 or an errno; touches neither errno nor memory of others, so that it
 * can run beside another thread. */
int coto_ns_make_net(int *ret_fd);
/* Signals a child that was not waited for yet: by its number where pidfds cannot. */
int coto_pidfd_signal(int pidfd, pid_t child, int signo);
