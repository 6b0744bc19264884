/* base64url without padding (RFC 7515), in the one strict form: every text has one reading
 * and every reading one text. */
#pragma once

#include "base/str.h"

void coto_b64url_add(struct coto_buf *out, const void *data, size_t len);
/* Bytes written to ret_data (of room len / 4 * 3 + 2 at least), or -1: letters outside the
 * alphabet, padding, a single letter left over, bits left over that are not zero. */
long coto_b64url_decode(const char *text, size_t len, unsigned char *ret_data);
#define COTO_B64URL_ROOM(len) ((len) / 4 * 3 + 3)
