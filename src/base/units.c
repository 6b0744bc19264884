#include "base/units.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdbool.h>
#include <string.h>

/* Reads digits[.digits] as thousandths; *text is moved past it. At least one
 * digit must stand before the point and one to three behind it. */
static int parse_milli(const char **text, int64_t *ret_milli)
{
    const char *p = *text;
    int64_t v = 0;

    if (!isdigit((unsigned char)*p))
        return -1;
    for (; isdigit((unsigned char)*p); p++) {
        if (v > (INT64_MAX / 10000) / 10)
            return -1;
        v = v * 10 + (*p - '0');
    }
    v *= 1000;
    if (*p == '.') {
        int64_t scale = 100;
        if (!isdigit((unsigned char)*++p))
            return -1;
        for (; isdigit((unsigned char)*p); p++, scale /= 10) {
            if (scale == 0)
                return -1;
            v += (*p - '0') * scale;
        }
    }
    *text = p;
    *ret_milli = v;
    return 0;
}

int coto_units_parse_int(const char *text, int64_t *ret_value)
{
    int64_t v = 0;

    if (strcmp(text, "none") == 0) {
        *ret_value = COTO_UNIT_NONE;
        return 0;
    }
    if (!isdigit((unsigned char)*text) || (text[0] == '0' && text[1]))
        return -1;
    for (; isdigit((unsigned char)*text); text++) {
        if (v > (INT64_MAX - 10) / 10)
            return -1;
        v = v * 10 + (*text - '0');
    }
    if (*text)
        return -1;
    *ret_value = v;
    return 0;
}

int coto_units_parse_cpus(const char *text, int64_t *ret_millicpus)
{
    int64_t v;

    if (strcmp(text, "none") == 0) {
        *ret_millicpus = COTO_UNIT_NONE;
        return 0;
    }
    if (parse_milli(&text, &v) || *text)
        return -1;
    *ret_millicpus = v;
    return 0;
}

int coto_units_parse_size(const char *text, int64_t *ret_bytes)
{
    static const char letters[] = "kmgt";
    int64_t v;
    int shift = 0;

    if (strcmp(text, "none") == 0) {
        *ret_bytes = COTO_UNIT_NONE;
        return 0;
    }
    if (parse_milli(&text, &v))
        return -1;
    const char *unit = *text ? strchr(letters, tolower((unsigned char)*text)) : NULL;
    if (unit) {
        shift = 10 * (int)(unit - letters + 1);
        text++;
        if (*text == 'i' && (text[1] == 'b' || text[1] == 'B'))
            text++;
    }
    if (*text == 'b' || *text == 'B')
        text++;
    if (*text || v > (INT64_MAX >> 1 >> shift))
        return -1;
    v <<= shift;
    if (v % 1000)
        return -1; /* not a whole number of bytes */
    *ret_bytes = v / 1000;
    return 0;
}

static int duration_unit(const char **text, int64_t *ret_ms)
{
    static const struct {
        const char *name;
        int64_t ms;
    } units[] = {{"ms", 1}, {"s", 1000}, {"m", 60000}, {"h", 3600000}, {"d", 86400000}};

    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++) {
        size_t n = strlen(units[i].name);
        if (strncmp(*text, units[i].name, n) != 0)
            continue; /* only a match tells that text[n] is within the text */
        if (!(*text)[n] || isdigit((unsigned char)(*text)[n])) {
            *text += n;
            *ret_ms = units[i].ms;
            return 0;
        }
    }
    return -1;
}

/* What parse_milli can read back as one number: some 2900 years. */
#define DURATION_MAX (INT64_MAX / 10000 / 10)

int coto_units_parse_duration(const char *text, int64_t *ret_ms)
{
    int64_t total = 0;
    int64_t last_unit = INT64_MAX;

    if (strcmp(text, "none") == 0) {
        *ret_ms = COTO_UNIT_NONE;
        return 0;
    }
    do {
        int64_t v;
        int64_t unit = 1000; /* a bare number is seconds */
        if (parse_milli(&text, &v))
            return -1;
        if ((*text || last_unit != INT64_MAX) && duration_unit(&text, &unit))
            return -1;
        if (unit >= last_unit || v > INT64_MAX / 2 / unit)
            return -1;
        last_unit = unit;
        v *= unit;
        if (v % 1000 || total > INT64_MAX / 2 - v / 1000)
            return -1;
        total += v / 1000;
    } while (*text);
    if (total > DURATION_MAX)
        return -1;
    *ret_ms = total;
    return 0;
}

void coto_units_add_size(struct coto_buf *out, int64_t bytes)
{
    static const char letters[] = "kmgt";
    int unit = -1;

    if (bytes == COTO_UNIT_NONE) {
        coto_buf_adds(out, "none");
        return;
    }
    while (unit < 3 && bytes && bytes % 1024 == 0) {
        bytes /= 1024;
        unit++;
    }
    coto_buf_addf(out, "%" PRId64, bytes);
    if (unit >= 0)
        coto_buf_addc(out, letters[unit]);
}

void coto_units_add_duration(struct coto_buf *out, int64_t ms)
{
    if (ms == COTO_UNIT_NONE)
        coto_buf_adds(out, "none");
    else if (ms && ms % 3600000 == 0)
        coto_buf_addf(out, "%" PRId64 "h", ms / 3600000);
    else if (ms && ms % 60000 == 0)
        coto_buf_addf(out, "%" PRId64 "m", ms / 60000);
    else if (ms % 1000 == 0)
        coto_buf_addf(out, "%" PRId64 "s", ms / 1000);
    else
        coto_buf_addf(out, "%" PRId64 "ms", ms);
}

void coto_units_add_cpus(struct coto_buf *out, int64_t millicpus)
{
    if (millicpus == COTO_UNIT_NONE) {
        coto_buf_adds(out, "none");
        return;
    }
    coto_buf_addf(out, "%" PRId64, millicpus / 1000);
    int rest = (int)(millicpus % 1000);
    if (rest) {
        char digits[5] = {'.', (char)('0' + rest / 100), (char)('0' + rest / 10 % 10),
                          (char)('0' + rest % 10), '\0'};
        for (int i = 3; digits[i] == '0'; i--)
            digits[i] = '\0';
        coto_buf_adds(out, digits);
    }
}

void coto_units_add_size_rounded(struct coto_buf *out, int64_t bytes)
{
    static const char *const names[] = {"B", "KB", "MB", "GB", "TB"};
    int unit = 0;
    double v = (double)bytes;

    while (v >= 1024 && unit < 4) {
        v /= 1024;
        unit++;
    }
    coto_buf_addf(out, unit && v < 10 ? "%.1f %s" : "%.0f %s", v, names[unit]);
}

void coto_units_add_time_rounded(struct coto_buf *out, int64_t us)
{
    if (us < 1000)
        coto_buf_addf(out, "%" PRId64 " us", us);
    else if (us < 100000)
        coto_buf_addf(out, "%.1f ms", (double)us / 1000);
    else if (us < 1000000)
        coto_buf_addf(out, "%.0f ms", (double)us / 1000);
    else
        coto_buf_addf(out, "%.2f s", (double)us / 1000000);
}
