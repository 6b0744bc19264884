#include "drivers/cgroup_walls.h"

#include "base/fd.h"
#include "base/units.h"
#include "base/weak.h"

#include <fcntl.h>
#include <inttypes.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

void coto_wall_say(struct coto_wall_state *wall, bool up, const char *mechanism, const char *value)
{
    wall->wanted = true;
    wall->up = up;
    snprintf(wall->mechanism, sizeof wall->mechanism, "%s", mechanism);
    snprintf(wall->value, sizeof wall->value, "%s", value);
}

bool coto_host_has_swap(void)
{
    char text[256];

    return coto_file_read_at(AT_FDCWD, "/proc/swaps", text, sizeof text) > 0 && strchr(text, '\n');
}

static int64_t cpus_here(void)
{
    cpu_set_t cpus;

    return sched_getaffinity(0, sizeof cpus, &cpus) ? INT64_MAX / 1000 : CPU_COUNT(&cpus);
}

/* As many CPUs as there are is no limit to set; the hardware holds it. */
static bool holds_by_itself(const struct coto_plan *plan)
{
    return plan->cpus_milli != COTO_UNIT_NONE && plan->cpus_milli >= cpus_here() * 1000;
}

void coto_cgroup_walls_ask(const struct coto_plan *plan, struct coto_cgroup_limits *ret_limits)
{
    struct stat st;

    *ret_limits = (struct coto_cgroup_limits){
        .memory_bytes = plan->memory_bytes,
        .swap_bytes = plan->swap_bytes,
        .cpus_milli = holds_by_itself(plan) ? COTO_UNIT_NONE : plan->cpus_milli,
        .pids = plan->pids == COTO_UNIT_NONE ? plan->pids : plan->pids + 1, /* and init */
        .iops = plan->iops,
        .account_cpu = plan->cpu_time_ms != COTO_UNIT_NONE,
    };
    if (plan->iops != COTO_UNIT_NONE &&
        stat(plan->rootfs.source ? plan->rootfs.source : "/usr", &st) == 0)
        ret_limits->disk = st.st_dev;
}

static void say_limit(const struct coto_cgroup_walls *w, enum coto_wall wall, int64_t applied,
                      const char *file)
{
    struct coto_wall_state *state = &w->sandbox->walls[wall];
    char value[32];
    char mechanism[48];

    if (!(w->plan->want >> wall & 1))
        return;
    snprintf(value, sizeof value, "%" PRId64, applied);
    snprintf(mechanism, sizeof mechanism, "cgroup v%d %.36s", w->host->version, file);
    coto_wall_say(state, applied >= 0, applied >= 0 ? mechanism : "", applied >= 0 ? value : "");
    if (applied < 0)
        snprintf(state->note, sizeof state->note, "%.150s",
                 w->host->why[0]      ? w->host->why
                 : w->applied->why[0] ? w->applied->why
                                      : "this cgroup controller is not available");
}

static void say_cpu(const struct coto_cgroup_walls *w)
{
    char value[32];

    if (!holds_by_itself(w->plan)) {
        say_limit(w, COTO_WALL_CPU, w->applied->cpus_milli, w->applied->cpu_file);
        return;
    }
    snprintf(value, sizeof value, "%" PRId64, cpus_here() * 1000);
    coto_wall_say(&w->sandbox->walls[COTO_WALL_CPU], true, "no more CPUs here (affinity)", value);
}

static void say_cpu_time(const struct coto_cgroup_walls *w)
{
    struct coto_wall_state *cpu = &w->sandbox->walls[COTO_WALL_CPU_TIME];
    struct coto_cgroup_stat stat = {.cpu_user_us = -1};
    char value[32];

    if (!(w->plan->want >> COTO_WALL_CPU_TIME & 1))
        return;
    if (w->group)
        coto_cgroup_stat(w->group, &stat);
    w->sandbox->cpu_time_by_usage = stat.cpu_user_us >= 0;
    snprintf(value, sizeof value, "%" PRId64 "ms", w->plan->cpu_time_ms);
    coto_wall_say(cpu, w->sandbox->cpu_time_by_usage, "supervisor, cgroup accounting", value);
    if (!cpu->up)
        snprintf(cpu->note, sizeof cpu->note, "per process only (rlimit cpu): no cgroup");
}

void coto_cgroup_walls_say(const struct coto_cgroup_walls *w)
{
    const struct coto_cgroup_applied *a = w->applied;

    say_limit(w, COTO_WALL_MEMORY, a->memory_bytes, a->memory_file);
    w->sandbox->watches_memory = a->memory_bytes >= 0 && !w->sandbox->guest_kernel;
    say_limit(w, COTO_WALL_SWAP, a->swap_bytes, a->swap_file);
    say_cpu(w);
    say_limit(w, COTO_WALL_PIDS, a->pids > 0 ? a->pids - 1 : a->pids, a->pids_file);
    say_limit(w, COTO_WALL_IOPS, a->iops, a->io_file);
    say_cpu_time(w);
}

void coto_cgroup_walls_fall_back(const struct coto_cgroup_walls *w)
{
    struct coto_wall_state *pids = &w->sandbox->walls[COTO_WALL_PIDS];
    struct coto_wall_state *memory = &w->sandbox->walls[COTO_WALL_MEMORY];
    struct coto_wall_state *swap = &w->sandbox->walls[COTO_WALL_SWAP];

    if (pids->wanted && !pids->up) {
        /* Counted per user namespace since Linux 5.14: the sandbox's own tasks. */
        w->sandbox->rlimit_nproc = w->plan->pids + 1;
        coto_wall_say(pids, true, "rlimit nproc, own user namespace", "");
        pids->note[0] = '\0';
    }
    if (memory->wanted && !memory->up) {
        char why[160];
        w->sandbox->rlimit_data = w->plan->memory_bytes;
        memcpy(why, memory->note, sizeof why);
        snprintf(memory->note, sizeof memory->note, "per process only (rlimit data): %.110s", why);
    }
    if (swap->wanted && !swap->up && w->plan->swap_bytes == 0 && !coto_host_has_swap()) {
        coto_wall_say(swap, true, "host has no swap", "0");
        swap->note[0] = '\0';
    }
}

int coto_cgroup_walls_check(const struct coto_cgroup_walls *w, struct coto_err *err)
{
    static const enum coto_wall limits[] = {COTO_WALL_UNIQUE_UID, COTO_WALL_MEMORY, COTO_WALL_SWAP,
                                            COTO_WALL_CPU,        COTO_WALL_PIDS,   COTO_WALL_IOPS,
                                            COTO_WALL_LANDLOCK,   COTO_WALL_CPU_TIME};

    for (size_t i = 0; i < sizeof limits / sizeof limits[0] && !coto_weakened(); i++) {
        const struct coto_wall_state *wall = &w->sandbox->walls[limits[i]];
        if (!wall->wanted || wall->up || !(w->plan->need >> limits[i] & 1))
            continue;
        coto_err_set(err, COTO_ERR_WALL, 0, "required wall '%s' cannot be had: %s",
                     coto_walls[limits[i]].name, wall->note);
        return coto_err_remedy(err, "see `coto doctor`; or drop it from --require, or name it in "
                                    "--allow-missing");
    }
    return 0;
}

/* Memory that is held although the kernel counts it elsewhere, or nowhere. */
static bool is_over(struct coto_cgroup *group, const struct coto_cgroup_stat *stat)
{
    int fd = group->dir_fd[COTO_CG_MEMORY];

    return stat->sockets_over ||
           (fd >= 0 && coto_up("locks") &&
            coto_locks_are_many(&group->locks, fd, group->version == 2 ? "cgroup.threads" : "tasks"));
}

void coto_cgroup_walls_usage(struct coto_cgroup *group, struct coto_usage *ret_usage)
{
    struct coto_cgroup_stat stat;

    coto_cgroup_stat(group, &stat);
    ret_usage->cpu_user_us = stat.cpu_user_us;
    ret_usage->cpu_system_us = stat.cpu_system_us;
    ret_usage->memory_peak_bytes = stat.memory_peak_bytes;
    ret_usage->pids_peak = stat.pids_peak > 0 ? stat.pids_peak - 1 : stat.pids_peak; /* not init */
    ret_usage->oom_kills = stat.oom_kills > 0 ? stat.oom_kills : 0;
    ret_usage->is_over = is_over(group, &stat);
    ret_usage->pids_refused = stat.pids_refused > 0 ? stat.pids_refused : 0;
}
