/* What a plan may ask for. The front has refused or cut down what is beyond; it may have been taken
 * over since, so that what it sends is held to the operator's configuration here once more: every
 * size, and everything that would weaken a wall. */
#include "launcher/launcher.h"

#include "policy/plan.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const struct launcher_most launcher_any = {.memory = INT64_MAX,
                                           .cpus = INT64_MAX,
                                           .pids = INT64_MAX,
                                           .disk = INT64_MAX,
                                           .swap = INT64_MAX,
                                           .tmp = INT64_MAX,
                                           .inodes = INT64_MAX,
                                           .seccomp = COTO_SECCOMP_DEFAULT,
                                           .levels = LAUNCHER_STANDARD | LAUNCHER_HIGH,
                                           .idmaps = 1 << COTO_IDMAP_AUTO};

static bool take_ids(struct launcher_most *most, const char *arg)
{
    unsigned uid;
    unsigned gid;

    if (most->id_count == LAUNCHER_IDS || sscanf(arg, "--ids=%u:%u", &uid, &gid) != 2)
        return false;
    most->ids[most->id_count].uid = uid;
    most->ids[most->id_count++].gid = gid;
    return true;
}

static bool take_modules(struct launcher_most *most, const char *arg)
{
    static const char name[] = "--modules=";

    if (most->list_count == LAUNCHER_LISTS || strncmp(arg, name, sizeof name - 1) != 0)
        return false;
    most->modules[most->list_count++] = arg + sizeof name - 1;
    return true;
}

bool launcher_take_most(struct launcher_most *most, const char *arg)
{
    const struct {
        const char *name;
        int64_t *to;
    } rows[] = {{"--memory=", &most->memory}, {"--cpus=", &most->cpus},
                {"--pids=", &most->pids},     {"--disk=", &most->disk},
                {"--swap=", &most->swap},     {"--tmp-size=", &most->tmp},
                {"--inodes=", &most->inodes}, {"--ptys=", &most->ptys},
                {"--caps=", (int64_t *)&most->caps},
                {"--seccomp=", &most->seccomp}, {"--idmaps=", &most->idmaps},
                {"--levels=", &most->levels}};

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        size_t n = strlen(rows[i].name);
        if (strncmp(arg, rows[i].name, n) != 0)
            continue;
        *rows[i].to = strtoll(arg + n, NULL, 10);
        return true;
    }
    return take_ids(most, arg) || take_modules(most, arg);
}

static bool has_ids(const struct launcher_most *most, const struct coto_plan *plan)
{
    for (int i = 0; i < most->id_count; i++)
        if (most->ids[i].uid == plan->uid && most->ids[i].gid == plan->gid)
            return true;
    return most->id_count == 0;
}

/* They are imported outside of all sandboxes: by name, and from this host's own files, but some do things
 * while they are. */
static bool has_modules(const struct launcher_most *most, const struct coto_plan *plan)
{
    for (int i = 0; i < most->list_count && plan->modules; i++)
        if (strcmp(most->modules[i], plan->modules) == 0)
            return true;
    return !plan->modules;
}

/* The name of what is beyond; NULL: nothing is. */
static const char *beyond(const struct launcher_most *most, const struct coto_plan *plan)
{
    const coto_wallset core = coto_plan_core(plan);
    const struct {
        const char *name;
        bool is_beyond;
    } rows[] = {{"memory", plan->memory_bytes > most->memory},
                {"cpus", plan->cpus_milli > most->cpus},
                {"pids", plan->pids > most->pids},
                {"disk", plan->disk_bytes > most->disk},
                {"swap", plan->swap_bytes > most->swap},
                {"tmp-size", plan->tmp_bytes > most->tmp},
                {"inodes", plan->inodes > most->inodes},
                {"ptys", plan->ptys > most->ptys},
                {"cap-add", plan->caps & ~most->caps},
                {"seccomp", plan->seccomp_tier > most->seccomp},
                {"idmap", !(most->idmaps >> plan->idmap & 1)},
                {"user", !has_ids(most, plan)},
                {"modules", !has_modules(most, plan)},
                {"allow-missing", core & ~(plan->need & plan->want)}};

    for (size_t i = 0; i < plan->tmpfs_count; i++)
        if (plan->tmpfs[i].size > most->tmp)
            return "tmpfs";
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (rows[i].is_beyond)
            return rows[i].name;
    return NULL;
}

int launcher_check_most(const struct launcher *l, const struct coto_plan *plan, struct coto_err *err)
{
    if (plan->isolation != COTO_ISOLATION_PROCESS && plan->isolation != l->high.isolation)
        return coto_err_set(err, COTO_ERR_POLICY, 0, "launcher: a level that is not set up");
    if (!(l->most.levels & (plan->isolation == COTO_ISOLATION_PROCESS ? LAUNCHER_STANDARD : LAUNCHER_HIGH)))
        return coto_err_set(err, COTO_ERR_POLICY, 0, "launcher: a level that the operator does not allow");
    const char *name = beyond(&l->most, plan);
    if (!name)
        return 0;
    return coto_err_set(err, COTO_ERR_POLICY, 0, "launcher: %s: the plan is beyond the operator's ceiling",
                        name);
}
