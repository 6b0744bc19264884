/* Long texts of a body, decoded here. The parser takes each character through three functions, a tenth of a
 * second for ten megabytes; it gets a name in the place of each such text, and they are put back into what it has made. */
#include "api/long.h"

#include "base/own.h"
#include "policy/plan.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LONG (64 * 1024)

size_t api_long_end(const char *text, size_t len, size_t at)
{
    for (at++; at < len;) {
        const char *quote = memchr(text + at, '"', len - at);
        if (!quote)
            return len;
        size_t end = (size_t)(quote - text), slash = end;
        while (slash > at && text[slash - 1] == '\\')
            slash--;
        at = end + 1;
        if ((end - slash) % 2 == 0)
            return at;
    }
    return len;
}

/* ---- one text ---- */

static int hex_at(const char *text)
{
    int value = 0;

    for (int i = 0; i < 4; i++) {
        char c = text[i];
        int digit = c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
        if (digit < 0)
            return -1;
        value = value << 4 | digit;
    }
    return value;
}

static size_t put_utf8(unsigned value, char *out)
{
    if (value < 0x80)
        return out[0] = (char)value, 1;
    if (value < 0x800)
        return out[0] = (char)(0xc0 | value >> 6), out[1] = (char)(0x80 | (value & 0x3f)), 2;
    size_t more = value < 0x10000 ? 2 : 3;
    out[0] = (char)((more == 2 ? 0xe0 : 0xf0) | value >> (6 * more));
    for (size_t i = 1; i <= more; i++)
        out[i] = (char)(0x80 | (value >> (6 * (more - i)) & 0x3f));
    return more + 1;
}

/* \uXXXX, or two of them for one character. Bytes read, 0 where that is none. */
static size_t decode_u(const char *text, size_t len, char *out, size_t *ret_put)
{
    int value = len >= 6 ? hex_at(text + 2) : -1;

    if (value <= 0 || (value >= 0xdc00 && value <= 0xdfff))
        return 0;
    if (value < 0xd800 || value > 0xdbff) {
        *ret_put = put_utf8((unsigned)value, out);
        return 6;
    }
    int low = len >= 12 && text[6] == '\\' && text[7] == 'u' ? hex_at(text + 8) : -1;
    if (low < 0xdc00 || low > 0xdfff)
        return 0;
    *ret_put = put_utf8(0x10000u + ((unsigned)(value - 0xd800) << 10) + (unsigned)(low - 0xdc00), out);
    return 12;
}

static size_t decode_escape(const char *text, size_t len, char *out, size_t *ret_put)
{
    static const char names[] = "\"\\/bfnrt", values[] = "\"\\/\b\f\n\r\t";
    const char *found = len >= 2 && text[1] ? strchr(names, text[1]) : NULL;

    if (len >= 2 && text[1] == 'u')
        return decode_u(text, len, out, ret_put);
    if (!found)
        return 0;
    *out = values[found - names];
    *ret_put = 1;
    return 2;
}

/* Plain ones, which nearly all are, eight at a time. */
static size_t count_plain(const char *text, size_t len)
{
    size_t at = 0;

    for (; at + 8 <= len; at += 8) {
        uint64_t word, slashes;
        memcpy(&word, text + at, 8);
        slashes = word ^ 0x5c5c5c5c5c5c5c5cu;
        uint64_t below = (word - 0x2020202020202020u) | ((slashes - 0x0101010101010101u) & ~slashes) | word;
        if (below & 0x8080808080808080u)
            break;
    }
    while (at < len && (unsigned char)text[at] >= ' ' && (unsigned char)text[at] < 0x80 && text[at] != '\\')
        at++;
    return at;
}

/* What is between the quotes. As many bytes as could be read: all, or up to what is no JSON. */
static size_t decode(const char *text, size_t len, struct coto_buf *out)
{
    size_t at = 0;

    while (at < len && !out->failed) {
        size_t plain = count_plain(text + at, len - at), put = 0;
        char one[4];
        coto_buf_add(out, text + at, plain);
        at += plain;
        if (at == len)
            break;
        size_t used = text[at] == '\\' ? decode_escape(text + at, len - at, one, &put) : 0;
        if (text[at] & 0x80) {
            used = put = coto_utf8_len((const unsigned char *)text + at, len - at);
            memcpy(one, text + at, used);
        }
        if (used == 0)
            break;
        coto_buf_add(out, one, put);
        at += used;
    }
    return at;
}

/* ---- all of a body ---- */

static bool is_name(const char *text, size_t len, size_t end)
{
    while (end < len && memchr(" \t\r\n", text[end], 4))
        end++;
    return end < len && text[end] == ':';
}

static size_t count_characters(const char *text, size_t len)
{
    size_t n = 0;

    for (size_t i = 0; i < len; i++)
        n += (text[i] & 0xc0) != 0x80;
    return n;
}

/* Of one that is no JSON only the beginning is left out: the parser says what is wrong with the rest. */
static int hide_one(struct api_long *all, const char *text, size_t len)
{
    struct api_long_text *more = realloc(all->texts, (all->count + 1) * sizeof *more);

    if (!more)
        return -1;
    all->texts = more;
    struct api_long_text *it = &more[all->count++];
    *it = (struct api_long_text){.at = all->seen.len};
    size_t good = decode(text + 1, len - 2, &it->data);
    bool is_whole = good == len - 2 && text[len - 1] == '"';
    char name[COTO_ID_TEXT + 24];
    coto_buf_addc(&all->seen, '"');
    if (is_whole) {
        snprintf(name, sizeof name, "%s-%zu", all->name, all->count - 1);
        coto_buf_adds(&all->seen, name);
        coto_buf_addc(&all->seen, '"');
    } else {
        coto_buf_add(&all->seen, text + 1 + good, len - 1 - good);
    }
    it->left_out = count_characters(text + 1, good) - (is_whole ? strlen(name) : 0);
    return it->data.failed || all->seen.failed ? -1 : 0;
}

/* Objects and lists that are open at `to`; counted on from where it was last asked. */
struct nesting {
    size_t at;
    unsigned depth;
};

static unsigned depth_at(struct nesting *it, const char *text, size_t len, size_t to)
{
    while (it->at < to) {
        char c = text[it->at];
        it->depth += c == '{' || c == '[';
        it->depth -= it->depth > 0 && (c == '}' || c == ']');
        it->at = c == '"' ? api_long_end(text, len, it->at) : it->at + 1;
    }
    return it->depth;
}

/* No field is called so. Those in a value of the caller's (`input`) are the parser's. */
static int refuse_name(struct coto_err *err)
{
    coto_err_set(err, COTO_ERR_USAGE, 0, "body: no such field: its name has more than %d bytes", LONG);
    return coto_err_remedy(err, "GET /openapi.json lists what there is");
}

int api_long_hide(const char *text, size_t len, struct api_long *ret_all, struct coto_err *err)
{
    struct nesting nesting = {0};
    size_t from = 0;

    for (size_t at = 0, end; at < len; at = end) {
        const char *quote = memchr(text + at, '"', len - at);
        if (!quote)
            break;
        at = (size_t)(quote - text);
        end = api_long_end(text, len, at);
        if (end - at < LONG)
            continue;
        if (is_name(text, len, end)) {
            if (depth_at(&nesting, text, len, at) <= 1)
                return refuse_name(err);
            continue;
        }
        if (!ret_all->count && coto_plan_new_id(ret_all->name, err))
            return -1;
        coto_buf_add(&ret_all->seen, text + from, at - from);
        if (hide_one(ret_all, text + at, end - at))
            return coto_err_set(err, COTO_ERR_LIMIT, 0, "no memory");
        from = end;
    }
    if (ret_all->count)
        coto_buf_add(&ret_all->seen, text + from, len - from);
    return ret_all->seen.failed ? coto_err_set(err, COTO_ERR_LIMIT, 0, "no memory") : 0;
}

/* ---- what the parser has made of it ---- */

static int put_back(const struct api_long *all, json_t *text)
{
    size_t prefix = strlen(all->name);
    const char *value = json_string_value(text);

    if (json_string_length(text) <= prefix + 1 || memcmp(value, all->name, prefix) != 0)
        return 0;
    const struct coto_buf *data = &all->texts[strtoul(value + prefix + 1, NULL, 10)].data;
    return json_string_setn_nocheck(text, coto_buf_str(data), data->len);
}

int api_long_put_back(const struct api_long *all, json_t *value)
{
    const char *name;
    json_t *one;
    size_t i;

    if (!all->count)
        return 0;
    if (json_is_string(value))
        return put_back(all, value);
    json_array_foreach(value, i, one)
        if (api_long_put_back(all, one))
            return -1;
    if (json_is_object(value))
        json_object_foreach(value, name, one)
            if (api_long_put_back(all, one))
                return -1;
    return 0;
}

int api_long_column(const struct api_long *all, int position, int column)
{
    for (size_t i = all->count; i > 0; i--) {
        const struct api_long_text *it = &all->texts[i - 1];
        if (it->at >= (size_t)position)
            continue;
        if (memchr(all->seen.data + it->at, '\n', (size_t)position - it->at))
            break;
        column += (int)it->left_out;
    }
    return column;
}

void api_long_fini(struct api_long *all)
{
    for (size_t i = 0; i < all->count; i++)
        coto_buf_fini(&all->texts[i].data);
    free(all->texts);
    coto_buf_fini(&all->seen);
    *all = (struct api_long){0};
}
