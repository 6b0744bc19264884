#include "http/parse.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define HEAD_MAX 4096

struct parsed {
    struct coto_http_head head;
    char text[HEAD_MAX * 2];
    int result;
};

/* Fed in steps, each time at another address, in memory of the exact size. */
static void parse_in_steps(struct parsed *parsed, const char *bytes, size_t len, size_t step)
{
    memset(&parsed->head, 0, sizeof parsed->head);
    parsed->result = 0;
    size_t have = 0;
    while (parsed->result == 0 && have < len) {
        size_t more = len - have < step ? len - have : step;
        memcpy(parsed->text + have, bytes + have, more);
        have += more;
        char *moved = malloc(have);
        assert_non_null(moved);
        memcpy(moved, parsed->text, have);
        parsed->result = coto_http_head_parse(&parsed->head, moved, have, HEAD_MAX, 64);
        memcpy(parsed->text, moved, have);
        free(moved);
    }
}

static int status_of(const char *bytes, size_t len)
{
    static struct parsed parsed;
    int status = 0;

    for (size_t step = 1; step <= len; step = step < 8 ? step + 1 : step * 7) {
        parse_in_steps(&parsed, bytes, len, step);
        int now = parsed.result < 0 ? parsed.head.status : parsed.result > 0 ? 200 : 0;
        if (step > 1)
            assert_int_equal(now, status); /* however the bytes arrive */
        status = now;
    }
    return status;
}

/* A row may hold NUL bytes: their number is taken from the literal. */
struct row {
    int status;
    const char *bytes;
    size_t len;
};
#define ROW(status, text) {status, text, sizeof text - 1}
#define GET "GET / HTTP/1.1\r\nHost: a\r\n"
#define POST "POST / HTTP/1.1\r\nHost: a\r\n"
#define TARGET(target) "GET " target " HTTP/1.1\r\nHost: a\r\n\r\n"

static void check_rows(const struct row *rows, size_t count)
{
    int wrong = 0;

    for (size_t i = 0; i < count; i++) {
        int status = status_of(rows[i].bytes, rows[i].len);
        if (status != rows[i].status) {
            print_message("%d instead of %d: %s\n", status, rows[i].status, rows[i].bytes);
            wrong++;
        }
    }
    assert_int_equal(wrong, 0);
}

static void heads_are_taken_or_refused(void **state)
{
    static const struct row rows[] = {
        ROW(200, GET "\r\n"),
        ROW(200, "GET / HTTP/1.0\r\n\r\n"),
        ROW(200, GET "X:\r\n\r\n"),
        ROW(200, GET "X: \t a b \xc3\xa9 \t\r\n\r\n"),
        ROW(200, POST "Content-Length: 0\r\n\r\n"),
        ROW(200, POST "Content-Length: 999999999999999999\r\n\r\n"),
        ROW(200, POST "TRANSFER-encoding: Chunked\r\n\r\n"),
        ROW(200, POST "Expect: 100-continue\r\n\r\n"),
        ROW(200, GET "Accept: a\r\nAccept: b\r\n\r\n"),
        ROW(0, GET),
        ROW(0, "GET / HTTP/1.1\r\nHost: a"),
        /* request line */
        ROW(400, "\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n"),
        ROW(400, "GET /\r\n"),
        ROW(400, "GET  / HTTP/1.1\r\n"),
        ROW(505, "GET / HTTP/1.1 \r\n"),
        ROW(400, "GET /\tHTTP/1.1\r\n"),
        ROW(400, " GET / HTTP/1.1\r\n"),
        ROW(400, "G\0T / HTTP/1.1\r\n"),
        ROW(400, "G(T / HTTP/1.1\r\n"),
        ROW(400, "GET / http/1.1\r\n"),
        ROW(505, "GET / HTTP/1.2\r\n"),
        ROW(505, "GET / HTTP/1.11\r\n"),
        ROW(505, "GET / HTTP/2.0\r\n"),
        ROW(505, "PRI * HTTP/2.0\r\n"),
        ROW(405, "TRACE / HTTP/1.1\r\n"),
        ROW(405, "CONNECT a:1 HTTP/1.1\r\n"),
        ROW(405, "get / HTTP/1.1\r\n"),
        ROW(400, "\x16\x03\x01\x02\n"), /* TLS to a plain port */
        /* line ends */
        ROW(400, "GET / HTTP/1.1\nHost: a\n\n"),
        ROW(400, "GET / HTTP/1.1\r\nHost: a\n"),
        ROW(400, GET "\n"),
        ROW(400, GET "A: b\rC: d\r\n"),
        ROW(400, "GET /\r HTTP/1.1\r\n"),
        /* fields */
        ROW(400, GET "A: b\r\n c\r\n"),
        ROW(400, GET "\tA: b\r\n"),
        ROW(400, GET "A : b\r\n"),
        ROW(400, GET "A\t: b\r\n"),
        ROW(400, GET ": b\r\n"),
        ROW(400, GET "A\r\n"),
        ROW(400, GET "A b: c\r\n"),
        ROW(400, GET "A\xc3: b\r\n"),
        ROW(400, GET "A: b\0c\r\n"),
        ROW(400, GET "A: b\x01\r\n"),
        ROW(400, GET "A: b\x7f\r\n"),
        ROW(400, GET "A\0B: c\r\n"),
        /* Host */
        ROW(400, "GET / HTTP/1.1\r\n\r\n"),
        ROW(400, GET "Host: a\r\n"),
        ROW(400, GET "hOST: b\r\n"),
        ROW(400, "GET / HTTP/1.1\r\nHost: a b\r\n"),
        ROW(400, "GET / HTTP/1.1\r\nHost: a/b\r\n"),
        ROW(400, "GET / HTTP/1.1\r\nHost: a@b\r\n"),
        ROW(400, "GET / HTTP/1.1\r\nHost: a,b\r\n"),
        /* lengths */
        ROW(400, POST "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n"),
        ROW(400, POST "Transfer-Encoding: chunked\r\nContent-Length: 3\r\n"),
        ROW(400, POST "Content-Length: 3\r\nContent-Length: 4\r\n"),
        ROW(400, POST "Content-Length: 3\r\nContent-Length: 3\r\n"),
        ROW(400, POST "Content-Length: 3, 3\r\n"),
        ROW(400, POST "Content-Length : 3\r\n"),
        ROW(400, POST "Content-Length: +3\r\n"),
        ROW(400, POST "Content-Length: -3\r\n"),
        ROW(400, POST "Content-Length: 0x3\r\n"),
        ROW(400, POST "Content-Length: 3 4\r\n"),
        ROW(400, POST "Content-Length:\r\n"),
        ROW(413, POST "Content-Length: 18446744073709551619\r\n"),
        ROW(400, POST "Transfer-Encoding : chunked\r\n"),
        ROW(501, POST "Transfer-Encoding: gzip, chunked\r\n"),
        ROW(501, POST "Transfer-Encoding: xchunked\r\n"),
        ROW(400, POST "Transfer-Encoding: \x0b" "chunked\r\n"),
        ROW(501, POST "Transfer-Encoding: identity\r\n"),
        ROW(400, POST "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n"),
        ROW(400, "POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n"),
        ROW(417, POST "Expect: 200-ok\r\n"),
        ROW(400, GET "Authorization: a\r\nAuthorization: b\r\n"),
    };

    (void)state;
    check_rows(rows, sizeof rows / sizeof *rows);
}

static void one_way_only_to_write_a_path(void **state)
{
    static const struct row rows[] = {
        ROW(200, TARGET("/")), ROW(200, TARGET("/a/b/")), ROW(200, TARGET("/a?b=c&d=%zz?/..")),
        ROW(200, TARGET("/%61%20%C3%A9")), ROW(200, TARGET("/...")), ROW(200, TARGET("/.a/a.")),
        ROW(200, TARGET("/%252e%252e%252f")), /* the text "%2e%2e%2f": a name, no way up */
        ROW(400, TARGET("a")), ROW(400, TARGET("*")), ROW(400, TARGET("http://a/")),
        ROW(400, TARGET("//")), ROW(400, TARGET("//a")), ROW(400, TARGET("/a//b")),
        ROW(400, TARGET("/.")), ROW(400, TARGET("/..")), ROW(400, TARGET("/a/../b")),
        ROW(400, TARGET("/a/./b")), ROW(400, TARGET("/a/..")), ROW(400, TARGET("/../../etc")),
        ROW(400, TARGET("/%2e")), ROW(400, TARGET("/%2E%2e/a")), ROW(400, TARGET("/.%2e")),
        ROW(400, TARGET("/a%2fb")), ROW(400, TARGET("/%2F")), ROW(400, TARGET("/a%5Cb")),
        ROW(400, TARGET("/a\\b")), ROW(400, TARGET("/%00")), ROW(400, TARGET("/a%0d%0ab")),
        ROW(400, TARGET("/%7f")), ROW(400, TARGET("/%")), ROW(400, TARGET("/%4")),
        ROW(400, TARGET("/%4g")), ROW(400, TARGET("/%c0%af")), ROW(400, TARGET("/%c0%ae%c0%ae")),
        ROW(400, TARGET("/%ed%a0%80")), ROW(400, TARGET("/%ff")), ROW(400, TARGET("/\xc3\xa9")),
        ROW(400, TARGET("/a#b")), ROW(400, TARGET("/a?b#c")), ROW(400, TARGET("/a?b\xc3")),
        ROW(400, TARGET("/a?\x01")), ROW(400, TARGET("/a\"b")), ROW(400, TARGET("/a|b")),
        ROW(400, TARGET("/a\0b")), ROW(400, TARGET("/%u002e")),
    };

    (void)state;
    check_rows(rows, sizeof rows / sizeof *rows);
}

static void texts_are_where_the_head_says(void **state)
{
    static const char bytes[] = "PUT /a%20b/c?x=1&y HTTP/1.1\r\nhOST: a:1\r\nX-Blank: \t v w \t\r\n"
                                "X-None:\r\nContent-Length: 42\r\nConnection: TE, Close\r\n\r\nbody";
    static struct parsed parsed;

    (void)state;
    parse_in_steps(&parsed, bytes, sizeof bytes - 1, 5);
    const struct coto_http_head *head = &parsed.head;
    assert_int_equal(parsed.result, 1);
    assert_int_equal(head->pos, sizeof bytes - 1 - 4);
    assert_string_equal(head->method, "PUT");
    assert_string_equal(coto_http_head_text(parsed.text, head->path), "/a b/c");
    assert_string_equal(coto_http_head_text(parsed.text, head->query), "x=1&y");
    assert_string_equal(coto_http_head_get(head, parsed.text, "host"), "a:1");
    assert_string_equal(coto_http_head_get(head, parsed.text, "x-BLANK"), "v w");
    assert_string_equal(coto_http_head_get(head, parsed.text, "X-None"), "");
    assert_null(coto_http_head_get(head, parsed.text, "X-Non"));
    assert_int_equal(head->length, 42);
    assert_true(head->wants_close);
    assert_false(head->wants_keep);
}

static void a_head_has_limits(void **state)
{
    static struct parsed parsed;
    static char bytes[HEAD_MAX * 2];

    (void)state;
    memset(bytes, 'a', sizeof bytes);
    memcpy(bytes, "GET /", 5);
    parse_in_steps(&parsed, bytes, HEAD_MAX, 100);
    assert_int_equal(parsed.result, 0);
    parse_in_steps(&parsed, bytes, HEAD_MAX + 1, 100);
    assert_int_equal(parsed.head.status, 414);
    memcpy(bytes, GET, sizeof GET - 1);
    parse_in_steps(&parsed, bytes, HEAD_MAX + 1, 100);
    assert_int_equal(parsed.head.status, 431);
    for (int count = 63; count <= 64; count++) { /* and Host */
        size_t len = sizeof GET - 1;
        for (int i = 0; i < count; i++, len += 6)
            memcpy(bytes + len, "a: b\r\n", 6);
        memcpy(bytes + len, "\r\n", 2);
        parse_in_steps(&parsed, bytes, len + 2, 100);
        assert_int_equal(parsed.result < 0 ? parsed.head.status : 200, count == 63 ? 200 : 431);
    }
}

/* ---- bodies ---- */

/* The body, or NULL when malformed; "?" at its end when it is not complete. */
static const char *body_of(int64_t length, const char *bytes, size_t len, size_t step)
{
    static char out[256];
    struct coto_http_body_reader body;
    size_t out_len = 0, at = 0;

    coto_http_body_init(&body, length);
    while (at < len && body.state != COTO_HTTP_BODY_DONE) {
        size_t have = len - at < step ? len - at : step, used = 0, piece_len = 0;
        const char *piece;
        int got = coto_http_body_next(&body, bytes + at, have, &used, &piece, &piece_len);
        if (got < 0)
            return NULL;
        if (got > 0) {
            memcpy(out + out_len, piece, piece_len);
            out_len += piece_len;
        }
        at += used;
    }
    if (body.state != COTO_HTTP_BODY_DONE)
        out[out_len++] = '?';
    out[out_len] = '\0';
    return out;
}

static void bodies_are_cut_out_exactly(void **state)
{
    static const struct {
        int64_t length;
        const char *bytes, *body;
    } rows[] = {
        {0, "next", ""}, {3, "abcnext", "abc"}, {5, "abc", "abc?"},
        {-1, "3\r\nabc\r\n0\r\n\r\nnext", "abc"},
        {-1, "00000003\r\nabc\r\na\r\n0123456789\r\n0\r\n\r\n", "abc0123456789"},
        {-1, "0\r\n\r\n", ""}, {-1, "3\r\nab", "ab?"}, {-1, "A\r\n", "?"},
        {-1, "ffffffff\r\na", "a?"},
        {-1, "\r\n", NULL}, {-1, "g\r\n", NULL}, {-1, "0x3\r\nabc\r\n", NULL},
        {-1, "+3\r\nabc\r\n", NULL}, {-1, "-1\r\n", NULL}, {-1, " 3\r\nabc\r\n", NULL},
        {-1, "3 \r\nabc\r\n", NULL}, {-1, "3;a=b\r\nabc\r\n", NULL}, {-1, "3\nabc\n", NULL},
        {-1, "3\r\rabc", NULL}, {-1, "3\r\nabcd\r\n", NULL}, {-1, "3\r\nabc\n", NULL},
        {-1, "3\r\nabc\r\r", NULL}, {-1, "100000000\r\n", NULL}, {-1, "000000003\r\nabc", NULL},
        {-1, "0\r\nTrailer: x\r\n\r\n", NULL}, {-1, "0\r\n\n", NULL}, {-1, "0\r\n\r\r", NULL},
        {-1, "fffffffffffffffff\r\n", NULL},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        for (size_t step = 1; step <= 40; step++) {
            const char *body = body_of(rows[i].length, rows[i].bytes, strlen(rows[i].bytes), step);
            if (!rows[i].body)
                assert_null(body);
            else
                assert_string_equal(body ? body : "(malformed)", rows[i].body);
        }
}

static void percent_signs_are_decoded_once(void **state)
{
    static const struct {
        const char *text, *decoded;
    } rows[] = {{"a+b", "a b"}, {"%2B%2b", "++"}, {"%2541", "%41"}, {"", ""},
                {"%", NULL},    {"%1", NULL},     {"%1x", NULL},    {"%%41", NULL}};

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char text[32] = "";
        memcpy(text, rows[i].text, strlen(rows[i].text));
        long len = coto_http_decode(text, strlen(text), true);
        if (!rows[i].decoded) {
            assert_int_equal(len, -1);
            continue;
        }
        assert_int_equal(len, strlen(rows[i].decoded));
        assert_memory_equal(text, rows[i].decoded, (size_t)len);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(heads_are_taken_or_refused),
        cmocka_unit_test(one_way_only_to_write_a_path),
        cmocka_unit_test(texts_are_where_the_head_says),
        cmocka_unit_test(a_head_has_limits),
        cmocka_unit_test(bodies_are_cut_out_exactly),
        cmocka_unit_test(percent_signs_are_decoded_once),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
