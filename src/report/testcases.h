/* What a test runner printed → test cases. Pure: bytes in, a list out.
 *
 * The bytes come from inside the sandbox, where the code under test runs in the
 * same process as its tests, so they are hostile: any length, any byte, forged
 * lines. What can be promised: a case that failed anywhere under its name stays
 * failed; a result counts only where the runner would print it (at the start of
 * a line, for a test it said it had started, before its closing lines); a case
 * without a result is failed; an output without the runner's closing line is
 * failed; and passing needs the runner's exit status as well. What cannot:
 * code under test that prints a whole believable output and then ends its
 * process with status 0 is told from the truth only by a runner that keeps
 * tests in another process (node --test, ctest, make do).
 */
#pragma once

#include "base/str.h"
#include "schema/runners.h"

#include <stdbool.h>
#include <stdint.h>

#define COTO_CASES_MAX 10000
#define COTO_CASE_NAME_MAX 512
#define COTO_CASE_MESSAGE_MAX 8192

struct coto_case {
    char *suite; /* package, file or class; NULL: none */
    char *name;
    struct coto_buf message; /* why it failed or was skipped; raw bytes */
    int64_t duration_us;     /* -1: not told */
    bool has_result;
    bool passed; /* true for skipped ones too */
    bool skipped;
    bool is_file; /* a whole test file that ran no test of its own (node) */
    uint32_t hash; /* of the name */
    int32_t older; /* index of the next older case with the same low hash bits, -1 none */
};

#define COTO_CASES_SLOTS 4096

struct coto_cases {
    struct coto_case *items;
    size_t count;
    size_t capacity;
    bool is_complete; /* the runner printed its closing line */
    bool failed;      /* out of memory, or over COTO_CASES_MAX */
    /* 1 + index of the newest case by low hash bits: an output of a million
     * repeated names must not cost a million searches. */
    uint32_t seed; /* of the hashes: nobody chooses names that share a slot */
    int32_t newest[COTO_CASES_SLOTS];
};

/* Reads a runner's output. Afterwards every case has a result, and when the
 * runner failed or ended early with no case to show for it, one more failed
 * case tells so. exit_code is -1 when the runner did not end by itself. */
void coto_cases_parse(const struct coto_runner *runner, const struct coto_buf *output,
                      int exit_code, struct coto_cases *ret_cases);
void coto_cases_fini(struct coto_cases *cases);

size_t coto_cases_count_failed(const struct coto_cases *cases);
size_t coto_cases_count_skipped(const struct coto_cases *cases);
/* Status 0, at least one case that was not skipped, none that failed. */
bool coto_cases_passed(const struct coto_cases *cases, int exit_code);

/* A JUnit file. */
struct coto_junit {
    const char *name;       /* of the suite */
    const char *started_at; /* UTC */
    int64_t duration_us;
    const struct coto_cases *cases;
    const struct coto_buf *output;
    const char *error; /* why the whole did not pass although no case failed, or NULL */
};
void coto_junit_xml(const struct coto_junit *junit, struct coto_buf *out);
