/* Sizes, durations and CPU counts: what is accepted must come back the same from
 * its own canonical form. */
#include "base/units.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct unit {
    int (*parse)(const char *text, int64_t *ret_value);
    void (*add)(struct coto_buf *out, int64_t value);
};

static void check(const struct unit *unit, const char *text)
{
    int64_t value = -1;
    int64_t again = -1;
    coto_auto_buf out = {0};

    if (unit->parse(text, &value))
        return;
    if (value < 0)
        abort();
    unit->add(&out, value);
    if (unit->parse(coto_buf_str(&out), &again) || again != value)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct unit units[] = {
        {coto_units_parse_size, coto_units_add_size},
        {coto_units_parse_duration, coto_units_add_duration},
        {coto_units_parse_cpus, coto_units_add_cpus},
    };
    char text[128];
    int64_t number;

    if (size >= sizeof text || memchr(data, 0, size))
        return 0;
    memcpy(text, data, size);
    text[size] = '\0';
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++)
        check(&units[i], text);
    coto_units_parse_int(text, &number);
    return 0;
}
