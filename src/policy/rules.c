/* What texts and list items must look like. Each rule is one small predicate
 * and one row; the plan relies on them and checks only what needs the host. */
#include "base/units.h"
#include "policy/nearest.h"
#include "policy/value.h"
#include "schema/walls.h"

#include <ctype.h>
#include <string.h>
#include <strings.h>

static bool is_lower_alnum(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
}

/* Strict decimal 1 to 4294967294: no sign, no space, no leading zero, no hex.
 * 0 is root and 4294967295 is "no id" to the kernel (threats NS-05, LI-07). */
static const char *skip_id(const char *text)
{
    uint64_t v = 0;

    if (*text < '1' || *text > '9')
        return NULL;
    for (; *text >= '0' && *text <= '9'; text++) {
        v = v * 10 + (uint64_t)(*text - '0');
        if (v > 4294967294u)
            return NULL;
    }
    return text;
}

static bool is_user(const char *text, struct coto_buf *canonical)
{
    (void)canonical;
    const char *end = skip_id(text);
    if (end && *end == ':')
        end = skip_id(end + 1);
    return end && !*end;
}

static bool is_user_name(const char *text, struct coto_buf *canonical)
{
    size_t len = strlen(text);

    (void)canonical;
    if (len < 1 || len > 32 || !((text[0] >= 'a' && text[0] <= 'z') || text[0] == '_'))
        return false;
    for (size_t i = 1; i < len; i++)
        if (!is_lower_alnum(text[i]) && text[i] != '_' && text[i] != '-')
            return false;
    return strcmp(text, "root") != 0;
}

static bool is_hostname(const char *text, struct coto_buf *canonical)
{
    size_t len = strlen(text);

    (void)canonical;
    if (len < 1 || len > 63)
        return false;
    for (size_t i = 0; i < len; i++) {
        bool first = i == 0 || text[i - 1] == '.';
        bool last = i + 1 == len || text[i + 1] == '.';
        if (!is_lower_alnum(text[i]) && (first || last || (text[i] != '-' && text[i] != '.')))
            return false;
    }
    return true;
}

/* One profile by its plain name: no stack of profiles, no namespace, no blank. */
static bool is_apparmor_name(const char *text, struct coto_buf *canonical)
{
    size_t len = strlen(text);

    (void)canonical;
    for (size_t i = 0; i < len; i++) {
        char c = text[i];
        bool letter = (c | 32) >= 'a' && (c | 32) <= 'z';
        if (!letter && !(c >= '0' && c <= '9') && (i == 0 || !strchr("._-", c)))
            return false;
    }
    return len >= 1 && len <= 64;
}

/* REPOSITORY[:TAG][@sha256:...], as an engine or `coto image` knows it: never a path, a
 * URL or a word that a shell or a query would read otherwise (threats AP-24). */
static bool is_image(const char *text, struct coto_buf *canonical)
{
    size_t n = strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._/:@-");

    (void)canonical;
    return n > 0 && n <= 255 && !text[n] && isalnum((unsigned char)text[0]) &&
           isalnum((unsigned char)text[n - 1]) && !strstr(text, "//") && !strstr(text, "..");
}

static bool is_runtime(const char *text, struct coto_buf *canonical)
{
    size_t n = strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-");

    (void)canonical;
    return !text[n] && n <= 64 && (n == 0 || isalnum((unsigned char)text[0]));
}

/* An absolute, normalised path: no "//", ".", "..", no "/" at the end. */
static bool is_normal_path(const char *path)
{
    if (path[0] != '/' || !path[1] || strlen(path) >= 4096)
        return false;
    for (const char *p = path; *p;) {
        size_t n = strcspn(++p, "/"); /* p was at a '/' */
        if (n == 0 || n > 255 || (n == 1 && p[0] == '.') || (n == 2 && p[0] == '.' && p[1] == '.'))
            return false;
        p += n;
    }
    return true;
}

/* A place of the sandbox's own making: not one that holds programs, devices,
 * kernel files or the fresh passwd. */
static bool is_free_place(const char *path)
{
    static const char *const taken[] = {"usr", "proc", "dev", "sys", "etc", "bin", "sbin"};

    if (!is_normal_path(path))
        return false;
    size_t n = strcspn(path + 1, "/");
    if (n >= 3 && memcmp(path + 1, "lib", 3) == 0)
        return false;
    for (size_t i = 0; i < sizeof taken / sizeof taken[0]; i++)
        if (n == strlen(taken[i]) && memcmp(path + 1, taken[i], n) == 0)
            return false;
    return true;
}

static bool is_workdir(const char *text, struct coto_buf *canonical)
{
    (void)canonical;
    return is_free_place(text) && !strchr(text, ':');
}

static bool is_sha256(const char *text, struct coto_buf *canonical)
{
    size_t n = 0;

    (void)canonical;
    while (isxdigit((unsigned char)text[n]))
        n++;
    return !text[n] && (n == 64 || n == 0);
}

static const char *profile_word(unsigned n)
{
    return n < coto_profile_count ? coto_profiles[n].name : NULL;
}

static bool is_profile(const char *text, struct coto_buf *canonical)
{
    (void)canonical;
    for (unsigned i = 0; i < coto_profile_count; i++)
        if (strcmp(coto_profiles[i].name, text) == 0)
            return true;
    return false;
}

static bool accept_copy(const char *item, struct coto_buf *canonical)
{
    const char *colon = strrchr(item, ':');

    coto_buf_adds(canonical, item);
    return colon && colon != item && colon[1];
}

static bool accept_mount(const char *item, struct coto_buf *canonical)
{
    size_t len = strlen(item);
    bool has_mode = len > 3 && (strcmp(item + len - 3, ":ro") == 0 ||
                                strcmp(item + len - 3, ":rw") == 0);
    size_t end = has_mode ? len - 3 : len;
    size_t colon = end;
    char target[4096];

    while (colon > 0 && item[colon - 1] != ':')
        colon--;
    if (colon < 2 || end - colon >= sizeof target)
        return false; /* no colon, or nothing before it */
    memcpy(target, item + colon, end - colon);
    target[end - colon] = '\0';
    coto_buf_adds(canonical, item);
    return is_normal_path(target);
}

static bool accept_tmpfs(const char *item, struct coto_buf *canonical)
{
    const char *colon = strchr(item, ':');
    size_t len = colon ? (size_t)(colon - item) : strlen(item);
    char path[4096];
    int64_t size;

    if (len >= sizeof path)
        return false;
    memcpy(path, item, len);
    path[len] = '\0';
    if (colon && (coto_units_parse_size(colon + 1, &size) || size < 64 * COTO_KB || size > COTO_TB))
        return false;
    coto_buf_adds(canonical, item);
    return is_free_place(path);
}

static const char *wall_word(unsigned n)
{
    return n < COTO_WALL_COUNT ? coto_walls[n].name : NULL;
}

static const char *wall_or_all_word(unsigned n)
{
    return n == COTO_WALL_COUNT ? "all" : wall_word(n);
}

static bool accept_wall(const char *item, struct coto_buf *canonical)
{
    int wall = coto_wall_find(item);

    if (wall >= 0)
        coto_buf_adds(canonical, coto_walls[wall].name);
    return wall >= 0;
}

static bool accept_wall_or_all(const char *item, struct coto_buf *canonical)
{
    if (strcmp(item, "all") != 0)
        return accept_wall(item, canonical);
    coto_buf_adds(canonical, item);
    return true;
}

/* The few R2.4 names; every other capability is a way out of something. */
static const char *cap_word(unsigned n)
{
    static const char *const words[] = {"chown", "fowner", "setuid", "setgid"};
    return n < sizeof words / sizeof words[0] ? words[n] : NULL;
}

static bool accept_cap(const char *item, struct coto_buf *canonical)
{
    if (strncasecmp(item, "cap_", 4) == 0)
        item += 4;
    for (unsigned i = 0; cap_word(i); i++) {
        if (strcasecmp(item, cap_word(i)) == 0) {
            coto_buf_adds(canonical, cap_word(i));
            return true;
        }
    }
    return false;
}

#define MODULE_MAX 100

/* As an import statement has it: names with dots between. */
static bool accept_module(const char *item, struct coto_buf *canonical)
{
    bool begins = true;

    for (const char *c = item; *c; c++) {
        bool is_letter = (*c >= 'a' && *c <= 'z') || (*c >= 'A' && *c <= 'Z') || *c == '_';
        if (!is_letter && (begins || ((*c < '0' || *c > '9') && *c != '.')))
            return false;
        begins = *c == '.';
    }
    coto_buf_adds(canonical, item);
    return !begins && strlen(item) <= MODULE_MAX;
}

static const char *report_word(unsigned n)
{
    static const char *const words[] = {"code", "prompt", "output", "env"};
    return n < sizeof words / sizeof words[0] ? words[n] : NULL;
}

static bool accept_report(const char *item, struct coto_buf *canonical)
{
    for (unsigned i = 0; report_word(i); i++) {
        if (strcmp(item, report_word(i)) == 0) {
            coto_buf_adds(canonical, item);
            return true;
        }
    }
    return false;
}

static bool accept_destination(const char *item, struct coto_buf *canonical)
{
    size_t host = strspn(item, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-");
    int64_t port;

    if (host == 0 || host > 253 || item[host] != ':')
        return false;
    if (coto_units_parse_int(item + host + 1, &port) || port < 1 || port > 65535)
        return false;
    coto_buf_adds(canonical, item);
    return true;
}

#define PLACE "an absolute path without '..', not / and not under /usr /proc /dev /sys /etc /bin " \
              "/sbin /lib*"

static const struct coto_rule rules[] = {
    {COTO_OPT_USER, "is not a user",
     "UID or UID:GID, each a plain number from 1 to 4294967294, for example 10000:10000", is_user,
     NULL},
    {COTO_OPT_USER_NAME, "is not a user name",
     "1 to 32 of a-z 0-9 _ -, beginning with a letter or _, not root", is_user_name, NULL},
    {COTO_OPT_HOSTNAME, "is not a host name",
     "1 to 63 of a-z 0-9 - and dots between, for example sandbox-1", is_hostname, NULL},
    {COTO_OPT_APPARMOR, "is not the name of an AppArmor profile",
     "1 to 64 of a-z A-Z 0-9 . _ -, for example coto-sandbox; or none", is_apparmor_name, NULL},
    {COTO_OPT_IMAGE, "is not an image name",
     "letters, digits and . _ / : @ -, for example python:3.11-slim", is_image, NULL},
    {COTO_OPT_RUNTIME, "is not the name of a container runtime",
     "up to 64 letters, digits and . _ -, for example runsc", is_runtime, NULL},
    {COTO_OPT_WORKDIR, "cannot be the workspace", PLACE ", for example /work", is_workdir, NULL},
    {COTO_OPT_PROMPT_HASH, "is not a SHA-256", "64 hexadecimal digits", is_sha256, NULL},
    {COTO_OPT_PROFILE, "is not a profile", NULL, is_profile, profile_word},
    {COTO_OPT_COPY, "is not SRC:DST", "a host path, ':' and a path inside, for example data:data",
     accept_copy, NULL},
    {COTO_OPT_MOUNT, "is not SRC:DST[:ro|rw]",
     "a host path, ':', an absolute path inside, and ':ro' or ':rw', for example "
     "/srv/data:/data:ro",
     accept_mount, NULL},
    {COTO_OPT_TMPFS, "is not PATH[:SIZE]", PLACE ", and a size of 64k to 1t, for example /run:16m",
     accept_tmpfs, NULL},
    {COTO_OPT_REQUIRE, "is not a wall", NULL, accept_wall_or_all, wall_or_all_word},
    {COTO_OPT_ALLOW_MISSING, "is not a wall", NULL, accept_wall, wall_word},
    {COTO_OPT_CAP_ADD, "is not a capability that may be added", NULL, accept_cap, cap_word},
    {COTO_OPT_MODULES, "is not a Python module", "a name as in an import statement, for example numpy.random",
     accept_module, NULL},
    {COTO_OPT_NETWORK_ALLOW, "is not HOST:PORT", "a host name, ':' and a port from 1 to 65535",
     accept_destination, NULL},
    {COTO_OPT_REPORT_INCLUDE, "is not a part of the report", NULL, accept_report, report_word},
};

const struct coto_rule *coto_rule_find(enum coto_opt opt)
{
    for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++)
        if (rules[i].opt == opt)
            return &rules[i];
    return NULL;
}

int coto_rule_refuse(const struct coto_rule *rule, const char *who, const char *text,
                     struct coto_err *err)
{
    struct coto_nearest best = {0};
    coto_auto_buf words = {0};

    if (rule->allowed)
        return coto_value_refuse(who, text, rule->what, rule->allowed, err);
    for (unsigned i = 0; rule->word(i); i++) {
        coto_buf_addf(&words, "%s%s", i ? ", " : "", rule->word(i));
        coto_nearest_offer(&best, text, rule->word(i));
    }
    coto_value_refuse(who, text, rule->what, coto_buf_str(&words), err);
    if (best.name)
        coto_err_remedy(err, "did you mean '%s'?", best.name);
    return -1;
}
