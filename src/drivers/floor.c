#include "drivers/floor.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

/* Each escape with the first fixed version of every branch, and Debian's own. */
static const struct {
    const char *runtime;
    const char *escape;
    const char *upstream[3]; /* by branch, ascending */
    const char *debian[2];
} floors[] = {
    {"runc", "CVE-2024-21626", {"1.1.12"}, {"1.0.0~rc93+ds1-5+deb11u3", "1.1.5+ds1-1+deb12u1"}},
    {"runc", "CVE-2025-31133", {"1.2.8", "1.3.3", "1.4.0"}, {NULL}},
    {"runc", "CVE-2025-52565", {"1.2.8", "1.3.3", "1.4.0"}, {NULL}},
    {"runc", "CVE-2025-52881", {"1.2.8", "1.3.3", "1.4.0"}, {NULL}},
    {"runc", "CVE-2026-41579", {"1.3.6", "1.4.3"}, {NULL}},
    {"crun", "CVE-2026-47766", {"1.28"}, {NULL}},
    {"runsc", "CVE-2018-20168", {"0.0~20181101.0"}, {NULL}},
    {"kata-runtime", "CVE-2020-2026", {"1.11.1"}, {NULL}},
};
#define FLOORS (sizeof floors / sizeof floors[0])

/* ---- versions ---- */

static int order(int c)
{
    if (c == '~')
        return -1;
    if (isdigit(c) || c == 0)
        return 0;
    return isalpha(c) ? c : c + 256;
}

static int compare_part(const char *a, const char *b)
{
    while (*a || *b) {
        int first = 0;
        while ((*a && !isdigit((unsigned char)*a)) || (*b && !isdigit((unsigned char)*b))) {
            int d = order((unsigned char)*a) - order((unsigned char)*b);
            if (d)
                return d;
            a += *a != 0;
            b += *b != 0;
        }
        a += strspn(a, "0");
        b += strspn(b, "0");
        while (isdigit((unsigned char)*a) && isdigit((unsigned char)*b)) {
            first = first ? first : *a - *b;
            a++;
            b++;
        }
        if (isdigit((unsigned char)*a) || isdigit((unsigned char)*b))
            return isdigit((unsigned char)*a) ? 1 : -1;
        if (first)
            return first;
    }
    return 0;
}

/* Upstream's part and Debian's revision are compared one after the other. */
int coto_floor_compare(const char *a, const char *b)
{
    char left[96];
    char right[96];

    snprintf(left, sizeof left, "%s", a);
    snprintf(right, sizeof right, "%s", b);
    char *l = strrchr(left, '-');
    char *r = strrchr(right, '-');
    if (l)
        *l = '\0';
    if (r)
        *r = '\0';
    int d = compare_part(left, right);
    return d ? d : compare_part(l ? l + 1 : "", r ? r + 1 : "");
}

static bool same_until(const char *a, const char *b, int dots)
{
    for (; *a == *b && *a; a++, b++)
        if (*a == '.' && --dots == 0)
            return true;
    return false;
}

/* From the branch's own fix on, or from a branch on that is newer than all of them. */
static bool is_fixed_upstream(const char *const fixes[3], const char *version)
{
    const char *newest = NULL;

    for (int i = 0; i < 3 && fixes[i]; i++) {
        newest = fixes[i];
        if (same_until(version, fixes[i], 2))
            return coto_floor_compare(version, fixes[i]) >= 0;
    }
    return isdigit((unsigned char)*version) && newest && coto_floor_compare(version, newest) >= 0;
}

static bool is_fixed_by_debian(const char *const fixes[2], const char *version)
{
    for (int i = 0; i < 2 && fixes[i]; i++) {
        size_t upstream = strcspn(fixes[i], "-");
        if (strncmp(fixes[i], version, upstream + 1) == 0 &&
            coto_floor_compare(version, fixes[i]) >= 0)
            return true;
    }
    return false;
}

void coto_floor_lacks(const char *runtime, const char *text, bool is_debian,
                      char ret_lacks[COTO_FLOOR_LACKS])
{
    size_t len = 0;
    char version[96];

    /* Upstream's 1.4.0-rc.2 comes before 1.4.0, for Debian that is 1.4.0~rc.2. */
    snprintf(version, sizeof version, "%s", text);
    for (char *p = version; *p && !is_debian; p++)
        if (*p == '-')
            *p = '~';
    ret_lacks[0] = '\0';
    for (size_t i = 0; i < FLOORS; i++) {
        if (strcmp(floors[i].runtime, runtime) != 0 ||
            is_fixed_upstream(floors[i].upstream, version) ||
            (is_debian && is_fixed_by_debian(floors[i].debian, version)))
            continue;
        int n = snprintf(ret_lacks + len, COTO_FLOOR_LACKS - len, "%s%s", len ? " " : "",
                         floors[i].escape);
        len += n > 0 && (size_t)n < COTO_FLOOR_LACKS - len ? (size_t)n : 0;
    }
}

/* ---- what the policy says ---- */

bool coto_floor_is_named(const struct coto_strv *allowed, const char *name, const char *version)
{
    for (size_t i = 0; i < allowed->count; i++) {
        const char *item = allowed->items[i];
        size_t n = strcspn(item, "@");
        if (strncmp(item, name, n) == 0 && !name[n] &&
            (!item[n] || strcmp(item + n + 1, version) == 0))
            return true;
    }
    return false;
}

int coto_floor_refuse(const char *name, const char *version, const char *judged, const char *lacks,
                      struct coto_err *err)
{
    coto_err_set(err, COTO_ERR_WALL, 0, "runtime %s %s (%s) has a known escape: %s", name, version,
                 judged, lacks);
    return coto_err_remedy(err,
                           "update %s; or use --runtime runsc; or name it: --allow-runtime %s@%s",
                           name, name, version);
}
