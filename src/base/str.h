/* Bounded string builder with sticky failure, and a growing list of strings.
 *
 * Append as often as you like and look at `failed` once at the end: after the
 * first failed allocation (or past COTO_BUF_MAX) nothing more is appended and
 * the content so far stays valid. `data` is always NUL-terminated once
 * something was appended. coto_buf_fini may be called twice.
 */
#pragma once

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define COTO_BUF_MAX ((size_t)1 << 31)

struct coto_buf {
    char *data;
    size_t len;
    size_t cap;
    bool failed;
};

void coto_buf_add(struct coto_buf *buf, const void *data, size_t len);
void coto_buf_adds(struct coto_buf *buf, const char *text);
void coto_buf_addc(struct coto_buf *buf, char c);
void coto_buf_addf(struct coto_buf *buf, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
void coto_buf_vaddf(struct coto_buf *buf, const char *fmt, va_list ap)
    __attribute__((format(printf, 2, 0)));
/* Room for at least `len` more bytes at data + buf->len; NULL on failure.
 * The caller adds what it wrote to buf->len and keeps len < cap. */
char *coto_buf_reserve(struct coto_buf *buf, size_t len);
void coto_buf_clear(struct coto_buf *buf);
/* One "\n" or "\r\n" at the end goes. */
void coto_buf_cut_line_end(struct coto_buf *buf);
void coto_buf_fini(struct coto_buf *buf);
/* The text, "" when empty; borrowed. */
const char *coto_buf_str(const struct coto_buf *buf);
#define coto_auto_buf __attribute__((cleanup(coto_buf_fini))) struct coto_buf

/* NULL-terminated growing array of owned strings. */
struct coto_strv {
    char **items;
    size_t count;
};
int coto_strv_add(struct coto_strv *list, const char *text); /* 0, -1 on no memory */
int coto_strv_addn(struct coto_strv *list, const char *text, size_t len);
void coto_strv_fini(struct coto_strv *list);
#define coto_auto_strv __attribute__((cleanup(coto_strv_fini))) struct coto_strv

bool coto_str_eq(const char *a, const char *b);
bool coto_str_has_prefix(const char *text, const char *prefix);
/* Length of the valid UTF-8 sequence at p (1 to 4), or 0: overlong forms,
 * surrogates and truncated tails are not valid. */
size_t coto_utf8_len(const unsigned char *p, size_t avail);
bool coto_utf8_valid(const void *data, size_t len);
/* The character of a valid sequence of that length. */
unsigned coto_utf8_value(const unsigned char *p, size_t len);
/* C1 controls, and the marks that break lines or reorder text so that it reads as other
 * than it is (CVE-2021-42574). */
bool coto_utf8_misleads(unsigned value);
/* UTF-8 without controls and without these: a name that reads as it is, in logs and tables too. */
bool coto_utf8_is_plain(const char *text, size_t len);
