#include "kernel/locks.h"

#include "base/clock.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/kcmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define LOCKS_MAX 20000
#define GROWN_KB 8192
#define LOOK_US 150000

static FILE *open_lines(int dir, const char *name)
{
    int fd = openat(dir, name, O_RDONLY | O_CLOEXEC);
    FILE *file = fd >= 0 ? fdopen(fd, "r") : NULL;

    if (!file && fd >= 0)
        close(fd);
    return file;
}

/* The number after a word that begins a line; -1: there is none. */
static int64_t number_after(const char *path, const char *word)
{
    FILE *file = open_lines(AT_FDCWD, path);
    char line[256];
    int64_t number = -1;

    while (file && number < 0 && fgets(line, sizeof line, file))
        if (strncmp(line, word, strlen(word)) == 0)
            number = strtoll(line + strlen(word), NULL, 10);
    if (file)
        fclose(file);
    return number;
}

/* Locks that one descriptor shows. POSIX locks are gone with it; those of an open file, which could
 * travel in a socket where nobody sees them, the filter refuses. */
static int64_t count_of_fd(int dir, const char *name)
{
    FILE *file = open_lines(dir, name);
    char line[256];
    int64_t count = 0;

    while (file && fgets(line, sizeof line, file))
        count += strncmp(line, "lock:", 5) == 0;
    if (file)
        fclose(file);
    return count;
}

static int64_t count_of_task(pid_t task)
{
    char path[40];
    int64_t count = 0;

    snprintf(path, sizeof path, "/proc/%d/fdinfo", (int)task);
    DIR *dir = opendir(path);
    const struct dirent *entry;
    while (dir && count <= LOCKS_MAX && (entry = readdir(dir)))
        if (entry->d_name[0] != '.')
            count += count_of_fd(dirfd(dir), entry->d_name);
    if (dir)
        closedir(dir);
    return count;
}

/* A thread can have descriptors of its own, and outlive the first one of its process. */
static bool is_over(int group_fd, const char *tasks)
{
    FILE *file = open_lines(group_fd, tasks);
    char line[32];
    int64_t count = 0;
    pid_t last = 0;

    while (file && count <= LOCKS_MAX && fgets(line, sizeof line, file)) {
        pid_t task = (pid_t)strtol(line, NULL, 10);
        if (!last || syscall(SYS_kcmp, last, task, KCMP_FILES, 0, 0))
            count += count_of_task(task);
        last = task;
    }
    if (file)
        fclose(file);
    return count > LOCKS_MAX;
}

bool coto_locks_are_many(struct coto_lockwatch *watch, int group_fd, const char *tasks)
{
    int64_t now_us = coto_clock_us();

    if (now_us < watch->next_us)
        return false;
    bool first = !watch->next_us;
    watch->next_us = now_us + LOOK_US;
    if (first) /* most are gone before the second time */
        return false;
    int64_t kb = number_after("/proc/meminfo", "SUnreclaim:");
    if (!watch->low_kb || kb < watch->low_kb)
        watch->low_kb = kb;
    if (kb - watch->low_kb < GROWN_KB)
        return false;
    watch->low_kb = kb;
    int64_t of_host = number_after("/proc/slabinfo", "file_lock_cache "); /* root's to read */
    return (of_host < 0 || of_host > LOCKS_MAX) && is_over(group_fd, tasks);
}
