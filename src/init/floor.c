#include "init/floor.h"

#include "schema/rlimits.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int add_writable(struct coto_setup *setup, struct coto_strv *list)
{
    char output[4200];

    snprintf(output, sizeof output, "%s/output", setup->workdir);
    int failed = coto_strv_add(list, setup->writable_output_only ? output : setup->workdir) ||
                 coto_strv_add(list, "/tmp") || coto_strv_add(list, "/dev/shm");
    for (unsigned i = 0; i < setup->tmpfs_count && !failed; i++)
        failed = coto_strv_add(list, setup->tmpfs[i].target);
    for (unsigned i = 0; i < setup->mount_count && !failed; i++)
        failed = setup->mounts[i].writable && coto_strv_add(list, setup->mounts[i].target);
    return failed;
}

int init_floor_take(struct coto_setup *setup, struct init_floor *ret_floor, struct coto_err *err)
{
    struct init_floor floor = {.is_set = setup->filter != NULL,
                               .filter = setup->filter,
                               .filter_len = setup->filter_len,
                               .landlock_abi = setup->landlock_abi,
                               .caps = setup->caps,
                               .uid = setup->uid,
                               .gid = setup->gid,
                               .noexec = setup->noexec};

    if (floor.is_set && add_writable(setup, &floor.writable))
        return coto_err_set(err, COTO_ERR_LIMIT, ENOMEM, "keep the walls");
    setup->filter = NULL;
    *ret_floor = floor;
    return 0;
}

static bool is_writable(const struct init_floor *floor, const char *path)
{
    for (size_t i = 0; i < floor->writable.count; i++)
        if (strcmp(floor->writable.items[i], path) == 0)
            return true;
    return false;
}

/* The one limit with which no handler of the host gets to see a crash (core/exec.c), unless whoever
 * made us cannot have it either. */
static bool is_without_cores(const struct init_spec *spec)
{
    struct rlimit own = {1, 1};
    bool found = getrlimit(RLIMIT_CORE, &own) == 0 && own.rlim_max == 0;

    for (int i = 0; i < spec->rlimit_count; i++)
        if (spec->rlimits[i].resource == RLIMIT_CORE && own.rlim_max > 0)
            found = spec->rlimits[i].limit.rlim_cur == 1 && spec->rlimits[i].limit.rlim_max == 1;
    return found;
}

/* An own limit that is as low already cannot be raised, by nobody in here. */
static bool is_limited(const struct init_spec *spec, int resource, rlim_t most)
{
    struct rlimit own;
    bool found = false;

    if (getrlimit((unsigned)resource, &own) == 0 && own.rlim_max <= most)
        return true;
    for (int i = 0; i < spec->rlimit_count; i++)
        if (spec->rlimits[i].resource == resource) {
            if (spec->rlimits[i].limit.rlim_max > most)
                return false;
            found = true;
        }
    return found;
}

/* What a program takes of them is missing to the user whose sandbox it is. */
static bool is_limited_as_all(const struct init_spec *spec)
{
    static const struct {
        int resource;
        rlim_t most;
    } limits[] = {{RLIMIT_MEMLOCK, COTO_RLIMIT_MEMLOCK},
                  {RLIMIT_SIGPENDING, COTO_RLIMIT_SIGPENDING},
                  {RLIMIT_MSGQUEUE, 0},
                  {RLIMIT_NICE, 0},
                  {RLIMIT_RTPRIO, 0}};

    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++)
        if (!is_limited(spec, limits[i].resource, limits[i].most))
            return false;
    return true;
}

static const char *what_is_weaker(const struct init_floor *floor, const struct init_spec *spec)
{
    if (spec->filter_len * sizeof *spec->filter != floor->filter_len ||
        memcmp(spec->filter, floor->filter, floor->filter_len) != 0)
        return "seccomp";
    if (spec->landlock_abi < floor->landlock_abi || (floor->noexec && !spec->noexec))
        return "landlock";
    if (!spec->has_uid || spec->uid != floor->uid || spec->gid != floor->gid)
        return "uid";
    if (spec->caps & ~floor->caps)
        return "capabilities";
    for (size_t i = 0; i < spec->writable.count; i++)
        if (!is_writable(floor, spec->writable.items[i]))
            return "landlock";
    if (floor->limits.nproc && !is_limited(spec, RLIMIT_NPROC, floor->limits.nproc))
        return "pids";
    if (floor->limits.data && !is_limited(spec, RLIMIT_DATA, floor->limits.data))
        return "memory";
    if (!is_limited_as_all(spec))
        return "rlimits";
    return is_without_cores(spec) ? NULL : "limit of cores";
}

int init_floor_check(const struct init_floor *floor, const struct init_spec *spec,
                     struct coto_err *err)
{
    const char *wall = floor->is_set ? what_is_weaker(floor, spec) : NULL;

    if (!wall)
        return 0;
    coto_err_set(err, COTO_ERR_FORBIDDEN, 0, "%s: weaker than this sandbox was made for", wall);
    return coto_err_remedy(err, "create a sandbox with the policy that the program needs");
}
