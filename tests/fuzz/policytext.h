/* YAML text as the pairs that coto-policy makes of it, for targets that go on from there. */
#pragma once

#include "base/str.h"
#include "policy/yaml_text.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* false: it is none. */
static inline bool coto_fuzz_pairs(const uint8_t *data, size_t size, struct coto_buf *ret_pairs)
{
    char *text = malloc(size + 1);
    struct coto_yaml yaml = {.text = text, .len = size};

    if (!text)
        abort();
    memcpy(text, data, size);
    text[size] = '\0';
    bool is_read = coto_yaml_read(&yaml) == 0;
    for (size_t i = 0; is_read && i < yaml.count; i++) {
        coto_buf_add(ret_pairs, yaml.pairs[i].key, strlen(yaml.pairs[i].key) + 1);
        coto_buf_add(ret_pairs, yaml.pairs[i].value, strlen(yaml.pairs[i].value) + 1);
    }
    coto_yaml_fini(&yaml);
    free(text);
    return is_read;
}
