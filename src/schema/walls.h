/* Every wall and limit by name. One row each: id, name, class, meaning.
 *
 *   CORE    must be up, or the run is refused unless `allow-missing` names it
 *   LIMIT   reported as missing when the host cannot enforce it; `require`
 *           turns that into a refusal
 *
 * The names are used by --require, --allow-missing, the result's `walls` and
 * `missing_walls`, and coto doctor.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum coto_wall_class { COTO_WALL_CORE, COTO_WALL_LIMIT };

#define COTO_WALLS(X)                                                                              \
    X(USERNS, "user_namespace", CORE, "no privilege inside counts outside")                        \
    X(PIDNS, "pid_namespace", CORE, "only own processes are visible or killable")                  \
    X(MOUNTNS, "mount_namespace", CORE, "a file system of its own")                                \
    X(NETNS, "net_namespace", CORE, "no network but a loopback of its own")                        \
    X(IPCNS, "ipc_namespace", CORE, "System V and POSIX IPC of its own")                           \
    X(UTSNS, "uts_namespace", CORE, "a host name of its own")                                      \
    X(CGROUPNS, "cgroup_namespace", CORE, "host cgroup paths are hidden")                          \
    X(UID, "uid", CORE, "an unprivileged host uid")                                                \
    X(CAPS, "capabilities", CORE, "all capability sets empty but for those added back")            \
    X(NNP, "no_new_privs", CORE, "set-id programs give nothing")                                   \
    X(SECCOMP, "seccomp", CORE, "system-call allow-list")                                          \
    X(LANDLOCK, "landlock", CORE, "second wall around files, TCP, signals")                        \
    X(ROOT_RO, "root_read_only", CORE, "the root file system cannot be changed")                   \
    X(FDS, "descriptors", CORE, "only stdin, stdout, stderr are open")                             \
    X(APPARMOR, "apparmor", LIMIT, "third wall around files, network, capabilities")               \
    X(UNIQUE_UID, "unique_uid", LIMIT, "a host uid shared with no other sandbox or person")        \
    X(TIMEOUT, "timeout", LIMIT, "wall-clock limit")                                               \
    X(CPU_TIME, "cpu_time", LIMIT, "CPU-time limit")                                               \
    X(MEMORY, "memory", LIMIT, "memory limit of the whole tree")                                   \
    X(SWAP, "swap", LIMIT, "swap limit of the whole tree")                                         \
    X(CPU, "cpus", LIMIT, "CPU rate limit of the whole tree")                                      \
    X(PIDS, "pids", LIMIT, "process and thread limit of the whole tree")                           \
    X(DISK, "disk", LIMIT, "size of writable file systems")                                        \
    X(INODES, "inodes", LIMIT, "files on writable file systems")                                   \
    X(OUTPUT, "output_limit", LIMIT, "bytes of output passed on")                                  \
    X(NOFILE, "nofile", LIMIT, "descriptors per process")                                          \
    X(FSIZE, "fsize", LIMIT, "size of a written file")                                             \
    X(IOPS, "iops", LIMIT, "disk operations per second")

enum coto_wall {
#define X(id, ...) COTO_WALL_##id,
    COTO_WALLS(X)
#undef X
        COTO_WALL_COUNT
};

struct coto_wall_row {
    const char *name;
    enum coto_wall_class class;
    const char *doc;
};
extern const struct coto_wall_row coto_walls[COTO_WALL_COUNT];

typedef uint64_t coto_wallset; /* bit per enum coto_wall */
#define COTO_WALL_BIT(id) ((coto_wallset)1 << COTO_WALL_##id)

/* Index of a name ('-' and '_' alike), or -1. */
int coto_wall_find(const char *name);

/* The state of one wall in one run. `up` is true only for what was read back
 * from the kernel or measured, never for what was merely asked. */
struct coto_wall_state {
    bool wanted;
    bool up;
    char mechanism[48]; /* "cgroup v1 memory.limit_in_bytes", "namespace", ... */
    char value[96];     /* as read back: "268435456", "net:[4026532601]", ... */
    char note[160];     /* when not up: why */
};
