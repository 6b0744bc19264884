/* The native driver's own parts. See native.c for the theory of operation. */
#pragma once

#include "drivers/driver.h"
#include "drivers/guard.h"
#include "kernel/cgroup.h"
#include "kernel/idmap.h"
#include "kernel/ns.h"

#include <sys/types.h>

/* Descriptors coto-init is started with. */
enum {
    NATIVE_FD_STREAM = 3,
    NATIVE_FD_WORK = 4,
    NATIVE_FD_FREE = 5, /* first number that must be closed */
};

struct native {
    struct coto_sandbox base; /* first */
    const struct coto_plan *plan;
    pid_t pid;
    int pidfd;
    struct coto_idmap map;
    struct coto_cgroup_host cgroup_host;
    struct coto_cgroup group;
    struct coto_cgroup_limits limits;
    bool has_group;
    struct coto_cgroup_applied applied;
    char group_name[64];
    struct coto_guard guard; /* removes the cgroup if we are killed */
};

/* What the parent tells the set-up child: one byte each. */
enum {
    NATIVE_GO_IDS = 'i',            /* id maps are written */
    NATIVE_GO_IDS_AND_GROUPS = 'I', /* and setgroups is possible */
    NATIVE_GO_CGROUP = 'c',         /* with descriptors to join the cgroup through */
};

/* What the set-up child gets from its parent by fork. */
struct native_child {
    const struct coto_plan *plan;
    int stream_fd;     /* wire to the supervisor; also the go signal */
    int stdio_fd[3];   /* program's ends */
    int init_fd;       /* the coto-init binary */
    int *mount_fds;    /* detached clones made by a privileged parent, or NULL */
    int rootfs_fd;     /* likewise for --rootfs; -1: the child clones it */
    bool verbose;
};

/* child.c: everything between clone and execve of coto-init; never returns. */
_Noreturn void native_child_main(struct native_child *child);

/* rootfs.c: the file system, in the child's own mount namespace. */
struct native_root {
    const struct native_child *child;
    int fd;      /* the new root (tmpfs) */
    int work_fd; /* workspace, writable */
    struct {
        const char *name;
        int mount_fd;      /* clone of a directory, or -1 */
        char link[64];     /* or a link's target */
    } top[48];
    char names[48][64];
    int top_count;
    int *mount_fds;
};
int native_root_clone_host(struct native_root *root, struct coto_err *err);
int native_root_make(struct native_root *root, struct coto_err *err);
int native_root_mounts(struct native_root *root, struct coto_err *err);
int native_root_proc(struct native_root *root, struct coto_err *err);
int native_root_dev(struct native_root *root, struct coto_err *err);
int native_root_work(struct native_root *root, struct coto_err *err);
int native_root_etc(struct native_root *root, struct coto_err *err);
int native_root_enter(struct native_root *root, struct coto_err *err);

/* probe.c */
int native_probe(struct coto_probe *ret_probe, struct coto_err *err);
