#include "daemon/sweep.h"

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
            unlinkat(dirfd(dir), entry->d_name, AT_REMOVEDIR) && errno != ENOENT)
            all = false;
    closedir(dir);
    return all;
}

bool coto_sweep(pid_t launcher)
{
    struct coto_cgroup_host host = {0};
    char prefix[32];
    bool all = true;

    if (launcher <= 1 || kill(launcher, 0) == 0 || errno != ESRCH)
        return true;
    snprintf(prefix, sizeof prefix, "coto-%d-", (int)launcher);
    coto_cgroup_find(&host);
    for (int i = 0; host.version && i < COTO_CG_COUNT; i++)
        if (host.parent[i][0] && (host.version == 1 || i == COTO_CG_MEMORY))
            all &= sweep_dir(host.parent[i], prefix);
    return all;
}
