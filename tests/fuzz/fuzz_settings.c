/* The text of /etc/coto/serve.yaml: taken within the bounds of each row, or refused with words; what a
 * flag said stays; what the text does not name keeps its default. The ceiling that comes of it is
 * never above the service's own. The first byte chooses flags. */
#include "api/api.h"
#include "daemon/ceiling.h"
#include "daemon/settings.h"
#include "policy/pairs.h"
#include "policytext.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool holds)
{
    if (!holds)
        abort();
}

static bool is_named(const struct coto_buf *pairs, const char *name)
{
    const char *key, *value;

    for (size_t pos = 0; coto_policy_next_pair(pairs, &pos, &key, &value);)
        if (strcmp(key, name) == 0)
            return true;
    return false;
}

static void set_flags(struct coto_settings *settings, unsigned bits)
{
    static const char *const flags[] = {"--max-memory=64m", "--port=none", "--allow-profile=default",
                                        "--pool-max=3"};
    char *argv[6] = {(char *)(uintptr_t)"coto-serve", (char *)(uintptr_t)"--help"};
    int argc = 2; /* with --help no file is read */
    struct coto_serve_args args;
    struct coto_err err = {0};

    for (unsigned i = 0; i < 4; i++)
        if (bits >> i & 1)
            argv[argc++] = (char *)(uintptr_t)flags[i];
    must(coto_settings_load(settings, argc, argv, &args, &err) == 0 && args.help);
    strcpy(settings->file, "serve.yaml");
}

static void check_number(int id, int64_t num)
{
    const struct coto_setting_info *info = &coto_setting_infos[id];
    int words = 1;

    for (const char *p = info->metavar; *p; p++)
        words += *p == '|';
    if (info->type == COTO_SETTING_ENUM)
        must(num >= 0 && num < words);
    else if (info->type == COTO_SETTING_INT || info->type == COTO_SETTING_DURATION)
        must((num >= info->min && num <= info->max) ||
             (id == COTO_SET_PORT && num == COTO_SETTING_NONE));
}

static void check_values(const struct coto_settings *had, const struct coto_settings *now,
                         const struct coto_buf *pairs)
{
    for (int i = 0; i < COTO_SET_COUNT; i++) {
        const struct coto_setting_info *info = &coto_setting_infos[i];
        check_number(i, now->num[i]);
        must(info->type != COTO_SETTING_TEXT || now->text[i].count <= 1);
        must(now->by_flag[i] == had->by_flag[i]);
        if (had->by_flag[i] || !is_named(pairs, info->name))
            must(coto_settings_same(had, now, (enum coto_setting)i));
    }
}

static void check_ceiling(const struct coto_settings *settings)
{
    struct coto_policy most, ceiling = {0};
    struct coto_err err = {0};

    must(coto_ceiling_init(&most, &err) == 0);
    if (coto_ceiling_read(settings, &ceiling, &err))
        must(err.kind != COTO_ERR_NONE && err.text[0]);
    else
        for (int i = 0; i < COTO_OPT_COUNT; i++)
            must(ceiling.v[i].num <= most.v[i].num);
    coto_policy_fini(&most);
    coto_policy_fini(&ceiling);
}

/* What others can reach has all that protects it. */
static void check_whole(const struct coto_settings *settings)
{
    struct coto_err err = {0};

    if (coto_settings_check(settings, &err)) {
        must(err.kind != COTO_ERR_NONE && err.text[0]);
        return;
    }
    must(settings->num[COTO_SET_POOL_MIN] <= settings->num[COTO_SET_POOL_MAX]);
    if (settings->text[COTO_SET_LISTEN].count)
        must(*coto_settings_text(settings, COTO_SET_TLS_CERTIFICATE) &&
             *coto_settings_text(settings, COTO_SET_TLS_KEY) &&
             *coto_settings_text(settings, COTO_SET_CLIENT_CA) &&
             *coto_settings_text(settings, COTO_SET_JWT_KEY));
    check_ceiling(settings);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct coto_settings had, now;
    struct coto_err err = {0};
    coto_auto_buf pairs = {0};

    if (size < 1 || !coto_fuzz_pairs(data + 1, size - 1, &pairs))
        return 0;
    must(coto_settings_init(&had, &err) == 0 && coto_settings_init(&now, &err) == 0);
    set_flags(&had, data[0]);
    set_flags(&now, data[0]);
    if (coto_settings_take_pairs(&now, &pairs, &err))
        must(err.kind != COTO_ERR_NONE && err.text[0]);
    else
        check_whole(&now);
    check_values(&had, &now, &pairs); /* of a refused text too: one that is read again at SIGHUP */
    coto_settings_fini(&had);
    coto_settings_fini(&now);
    return 0;
}
