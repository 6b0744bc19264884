#include "base/json.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* By hand: output is the program's choice, and printf for each of ten million bytes costs
 * seconds. Every value that is escaped has four digits. */
static void add_hex(struct coto_buf *out, unsigned value)
{
    static const char digits[] = "0123456789abcdef";
    const char text[6] = {'\\',
                          'u',
                          digits[value >> 12 & 15],
                          digits[value >> 8 & 15],
                          digits[value >> 4 & 15],
                          digits[value & 15]};

    coto_buf_add(out, text, sizeof text);
}

static void add_escaped(struct coto_buf *out, const unsigned char *p, size_t len)
{
    coto_buf_addc(out, '"');
    size_t plain = 0; /* start of the run that needs no escaping */
    size_t i = 0;
    while (i < len) {
        size_t n = coto_utf8_len(p + i, len - i);
        unsigned value = n ? coto_utf8_value(p + i, n) : 0;
        if (value >= 0x20 && value != '"' && value != '\\' && value != 0x7f &&
            !coto_utf8_misleads(value)) {
            i += n;
            continue;
        }
        coto_buf_add(out, p + plain, i - plain);
        switch (p[i]) {
        case '"':
        case '\\':
            coto_buf_addc(out, '\\');
            coto_buf_addc(out, (char)p[i]);
            break;
        case '\n':
            coto_buf_adds(out, "\\n");
            break;
        case '\t':
            coto_buf_adds(out, "\\t");
            break;
        case '\r':
            coto_buf_adds(out, "\\r");
            break;
        default:
            if (n == 0)
                coto_buf_adds(out, "\\ufffd");
            else
                add_hex(out, value);
        }
        i += n ? n : 1;
        plain = i;
    }
    coto_buf_add(out, p + plain, len - plain);
    coto_buf_addc(out, '"');
}

static void indent(struct coto_json *json)
{
    if (!json->pretty)
        return;
    coto_buf_addc(json->out, '\n');
    for (int i = 0; i < json->depth; i++)
        coto_buf_adds(json->out, "  ");
}

static void start_item(struct coto_json *json, const char *key)
{
    if (json->depth > 0) {
        if (json->has_item[json->depth])
            coto_buf_addc(json->out, ',');
        json->has_item[json->depth] = true;
        indent(json);
    }
    if (key) {
        add_escaped(json->out, (const unsigned char *)key, strlen(key));
        coto_buf_adds(json->out, json->pretty ? ": " : ":");
    }
}

void coto_json_begin(struct coto_json *json, const char *key, char open)
{
    start_item(json, key);
    coto_buf_addc(json->out, open);
    if (json->depth + 1 >= (int)(sizeof json->has_item)) {
        json->out->failed = true;
        return;
    }
    json->has_item[++json->depth] = false;
}

void coto_json_end(struct coto_json *json, char close)
{
    bool had = json->has_item[json->depth];

    if (json->depth > 0)
        json->depth--;
    if (had)
        indent(json);
    coto_buf_addc(json->out, close);
    if (json->depth == 0 && json->pretty)
        coto_buf_addc(json->out, '\n');
}

void coto_json_strn(struct coto_json *json, const char *key, const void *value, size_t len)
{
    start_item(json, key);
    add_escaped(json->out, value, len);
}

void coto_json_str(struct coto_json *json, const char *key, const char *value)
{
    if (!value)
        coto_json_null(json, key);
    else
        coto_json_strn(json, key, value, strlen(value));
}

void coto_json_int(struct coto_json *json, const char *key, int64_t value)
{
    start_item(json, key);
    coto_buf_addf(json->out, "%" PRId64, value);
}

void coto_json_ms(struct coto_json *json, const char *key, int64_t microseconds)
{
    start_item(json, key);
    if (microseconds < 0)
        microseconds = 0;
    coto_buf_addf(json->out, "%" PRId64 ".%03d", microseconds / 1000, (int)(microseconds % 1000));
}

void coto_json_bool(struct coto_json *json, const char *key, bool value)
{
    start_item(json, key);
    coto_buf_adds(json->out, value ? "true" : "false");
}

void coto_json_null(struct coto_json *json, const char *key)
{
    start_item(json, key);
    coto_buf_adds(json->out, "null");
}

void coto_json_raw(struct coto_json *json, const char *key, const char *text)
{
    start_item(json, key);
    coto_buf_adds(json->out, text);
}

void coto_base64_add(struct coto_buf *out, const void *data, size_t len)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const unsigned char *p = data;
    char *to = coto_buf_reserve(out, (len + 2) / 3 * 4);

    if (!to)
        return;
    for (size_t i = 0; i < len; i += 3) {
        size_t left = len - i;
        unsigned v = (unsigned)p[i] << 16 | (left > 1 ? (unsigned)p[i + 1] << 8 : 0) |
                     (left > 2 ? p[i + 2] : 0u);
        *to++ = digits[v >> 18];
        *to++ = digits[v >> 12 & 63];
        *to++ = left > 1 ? digits[v >> 6 & 63] : '=';
        *to++ = left > 2 ? digits[v & 63] : '=';
    }
    *to = '\0';
    out->len += (len + 2) / 3 * 4;
}

static int base64_value(char c)
{
    if (c >= 'A' && c <= 'Z')
        return c - 'A';
    if (c >= 'a' && c <= 'z')
        return c - 'a' + 26;
    if (c >= '0' && c <= '9')
        return c - '0' + 52;
    return c == '+' ? 62 : c == '/' ? 63 : -1;
}

/* The bytes that the text means, or -1; pad: the last digits that are none. */
static int take_digits(struct coto_buf *out, char *to, const char *text, size_t len, size_t pad)
{
    unsigned v = 0;

    for (size_t i = 0; i < len - pad; i++) {
        int digit = base64_value(text[i]);
        if (digit < 0)
            return -1;
        v = v << 6 | (unsigned)digit;
        if (i % 4 == 0)
            continue;
        *to++ = (char)(v >> (6 - 2 * (i % 4)));
        out->len++;
    }
    *to = '\0';
    /* Bits that belong to no byte: two texts must not mean the same. */
    return pad && v & ((1u << 2 * pad) - 1) ? -1 : 0;
}

int coto_base64_take(struct coto_buf *out, const char *text, size_t len)
{
    size_t pad = len && text[len - 1] == '=' ? 1 + (len > 1 && text[len - 2] == '=') : 0;
    size_t had = out->len;
    char *to = len % 4 ? NULL : coto_buf_reserve(out, len / 4 * 3);

    if (!to)
        return -1;
    if (take_digits(out, to, text, len, pad) == 0)
        return 0;
    out->len = had;
    *to = '\0';
    return -1;
}

void coto_json_bytes(struct coto_json *json, const char *key, const void *data, size_t len)
{
    coto_json_strn(json, key, data, len);
    if (coto_utf8_valid(data, len))
        return;
    char name[80];
    snprintf(name, sizeof name, "%s_base64", key);
    start_item(json, name);
    coto_buf_addc(json->out, '"');
    coto_base64_add(json->out, data, len);
    coto_buf_addc(json->out, '"');
}
