/* One container of one execution: made, compared with what was asked for, attached,
 * started, and removed whatever happened. */
#pragma once

#include "docker/engine.h"

#include <jansson.h>
#include <stdint.h>

struct container {
    const struct engine *engine;
    char id[80];                  /* the engine's; "" none */
    bool is_gone;                 /* the engine has forgotten it */
    char execution[64];           /* ours */
    char image[272], runtime[72]; /* for messages */
    char used_runtime[72];        /* as inspect names it */
    char volume[80];      /* with coto-init, where the engine cannot see ours; "" none */
    struct coto_buf init; /* the bytes that were put there */
    int64_t memory_swap; /* as inspect shows it; -1: no limit */
    int64_t pid;
    int64_t since;             /* when it was made, for the engine's events */
    struct engine_conn stream; /* hijacked: bytes to stdin, framed stdout and stderr back */
    struct coto_buf rest;      /* of it, that came with the head */
};

/* One create call, and the id of what was made. */
int container_create(struct container *c, const char *name, const json_t *spec, char ret_id[80],
                     struct coto_err *err);
/* Everything up to a running first process. The spec is the body of the create call. On
 * failure nothing is left. */
int container_make(struct container *c, const char *spec, struct coto_err *err);
void container_kill(const struct container *c);
/* Kills and removes it and waits until the engine has forgotten it. Can be called twice. */
int container_remove(struct container *c, struct coto_err *err);
void container_fini(struct container *c);

/* What the engine knows of a running one; -1 unknown. */
struct container_usage {
    int64_t cpu_user_us, cpu_system_us, memory_peak, pids;
};
int container_usage(const struct container *c, struct container_usage *ret_usage,
                    struct coto_err *err);
/* How it ended, from the engine's events: OOM kills, and the status (-1 unknown). */
void container_events(const struct container *c, int64_t *ret_ooms, int64_t *ret_exit);

/* check.c: whether inspect shows what the spec asked for and nothing more. */
int container_check(const json_t *spec, const json_t *shown, struct coto_err *err);

/* carry.c: coto-init for an engine that does not see this host's files. It is put into a volume
 * through a container that is never started, and the spec mounts that read-only. */
int container_carry(struct container *c, json_t *spec, struct coto_err *err);
/* Whether the container has the very bytes of coto-init that were sent. */
int container_check_carried(const struct container *c, struct coto_err *err);
/* Removes the volume, once no container has it. */
#define CONTAINER_UNCARRY_TRIES 100
void container_uncarry(struct container *c, int tries);

/* which.c: the runtime that a container would get, and the engine's word on runc's version. */
struct container_runtime {
    char name[72];
    char version[96], commit[96]; /* of the engine's runc; "" unknown */
};
int container_which(const struct engine *engine, const char *wanted,
                    struct container_runtime *ret_runtime, struct coto_err *err);

/* sweep.c: removes what killed programs of this host left behind, never started or stopped. */
void container_sweep(const struct engine *engine);
/* The same for volumes. */
void container_sweep_volumes(const struct engine *engine);
/* Removes what has the label of that execution. */
int container_sweep_execution(const struct engine *engine, const char *id, struct coto_err *err);
/* Who made a container: this boot and this process, for whoever sweeps. */
void container_owner(char *ret_text, size_t size);

/* relay.c: serves the driver on control_fd and moves bytes between stream_fd and the
 * container, until the driver has gone; then nothing of it is left. */
int container_relay(struct container *c, int control_fd, int stream_fd);
