/* The oci driver's own parts. See oci.c for the theory of operation. */
#pragma once

#include "drivers/driver.h"
#include "drivers/guard.h"
#include "kernel/cgroup.h"
#include "kernel/idmap.h"
#include "kernel/ns.h"

#include <limits.h>
#include <sys/types.h>

#define OCI_NAME_PREFIX "coto-" /* of container and cgroup: coto-PID-ID */
#define OCI_DIR_PREFIX "coto-oci-" /* of the throw-away directory: coto-oci-PID-ID */
#define OCI_INIT_INSIDE "/.coto/coto-init" /* where a container has its coto-init */

/* ---- runtime.c: which program runs the bundle, and whether it may ---- */

enum oci_kind { OCI_RUNC, OCI_CRUN, OCI_RUNSC, OCI_KATA };

struct oci_runtime {
    enum oci_kind kind;
    const char *name;
    const char *package;  /* Debian's, NULL: there is none */
    bool own_kernel;      /* programs run on a kernel of its own */
};

struct oci_chosen {
    const struct oci_runtime *runtime;
    char path[PATH_MAX];
    char version[96];   /* as it or its package says */
    char judged[64];    /* by what: "upstream version", "Debian package" */
    char lacks[128];    /* known escapes that are not mended in it; "" none */
    char platform[16];  /* of runsc */
};

/* The runtime the plan names, or the level's choice; refuses one that lacks a fix unless
 * the policy names it. */
int oci_choose(const struct coto_plan *plan, struct oci_chosen *ret_chosen, struct coto_err *err);
/* Whether there is one of that name, installed or not. */
int oci_check_runtime(const char *name, struct coto_err *err);
/* Finds one by name, whatever its version. */
int oci_find(const char *name, struct oci_chosen *ret_chosen, struct coto_err *err);

/* "runsc 0.0~20221219.0-2+b3 (Debian package), platform ptrace", for the result. */
void oci_say_runtime(const struct oci_chosen *chosen, char *ret_text, size_t size);
/* platform.c: fills the platform of runsc. */
int oci_platform(struct oci_chosen *chosen, struct coto_err *err);
/* probe.c */
int oci_probe(struct coto_probe *ret_probe, struct coto_err *err);

/* ---- command.c: running a runtime's command to its end ---- */

struct oci_output {
    char text[4096]; /* of both outputs, cut */
    int status;      /* of wait; -1: it had to be killed */
};
int oci_command(char *const argv[], int timeout_ms, struct oci_output *ret_output);

/* ---- the sandbox ---- */

#define OCI_BINDS 200
struct oci_binds { /* what of the host is shown, and where */
    size_t count;
    struct {
        char *source, *target; /* owned */
        bool writable, is_dir;
        dev_t dev; /* of what was looked at */
        ino_t ino;
    } items[OCI_BINDS];
};

struct oci {
    struct coto_sandbox base; /* first */
    const struct coto_plan *plan;
    struct oci_chosen chosen;
    pid_t pid;      /* the runtime's process, our child; 0 none */
    int pidfd;
    pid_t init_pid; /* the container's first process, or gVisor's, on the host; 0 unknown */
    int message_fd; /* the runtime's stderr */
    bool has_userns;
    struct coto_idmap map, map0; /* of the sandbox's uid, and of the uid 0 nobody has */
    struct coto_cgroup_host cgroup_host;
    struct coto_cgroup group;
    struct coto_cgroup_limits limits;
    struct coto_cgroup_applied applied;
    bool has_group;
    struct coto_usage last; /* what usage last said */
    char name[64];  /* of container and cgroup */
    char dir[200];  /* the throw-away directory */
    bool made_dir;
    struct oci_binds binds;
    struct coto_guard guard;
};

/* bundle.c: the throw-away directory with all that is in it. */
int oci_bundle_make(struct oci *oci, struct coto_err *err);
void oci_binds_fini(struct oci_binds *binds);
/* config.c: runc and crun would show the host's own device nodes, which a program could re-date,
 * and more of them than it needs; unless /dev is a mount of ours, as natively. gVisor has its own. */
bool oci_has_own_dev(const struct oci *oci);
extern const char *const oci_devices[]; /* their paths, NULL at the end */
/* The text of config.json. */
int oci_config_make(const struct oci *oci, const struct oci_binds *binds, struct coto_buf *out,
                    struct coto_err *err);
/* launch.c */
int oci_launch(struct oci *oci, struct coto_err *err);
/* clean.c */
void oci_dir_base(char ret_base[128]);
/* Ends and removes all that a sandbox may have left, from any state and by anybody; needs
 * nothing but these names. */
void oci_clean(const char *dir, const char *name);
/* The same for directories whose supervisor and guard are both gone; a later call goes on. */
void oci_sweep_dirs(int64_t until_us);

/* walls.c: what is really up, read on the host, before any user code runs. */
void oci_group_make(struct oci *oci);
int oci_walls_read(struct oci *oci, struct coto_err *err);
/* views.c: that what is shown is what was looked at, and read-only where it must be. */
int oci_views_check(const struct oci *oci, struct coto_err *err);
