/* Control groups that are as good as new.
 *
 * Making the groups of a sandbox on cgroup v1 and having the kernel take them apart, of which it does the
 * larger part afterwards, costs more than its mounts. When a sandbox has ended, every process of it is dead and no
 * limit of its group was ever met, what the group still knows is its peak of memory, which can be set back,
 * and how many processes there were at most. If those were no more than every sandbox begins with, and next to nothing
 * is charged to it any more, the next sandbox with the same limits gets it. What is in force is read from the kernel
 * again then. Any other group goes with its sandbox (docs/decisions/0017).
 */
#include "drivers/native/native.h"

#include "base/units.h"

#include <string.h>

#define KEPT_MAX 32
#define TRIES 16
#define CHARGED_MAX (256 << 10) /* what the kernel has set aside for a processor, or not freed yet */
#define PROCESSES_AT_START 3    /* beside init: an interpreter and the two that bring it (template/template.c) */

struct kept {
    struct coto_cgroup group;
    struct coto_cgroup_limits limits;
    struct coto_cgroup_applied applied;
    int tries;
};

static struct kept kept[KEPT_MAX];
static int kept_count;

/* Of a plan with a parked interpreter, as with network namespaces (nets.c), and two groups only: those of
 * processor time and of a disk remember what was used. */
static bool can_keep(const struct native *n)
{
    return native_serves && n->cgroup_host.version == 1 && n->plan->parked && !n->limits.account_cpu &&
           n->limits.cpus_milli == COTO_UNIT_NONE && n->limits.iops == COTO_UNIT_NONE;
}

static bool is_same(const struct coto_cgroup_limits *a, const struct coto_cgroup_limits *b)
{
    return a->memory_bytes == b->memory_bytes && a->swap_bytes == b->swap_bytes && a->pids == b->pids;
}

static struct kept take_out(int i)
{
    struct kept it = kept[i];

    memmove(&kept[i], &kept[i + 1], (size_t)(--kept_count - i) * sizeof kept[0]);
    return it;
}

/* Nobody but the host's root could have changed it; then it is not what was asked for. */
static bool is_unchanged(const struct kept *it)
{
    struct coto_cgroup_applied now = it->applied;

    coto_cgroup_read_limits(&it->group, &now);
    return now.memory_bytes == it->applied.memory_bytes && now.swap_bytes == it->applied.swap_bytes &&
           now.pids == it->applied.pids;
}

/* The one that ended first: the kernel has had most time for what it frees later. Where that is still not
 * done there will be another one; of pages of files, which stay, it does not get rid. */
bool native_group_take(struct native *n)
{
    for (int i = 0; i < kept_count && can_keep(n); i++) {
        struct kept *first = &kept[i];
        if (!is_same(&first->limits, &n->limits))
            continue;
        bool is_ready = coto_cgroup_reset(&first->group, CHARGED_MAX) == 0;
        if (!is_ready && ++first->tries < TRIES)
            return false;
        struct kept it = take_out(i--);
        if (!is_ready || !is_unchanged(&it)) {
            coto_cgroup_remove(&it.group);
            continue;
        }
        n->group = it.group;
        n->applied = it.applied;
        return true;
    }
    return false;
}

static bool is_as_new(struct native *n)
{
    struct coto_usage used;

    return n->base.driver->usage(&n->base, &used) == 0 && used.oom_kills == 0 && used.pids_refused == 0 &&
           used.pids_peak <= PROCESSES_AT_START && !used.is_over;
}

/* One that could not be given a limit is none to give to the next, which may have better luck. Sockets have memory of
 * their own. While an interpreter was on its way into it, somebody who brings it may join the group even now. */
bool native_group_keep(struct native *n, bool is_without_sockets)
{
    if (!can_keep(n) || !native_cgroup_has_all(n) || !is_without_sockets || n->base.parked_fd >= 0 || coto_cgroup_wake(&n->group) || !is_as_new(n))
        return false;
    if (kept_count == KEPT_MAX) { /* of limits that nobody asks for any more, perhaps */
        struct kept oldest = take_out(0);
        coto_cgroup_remove(&oldest.group);
    }
    n->group.locks = (struct coto_lockwatch){0};
    kept[kept_count++] = (struct kept){n->group, n->limits, n->applied, 0};
    return true;
}

void native_groups_drop(void)
{
    while (kept_count > 0)
        coto_cgroup_remove(&kept[--kept_count].group);
}
