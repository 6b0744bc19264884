/* Frames as a hostile init or a hostile host sends them, cut into chunks that the
 * first byte chooses. Every field must lie inside its frame. */
#include "wire/frame.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_frame(const struct coto_frame *frame)
{
    struct coto_field field = {0};
    struct coto_err err;

    while (coto_field_next(frame, &field) == 1)
        if (field.data < frame->payload || field.data + field.len > frame->payload + frame->len)
            abort();
    free(coto_field_text(frame, COTO_TAG_PATH));
    coto_field_num(frame, COTO_TAG_MODE);
    coto_field_error(frame, &err);
    if (err.kind <= 0 || err.kind >= COTO_ERR_COUNT || !memchr(err.text, 0, sizeof err.text) ||
        !memchr(err.remedy, 0, sizeof err.remedy))
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct coto_frame_reader reader = {0};
    struct coto_frame frame;
    struct coto_err err = {0};
    int more = 0;

    if (size < 1)
        return 0;
    size_t step = data[0] % 64 + 1u;
    for (size_t i = 1; i < size && more >= 0; i += step) {
        size_t len = size - i < step ? size - i : step;
        size_t room;
        char *space = coto_frame_reader_space(&reader, &room);
        if (!space || room < len)
            break;
        memcpy(space, data + i, len);
        reader.buf.len += len;
        while ((more = coto_frame_next(&reader, &frame, &err)) == 1)
            check_frame(&frame);
    }
    coto_frame_reader_fini(&reader);
    return 0;
}
