/* Errors: one value on the caller's stack.
 *
 * A function that can fail returns 0, or -1 after it has filled the
 * struct coto_err it was given as its last parameter, and leaves its outputs
 * alone. An error never allocates, so it can be passed on from a child after
 * fork and across a socket (see wire/). It carries what a person needs: what
 * failed and why (text), and what to do about it (remedy).
 *
 * These are *our* failures. The outcome of the program that was run is a
 * verdict (schema/verdict.h); the two never mix.
 */
#pragma once

#include <stdarg.h>
#include <stddef.h>

/* One row per kind: enum, exit status, HTTP status, word, meaning. */
#define COTO_ERR_KINDS(X)                                                                          \
    X(USAGE, 64, 400, "usage", "a flag, argument or key is unknown or malformed")                  \
    X(POLICY, 65, 400, "policy", "a policy value is invalid, out of range or above a ceiling")     \
    X(INPUT, 66, 400, "input", "a file given to coto cannot be read")                              \
    X(TOOL, 67, 422, "tool_missing", "the tool a language needs is not in the sandbox")            \
    X(FORBIDDEN, 68, 403, "forbidden", "the request would expose a sensitive host path")           \
    X(UNAVAILABLE, 69, 501, "unavailable", "not available at this isolation level")                \
    X(INTERNAL, 70, 500, "internal", "a bug in coto, or a broken peer")                            \
    X(SYSTEM, 71, 500, "system", "the operating system refused an operation")                      \
    X(WALL, 72, 412, "wall_missing", "a wall or limit the policy needs cannot be had here")        \
    X(OUTPUT, 73, 500, "cannot_write", "a result, report or artifact cannot be written")           \
    X(LIMIT, 75, 503, "busy", "out of a host resource; try again later")                           \
    X(NOEXEC, 126, 422, "not_executable", "the command exists in the sandbox but cannot be run")   \
    X(NOTFOUND, 127, 422, "not_found", "the command does not exist in the sandbox")

/* Refusals of a service that have no kind of their own: the HTTP request itself is wrong. HTTP status,
 * word. */
#define COTO_ERR_HTTP_WORDS(X)                                                                     \
    X(400, "bad_request")                                                                          \
    X(401, "unauthorized")                                                                         \
    X(405, "method_not_allowed")                                                                   \
    X(408, "request_timeout")                                                                      \
    X(413, "body_too_large")                                                                       \
    X(414, "uri_too_long")                                                                         \
    X(417, "expectation_failed")                                                                   \
    X(431, "header_too_large")                                                                     \
    X(501, "not_implemented")                                                                      \
    X(505, "http_version")

enum coto_err_kind {
    COTO_ERR_NONE = 0,
#define X(id, code, http, word, doc) COTO_ERR_##id,
    COTO_ERR_KINDS(X)
#undef X
        COTO_ERR_COUNT
};

struct coto_err {
    int kind;      /* enum coto_err_kind */
    int sys_errno; /* 0, or the errno behind it */
    char text[512];
    char remedy[384];
};

struct coto_err_info {
    const char *word;
    const char *doc;
    int exit_code;
    int http_status;
};

/* The row of a kind; never NULL (unknown kinds get INTERNAL's row). */
const struct coto_err_info *coto_err_info(int kind);

/* Fills *err (which may be NULL) and returns -1, so that callers can write
 * `return coto_err_set(...)`. With a sys_errno its message is appended. */
int coto_err_set(struct coto_err *err, int kind, int sys_errno, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
/* Adds what to do about it; returns -1. */
int coto_err_remedy(struct coto_err *err, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
/* Puts "context: " before the text; returns -1. */
int coto_err_wrap(struct coto_err *err, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

#ifdef __clang_analyzer__
/* The analyser sees one file at a time and would follow paths where these return 0. */
#define coto_err_set(...) (coto_err_set(__VA_ARGS__), -1)
#define coto_err_remedy(...) (coto_err_remedy(__VA_ARGS__), -1)
#define coto_err_wrap(...) (coto_err_wrap(__VA_ARGS__), -1)
#endif
