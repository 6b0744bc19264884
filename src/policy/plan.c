#include "policy/plan.h"

#include "base/fd.h"
#include "base/own.h"
#include "base/units.h"
#include "policy/plan_int.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#define WORDS_MAX ((size_t)192 * 1024)
#define WORD_EXTRA 8 /* what a word costs beside its bytes */
/* The kernel's MAX_ARG_STRLEN, with the closing NUL. */
#define ITEM_MAX ((size_t)128 * 1024 - 1)

int coto_plan_new_id(char ret_id[COTO_ID_TEXT], struct coto_err *err)
{
    unsigned char b[16];
    char *out = ret_id;

    if (getrandom(b, sizeof b, 0) != (ssize_t)sizeof b)
        return coto_err_set(err, COTO_ERR_SYSTEM, errno, "getrandom");
    b[6] = (unsigned char)((b[6] & 0x0f) | 0x40);
    b[8] = (unsigned char)((b[8] & 0x3f) | 0x80);
    for (size_t i = 0; i < sizeof b; i++) {
        if (i == 4 || i == 6 || i == 8 || i == 10)
            *out++ = '-';
        *out++ = "0123456789abcdef"[b[i] >> 4];
        *out++ = "0123456789abcdef"[b[i] & 15];
    }
    *out = '\0';
    return 0;
}

/* ---- identity ---- */

static int bad_user(const char *text, struct coto_err *err)
{
    coto_err_set(err, COTO_ERR_POLICY, 0, "--user: '%s' is not UID[:GID] with both from 1 to %u",
                 text, (unsigned)UINT32_MAX - 1);
    return coto_err_remedy(err, "give numbers, for example --user 10000:10000");
}

static int parse_id(const char *text, size_t len, uint32_t *ret_id)
{
    char digits[16];
    int64_t value;

    if (len == 0 || len >= sizeof digits)
        return -1;
    memcpy(digits, text, len);
    digits[len] = '\0';
    /* UINT32_MAX means "leave it as it is" to setresuid. */
    if (coto_units_parse_int(digits, &value) || value < 1 || value >= (int64_t)UINT32_MAX)
        return -1;
    *ret_id = (uint32_t)value;
    return 0;
}

static int set_user(const struct coto_policy *policy, struct coto_plan *plan, struct coto_err *err)
{
    const char *text = coto_policy_str(policy, COTO_OPT_USER);
    const char *colon = strchr(text, ':');
    uint32_t uid, gid;

    if (parse_id(text, colon ? (size_t)(colon - text) : strlen(text), &uid))
        return bad_user(text, err);
    gid = uid;
    if (colon && parse_id(colon + 1, strlen(colon + 1), &gid))
        return bad_user(text, err);
    plan->uid = uid;
    plan->gid = gid;
    return 0;
}

/* Without a file system of its own a run works in a fresh directory of the
 * host's, named by its id and made by the driver. */
static int set_temporary_workdir(struct coto_plan *plan, struct coto_err *err)
{
    char path[64];

    snprintf(path, sizeof path, "/tmp/coto-%s", plan->id);
    plan->workdir = strdup(path);
    return plan->workdir ? 0 : coto_plan_no_memory(err);
}

static int set_workdir(const struct coto_policy *policy, struct coto_plan *plan,
                       struct coto_err *err)
{
    if (plan->isolation == COTO_ISOLATION_SUBPROCESS)
        return set_temporary_workdir(plan, err);
    if (coto_plan_normalise("--workdir", coto_policy_str(policy, COTO_OPT_WORKDIR), NULL,
                            &plan->workdir, err) ||
        coto_plan_check_target("--workdir", plan->workdir, err))
        return -1;
    if (strcmp(plan->workdir, "/tmp") == 0) {
        coto_err_set(err, COTO_ERR_POLICY, 0, "--workdir: '/tmp' is a file system of its own");
        return coto_err_remedy(err, "choose a directory of its own, such as /workspace or /tmp/w");
    }
    return 0;
}

static bool is_container(const struct coto_plan *plan)
{
    return plan->isolation == COTO_ISOLATION_CONTAINER || plan->isolation == COTO_ISOLATION_DOCKER;
}

static int set_container(const struct coto_policy *policy, struct coto_plan *plan,
                         struct coto_err *err)
{
    const char *runtime = coto_policy_str(policy, COTO_OPT_RUNTIME);
    const struct coto_strv *allowed = coto_policy_list(policy, COTO_OPT_ALLOW_RUNTIME);

    if (!is_container(plan))
        return 0;
    plan->image_is_default = policy->v[COTO_OPT_IMAGE].source <= COTO_SOURCE_PROFILE;
    if (!*coto_policy_str(policy, COTO_OPT_ROOTFS))
        plan->image = strdup(coto_policy_str(policy, COTO_OPT_IMAGE));
    if (*runtime)
        plan->runtime = strdup(runtime);
    for (size_t i = 0; i < allowed->count; i++)
        if (coto_strv_add(&plan->allow_runtime, allowed->items[i]))
            return coto_plan_no_memory(err);
    if ((*runtime && !plan->runtime) || (!*coto_policy_str(policy, COTO_OPT_ROOTFS) && !plan->image))
        return coto_plan_no_memory(err);
    return 0;
}

#define MODULES_MAX 4000 /* of their names: they are an argument of the interpreter's */

static int set_modules(const struct coto_policy *policy, struct coto_plan *plan, struct coto_err *err)
{
    const struct coto_strv *list = coto_policy_list(policy, COTO_OPT_MODULES);
    coto_auto_buf text = {0};

    for (size_t i = 0; i < list->count; i++)
        coto_buf_addf(&text, "%s%s", i ? "," : "", list->items[i]);
    if (text.len > MODULES_MAX) {
        coto_err_set(err, COTO_ERR_POLICY, 0, "--modules: more than %d characters of names", MODULES_MAX);
        return coto_err_remedy(err, "name the packages that import the others");
    }
    plan->modules = text.failed ? NULL : strdup(coto_buf_str(&text));
    return plan->modules ? 0 : coto_plan_no_memory(err);
}

static int set_names(const struct coto_policy *policy, struct coto_plan *plan,
                     struct coto_err *err)
{
    if (set_workdir(policy, plan, err) || set_container(policy, plan, err) || set_modules(policy, plan, err))
        return -1;
    plan->user_name = strdup(coto_policy_str(policy, COTO_OPT_USER_NAME));
    plan->hostname = strdup(coto_policy_str(policy, COTO_OPT_HOSTNAME));
    plan->apparmor = strdup(coto_policy_str(policy, COTO_OPT_APPARMOR));
    if (!plan->user_name || !plan->hostname || !plan->apparmor)
        return coto_plan_no_memory(err);
    return set_user(policy, plan, err);
}

/* ---- numbers ---- */

static void set_limits(const struct coto_policy *p, struct coto_plan *plan)
{
    plan->timeout_ms = coto_policy_num(p, COTO_OPT_TIMEOUT);
    plan->cpu_time_ms = coto_policy_num(p, COTO_OPT_CPU_TIME);
    plan->memory_bytes = coto_policy_num(p, COTO_OPT_MEMORY);
    plan->swap_bytes = coto_policy_num(p, COTO_OPT_SWAP);
    plan->cpus_milli = coto_policy_num(p, COTO_OPT_CPUS);
    plan->pids = coto_policy_num(p, COTO_OPT_PIDS);
    plan->disk_bytes = coto_policy_num(p, COTO_OPT_DISK);
    plan->tmp_bytes = coto_policy_num(p, COTO_OPT_TMP_SIZE);
    plan->inodes = coto_policy_num(p, COTO_OPT_INODES);
    plan->output_bytes = coto_policy_num(p, COTO_OPT_OUTPUT_LIMIT);
    plan->nofile = coto_policy_num(p, COTO_OPT_NOFILE);
    plan->ptys = coto_policy_num(p, COTO_OPT_PTYS);
    plan->fsize_bytes = coto_policy_num(p, COTO_OPT_FSIZE);
    plan->iops = coto_policy_num(p, COTO_OPT_IOPS);
    plan->output_kill = coto_policy_num(p, COTO_OPT_ON_OUTPUT_LIMIT) == COTO_OUTPUT_KILL;
    plan->writable_output_only = coto_policy_num(p, COTO_OPT_WRITABLE) == COTO_WRITABLE_OUTPUT;
    plan->cold = coto_policy_num(p, COTO_OPT_COLD) != 0;
    plan->noexec = coto_policy_num(p, COTO_OPT_NOEXEC) != 0;
    plan->want_artifacts = *coto_policy_str(p, COTO_OPT_ARTIFACTS) != '\0';
    plan->isolation = (int)coto_policy_num(p, COTO_OPT_ISOLATION);
    plan->seccomp_tier = (int)coto_policy_num(p, COTO_OPT_SECCOMP);
    plan->idmap = (int)coto_policy_num(p, COTO_OPT_IDMAP);
}

const struct coto_plan_cap coto_plan_caps[COTO_PLAN_CAP_COUNT] = {
    {"chown", 0}, {"fowner", 3}, {"setgid", 6}, {"setuid", 7}};

static int set_caps(const struct coto_policy *policy, struct coto_plan *plan, struct coto_err *err)
{
    const struct coto_strv *list = coto_policy_list(policy, COTO_OPT_CAP_ADD);

    for (size_t i = 0; i < list->count; i++) {
        const char *name = list->items[i];
        size_t k = 0;
        if (strncasecmp(name, "cap_", 4) == 0)
            name += 4;
        while (k < COTO_PLAN_CAP_COUNT && strcasecmp(name, coto_plan_caps[k].name) != 0)
            k++;
        if (k == COTO_PLAN_CAP_COUNT) {
            coto_err_set(err, COTO_ERR_POLICY, 0, "--cap-add: '%s' cannot be added back",
                         list->items[i]);
            return coto_err_remedy(err, "choose among chown, fowner, setgid, setuid");
        }
        plan->caps |= (uint64_t)1 << coto_plan_caps[k].bit;
    }
    return 0;
}

/* ---- walls ---- */

static coto_wallset core_walls(void)
{
    coto_wallset set = 0;

    for (int i = 0; i < COTO_WALL_COUNT; i++)
        if (coto_walls[i].class == COTO_WALL_CORE)
            set |= (coto_wallset)1 << i;
    return set;
}

static coto_wallset limit_walls(const struct coto_plan *plan)
{
    const struct {
        int64_t value;
        coto_wallset bits;
    } limits[] = {
        {plan->timeout_ms, COTO_WALL_BIT(TIMEOUT)},
        {plan->cpu_time_ms, COTO_WALL_BIT(CPU_TIME)},
        {plan->memory_bytes, COTO_WALL_BIT(MEMORY)},
        {plan->memory_bytes, plan->swap_bytes != COTO_UNIT_NONE ? COTO_WALL_BIT(SWAP) : 0},
        {plan->cpus_milli, COTO_WALL_BIT(CPU)},
        {plan->pids, COTO_WALL_BIT(PIDS)},
        {plan->disk_bytes, COTO_WALL_BIT(DISK)},
        {plan->inodes, COTO_WALL_BIT(INODES)},
        {plan->output_bytes, COTO_WALL_BIT(OUTPUT)},
        {plan->nofile, COTO_WALL_BIT(NOFILE)},
        {plan->fsize_bytes, COTO_WALL_BIT(FSIZE)},
        {plan->iops, COTO_WALL_BIT(IOPS)},
    };
    coto_wallset set = 0;

    for (size_t i = 0; i < sizeof limits / sizeof limits[0]; i++)
        if (limits[i].value != COTO_UNIT_NONE)
            set |= limits[i].bits;
    return set;
}

static int wall_list(const struct coto_policy *policy, enum coto_opt opt, coto_wallset all,
                     coto_wallset *ret_set, struct coto_err *err)
{
    const struct coto_strv *list = coto_policy_list(policy, opt);
    coto_wallset set = 0;

    for (size_t i = 0; i < list->count; i++) {
        int wall = coto_wall_find(list->items[i]);
        if (wall >= 0) {
            set |= (coto_wallset)1 << wall;
        } else if (strcmp(list->items[i], "all") == 0) {
            set |= all;
        } else {
            coto_err_set(err, COTO_ERR_POLICY, 0, "--%s: '%s' is not a wall or limit",
                         coto_options[opt].name, list->items[i]);
            return coto_err_remedy(err, "coto doctor lists them all by name");
        }
    }
    *ret_set = set;
    return 0;
}

static int limit_not_set(coto_wallset named, struct coto_err *err)
{
    for (int i = 0; i < COTO_WALL_COUNT; i++)
        if (named >> i & 1)
            coto_err_set(err, COTO_ERR_POLICY, 0,
                         "--require: '%s' is required but the policy sets no such limit",
                         coto_walls[i].name);
    return coto_err_remedy(err, "give the limit a value, or leave it out of --require");
}

/* Where the kernel has no AppArmor, Landlock does its work and nothing is missing. */
static coto_wallset apparmor_wall(const struct coto_plan *plan)
{
    static _Thread_local char word[2]; /* as the kernel was started */

    if (plan->apparmor && !word[0] &&
        coto_file_read_at(AT_FDCWD, "/sys/module/apparmor/parameters/enabled", word, sizeof word) <= 0)
        word[0] = 'N';
    return plan->apparmor && word[0] == 'Y' ? COTO_WALL_BIT(APPARMOR) : 0;
}

/* No level wants less than the policy says: what a level can never give is missing from
 * its result, by name, and only not a reason to refuse. Engines share the host's user
 * namespace unless they are told otherwise, and gVisor's kernel has no Landlock. */
static coto_wallset cannot_be_had(const struct coto_plan *plan)
{
    if (plan->isolation == COTO_ISOLATION_SUBPROCESS)
        return ~(coto_wallset)0;
    return is_container(plan) ? COTO_WALL_BIT(USERNS) | COTO_WALL_BIT(LANDLOCK) : 0;
}

coto_wallset coto_plan_core(const struct coto_plan *plan)
{
    return core_walls() & ~cannot_be_had(plan);
}

static int set_walls(const struct coto_policy *policy, struct coto_plan *plan,
                     struct coto_err *err)
{
    coto_wallset core = core_walls();
    coto_wallset full = core | COTO_WALL_BIT(UNIQUE_UID) | limit_walls(plan);
    coto_wallset require, missing;

    if (strcmp(plan->apparmor, "none") == 0) {
        free(plan->apparmor);
        plan->apparmor = NULL;
    }
    full |= apparmor_wall(plan);

    /* "all" always means what the process level would raise: on a weaker level
     * it must lead to a refusal, not shrink to what that level has. */
    if (wall_list(policy, COTO_OPT_REQUIRE, full, &require, err) ||
        wall_list(policy, COTO_OPT_ALLOW_MISSING, full, &missing, err))
        return -1;
    if (plan->apparmor)
        full |= require & COTO_WALL_BIT(APPARMOR);
    if (require & ~full)
        return limit_not_set(require & ~full, err);
    plan->need = (coto_plan_core(plan) & ~missing) | require;
    plan->want = full;
    return 0;
}

/* ---- environment ---- */

static int env_set(struct coto_strv *env, const char *item, struct coto_err *err)
{
    const char *equals = strchr(item, '=');

    if (!equals || equals == item) {
        coto_err_set(err, COTO_ERR_POLICY, 0, "--env: '%.64s' is not KEY=VALUE", item);
        return coto_err_remedy(err, "write it as NAME=value; nothing is inherited");
    }
    size_t key_len = (size_t)(equals - item) + 1;
    if (strlen(item) > ITEM_MAX) {
        coto_err_set(err, COTO_ERR_POLICY, 0, "--env: the value of '%.*s' is over 128 KiB",
                     (int)(key_len - 1 < 64 ? key_len - 1 : 64), item);
        return coto_err_remedy(err, "pass it as a file: --copy FILE");
    }
    for (size_t i = 0; i < env->count; i++) {
        if (strncmp(env->items[i], item, key_len) != 0)
            continue;
        char *copy = strdup(item);
        if (!copy)
            return coto_plan_no_memory(err);
        free(env->items[i]);
        env->items[i] = copy;
        return 0;
    }
    return coto_strv_add(env, item) ? coto_plan_no_memory(err) : 0;
}

static int env_setf(struct coto_strv *env, struct coto_err *err, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
static int env_setf(struct coto_strv *env, struct coto_err *err, const char *fmt, ...)
{
    coto_auto_buf item = {0};
    va_list ap;

    va_start(ap, fmt);
    coto_buf_vaddf(&item, fmt, ap);
    va_end(ap);
    return item.failed ? coto_plan_no_memory(err) : env_set(env, coto_buf_str(&item), err);
}

static int env_language(struct coto_plan *plan, struct coto_err *err)
{
    struct coto_plan_names names = {.dir = plan->workdir,
                                    .scratch = coto_plan_scratch(plan),
                                    .memory = plan->memory_bytes};

    if (!plan->language)
        return 0;
    for (size_t i = 0; plan->language->env[i]; i++) {
        coto_auto_buf item = {0};
        if (coto_plan_expand(plan->language->env[i], &names, &item))
            continue;
        if (item.failed)
            return coto_plan_no_memory(err);
        if (env_set(&plan->env, coto_buf_str(&item), err))
            return -1;
    }
    return 0;
}

static int set_env(const struct coto_policy *policy, bool is_watched, struct coto_plan *plan,
                   struct coto_err *err)
{
    const struct coto_strv *extra = coto_policy_list(policy, COTO_OPT_ENV);
    struct coto_strv *env = &plan->env;

    if (env_set(env, "PATH=" COTO_PLAN_PATH, err) ||
        env_setf(env, err, "HOME=%s", plan->workdir) ||
        env_setf(env, err, "USER=%s", plan->user_name) ||
        env_setf(env, err, "LOGNAME=%s", plan->user_name) ||
        env_set(env, "SHELL=/bin/sh", err) || env_set(env, "LANG=C.UTF-8", err) ||
        /* Without a file system of its own there is no /tmp of its own either. */
        env_setf(env, err, "TMPDIR=%s",
                 plan->isolation == COTO_ISOLATION_SUBPROCESS ? plan->workdir : "/tmp") ||
        env_setf(env, err, "COTO_OUTPUT=%s/output", plan->workdir) || env_language(plan, err))
        return -1;
    /* Into a pipe, which is what the program has, Python writes when it ends or has 8 KiB. */
    if (is_watched && env_set(env, "PYTHONUNBUFFERED=1", err))
        return -1;
    for (size_t i = 0; i < extra->count; i++)
        if (env_set(env, extra->items[i], err))
            return -1;
    return 0;
}

/* ---- the whole ---- */

static size_t size_of(const struct coto_strv *words)
{
    size_t total = 0;

    for (size_t i = 0; i < words->count; i++)
        total += strlen(words->items[i]) + WORD_EXTRA;
    return total;
}

/* They travel to the program in one message, and that has a limit at every level. Told here, before a
 * sandbox is touched. */
static int check_words(const struct coto_plan *plan, struct coto_err *err)
{
    const size_t env = size_of(&plan->env);

    for (int i = 0; i < plan->stage_count; i++)
        if (size_of(&plan->stages[i].argv) + env > WORDS_MAX) {
            coto_err_set(err, COTO_ERR_USAGE, 0, "arguments and environment: together over 192 KiB");
            return coto_err_remedy(err, "pass large data on standard input or as a file");
        }
    return 0;
}

static int fill(const struct coto_policy *policy, const struct coto_source_code *code,
                struct coto_plan *plan, struct coto_err *err)
{
    set_limits(policy, plan);
    snprintf(plan->profile, sizeof plan->profile, "%s",
             coto_policy_str(policy, COTO_OPT_PROFILE));
    coto_policy_hash(policy, plan->policy_hash);
    plan->is_image_elsewhere = code->is_image_elsewhere;
    if (coto_plan_new_id(plan->id, err) || set_names(policy, plan, err) || set_caps(policy, plan, err) ||
        set_walls(policy, plan, err) || coto_plan_add_paths(policy, plan, err) ||
        coto_plan_add_code(policy, code, plan, err))
        return -1;
    return set_env(policy, code->is_watched, plan, err) || check_words(plan, err) ? -1 : 0;
}

int coto_plan_make(const struct coto_policy *policy, const struct coto_source_code *code,
                   struct coto_plan *ret_plan, struct coto_err *err)
{
    struct coto_plan plan = {.rootfs = {.fd = -1}};

    if (fill(policy, code, &plan, err)) {
        coto_plan_fini(&plan);
        return -1;
    }
    *ret_plan = plan;
    return 0;
}

static void path_fini(struct coto_plan_path *path)
{
    /* A zeroed path owns nothing, although its fd reads 0. */
    if (path->source && path->fd >= 0)
        close(path->fd);
    free(path->source);
    free(path->target);
    *path = (struct coto_plan_path){.fd = -1};
}

void coto_plan_fini(struct coto_plan *plan)
{
    for (int i = 0; i < plan->stage_count; i++)
        coto_strv_fini(&plan->stages[i].argv);
    coto_strv_fini(&plan->env);
    free(plan->user_name);
    free(plan->hostname);
    free(plan->modules);
    free(plan->apparmor);
    free(plan->image);
    if (plan->image_digest[0])
        close(plan->image_lock);
    free(plan->runtime);
    coto_strv_fini(&plan->allow_runtime);
    free(plan->workdir);
    for (size_t i = 0; i < plan->mount_count; i++)
        path_fini(&plan->mounts[i]);
    for (size_t i = 0; i < plan->copy_count; i++)
        path_fini(&plan->copies[i]);
    for (size_t i = 0; i < plan->file_count; i++) {
        free(plan->files[i].target);
        free(plan->files[i].data);
    }
    for (size_t i = 0; i < plan->tmpfs_count; i++)
        free(plan->tmpfs[i].target);
    free(plan->mounts);
    free(plan->copies);
    free(plan->files);
    free(plan->tmpfs);
    path_fini(&plan->rootfs);
    *plan = (struct coto_plan){.rootfs = {.fd = -1}};
}
