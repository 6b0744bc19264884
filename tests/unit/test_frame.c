#include "wire/frame.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void feed(struct coto_frame_reader *reader, const void *data, size_t len)
{
    const char *p = data;

    while (len > 0) {
        size_t room;
        char *space = coto_frame_reader_space(reader, &room);
        assert_non_null(space);
        size_t n = len < room ? len : room;
        memcpy(space, p, n);
        reader->buf.len += n;
        p += n;
        len -= n;
    }
}

static void add_exec(struct coto_buf *buf, unsigned proc)
{
    size_t begin = coto_frame_begin(buf, COTO_FRAME_EXEC, proc);

    coto_frame_add_text(buf, COTO_TAG_ARGV, "/bin/echo");
    coto_frame_add_text(buf, COTO_TAG_ARGV, "");
    coto_frame_add_num(buf, COTO_TAG_UID, 10000);
    coto_frame_add_num(buf, COTO_TAG_CAPS, UINT64_MAX);
    coto_frame_end(buf, begin);
}

static void assert_is_exec(const struct coto_frame *frame, unsigned proc)
{
    struct coto_field field = {0};

    assert_int_equal(frame->type, COTO_FRAME_EXEC);
    assert_int_equal(frame->proc, proc);
    assert_int_equal(coto_field_next(frame, &field), 1);
    assert_int_equal(field.tag, COTO_TAG_ARGV);
    assert_int_equal(field.len, 9);
    assert_memory_equal(field.data, "/bin/echo", 9);
    assert_int_equal(coto_field_next(frame, &field), 1);
    assert_int_equal(field.len, 0);
    assert_int_equal(coto_field_num(frame, COTO_TAG_UID), 10000);
    assert_true(coto_field_num(frame, COTO_TAG_CAPS) == UINT64_MAX);
    assert_int_equal(coto_field_num(frame, COTO_TAG_GID), 0);
}

static void the_bytes_are_the_contract(void **state)
{
    static const unsigned char expected[] = {
        14, 0, 0, 0, 37, 0, 2, 1,                /* length, SIGNAL, process 0x102 */
        18, 0, 8, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0, /* SIGNO: 9 */
    };
    coto_auto_buf buf = {0};

    (void)state;
    size_t begin = coto_frame_begin(&buf, COTO_FRAME_SIGNAL, 0x102);
    coto_frame_add_num(&buf, COTO_TAG_SIGNO, 9);
    coto_frame_end(&buf, begin);
    assert_int_equal(buf.len, sizeof expected);
    assert_memory_equal(buf.data, expected, sizeof expected);
}

static void frames_survive_any_split(void **state)
{
    coto_auto_buf buf = {0};

    (void)state;
    add_exec(&buf, 1);
    add_exec(&buf, 65535);
    for (size_t step = 1; step <= buf.len; step++) {
        struct coto_frame_reader reader = {0};
        struct coto_frame frame;
        struct coto_err err;
        int seen = 0;
        for (size_t i = 0; i < buf.len; i += step) {
            feed(&reader, buf.data + i, buf.len - i < step ? buf.len - i : step);
            while (coto_frame_next(&reader, &frame, &err) == 1)
                assert_is_exec(&frame, seen++ ? 65535 : 1);
        }
        assert_int_equal(seen, 2);
        assert_int_equal(coto_frame_next(&reader, &frame, &err), 0);
        coto_frame_reader_fini(&reader);
        coto_frame_reader_fini(&reader);
    }
}

static void over_long_frame_breaks_the_stream(void **state)
{
    static const unsigned char header[8] = {0x01, 0, 4, 0, 4, 0, 1, 0}; /* MAX + 1 */
    struct coto_frame_reader reader = {0};
    struct coto_frame frame;
    struct coto_err err = {0};

    (void)state;
    feed(&reader, header, sizeof header);
    assert_int_equal(coto_frame_next(&reader, &frame, &err), -1);
    assert_int_equal(err.kind, COTO_ERR_INTERNAL);
    coto_frame_reader_fini(&reader);
}

static void largest_frame_passes(void **state)
{
    coto_auto_buf buf = {0};
    struct coto_frame_reader reader = {0};
    struct coto_frame frame;
    struct coto_err err;
    size_t len = COTO_FRAME_MAX - 6;
    char *data = calloc(1, len + 1);

    (void)state;
    size_t begin = coto_frame_begin(&buf, COTO_FRAME_OUT, 1);
    coto_frame_add(&buf, COTO_TAG_DATA, data, len);
    coto_frame_end(&buf, begin);
    assert_false(buf.failed);
    feed(&reader, buf.data, buf.len);
    assert_int_equal(coto_frame_next(&reader, &frame, &err), 1);
    assert_int_equal(frame.len, COTO_FRAME_MAX);
    coto_frame_reader_fini(&reader);

    coto_buf_clear(&buf);
    begin = coto_frame_begin(&buf, COTO_FRAME_OUT, 1);
    coto_frame_add(&buf, COTO_TAG_DATA, data, len + 1);
    coto_frame_end(&buf, begin);
    assert_true(buf.failed);
    free(data);
}

static int walk(const void *payload, size_t len)
{
    struct coto_frame frame = {.type = COTO_FRAME_OUT, .payload = payload, .len = len};
    struct coto_field field = {0};
    int more;

    while ((more = coto_field_next(&frame, &field)) == 1)
        assert_true(field.data + field.len <= frame.payload + frame.len);
    return more;
}

static void lying_field_lengths_are_refused(void **state)
{
    (void)state;
    assert_int_equal(walk("", 0), 0);
    assert_int_equal(walk("\6\0\0\0\0\0", 6), 0);
    assert_int_equal(walk("\6\0\0\0\0", 5), -1);
    assert_int_equal(walk("\6\0\1\0\0\0", 6), -1);
    assert_int_equal(walk("\6\0\2\0\0\0x", 7), -1);
    assert_int_equal(walk("\6\0\xff\xff\xff\xffx", 7), -1);
    assert_int_equal(walk("\6\0\1\0\0\0x\6", 8), -1);
}

static void text_with_nul_is_no_text(void **state)
{
    coto_auto_buf buf = {0};
    struct coto_frame frame = {.type = COTO_FRAME_PUT};

    (void)state;
    coto_frame_add(&buf, COTO_TAG_PATH, "a\0b", 3);
    coto_frame_add_text(&buf, COTO_TAG_TEXT, "fine");
    coto_frame_add(&buf, COTO_TAG_MODE, "\1\2\3", 3);
    frame.payload = (unsigned char *)buf.data;
    frame.len = buf.len;
    assert_null(coto_field_text(&frame, COTO_TAG_PATH));
    assert_null(coto_field_text(&frame, COTO_TAG_CWD));
    assert_int_equal(coto_field_num(&frame, COTO_TAG_MODE), 0);
    char *text = coto_field_text(&frame, COTO_TAG_TEXT);
    assert_string_equal(text, "fine");
    free(text);
}

static void read_one(const struct coto_buf *buf, struct coto_frame_reader *reader,
                     struct coto_frame *frame)
{
    struct coto_err err;

    feed(reader, buf->data, buf->len);
    assert_int_equal(coto_frame_next(reader, frame, &err), 1);
}

static void errors_cross_unchanged(void **state)
{
    coto_auto_buf buf = {0};
    struct coto_frame_reader reader = {0};
    struct coto_frame frame;
    struct coto_err sent = {0};
    struct coto_err got;

    (void)state;
    coto_err_set(&sent, COTO_ERR_SYSTEM, EPERM, "mount '/proc'");
    coto_err_remedy(&sent, "allow it");
    coto_frame_add_error(&buf, 3, &sent);
    read_one(&buf, &reader, &frame);
    memset(&got, 0xff, sizeof got);
    coto_field_error(&frame, &got);
    assert_int_equal(got.kind, sent.kind);
    assert_int_equal(got.sys_errno, EPERM);
    assert_string_equal(got.text, sent.text);
    assert_string_equal(got.remedy, sent.remedy);
    coto_frame_reader_fini(&reader);
}

/* A hostile peer's error must fit ours: kind in range, text cut and terminated. */
static void hostile_error_is_tamed(void **state)
{
    coto_auto_buf buf = {0};
    struct coto_frame_reader reader = {0};
    struct coto_frame frame;
    struct coto_err got;
    char text[2000];

    (void)state;
    memset(text, 'x', sizeof text);
    size_t begin = coto_frame_begin(&buf, COTO_FRAME_ERROR, 0);
    coto_frame_add_num(&buf, COTO_TAG_KIND, 1u << 20);
    coto_frame_add(&buf, COTO_TAG_TEXT, text, sizeof text);
    coto_frame_end(&buf, begin);
    read_one(&buf, &reader, &frame);
    coto_field_error(&frame, &got);
    assert_int_equal(got.kind, COTO_ERR_INTERNAL);
    assert_int_equal(strlen(got.text), sizeof got.text - 1);
    assert_string_equal(got.remedy, "");
    coto_frame_reader_fini(&reader);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_bytes_are_the_contract),
        cmocka_unit_test(frames_survive_any_split),
        cmocka_unit_test(over_long_frame_breaks_the_stream),
        cmocka_unit_test(largest_frame_passes),
        cmocka_unit_test(lying_field_lengths_are_refused),
        cmocka_unit_test(text_with_nul_is_no_text),
        cmocka_unit_test(errors_cross_unchanged),
        cmocka_unit_test(hostile_error_is_tamed),
    };

    return cmocka_run_group_tests_name("frame", tests, NULL, NULL);
}
