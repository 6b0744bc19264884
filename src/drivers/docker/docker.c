/* Level 2 over an engine: see docker.h for the processes. */
#include "drivers/docker/docker.h"

#include "base/fd.h"
#include "base/units.h"
#include "drivers/cgroup_walls.h"
#include "drivers/initbin.h"
#include "kernel/cgroup_of.h"
#include "kernel/landlock.h"
#include "wire/docker.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef SYS_pidfd_open
#define SYS_pidfd_open 434
#endif
#ifndef SYS_pidfd_send_signal
#define SYS_pidfd_send_signal 424
#endif

#define READY_MS 60000

extern const struct coto_driver coto_driver_docker;

/* ---- creating ---- */

/* The engine looks the name up itself; it is the file we hold open that was found. */
static int init_path(char *ret_path, size_t size, struct coto_err *err)
{
    coto_auto_fd fd = coto_initbin_open(err);
    char link[48];

    if (fd < 0)
        return -1;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t n = readlink(link, ret_path, size - 1);
    if (n <= 0)
        return coto_err_set(err, COTO_ERR_SYSTEM, errno, "docker: path of coto-init");
    ret_path[n] = '\0';
    return 0;
}

static int order(struct docker *d, struct coto_err *err)
{
    coto_auto_buf spec = {0};
    coto_auto_buf out = {0};
    char path[4096];

    if (init_path(path, sizeof path, err) || docker_spec(d->plan, path, &spec, err))
        return -1;
    size_t at = coto_frame_begin(&out, (enum coto_frame_type)COTO_DOCKER_CREATE, 0);
    coto_frame_add_text(&out, (enum coto_tag)COTO_DOCKER_ID, d->plan->id);
    coto_frame_add(&out, (enum coto_tag)COTO_DOCKER_SPEC, spec.data, spec.len);
    coto_frame_end(&out, at);
    if (out.failed)
        return coto_err_set(err, COTO_ERR_LIMIT, ENOMEM, "docker: the container's flags");
    docker_send(d, &out); /* if it is gone, it has said why */
    return 0;
}

/* What this host shows of the container: its first process and its cgroup, unless the engine
 * is elsewhere or hides them. Which of the two a number means is told by the cgroup's name, once we hold
 * the process: it may end at any moment, and its number be another's. */
static void look_from_host(struct docker *d, pid_t pid)
{
    char path[48], line[256];
    coto_auto_fd held = pid > 0 ? (int)syscall(SYS_pidfd_open, pid, 0u) : -1;

    if (pid <= 0 || coto_cgroup_open_of(pid, d->container, &d->group))
        return;
    d->has_group = true;
    d->pid = pid;
    d->pid_fd = coto_take_fd(&held);
    snprintf(path, sizeof path, "/proc/%d/cmdline", (int)pid);
    d->is_host_process = coto_file_read_at(AT_FDCWD, path, line, sizeof line) > 0 &&
                         coto_str_has_prefix(line, COTO_DOCKER_INIT);
}

/* The engine answers before the runtime's own process has become coto-init; its first word
 * tells. Nothing is read here, and whoever reads it then finds an end that came instead. */
static void await_init(const struct docker *d)
{
    struct pollfd pfd = {.fd = d->base.stream_fd, .events = POLLIN};

    while (poll(&pfd, 1, READY_MS) < 0 && errno == EINTR)
        ;
}

static int take_runs(struct docker *d, struct coto_err *err)
{
    struct coto_frame frame;

    if (docker_receive(d, &frame, err))
        return -1;
    coto_auto_free char *id = coto_field_text(&frame, (enum coto_tag)COTO_DOCKER_CONTAINER);
    if ((int)frame.type != COTO_DOCKER_RUNS || !id)
        return coto_err_set(err, COTO_ERR_INTERNAL, 0,
                            "docker: unexpected answer from coto-docker");
    coto_auto_free char *runtime = coto_field_text(&frame, (enum coto_tag)COTO_DOCKER_RUNTIMES);
    snprintf(d->container, sizeof d->container, "%s", id);
    snprintf(d->base.runtime, sizeof d->base.runtime, "docker, runtime %.40s%.110s",
             runtime ? runtime : "?", d->version);
    d->has_no_swap_limit = coto_field_num(&frame, (enum coto_tag)COTO_DOCKER_NO_SWAP);
    await_init(d);
    if (coto_field_num(&frame, (enum coto_tag)COTO_DOCKER_LOCAL))
        look_from_host(d, (pid_t)coto_field_num(&frame, (enum coto_tag)COTO_DOCKER_PID));
    return 0;
}

/* The program has coto-init's own uid: only Landlock can make a part of a directory
 * read-only for one of the two. */
static int check_writable(const struct docker *d, struct coto_err *err)
{
    if (!d->plan->writable_output_only || d->base.apply_landlock)
        return 0;
    coto_err_set(
        err, COTO_ERR_WALL, 0,
        "docker: workspace-writable 'output' needs Landlock, which this container has not");
    return coto_err_remedy(
        err, "use --workspace-writable all, another --runtime, or --isolation process");
}

static void docker_destroy(struct coto_sandbox *sandbox, struct coto_usage *ret_usage);

static int build(struct docker *d, struct coto_err *err)
{
    if (docker_start_helper(d, err) || docker_judge(d, err) || order(d, err) || take_runs(d, err))
        return -1;
    if (d->has_group && !d->is_host_process)
        d->base.guest_kernel = d->plan->runtime ? d->plan->runtime : "of the runtime";
    d->base.landlock_abi = d->is_host_process ? (uint64_t)coto_landlock_abi() : 0;
    d->base.apply_landlock = d->base.landlock_abi > 0;
    d->base.cpu_time_by_usage = d->has_group && d->plan->cpu_time_ms != COTO_UNIT_NONE;
    docker_say_walls(d);
    return docker_check_walls(d, err) || check_writable(d, err) ? -1 : 0;
}

static struct docker *new_docker(const struct coto_plan *plan)
{
    struct docker *d = calloc(1, sizeof *d);

    if (!d)
        return NULL;
    d->base = (struct coto_sandbox){.driver = &coto_driver_docker,
                                    .stream_fd = -1,
                                    .parked_fd = -1,
                                    .alive_fd = -1,
                                    .stdio_fd = {-1, -1, -1},
                                    .work_dir = plan ? plan->workdir : NULL,
                                    .apply_seccomp = true,
                                    .stays = true,
                                    .labelled = true};
    d->plan = plan;
    d->helper_fd = d->control_fd = d->pid_fd = -1;
    return d;
}

static int docker_create(const struct coto_plan *plan, bool verbose,
                         struct coto_sandbox **ret_sandbox, struct coto_err *err)
{
    struct docker *d = new_docker(plan);

    (void)verbose; /* the engine's steps are its own */
    if (!d)
        return coto_err_set(err, COTO_ERR_LIMIT, errno, "create a container");
    if (build(d, err)) {
        docker_destroy(&d->base, NULL);
        return -1;
    }
    *ret_sandbox = &d->base;
    return 0;
}

/* All of it was read back before coto-init got a word. */
static int docker_inspect(struct coto_sandbox *sandbox, const struct coto_frame *ready,
                          struct coto_err *err)
{
    (void)sandbox;
    (void)ready;
    (void)err;
    return 0;
}

/* ---- using ---- */

static int64_t known(const struct coto_frame *frame, enum coto_docker_tag tag)
{
    struct coto_field field = {0};

    while (coto_field_next(frame, &field) == 1)
        if (field.tag == (unsigned)tag)
            return (int64_t)coto_field_value(&field);
    return -1;
}

static int ask_engine(struct docker *d, struct coto_usage *usage, struct coto_err *err)
{
    struct coto_frame frame;

    if (docker_ask(d, COTO_DOCKER_ASK, &frame, err))
        return -1;
    usage->cpu_user_us = known(&frame, COTO_DOCKER_CPU_USER_US);
    usage->cpu_system_us = known(&frame, COTO_DOCKER_CPU_SYSTEM_US);
    usage->memory_peak_bytes = known(&frame, COTO_DOCKER_MEMORY);
    return 0;
}

static int docker_usage(struct coto_sandbox *sandbox, struct coto_usage *ret_usage)
{
    struct docker *d = (struct docker *)sandbox;

    *ret_usage = (struct coto_usage)COTO_USAGE_NONE;
    if (!d->has_group) {
        struct coto_err err;
        if (d->container[0])
            ask_engine(d, ret_usage, &err);
        return 0;
    }
    coto_cgroup_walls_usage(&d->group, ret_usage);
    if (d->base.guest_kernel) { /* whose threads are not the program's */
        ret_usage->is_starved = ret_usage->pids_refused > 0;
        ret_usage->pids_peak = -1;
    }
    return 0;
}

static int docker_lost(struct coto_sandbox *sandbox, struct coto_err *err)
{
    struct docker *d = (struct docker *)sandbox;
    struct coto_usage ignored;

    if (ask_engine(d, &ignored, err) == 0)
        return 0;
    d->is_gone = true;
    return coto_err_wrap(err, "the sandbox was lost while the program ran");
}

/* ---- ending ---- */

/* Without the engine, where the host lets us: the first process takes all others along. */
static void kill_from_host(const struct docker *d)
{
    if (d->pid_fd >= 0)
        syscall(SYS_pidfd_send_signal, d->pid_fd, SIGKILL, NULL, 0u);
}

static void docker_kill(struct coto_sandbox *sandbox)
{
    struct docker *d = (struct docker *)sandbox;
    struct coto_err err;

    kill_from_host(d);
    if (d->container[0])
        docker_ask(d, COTO_DOCKER_KILL, NULL, &err);
}

/* Another coto-docker looks for what the first one had to leave. */
static void sweep(struct docker *d)
{
    coto_auto_buf out = {0};
    struct coto_frame frame;
    struct coto_err err;

    docker_stop_helper(d);
    coto_own_close(&d->base.stream_fd);
    if (docker_start_helper(d, &err))
        return;
    size_t at = coto_frame_begin(&out, (enum coto_frame_type)COTO_DOCKER_SWEEP, 0);
    coto_frame_add_text(&out, (enum coto_tag)COTO_DOCKER_ID, d->plan->id);
    coto_frame_end(&out, at);
    if (docker_send(d, &out) == 0)
        docker_receive(d, &frame, &err);
}

static void end_container(struct docker *d, struct coto_usage *usage)
{
    struct coto_frame frame;
    struct coto_err err;

    if (docker_ask(d, COTO_DOCKER_END, &frame, &err)) {
        kill_from_host(d);
        sweep(d);
        return;
    }
    int64_t ooms = known(&frame, COTO_DOCKER_OOM);
    if (ooms > usage->oom_kills)
        usage->oom_kills = ooms;
}

static void docker_destroy(struct coto_sandbox *sandbox, struct coto_usage *ret_usage)
{
    struct docker *d = (struct docker *)sandbox;
    struct coto_usage usage = COTO_USAGE_NONE;

    if (!d)
        return;
    if (d->container[0]) {
        if (!d->is_gone && ret_usage)
            docker_usage(sandbox, &usage);
        end_container(d, &usage);
    }
    docker_stop_helper(d);
    if (ret_usage)
        *ret_usage = usage;
    if (d->has_group)
        coto_cgroup_close(&d->group);
    coto_own_close(&d->pid_fd);
    coto_own_close(&d->base.stream_fd);
    free(d);
}

/* ---- probing ---- */

static const enum coto_wall limit_of_bit[] = {COTO_WALL_MEMORY, COTO_WALL_SWAP, COTO_WALL_CPU,
                                              COTO_WALL_PIDS};

static void probe_walls(const struct coto_frame *frame, struct coto_probe *probe)
{
    uint64_t bits = coto_field_num(frame, (enum coto_tag)COTO_DOCKER_LIMITS);
    coto_auto_free char *version = coto_field_text(frame, (enum coto_tag)COTO_DOCKER_VERSION);
    coto_auto_free char *security = coto_field_text(frame, (enum coto_tag)COTO_DOCKER_SECURITY);
    const coto_wallset never = COTO_WALL_BIT(UNIQUE_UID) | COTO_WALL_BIT(IOPS);
    coto_wallset up = ~(never | COTO_WALL_BIT(USERNS) | COTO_WALL_BIT(APPARMOR));

    if (security && strstr(security, "name=userns"))
        up |= COTO_WALL_BIT(USERNS);
    if (security && strstr(security, "name=apparmor"))
        up |= COTO_WALL_BIT(APPARMOR);
    if (coto_landlock_abi() == 0)
        up &= ~COTO_WALL_BIT(LANDLOCK);
    for (int i = 0; i < 4; i++)
        if (!(bits >> i & 1))
            up &= ~((coto_wallset)1 << limit_of_bit[i]);
    for (int i = 0; i < COTO_WALL_COUNT; i++) {
        struct coto_wall_state *wall = &probe->walls[i];
        wall->up = up >> i & 1;
        snprintf(wall->mechanism, sizeof wall->mechanism, "%s%.20s", wall->up ? "engine " : "",
                 wall->up && version ? version : "");
        snprintf(wall->note, sizeof wall->note, "%s",
                 wall->up ? "" : "the engine does not offer it");
    }
    snprintf(probe->remedy[COTO_WALL_USERNS], sizeof probe->remedy[0],
             "set \"userns-remap\": \"default\" in /etc/docker/daemon.json");
}

static int docker_probe(struct coto_probe *ret_probe, struct coto_err *err)
{
    struct docker *d = new_docker(NULL);
    struct coto_frame frame;

    if (!d)
        return coto_err_set(err, COTO_ERR_LIMIT, errno, "docker");
    *ret_probe = (struct coto_probe){0};
    int failed = docker_start_helper(d, err) || docker_ask(d, COTO_DOCKER_PROBE, &frame, err);
    if (!failed)
        probe_walls(&frame, ret_probe);
    docker_destroy(&d->base, NULL);
    return failed;
}

/* Of a list of words with blanks between. */
static bool has_word(const char *words, const char *word)
{
    size_t len = strlen(word);

    for (const char *p = words; (p = strstr(p, word)); p += len)
        if ((p == words || p[-1] == ' ') && (p[len] == ' ' || !p[len]))
            return true;
    return false;
}

/* Whether the image is there is left to create: an engine may be asked for any. */
static int docker_check(const struct coto_plan *plan, struct coto_err *err)
{
    struct docker *d = new_docker(plan);
    struct coto_frame frame;

    if (!d)
        return coto_err_set(err, COTO_ERR_LIMIT, errno, "docker");
    int failed = docker_start_helper(d, err) || docker_judge(d, err) ||
                 docker_ask(d, COTO_DOCKER_PROBE, &frame, err);
    coto_auto_free char *words =
        failed ? NULL : coto_field_text(&frame, (enum coto_tag)COTO_DOCKER_RUNTIMES);
    if (!failed && plan->runtime && !has_word(words ? words : "", plan->runtime)) {
        coto_err_set(err, COTO_ERR_UNAVAILABLE, 0, "docker: the engine has no runtime '%s'",
                     plan->runtime);
        failed = coto_err_remedy(err, "it has: %s; add it to \"runtimes\" in "
                                      "/etc/docker/daemon.json", words ? words : "none");
    }
    docker_destroy(&d->base, NULL);
    return failed;
}

const struct coto_driver coto_driver_docker = {
    .name = "docker",
    .isolation = COTO_ISOLATION_DOCKER,
    .doc = "a container of a Docker engine, with any runtime it knows (runc, runsc, kata)",
    .probe = docker_probe,
    .check = docker_check,
    .create = docker_create,
    .inspect = docker_inspect,
    .usage = docker_usage,
    .lost = docker_lost,
    .kill = docker_kill,
    .destroy = docker_destroy,
};
