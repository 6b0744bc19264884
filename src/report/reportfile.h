/* One JSON file per execution (R7.1): hashes of prompt and code, duration,
 * verdict, summary, walls. Code, prompt, output and environment are left out
 * unless `include` names them.
 */
#pragma once

#include "base/err.h"
#include "core/result.h"

enum coto_report_include {
    COTO_REPORT_CODE = 1 << 0,
    COTO_REPORT_PROMPT = 1 << 1,
    COTO_REPORT_OUTPUT = 1 << 2,
    COTO_REPORT_ENV = 1 << 3,
};

/* What the result does not know; all borrowed, all optional. */
struct coto_report_extra {
    const char *prompt_hash; /* given by the caller; else made from `prompt` */
    const char *prompt;
    size_t prompt_len;
    const char *code;
    size_t code_len;
    unsigned include; /* enum coto_report_include bits */
};

/* The bits of a report-include list; an unknown word is a POLICY error. */
int coto_report_parse_include(const struct coto_strv *words, unsigned *ret_include,
                              struct coto_err *err);

/* The directory of reports, before anything runs: by the time a report is written a
 * program may have put a link under that name (RI-04). Missing directories are made with
 * mode 0700; one that cannot be written to is an OUTPUT error. */
int coto_report_open(const char *dir, int *ret_fd, struct coto_err *err);

/* Writes <started>-<id>.json there, mode 0600, complete or not at all. `extra` may be
 * NULL. OUTPUT errors. */
int coto_report_write(int dirfd, const struct coto_result *result, const struct coto_plan *plan,
                      const struct coto_report_extra *extra, struct coto_err *err);
