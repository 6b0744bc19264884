/* Archives as strangers upload them, in pieces of any size: what is handed on keeps to what
 * its header said, and the pieces make no difference. */
#include "base/tar.h"
#include "tarsum.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define MEMBERS 64
#define BYTES 100000

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct seen {
    int64_t promised, left, total, members;
    struct coto_buf text;
};

static int on_file(void *arg, const char *name, bool executable, int64_t bytes, struct coto_err *err)
{
    struct seen *s = arg;

    (void)err;
    s->promised += bytes;
    s->left = bytes;
    coto_buf_addf(&s->text, "%d %s\n", executable, name);
    if (s->promised > BYTES || bytes < 0 || !*name || ++s->members > MEMBERS)
        abort();
    return 0;
}

static int on_data(void *arg, const void *data, size_t len, struct coto_err *err)
{
    struct seen *s = arg;

    (void)err;
    s->left -= (int64_t)len;
    if (s->left < 0)
        abort();
    coto_buf_add(&s->text, data, len);
    return 0;
}

static int on_directory(void *arg, const char *name, struct coto_err *err)
{
    struct seen *s = arg;

    (void)err;
    coto_buf_addf(&s->text, "d %s\n", name);
    if (!*name || ++s->members > MEMBERS)
        abort();
    return 0;
}

static int read_all(const uint8_t *data, size_t size, size_t piece, struct seen *s)
{
    const struct coto_tar_sink sink = {on_file, on_data, on_directory, s, BYTES, MEMBERS, NULL, NULL};
    struct coto_tar_reader reader;
    struct coto_err err = {0};
    int failed = 0;

    coto_tar_reader_init(&reader, &sink);
    for (size_t at = 0; at < size && !failed; at += piece)
        failed = coto_tar_feed(&reader, data + at, size - at < piece ? size - at : piece, &err);
    failed = failed || coto_tar_end(&reader, &err);
    if (failed && !err.kind)
        abort();
    coto_tar_reader_fini(&reader);
    return failed;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct seen whole = {0}, parts = {0};
    uint8_t *copy = malloc(size + 1);

    if (!copy)
        return 0;
    memcpy(copy, data, size);
    mend(copy, size);
    int failed = read_all(copy, size, size + 1, &whole);
    if (read_all(copy, size, 1 + size % 97, &parts) != failed || whole.text.len != parts.text.len ||
        memcmp(coto_buf_str(&whole.text), coto_buf_str(&parts.text), whole.text.len) != 0)
        abort();
    coto_buf_fini(&whole.text);
    coto_buf_fini(&parts.text);
    free(copy);
    return 0;
}
