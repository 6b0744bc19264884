/* Human numbers: sizes ("256m", "1.5g", "none"), durations ("30s", "1m30s",
 * "500ms"), CPU counts ("0.5"). Parsers are strict: no sign, no space, no
 * exponent, no overflow; the whole text must be used. COTO_UNIT_NONE stands for
 * "none" (no limit). Return 0, or -1 with nothing written.
 */
#pragma once

#include "base/str.h"

#include <stdint.h>

#define COTO_UNIT_NONE INT64_MAX

int coto_units_parse_size(const char *text, int64_t *ret_bytes);
int coto_units_parse_duration(const char *text, int64_t *ret_ms);
int coto_units_parse_cpus(const char *text, int64_t *ret_millicpus);
int coto_units_parse_int(const char *text, int64_t *ret_value);

/* The shortest exact form that the parser above reads back to the same value. */
void coto_units_add_size(struct coto_buf *out, int64_t bytes);
void coto_units_add_duration(struct coto_buf *out, int64_t ms);
void coto_units_add_cpus(struct coto_buf *out, int64_t millicpus);
/* For people: "12.3 MB", "1.24 s", "850 µs". */
void coto_units_add_size_rounded(struct coto_buf *out, int64_t bytes);
void coto_units_add_time_rounded(struct coto_buf *out, int64_t microseconds);
