/* What is mounted below a tree is shown with it, so it is judged like the tree itself. And a part of the
 * host that is mounted a second time elsewhere is judged by its first name too. */
#include "policy/plan_int.h"

#include "base/fd.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TEXT_MAX ((size_t)4 << 20)

/* The kernel writes blanks, line ends and backslashes as \ooo. */
static void unescape(char *text)
{
    char *to = text;

    for (const char *from = text; *from;) {
        bool octal = from[0] == '\\' && strspn(from + 1, "01234567") >= 3;
        if (octal) {
            *to++ = (char)((from[1] - '0') << 6 | (from[2] - '0') << 3 | (from[3] - '0'));
            from += 4;
        } else {
            *to++ = *from++;
        }
    }
    *to = '\0';
}

/* The fifth field of a line of mountinfo, in place; NULL when it has none. */
static char *mount_point(char *line)
{
    char *at = line;

    for (int i = 0; i < 4 && at; i++) {
        at = strchr(at, ' ');
        at = at ? at + 1 : NULL;
    }
    if (at)
        at[strcspn(at, " ")] = '\0';
    if (at)
        unescape(at);
    return at;
}

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

struct mount {
    int id;
    char dev[32];
    char root[PATH_MAX]; /* of the file system, what is mounted */
    char point[PATH_MAX];
};

/* The next line that makes sense. */
static bool next_mount(const char **cursor, struct mount *ret)
{
    while (*cursor && **cursor) {
        const char *line = *cursor;
        const char *end = strchr(line, '\n');
        *cursor = end ? end + 1 : NULL;
        if (sscanf(line, "%d %*d %31s %4095s %4095s", &ret->id, ret->dev, ret->root, ret->point) != 4)
            continue;
        unescape(ret->root);
        unescape(ret->point);
        return true;
    }
    return false;
}

static const char *tail(const char *path, const char *dir)
{
    return path + (strcmp(dir, "/") == 0 ? 0 : strlen(dir));
}

/* Which mount the descriptor is on. */
static bool own_mount(const struct coto_plan_shown *shown, const char *text, struct mount *ret)
{
    char path[64], info[1024];

    snprintf(path, sizeof path, "/proc/self/fdinfo/%d", shown->fd);
    ssize_t n = coto_file_read_at(AT_FDCWD, path, info, sizeof info);
    const char *at = n > 0 ? strstr(info, "mnt_id:") : NULL;
    int id = at ? atoi(at + strlen("mnt_id:")) : -1;

    while (next_mount(&text, ret))
        if (ret->id == id)
            return coto_plan_is_below(shown->path, ret->point);
    return false;
}

/* Only names by which more of the file system is there, or all of the host: that somebody has mounted a
 * part of a project in a place of his own says nothing about the project. */
int coto_plan_check_names(const struct coto_plan_shown *shown,
                          int (*judge_name)(const struct coto_plan_shown *, struct coto_err *),
                          struct coto_err *err)
{
    coto_auto_buf text = {0};
    coto_auto_buf inside = {0};
    struct mount own, other;

    if (read_mounts(shown, &text, err))
        return -1;
    if (!own_mount(shown, coto_buf_str(&text), &own))
        return 0;
    coto_buf_addf(&inside, "%s%s", strcmp(own.root, "/") == 0 ? "" : own.root,
                  tail(shown->path, own.point));
    for (const char *cursor = text.data; next_mount(&cursor, &other);) {
        coto_auto_buf name = {0};
        struct coto_plan_shown named = *shown;
        if (other.id == own.id || strcmp(other.dev, own.dev) != 0 ||
            !coto_plan_is_below(coto_buf_str(&inside), other.root) ||
            (strcmp(other.point, "/") != 0 && strlen(other.root) >= strlen(own.root)))
            continue;
        coto_buf_addf(&name, "%s%s", strcmp(other.point, "/") == 0 ? "" : other.point,
                      tail(coto_buf_str(&inside), other.root));
        named.path = coto_buf_str(&name);
        if (name.failed || inside.failed)
            return coto_plan_no_memory(err);
        if (name.len > 0 && judge_name(&named, err))
            return -1;
    }
    return 0;
}

/* ---- below ---- */

int coto_plan_check_below(const struct coto_plan_shown *tree, struct coto_err *err)
{
    coto_auto_buf text = {0};

    if (read_mounts(tree, &text, err))
        return -1;
    for (char *line = text.data, *next; line && *line; line = next) {
        next = strchr(line, '\n');
        if (next)
            *next++ = '\0';
        const char *path = mount_point(line);
        if (path && strcmp(path, tree->path) != 0 && coto_plan_is_below(path, tree->path) &&
            !is_left_out(tree, path) && judge(tree, path, err))
            return -1;
    }
    return 0;
}
