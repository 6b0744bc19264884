/* Groups that supervisors and guards killed together have left. */
#include "kernel/cgroup.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* A group of a supervisor that is gone, and not one that is just being made by
 * somebody whose pids we cannot see. */
static bool is_stale(int dirfd, const char *name)
{
    struct stat st;
    int pid = 0;

    if (sscanf(name, "coto-%d-", &pid) != 1 || pid <= 1 || kill(pid, 0) == 0 || errno != ESRCH)
        return false;
    return fstatat(dirfd, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && time(NULL) - st.st_ctime > 10;
}

static void sweep_dir(const char *path)
{
    DIR *dir = opendir(path);
    struct dirent *entry;

    if (!dir)
        return;
    while ((entry = readdir(dir)))
        if (strncmp(entry->d_name, "coto-", 5) == 0 && is_stale(dirfd(dir), entry->d_name))
            unlinkat(dirfd(dir), entry->d_name, AT_REMOVEDIR);
    closedir(dir);
}

void coto_cgroup_sweep(const struct coto_cgroup_host *host)
{
    for (int i = 0; i < COTO_CG_COUNT; i++)
        if (host->parent[i][0] && (host->version == 1 || i == COTO_CG_MEMORY))
            sweep_dir(host->parent[i]);
}
