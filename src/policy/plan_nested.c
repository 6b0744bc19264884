/* Mounts inside mounts, and the way to a mount point.
 *
 * A read-only mount inside a writable one is how a part of a project is
 * protected. Three things would undo it:
 *   order     what is mounted later hides what lies below it: mounts are sorted,
 *             outer ones first
 *   renaming  the kernel refuses to rename a mount point, but not a directory above
 *             one: a program would move it away and put its own under the old name.
 *             So each directory between two mounts becomes a mount point itself
 *   links     a name on the way that leads elsewhere (CVE-2026-87766)
 */
#include "base/fd.h"
#include "base/own.h"
#include "base/weak.h"
#include "policy/plan_int.h"

#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

int coto_plan_walk(int dirfd, const char *path, size_t *ret_len)
{
    coto_auto_fd at = fcntl(dirfd, F_DUPFD_CLOEXEC, 0);
    size_t done = 0;
    struct stat st;

    if (at < 0)
        return -1;
    while (path[done]) {
        char name[NAME_MAX + 1];
        size_t start = done + strspn(path + done, "/");
        size_t n = strcspn(path + start, "/");
        if (n == 0)
            break;
        memcpy(name, path + start, n);
        name[n] = '\0';
        *ret_len = done = start + n;
        int follow = coto_up("beneath") ? O_NOFOLLOW : 0;
        int next = openat(at, name, O_PATH | follow | O_CLOEXEC);
        if (next < 0)
            return errno == ENOENT ? COTO_WALK_MISSING : -1;
        close(at);
        at = next;
        if (fstat(at, &st))
            return -1;
        if (S_ISLNK(st.st_mode))
            return COTO_WALK_LINK;
    }
    return COTO_WALK_CLEAR;
}

static int by_target(const void *a, const void *b)
{
    return strcmp(((const struct coto_plan_path *)a)->target,
                  ((const struct coto_plan_path *)b)->target);
}

static const struct coto_plan_path *mount_at(const struct coto_plan *plan, const char *target,
                                             size_t len)
{
    for (size_t i = 0; i < plan->mount_count; i++)
        if (strlen(plan->mounts[i].target) == len &&
            strncmp(plan->mounts[i].target, target, len) == 0)
            return &plan->mounts[i];
    return NULL;
}

/* The mount right around another, or NULL. */
static const struct coto_plan_path *around(const struct coto_plan *plan, const char *target)
{
    for (size_t len = strlen(target); len > 1;) {
        while (target[--len] != '/')
            ;
        const struct coto_plan_path *outer = mount_at(plan, target, len);
        if (outer)
            return outer;
    }
    return NULL;
}

static int check_way(const struct coto_plan_path *outer, const char *target, struct coto_err *err)
{
    size_t start = strlen(outer->target);
    size_t len = 0;
    int found = coto_plan_walk(outer->fd, target + start, &len);

    if (found == COTO_WALK_CLEAR || (found == COTO_WALK_MISSING && !target[start + len]))
        return 0; /* only the mount point itself may be missing */
    int where = (int)(start + len);
    if (found == COTO_WALK_LINK) {
        coto_err_set(err, COTO_ERR_FORBIDDEN, 0,
                     "--mount: '%s' is refused: '%.*s' is a symbolic link in '%s'", target, where,
                     target, outer->source);
        return coto_err_remedy(err, "mount at the directory it points to");
    }
    coto_err_set(err, COTO_ERR_POLICY, found < 0 ? errno : 0,
                 "--mount: '%s': there is no '%.*s' in '%s'", target, where, target, outer->source);
    return coto_err_remedy(err, "make that directory first");
}

/* Directories between the two become mounts of their own. */
static int pin(struct coto_plan *plan, const struct coto_plan_path *outer, const char *target,
               size_t len, struct coto_err *err)
{
    struct coto_plan_path *mounts = plan->mounts;
    const char *below = target + strlen(outer->target) + 1;
    size_t below_len = (size_t)(target + len - below);
    struct coto_plan_path path = {.fd = -1, .writable = true};
    coto_auto_buf source = {0};
    struct stat st;

    coto_buf_addf(&source, "%s/%.*s", strcmp(outer->source, "/") == 0 ? "" : outer->source,
                  (int)below_len, below);
    path.target = strndup(target, len);
    coto_auto_fd fd = coto_path_open_beneath(
        outer->fd, coto_buf_str(&source) + source.len - below_len, O_PATH | O_DIRECTORY, 0);
    if (fd < 0 || fstat(fd, &st)) {
        free(path.target);
        return coto_err_set(err, COTO_ERR_INPUT, errno, "--mount: '%s'", coto_buf_str(&source));
    }
    mounts = realloc(mounts, (plan->mount_count + 1) * sizeof *mounts);
    if (mounts)
        plan->mounts = mounts;
    if (!mounts || !path.target || source.failed) {
        free(path.target);
        return coto_plan_no_memory(err);
    }
    path.source = coto_take_ptr(source.data);
    path.dev = st.st_dev;
    path.ino = st.st_ino;
    path.mode = st.st_mode;
    path.fd = coto_take_fd(&fd);
    plan->mounts[plan->mount_count++] = path;
    return 0;
}

static int pin_between(struct coto_plan *plan, const char *target, struct coto_err *err)
{
    const struct coto_plan_path *outer = around(plan, target);

    if (!outer)
        return 0;
    if (check_way(outer, target, err))
        return -1;
    size_t outer_len = strlen(outer->target);
    for (size_t len = outer_len + 1; outer->writable && target[len]; len++) {
        if (target[len] != '/')
            continue;
        if (pin(plan, outer, target, len, err))
            return -1;
        outer = mount_at(plan, target, outer_len); /* the array may have moved */
    }
    return 0;
}

static int check_tmpfs(const struct coto_plan *plan, struct coto_err *err)
{
    for (size_t i = 0; i < plan->tmpfs_count; i++) {
        const struct coto_plan_path *outer = around(plan, plan->tmpfs[i].target);
        if (!outer)
            continue;
        coto_err_set(err, COTO_ERR_POLICY, 0,
                     "--tmpfs: '%s' would be hidden by the --mount at '%s'", plan->tmpfs[i].target,
                     outer->target);
        return coto_err_remedy(err, "choose a place outside of it");
    }
    return 0;
}

int coto_plan_nest_mounts(struct coto_plan *plan, struct coto_err *err)
{
    size_t given = plan->mount_count;

    if (given == 0)
        return 0;
    qsort(plan->mounts, given, sizeof *plan->mounts, by_target);
    /* Outer ones come first, so a mount's surroundings are pinned before it is looked at. */
    for (size_t i = 0; i < given; i++)
        if (pin_between(plan, plan->mounts[i].target, err))
            return -1;
    qsort(plan->mounts, plan->mount_count, sizeof *plan->mounts, by_target);
    return check_tmpfs(plan, err);
}
