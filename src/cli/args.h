/* Command line of a verb → policy.
 *
 * Every row of schema/options.h is a flag: --name VALUE, --name=VALUE, and for
 * booleans --name, --no-name. Short forms: -c CODE, -q, -v, -h. Parsing stops at
 * the first argument that is not a flag ("-" alone is a file: stdin) or behind
 * "--". Profile, environment and policy file are overlaid in the same call, in
 * the order of policy/policy.h.
 */
#pragma once

#include "base/err.h"
#include "policy/policy.h"

#include <stdbool.h>

struct coto_args {
    char **rest;       /* what follows the flags, NULL-terminated; points into argv */
    int count;         /* of rest */
    bool after_dashes; /* "--" stood before rest */
    bool help;         /* -h or --help; the policy then holds flags only */
};

/* A flag that only one verb knows ("--junit FILE"). */
struct coto_args_flag {
    const char *name;    /* without dashes; NULL ends the list */
    const char *metavar; /* NULL: takes no value */
    const char *help;
    const char **value;  /* set to the value (borrowed from argv), "" without a metavar */
};

/* How a verb differs from `run`. */
struct coto_args_spec {
    const struct coto_args_flag *flags; /* or NULL */
    bool flags_anywhere; /* flags may follow operands; argv is rearranged in place */
};

/* Fills a policy and the rest from argv (argv[0] is the verb). On failure both
 * are left alone and nothing needs freeing. Does not call coto_policy_check. */
int coto_args_policy(int argc, char **argv, char **envp, struct coto_policy *ret_policy,
                     struct coto_args *ret_rest, struct coto_err *err);
/* The same for a verb with flags of its own; argv ends with NULL. */
int coto_args_policy_with(const struct coto_args_spec *spec, char **argv, char **envp,
                          struct coto_policy *ret_policy, struct coto_args *ret_rest,
                          struct coto_err *err);

/* Whether the caller asked for JSON, also when the command line is otherwise
 * wrong: errors are to be printed in the form the caller can read. `spec` may
 * be NULL. Call it before coto_args_policy_with, which may rearrange argv. */
bool coto_args_want_json(const struct coto_args_spec *spec, char *const *argv, char *const *envp);
