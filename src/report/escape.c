#include "report/escape.h"

#include <string.h>

static bool is_plain(unsigned char c)
{
    return (c >= 0x20 && c < 0x7f) || c == '\n' || c == '\t' || c == '\r';
}

/* Length of the character that a lead byte announces; 0 for no lead byte. */
static size_t announced_len(unsigned char lead)
{
    if (lead >= 0xc2 && lead <= 0xdf)
        return 2;
    if (lead >= 0xe0 && lead <= 0xef)
        return 3;
    if (lead >= 0xf0 && lead <= 0xf4)
        return 4;
    return 0;
}

/* True when more bytes could still make the `avail` ones at p a character. The
 * answer comes from completing them with the smallest and the largest
 * continuation, so the rules of UTF-8 live in coto_utf8_len alone. */
static bool is_unfinished(const unsigned char *p, size_t avail)
{
    size_t len = announced_len(p[0]);
    unsigned char low[4] = {0x80, 0x80, 0x80, 0x80};
    unsigned char high[4] = {0xbf, 0xbf, 0xbf, 0xbf};

    if (avail >= len)
        return false;
    memcpy(low, p, avail);
    memcpy(high, p, avail);
    return coto_utf8_len(low, len) == len || coto_utf8_len(high, len) == len;
}

/* Writes the first character at p; returns how many bytes it took. */
static size_t add_one(const unsigned char *p, size_t avail, struct coto_buf *out)
{
    size_t len = coto_utf8_len(p, avail);

    if (len == 0) {
        coto_buf_addf(out, "\\x%02x", p[0]);
        return 1;
    }
    if (len == 1 && !is_plain(p[0]))
        coto_buf_addf(out, "^%c", p[0] ^ 0x40);
    else if (len > 1 && coto_utf8_misleads(coto_utf8_value(p, len)))
        coto_buf_addf(out, "\\u%04x", coto_utf8_value(p, len));
    else
        coto_buf_add(out, p, len);
    return len;
}

/* Writes all whole characters; returns where an unfinished one begins. */
static size_t add_all(const unsigned char *p, size_t len, struct coto_buf *out)
{
    size_t i = 0;

    while (i < len) {
        size_t run = i;
        while (run < len && is_plain(p[run]))
            run++;
        if (run > i) {
            coto_buf_add(out, p + i, run - i);
            i = run;
        } else if (is_unfinished(p + i, len - i)) {
            break;
        } else {
            i += add_one(p + i, len - i, out);
        }
    }
    return i;
}

void coto_escape_add(struct coto_escape *escape, const void *data, size_t len,
                     struct coto_buf *out)
{
    const unsigned char *p = data;

    /* A held character needs at most three more bytes; feed them one by one. */
    while (escape->held_len > 0 && len > 0) {
        escape->held[escape->held_len++] = *p++;
        len--;
        size_t done = add_all(escape->held, escape->held_len, out);
        memmove(escape->held, escape->held + done, escape->held_len - done);
        escape->held_len -= done;
    }
    if (len == 0)
        return;
    size_t done = add_all(p, len, out);
    memcpy(escape->held, p + done, len - done);
    escape->held_len = len - done;
}

void coto_escape_end(struct coto_escape *escape, struct coto_buf *out)
{
    for (size_t i = 0; i < escape->held_len; i++)
        coto_buf_addf(out, "\\x%02x", escape->held[i]);
    escape->held_len = 0;
}
