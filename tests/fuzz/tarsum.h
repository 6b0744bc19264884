/* Tar headers that a fuzzer made up. */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* A sum that is right, so that more than one header in a million is looked at. */
static inline void mend(uint8_t *data, size_t size)
{
    for (size_t at = 0; at + 512 <= size; at += 512) {
        unsigned sum = 8 * ' ';
        if (memcmp(data + at + 257, "ustar", 5) != 0)
            continue;
        for (size_t i = 0; i < 512; i++)
            sum += i >= 148 && i < 156 ? 0 : data[at + i];
        for (int i = 5; i >= 0; i--, sum >>= 3)
            data[at + 148 + (size_t)i] = (uint8_t)('0' + (sum & 7));
        data[at + 154] = '\0';
    }
}
