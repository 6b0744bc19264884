/* Streaming JSON writer into a coto_buf: commas and nesting are kept here, so
 * callers only name keys and values. A key of NULL is used inside arrays and at
 * top level. Strings that are not valid UTF-8 are written with U+FFFD in the
 * bad places; use coto_json_bytes to keep them losslessly.
 */
#pragma once

#include "base/str.h"

#include <stdbool.h>
#include <stdint.h>

struct coto_json {
    struct coto_buf *out;
    bool pretty;
    int depth;
    bool has_item[32];
};

void coto_json_begin(struct coto_json *json, const char *key, char open); /* '{' or '[' */
void coto_json_end(struct coto_json *json, char close);                   /* '}' or ']' */
void coto_json_str(struct coto_json *json, const char *key, const char *value); /* NULL: null */
void coto_json_strn(struct coto_json *json, const char *key, const void *value, size_t len);
void coto_json_int(struct coto_json *json, const char *key, int64_t value);
void coto_json_ms(struct coto_json *json, const char *key, int64_t microseconds); /* 12.345 */
void coto_json_bool(struct coto_json *json, const char *key, bool value);
void coto_json_null(struct coto_json *json, const char *key);
void coto_json_raw(struct coto_json *json, const char *key, const char *text); /* is JSON already */
/* "key": text, and "key_base64" beside it when the bytes are not UTF-8. */
void coto_json_bytes(struct coto_json *json, const char *key, const void *data, size_t len);
void coto_base64_add(struct coto_buf *out, const void *data, size_t len);
/* The counterpart, strict: padded, no blanks, nothing left over. 0, or -1 with out as it was. */
int coto_base64_take(struct coto_buf *out, const char *text, size_t len);
