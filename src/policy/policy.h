/* Policy: every option's value and who set it.
 *
 * A policy starts as the `default` profile and is overlaid, in this order, by
 * the chosen profile, the environment, the policy file, and flags (or a
 * request body): later wins, for lists and maps too (a flag given twice adds to
 * itself, not to the file's). Each value is parsed and range-checked on the
 * way in; a bad one is an error naming the source, the key, the value and what
 * is allowed, and leaves the policy unchanged.
 *
 * Owner: the caller; coto_policy_fini frees everything and may be called twice.
 */
#pragma once

#include "base/err.h"
#include "base/json.h"
#include "base/sha256.h"
#include "base/str.h"
#include "schema/options.h"

enum coto_source {
    COTO_SOURCE_DEFAULT, /* the row's own default */
    COTO_SOURCE_PROFILE,
    COTO_SOURCE_ENV,
    COTO_SOURCE_FILE,
    COTO_SOURCE_FLAG,
};

struct coto_value {
    int64_t num;           /* BOOL, INT, SIZE, DURATION, CPUS, ENUM */
    char *str;             /* STRING: never NULL */
    struct coto_strv list; /* LIST, MAP */
    enum coto_source source;
    char origin[64]; /* "profile enis", "COTO_MEMORY", "policy.yaml", "--memory" */
};

struct coto_policy {
    struct coto_value v[COTO_OPT_COUNT];
};

/* All rows' defaults. */
int coto_policy_init(struct coto_policy *policy, struct coto_err *err);
void coto_policy_fini(struct coto_policy *policy);
int coto_policy_copy(const struct coto_policy *from, struct coto_policy *ret_policy,
                     struct coto_err *err);

/* Sets one option from text. For LIST and MAP the first set from a new source
 * replaces what lower sources gave; further sets from the same source add. */
int coto_policy_set(struct coto_policy *policy, enum coto_opt opt, const char *text,
                    enum coto_source source, const char *origin, struct coto_err *err);
/* Same by key name; unknown keys and CLI-only keys are errors that suggest the
 * nearest name. */
int coto_policy_set_key(struct coto_policy *policy, const char *key, const char *text,
                        enum coto_source source, const char *origin, struct coto_err *err);

/* Overlays a built-in profile. Unknown name: an error listing all names. */
int coto_policy_apply_profile(struct coto_policy *policy, const char *name, struct coto_err *err);
/* Overlays COTO_<OPTION> variables and the SANDBOX_ and DOCKER_ ones of R1.2. */
int coto_policy_apply_env(struct coto_policy *policy, char *const *envp, struct coto_err *err);
/* What the DOCKER_ variables say, at the docker level only: call it when flags, the rest of
 * the environment and the file have chosen the level. */
int coto_policy_apply_docker_env(struct coto_policy *policy, char *const *envp,
                                 struct coto_err *err);
/* Overlays a policy file: the text is parsed by the coto-policy helper program
 * (libyaml), which knows nothing but text; keys are checked here. A refused file changes nothing. */
int coto_policy_apply_file(struct coto_policy *policy, const char *path, struct coto_err *err);
/* Opens a file that the caller named for reading (`what` says in messages for what), and never
 * waits for it: a regular file, /dev/null, or a pipe such as /dev/stdin or a shell's <(...), which is
 * then read until its writer has closed it. FIFOs, devices and directories are refused. */
int coto_policy_open_input(const char *what, const char *path, int *ret_fd, struct coto_err *err);

/* Contradictions between values, and what this build cannot do yet. */
int coto_policy_check(const struct coto_policy *policy, struct coto_err *err);

/* Canonical "key: value" lines of all policy (not CLI) options, sorted by row;
 * its hash is the policy hash of the result. */
void coto_policy_text(const struct coto_policy *policy, struct coto_buf *out);
void coto_policy_hash(const struct coto_policy *policy, char ret_hex[COTO_SHA256_HEX]);
/* One value as text that coto_policy_set reads back (lists joined with ","). */
void coto_policy_value_text(const struct coto_policy *policy, enum coto_opt opt,
                            struct coto_buf *out);
/* What a number may be where that policy has the most: "4m to 8g, for example 256m". */
void coto_policy_allowed(const struct coto_policy *most, enum coto_opt opt, struct coto_buf *out);

static inline int64_t coto_policy_num(const struct coto_policy *policy, enum coto_opt opt)
{
    return policy->v[opt].num;
}
static inline const char *coto_policy_str(const struct coto_policy *policy, enum coto_opt opt)
{
    return policy->v[opt].str ? policy->v[opt].str : "";
}
static inline const struct coto_strv *coto_policy_list(const struct coto_policy *policy,
                                                       enum coto_opt opt)
{
    return &policy->v[opt].list;
}

/* Built-in profiles, generated at build time from profiles/<name>.yaml. */
struct coto_profile {
    const char *name;
    const char *summary;          /* first comment line of the file */
    const char *const *settings;  /* key, value, key, value, ..., NULL */
    const char *const *notes;     /* the comment beside each setting, "" when none; NULL */
};
extern const struct coto_profile coto_profiles[];
extern const unsigned coto_profile_count;
