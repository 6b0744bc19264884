#include "base/str.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ADDF_AT_ONCE 120 /* bytes; what is longer is formatted twice */

char *coto_buf_reserve(struct coto_buf *buf, size_t len)
{
    if (buf->failed)
        return NULL;
    if (len >= COTO_BUF_MAX - buf->len) {
        buf->failed = true;
        return NULL;
    }
    size_t need = buf->len + len + 1;
    if (need > buf->cap) {
        size_t cap = buf->cap ? buf->cap : 256;
        while (cap < need)
            cap *= 2;
        char *data = realloc(buf->data, cap);
        if (!data) {
            buf->failed = true;
            return NULL;
        }
        buf->data = data;
        buf->cap = cap;
    }
    return buf->data + buf->len;
}

void coto_buf_add(struct coto_buf *buf, const void *data, size_t len)
{
    char *to = coto_buf_reserve(buf, len);

    if (!to)
        return;
    if (len)
        memcpy(to, data, len);
    buf->len += len;
    buf->data[buf->len] = '\0';
}

void coto_buf_adds(struct coto_buf *buf, const char *text)
{
    coto_buf_add(buf, text, strlen(text));
}

void coto_buf_addc(struct coto_buf *buf, char c)
{
    coto_buf_add(buf, &c, 1);
}

void coto_buf_vaddf(struct coto_buf *buf, const char *fmt, va_list ap)
{
    va_list again;
    char *to = coto_buf_reserve(buf, ADDF_AT_ONCE);

    if (!to)
        return;
    va_copy(again, ap);
    int n = vsnprintf(to, ADDF_AT_ONCE + 1, fmt, again);
    va_end(again);
    if (n > ADDF_AT_ONCE) {
        to = coto_buf_reserve(buf, (size_t)n);
        n = to ? vsnprintf(to, (size_t)n + 1, fmt, ap) : -1;
    }
    if (n < 0) {
        buf->failed = true;
        buf->data[buf->len] = '\0';
        return;
    }
    buf->len += (size_t)n;
}

void coto_buf_addf(struct coto_buf *buf, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    coto_buf_vaddf(buf, fmt, ap);
    va_end(ap);
}

void coto_buf_clear(struct coto_buf *buf)
{
    buf->len = 0;
    buf->failed = false;
    if (buf->data)
        buf->data[0] = '\0';
}

void coto_buf_cut_line_end(struct coto_buf *buf)
{
    if (buf->len == 0 || buf->data[buf->len - 1] != '\n')
        return;
    buf->len--;
    if (buf->len && buf->data[buf->len - 1] == '\r')
        buf->len--;
    buf->data[buf->len] = '\0';
}

void coto_buf_fini(struct coto_buf *buf)
{
    free(buf->data);
    *buf = (struct coto_buf){0};
}

const char *coto_buf_str(const struct coto_buf *buf)
{
    return buf->data ? buf->data : "";
}

int coto_strv_addn(struct coto_strv *list, const char *text, size_t len)
{
    char **items = realloc(list->items, (list->count + 2) * sizeof *items);

    if (!items)
        return -1;
    list->items = items;
    char *copy = malloc(len + 1);
    if (!copy) {
        items[list->count] = NULL;
        return -1;
    }
    memcpy(copy, text, len);
    copy[len] = '\0';
    items[list->count++] = copy;
    items[list->count] = NULL;
    return 0;
}

int coto_strv_add(struct coto_strv *list, const char *text)
{
    return coto_strv_addn(list, text, strlen(text));
}

void coto_strv_fini(struct coto_strv *list)
{
    for (size_t i = 0; i < list->count; i++)
        free(list->items[i]);
    free(list->items);
    *list = (struct coto_strv){0};
}

bool coto_str_eq(const char *a, const char *b)
{
    return a && b && strcmp(a, b) == 0;
}

bool coto_str_has_prefix(const char *text, const char *prefix)
{
    return strncmp(text, prefix, strlen(prefix)) == 0;
}

static bool is_cont(unsigned char c)
{
    return (c & 0xc0) == 0x80;
}

size_t coto_utf8_len(const unsigned char *p, size_t avail)
{
    if (avail == 0)
        return 0;
    if (p[0] < 0x80)
        return 1;
    if (p[0] >= 0xc2 && p[0] <= 0xdf)
        return avail >= 2 && is_cont(p[1]) ? 2 : 0;
    if (p[0] >= 0xe0 && p[0] <= 0xef) {
        if (avail < 3 || !is_cont(p[1]) || !is_cont(p[2]))
            return 0;
        if ((p[0] == 0xe0 && p[1] < 0xa0) || (p[0] == 0xed && p[1] > 0x9f))
            return 0;
        return 3;
    }
    if (p[0] >= 0xf0 && p[0] <= 0xf4) {
        if (avail < 4 || !is_cont(p[1]) || !is_cont(p[2]) || !is_cont(p[3]))
            return 0;
        if ((p[0] == 0xf0 && p[1] < 0x90) || (p[0] == 0xf4 && p[1] > 0x8f))
            return 0;
        return 4;
    }
    return 0;
}

bool coto_utf8_valid(const void *data, size_t len)
{
    const unsigned char *p = data;

    for (size_t i = 0; i < len;) {
        size_t n = coto_utf8_len(p + i, len - i);
        if (n == 0)
            return false;
        i += n;
    }
    return true;
}

unsigned coto_utf8_value(const unsigned char *p, size_t len)
{
    static const unsigned char lead_mask[] = {0, 0x7f, 0x1f, 0x0f, 0x07};
    unsigned value = p[0] & lead_mask[len];

    for (size_t i = 1; i < len; i++)
        value = value << 6 | (p[i] & 0x3f);
    return value;
}

bool coto_utf8_misleads(unsigned value)
{
    return (value >= 0x80 && value <= 0x9f) || value == 0x061c || value == 0x200e ||
           value == 0x200f || (value >= 0x2028 && value <= 0x202e) ||
           (value >= 0x2066 && value <= 0x2069);
}

bool coto_utf8_is_plain(const char *text, size_t len)
{
    const unsigned char *p = (const unsigned char *)text;

    for (size_t n; len > 0; p += n, len -= n) {
        n = coto_utf8_len(p, len);
        if (n == 0 || *p < ' ' || *p == 0x7f || coto_utf8_misleads(coto_utf8_value(p, n)))
            return false;
    }
    return true;
}
