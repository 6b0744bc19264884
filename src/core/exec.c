/* The EXEC frame of a stage: everything coto-init needs to raise the inner walls. */
#include "core/session.h"

#include "base/units.h"
#include "base/weak.h"
#include "kernel/seccomp.h"
#include "schema/rlimits.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

/* Nobody changes them once there are programs to run. */
static const struct rlimit *own_limit(int resource)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static struct rlimit limits[RLIM_NLIMITS];
    static bool known[RLIM_NLIMITS];

    pthread_mutex_lock(&lock);
    known[resource] = known[resource] || getrlimit((unsigned)resource, &limits[resource]) == 0;
    bool is_known = known[resource];
    pthread_mutex_unlock(&lock);
    return is_known ? &limits[resource] : NULL;
}

static void add_rlimit(struct coto_buf *out, int resource, int64_t soft, int64_t hard)
{
    unsigned char bytes[24];
    const struct rlimit *now = own_limit(resource);
    uint64_t v[3] = {(uint64_t)resource, (uint64_t)soft, (uint64_t)hard};

    /* A limit of our own caller may be lower already; raising it is not ours. */
    if (now && now->rlim_max != RLIM_INFINITY)
        for (int i = 1; i < 3; i++)
            if (v[i] > now->rlim_max)
                v[i] = now->rlim_max;
    for (int i = 0; i < 24; i++)
        bytes[i] = (unsigned char)(v[i / 8] >> (8 * (i % 8)));
    coto_frame_add(out, COTO_TAG_RLIMIT, bytes, sizeof bytes);
}

static void add_rlimits(struct coto_session *s)
{
    const struct coto_plan *plan = s->plan;
    struct coto_buf *out = &s->out;

    /* Not 0: a core handler that is a program (core_pattern with a pipe) is started on the
     * host whatever the limit, but for this one value. The filter keeps it. One behind a socket
     * asks for no limit (SECURITY.md). */
    add_rlimit(out, RLIMIT_CORE, 1, 1);
    add_rlimit(out, RLIMIT_NOFILE, plan->nofile, plan->nofile);
    add_rlimit(out, RLIMIT_MEMLOCK, COTO_RLIMIT_MEMLOCK, COTO_RLIMIT_MEMLOCK);
    add_rlimit(out, RLIMIT_STACK, 8 * COTO_MB, 64 * COTO_MB);
    if (!s->sandbox->guest_kernel) { /* gVisor's has none of it to share, and refuses limits */
        add_rlimit(out, RLIMIT_NICE, 0, 0);
        add_rlimit(out, RLIMIT_RTPRIO, 0, 0);
        add_rlimit(out, RLIMIT_MSGQUEUE, 0, 0);
        add_rlimit(out, RLIMIT_SIGPENDING, COTO_RLIMIT_SIGPENDING, COTO_RLIMIT_SIGPENDING);
    }
    if (plan->fsize_bytes != COTO_UNIT_NONE)
        add_rlimit(out, RLIMIT_FSIZE, plan->fsize_bytes, plan->fsize_bytes);
    if (plan->cpu_time_ms != COTO_UNIT_NONE) {
        int64_t seconds = (plan->cpu_time_ms + 999) / 1000;
        bool is_exact = s->sandbox->cpu_time_by_usage;
        /* Counts ticks, which on a busy host come too soon: where the supervisor counts
         * exactly it must not be first; and it would count all of what an interpreter that
         * stays does, not each execution. */
        if (is_exact)
            seconds = 2 * seconds + 1;
        if (!is_exact || !s->keep)
            add_rlimit(out, RLIMIT_CPU, seconds, seconds + 1);
    }
    if (s->sandbox->rlimit_nproc > 0)
        add_rlimit(out, RLIMIT_NPROC, s->sandbox->rlimit_nproc, s->sandbox->rlimit_nproc);
    if (s->sandbox->rlimit_data > 0)
        add_rlimit(out, RLIMIT_DATA, s->sandbox->rlimit_data, s->sandbox->rlimit_data);
}

/* Landlock's writable trees, and where "disk full" is looked for. */
static void add_paths(struct coto_session *s)
{
    const struct coto_plan *plan = s->plan;
    struct coto_buf *out = &s->out;
    char output[4200];

    snprintf(output, sizeof output, "%s/output", s->sandbox->work_dir);
    const char *work = plan->writable_output_only ? output : s->sandbox->work_dir;
    coto_frame_add_text(out, COTO_TAG_WRITABLE, work);
    coto_frame_add_text(out, COTO_TAG_FULL_PATH, work);
    if (!s->sandbox->apply_landlock)
        return;
    coto_frame_add_text(out, COTO_TAG_WRITABLE, "/tmp");
    coto_frame_add_text(out, COTO_TAG_WRITABLE, "/dev/shm");
    coto_frame_add_text(out, COTO_TAG_FULL_PATH, "/tmp");
    for (size_t i = 0; i < plan->tmpfs_count; i++)
        coto_frame_add_text(out, COTO_TAG_WRITABLE, plan->tmpfs[i].target);
    for (size_t i = 0; i < plan->mount_count; i++)
        if (plan->mounts[i].writable)
            coto_frame_add_text(out, COTO_TAG_WRITABLE, plan->mounts[i].target);
}

/* Filters are built once; a service runs the same policies over and over, on many threads. */
static const struct coto_seccomp_program *filter_of(struct coto_session *s)
{
    static struct filter {
        struct filter *next;
        int tier;
        unsigned extras;
        struct coto_seccomp_program program;
    } *filters;
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    unsigned extras = coto_seccomp_extras(s->plan->noexec, coto_plan_writes_host(s->plan));
    int failed = 0;

    pthread_mutex_lock(&lock);
    struct filter *it = filters;
    while (it && (it->tier != s->plan->seccomp_tier || it->extras != extras))
        it = it->next;
    if (!it && (it = malloc(sizeof *it))) {
        it->tier = s->plan->seccomp_tier;
        it->extras = extras;
        failed = coto_seccomp_build(it->tier, extras, &it->program, &s->err);
        it->next = filters;
        if (!failed)
            filters = it;
    }
    pthread_mutex_unlock(&lock);
    if (!it)
        coto_err_set(&s->err, COTO_ERR_LIMIT, ENOMEM, "seccomp filter");
    if (it && !failed)
        return &it->program;
    free(it);
    coto_session_fail(s, &s->err);
    return NULL;
}

static int add_walls(struct coto_session *s)
{
    struct coto_buf *out = &s->out;

    if (s->sandbox->apply_seccomp) {
        const struct coto_seccomp_program *program = filter_of(s);
        if (!program)
            return -1;
        coto_frame_add(out, COTO_TAG_SECCOMP, program->code, program->len * sizeof program->code[0]);
        snprintf(s->result->filter_hash, sizeof s->result->filter_hash, "%s", program->hash);
        coto_frame_add_num(out, COTO_TAG_UID, s->plan->uid);
        coto_frame_add_num(out, COTO_TAG_GID, s->plan->gid);
        coto_frame_add_num(out, COTO_TAG_CAPS, s->plan->caps);
    }
    if (s->sandbox->apply_seccomp && !s->sandbox->labelled &&
        s->plan->want & COTO_WALL_BIT(APPARMOR)) {
        coto_frame_add_text(out, COTO_TAG_APPARMOR, s->plan->apparmor);
        coto_frame_add_num(out, COTO_TAG_APPARMOR_MUST,
                           (s->plan->need & COTO_WALL_BIT(APPARMOR)) != 0);
    }
    if (s->sandbox->apply_landlock)
        coto_frame_add_num(out, COTO_TAG_LANDLOCK_ABI, s->sandbox->landlock_abi);
    return 0;
}

/* The language's own tool, with a text that takes the program, and those after it, from init. It is larger than all the rest,
 * and rarely needed: behind that, where init leaves it (init/parked.c). */
static void add_resident(struct coto_session *s)
{
    const char *const argv[] = {s->plan->stages[s->stage].argv.items[0], "-c", s->plan->resident, "-", "-", ""};

    for (size_t i = 0; s->plan->context && s->plan->resident && i < sizeof argv / sizeof *argv; i++)
        coto_frame_add_text(&s->out, COTO_TAG_RESIDENT, argv[i]);
}

int coto_exec_send(struct coto_session *s, int stage)
{
    const struct coto_plan *plan = s->plan;
    struct coto_buf *out = &s->out;

    s->stage = stage;
    size_t at = coto_frame_begin(out, COTO_FRAME_EXEC, coto_session_proc(s));
    for (size_t i = 0; i < plan->stages[stage].argv.count; i++) {
        coto_frame_add_text(out, COTO_TAG_ARGV, plan->stages[stage].argv.items[i]);
        if (i == 0 && s->ahead) {
            coto_frame_add_text(out, COTO_TAG_ARGV, "-r");
            coto_frame_add_text(out, COTO_TAG_ARGV, COTO_AHEAD_FILE);
        }
    }
    for (size_t i = 0; i < plan->env.count; i++)
        coto_frame_add_text(out, COTO_TAG_ENV, plan->env.items[i]);
    for (char **item = environ; *item && !coto_up("env"); item++)
        coto_frame_add_text(out, COTO_TAG_ENV, *item);
    coto_frame_add_text(out, COTO_TAG_CWD, s->sandbox->work_dir);
    coto_frame_add_num(out, COTO_TAG_STDIO, s->frames && coto_up("stdio"));
    coto_frame_add_num(out, COTO_TAG_KILL_ON_EXIT, s->keep ? COTO_KILL_UNLESS_STATE : COTO_KILL_ALWAYS);
    coto_frame_add_num(out, COTO_TAG_BYE_ON_EXIT,
                       stage + 1 == plan->stage_count && !plan->want_artifacts && !s->keep &&
                           !s->sandbox->stays);
    coto_frame_add_num(out, COTO_TAG_PARKED, plan->parked);
    coto_frame_add_num(out, COTO_TAG_CONTEXT, plan->context);
    coto_frame_add_num(out, COTO_TAG_NOEXEC, plan->noexec);
    if (plan->timeout_ms != COTO_UNIT_NONE && coto_up("timeout") && !s->ahead)
        coto_frame_add_num(out, COTO_TAG_TIMEOUT_MS, (uint64_t)plan->timeout_ms + 100);
    add_rlimits(s);
    add_paths(s);
    if (add_walls(s))
        return -1;
    add_resident(s);
    coto_frame_end(out, at);
    if (!out->failed)
        return 0;
    coto_err_set(&s->err, COTO_ERR_USAGE, 0, "arguments and environment are over %u bytes",
                 COTO_FRAME_MAX);
    coto_err_remedy(&s->err, "pass large data on standard input or as a file");
    return coto_session_fail(s, &s->err);
}
