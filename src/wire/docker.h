/* What the docker driver and coto-docker, the program that speaks to the engine, say to
 * each other: frames (wire/frame.h) on a socket of their own. The stream to coto-init is
 * another socket, which coto-docker relays without looking into it.
 *
 * The driver says WHICH (THAT), judges the runtime, says CREATE and is answered with RUNS or ERROR; then ASK (USED), KILL (no
 * answer) and END (ENDED, or ERROR when the engine is gone) at any time. PROBE (PROBED) and
 * SWEEP (ENDED) stand alone.
 * When the driver's end closes coto-docker ends and removes the container, and itself.
 */
#pragma once

enum coto_docker_frame {
    COTO_DOCKER_CREATE = 96, /* ID SPEC: make, compare, attach, start */
    COTO_DOCKER_RUNS = 97,   /* CONTAINER PID LOCAL NO_SWAP RUNTIMES (the one used) */
    COTO_DOCKER_ASK = 98,    /* what it has used */
    COTO_DOCKER_USED = 99,   /* CPU_USER CPU_SYSTEM MEMORY PIDS, each only if the engine knows */
    COTO_DOCKER_KILL = 100,
    COTO_DOCKER_END = 101,   /* kill, remove, wait until it is gone */
    COTO_DOCKER_ENDED = 102, /* OOM EXIT */
    COTO_DOCKER_PROBE = 103,
    COTO_DOCKER_PROBED = 104, /* VERSION RUNTIMES SECURITY LIMITS */
    COTO_DOCKER_SWEEP = 105,  /* ID: remove what is left of that execution */
    COTO_DOCKER_WHICH = 106,  /* RUNTIMES ("" the engine's own choice) */
    COTO_DOCKER_THAT = 107,   /* RUNTIMES (the one it would be) VERSION COMMIT (of its runc) */
};

enum coto_docker_tag {
    COTO_DOCKER_ID = 160,    /* of the execution */
    COTO_DOCKER_SPEC,        /* body of the engine's create call; every value is compared */
    COTO_DOCKER_CONTAINER,   /* the engine's id */
    COTO_DOCKER_PID,         /* of the container's first process, as the engine sees it */
    COTO_DOCKER_LOCAL,       /* 1: the engine was reached through a unix socket */
    COTO_DOCKER_CPU_USER_US,
    COTO_DOCKER_CPU_SYSTEM_US,
    COTO_DOCKER_MEMORY,
    COTO_DOCKER_PIDS_PEAK,
    COTO_DOCKER_OOM,         /* how often the kernel killed for want of memory */
    COTO_DOCKER_EXIT,        /* status of the first process */
    COTO_DOCKER_VERSION,
    COTO_DOCKER_RUNTIMES,    /* names, blanks between */
    COTO_DOCKER_SECURITY,    /* the engine's security options, blanks between */
    COTO_DOCKER_NO_SWAP,     /* 1: no limit on swap is in force */
    COTO_DOCKER_LIMITS,      /* bits: memory, swap, cpus, pids */
    COTO_DOCKER_COMMIT,      /* of runc; a package's whole version where a distribution made it */
};

/* Where coto-init is in a container. */
#define COTO_DOCKER_INIT "/.coto-init"
#define COTO_DOCKER_LABEL "coto.execution"
#define COTO_DOCKER_OWNER "coto.owner"
