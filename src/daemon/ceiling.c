#include "daemon/ceiling.h"

#include "api/api.h"
#include "policy/nearest.h"
#include "policy/plan.h"

#include <string.h>

static const struct {
    enum coto_setting setting;
    enum coto_opt opt;
} rows[] = {
    {COTO_SET_MAX_MEMORY, COTO_OPT_MEMORY},   {COTO_SET_MAX_CPUS, COTO_OPT_CPUS},
    {COTO_SET_MAX_TIMEOUT, COTO_OPT_TIMEOUT}, {COTO_SET_MAX_PIDS, COTO_OPT_PIDS},
    {COTO_SET_MAX_DISK, COTO_OPT_DISK},       {COTO_SET_MAX_OUTPUT, COTO_OPT_OUTPUT_LIMIT},
    {COTO_SET_MAX_PTYS, COTO_OPT_PTYS},
};

static int check_profiles(const struct coto_settings *settings, struct coto_err *err)
{
    const struct coto_strv *allowed = &settings->text[COTO_SET_ALLOW_PROFILE];
    const char *own = coto_settings_text(settings, COTO_SET_PROFILE);

    for (size_t i = 0; i < allowed->count; i++) {
        bool known = false;
        for (unsigned k = 0; k < coto_profile_count; k++)
            known = known || strcmp(coto_profiles[k].name, allowed->items[i]) == 0;
        if (!known) {
            coto_err_set(err, COTO_ERR_USAGE, 0, "allow-profile: no profile '%.60s'",
                         allowed->items[i]);
            return coto_err_remedy(err, "coto profiles lists all");
        }
    }
    if (coto_ceiling_has_word((const char *const *)allowed->items, own))
        return 0;
    coto_err_set(err, COTO_ERR_USAGE, 0, "profile '%s' is not among allow-profile", own);
    return coto_err_remedy(err, "add it, or set `profile` to one that is");
}

static int check_levels(const struct coto_settings *settings, struct coto_err *err)
{
    const struct coto_strv *allowed = &settings->text[COTO_SET_ALLOW_ISOLATION];

    for (size_t i = 0; i < allowed->count; i++)
        if (strcmp(allowed->items[i], "standard") != 0 && strcmp(allowed->items[i], "high") != 0)
            return coto_err_set(err, COTO_ERR_USAGE, 0,
                                "allow-isolation: '%.60s' is neither standard nor high",
                                allowed->items[i]);
    return 0;
}

int coto_high_isolation(const struct coto_settings *settings)
{
    static const int levels[] = {COTO_ISOLATION_CONTAINER, COTO_ISOLATION_DOCKER,
                                 COTO_ISOLATION_PROCESS};

    return levels[settings->num[COTO_SET_HIGH_ISOLATION]];
}

/* Both are of `coto image`, and looked for from another directory than this one. */
static int check_high_store(const struct coto_settings *settings, struct coto_err *err)
{
    static const enum coto_setting both[] = {COTO_SET_HIGH_IMAGES_DIR, COTO_SET_HIGH_IMAGE_KEY};
    bool has_store = coto_high_isolation(settings) == COTO_ISOLATION_CONTAINER &&
                     *coto_settings_text(settings, COTO_SET_HIGH_IMAGE);

    for (int i = 0; i < 2; i++) {
        const char *text = coto_settings_text(settings, both[i]);
        const char *name = coto_setting_infos[both[i]].name;
        if (*text && !has_store) {
            coto_err_set(err, COTO_ERR_USAGE, 0, "%s: there is no image of `coto image`", name);
            return coto_err_remedy(err, "set high-image, with high-isolation container; an engine "
                                        "keeps its images itself");
        }
        if (*text && *text != '/') {
            coto_err_set(err, COTO_ERR_USAGE, 0, "%s: '%.200s' is no absolute path", name, text);
            return coto_err_remedy(err, "name it from / on");
        }
    }
    return 0;
}

static int check_high_runtime(const struct coto_settings *settings, struct coto_err *err)
{
    const struct coto_api_high high = {
        .isolation = coto_high_isolation(settings),
        .runtime = coto_settings_text(settings, COTO_SET_HIGH_RUNTIME)};

    return coto_api_check_runtime(&high, err) ? coto_err_wrap(err, "high-runtime") : 0;
}

/* The rules of the policy's own options hold. */
static int check_high(const struct coto_settings *settings, struct coto_err *err)
{
    static const struct {
        enum coto_setting setting;
        enum coto_opt opt;
    } names[] = {{COTO_SET_HIGH_RUNTIME, COTO_OPT_RUNTIME},
                 {COTO_SET_HIGH_IMAGE, COTO_OPT_IMAGE},
                 {COTO_SET_HIGH_ALLOW_RUNTIME, COTO_OPT_ALLOW_RUNTIME}};
    struct coto_policy policy;
    int failed = coto_policy_init(&policy, err);

    for (size_t i = 0; i < 3 && !failed; i++) {
        const struct coto_strv *list = &settings->text[names[i].setting];
        for (size_t k = 0; k < list->count && !failed; k++)
            failed = *list->items[k] &&
                     coto_policy_set(&policy, names[i].opt, list->items[k], COTO_SOURCE_FLAG,
                                     coto_setting_infos[names[i].setting].name, err);
    }
    if (!failed)
        failed = check_high_runtime(settings, err) || check_high_store(settings, err);
    if (!failed && settings->text[COTO_SET_HIGH_ALLOW_RUNTIME].count > 8)
        failed = coto_err_set(err, COTO_ERR_USAGE, 0, "high-allow-runtime: 8 at most");
    coto_policy_fini(&policy);
    return failed ? -1 : 0;
}

static int lower(const struct coto_settings *settings, size_t row, struct coto_policy *ceiling, struct coto_err *err)
{
    enum coto_setting id = rows[row].setting;

    if (coto_ceiling_lower(ceiling, rows[row].opt, coto_setting_infos[id].name, coto_settings_text(settings, id), err) == 0)
        return 0;
    return settings->by_file[id] ? coto_err_wrap(err, "%.200s", settings->file) : -1;
}

int coto_ceiling_read(const struct coto_settings *settings, struct coto_policy *ret_ceiling,
                      struct coto_err *err)
{
    int failed = check_profiles(settings, err) || check_levels(settings, err) ||
                 check_high(settings, err) || coto_ceiling_init(ret_ceiling, err);

    for (size_t i = 0; i < sizeof rows / sizeof rows[0] && !failed; i++)
        failed = lower(settings, i, ret_ceiling, err);
    if (!failed && settings->num[COTO_SET_COLD])
        failed = coto_policy_set(ret_ceiling, COTO_OPT_COLD, "true", COTO_SOURCE_FLAG, "cold", err);
    const struct coto_strv *modules = &settings->text[COTO_SET_MODULES];
    for (size_t i = 0; i < modules->count && !failed; i++)
        failed = coto_policy_set(ret_ceiling, COTO_OPT_MODULES, modules->items[i], COTO_SOURCE_FLAG, "modules", err) &&
                 coto_err_remedy(err, "correct it, or leave it out");
    return failed ? -1 : 0;
}

/* ---- of profiles ---- */

static void add_modules(struct coto_ceiling_walls *walls, const struct coto_plan *plan)
{
    int i = 0;

    while (i < walls->list_count && strcmp(walls->modules[i], plan->modules) != 0)
        i++;
    if (!*plan->modules || i < walls->list_count || i == COTO_CEILING_LISTS)
        return;
    walls->modules[i] = strdup(plan->modules);
    walls->list_count += walls->modules[i] != NULL;
}

static void add_plan(struct coto_ceiling_walls *walls, const struct coto_plan *plan)
{
    int i = 0;

    add_modules(walls, plan);
    walls->caps |= plan->caps;
    walls->seccomp = plan->seccomp_tier > walls->seccomp ? plan->seccomp_tier : walls->seccomp;
    walls->idmaps |= 1u << plan->idmap;
    while (i < walls->id_count && (walls->ids[i].uid != plan->uid || walls->ids[i].gid != plan->gid))
        i++;
    if (i < walls->id_count || i == COTO_CEILING_IDS)
        return;
    walls->ids[i].uid = plan->uid;
    walls->ids[i].gid = plan->gid;
    walls->id_count++;
}

/* Whatever it runs: none of this depends on the program. One that cannot be planned on this host is
 * none that the front could plan. */
static void add_profile(struct coto_ceiling_walls *walls, const struct coto_policy *ceiling, const char *name)
{
    static const char *const command[] = {"true", NULL};
    const struct coto_source_code source = {
        .argv = command, .is_command = true, .is_image_elsewhere = true};
    struct coto_err err = {0};
    struct coto_policy policy = {0};
    struct coto_plan plan = {.rootfs = {.fd = -1}};

    if (coto_policy_init(&policy, &err) == 0 &&
        coto_policy_apply_profile(&policy, name, &err) == 0 &&
        coto_ceiling_apply(ceiling, &policy, &err) == 0 &&
        coto_policy_set(&policy, COTO_OPT_ISOLATION, "process", COTO_SOURCE_FLAG, "service", &err) == 0 &&
        coto_policy_check(&policy, &err) == 0 && coto_plan_make(&policy, &source, &plan, &err) == 0)
        add_plan(walls, &plan);
    coto_plan_fini(&plan);
    coto_policy_fini(&policy);
}

void coto_ceiling_walls(const struct coto_settings *settings, const struct coto_policy *ceiling,
                        struct coto_ceiling_walls *ret_walls)
{
    const char *const *allowed = (const char *const *)settings->text[COTO_SET_ALLOW_PROFILE].items;

    const char *const *levels = (const char *const *)settings->text[COTO_SET_ALLOW_ISOLATION].items;

    *ret_walls = (struct coto_ceiling_walls){0};
    ret_walls->levels = (coto_ceiling_has_word(levels, "standard") ? 1u : 0) | (coto_ceiling_has_word(levels, "high") ? 2u : 0);
    for (unsigned i = 0; i < coto_profile_count; i++)
        if (coto_ceiling_has_word(allowed, coto_profiles[i].name))
            add_profile(ret_walls, ceiling, coto_profiles[i].name);
    if (ret_walls->id_count == 0) /* nobody's, for nobody: no plan has root */
        ret_walls->id_count = 1;
}
