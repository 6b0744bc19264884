/* What is mounted below a tree is shown with it, so it is judged like the tree itself. */
#include "policy/plan_int.h"

#include "base/fd.h"

#include <fcntl.h>
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

int coto_plan_check_below(const struct coto_plan_shown *tree, struct coto_err *err)
{
    coto_auto_buf text = {0};
    coto_auto_fd fd = open("/proc/self/mountinfo", O_RDONLY | O_CLOEXEC);

    if (fd < 0 || coto_fd_read_all(fd, TEXT_MAX, &text))
        return coto_err_set(err, COTO_ERR_SYSTEM, errno, "%s: read what is mounted below '%s'",
                            tree->what, tree->path);
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
