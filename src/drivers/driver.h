/* The contract of an isolation technology.
 *
 * A driver turns a plan into a running coto-init behind walls and a byte stream
 * to it; from there on everything (files in, processes, streams, artifacts) is
 * written once in core/ and speaks wire frames. A driver never starts user
 * code itself and never decides a verdict.
 *
 * Life: probe → create → inspect → (usage, kill at any time) → destroy. create either
 * returns a sandbox whose init is alive or about to say READY on the stream, or
 * fails and leaves nothing behind. destroy accepts a sandbox in any state, ends
 * every process in it, and returns only when no process, mount, cgroup or
 * directory of it is left.
 *
 * A new driver is one folder, one row in registry.c, one docs row. It includes
 * no other driver.
 */
#pragma once

#include "policy/plan.h"
#include "wire/frame.h"

struct coto_sandbox;

/* What the driver read from the kernel about the whole tree (host). */
struct coto_usage {
    int64_t cpu_user_us, cpu_system_us; /* -1: unknown */
    int64_t memory_peak_bytes;          /* -1: unknown */
    int64_t pids_peak;                  /* -1: unknown */
    int64_t oom_kills;
    int64_t pids_refused; /* forks refused at the limit */
    bool is_over;         /* more memory than its limit is held, where the kernel refuses none */
    bool of_reaped;       /* CPU and memory are of what was reaped, not of a cgroup */
    bool is_starved;      /* the guest's own kernel was refused a task, which ends it */
    int init_signal;      /* signal that ended init itself, 0 none; set by destroy */
};

#define COTO_USAGE_NONE                                                                            \
    {                                                                                              \
        .cpu_user_us = -1, .cpu_system_us = -1, .memory_peak_bytes = -1, .pids_peak = -1           \
    }

/* One line of `coto doctor`, and what the choice of a driver rests on. */
struct coto_probe {
    struct coto_wall_state walls[COTO_WALL_COUNT]; /* up: this host can give it */
    char remedy[COTO_WALL_COUNT][200];             /* for those it cannot */
};

struct coto_driver {
    const char *name;
    int isolation; /* the COTO_ISOLATION_* value that selects it */
    const char *doc;

    /* What this host can give, for the caller's own privileges. Slow is fine:
     * it may fork and try. Never changes the host. */
    int (*probe)(struct coto_probe *ret_probe, struct coto_err *err);

    /* Optional: whether create could make a sandbox of this plan here, without making one; the
     * error says what is missing. */
    int (*check)(const struct coto_plan *plan, struct coto_err *err);

    /* Optional: whether it knows a runtime of this name, installed or not. */
    int (*check_runtime)(const char *name, struct coto_err *err);

    /* Optional: begins what any sandbox of this driver needs, before a plan exists;
     * create takes it over, discard ends it unused. */
    void (*prepare)(void);
    void (*discard)(void);

    /* Optional: from now on this process makes many sandboxes on behalf of others. Their
     * stdio travels as frames, and what a kill -9 of this process leaves behind is swept
     * by the next one (sweep) instead of by a guard each; that may take its time. */
    void (*serve)(void);
    void (*sweep)(void);
    /* Optional: called now and then, to see whether a start has failed without a word. */
    void (*look)(void);

    /* Everything up to a coto-init that waits for frames. Walls the driver
     * itself raised are in sandbox->walls, read back; a wall of plan->need that
     * cannot be raised is an error that names it. With verbose, set-up steps come
     * as STEP frames. */
    int (*create)(const struct coto_plan *plan, bool verbose, struct coto_sandbox **ret_sandbox,
                  struct coto_err *err);

    /* Notes the walls that are up once init is READY, from what that frame says and
     * what the driver knows; fails when one that the plan needs is not. By then init
     * has refused to go on if it were not: no program starts before this holds. */
    int (*inspect)(struct coto_sandbox *sandbox, const struct coto_frame *ready,
                   struct coto_err *err);

    /* Optional: descriptors by which a process outside joins the sandbox's cgroup: on v1 it
     * writes "0" to each; with *ret_born it is born in the only one. Count. */
    int (*open_join)(struct coto_sandbox *sandbox, int ret_fds[8], bool *ret_born);

    /* Optional: nothing is asked about it for a while. It keeps as few descriptors as it can, for
     * every other sandbox's process is born with a copy of all and drops them one by one. */
    void (*rest)(struct coto_sandbox *sandbox);

    /* What the tree has used so far; callable while it runs. */
    int (*usage)(struct coto_sandbox *sandbox, struct coto_usage *ret_usage);

    /* Optional: the stream has ended while the program ran. An error when that was the doing of
     * the technology (an engine that was stopped) and not of the program or its limits. */
    int (*lost)(struct coto_sandbox *sandbox, struct coto_err *err);

    /* Ends every process at once, without asking init. */
    void (*kill)(struct coto_sandbox *sandbox);

    /* Kill, wait, remove. Fills the final usage when asked. NULL is accepted. */
    void (*destroy)(struct coto_sandbox *sandbox, struct coto_usage *ret_usage);
};

/* What programs that ran in a sandbox earlier have met and used. */
struct coto_met {
    int64_t oom_kills, pids_refused, cpu_us;
};

/* What every driver's sandbox starts with; drivers embed it first. */
struct coto_sandbox {
    const struct coto_driver *driver;
    int stream_fd;   /* byte stream to and from coto-init, non-blocking; -1 none */
    int parked_fd;   /* of a plan with a template: the end for the parked process, once; -1 */
    int alive_fd;    /* a pidfd: readable (POLLIN or POLLHUP) once init is gone; -1 none */
    int stdio_fd[3]; /* our ends of stdin, stdout, stderr when the program has
                        pipes of its own; -1: they travel as frames */
    const char *work_dir;   /* workspace path as init must name it */
    uint64_t landlock_abi;  /* 0: do not apply */
    bool apply_seccomp;
    bool apply_landlock;
    bool stays;            /* init is ended by destroy, which reads the usage first */
    bool labelled;         /* AppArmor is the technology's to apply, not init's */
    int64_t rlimit_nproc;  /* fallbacks where no cgroup limit holds; 0 none */
    int64_t rlimit_data;
    bool counts_cpu;        /* usage() is at hand and has the CPU time of the whole tree */
    bool cpu_time_by_usage; /* cpu-time can be watched through usage() */
    bool watches_memory;    /* usage() tells, while it runs, what the memory limit has met */
    struct coto_met before;
    const char *guest_kernel; /* programs run on a kernel of this one's, not the host's; NULL */
    char runtime[160];        /* what runs the sandbox, its version; "" nothing to tell */
    struct coto_wall_state walls[COTO_WALL_COUNT];
};

extern const struct coto_driver *const coto_drivers[];
extern const size_t coto_driver_count;

/* The driver of an isolation level, or an error saying what is not available. */
int coto_driver_choose(int isolation, const struct coto_driver **ret_driver, struct coto_err *err);

/* prepare and discard of the default driver: a caller that is about to run something
 * calls the first as early as it can (it may leave that out) and the second when it is
 * done: then no process of ours is left. */
void coto_driver_prepare(void);
void coto_driver_discard(void);
