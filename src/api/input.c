/* `input` as the caller wrote it. A parser makes doubles of its numbers and knows no integer of more
 * than 64 bits; the program may read both otherwise. So its text is kept, and the parser, which still
 * says whether it is JSON, sees long integers as short ones. */
#include "api/api.h"
#include "api/long.h"

#include <stdlib.h>
#include <string.h>

#define DIGITS 19 /* from here on an integer may have more than 64 bits */
#define NAME "\"input\""

struct span {
    size_t at, end;
};

static size_t skip_blanks(const char *text, size_t len, size_t at)
{
    while (at < len && memchr(" \t\r\n", text[at], 4))
        at++;
    return at;
}

static size_t find_end(const char *text, size_t len, size_t at)
{
    unsigned depth = 0;

    while (at < len) {
        char c = text[at];
        if (depth == 0 && (c == ',' || c == '}' || c == ']'))
            return at;
        depth += c == '{' || c == '[';
        depth -= c == '}' || c == ']';
        at = c == '"' ? api_long_end(text, len, at) : at + 1;
    }
    return len;
}

/* The value of that field of the outermost object, which may be no JSON. */
static bool find(const char *text, size_t len, struct span *ret_value)
{
    unsigned depth = 0;

    for (size_t at = 0, end; at < len; at = end) {
        end = text[at] == '"' ? api_long_end(text, len, at) : at + 1;
        depth += text[at] == '{' || text[at] == '[';
        depth -= depth > 0 && (text[at] == '}' || text[at] == ']');
        if (depth != 1 || end - at != strlen(NAME) || memcmp(text + at, NAME, strlen(NAME)) != 0)
            continue;
        size_t colon = skip_blanks(text, len, end);
        if (colon < len && text[colon] == ':') {
            ret_value->at = skip_blanks(text, len, colon + 1);
            ret_value->end = find_end(text, len, ret_value->at);
            return true;
        }
    }
    return false;
}

static bool is_long(const char *digits, size_t len)
{
    return len >= DIGITS && digits[0] != '0' && strspn(digits, "0123456789") >= len;
}

int api_input_hide(const char *text, size_t len, struct coto_buf *ret_text)
{
    struct span value;

    if (!find(text, len, &value))
        return 0;
    for (size_t at = value.at, end; at < value.end; at = end) {
        size_t number = strspn(text + at, "0123456789.eE+");
        end = text[at] == '"' ? api_long_end(text, len, at) : at + (number ? number : 1);
        if (!is_long(text + at, number))
            continue;
        if (ret_text->len == 0)
            coto_buf_add(ret_text, text, len);
        if (ret_text->failed)
            return -1;
        memset(ret_text->data + at + 1, ' ', number - 1);
    }
    return 0;
}

/* Without blanks: who reads a line has all of it. */
static json_t *copy(const char *text, struct span value)
{
    coto_auto_buf out = {0};

    for (size_t at = value.at, end; at < value.end; at = end) {
        end = text[at] == '"' ? api_long_end(text, value.end, at) : at + 1;
        if (!memchr(" \t\r\n", text[at], 4))
            coto_buf_add(&out, text + at, end - at);
    }
    return out.failed ? NULL : json_stringn_nocheck(coto_buf_str(&out), out.len);
}

int api_input_keep(json_t *body, const char *text, size_t len, struct coto_err *err)
{
    const json_t *input = json_object_get(body, "input");
    struct span value;

    if (!input)
        return 0;
    json_t *kept = NULL;
    if (find(text, len, &value)) {
        kept = copy(text, value);
    } else { /* its name is written with escapes */
        char *dump = json_dumps(input, JSON_ENCODE_ANY | JSON_COMPACT);
        kept = dump ? json_string_nocheck(dump) : NULL;
        free(dump);
    }
    if (!kept || json_object_set_new_nocheck(body, "input", kept))
        return coto_err_set(err, COTO_ERR_LIMIT, 0, "keep the input");
    return 0;
}
