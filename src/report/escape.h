/* Neutralises what a program could do to the terminal it is shown on.
 *
 * Valid UTF-8 text, newline, tab and carriage return pass byte for byte; every
 * other control (C0, DEL, C1 also in its UTF-8 form, direction overrides) and
 * every byte that is not UTF-8 is made visible: ^[ for ESC, \x9b for a raw byte,
 * \u202e for a character. Carriage return passes because progress bars need it
 * and it reaches no further than the program's own line.
 *
 * Works on a stream cut anywhere: a character split over two chunks is held back
 * until its rest arrives. Start with a zeroed struct; nothing to free.
 */
#pragma once

#include "base/str.h"

struct coto_escape {
    unsigned char held[4]; /* the beginning of a character */
    size_t held_len;
};

void coto_escape_add(struct coto_escape *escape, const void *data, size_t len,
                     struct coto_buf *out);
/* End of the stream: shows what was held back. */
void coto_escape_end(struct coto_escape *escape, struct coto_buf *out);
