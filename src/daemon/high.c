#include "daemon/high.h"

#include "daemon/ceiling.h"
#include "kernel/self.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

struct coto_api_high coto_high_of(const struct coto_settings *settings)
{
    return (struct coto_api_high){
        .isolation = coto_high_isolation(settings),
        .runtime = coto_settings_text(settings, COTO_SET_HIGH_RUNTIME),
        .image = coto_settings_text(settings, COTO_SET_HIGH_IMAGE),
        .allowed = (const char *const *)settings->text[COTO_SET_HIGH_ALLOW_RUNTIME].items,
        .pool_min = (unsigned)settings->num[COTO_SET_HIGH_POOL_MIN],
        .pool_max = (unsigned)settings->num[COTO_SET_HIGH_POOL_MAX]};
}

/* Who has set nothing of it may not know that there is such a level, and hears of it when asking. */
static bool is_asked_for(const struct coto_settings *s)
{
    static const enum coto_setting ids[] = {COTO_SET_HIGH_IMAGE, COTO_SET_HIGH_ISOLATION, COTO_SET_HIGH_RUNTIME,
                                            COTO_SET_HIGH_POOL_MIN};
    bool is_set = false;

    for (size_t i = 0; i < sizeof ids / sizeof *ids; i++)
        is_set = is_set || s->by_flag[ids[i]] || s->by_file[ids[i]];
    return is_set && coto_high_isolation(s) != COTO_ISOLATION_PROCESS &&
           coto_ceiling_has_word((const char *const *)s->text[COTO_SET_ALLOW_ISOLATION].items, "high");
}

/* Where the launcher looks for the image, and what it has to be signed with. */
static int set_store(const struct coto_settings *settings, struct coto_policy *policy, struct coto_err *err)
{
    const char *dir = coto_settings_text(settings, COTO_SET_HIGH_IMAGES_DIR);
    const char *key = coto_settings_text(settings, COTO_SET_HIGH_IMAGE_KEY);

    if (*dir && coto_policy_set(policy, COTO_OPT_IMAGES_DIR, dir, COTO_SOURCE_FLAG, "high-images-dir", err))
        return -1;
    return *key ? coto_policy_set(policy, COTO_OPT_IMAGE_KEY, key, COTO_SOURCE_FLAG, "high-image-key", err) : 0;
}

int coto_high_check(const struct coto_settings *settings, struct coto_err *err)
{
    const struct coto_source_code nothing = {.text = ""};
    const struct coto_api_high high = coto_high_of(settings);
    struct coto_policy policy = {0};
    struct coto_plan plan = {.rootfs = {.fd = -1}};
    int failed = coto_policy_init(&policy, err) ||
                 coto_policy_apply_profile(&policy, coto_settings_text(settings, COTO_SET_PROFILE), err) ||
                 coto_policy_set(&policy, COTO_OPT_LANG, "python", COTO_SOURCE_PROFILE, "service", err) ||
                 coto_api_set_high(&high, &policy, err) || set_store(settings, &policy, err) ||
                 coto_plan_make(&policy, &nothing, &plan, err) || coto_api_check_plan(&plan, err);

    coto_plan_fini(&plan);
    coto_policy_fini(&policy);
    return failed ? -1 : 0;
}

/* What `coto run` calls --runtime is --high-runtime here. */
static void as_settings(const char *text, struct coto_buf *out)
{
    for (const char *flag; (flag = strstr(text, "--")); text = flag + 2) {
        char name[40];
        snprintf(name, sizeof name, "high-%.*s", (int)strspn(flag + 2, "abcdefghijklmnopqrstuvwxyz-"), flag + 2);
        coto_buf_add(out, text, (size_t)(flag - text));
        coto_buf_adds(out, coto_settings_has(name) ? "--high-" : "--");
    }
    coto_buf_adds(out, text);
}

void coto_high_warn(const struct coto_settings *settings)
{
    struct coto_err err = {0};
    coto_auto_buf remedy = {0};

    if (!is_asked_for(settings) || coto_high_check(settings, &err) == 0)
        return;
    fprintf(stderr, "coto serve: warning: isolation_level high cannot be had here, and requests for it are refused: %s\n", err.text);
    as_settings(err.remedy, &remedy);
    if (remedy.len)
        fprintf(stderr, "  remedy: %s; or --high-isolation none\n", coto_buf_str(&remedy));
}

void coto_high_warn_beside(const struct coto_settings *settings)
{
    struct coto_self self;
    struct coto_err err = {0};
    sigset_t none;

    if (!is_asked_for(settings) || fork() != 0)
        return;
    /* As the launcher will be, of whose abilities it tells. */
    if (coto_self_confine(coto_self_launcher_needs(true), NULL, &self, &err))
        _exit(0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    prctl(PR_SET_NAME, "coto-high");
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    coto_high_warn(settings);
    _exit(0);
}
