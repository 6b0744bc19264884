/* From a plan to a result: create the sandbox, put the files in, run the stages,
 * pass streams on, watch the limits, collect artifacts, destroy. */
#pragma once

#include "core/result.h"

#define COTO_QUIET_MS 15000

struct coto_io {
    int in_fd;  /* program's stdin is read from here; -1: empty */
    int out_fd; /* program's stdout goes here as it comes; -1: nowhere */
    int err_fd;
    bool capture;        /* keep stdout and stderr in the result too */
    int64_t capture_max; /* bytes kept of each; COTO_UNIT_NONE: the output limit alone */
    /* Optional rewriting of output bytes on their way to out_fd/err_fd (terminal
     * escapes): appends the safe form of data to out. NULL: byte-exact. `which`
     * is 1 or 2. */
    void (*filter)(void *arg, int which, const char *data, size_t len, struct coto_buf *out);
    void *filter_arg;
    bool filter_out, filter_err; /* for which streams */
    /* Output as it comes, besides all else; `which` is 1 or 2. It must not block. NULL: none. */
    void (*sink)(void *arg, int which, const char *data, size_t len);
    void *sink_arg;
    /* Called every COTO_QUIET_MS, with sink_arg, for who has to say something from time to time. NULL: none. */
    void (*quiet)(void *arg);
    int64_t artifacts_max; /* bytes of artifacts kept in the result; 0: none */
    int artifacts_fd;  /* directory artifacts are written to; -1: hashes only */
    int cancel_fd;     /* readable: end the run (verdict killed); -1 none */
    /* Set-up steps with their time; NULL: not wanted. */
    void (*progress)(void *arg, const char *step, int64_t us);
    void *progress_arg;
};

/* A run in a sandbox that was made before and may be used again. */
struct coto_run_in {
    struct coto_sandbox *sandbox; /* its init is ready */
    unsigned first_proc;          /* from 1; a number not used in this sandbox before */
    bool keep;                    /* leave it as it is at the end, unless it was lost */
    bool lost;                    /* out: its init is gone, or had to be killed */
    bool ahead;                   /* the program runs since coto_core_start_ahead */
};

/* 0: *ret_result is complete (release with coto_result_fini), whatever the
 * program did. -1: coto itself failed; nothing of the sandbox is left. */
int coto_core_run(const struct coto_plan *plan, const struct coto_io *io,
                  struct coto_result *ret_result, struct coto_err *err);
/* The same without creating and destroying. Safe from several threads, on a sandbox
 * each. Usage in the result is what the driver says of the whole sandbox so far. */
int coto_core_run_in(struct coto_run_in *in, const struct coto_plan *plan, const struct coto_io *io,
                     struct coto_result *ret_result, struct coto_err *err);
/* A sandbox in which others have run programs: what these met is not the next one's. */
void coto_core_adopt(struct coto_sandbox *sandbox);
/* The result of a plan that was cancelled before there was a sandbox for it. */
void coto_core_cancelled(const struct coto_plan *plan, const char *driver,
                         struct coto_result *ret_result);
/* Starts the plan's interpreter in a sandbox before there is code for it: behind all its walls, and
 * with a wait built in that ends when coto_core_run_in, with `ahead`, hands it its arguments through
 * stdin. The plan of that run must be the same but for code, arguments and time. Only where
 * coto_core_can_start_ahead. */
bool coto_core_can_start_ahead(const struct coto_plan *plan);
int coto_core_start_ahead(struct coto_sandbox *sandbox, const struct coto_plan *plan,
                          struct coto_err *err);
