/* libcoto: run untrusted code behind every wall the kernel has.
 *
 * A request says what to run and under which policy; coto_run turns it into a
 * result. The result tells how the program ended in one word; an error tells that
 * coto itself failed. The two never mix: coto_run returns 0 whatever the program
 * did.
 *
 *     coto_request *request = coto_request_new();
 *     coto_result *result;
 *     struct coto_error error;
 *     if (coto_request_code(request, "python", "print(2+2)", 10, &error) ||
 *         coto_request_set(request, "memory", "64m", &error) ||
 *         coto_run(request, &result, &error))
 *         ...
 *
 * `coto run` is made of the same parts as this library (a job: policy, plan, run,
 * report), but does not go through this header: it wants what only a terminal has
 * (neutralised escapes, --verbose, --dry-run, flags named in messages).
 *
 * Ownership. Strings and arrays given to a request are copied, descriptors are
 * borrowed: they must stay open until coto_run returns and are never closed.
 * Functions that take a `struct coto_error *` return 0, or -1 after they have
 * filled it (it may be NULL) and then leave request and outputs as they were.
 *
 * Processes. coto_run starts coto-init (found beside the running program or where
 * `make install` put it) and returns when nothing of the sandbox is left. One run
 * at a time per process: a second one at the same time is the error "busy". It
 * clones the calling process without its other threads, as fork does; a program
 * with threads of its own should run from a small helper process. SIGPIPE is
 * held back for its duration; no signal handler is installed, no working
 * directory changed, nothing printed. Descriptors 0, 1 and 2 must be open.
 *
 * Link with `pkg-config --cflags --libs coto`. Only what this header declares is
 * stable.
 */
#ifndef COTO_H
#define COTO_H

#include <stdbool.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct coto_request coto_request;
typedef struct coto_outcome coto_result;

/* Why coto failed. It owns nothing and can be copied. */
struct coto_error {
    const char *kind;  /* one word, static: usage, policy, input, tool_missing, forbidden,
                          unavailable, internal, system, wall_missing, cannot_write, busy,
                          not_executable, not_found */
    int exit_code;     /* what the coto command exits with for this kind */
    char message[512]; /* what: why */
    char remedy[384];  /* what to do about it; "" when nothing is known */
};

/* "0.1.0"; static. */
const char *coto_version(void);

/* ---- the request ---- */

/* An empty request: default policy, no stdin, output captured. NULL when memory
 * is out. A request can be run any number of times. */
coto_request *coto_request_new(void);
/* NULL is accepted. */
void coto_request_free(coto_request *request);

/* Sets a policy key (docs/OPTIONS.md: "memory", "timeout", "env", "copy", ...) from
 * text, as a flag would: `memory`, `256m`. Lists and maps take one item per call
 * and add up; any other key is replaced by a later call. Errors: usage (no such
 * key, or one of the command line only), policy (a bad value; the message says
 * what is allowed). */
int coto_request_set(coto_request *request, const char *key, const char *value,
                     struct coto_error *err);
/* Built-in profile to start from instead of "default". Errors: usage or policy
 * for an unknown name. */
int coto_request_profile(coto_request *request, const char *name, struct coto_error *err);
/* Policy file, YAML or JSON, on top of the profile; read by coto_run, which tells
 * its errors (input, policy, usage). NULL takes it back. */
int coto_request_policy_file(coto_request *request, const char *path, struct coto_error *err);
/* Whether coto_run takes COTO_* and the other documented variables from this
 * process's environment. Off by default. Values rank, from weak to strong:
 * profile, environment, policy file, coto_request_set. */
void coto_request_use_environment(coto_request *request, bool on);

/* What to run: the last of these three calls counts. Errors: busy (no memory),
 * usage (an empty command). Whether the file exists, the language is known and
 * its tool is there is told by coto_run: input, usage, tool_missing. */

/* A host file, copied in; its language is found as `coto run FILE` finds it. */
int coto_request_file(coto_request *request, const char *path, struct coto_error *err);
/* Code as text, `len` bytes; NUL bytes are fine. */
int coto_request_code(coto_request *request, const char *language, const char *text, size_t len,
                      struct coto_error *err);
/* A command of the sandbox's own file system; argv ends with NULL. */
int coto_request_command(coto_request *request, const char *const *argv, struct coto_error *err);
/* The program's own arguments behind a file or code; argv ends with NULL, and
 * replaces what an earlier call gave. */
int coto_request_arguments(coto_request *request, const char *const *argv, struct coto_error *err);

/* Where the program's streams come from and go to; -1, the default, is an empty
 * stdin and an output that goes nowhere. Bytes pass unchanged as they come. */
void coto_request_stdin(coto_request *request, int fd);
void coto_request_stdout(coto_request *request, int fd);
void coto_request_stderr(coto_request *request, int fd);
/* Whether the result keeps stdout and stderr, up to 10 MiB of each; on by
 * default, also beside a descriptor. */
void coto_request_capture(coto_request *request, bool on);
/* The run ends with the verdict "killed" once this descriptor is readable (an
 * eventfd, signalfd or pipe; nothing is read from it). -1: none. */
void coto_request_cancel(coto_request *request, int fd);

/* ---- running ---- */

/* Runs the request. 0: *ret_result is complete and the caller's to free, and the
 * artifacts and the report the policy asked for are written. -1: any kind of
 * error; *ret_result is untouched and nothing of the sandbox is left. */
int coto_run(const coto_request *request, coto_result **ret_result, struct coto_error *err);

/* ---- the result ---- */

/* How the program ended: ok, nonzero, signal, timeout, oom, pids, output, disk,
 * denied, killed or lost; static. */
const char *coto_result_verdict(const coto_result *result);
/* The program's own exit status; -1 when it has none. */
int coto_result_exit_code(const coto_result *result);
/* The signal that killed it, 0 when none did. */
int coto_result_signal(const coto_result *result);
/* What the coto command would exit with: the program's own status, 124 timeout,
 * 137 out of memory, 128+n signal. */
int coto_result_exit_status(const coto_result *result);
/* Captured bytes, "" when there are none. A NUL follows them, but they may hold
 * NULs too: ret_len (which may be NULL) tells. They live as long as the result. */
const char *coto_result_stdout(const coto_result *result, size_t *ret_len);
const char *coto_result_stderr(const coto_result *result, size_t *ret_len);
/* The result object of docs/RESULT.md as one line of JSON, the caller's to free()
 * and not tied to the result. NULL when memory is out. */
char *coto_result_json(const coto_result *result);
/* NULL is accepted. */
void coto_result_free(coto_result *result);

#ifdef __cplusplus
}
#endif

#endif
