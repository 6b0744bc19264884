#include "http/parse.h"

#include "base/str.h"

#include <string.h>
#include <strings.h>

/* Longest chunk size in hexadecimal digits: 4 GiB, and nothing can overflow. */
#define CHUNK_DIGITS 8
#define LENGTH_DIGITS 18

enum { TOKEN = 1, PATH = 2 };

/* clang-format off */
static const unsigned char classes[256] = {
    ['0' ... '9'] = TOKEN | PATH, ['A' ... 'Z'] = TOKEN | PATH, ['a' ... 'z'] = TOKEN | PATH,
    ['!'] = TOKEN | PATH, ['$'] = TOKEN | PATH, ['&'] = TOKEN | PATH, ['\''] = TOKEN | PATH,
    ['*'] = TOKEN | PATH, ['+'] = TOKEN | PATH, ['-'] = TOKEN | PATH, ['.'] = TOKEN | PATH,
    ['_'] = TOKEN | PATH, ['~'] = TOKEN | PATH, ['%'] = TOKEN | PATH,
    ['#'] = TOKEN, ['^'] = TOKEN, ['`'] = TOKEN, ['|'] = TOKEN,
    ['('] = PATH, [')'] = PATH, [','] = PATH, [';'] = PATH, ['='] = PATH, [':'] = PATH,
    ['@'] = PATH, ['/'] = PATH,
};
/* clang-format on */

/* What is answered with 405 and not worth a handler's time has no name here. */
static const char *const methods[] = {"GET", "POST", "DELETE", "PUT", "HEAD", "PATCH", "OPTIONS"};

/* Fields that may come once. The parser acts upon the first four. */
enum { HOST, LENGTH, CODING, EXPECT, SINGLE_COUNT = 12 };
static const char *const singles[SINGLE_COUNT] = {
    "host",          "content-length", "transfer-encoding", "expect",
    "authorization", "content-type",   "content-encoding",  "idempotency-key",
    "origin",        "range",          "last-event-id",     "upgrade",
};

static int refuse(struct coto_http_head *head, int status, const char *why)
{
    head->status = status;
    head->why = why;
    return -1;
}

static bool all_of(const char *text, size_t len, int class)
{
    for (size_t i = 0; i < len; i++)
        if (!(classes[(unsigned char)text[i]] & class))
            return false;
    return len > 0;
}

static int hex(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c |= 0x20;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

long coto_http_decode(char *text, size_t len, bool plus_is_blank)
{
    size_t out = 0;

    for (size_t i = 0; i < len; i++) {
        char c = text[i];
        if (c == '%') {
            if (len - i < 3 || hex(text[i + 1]) < 0 || hex(text[i + 2]) < 0)
                return -1;
            c = (char)(hex(text[i + 1]) << 4 | hex(text[i + 2]));
            i += 2;
        } else if (c == '+' && plus_is_blank) {
            c = ' ';
        }
        text[out++] = c;
    }
    return (long)out;
}

/* One way only to write a path: no segment that is empty (but the last), "." or "..". */
static bool segments_are_plain(const char *path)
{
    while (*path == '/') {
        size_t len = strcspn(++path, "/");
        if ((len == 0 && *path) || (len <= 2 && len > 0 && strspn(path, ".") == len))
            return false;
        path += len;
    }
    return true;
}

static int take_target(struct coto_http_head *head, char *data, char *target, size_t len)
{
    char *mark = memchr(target, '?', len);
    size_t path_len = mark ? (size_t)(mark - target) : len;

    if (target[0] != '/')
        return refuse(head, 400, "the request target is not a path");
    for (size_t i = path_len; i < len; i++)
        if (target[i] <= ' ' || target[i] >= 0x7f || target[i] == '#')
            return refuse(head, 400, "the query has a character that must be percent-encoded");
    if (!all_of(target, path_len, PATH))
        return refuse(head, 400, "the path has a character that must be percent-encoded");
    size_t slashes = 0;
    for (size_t i = 0; i < path_len; i++)
        slashes += target[i] == '/';
    long decoded = coto_http_decode(target, path_len, false);
    if (decoded < 0 || !coto_utf8_valid(target, (size_t)decoded))
        return refuse(head, 400, "the path is not percent-encoded UTF-8");
    for (long i = 0; i < decoded; i++) {
        unsigned char c = (unsigned char)target[i];
        if (c < ' ' || c == 0x7f || c == '\\' || (c == '/' && slashes-- == 0))
            return refuse(head, 400, "the path has an encoded slash or control character");
    }
    target[decoded] = '\0';
    if (!segments_are_plain(target))
        return refuse(head, 400, "the path has an empty, \".\" or \"..\" segment");
    head->path = (uint32_t)(target - data);
    head->query = mark ? (uint32_t)(mark + 1 - data) : 0;
    return 0;
}

/* The line is NUL-terminated, its length without that. */
static int take_request_line(struct coto_http_head *head, char *data, char *line, size_t len)
{
    char *target = memchr(line, ' ', len);
    char *version = target ? memchr(target + 1, ' ', len - (size_t)(target + 1 - line)) : NULL;

    if (!version || version == target + 1 || !all_of(line, (size_t)(target - line), TOKEN))
        return refuse(head, 400, "the request line is not METHOD TARGET HTTP/1.1");
    if (strncmp(version + 1, "HTTP/1.", 7) != 0 || line + len - version != 9 ||
        (version[8] != '0' && version[8] != '1'))
        return refuse(head, strncmp(version + 1, "HTTP/", 5) == 0 ? 505 : 400,
                      "only HTTP/1.1 and HTTP/1.0 are spoken here");
    head->minor = (uint8_t)(version[8] - '0');
    *target++ = '\0';
    *version = '\0';
    for (size_t i = 0; i < sizeof methods / sizeof *methods; i++)
        if (strcmp(line, methods[i]) == 0)
            head->method = methods[i];
    if (!head->method)
        return refuse(head, 405, "this method is not allowed");
    head->has_line = true;
    return take_target(head, data, target, (size_t)(version - target));
}

static int take_length(struct coto_http_head *head, const char *value)
{
    size_t len = strspn(value, "0123456789");

    if (len == 0 || value[len])
        return refuse(head, 400, "Content-Length is not a number");
    if (len > LENGTH_DIGITS)
        return refuse(head, 413, "the body is too large");
    for (head->length = 0; *value; value++)
        head->length = head->length * 10 + (*value - '0');
    return 0;
}

static bool lists(const char *value, const char *word)
{
    size_t word_len = strlen(word);

    while (*value) {
        value += strspn(value, " \t,");
        size_t len = strcspn(value, " \t,");
        if (len == word_len && strncasecmp(value, word, len) == 0)
            return true;
        value += len;
    }
    return false;
}

static int take_single(struct coto_http_head *head, int which, const char *value)
{
    if (head->seen & 1u << which)
        return refuse(head, 400, "a header field that may come once came twice");
    head->seen |= (uint16_t)(1u << which);
    if (head->seen & 1u << LENGTH && head->seen & 1u << CODING)
        return refuse(head, 400, "Content-Length and Transfer-Encoding exclude each other");
    if (which == HOST && value[strspn(value, "abcdefghijklmnopqrstuvwxyz0123456789.-_:[]"
                                             "ABCDEFGHIJKLMNOPQRSTUVWXYZ")])
        return refuse(head, 400, "Host is not a name and port");
    if (which == LENGTH)
        return take_length(head, value);
    if (which == CODING) {
        if (head->minor == 0 || strcasecmp(value, "chunked") != 0)
            return refuse(head, head->minor == 0 ? 400 : 501, "no transfer coding but chunked");
        head->length = -1;
    }
    if (which == EXPECT) {
        if (strcasecmp(value, "100-continue") != 0)
            return refuse(head, 417, "no expectation but 100-continue");
        head->wants_continue = head->minor > 0;
    }
    return 0;
}

static int take_field(struct coto_http_head *head, char *data, char *line, size_t len)
{
    char *colon = memchr(line, ':', len);

    if (line[0] == ' ' || line[0] == '\t')
        return refuse(head, 400, "a folded header line");
    if (!colon || !all_of(line, (size_t)(colon - line), TOKEN))
        return refuse(head, 400, "a header line is not NAME: VALUE");
    *colon = '\0';
    char *value = colon + 1, *end = line + len;
    while (value < end && (*value == ' ' || *value == '\t'))
        value++;
    while (end > value && (end[-1] == ' ' || end[-1] == '\t'))
        end--;
    *end = '\0';
    for (const char *c = value; c < end; c++)
        if (((unsigned char)*c < ' ' && *c != '\t') || *c == 0x7f)
            return refuse(head, 400, "a header value has a control character");
    head->fields[head->count].name = (uint32_t)(line - data);
    head->fields[head->count++].value = (uint32_t)(value - data);
    if (strcasecmp(line, "connection") == 0) {
        head->wants_close |= lists(value, "close");
        head->wants_keep |= lists(value, "keep-alive");
        return 0;
    }
    for (int i = 0; i < SINGLE_COUNT; i++)
        if ((line[0] | 0x20) == singles[i][0] && strcasecmp(line, singles[i]) == 0)
            return take_single(head, i, value);
    return 0;
}

int coto_http_head_parse(struct coto_http_head *head, char *data, size_t len, unsigned max_bytes,
                         unsigned max_fields)
{
    for (;;) {
        char *line = data + head->pos;
        char *end = len > head->pos ? memchr(line, '\n', len - head->pos) : NULL;
        if ((size_t)(end ? end + 1 - data : (long)len) > max_bytes)
            return refuse(head, head->has_line ? 431 : 414, "the request's head is too large");
        if (!end)
            return 0;
        if (end == line || end[-1] != '\r')
            return refuse(head, 400, "a line ends without a carriage return");
        head->pos = (uint32_t)(end + 1 - data);
        size_t line_len = (size_t)(end - 1 - line);
        if (line_len == 0 && head->has_line) {
            if (head->minor == 1 && !(head->seen & 1u << HOST))
                return refuse(head, 400, "a request without Host");
            return 1;
        }
        if (head->count >= max_fields || head->count >= COTO_HTTP_FIELDS_MAX)
            return refuse(head, 431, "too many header fields");
        end[-1] = '\0';
        if ((head->has_line ? take_field : take_request_line)(head, data, line, line_len) < 0)
            return -1;
    }
}

const char *coto_http_head_text(const char *data, uint32_t offset)
{
    return offset ? data + offset : "";
}

const char *coto_http_head_get(const struct coto_http_head *head, const char *data,
                               const char *name)
{
    for (unsigned i = 0; i < head->count; i++)
        if (strcasecmp(data + head->fields[i].name, name) == 0)
            return data + head->fields[i].value;
    return NULL;
}

/* ---- bodies ---- */

void coto_http_body_init(struct coto_http_body_reader *body, int64_t length)
{
    *body = (struct coto_http_body_reader){.is_chunked = length < 0};
    if (length < 0)
        body->state = COTO_HTTP_BODY_SIZE;
    else if (length == 0)
        body->state = COTO_HTTP_BODY_DONE;
    else
        body->left = (uint64_t)length;
}

/* One byte of what stands around the chunks; 0, or -1 when it may not be there. */
static int take_framing(struct coto_http_body_reader *body, char c)
{
    switch (body->state) {
    case COTO_HTTP_BODY_SIZE:
    case COTO_HTTP_BODY_SIZE_MORE:
        if (c == '\r' && body->state == COTO_HTTP_BODY_SIZE_MORE) {
            body->state = COTO_HTTP_BODY_SIZE_LF;
            return 0;
        }
        if (hex(c) < 0 || ++body->digits > CHUNK_DIGITS)
            return -1;
        body->left = body->left << 4 | (unsigned)hex(c);
        body->state = COTO_HTTP_BODY_SIZE_MORE;
        return 0;
    case COTO_HTTP_BODY_SIZE_LF:
        body->state = body->left ? COTO_HTTP_BODY_DATA : COTO_HTTP_BODY_END_CR;
        body->digits = 0;
        return c == '\n' ? 0 : -1;
    case COTO_HTTP_BODY_DATA_LF:
        body->state = COTO_HTTP_BODY_SIZE;
        return c == '\n' ? 0 : -1;
    case COTO_HTTP_BODY_END_LF:
        body->state = COTO_HTTP_BODY_DONE;
        return c == '\n' ? 0 : -1;
    default: /* DATA_CR and END_CR: their LF is the next state */
        body->state++;
        return c == '\r' ? 0 : -1;
    }
}

int coto_http_body_next(struct coto_http_body_reader *body, const char *data, size_t len,
                        size_t *ret_used, const char **ret_piece, size_t *ret_piece_len)
{
    size_t used = 0;

    while (used < len && body->state != COTO_HTTP_BODY_DONE) {
        if (body->state == COTO_HTTP_BODY_DATA) {
            size_t n = len - used < body->left ? len - used : (size_t)body->left;
            body->left -= n;
            if (body->left == 0)
                body->state = body->is_chunked ? COTO_HTTP_BODY_DATA_CR : COTO_HTTP_BODY_DONE;
            *ret_piece = data + used;
            *ret_piece_len = n;
            *ret_used = used + n;
            return 1;
        }
        if (take_framing(body, data[used++]) < 0)
            return -1;
    }
    *ret_used = used;
    return 0;
}
