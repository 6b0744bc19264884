/* What the files of the docker driver share.
 *
 * Processes: coto (this driver), coto-docker (a child in a session of its own, which alone
 * speaks to the engine), and in the container coto-init as PID 1, started by the engine. Two
 * sockets join the first two: control (wire/docker.h) and the stream to coto-init.
 *
 * If coto is killed, coto-docker removes the container. If coto-docker is killed, the engine
 * closes coto-init's stdin, which ends it, and removes the container by itself; coto sees the
 * stream end and looks for the container with a second coto-docker. If both are killed before
 * the container was started the next one of this host removes it (label coto.owner).
 */
#pragma once

#include "drivers/driver.h"
#include "kernel/cgroup.h"

#include <sys/types.h>

struct docker {
    struct coto_sandbox base; /* first */
    const struct coto_plan *plan;
    pid_t helper;  /* 0: none */
    int helper_fd; /* pidfd of it */
    int control_fd;
    struct coto_frame_reader reader;
    char container[80];
    char version[200]; /* of the engine's runc where that runs it, and what it lacks; "" */
    pid_t pid; /* of the container's first process, where this host shows it; 0 */
    int pid_fd;
    bool is_host_process; /* it is coto-init on this kernel, not a kernel of its own */
    bool has_no_swap_limit; /* the engine dropped it */
    bool has_group;
    struct coto_cgroup group;
    bool is_gone; /* the engine or coto-docker went away in the middle */
};

/* spec.c: the body of the engine's create call. */
int docker_spec(const struct coto_plan *plan, const char *init_path, struct coto_buf *out,
                struct coto_err *err);
/* How many processes the container is made with; 0: any number. */
int64_t docker_pids(const struct coto_plan *plan);
/* And how many it may have where its programs are processes of the host. */
int64_t docker_pids_of_programs(const struct coto_plan *plan);

/* judge.c: whether the engine's runtime may be used. */
int docker_judge(struct docker *d, struct coto_err *err);

/* walls.c: what the engine's inspect has confirmed, and what this host's kernel shows. */
void docker_say_walls(struct docker *d);
/* The first needed wall that is not up, as an error. */
int docker_check_walls(const struct docker *d, struct coto_err *err);

/* talk.c */
int docker_start_helper(struct docker *d, struct coto_err *err);
void docker_stop_helper(struct docker *d);
int docker_send(struct docker *d, const struct coto_buf *frame);
/* The next frame; an ERROR frame becomes an error. */
int docker_receive(struct docker *d, struct coto_frame *ret_frame, struct coto_err *err);
/* A frame without fields, and its answer. */
int docker_ask(struct docker *d, int type, struct coto_frame *ret_frame, struct coto_err *err);
