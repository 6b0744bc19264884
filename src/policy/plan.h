/* The plan: a policy resolved and frozen. Numbers are final, host paths have
 * become descriptors and are never resolved by name again (a driver that must
 * name one, because a mount namespace of its own cannot use a foreign
 * descriptor, re-opens it without following links and compares device and
 * inode). A plan can be printed (coto_plan_json) and is all a driver ever sees.
 *
 * Owner: whoever holds it; coto_plan_fini closes and frees, twice if need be.
 */
#pragma once

#include "base/err.h"
#include "base/json.h"
#include "base/str.h"
#include "policy/policy.h"
#include "schema/languages.h"
#include "schema/walls.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define COTO_ID_TEXT 37 /* a UUID and its NUL */

/* A host file or directory that is shown (mount) or copied (copy) inside. */
struct coto_plan_path {
    char *source; /* canonical host path, for messages and for re-opening */
    char *target; /* absolute path inside */
    int fd;       /* O_PATH for mounts, O_RDONLY for copies */
    dev_t dev;
    ino_t ino;
    mode_t mode;
    bool writable;
};

/* Bytes that become a file inside (the code). */
struct coto_plan_file {
    char *target; /* absolute path inside */
    unsigned mode;
    char *data;
    size_t len;
};

struct coto_plan_tmpfs {
    char *target;
    int64_t size;
};

/* One program to run; a compiled language has two: "build" and "run". */
struct coto_plan_stage {
    const char *name; /* "build" or "run" */
    struct coto_strv argv;
};

struct coto_plan {
    char id[COTO_ID_TEXT];
    char profile[64];
    char policy_hash[COTO_SHA256_HEX];
    char code_hash[COTO_SHA256_HEX]; /* "" when a command was given */

    const struct coto_language *language; /* NULL for a plain command */
    struct coto_plan_stage stages[2];
    int stage_count;
    struct coto_strv env; /* complete: what the program gets and nothing else */
    uid_t uid;
    gid_t gid;
    char *user_name;
    char *hostname;
    char *workdir;

    /* Limits; COTO_UNIT_NONE means none. */
    int64_t timeout_ms, cpu_time_ms;
    int64_t memory_bytes, swap_bytes, cpus_milli, pids;
    int64_t disk_bytes, tmp_bytes, inodes;
    int64_t output_bytes, nofile, ptys, fsize_bytes, iops;
    bool output_kill;

    struct coto_plan_path *mounts;
    size_t mount_count;
    struct coto_plan_path *copies;
    size_t copy_count;
    struct coto_plan_file *files;
    size_t file_count;
    struct coto_plan_tmpfs *tmpfs;
    size_t tmpfs_count;
    struct coto_plan_path rootfs; /* source NULL: the host's program directories */
    bool writable_output_only;
    bool noexec;
    bool want_artifacts;
    bool context; /* the interpreter stays, with its state, for the next execution */
    const char *resident; /* with it: text of one to be started where none waits; NULL none; borrowed */
    bool cold;   /* none waits, and none keeps state */
    bool parked; /* an interpreter waits in the sandbox (template); set by the service */
    char *modules; /* that one has imported beside the usual: names with commas between; "": none */
    bool parked_late; /* it comes with the first program that asks for it; set by the launcher */

    int isolation;    /* COTO_ISOLATION_* */
    char *image;      /* of the container levels, or what --image named; NULL with a rootfs */
    char image_digest[COTO_SHA256_HEX]; /* "" unless rootfs is that image of `coto image` */
    int image_lock;   /* with a digest: keeps the image from being removed */
    bool is_image_elsewhere; /* see struct coto_source_code */
    bool image_is_default; /* neither flag, file nor variable named it: a row or a profile did */
    char *runtime;    /* of the container levels; NULL: the level's own choice */
    struct coto_strv allow_runtime; /* NAME[@VERSION] that may lack the fix of an escape */
    int seccomp_tier; /* COTO_SECCOMP_* */
    int idmap;        /* COTO_IDMAP_* */
    uint64_t caps;    /* capability bits kept inside */
    char *apparmor;   /* profile of the program; NULL: none is asked for */
    coto_wallset need; /* refused when missing: core walls and `require` */
    coto_wallset want; /* all walls this plan asks for */
};

/* Whether a file of the host can be made or changed: a mount is writable. */
bool coto_plan_writes_host(const struct coto_plan *plan);

/* What to run, as the front door understood it; all borrowed. */
struct coto_source_code {
    const char *file;           /* host path, or NULL */
    const char *text;           /* code, or NULL */
    size_t text_len;
    const char *prefix;         /* of the name that text gets as a file; NULL none */
    const char *const *argv;    /* plain command, or the program's arguments; NULL-terminated */
    bool is_command;            /* argv is the command itself */
    bool is_image_elsewhere;    /* whoever makes the sandbox opens its image: coto_plan_use_image */
    bool is_watched;            /* somebody looks at its output while it comes */
};

int coto_plan_make(const struct coto_policy *policy, const struct coto_source_code *code,
                   struct coto_plan *ret_plan, struct coto_err *err);
/* --copy alone, for a plan that has nothing but its workdir and isolation. */
int coto_plan_add_copies(const struct coto_policy *policy, struct coto_plan *plan, struct coto_err *err);
/* Nothing tells the language: neither what was asked for ("" nothing), nor the file (NULL none). */
int coto_plan_refuse_language(const char *asked, const char *file, struct coto_err *err);
/* An image of `coto image` becomes the plan's root file system. */
struct coto_plan_image {
    const char *name;
    const char *dir; /* of the store; "": the usual ones */
    const char *key; /* it has to be signed with that; "": it need not be */
};
int coto_plan_use_image(struct coto_plan *plan, const struct coto_plan_image *image,
                        struct coto_err *err);
/* Walls that no plan of its level does without, unless its policy names them in allow-missing. */
coto_wallset coto_plan_core(const struct coto_plan *plan);
void coto_plan_fini(struct coto_plan *plan);
/* A random UUID (version 4). */
int coto_plan_new_id(char ret_id[COTO_ID_TEXT], struct coto_err *err);
void coto_plan_json(const struct coto_plan *plan, struct coto_json *json);

/* Whether a program of that name lies on the sandbox's PATH. */
bool coto_plan_has_tool(const struct coto_plan *plan, const char *tool);

/* Opens a host path for --mount: canonical, not a sensitive place. The refusal
 * names the place and the reason. */
int coto_plan_open_mount(const char *spec_source, bool writable, struct coto_plan_path *ret_path,
                         struct coto_err *err);
