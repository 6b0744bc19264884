/* Building a native sandbox around this very process, between execve and READY. See
 * setup.c for the steps and wire/setup.h for the talk with the supervisor. */
#pragma once

#include "base/err.h"
#include "init/floor.h"
#include "kernel/ns.h"
#include "wire/setup.h"

struct init_built {
    int work_fd;           /* the workspace, writable */
    struct coto_ns_set ns; /* this process is in these, none of them the host's */
    struct init_floor floor;
    uint64_t ignored;      /* signals it inherited as ignored */
    int labels_fd;         /* a /proc that can be written to, for AppArmor; -1 none */
};

/* The whole of it. */
int init_setup(int stream_fd, enum coto_setup_root kind, bool has_network,
               struct init_built *ret_built, struct coto_err *err);

/* rootfs.c: the file system. */
#define INIT_ROOT_TOP 48

struct init_root {
    const struct coto_setup *setup;
    enum coto_setup_root kind;
    int fd;      /* the new root (tmpfs) */
    int work_fd; /* workspace, writable */
    struct {
        char name[256];
        int mount_fd;    /* clone of a directory, or -1 */
        char link[1024]; /* or a link's target */
    } top[INIT_ROOT_TOP];
    int top_count;
    int mount_fds[COTO_SETUP_MOUNTS];
};
int init_root_clone_host(struct init_root *root, struct coto_err *err);
int init_root_make(struct init_root *root, struct coto_err *err);
int init_root_mounts(struct init_root *root, struct coto_err *err);
int init_root_proc(struct init_root *root, struct coto_err *err);
int init_root_dev(struct init_root *root, struct coto_err *err);
int init_root_work(struct init_root *root, struct coto_err *err);
int init_root_etc(struct init_root *root, struct coto_err *err);
int init_root_seal(struct init_root *root, struct coto_err *err);
int init_root_enter(struct init_root *root, struct coto_err *err);
int init_root_terminals(const struct coto_setup *setup, struct coto_err *err);
int init_root_places(struct init_root *root, struct coto_err *err);
int init_root_mask(const char *file, struct coto_err *err);
#define INIT_ROOT_MASK "tmp/.masked"

/* shared.c: a root file system for several sandboxes, and a sandbox in one. */
int init_shared_detach(struct coto_err *err);
int init_shared_leave(struct coto_err *err);
int init_shared_enter(struct init_root *root, struct coto_err *err);
int init_shared_proc(bool has_network, struct coto_err *err);
int init_shared_network(struct coto_err *err);
