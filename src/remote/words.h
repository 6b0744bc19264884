/* A service's errors in words of `coto run`: it names fields of the request, and whoever gave flags has none. */
#pragma once

#include "base/str.h"

/* The flag that sets the field, or what else it comes from; nothing is added where there is none. */
void coto_remote_words_flag(const char *field, struct coto_buf *out);
/* field: what the error is about, "" nothing. */
void coto_remote_words_message(const char *field, const char *text, struct coto_buf *out);
/* What only programs can do about it is left out. */
void coto_remote_words_remedy(const char *field, const char *text, struct coto_buf *out);
