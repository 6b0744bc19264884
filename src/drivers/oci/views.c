/* A runtime looks every source up by its name again, as root, and whoever may write above it could have
 * put something else there meanwhile. So what the container shows is compared with what was looked
 * at, before any user code runs. With gVisor the files are in the root of its gofer.
 */
#include "drivers/oci/oci.h"

#include "base/fd.h"
#include "base/mountinfo.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MOUNTS_MAX ((size_t)4 << 20)

/* ---- whose root ---- */

static bool is_bind(int root, const struct oci_binds *binds, size_t i)
{
    coto_auto_fd fd =
        coto_path_open_beneath(root, binds->items[i].target + 1, O_PATH | O_NOFOLLOW, 0);
    struct stat st;

    return fd >= 0 && fstat(fd, &st) == 0 && st.st_dev == binds->items[i].dev &&
           st.st_ino == binds->items[i].ino;
}

static int root_of(long pid)
{
    char path[48];

    snprintf(path, sizeof path, "/proc/%ld/root", pid);
    return open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
}

static long parent_of(long pid)
{
    int64_t found;

    return coto_proc_stat(pid, 4, 1, &found) ? (long)found : 0;
}

/* Without root runsc starts itself again in a user namespace: one more in between. */
static bool is_of_runtime(const struct oci *oci, long pid)
{
    long above = parent_of(pid);

    return above == oci->pid || (above > 1 && parent_of(above) == oci->pid);
}

/* The runtime's process that has our copy of coto-init, the last of the views, in its root. */
static int gofer_root(const struct oci *oci)
{
    DIR *dir = opendir("/proc");
    struct dirent *entry;
    int found = -1;

    while (dir && found < 0 && (entry = readdir(dir))) {
        long pid = isdigit((unsigned char)entry->d_name[0]) ? strtol(entry->d_name, NULL, 10) : 0;
        if (pid <= 1 || !is_of_runtime(oci, pid))
            continue;
        coto_auto_fd root = root_of(pid);
        if (root >= 0 && is_bind(root, &oci->binds, oci->binds.count - 1))
            found = coto_take_fd(&root);
    }
    if (dir)
        closedir(dir);
    return found;
}

static int check_files(const struct oci *oci, struct coto_err *err)
{
    coto_auto_fd root = oci->chosen.runtime->own_kernel ? gofer_root(oci) : root_of(oci->init_pid);

    if (root < 0)
        return coto_err_set(err, COTO_ERR_WALL, 0, "%s: the files of the container cannot be read back",
                            oci->chosen.runtime->name);
    for (size_t i = 0; i < oci->binds.count; i++)
        if (!is_bind(root, &oci->binds, i))
            return coto_err_set(err, COTO_ERR_FORBIDDEN, 0, "mount '%s': it was replaced meanwhile",
                                oci->binds.items[i].source);
    return 0;
}

/* ---- mounts ---- */

struct mounts {
    struct coto_buf text;
    struct coto_mount *items;
    size_t count;
};

static int read_mounts(const struct oci *oci, struct mounts *ret)
{
    char path[48];

    snprintf(path, sizeof path, "/proc/%d/mountinfo", (int)oci->init_pid);
    coto_auto_fd fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || coto_fd_read_all(fd, MOUNTS_MAX, &ret->text) || ret->text.len == 0)
        return -1;
    size_t lines = 1;
    for (const char *p = ret->text.data; (p = strchr(p, '\n')); p++)
        lines++;
    ret->items = calloc(lines, sizeof *ret->items);
    char *cursor = ret->text.data;
    while (ret->items && coto_mountinfo_next(&cursor, &ret->items[ret->count]))
        ret->count++;
    return ret->items ? 0 : -1;
}

/* Another one lies on it: nobody sees it. */
static bool is_covered(const struct mounts *mounts, size_t i)
{
    for (size_t k = i + 1; k < mounts->count; k++)
        if (strcmp(mounts->items[k].point, mounts->items[i].point) == 0)
            return true;
    return false;
}

static bool is_below(const char *path, const char *dir)
{
    size_t n = strlen(dir);

    return strncmp(path, dir, n) == 0 && (path[n] == '\0' || path[n] == '/');
}

/* The read-only view that a mount belongs to; NULL: none, or it is one of those that are written to. */
static const char *view_of(const struct oci *oci, const char *point)
{
    const struct coto_plan *plan = oci->plan;
    const char *fresh[2] = {"/tmp", plan->workdir};
    const char *found = NULL;
    size_t longest = 0;

    for (size_t i = 0; i < 2 + plan->tmpfs_count; i++) {
        const char *at = i < 2 ? fresh[i] : plan->tmpfs[i - 2].target;
        if (is_below(point, at) && strlen(at) > longest)
            longest = strlen(at);
    }
    for (size_t i = 0; i < oci->binds.count; i++) {
        const char *at = oci->binds.items[i].target;
        if (!is_below(point, at) || strlen(at) < longest)
            continue;
        longest = strlen(at);
        found = oci->binds.items[i].writable ? NULL : at;
    }
    return found;
}

static int refuse(const struct oci *oci, const char *point, const char *view, struct coto_err *err)
{
    coto_err_set(err, COTO_ERR_WALL, 0, "%s: '%.200s' can be written to, below the read-only '%.200s'",
                 oci->chosen.runtime->name, point, view);
    return coto_err_remedy(err, "unmount it, use a runtime that knows 'rro' (runc 1.1, crun 1.4), or "
                                "--isolation process");
}

static int judge_mounts(const struct oci *oci, const struct mounts *mounts, struct coto_err *err)
{
    bool has_root = false;

    for (size_t i = 0; i < mounts->count; i++) {
        const struct coto_mount *mount = &mounts->items[i];
        const char *view = view_of(oci, mount->point);
        if (is_covered(mounts, i))
            continue;
        if (view && !coto_mount_is_read_only(mount))
            return refuse(oci, mount->point, view, err);
        has_root |= strcmp(mount->point, "/") == 0 && coto_mount_is_read_only(mount);
    }
    if (has_root)
        return 0;
    coto_err_set(err, COTO_ERR_WALL, 0, "%s: wall '%s' is not up", oci->chosen.runtime->name,
                 coto_walls[COTO_WALL_ROOT_RO].name);
    return coto_err_remedy(err, "see `coto doctor`; or name it in --allow-missing");
}

static int check_mounts(const struct oci *oci, struct coto_err *err)
{
    struct mounts mounts = {0};
    int failed = read_mounts(oci, &mounts)
                     ? coto_err_set(err, COTO_ERR_WALL, errno, "read back the mounts of %s", oci->name)
                     : judge_mounts(oci, &mounts, err);

    free(mounts.items);
    coto_buf_fini(&mounts.text);
    return failed;
}

int oci_views_check(const struct oci *oci, struct coto_err *err)
{
    if (!oci->chosen.runtime->own_kernel)
        return check_mounts(oci, err) || check_files(oci, err) ? -1 : 0;
    /* of nothing but the host's own directories there is nobody who could */
    return oci->plan->mount_count || oci->plan->rootfs.source ? check_files(oci, err) : 0;
}
