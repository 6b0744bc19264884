/* The closing line for people:
 *
 *   ok  12.3 ms  cpu 8.1 ms  mem 9.4 MB  walls 14/14, limits 9/9
 *
 * followed, where there is something to say, by one sentence on what ended the
 * run and by the walls that were wanted and are missing.
 */
#pragma once

#include "base/str.h"
#include "core/result.h"

/* `plan` may be NULL; then limits are named with the value that was read back, if one was. */
void coto_report_text(const struct coto_result *result, const struct coto_plan *plan, bool coloured,
                      struct coto_buf *out);
/* The same for a terminal, below what the program wrote there to stderr, and to stdout if it is shown. */
void coto_report_text_closing(const struct coto_result *result, const struct coto_plan *plan,
                              bool shows_out, struct coto_buf *out);
/* One line on what did not go to the directory of --artifacts; nothing for 0. */
void coto_report_text_left_out(int64_t skipped, struct coto_buf *out);
/* Only the sentence ("" for ok), without a newline. */
void coto_report_text_reason(const struct coto_result *result, const struct coto_plan *plan,
                             struct coto_buf *out);
