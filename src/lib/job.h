/* One execution from a merged policy to a written report: what `coto run` and the
 * public library share, so that a key means the same at both doors.
 *
 * Owner: the caller. Start with a zeroed struct, put the policy and the code in,
 * then plan, run, report; coto_job_fini releases a job in any state and may be
 * called twice. What `code` points to is borrowed and must outlive the plan.
 */
#pragma once

#include "base/str.h"
#include "core/run.h"
#include "policy/plan.h"

/* Bytes of each stream that are kept in memory for the result object. */
#define COTO_JOB_KEEP (10 * COTO_MB)
/* Largest code or prompt read from a descriptor. */
#define COTO_JOB_TEXT_MAX ((size_t)64 << 20)

struct coto_job {
    struct coto_policy policy;
    struct coto_source_code code;
    struct coto_plan plan;
    struct coto_result result;
    struct coto_buf prompt; /* of prompt-file */
    bool has_report;
    int report_fd; /* the directory of reports, when has_report */
};

/* Contradictions, the prompt, the plan. Errors: POLICY, USAGE, INPUT, FORBIDDEN, TOOL. */
int coto_job_plan(struct coto_job *job, struct coto_err *err);
/* The directory of `artifacts`, made when it is not there; untouched when none is named. */
int coto_job_open_artifacts(const struct coto_job *job, int *ret_fd, struct coto_err *err);
/* Runs the plan. The caller says where bytes go; the artifacts directory, and
 * capturing where the report wants the output, are added here. */
int coto_job_run(struct coto_job *job, struct coto_io *io, struct coto_err *err);
/* Writes the report file when the policy names a directory, which coto_job_run opened. */
int coto_job_write_report(const struct coto_job *job, struct coto_err *err);
void coto_job_fini(struct coto_job *job);
