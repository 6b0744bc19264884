/* A directory for a target that opens names: made once, with links that lead out of it,
 * and removed at exit (libFuzzer does not always get there: tests/fuzz/run removes TMPDIR). */
#pragma once

#include "base/fd.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char scratch_path[256];
static int scratch_fd = -1;

static void scratch_remove(void)
{
    char *name = strrchr(scratch_path, '/');

    *name++ = '\0'; /* it is below that one, and nothing else is looked at */
    coto_auto_fd where = open(scratch_path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    coto_path_remove_tree(where, name);
}

/* root/ is where names may lead, outside/ is where they must not. */
static int scratch_root(void)
{
    if (scratch_fd >= 0)
        return scratch_fd;
    const char *where = getenv("TMPDIR");
    snprintf(scratch_path, sizeof scratch_path, "%s/coto-test-fuzz-XXXXXX", where ? where : "/tmp");
    if (!mkdtemp(scratch_path) || atexit(scratch_remove))
        abort();
    coto_auto_fd top = open(scratch_path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (mkdirat(top, "root", 0700) || mkdirat(top, "outside", 0700) ||
        mkdirat(top, "root/a", 0700) || mkdirat(top, "root/a/b", 0700) ||
        symlinkat("../outside", top, "root/out") ||
        symlinkat("/", top, "root/a/top") || symlinkat("b", top, "root/a/l") ||
        symlinkat("../../outside/made", top, "root/a/dangling"))
        abort();
    scratch_fd = openat(top, "root", O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (scratch_fd < 0)
        abort();
    return scratch_fd;
}

/* Where the kernel says a descriptor leads: below root/, or the target is broken. */
static void scratch_check(int fd)
{
    char link[64];
    char path[PATH_MAX];
    char root[sizeof scratch_path + 8];

    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t len = readlink(link, path, sizeof path - 1);
    int n = snprintf(root, sizeof root, "%s/root", scratch_path);
    if (len < n || strncmp(path, root, (size_t)n) != 0 || (len > n && path[n] != '/'))
        abort();
}

/* Nothing was made beside root/. */
static void scratch_check_outside(void)
{
    char path[sizeof scratch_path + 16];

    snprintf(path, sizeof path, "%s/outside", scratch_path);
    if (rmdir(path) || mkdir(path, 0700)) /* empty, as it was */
        abort();
}
