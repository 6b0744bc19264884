#include "kernel/cgroup_of.h"

#include "base/fd.h"
#include "base/units.h"
#include "kernel/cgroup_text.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const names_v1[COTO_CG_COUNT] = {
    [COTO_CG_MEMORY] = "memory",   [COTO_CG_PIDS] = "pids", [COTO_CG_CPU] = "cpu",
    [COTO_CG_CPUACCT] = "cpuacct", [COTO_CG_IO] = "blkio",
};

static int open_dir(const char *hierarchy, const char *path)
{
    char full[1024];
    int n =
        snprintf(full, sizeof full, "/sys/fs/cgroup%s%s%s", *hierarchy ? "/" : "", hierarchy, path);

    return n > 0 && (size_t)n < sizeof full ? open(full, O_PATH | O_DIRECTORY | O_CLOEXEC) : -1;
}

/* One line of /proc/PID/cgroup. */
static void take_line(struct coto_cgroup *group, const char *names, const char *path)
{
    if (!*names) { /* v2; on a hybrid host it holds no controllers */
        int fd = group->version ? -1 : open_dir("", path);
        char have[256];
        if (fd >= 0 && coto_file_read_at(fd, "cgroup.controllers", have, sizeof have) > 0) {
            group->version = 2;
            group->dir_fd[COTO_CG_MEMORY] = fd;
        } else {
            coto_own_close(&fd);
        }
        return;
    }
    for (int i = 0; i < COTO_CG_COUNT; i++) {
        if (!coto_cgroup_text_has(names, names_v1[i]) || group->dir_fd[i] >= 0)
            continue;
        group->dir_fd[i] = open_dir(names, path);
        if (group->dir_fd[i] >= 0)
            group->version = 1;
    }
}

int coto_cgroup_open_of(pid_t pid, const char *mark, struct coto_cgroup *ret_group)
{
    struct coto_cgroup group = {0};
    char file[48], text[8192];
    char *cursor = text, *names, *path;

    for (int i = 0; i < COTO_CG_COUNT; i++)
        group.dir_fd[i] = group.parent_fd[i] = -1;
    snprintf(file, sizeof file, "/proc/%d/cgroup", (int)pid);
    if (coto_file_read_at(AT_FDCWD, file, text, sizeof text) <= 0)
        return -1;
    while (coto_cgroup_text_line(&cursor, &names, &path))
        if (strstr(path, mark))
            take_line(&group, names, path);
    if (!group.version)
        return -1;
    *ret_group = group;
    return 0;
}

/* ---- limits ---- */

static int64_t number(int dirfd, const char *file)
{
    char text[64];

    return dirfd >= 0 && coto_file_read_at(dirfd, file, text, sizeof text) > 0
               ? coto_cgroup_text_num(text)
               : -1;
}

static int64_t quota_v2(int dirfd)
{
    char text[64];
    char *end;

    if (coto_file_read_at(dirfd, "cpu.max", text, sizeof text) <= 0)
        return -1;
    long long quota = strtoll(text, &end, 10);
    long long period = strtoll(end, NULL, 10);
    return quota > 0 && period > 0 ? quota * 1000 / period : -1; /* "max": none */
}

static void limits_v1(const struct coto_cgroup *group, struct coto_cgroup_applied *l)
{
    int mem = group->dir_fd[COTO_CG_MEMORY];
    int64_t both = number(mem, "memory.memsw.limit_in_bytes");
    int64_t quota = number(group->dir_fd[COTO_CG_CPU], "cpu.cfs_quota_us");
    int64_t period = number(group->dir_fd[COTO_CG_CPU], "cpu.cfs_period_us");

    l->memory_bytes = number(mem, "memory.limit_in_bytes");
    l->swap_bytes = both < 0 || l->memory_bytes < 0 ? -1 : both - l->memory_bytes;
    l->pids = number(group->dir_fd[COTO_CG_PIDS], "pids.max");
    l->cpus_milli = quota > 0 && period > 0 ? quota * 1000 / period : -1;
    snprintf(l->memory_file, sizeof l->memory_file, "memory.limit_in_bytes");
    snprintf(l->swap_file, sizeof l->swap_file, "memory.memsw.limit_in_bytes");
    snprintf(l->cpu_file, sizeof l->cpu_file, "cpu.cfs_quota_us");
}

void coto_cgroup_limits_of(const struct coto_cgroup *group, struct coto_cgroup_applied *ret_limits)
{
    int fd = group->dir_fd[COTO_CG_MEMORY];

    *ret_limits = (struct coto_cgroup_applied){-1, -1, -1, -1, -1, "", "", "", "", "", ""};
    snprintf(ret_limits->pids_file, sizeof ret_limits->pids_file, "pids.max");
    if (group->version == 1) {
        limits_v1(group, ret_limits);
        return;
    }
    ret_limits->memory_bytes = number(fd, "memory.max");
    ret_limits->swap_bytes = number(fd, "memory.swap.max");
    ret_limits->pids = number(fd, "pids.max");
    ret_limits->cpus_milli = quota_v2(fd);
    snprintf(ret_limits->memory_file, sizeof ret_limits->memory_file, "memory.max");
    snprintf(ret_limits->swap_file, sizeof ret_limits->swap_file, "memory.swap.max");
    snprintf(ret_limits->cpu_file, sizeof ret_limits->cpu_file, "cpu.max");
}
