/* Strict parser of HTTP/1.1 requests. No I/O, no allocation.
 *
 * It refuses what proxies and servers are known to read differently, even where a lenient
 * reading is allowed: bare CR or LF, folded lines, blanks around field names, NUL and other
 * control characters, both lengths or two of one, any transfer coding but chunked, chunk
 * extensions, trailers, absolute request targets, and paths that mean the same as another
 * path. Every line is judged as soon as it is complete.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define COTO_HTTP_FIELDS_MAX 64

struct coto_http_head {
    uint32_t pos;         /* bytes judged so far; when done the length of the head */
    uint32_t path, query; /* offsets of NUL-terminated texts; 0 is "none" */
    uint16_t count;
    uint16_t seen; /* bits of the fields that may come only once */
    uint8_t minor; /* HTTP/1.0 or 1.1 */
    bool has_line; /* the request line was read */
    bool wants_close, wants_keep, wants_continue;
    int64_t length;     /* of the body; -1: chunked */
    const char *method; /* static */
    struct {
        uint32_t name, value; /* offsets of NUL-terminated texts */
    } fields[COTO_HTTP_FIELDS_MAX];
    int status;      /* after -1: what to answer, */
    const char *why; /* and the reason, a plain sentence */
};

/* Goes on judging a head of which len bytes are here, from its first byte; earlier calls may
 * have had it at another address. 1 complete, 0 more is needed, -1 refused. The bytes
 * change: texts are decoded and NUL-terminated in place. */
int coto_http_head_parse(struct coto_http_head *head, char *data, size_t len, unsigned max_bytes,
                         unsigned max_fields);
/* "" for offset 0. */
const char *coto_http_head_text(const char *data, uint32_t offset);
/* The first field of that name, in any case; NULL when there is none. */
const char *coto_http_head_get(const struct coto_http_head *head, const char *data,
                               const char *name);

/* %XX and, in a query, '+'. The length of the text in place, or -1 when malformed. */
long coto_http_decode(char *text, size_t len, bool plus_is_blank);

enum coto_http_body_state {
    COTO_HTTP_BODY_DATA,
    COTO_HTTP_BODY_SIZE,      /* before the first digit of a chunk size */
    COTO_HTTP_BODY_SIZE_MORE, /* after it */
    COTO_HTTP_BODY_SIZE_LF,
    COTO_HTTP_BODY_DATA_CR,
    COTO_HTTP_BODY_DATA_LF,
    COTO_HTTP_BODY_END_CR,
    COTO_HTTP_BODY_END_LF,
    COTO_HTTP_BODY_DONE,
};

struct coto_http_body_reader {
    enum coto_http_body_state state;
    bool is_chunked;
    uint8_t digits;
    uint64_t left; /* of the body or of the chunk */
};

void coto_http_body_init(struct coto_http_body_reader *body, int64_t length);
/* Takes bytes from data. 1: a piece of the body is at *ret_piece; 0: more is needed, or the
 * body is complete (state DONE); -1: malformed. *ret_used bytes were taken. */
int coto_http_body_next(struct coto_http_body_reader *body, const char *data, size_t len,
                        size_t *ret_used, const char **ret_piece, size_t *ret_piece_len);
