#include "daemon/settings.h"

#include "auth/jwt.h"
#include "base/fd.h"
#include "base/trust.h"
#include "base/units.h"
#include "http/server.h"
#include "policy/nearest.h"
#include "policy/pairs.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define TOKEN_NAME_MAX 255

/* ---- one value ---- */

static int refuse(const char *who, const char *text, enum coto_setting id, struct coto_err *err)
{
    const struct coto_setting_info *info = &coto_setting_infos[id];
    coto_auto_buf allowed = {0};

    if (info->type == COTO_SETTING_INT) {
        coto_buf_addf(&allowed, "%lld to %lld", (long long)info->min, (long long)info->max);
    } else if (info->type == COTO_SETTING_DURATION) {
        coto_units_add_duration(&allowed, info->min);
        coto_buf_adds(&allowed, " to ");
        coto_units_add_duration(&allowed, info->max);
    } else {
        coto_buf_adds(&allowed, info->metavar);
    }
    return coto_err_set(err, COTO_ERR_USAGE, 0, "%s: '%.100s' is not possible; allowed: %s", who,
                        text, coto_buf_str(&allowed));
}

/* Index of a word in "a|b|c", or -1. */
static int64_t find_word(const char *words, const char *word)
{
    size_t len = strlen(word);

    for (int64_t i = 0; len > 0; i++) {
        size_t n = strcspn(words, "|");
        if (n == len && memcmp(words, word, n) == 0)
            return i;
        if (!words[n])
            break;
        words += n + 1;
    }
    return -1;
}

/* A file may say true where a flag says yes. */
static const char *as_word(const char *words, const char *text)
{
    if (strcmp(words, "no|yes") != 0)
        return text;
    return strcmp(text, "true") == 0 ? "yes" : strcmp(text, "false") == 0 ? "no" : text;
}

static bool parse_num(enum coto_setting id, const char *text, int64_t *ret_num)
{
    const struct coto_setting_info *info = &coto_setting_infos[id];
    int64_t num = -1;

    if (info->type == COTO_SETTING_ENUM) {
        num = find_word(info->metavar, as_word(info->metavar, text));
        *ret_num = num >= 0 ? num : *ret_num;
        return num >= 0;
    }
    if (id == COTO_SET_PORT && strcmp(text, "none") == 0) {
        *ret_num = COTO_SETTING_NONE;
        return true;
    }
    int failed = info->type == COTO_SETTING_INT ? coto_units_parse_int(text, &num)
                                                : coto_units_parse_duration(text, &num);
    if (failed || num < info->min || num > info->max)
        return false;
    *ret_num = num;
    return true;
}

static int set(struct coto_settings *s, enum coto_setting id, const char *text, const char *who,
               struct coto_err *err)
{
    const struct coto_setting_info *info = &coto_setting_infos[id];

    if (info->type != COTO_SETTING_TEXT && info->type != COTO_SETTING_LIST)
        return parse_num(id, text, &s->num[id]) ? 0 : refuse(who, text, id, err);
    if (info->type == COTO_SETTING_TEXT)
        coto_strv_fini(&s->text[id]);
    if (*text && coto_strv_add(&s->text[id], text))
        return coto_err_set(err, COTO_ERR_SYSTEM, ENOMEM, "%s", who);
    return 0;
}

static int find(const char *name, size_t len)
{
    for (int i = 0; i < COTO_SET_COUNT; i++)
        if (strlen(coto_setting_infos[i].name) == len &&
            memcmp(coto_setting_infos[i].name, name, len) == 0)
            return i;
    return -1;
}

bool coto_settings_has(const char *name)
{
    return find(name, strlen(name)) >= 0;
}

/* Of flags there are some more than settings. */
static int refuse_name(const char *who, const char *name, bool is_flag, struct coto_err *err)
{
    static const char *const more[] = {"config", "check", "help"};
    struct coto_nearest best = {0};

    for (size_t i = 0; is_flag && i < sizeof more / sizeof *more; i++)
        coto_nearest_offer(&best, name, more[i]);
    for (int i = 0; i < COTO_SET_COUNT; i++)
        coto_nearest_offer(&best, name, coto_setting_infos[i].name);
    coto_err_set(err, COTO_ERR_USAGE, 0, "%s: no setting '%.60s'", who, name);
    if (best.name)
        return coto_err_remedy(err, "did you mean '%s'?", best.name);
    return coto_err_remedy(err, "coto serve --help lists all");
}

int coto_settings_init(struct coto_settings *settings, struct coto_err *err)
{
    *settings = (struct coto_settings){0};
    for (int i = 0; i < COTO_SET_COUNT; i++)
        if (set(settings, (enum coto_setting)i, coto_setting_infos[i].def, "default", err))
            return -1;
    return 0;
}

void coto_settings_fini(struct coto_settings *settings)
{
    for (int i = 0; i < COTO_SET_COUNT; i++)
        coto_strv_fini(&settings->text[i]);
}

const char *coto_settings_text(const struct coto_settings *settings, enum coto_setting id)
{
    return settings->text[id].count ? settings->text[id].items[0] : "";
}

bool coto_settings_same(const struct coto_settings *a, const struct coto_settings *b,
                        enum coto_setting id)
{
    if (a->num[id] != b->num[id] || a->text[id].count != b->text[id].count)
        return false;
    for (size_t i = 0; i < a->text[id].count; i++)
        if (strcmp(a->text[id].items[i], b->text[id].items[i]) != 0)
            return false;
    return true;
}

/* ---- the file ---- */

/* Whoever can write to it decides who is let in. */
static int open_file(const char *path, struct coto_err *err)
{
    coto_auto_fd fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    struct stat st;

    if (fd < 0 || fstat(fd, &st))
        return coto_err_set(err, COTO_ERR_INPUT, errno, "configuration '%s'", path);
    if (!S_ISREG(st.st_mode))
        return coto_err_set(err, COTO_ERR_INPUT, 0, "configuration '%s': not a regular file", path);
    if (coto_trust_file("configuration", path, err))
        return -1;
    int high = fcntl(fd, F_DUPFD_CLOEXEC, 3);
    return high >= 0 ? high : coto_err_set(err, COTO_ERR_SYSTEM, errno, "configuration '%s'", path);
}

static int take_pair(struct coto_settings *s, const char *key, const char *value, bool again,
                     struct coto_err *err)
{
    int id = find(key, strlen(key));
    char who[300];

    if (id < 0)
        return refuse_name(s->file, key, false, err);
    if (s->by_flag[id])
        return 0;
    snprintf(who, sizeof who, "%.200s: %s", s->file, key);
    if (again && coto_setting_infos[id].type != COTO_SETTING_LIST)
        return coto_err_set(err, COTO_ERR_USAGE, 0, "%s: takes one value, not a list", who);
    if (!again)
        coto_strv_fini(&s->text[id]);
    s->by_file[id] = true;
    return set(s, (enum coto_setting)id, value, who, err);
}

int coto_settings_take_pairs(struct coto_settings *settings, const struct coto_buf *pairs,
                             struct coto_err *err)
{
    const char *last = "";
    const char *key;
    const char *value;

    for (size_t pos = 0; coto_policy_next_pair(pairs, &pos, &key, &value); last = key)
        if (take_pair(settings, key, value, strcmp(key, last) == 0, err))
            return -1;
    return 0;
}

static bool is_text_of(int id, enum coto_setting_when when)
{
    const struct coto_setting_info *info = &coto_setting_infos[id];

    return info->when == when && (info->type == COTO_SETTING_LIST || info->type == COTO_SETTING_TEXT);
}

void coto_settings_add_texts(const struct coto_settings *settings, enum coto_setting_when when, struct coto_buf *ret_pairs)
{
    for (int i = 0; i < COTO_SET_COUNT; i++)
        for (size_t k = 0; is_text_of(i, when) && k < settings->text[i].count; k++) {
            coto_buf_add(ret_pairs, coto_setting_infos[i].name, strlen(coto_setting_infos[i].name) + 1);
            coto_buf_add(ret_pairs, settings->text[i].items[k], strlen(settings->text[i].items[k]) + 1);
        }
}

int coto_settings_take_texts(struct coto_settings *settings, enum coto_setting_when when, const struct coto_buf *pairs,
                             struct coto_err *err)
{
    for (int i = 0; i < COTO_SET_COUNT; i++)
        if (is_text_of(i, when) && !settings->by_flag[i])
            coto_strv_fini(&settings->text[i]);
    return coto_settings_take_pairs(settings, pairs, err);
}

void coto_settings_swap(struct coto_settings *a, struct coto_settings *b, enum coto_setting id)
{
    struct coto_strv text = a->text[id];
    int64_t num = a->num[id];

    a->text[id] = b->text[id];
    a->num[id] = b->num[id];
    b->text[id] = text;
    b->num[id] = num;
}

static int read_file(struct coto_settings *s, struct coto_err *err)
{
    coto_auto_buf pairs = {0};

    if (!s->file[0])
        return 0;
    coto_auto_fd fd = open_file(s->file, err);
    if (fd < 0 || coto_policy_parse_text("configuration", s->file, fd, &pairs, err))
        return -1;
    return coto_settings_take_pairs(s, &pairs, err);
}

/* ---- the command line ---- */

/* "--name=value" or "--name value"; moves *i past what it took. */
static const char *flag_value(int argc, char **argv, int *i, size_t name_len, struct coto_err *err)
{
    const char *after = argv[*i] + 2 + name_len;

    if (*after == '=')
        return after + 1;
    if (*i + 1 < argc)
        return argv[++*i];
    coto_err_set(err, COTO_ERR_USAGE, 0, "%s: needs a value", argv[*i]);
    return NULL;
}

static int take_flag(struct coto_settings *s, int argc, char **argv, int *i, struct coto_err *err)
{
    const char *arg = argv[*i];
    size_t len = strncmp(arg, "--", 2) == 0 ? strcspn(arg + 2, "=") : 0;
    bool is_config = len == 6 && memcmp(arg + 2, "config", 6) == 0;
    int id = len ? find(arg + 2, len) : -1;

    if (!len)
        return coto_err_set(err, COTO_ERR_USAGE, 0, "'%.100s' is not a flag", arg);
    if (id < 0 && !is_config) {
        char name[64];
        snprintf(name, sizeof name, "%.*s", (int)len, arg + 2);
        return refuse_name("flags", name, true, err);
    }
    const char *value = flag_value(argc, argv, i, len, err);
    if (!value)
        return -1;
    if (is_config) {
        snprintf(s->file, sizeof s->file, "%s", value);
        return 0;
    }
    char who[64];
    snprintf(who, sizeof who, "--%s", coto_setting_infos[id].name);
    s->by_flag[id] = true;
    return set(s, (enum coto_setting)id, value, who, err);
}

int coto_settings_load(struct coto_settings *settings, int argc, char **argv,
                       struct coto_serve_args *ret_args, struct coto_err *err)
{
    *ret_args = (struct coto_serve_args){0};
    if (getuid() == 0 && access(COTO_SETTINGS_FILE, F_OK) == 0)
        snprintf(settings->file, sizeof settings->file, COTO_SETTINGS_FILE);
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0)
            ret_args->help = true;
        else if (strcmp(argv[i], "--check") == 0)
            ret_args->check = true;
        else if (take_flag(settings, argc, argv, &i, err))
            return -1;
    }
    return ret_args->help ? 0 : read_file(settings, err);
}

int coto_settings_copy(struct coto_settings *to, const struct coto_settings *from, enum coto_setting id, struct coto_err *err)
{
    to->num[id] = from->num[id];
    coto_strv_fini(&to->text[id]);
    for (size_t i = 0; i < from->text[id].count; i++)
        if (coto_strv_add(&to->text[id], from->text[id].items[i]))
            return coto_err_set(err, COTO_ERR_SYSTEM, ENOMEM, "settings");
    return 0;
}

static int copy_flags(const struct coto_settings *old, struct coto_settings *to,
                      struct coto_err *err)
{
    snprintf(to->file, sizeof to->file, "%s", old->file);
    for (int i = 0; i < COTO_SET_COUNT; i++) {
        if (!old->by_flag[i])
            continue;
        to->by_flag[i] = true;
        if (coto_settings_copy(to, old, (enum coto_setting)i, err))
            return -1;
    }
    return 0;
}

int coto_settings_reload(const struct coto_settings *old, struct coto_settings *ret_new,
                         struct coto_err *err)
{
    if (coto_settings_init(ret_new, err) || copy_flags(old, ret_new, err) ||
        read_file(ret_new, err) || coto_settings_check(ret_new, err)) {
        coto_settings_fini(ret_new);
        return -1;
    }
    return 0;
}

/* ---- all of it ---- */

/* Who names a user wants that one, and no other in its place. */
static int check_user(const struct coto_settings *s, struct coto_err *err)
{
    const char *name = coto_settings_text(s, COTO_SET_USER);
    bool is_asked = *name && (s->by_flag[COTO_SET_USER] || s->by_file[COTO_SET_USER]);
    const struct passwd *user = is_asked && getuid() == 0 ? getpwnam(name) : NULL;

    if (!is_asked || getuid() != 0 || (user && user->pw_uid != 0))
        return 0;
    coto_err_set(err, COTO_ERR_USAGE, 0, user ? "user: '%.60s' is root, which the front never is"
                                              : "user: there is no user '%.60s'", name);
    return coto_err_remedy(err, "name a user of this host, or leave the setting out: coto, or nobody "
                                "where there is no such user");
}

static int refuse_min(const char *min, int64_t least, const char *max, int64_t most, struct coto_err *err)
{
    coto_err_set(err, COTO_ERR_USAGE, 0, "%s: %" PRId64 " is more than %s, %" PRId64, min, least, max, most);
    return coto_err_remedy(err, "raise %s to %" PRId64 " at least, or lower %s", max, least, min);
}

/* With fewer than the pool keeps, nobody who asks for another kind gets any, and it is never ready. */
static int check_pool(const struct coto_settings *s, struct coto_err *err)
{
    int64_t kept = s->num[COTO_SET_POOL_MIN] + s->num[COTO_SET_HIGH_POOL_MIN];
    int64_t most = s->num[COTO_SET_MAX_SANDBOXES];

    if (s->num[COTO_SET_POOL_MIN] > s->num[COTO_SET_POOL_MAX])
        return refuse_min("pool-min", s->num[COTO_SET_POOL_MIN], "pool-max", s->num[COTO_SET_POOL_MAX], err);
    if (s->num[COTO_SET_HIGH_POOL_MIN] > s->num[COTO_SET_HIGH_POOL_MAX])
        return refuse_min("high-pool-min", s->num[COTO_SET_HIGH_POOL_MIN], "high-pool-max", s->num[COTO_SET_HIGH_POOL_MAX], err);
    if (kept < most)
        return 0;
    coto_err_set(err, COTO_ERR_USAGE, 0,
                 "max-sandboxes: %" PRId64 " are no more than the %" PRId64 " that are kept ready (pool-min, high-pool-min)",
                 most, kept);
    return coto_err_remedy(err, "raise max-sandboxes to %" PRId64 " at least, or lower pool-min", kept + 1);
}

/* An empty list lets everybody in, and who writes one may mean the opposite. Without an authority there is no
 * certificate to compare. */
static int check_clients(const struct coto_settings *s, struct coto_err *err)
{
    bool is_given = s->by_flag[COTO_SET_CLIENT_NAMES] || s->by_file[COTO_SET_CLIENT_NAMES];
    const char *name = s->text[COTO_SET_CLIENT_NAMES].count ? "client-names"
                       : s->num[COTO_SET_BIND_TOKENS]       ? "bind-tokens"
                                                            : NULL;

    if (is_given && !s->text[COTO_SET_CLIENT_NAMES].count) {
        coto_err_set(err, COTO_ERR_USAGE, 0, "client-names: it is empty");
        return coto_err_remedy(err, "name who is let in, or leave it out: then every certificate of client-ca is");
    }
    if (!name || *coto_settings_text(s, COTO_SET_CLIENT_CA))
        return 0;
    coto_err_set(err, COTO_ERR_USAGE, 0, "%s: client-ca is missing", name);
    return coto_err_remedy(err, "it is about certificates of clients: set client-ca and listen, or leave it out");
}

/* All that is missing at once. */
static int check_listen(const struct coto_settings *s, struct coto_err *err)
{
    static const enum coto_setting needed[] = {COTO_SET_TLS_CERTIFICATE, COTO_SET_TLS_KEY,
                                               COTO_SET_CLIENT_CA, COTO_SET_JWT_KEY};
    coto_auto_buf missing = {0};
    int count = 0;

    for (size_t i = 0; s->text[COTO_SET_LISTEN].count && i < sizeof needed / sizeof *needed; i++)
        if (!*coto_settings_text(s, needed[i]))
            coto_buf_addf(&missing, "%s%s", count++ ? ", " : "", coto_setting_infos[needed[i]].name);
    if (!count)
        return 0;
    coto_err_set(err, COTO_ERR_USAGE, 0, "listen: %s %s missing", coto_buf_str(&missing), count > 1 ? "are" : "is");
    return coto_err_remedy(err, "what others can reach needs TLS with client certificates and service tokens: `coto pki init` and "
                                "`coto token keygen` make both; docs/SERVICE.md shows how");
}

/* The names that tokens are compared with. */
static int check_token_names(const struct coto_settings *s, struct coto_err *err)
{
    static const enum coto_setting ids[] = {COTO_SET_JWT_AUDIENCE, COTO_SET_JWT_ISSUER};

    for (size_t i = 0; i < 2; i++)
        if (strlen(coto_settings_text(s, ids[i])) > TOKEN_NAME_MAX)
            return coto_err_set(err, COTO_ERR_USAGE, 0, "%s: longer than %d bytes", coto_setting_infos[ids[i]].name, TOKEN_NAME_MAX);
    if (!*coto_settings_text(s, COTO_SET_JWT_AUDIENCE)) {
        coto_err_set(err, COTO_ERR_USAGE, 0, "jwt-audience: it is empty");
        return coto_err_remedy(err, "name the audience (aud) that tokens are made for, or leave it out: then it is coto");
    }
    if (strcmp(coto_settings_text(s, COTO_SET_JWT_ISSUER), COTO_JWT_OWN_ISSUER) != 0)
        return 0;
    coto_err_set(err, COTO_ERR_USAGE, 0, "jwt-issuer: '%s' is the service's own name, and refused in tokens of others", COTO_JWT_OWN_ISSUER);
    return coto_err_remedy(err, "name the issuer (iss) of the tokens, or leave it out: then any that signs with these keys is taken");
}

int coto_settings_check(const struct coto_settings *settings, struct coto_err *err)
{
    if (strcmp(coto_settings_text(settings, COTO_SET_SOCKET), "none") == 0 &&
        settings->num[COTO_SET_PORT] == COTO_SETTING_NONE &&
        !settings->text[COTO_SET_LISTEN].count && !getenv("LISTEN_FDS"))
        return coto_err_set(err, COTO_ERR_USAGE, 0,
                            "nowhere to listen: socket, port or listen must be set");
    for (size_t i = 0; i < settings->text[COTO_SET_LISTEN].count; i++)
        if (coto_http_check_address(settings->text[COTO_SET_LISTEN].items[i], err))
            return -1;
    return check_user(settings, err) || check_pool(settings, err) || check_clients(settings, err) ||
                   check_token_names(settings, err) || check_listen(settings, err)
               ? -1
               : 0;
}

void coto_settings_help(struct coto_buf *out)
{
    coto_buf_adds(
        out, "usage: coto serve [--config FILE] [--check] [--SETTING VALUE]...\n\n"
             "Serves sandboxes over HTTP. Without any setting: on a unix socket for this\n"
             "user, and on 127.0.0.1 for whoever has the token it makes.\n\n"
             "  --config FILE      settings in YAML; default " COTO_SETTINGS_FILE " when root\n"
             "                     starts it and it exists\n"
             "  --check            check settings, keys and certificates, and end\n\n"
             "settings (flags, and keys of the file; * is read again at SIGHUP):\n");
    for (int i = 0; i < COTO_SET_COUNT; i++) {
        const struct coto_setting_info *info = &coto_setting_infos[i];
        coto_buf_addf(out, "%c --%s %s%s%s%s\n      %s\n",
                      info->when == COTO_SETTING_START ? ' ' : '*', info->name, info->metavar,
                      *info->def ? " (" : "", info->def, *info->def ? ")" : "", info->help);
    }
}
