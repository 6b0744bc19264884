/* The native driver's own parts. See native.c for the theory of operation. */
#pragma once

#include "drivers/driver.h"
#include "drivers/guard.h"
#include "kernel/cgroup.h"
#include "kernel/idmap.h"
#include "kernel/ns.h"
#include "wire/setup.h"

#include <stdatomic.h>
#include <sys/types.h>

/* What the child needs between clone and execve; see launch.c. */
struct native_launch {
    int fds[6]; /* its ends of everything, in the order of its descriptors; the fifth is -1
                   unless a process is to be parked, the last unless its network was made for it */
    int init_fd;
    char root[16]; /* --root=NUMBER */
    bool is_root;  /* no user namespace is made for it */
    bool is_late;  /* the parked process comes when init asks for it */
    int first;     /* it is born with our descriptors and keeps those below this one; 0: with a copy */
    atomic_bool is_apart; /* it has done so */
    bool has_ends;        /* they are open here, too; not the child's to look at */
    _Alignas(16) char stack[16 * 1024];
};

/* Set by native_serve; see driver.h. */
extern bool native_serves;

struct native {
    struct coto_sandbox base; /* first */
    const struct coto_plan *plan;
    pid_t pid;
    int pidfd;
    int mounts_fd; /* keeps the mount namespace, so that init need not end it */
    struct native_launch *launch; /* NULL once it has executed coto-init */
    enum coto_setup_root root;
    int shared_fd; /* the mount namespace to be born in a copy of; borrowed */
    int net_fd;    /* the network namespace to be born in, -1: it makes one itself */
    int used_fd;   /* an eventfd: init says here that a socket was made in it */
    struct coto_idmap map;
    bool lend_uid; /* make the user namespace as map's uid */
    struct coto_ns_set own_ns; /* the supervisor's */
    struct coto_cgroup_host cgroup_host;
    struct coto_cgroup group;
    struct coto_cgroup_limits limits;
    bool has_group;
    bool is_born_in_group; /* v2 */
    int join_fds[COTO_CG_COUNT]; /* what a second process joins it by, until that has them */
    int join_count;
    struct coto_cgroup_applied applied;
    char group_name[64];
    struct coto_guard guard; /* removes the cgroup if we are killed */
    struct coto_usage final; /* what was used until the last process had ended */
    bool has_final;
};

/* native.c */
struct native *native_new(void);
void native_free(struct native *sandbox);

/* shared.c: decides whether it is started in a root that sandboxes share; then around the clone. */
/* All of a plan that can be seen in a shared root. */
bool native_shared_key(const struct coto_plan *plan, char *ret_key, size_t size);
void native_shared_find(struct native *sandbox);
bool native_shared_enter(const struct native *sandbox);
void native_shared_leave(const struct native *sandbox);

/* nets.c: the same for a network namespace that nobody has used; and after the end. */
void native_net_find(struct native *sandbox);
bool native_net_enter(const struct native *sandbox);
void native_net_leave(const struct native *sandbox);
/* Whether no socket was ever made. */
bool native_net_done(struct native *sandbox, bool is_empty);
/* Now and then. */
void native_nets_look(void);

/* groups.c: the same for cgroups, if they are as good as new; and when no other will be made. */
bool native_group_take(struct native *sandbox);
bool native_group_keep(struct native *sandbox, bool is_without_sockets);
void native_groups_drop(void);

/* limits.c */
void native_cgroup_learn(void); /* of a launcher, first of all */
bool native_cgroup_has_all(const struct native *sandbox); /* that it wants and that the host can give */
void native_cgroup_find(struct native *sandbox);
int native_cgroup_make(struct native *sandbox, struct coto_err *err);
void native_limits_say(struct native *sandbox);
void native_identity_say(struct native *sandbox);
int native_limits_check(struct native *sandbox, struct coto_err *err);

/* slots.c: what a child needs until it has executed coto-init. */
void native_slots_reserve(int null_fd, int init_fd);
bool native_slot_take(struct native *sandbox);
int native_slot_put(struct native_launch *launch);
void native_slot_drop(struct native *sandbox);
void native_slots_look(void);

/* launch.c: coto-init in new namespaces, and the talk with it before READY. */
void native_launch_serve(void);
int native_launch(struct native *sandbox, int cgroup_fd, struct coto_err *err);
int native_send_setup(struct native *sandbox, bool verbose, struct coto_err *err);
int native_send_ids(struct native *sandbox, struct coto_err *err);
int native_send_cgroup(struct native *sandbox, struct coto_err *err);

/* probe.c */
int native_probe(struct coto_probe *ret_probe, struct coto_err *err);
