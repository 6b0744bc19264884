#include "kernel/cgroup.h"
#include "kernel/cgroup_text.h"

#include "base/fd.h"
#include "base/units.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#define CPU_PERIOD_US 100000
#define SOCKETS_MIN (4 << 20)
#define FORGET_MIN (16 << 20)

static const char *const ctl_name[COTO_CG_COUNT] = {
    [COTO_CG_MEMORY] = "memory", [COTO_CG_PIDS] = "pids", [COTO_CG_CPU] = "cpu",
    [COTO_CG_CPUACCT] = "cpuacct", [COTO_CG_IO] = "io",
};

/* ---- where ---- */

bool coto_cgroup_text_has(const char *list, const char *word)
{
    size_t n = strlen(word);

    for (const char *p = list; (p = strstr(p, word)); p += n)
        if ((p == list || p[-1] == ',' || p[-1] == ' ') && (!p[n] || p[n] == ',' || p[n] == ' '))
            return true;
    return false;
}

bool coto_cgroup_text_line(char **cursor, char **ret_names, char **ret_path)
{
    while (*cursor && **cursor) {
        char *line = *cursor;
        char *end = strchr(line, '\n');
        if (end)
            *end++ = '\0';
        *cursor = end;
        char *names = strchr(line, ':');
        char *path = names ? strchr(names + 1, ':') : NULL;
        if (!path)
            continue;
        *path++ = '\0';
        *ret_names = names + 1;
        *ret_path = path;
        return true;
    }
    return false;
}

/* Finds the caller's own v1 group of a line "4:memory:/path". Controllers that
 * share a hierarchy ("cpu,cpuacct") are mounted under that joint name. */
static void find_v1(struct coto_cgroup_host *host, const char *names, const char *path)
{
    for (int i = 0; i < COTO_CG_COUNT; i++) {
        const char *name = i == COTO_CG_IO ? "blkio" : ctl_name[i];
        if (!coto_cgroup_text_has(names, name))
            continue;
        char *to = host->parent[i];
        snprintf(to, sizeof host->parent[i], "/sys/fs/cgroup/%s%s", names, path);
        host->has[i] = access(to, W_OK) == 0;
        if (host->has[i] || errno != ENOENT)
            continue;
        /* Inside a container: our group is the mount's root. */
        snprintf(to, sizeof host->parent[i], "/sys/fs/cgroup/%s", names);
        host->has[i] = access(to, W_OK) == 0;
        if (!host->has[i] && errno == ENOENT)
            to[0] = '\0';
    }
}

/* Whether groups with limits can be made in dir, once its controllers are enabled. */
static bool v2_ready(const char *dir)
{
    char have[256] = "";
    coto_auto_fd fd = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);

    return fd >= 0 && access(dir, W_OK) == 0 &&
           coto_file_read_at(fd, "cgroup.controllers", have, sizeof have) > 0 &&
           coto_cgroup_text_has(have, "memory") && coto_cgroup_text_has(have, "pids") &&
           coto_cgroup_text_has(have, "cpu");
}

/* Enables what is there and not yet enabled; on a host with systemd that is nothing.
 * One by one, because one that cannot be enabled must not keep the others off. */
static int v2_enable(int dirfd)
{
    char have[256] = "";
    char on[256] = "";
    int failed = 0;

    coto_file_read_at(dirfd, "cgroup.controllers", have, sizeof have);
    coto_file_read_at(dirfd, "cgroup.subtree_control", on, sizeof on);
    for (int i = 0; i < COTO_CG_COUNT; i++) {
        char text[16];
        if (!coto_cgroup_text_has(have, ctl_name[i]) || coto_cgroup_text_has(on, ctl_name[i]))
            continue;
        snprintf(text, sizeof text, "+%s", ctl_name[i]);
        if (coto_file_write_at(dirfd, "cgroup.subtree_control", text) &&
            (i == COTO_CG_MEMORY || i == COTO_CG_PIDS))
            failed = -1;
    }
    return failed;
}

static void use_v2(struct coto_cgroup_host *host, const char *dir)
{
    char have[256] = "";
    coto_auto_fd fd = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);

    host->version = 2;
    coto_file_read_at(fd, "cgroup.controllers", have, sizeof have);
    for (int i = 0; i < COTO_CG_COUNT; i++) {
        snprintf(host->parent[i], sizeof host->parent[i], "%s", dir);
        host->has[i] = i == COTO_CG_CPUACCT || coto_cgroup_text_has(have, ctl_name[i]);
    }
}

/* Whether the group holds no process but ourselves: controllers can be enabled only in
 * a group that has none, once we have stepped into a leaf. */
static bool is_alone_in(int dirfd)
{
    char text[64];

    return coto_file_read_at(dirfd, "cgroup.procs", text, sizeof text) > 0 &&
           strtol(text, NULL, 10) == (long)getpid() && !strchr(text, '\n');
}

/* The group above the caller's own, when it was delegated with its controllers on: then a
 * sandbox can be a sibling of the caller, whatever else runs beside it. */
static bool use_v2_above(struct coto_cgroup_host *host, const char *own)
{
    char above[256];
    char on[256] = "";

    snprintf(above, sizeof above, "%.*s", (int)(strrchr(own, '/') - own), own);
    coto_auto_fd fd = open(above, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0 || !v2_ready(above) || faccessat(fd, "cgroup.procs", W_OK, 0))
        return false;
    coto_file_read_at(fd, "cgroup.subtree_control", on, sizeof on);
    if (!coto_cgroup_text_has(on, "memory") || !coto_cgroup_text_has(on, "pids"))
        return false;
    use_v2(host, above);
    return true;
}

static void find_v2(struct coto_cgroup_host *host, const char *path)
{
    char own[256];
    char have[256] = "";

    snprintf(own, sizeof own, "/sys/fs/cgroup%s", strcmp(path, "/") ? path : "");
    if (geteuid() == 0 && v2_ready("/sys/fs/cgroup")) {
        use_v2(host, "/sys/fs/cgroup");
        return;
    }
    coto_auto_fd fd = open(own, O_PATH | O_DIRECTORY | O_CLOEXEC);
    /* Below the caller's own group if possible: then its limits hold for the sandbox too. */
    if (fd >= 0 && !is_alone_in(fd) && use_v2_above(host, own))
        return;
    if (fd < 0 || faccessat(fd, "cgroup.subtree_control", W_OK, 0) || access(own, W_OK)) {
        snprintf(host->why, sizeof host->why,
                 "the caller's cgroup is not delegated to it; run under "
                 "`systemd-run --user --scope -p Delegate=yes`");
        return;
    }
    coto_file_read_at(fd, "cgroup.controllers", have, sizeof have);
    if (!coto_cgroup_text_has(have, "memory") || !coto_cgroup_text_has(have, "pids")) {
        snprintf(host->why, sizeof host->why, "memory and pids are not delegated to the caller");
        return;
    }
    host->must_leave = true;
    use_v2(host, own);
}

static bool v2_is_at_top(void)
{
    return access("/sys/fs/cgroup/cgroup.controllers", F_OK) == 0;
}

void coto_cgroup_find(struct coto_cgroup_host *ret_host)
{
    char text[4096];
    bool v1 = false;
    char v2_path[256] = "";

    *ret_host = (struct coto_cgroup_host){0};
    if (coto_file_read_at(AT_FDCWD, "/proc/self/cgroup", text, sizeof text) <= 0) {
        snprintf(ret_host->why, sizeof ret_host->why, "this kernel has no cgroups");
        return;
    }
    for (char *cursor = text, *names, *path; coto_cgroup_text_line(&cursor, &names, &path);) {
        if (!*names)
            snprintf(v2_path, sizeof v2_path, "%s", path);
        else
            find_v1(ret_host, names, strcmp(path, "/") ? path : "");
    }
    for (int i = 0; i < COTO_CG_COUNT; i++)
        v1 = v1 || ret_host->parent[i][0];
    if (!v1 && v2_is_at_top()) {
        find_v2(ret_host, v2_path);
        return;
    }
    if (ret_host->has[COTO_CG_MEMORY] || ret_host->has[COTO_CG_PIDS])
        ret_host->version = 1;
    else
        snprintf(ret_host->why, sizeof ret_host->why, "%s",
                 v1 ? "the caller may not write to its cgroup; run as root" : "no cgroup is mounted");
}

/* ---- values ---- */

int64_t coto_cgroup_text_num(const char *text)
{
    char *end;

    if (strcmp(text, "max") == 0)
        return COTO_UNIT_NONE;
    int64_t v = strtoll(text, &end, 10);
    return end == text ? -1 : v;
}

/* A value: the kernel gives all of such a file to the first read. */
static bool read_value(int dirfd, const char *file, char *text, size_t size)
{
    coto_auto_fd fd = dirfd < 0 ? -1 : openat(dirfd, file, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, text, size - 1);

    while (n > 0 && text[n - 1] == '\n')
        n--;
    text[n > 0 ? n : 0] = '\0';
    return n > 0;
}

static int64_t read_num(int dirfd, const char *file)
{
    char text[64];

    if (!read_value(dirfd, file, text, sizeof text))
        return -1;
    return coto_cgroup_text_num(text);
}

int64_t coto_cgroup_text_key(const char *text, const char *key)
{
    size_t n = strlen(key);

    for (const char *p = text; p; p = strchr(p, '\n')) {
        p += *p == '\n';
        if (strncmp(p, key, n) == 0 && p[n] == ' ')
            return strtoll(p + n + 1, NULL, 10);
        if (!*p)
            break;
    }
    return -1;
}

static int64_t read_key(int dirfd, const char *file, const char *key)
{
    char text[2048];

    if (!read_value(dirfd, file, text, sizeof text))
        return -1;
    return coto_cgroup_text_key(text, key);
}

static void note(struct coto_cgroup_applied *applied, const char *file, const char *ctl)
{
    if (!applied->why[0])
        snprintf(applied->why, sizeof applied->why, "%s: %s", file,
                 errno == ENOENT ? ctl : strerror(errno));
}

/* Not a host that has no such limit, or does not let us. */
static bool may_pass(int error)
{
    return error == EINTR || error == EAGAIN || error == ENOMEM || error == ENOSPC || error == EIO;
}

/* Writes a limit and takes what the kernel answers as the truth. */
static int64_t set_limit(struct coto_cgroup_applied *applied, int dirfd, const char *file,
                         int64_t value)
{
    char text[32];
    char back[64];
    size_t len = (size_t)snprintf(text, sizeof text, "%" PRId64, value);
    coto_auto_fd fd = dirfd < 0 ? -1 : openat(dirfd, file, O_RDWR | O_CLOEXEC);

    ssize_t written = fd < 0 ? -1 : write(fd, text, len);

    for (int tries = 0; fd >= 0 && written < 0 && may_pass(errno) && tries < 3; tries++)
        written = write(fd, text, len);
    if (written != (ssize_t)len) {
        note(applied, file, "no such limit on this kernel");
        return -1;
    }
    ssize_t n = pread(fd, back, sizeof back - 1, 0);
    back[n > 0 ? n - (back[n - 1] == '\n') : 0] = '\0';
    return coto_cgroup_text_num(back);
}

/* ---- limits ---- */

static void disk_of(dev_t dev, unsigned *ret_major, unsigned *ret_minor)
{
    char path[64];
    char text[32];

    *ret_major = major(dev);
    *ret_minor = minor(dev);
    /* Throttling is per disk, not per partition. */
    snprintf(path, sizeof path, "/sys/dev/block/%u:%u/partition", *ret_major, *ret_minor);
    if (access(path, F_OK))
        return;
    snprintf(path, sizeof path, "/sys/dev/block/%u:%u/../dev", *ret_major, *ret_minor);
    if (coto_file_read_at(AT_FDCWD, path, text, sizeof text) > 0)
        sscanf(text, "%u:%u", ret_major, ret_minor);
}

static void set_iops(const struct coto_cgroup *group, const struct coto_cgroup_limits *limits,
                     struct coto_cgroup_applied *applied)
{
    char text[96];
    char back[256] = "";
    unsigned maj;
    unsigned min;
    int fd = group->version == 2 ? group->dir_fd[COTO_CG_MEMORY] : group->dir_fd[COTO_CG_IO];
    const char *file = group->version == 2 ? "io.max" : "blkio.throttle.read_iops_device";

    if (limits->iops == COTO_UNIT_NONE || fd < 0)
        return;
    disk_of(limits->disk, &maj, &min);
    if (group->version == 2) {
        snprintf(text, sizeof text, "%u:%u riops=%" PRId64 " wiops=%" PRId64, maj, min, limits->iops,
                 limits->iops);
        if (coto_file_write_at(fd, file, text)) {
            note(applied, file, "no io controller");
            return;
        }
    } else {
        snprintf(text, sizeof text, "%u:%u %" PRId64, maj, min, limits->iops);
        if (coto_file_write_at(fd, file, text) ||
            coto_file_write_at(fd, "blkio.throttle.write_iops_device", text)) {
            note(applied, file, "no blkio throttling");
            return;
        }
    }
    snprintf(text, sizeof text, "%" PRId64, limits->iops);
    if (coto_file_read_at(fd, file, back, sizeof back) > 0 && strstr(back, text)) {
        applied->iops = limits->iops;
        snprintf(applied->io_file, sizeof applied->io_file, "%s", file);
    }
}

static void set_limits_v1(const struct coto_cgroup *group, const struct coto_cgroup_limits *limits,
                          struct coto_cgroup_applied *applied)
{
    int mem = group->dir_fd[COTO_CG_MEMORY];
    int cpu = group->dir_fd[COTO_CG_CPU];

    if (limits->memory_bytes != COTO_UNIT_NONE) {
        /* v1 counts the buffers of sockets apart from the rest, and without a limit not
         * at all: a memory limit without one for them is none. */
        int64_t sockets = set_limit(applied, mem, "memory.kmem.tcp.limit_in_bytes",
                                    limits->memory_bytes / 8);
        applied->memory_bytes =
            sockets < 0 ? -1
                        : set_limit(applied, mem, "memory.limit_in_bytes", limits->memory_bytes);
        snprintf(applied->memory_file, sizeof applied->memory_file, "memory.limit_in_bytes");
        if (limits->swap_bytes != COTO_UNIT_NONE && applied->memory_bytes >= 0) {
            int64_t both = set_limit(applied, mem, "memory.memsw.limit_in_bytes",
                                     applied->memory_bytes + limits->swap_bytes);
            applied->swap_bytes = both < 0 ? -1 : both - applied->memory_bytes;
            snprintf(applied->swap_file, sizeof applied->swap_file, "memory.memsw.limit_in_bytes");
        }
    }
    if (limits->pids != COTO_UNIT_NONE) {
        applied->pids = set_limit(applied, group->dir_fd[COTO_CG_PIDS], "pids.max", limits->pids);
        snprintf(applied->pids_file, sizeof applied->pids_file, "pids.max");
    }
    if (limits->cpus_milli != COTO_UNIT_NONE) {
        int64_t quota = set_limit(applied, cpu, "cpu.cfs_quota_us",
                                  limits->cpus_milli * CPU_PERIOD_US / 1000);
        int64_t period = quota < 0 ? -1 : read_num(cpu, "cpu.cfs_period_us");
        applied->cpus_milli = quota < 0 || period <= 0 ? -1 : quota * 1000 / period;
        snprintf(applied->cpu_file, sizeof applied->cpu_file, "cpu.cfs_quota_us");
    }
}

static void set_limits_v2(const struct coto_cgroup *group, const struct coto_cgroup_limits *limits,
                          struct coto_cgroup_applied *applied)
{
    int fd = group->dir_fd[COTO_CG_MEMORY];

    if (limits->memory_bytes != COTO_UNIT_NONE) {
        applied->memory_bytes = set_limit(applied, fd, "memory.max", limits->memory_bytes);
        snprintf(applied->memory_file, sizeof applied->memory_file, "memory.max");
        if (limits->swap_bytes != COTO_UNIT_NONE) {
            applied->swap_bytes = set_limit(applied, fd, "memory.swap.max", limits->swap_bytes);
            snprintf(applied->swap_file, sizeof applied->swap_file, "memory.swap.max");
        }
    }
    if (limits->pids != COTO_UNIT_NONE) {
        applied->pids = set_limit(applied, fd, "pids.max", limits->pids);
        snprintf(applied->pids_file, sizeof applied->pids_file, "pids.max");
    }
    if (limits->cpus_milli != COTO_UNIT_NONE) {
        char text[64];
        long long quota = 0;
        long long period = 0;
        snprintf(text, sizeof text, "%" PRId64 " %d", limits->cpus_milli * CPU_PERIOD_US / 1000,
                 CPU_PERIOD_US);
        if (coto_file_write_at(fd, "cpu.max", text))
            note(applied, "cpu.max", "the cpu controller is not delegated");
        else if (coto_file_read_at(fd, "cpu.max", text, sizeof text) > 0 &&
                 sscanf(text, "%lld %lld", &quota, &period) == 2 && period > 0)
            applied->cpus_milli = quota * 1000 / period;
        snprintf(applied->cpu_file, sizeof applied->cpu_file, "cpu.max");
    }
}

/* ---- making ---- */

void coto_cgroup_keep_parents(struct coto_cgroup_host *host)
{
    for (int i = 0; i < COTO_CG_COUNT && host->version == 1; i++)
        host->parent_fd[i] =
            host->has[i] ? openat(AT_FDCWD, host->parent[i], O_PATH | O_DIRECTORY | O_CLOEXEC) : -1;
}


static int make_dir(struct coto_cgroup *group, int ctl, const char *parent, struct coto_err *err)
{
    if (group->parent_fd[ctl] < 0)
        group->parent_fd[ctl] = open(parent, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (group->parent_fd[ctl] < 0 || mkdirat(group->parent_fd[ctl], group->name, 0755))
        return coto_err_set(err, COTO_ERR_SYSTEM, errno, "make cgroup %s/%s", parent, group->name);
    group->dir_fd[ctl] = openat(group->parent_fd[ctl], group->name,
                                O_PATH | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    if (group->dir_fd[ctl] >= 0)
        return 0;
    coto_err_set(err, COTO_ERR_SYSTEM, errno, "open cgroup %s/%s", parent, group->name);
    unlinkat(group->parent_fd[ctl], group->name, AT_REMOVEDIR); /* nobody else knows of it yet */
    return -1;
}

/* v2 knows no processes beside children with controllers: when the group we may
 * use is our own, we step into a leaf first. */
static int leave_parent(struct coto_cgroup *group, const struct coto_cgroup_host *host,
                        struct coto_err *err)
{
    const char *parent = host->parent[0];
    const pid_t movers[] = {getpid(), host->with_me};
    char procs[96];

    snprintf(group->leaf, sizeof group->leaf, "coto-main-%d", (int)getpid());
    coto_auto_fd fd = open(parent, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0 || mkdirat(fd, group->leaf, 0755))
        return coto_err_set(err, COTO_ERR_SYSTEM, errno, "make cgroup %s/%s", parent, group->leaf);
    snprintf(procs, sizeof procs, "%s/cgroup.procs", group->leaf);
    group->moved_self = true;
    for (int i = 0; i < 2; i++) {
        char text[16];
        snprintf(text, sizeof text, "%d", (int)movers[i]);
        if (movers[i] > 0 && coto_file_write_at(fd, procs, text))
            return coto_err_set(err, COTO_ERR_SYSTEM, errno, "move into cgroup %s", group->leaf);
    }
    return 0;
}

/* Undoes leave_parent for the calling process; the leaf goes when it is empty. */
static void return_to_parent(int fd, const char *leaf)
{
    static const char *const off[] = {"-memory", "-pids", "-cpu", "-io"};
    char text[16];

    for (size_t i = 0; i < sizeof off / sizeof off[0]; i++)
        coto_file_write_at(fd, "cgroup.subtree_control", off[i]);
    snprintf(text, sizeof text, "%d", (int)getpid());
    coto_file_write_at(fd, "cgroup.procs", text);
    for (int tries = 0; tries < 100 && unlinkat(fd, leaf, AT_REMOVEDIR) && errno == EBUSY; tries++)
        usleep(1000); /* the guard is on its way out */
}

static bool wants(const struct coto_cgroup_limits *limits, int ctl)
{
    switch (ctl) {
    case COTO_CG_CPU:
        return limits->cpus_milli != COTO_UNIT_NONE;
    case COTO_CG_IO:
        return limits->iops != COTO_UNIT_NONE;
    case COTO_CG_CPUACCT:
        return limits->account_cpu;
    default:
        return true; /* memory and pids also measure */
    }
}

/* Whether a v1 directory is made for a controller; those that share a hierarchy
 * share the directory. */
static bool makes(const struct coto_cgroup_host *host, const struct coto_cgroup_limits *limits,
                  int ctl)
{
    bool shared = ctl == COTO_CG_CPUACCT && host->has[COTO_CG_CPU] && wants(limits, COTO_CG_CPU) &&
                  strcmp(host->parent[COTO_CG_CPU], host->parent[ctl]) == 0;

    return host->has[ctl] && wants(limits, ctl) && !shared;
}

static int make_all(const struct coto_cgroup_host *host, const struct coto_cgroup_limits *limits,
                    struct coto_cgroup *group, struct coto_err *err)
{
    if (host->version == 2) {
        group->parent_fd[COTO_CG_MEMORY] = open(host->parent[0], O_PATH | O_DIRECTORY | O_CLOEXEC);
        if (host->must_leave && leave_parent(group, host, err))
            return -1;
        if (v2_enable(group->parent_fd[COTO_CG_MEMORY]))
            return coto_err_set(err, COTO_ERR_SYSTEM, errno,
                                "enable controllers in %s (other processes in it?)", host->parent[0]);
        return make_dir(group, COTO_CG_MEMORY, host->parent[0], err);
    }
    group->parents_lent = host->parent_fd[COTO_CG_MEMORY] > 0;
    for (int i = 0; i < COTO_CG_COUNT; i++) {
        if (group->parents_lent)
            group->parent_fd[i] = host->parent_fd[i];
        if (makes(host, limits, i) && make_dir(group, i, host->parent[i], err))
            return -1;
    }
    return 0;
}

int coto_cgroup_make(const struct coto_cgroup_host *host, const char *name,
                     const struct coto_cgroup_limits *limits, struct coto_cgroup *ret_group,
                     struct coto_cgroup_applied *ret_applied, struct coto_err *err)
{
    *ret_group = (struct coto_cgroup){.version = host->version};
    *ret_applied = (struct coto_cgroup_applied){-1, -1, -1, -1, -1, "", "", "", "", "", ""};
    for (int i = 0; i < COTO_CG_COUNT; i++)
        ret_group->dir_fd[i] = ret_group->parent_fd[i] = -1;
    snprintf(ret_group->name, sizeof ret_group->name, "%s", name);
    if (make_all(host, limits, ret_group, err)) {
        coto_cgroup_remove(ret_group);
        return -1;
    }
    coto_cgroup_limit(ret_group, limits, ret_applied);
    return 0;
}

void coto_cgroup_limit(const struct coto_cgroup *group, const struct coto_cgroup_limits *limits,
                       struct coto_cgroup_applied *ret_applied)
{
    *ret_applied = (struct coto_cgroup_applied){-1, -1, -1, -1, -1, "", "", "", "", "", ""};
    if (group->version == 2)
        set_limits_v2(group, limits, ret_applied);
    else
        set_limits_v1(group, limits, ret_applied);
    set_iops(group, limits, ret_applied);
}

void coto_cgroup_read_limits(const struct coto_cgroup *group, struct coto_cgroup_applied *applied)
{
    int mem = group->dir_fd[COTO_CG_MEMORY];

    if (applied->memory_bytes >= 0)
        applied->memory_bytes = read_num(mem, "memory.limit_in_bytes");
    if (applied->swap_bytes >= 0)
        applied->swap_bytes = read_num(mem, "memory.memsw.limit_in_bytes") - applied->memory_bytes;
    if (applied->pids >= 0)
        applied->pids = read_num(group->dir_fd[COTO_CG_PIDS], "pids.max");
}

int coto_cgroup_reset(const struct coto_cgroup *group, int64_t charged_max)
{
    int mem = group->dir_fd[COTO_CG_MEMORY];
    int64_t charged = read_num(mem, "memory.usage_in_bytes");

    if (group->version != 1 || charged < 0 || charged > charged_max ||
        read_num(group->dir_fd[COTO_CG_PIDS], "pids.current") != 0)
        return -1;
    return coto_file_write_at(mem, "memory.max_usage_in_bytes", "0");
}

int coto_cgroup_open_join(const struct coto_cgroup *group, int ret_fds[COTO_CG_COUNT])
{
    int count = 0;

    if (group->version != 1)
        return 0;
    for (int i = 0; i < COTO_CG_COUNT; i++) {
        if (group->dir_fd[i] < 0 && !group->is_resting[i])
            continue;
        ret_fds[count] = openat(group->dir_fd[i], "tasks", O_WRONLY | O_CLOEXEC);
        if (ret_fds[count] < 0) {
            int saved = errno;
            while (count > 0)
                close(ret_fds[--count]);
            errno = saved;
            return -1;
        }
        count++;
    }
    return count;
}

int coto_cgroup_clone_fd(const struct coto_cgroup *group)
{
    return group->version == 2 ? group->dir_fd[COTO_CG_MEMORY] : -1;
}

/* ---- watching and ending ---- */

static int acct_fd(const struct coto_cgroup *group)
{
    return group->dir_fd[COTO_CG_CPUACCT] >= 0 ? group->dir_fd[COTO_CG_CPUACCT]
                                               : group->dir_fd[COTO_CG_CPU];
}

/* The two parts count ticks (since Linux 5.7): who sleeps across each tick uses none, and where
 * the host is busy a tick counts time that was stolen. Only the sum is exact; they divide it. */
static void add_v1_cpu(int fd, struct coto_cgroup_stat *stat)
{
    int64_t total = read_num(fd, "cpuacct.usage");
    int64_t user = read_num(fd, "cpuacct.usage_user");
    int64_t system = read_num(fd, "cpuacct.usage_sys");

    if (total < 0 || user < 0 || system < 0)
        return;
    double share = user + system > 0 ? (double)system / (double)(user + system) : 0;
    stat->cpu_system_us = (int64_t)((double)total * share) / 1000;
    stat->cpu_user_us = total / 1000 - stat->cpu_system_us;
}

/* The kernel charges a buffer of TCP past the limit rather than to refuse it. */
static bool v1_sockets_over(int mem)
{
    int64_t held = read_num(mem, "memory.kmem.tcp.usage_in_bytes");

    return held > SOCKETS_MIN && held / 2 > read_num(mem, "memory.kmem.tcp.limit_in_bytes");
}

void coto_cgroup_stat(const struct coto_cgroup *group, struct coto_cgroup_stat *ret_stat)
{
    int mem = group->dir_fd[COTO_CG_MEMORY];
    int pids = group->version == 2 ? mem : group->dir_fd[COTO_CG_PIDS];

    *ret_stat = (struct coto_cgroup_stat){-1, -1, -1, -1, -1, -1, false};
    ret_stat->pids_peak = read_num(pids, "pids.peak");
    ret_stat->pids_refused = read_key(pids, "pids.events", "max");
    if (group->version == 2) {
        ret_stat->memory_peak_bytes = read_num(mem, "memory.peak");
        ret_stat->oom_kills = read_key(mem, "memory.events", "oom_kill");
        ret_stat->cpu_user_us = read_key(mem, "cpu.stat", "user_usec");
        ret_stat->cpu_system_us = read_key(mem, "cpu.stat", "system_usec");
        return;
    }
    ret_stat->memory_peak_bytes = read_num(mem, "memory.max_usage_in_bytes");
    ret_stat->oom_kills = read_key(mem, "memory.oom_control", "oom_kill");
    ret_stat->sockets_over = v1_sockets_over(mem);
    add_v1_cpu(acct_fd(group), ret_stat);
}

void coto_cgroup_unthrottle(const struct coto_cgroup *group)
{
    if (group->version == 2)
        coto_file_write_at(group->dir_fd[COTO_CG_MEMORY], "cpu.max", "max");
    else if (group->version == 1 && group->dir_fd[COTO_CG_CPU] >= 0)
        coto_file_write_at(group->dir_fd[COTO_CG_CPU], "cpu.cfs_quota_us", "-1");
}

void coto_cgroup_kill(const struct coto_cgroup *group)
{
    static char text[65536];
    int fd = group->dir_fd[COTO_CG_MEMORY] >= 0 ? group->dir_fd[COTO_CG_MEMORY]
                                                : group->dir_fd[COTO_CG_PIDS];

    if (fd < 0 || (group->version == 2 && coto_file_write_at(fd, "cgroup.kill", "1") == 0))
        return;
    if (coto_file_read_words_at(fd, "cgroup.procs", text, sizeof text) <= 0)
        return;
    for (char *p = text; isdigit((unsigned char)*p); p += *p == '\n') {
        pid_t pid = (pid_t)strtol(p, &p, 10);
        if (pid > 1 && pid != getpid())
            kill(pid, SIGKILL);
    }
}

static int remove_dir(struct coto_cgroup *group, int ctl)
{
    for (int tries = 0; tries < 2000; tries++) {
        if (unlinkat(group->parent_fd[ctl], group->name, AT_REMOVEDIR) == 0 || errno == ENOENT)
            return 0;
        if (errno != EBUSY)
            return -1;
        if (tries > 20) {
            coto_cgroup_kill(group);
            usleep(1000);
        }
    }
    return -1;
}

void coto_cgroup_forget(const struct coto_cgroup *group)
{
    int mem = group->dir_fd[COTO_CG_MEMORY];

    if (mem >= 0 && group->version == 1) {
        if (read_num(mem, "memory.kmem.usage_in_bytes") > FORGET_MIN)
            coto_file_write_at(mem, "memory.force_empty", "0");
        return;
    }
    /* v2 takes pages of files first, and stops when it has as much as was asked for. */
    for (int i = 0; i < 8 && mem >= 0 && read_key(mem, "memory.stat", "slab_reclaimable") > FORGET_MIN; i++) {
        char text[24];
        snprintf(text, sizeof text, "%" PRId64, read_num(mem, "memory.current"));
        coto_file_write_at(mem, "memory.reclaim", text); /* EAGAIN: it was not as much */
    }
}

int coto_cgroup_remove(struct coto_cgroup *group)
{
    int failed = 0;

    for (int i = 0; i < COTO_CG_COUNT; i++)
        if (group->dir_fd[i] >= 0 || group->is_resting[i])
            failed |= remove_dir(group, i);
    if (group->moved_self)
        return_to_parent(group->parent_fd[COTO_CG_MEMORY], group->leaf);
    group->moved_self = false;
    coto_cgroup_close(group);
    return failed;
}

void coto_cgroup_remove_named(const struct coto_cgroup_host *host, const char *name)
{
    struct coto_cgroup group = {.version = host->version};

    snprintf(group.name, sizeof group.name, "%s", name);
    for (int i = 0; i < COTO_CG_COUNT; i++) {
        bool here = host->has[i] && (host->version == 1 || i == COTO_CG_MEMORY);
        group.parent_fd[i] = here ? open(host->parent[i], O_PATH | O_DIRECTORY | O_CLOEXEC) : -1;
        group.dir_fd[i] = group.parent_fd[i] < 0
                              ? -1
                              : openat(group.parent_fd[i], name, O_PATH | O_DIRECTORY | O_CLOEXEC);
    }
    coto_cgroup_kill(&group);
    if (host->must_leave) {
        int pid = 0;
        sscanf(name, "coto-%d-", &pid);
        snprintf(group.leaf, sizeof group.leaf, "coto-main-%d", pid);
        group.moved_self = true;
    }
    coto_cgroup_remove(&group);
}

void coto_cgroup_rest(struct coto_cgroup *group)
{
    for (int i = 0; i < COTO_CG_COUNT && group->parents_lent; i++) {
        group->is_resting[i] = group->is_resting[i] || group->dir_fd[i] >= 0;
        coto_own_close(&group->dir_fd[i]);
    }
}

int coto_cgroup_wake(struct coto_cgroup *group)
{
    int failed = 0;

    for (int i = 0; i < COTO_CG_COUNT; i++) {
        if (!group->is_resting[i])
            continue;
        group->dir_fd[i] = openat(group->parent_fd[i], group->name,
                                  O_PATH | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
        group->is_resting[i] = group->dir_fd[i] < 0;
        failed |= group->dir_fd[i];
    }
    return failed < 0 ? -1 : 0;
}

void coto_cgroup_close(struct coto_cgroup *group)
{
    for (int i = 0; i < COTO_CG_COUNT; i++) {
        coto_own_close(&group->dir_fd[i]);
        if (group->parents_lent)
            group->parent_fd[i] = -1;
        coto_own_close(&group->parent_fd[i]);
    }
}
