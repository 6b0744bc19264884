/* Any bytes through the JSON writer: what comes out is one JSON text of valid UTF-8,
 * and the bytes can be had back from it: from the string itself, or from the
 * base64 beside it. The reader here is written from the grammar, not from the writer. */
#include "base/json.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct text {
    const char *at;
    const char *end;
};

static char take(struct text *t)
{
    if (t->at == t->end)
        abort();
    return *t->at++;
}

static void expect(struct text *t, const char *word)
{
    for (; *word; word++)
        if (take(t) != *word)
            abort();
}

static void skip_space(struct text *t)
{
    while (t->at < t->end && strchr(" \n", *t->at))
        t->at++;
}

static unsigned hex4(struct text *t)
{
    unsigned v = 0;

    for (int i = 0; i < 4; i++) {
        const char *digits = "0123456789abcdef";
        const char *found = memchr(digits, take(t), 16);
        if (!found)
            abort();
        v = v << 4 | (unsigned)(found - digits);
    }
    return v;
}

static void add_utf8(struct coto_buf *out, unsigned c)
{
    if (c >= 0x800) {
        coto_buf_addc(out, (char)(0xe0 | c >> 12));
        coto_buf_addc(out, (char)(0x80 | (c >> 6 & 63)));
    } else if (c >= 0x80) {
        coto_buf_addc(out, (char)(0xc0 | c >> 6));
    }
    coto_buf_addc(out, (char)(c < 0x80 ? c : 0x80 | (c & 63)));
}

static void read_string(struct text *t, struct coto_buf *out)
{
    static const char from[] = "\"\\/bfnrt";
    static const char to[] = "\"\\/\b\f\n\r\t";

    coto_buf_clear(out);
    expect(t, "\"");
    for (char c; (c = take(t)) != '"';) {
        if ((unsigned char)c < 0x20)
            abort();
        if (c != '\\') {
            coto_buf_addc(out, c);
            continue;
        }
        c = take(t);
        const char *found = memchr(from, c, sizeof from - 1);
        if (c == 'u')
            add_utf8(out, hex4(t));
        else if (found)
            coto_buf_addc(out, to[found - from]);
        else
            abort();
    }
}

static size_t decode_base64(const struct coto_buf *text, unsigned char *out)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    size_t len = 0;

    if (text->len % 4)
        abort();
    for (size_t i = 0; i < text->len; i += 4) {
        unsigned v = 0;
        int pad = 0;
        for (size_t k = 0; k < 4; k++) {
            const char *found = memchr(digits, text->data[i + k], 64);
            pad += text->data[i + k] == '=';
            if ((!found && text->data[i + k] != '=') || (found && pad))
                abort();
            v = v << 6 | (found ? (unsigned)(found - digits) : 0u);
        }
        for (int k = 0; k < 3 - pad; k++)
            out[len++] = (unsigned char)(v >> (16 - 8 * k));
    }
    return len;
}

static void check_same(const void *a, size_t a_len, const void *b, size_t b_len)
{
    if (a_len != b_len || (a_len && memcmp(a, b, a_len) != 0))
        abort();
}

static void read_key(struct text *t, const char *name)
{
    coto_auto_buf key = {0};

    skip_space(t);
    read_string(t, &key);
    if (strcmp(coto_buf_str(&key), name) != 0)
        abort();
    expect(t, ":");
    skip_space(t);
}

/* {"a": [string], "data": string[, "data_base64": string], "n": -7} */
static void check(const struct coto_buf *json, const uint8_t *data, size_t size)
{
    struct text t = {json->data, json->data + json->len};
    coto_auto_buf text = {0};

    if (!coto_utf8_valid(json->data, json->len))
        abort();
    expect(&t, "{");
    read_key(&t, "a");
    expect(&t, "[");
    skip_space(&t);
    read_string(&t, &text);
    skip_space(&t);
    expect(&t, "],");
    read_key(&t, "data");
    read_string(&t, &text);
    if (!coto_utf8_valid(coto_buf_str(&text), text.len))
        abort();
    expect(&t, ",");
    if (coto_utf8_valid(data, size)) {
        check_same(coto_buf_str(&text), text.len, data, size);
    } else {
        read_key(&t, "data_base64");
        read_string(&t, &text);
        unsigned char *back = malloc(text.len + 1);
        if (back)
            check_same(back, decode_base64(&text, back), data, size);
        free(back);
        expect(&t, ",");
    }
    read_key(&t, "n");
    expect(&t, "-7");
    skip_space(&t);
    expect(&t, "}");
    skip_space(&t);
    if (t.at != t.end)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    for (int pretty = 0; pretty < 2; pretty++) {
        coto_auto_buf out = {0};
        struct coto_json json = {.out = &out, .pretty = pretty != 0};

        coto_json_begin(&json, NULL, '{');
        coto_json_begin(&json, "a", '[');
        coto_json_strn(&json, NULL, data, size);
        coto_json_end(&json, ']');
        coto_json_bytes(&json, "data", data, size);
        coto_json_int(&json, "n", -7);
        coto_json_end(&json, '}');
        if (out.failed)
            continue;
        check(&out, data, size);
    }
    return 0;
}
