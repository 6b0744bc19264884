/* What the files of the plan share; nobody else includes this. */
#pragma once

#include "policy/plan.h"

#include <errno.h>

#define COTO_PLAN_PATH "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

/* Capabilities that are harmless inside a user namespace of one's own (R2.4). */
struct coto_plan_cap {
    const char *name;
    int bit;
};
#define COTO_PLAN_CAP_COUNT 4
extern const struct coto_plan_cap coto_plan_caps[COTO_PLAN_CAP_COUNT];

static inline int coto_plan_no_memory(struct coto_err *err)
{
    return coto_err_set(err, COTO_ERR_LIMIT, ENOMEM, "plan");
}

/* The code or command: stages, files, language, code_hash. Uses workdir, rootfs
 * and the numbers, which must be there. */
int coto_plan_add_code(const struct coto_policy *policy, const struct coto_source_code *code,
                       struct coto_plan *plan, struct coto_err *err);
/* Rootfs, extra tmpfs, mounts, copies; uses workdir. */
int coto_plan_add_paths(const struct coto_policy *policy, struct coto_plan *plan,
                        struct coto_err *err);
/* Text with {src} and the like replaced; 1 when the item is to be left out. */
struct coto_plan_names {
    const char *src;
    const char *out;
    const char *dir;
    const char *scratch;
    int64_t memory;
};
int coto_plan_expand(const char *text, const struct coto_plan_names *names, struct coto_buf *out);
/* The directory a build may write to: the workspace, unless only its output/
 * is writable. */
const char *coto_plan_scratch(const struct coto_plan *plan);

/* An absolute path without ".", "..", double or trailing slashes. Relative ones
 * are taken from base; NULL base refuses them. `what` opens the message. */
int coto_plan_normalise(const char *what, const char *text, const char *base, char **ret_path,
                        struct coto_err *err);
/* Whether path is dir or below it. */
bool coto_plan_is_below(const char *path, const char *dir);
/* Whether a mount, tmpfs or the workspace may stand at this normalised path. */
int coto_plan_check_target(const char *what, const char *path, struct coto_err *err);

/* Looks along a relative path without following a link: the first component that is
 * a link or missing ends it; *ret_len is how far that was. -1 and errno on failure. */
enum { COTO_WALK_CLEAR, COTO_WALK_MISSING, COTO_WALK_LINK };
int coto_plan_walk(int dirfd, const char *path, size_t *ret_len);
/* Sorts the mounts so that inner ones come later, and keeps programs from moving
 * what lies between two of them (plan_nested.c). */
int coto_plan_nest_mounts(struct coto_plan *plan, struct coto_err *err);

/* The image that becomes the rootfs, by name, digest and lock, checked as the policy asks for
 * (plan_image.c). The directory's O_PATH descriptor; -2 when the plan wants none. */
int coto_plan_open_image(const struct coto_policy *policy, struct coto_plan *plan,
                         struct coto_err *err);

/* Host places that are never shown (plan_forbidden.c). */
struct coto_plan_shown {
    const char *what;  /* "--mount" */
    const char *given; /* as it was written */
    const char *path;  /* canonical */
    int fd;
    bool writable;
    bool is_rootfs;
};
int coto_plan_check_forbidden(const struct coto_plan_shown *shown, struct coto_err *err);
/* Has the other names judged that a mount gives it, as a part of a larger one (plan_below.c). */
int coto_plan_check_names(const struct coto_plan_shown *shown,
                          int (*judge_name)(const struct coto_plan_shown *, struct coto_err *),
                          struct coto_err *err);
/* The name a path below one mount has by another; false when it is not there. Memory may be
 * short: see name->failed. */
struct coto_mount;
bool coto_plan_other_name(const struct coto_mount *own, const struct coto_mount *other,
                          const char *path, struct coto_buf *name);
/* The same for everything that is mounted below it (plan_below.c). */
int coto_plan_check_below(const struct coto_plan_shown *tree, struct coto_err *err);
