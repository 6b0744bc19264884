/* The SETUP frame as coto-init gets it: what it accepts has targets that stay inside and
 * numbers within bounds, and says the same when it is encoded again. */
#include "wire/setup.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_target(const char *target)
{
    size_t len = target ? strlen(target) : 0;

    if (len == 0 || target[0] != '/' || strstr(target, "//") || strstr(target, "/../") ||
        (len >= 3 && strcmp(target + len - 3, "/..") == 0))
        abort();
}

static void check(const struct coto_setup *setup)
{
    if (setup->mount_count > COTO_SETUP_MOUNTS || setup->tmpfs_count > COTO_SETUP_MOUNTS)
        abort();
    check_target(setup->workdir);
    for (unsigned i = 0; i < setup->mount_count; i++)
        check_target(setup->mounts[i].target);
    for (unsigned i = 0; i < setup->tmpfs_count; i++)
        check_target(setup->tmpfs[i].target);
}

/* Reads one frame of exactly these bytes; whether there is one. */
static bool read_frame(struct coto_frame_reader *reader, const void *data, size_t size,
                       struct coto_frame *ret_frame)
{
    struct coto_err err = {0};
    size_t room;
    char *space = coto_frame_reader_space(reader, &room);

    if (!space || room < size)
        return false;
    memcpy(space, data, size);
    reader->buf.len += size;
    return coto_frame_next(reader, ret_frame, &err) == 1;
}

static void encode_again(const struct coto_setup *setup, struct coto_buf *out)
{
    struct coto_frame_reader reader = {0};
    struct coto_frame frame;
    struct coto_setup again = {0};
    struct coto_err err = {0};
    coto_auto_buf once = {0};

    coto_setup_encode(setup, &once);
    if (once.failed)
        return;
    if (!read_frame(&reader, once.data, once.len, &frame) ||
        coto_setup_decode(&frame, &again, &err))
        abort();
    coto_setup_encode(&again, out);
    if (out->len != once.len || memcmp(out->data, once.data, once.len) != 0)
        abort();
    coto_setup_fini(&again);
    coto_frame_reader_fini(&reader);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct coto_frame frame = {.type = COTO_FRAME_SETUP, .payload = data, .len = (uint32_t)size};
    struct coto_setup setup = {0};
    struct coto_err err = {0};
    coto_auto_buf out = {0};

    if (coto_setup_decode(&frame, &setup, &err)) {
        if (err.kind == COTO_ERR_NONE || !err.text[0])
            abort();
        return 0;
    }
    check(&setup);
    encode_again(&setup, &out);
    coto_setup_fini(&setup);
    coto_setup_fini(&setup);
    return 0;
}
