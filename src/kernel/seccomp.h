/* The system-call allow-list: one table of rows, compiled to one classic BPF
 * program per tier, in the sandbox's own architecture.
 *
 * Shape of the program: check arch (another one: kill the process), check the
 * x32 bit (kill), then a balanced binary search over the call numbers whose
 * leaves allow, answer an errno, or check arguments. Arguments of 32-bit type
 * are compared by their low word only; allow rules by value also require the
 * high word to be zero (SC-08). Numbers that no row names answer ENOSYS.
 *
 * No library: libseccomp needs 1.6 ms to build what this builds in
 * microseconds, and its linear program costs more to install
 * (docs/decisions/0002).
 */
#pragma once

#include "base/err.h"
#include "base/sha256.h"

#include <linux/filter.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define COTO_SECCOMP_MAX 2048 /* instructions; the kernel takes 4096 */

struct coto_seccomp_program {
    struct sock_filter code[COTO_SECCOMP_MAX];
    unsigned short len;
    char hash[COTO_SHA256_HEX]; /* SHA-256 of the instructions */
};

/* What a plan adds to its tier. */
enum {
    COTO_SECCOMP_NOEXEC = 1,  /* memfd_create is denied */
    COTO_SECCOMP_NOSETID = 2, /* no mode gets set-id bits, for plans that write to the host's files;
                               * openat2, whose mode is in memory, is denied */
    /* A filter in two parts, for an interpreter that is copied into sandboxes: what it has, with all that its copies
     * do before a program has come; and what a copy adds, which takes just that away again. Both in
     * force are the filter of the tier. */
    COTO_SECCOMP_SHARED = 4,
    COTO_SECCOMP_REST = 8,
    COTO_SECCOMP_WATCHED = 16, /* whoever listens is asked for sockets this one allows: kernel/sockwatch.h's in one with it */
};
static inline unsigned coto_seccomp_extras(bool noexec, bool nosetid)
{
    return (noexec ? COTO_SECCOMP_NOEXEC : 0u) | (nosetid ? COTO_SECCOMP_NOSETID : 0u);
}

/* No tier of sandboxes: what the service's own processes live behind (kernel/self.h). It refuses a few calls by
 * their numbers and allows the rest, those without a row too. It has no extras. */
#define COTO_SECCOMP_SERVICE (COTO_SECCOMP_DEBUG + 1)
/* What the front lives behind besides: the few calls of tier `default` that it makes. */
#define COTO_SECCOMP_FRONT (COTO_SECCOMP_SERVICE + 1)

/* Builds the filter of a tier (COTO_SECCOMP_STRICT, _DEFAULT, _DEBUG, _SERVICE, _FRONT) with these extras. */
int coto_seccomp_build(int tier, unsigned extras, struct coto_seccomp_program *ret_program,
                       struct coto_err *err);

/* What the table says about a call, independent of the compiled program. */
enum coto_seccomp_answer {
    COTO_ANSWER_ALLOW,
    COTO_ANSWER_ERRNO, /* with an errno; 0 is the lie told for sync(2) */
    COTO_ANSWER_KILL,
    COTO_ANSWER_ARGS, /* depends on the arguments */
};
struct coto_seccomp_rule {
    const char *name;
    int number;
    enum coto_seccomp_answer answer;
    int error;           /* for ERRNO, and for ARGS when the check fails */
    const char *check;   /* for ARGS: what is checked, in words */
};
/* The rule of a number in a tier; a number without a row: name NULL, and ENOSYS but for _SERVICE. */
struct coto_seccomp_rule coto_seccomp_rule(int tier, int number);
/* Evaluates the table itself (not the program) for a concrete call: the oracle
 * of the tests. Returns the answer; *ret_error for ERRNO. */
struct coto_seccomp_call {
    uint32_t arch;
    int number;
    uint64_t args[6];
};
enum coto_seccomp_answer coto_seccomp_decide(int tier, unsigned extras,
                                             const struct coto_seccomp_call *call, int *ret_error);

/* The rule on a call's arguments for the compilers of container runtimes: it is allowed when all
 * comparisons of one row hold, (argument & mask) == value. Says every row to emit. Returns
 * false where the rows allow more than the table does; they never allow less. */
struct coto_seccomp_compare {
    unsigned arg;
    uint64_t mask, value;
};
struct coto_seccomp_row {
    int count;
    struct coto_seccomp_compare compare[3];
};
typedef void coto_seccomp_emit(void *arg, const struct coto_seccomp_row *row);
bool coto_seccomp_rows(int tier, int number, coto_seccomp_emit *emit, void *arg);
