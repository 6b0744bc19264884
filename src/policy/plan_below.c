/* What is mounted below a tree is shown with it, so it is judged like the tree itself. And a part of the
 * host that is mounted a second time elsewhere is judged by its first name too. */
#include "policy/plan_int.h"

#include "base/fd.h"
#include "base/mountinfo.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TEXT_MAX ((size_t)4 << 20)

/* A root file system's own are not shown: the sandbox has others (init/rootfs.c). */
static bool is_left_out(const struct coto_plan_shown *tree, const char *path)
{
    static const char *const names[] = {"/dev", "/proc", "/sys", "/run", "/tmp"};
    const char *inside = path + strlen(tree->path);

    for (size_t i = 0; tree->is_rootfs && i < sizeof names / sizeof names[0]; i++)
        if (coto_plan_is_below(inside, names[i]))
            return true;
    return false;
}

static int judge(const struct coto_plan_shown *tree, const char *path, struct coto_err *err)
{
    coto_auto_fd fd = open(path, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    struct coto_plan_shown shown = *tree;

    if (fd < 0)
        return 0; /* hidden by another mount, or out of the caller's reach */
    shown.path = (char *)path;
    shown.fd = fd;
    if (coto_plan_check_forbidden(&shown, err) == 0)
        return 0;
    coto_err_wrap(err, "below '%s'", tree->given);
    return coto_err_remedy(err, "unmount '%.200s', or mount a directory that does not hold it", path);
}

static int read_mounts(const struct coto_plan_shown *shown, struct coto_buf *text,
                       struct coto_err *err)
{
    coto_auto_fd fd = open("/proc/self/mountinfo", O_RDONLY | O_CLOEXEC);

    if (fd < 0 || coto_fd_read_all(fd, TEXT_MAX, text))
        return coto_err_set(err, COTO_ERR_SYSTEM, errno, "%s: read what is mounted at '%s'",
                            shown->what, shown->path);
    return 0;
}

/* ---- other names ---- */

static const char *tail(const char *path, const char *dir)
{
    return path + (strcmp(dir, "/") == 0 ? 0 : strlen(dir));
}

/* Which mount the descriptor is on. */
static bool own_mount(const struct coto_plan_shown *shown, char *text, struct coto_mount *ret)
{
    char path[64], info[1024];

    snprintf(path, sizeof path, "/proc/self/fdinfo/%d", shown->fd);
    ssize_t n = coto_file_read_at(AT_FDCWD, path, info, sizeof info);
    const char *at = n > 0 ? strstr(info, "mnt_id:") : NULL;
    int id = at ? atoi(at + strlen("mnt_id:")) : -1;

    while (coto_mountinfo_next(&text, ret))
        if (ret->id == id)
            return coto_plan_is_below(shown->path, ret->point);
    return false;
}

bool coto_plan_other_name(const struct coto_mount *own, const struct coto_mount *other,
                          const char *path, struct coto_buf *name)
{
    coto_auto_buf inside = {0}; /* its place in the file system */

    coto_buf_addf(&inside, "%s%s", strcmp(own->root, "/") == 0 ? "" : own->root,
                  tail(path, own->point));
    if (strcmp(other->dev, own->dev) != 0 || !coto_plan_is_below(coto_buf_str(&inside), other->root))
        return false;
    coto_buf_addf(name, "%s%s", strcmp(other->point, "/") == 0 ? "" : other->point,
                  tail(coto_buf_str(&inside), other->root));
    name->failed |= inside.failed;
    return name->len > 0;
}

/* Only names by which more of the file system is there, or all of the host: that somebody has mounted a
 * part of a project in a place of his own says nothing about the project. */
int coto_plan_check_names(const struct coto_plan_shown *shown,
                          int (*judge_name)(const struct coto_plan_shown *, struct coto_err *),
                          struct coto_err *err)
{
    coto_auto_buf text = {0};
    coto_auto_buf again = {0};
    struct coto_mount own, other;

    if (read_mounts(shown, &text, err))
        return -1;
    coto_buf_add(&again, text.data, text.len);
    if (again.failed)
        return coto_plan_no_memory(err);
    if (!own_mount(shown, text.data, &own))
        return 0;
    for (char *cursor = again.data; coto_mountinfo_next(&cursor, &other);) {
        coto_auto_buf name = {0};
        struct coto_plan_shown named = *shown;
        if (other.id == own.id ||
            (strcmp(other.point, "/") != 0 && strlen(other.root) >= strlen(own.root)))
            continue;
        bool has_name = coto_plan_other_name(&own, &other, shown->path, &name);
        if (name.failed)
            return coto_plan_no_memory(err);
        named.path = coto_buf_str(&name);
        if (has_name && judge_name(&named, err))
            return -1;
    }
    return 0;
}

/* ---- below ---- */

int coto_plan_check_below(const struct coto_plan_shown *tree, struct coto_err *err)
{
    coto_auto_buf text = {0};
    struct coto_mount mount;

    if (read_mounts(tree, &text, err))
        return -1;
    for (char *cursor = text.data; coto_mountinfo_next(&cursor, &mount);)
        if (strcmp(mount.point, tree->path) != 0 && coto_plan_is_below(mount.point, tree->path) &&
            !is_left_out(tree, mount.point) && judge(tree, mount.point, err))
            return -1;
    return 0;
}
