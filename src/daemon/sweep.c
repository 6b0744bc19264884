#include "daemon/sweep.h"

#include "base/fd.h"
#include "kernel/cgroup.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static bool sweep_dir(const char *path, const char *prefix)
{
    DIR *dir = opendir(path);
    bool all = true;
    const struct dirent *entry;

    if (!dir)
        return true;
    while ((entry = readdir(dir)))
        if (strncmp(entry->d_name, prefix, strlen(prefix)) == 0 &&
            unlinkat(dirfd(dir), entry->d_name, AT_REMOVEDIR) && errno == EBUSY)
            all = false;
    closedir(dir);
    return all;
}

enum being { GONE, LAUNCHER, SOMEBODY };

/* Who has this pid now. A zombie is gone: nothing tells when its parent will look. */
static enum being who_is(pid_t pid)
{
    char path[32], text[256];

    if (kill(pid, 0) && errno == ESRCH)
        return GONE;
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    if (coto_file_read_at(AT_FDCWD, path, text, sizeof text) < 0)
        return SOMEBODY;
    const char *name = strchr(text, '('), *state = strrchr(text, ')');
    if (!name || !state || strlen(state) < 3 || strncmp(name, "(coto-launch)", 13) != 0)
        return SOMEBODY;
    return state[2] == 'Z' || state[2] == 'X' ? GONE : LAUNCHER;
}

/* A launcher that had others beside it in a delegated group made its own above that one (kernel/cgroup.c); whoever is
 * alone there, as the keeper of a next life is, would make them in it. */
static bool sweep_above(const char *dir, const char *prefix)
{
    char above[256];
    int len = snprintf(above, sizeof above, "%s", dir);
    char *slash = len > 0 && (size_t)len < sizeof above ? strrchr(above, '/') : NULL;

    if (!slash || slash == above)
        return true;
    *slash = '\0';
    return sweep_dir(above, prefix);
}

bool coto_sweep(pid_t launcher)
{
    struct coto_cgroup_host host = {0};
    char prefix[32];
    bool all = true;

    if (launcher <= 1)
        return true;
    enum being being = who_is(launcher);
    if (being != GONE)
        return being != LAUNCHER;
    snprintf(prefix, sizeof prefix, "coto-%d-", (int)launcher);
    coto_cgroup_find(&host);
    for (int i = 0; host.version && i < COTO_CG_COUNT; i++)
        if (host.parent[i][0] && (host.version == 1 || i == COTO_CG_MEMORY))
            all &= sweep_dir(host.parent[i], prefix);
    if (host.must_leave)
        all &= sweep_above(host.parent[COTO_CG_MEMORY], prefix);
    return all;
}
