/* Whatever a program prints, nothing a terminal acts on comes out, and the way the
 * stream is cut makes no difference. */
#include "report/escape.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void filter(const uint8_t *data, size_t size, size_t step, struct coto_buf *out)
{
    struct coto_escape escape = {0};

    for (size_t i = 0; i < size; i += step)
        coto_escape_add(&escape, data + i, size - i < step ? size - i : step, out);
    coto_escape_end(&escape, out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    coto_auto_buf whole = {0};
    coto_auto_buf parts = {0};

    if (size < 1)
        return 0;
    filter(data, size, size, &whole);
    filter(data, size, data[0] % 7 + 1u, &parts);
    if (whole.len != parts.len || memcmp(whole.data, parts.data, whole.len))
        abort();
    if (!coto_utf8_valid(whole.data, whole.len))
        abort();
    for (size_t i = 0; i < whole.len; i++) {
        unsigned char c = (unsigned char)whole.data[i];
        if ((c < 0x20 && c != '\n' && c != '\t' && c != '\r') || c == 0x7f)
            abort();
        if (c == 0xc2 && (unsigned char)whole.data[i + 1] < 0xa0)
            abort();
    }
    return 0;
}
