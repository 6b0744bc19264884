#include "base/json.h"
#include "base/tar.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* What a reader hands over, as text: "file NAME BYTES:data;" and "dir NAME;". */
static int on_file(void *arg, const char *name, bool executable, int64_t bytes, struct coto_err *err)
{
    (void)err;
    coto_buf_addf(arg, "file %s %lld%s:", name, (long long)bytes, executable ? "x" : "");
    return 0;
}

static int on_data(void *arg, const void *data, size_t len, struct coto_err *err)
{
    (void)err;
    coto_buf_add(arg, data, len);
    return 0;
}

static int on_directory(void *arg, const char *name, struct coto_err *err)
{
    (void)err;
    coto_buf_addf(arg, "dir %s;", name);
    return 0;
}

static int read_pieces(const struct coto_buf *tar, size_t piece, struct coto_buf *seen, struct coto_err *err)
{
    const struct coto_tar_sink sink = {on_file, on_data, on_directory, seen, 1000000, 100, NULL, NULL};
    struct coto_tar_reader reader;
    int failed = 0;

    coto_tar_reader_init(&reader, &sink);
    for (size_t at = 0; at < tar->len && !failed; at += piece)
        failed = coto_tar_feed(&reader, tar->data + at, tar->len - at < piece ? tar->len - at : piece, err);
    failed = failed || coto_tar_end(&reader, err);
    coto_tar_reader_fini(&reader);
    return failed ? -1 : 0;
}

static void add(struct coto_buf *tar, const char *name, unsigned mode, const char *data)
{
    coto_tar_add_file(tar, name, mode, (int64_t)strlen(data));
    coto_buf_adds(tar, data);
    coto_tar_pad(tar, (int64_t)strlen(data));
}

static void test_what_is_written_is_read(void **state)
{
    char name[600];
    coto_auto_buf tar = {0};
    coto_auto_buf wanted = {0};

    (void)state;
    memset(name, 'n', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    add(&tar, "a", 0644, "1");
    add(&tar, "empty", 0755, "");
    add(&tar, name, 0644, "long");
    coto_tar_add_end(&tar);
    coto_buf_addf(&wanted, "file a 1:1file empty 0x:file %s 4:long", name);
    for (size_t piece = 1; piece < 2000; piece += 97) {
        coto_auto_buf seen = {0};
        struct coto_err err = {0};
        assert_int_equal(read_pieces(&tar, piece, &seen, &err), 0);
        assert_string_equal(coto_buf_str(&seen), coto_buf_str(&wanted));
    }
}

/* A header with one field changed and its sum made right again. */
static int read_changed(size_t at, const char *value, size_t len, struct coto_buf *seen, struct coto_err *err)
{
    coto_auto_buf tar = {0};
    unsigned sum = 0;

    add(&tar, "name", 0644, "data");
    coto_tar_add_end(&tar);
    memcpy(tar.data + at, value, len);
    memset(tar.data + 148, ' ', 8);
    for (int i = 0; i < 512; i++)
        sum += (unsigned char)tar.data[i];
    snprintf(tar.data + 148, 8, "%06o", sum);
    return read_pieces(&tar, 512, seen, err);
}

static void test_kinds(void **state)
{
    (void)state;
    for (int type = 0; type < 256; type++) {
        coto_auto_buf seen = {0};
        struct coto_err err = {0};
        char value = (char)type;
        int failed = read_changed(156, &value, 1, &seen, &err);
        bool is_file = type == 0 || type == '0' || type == '7';
        bool is_meta = type == 'L' || type == 'x' || type == 'g';
        assert_true(is_file ? !failed : failed || is_meta);
        assert_true(is_file == (strncmp(coto_buf_str(&seen), "file", 4) == 0));
    }
}

static void test_sizes(void **state)
{
    static const struct {
        const char *field;
        bool good;
    } rows[] = {
        {"00000000004", true}, {"          4", true}, {"4          ", true}, {"00000000008", false},
        {"-0000000004", false}, {"77777777777", false}, {"0x000000004", false},
        {"\x80\0\0\0\0\0\0\0\0\0\0\4", true}, {"\x80\0\0\0\1\0\0\0\0\0\0\4", false},
        {"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", false},
        {"\x80\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", false},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        coto_auto_buf seen = {0};
        struct coto_err err = {0};
        int failed = read_changed(124, rows[i].field, 12, &seen, &err);
        assert_int_equal(failed, rows[i].good ? 0 : -1);
    }
}

/* Where nobody sets a limit: what is left out of such a member would be less than nothing. */
static void test_sizes_without_a_limit(void **state)
{
    static const char *const fields[] = {"\x80\0\0\0\x7f\xff\xff\xff\xff\xff\xff\xff",
                                         "\x80\0\0\0\x3f\xff\xff\xff\xff\xff\xff\xff"};
    coto_auto_buf seen = {0};
    const struct coto_tar_sink sink = {on_file, on_data, on_directory, &seen, INT64_MAX, 100, NULL, NULL};

    (void)state;
    for (int i = 0; i < 2; i++) {
        struct coto_tar_reader reader;
        struct coto_err err = {0};
        coto_auto_buf tar = {0};
        unsigned sum = 8 * ' ';
        add(&tar, "a", 0644, "");
        memcpy(tar.data + 124, fields[i], 12);
        for (int k = 0; k < COTO_TAR_BLOCK; k++)
            sum += k >= 148 && k < 156 ? 0 : (unsigned char)tar.data[k];
        snprintf(tar.data + 148, 8, "%06o", sum);
        coto_tar_reader_init(&reader, &sink);
        assert_int_equal(coto_tar_feed(&reader, tar.data, COTO_TAR_BLOCK, &err), i ? 0 : -1);
        assert_true(coto_tar_skip(&reader) >= 0);
        coto_tar_reader_fini(&reader);
    }
}

static void test_pax(void **state)
{
    static const char *const bad[] = {"5 a\n",     "x path=a\n", "99 path=a\n",    "11 path=abc",  "0 path=a\n",
                                      "11 size=x\n", "9 path\n\n", "-9 path=a\n", "12 size=-1\n", "21 GNU.sparse.size=1\n"};

    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        coto_auto_buf tar = {0};
        coto_auto_buf seen = {0};
        struct coto_err err = {0};
        add(&tar, "pax", 0644, bad[i]);
        tar.data[156] = 'x';
        unsigned sum = 8 * ' ';
        for (int k = 0; k < 512; k++)
            sum += k >= 148 && k < 156 ? 0 : (unsigned char)tar.data[k];
        snprintf(tar.data + 148, 8, "%06o", sum);
        add(&tar, "name", 0644, "data");
        coto_tar_add_end(&tar);
        assert_int_equal(read_pieces(&tar, 512, &seen, &err), -1);
    }
}

static void test_ends(void **state)
{
    coto_auto_buf tar = {0};

    (void)state;
    add(&tar, "a", 0644, "data");
    coto_tar_add_end(&tar);
    for (size_t len = 0; len < 1536; len += 64) {
        struct coto_buf cut = {.data = tar.data, .len = len};
        coto_auto_buf seen = {0};
        struct coto_err err = {0};
        assert_int_equal(read_pieces(&cut, 64, &seen, &err), -1);
    }
}

static void test_base64(void **state)
{
    static const char *const bad[] = {"a", "ab", "abc", "====", "a===", "ab=c", "YR==", "YWI=YWI=", "YW I", "YWJ\n", "YW-_", "=YWI"};
    unsigned char bytes[70];

    (void)state;
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (unsigned char)(i * 37 + 11);
    for (size_t len = 0; len <= sizeof bytes; len++) {
        coto_auto_buf text = {0};
        coto_auto_buf back = {0};
        coto_base64_add(&text, bytes, len);
        assert_int_equal(coto_base64_take(&back, coto_buf_str(&text), text.len), 0);
        assert_int_equal(back.len, len);
        assert_memory_equal(coto_buf_str(&back), bytes, len);
    }
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        coto_auto_buf back = {0};
        assert_int_equal(coto_base64_take(&back, bad[i], strlen(bad[i])), -1);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_is_written_is_read), cmocka_unit_test(test_kinds),
        cmocka_unit_test(test_sizes), cmocka_unit_test(test_sizes_without_a_limit),                   cmocka_unit_test(test_pax),
        cmocka_unit_test(test_ends),                    cmocka_unit_test(test_base64),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
