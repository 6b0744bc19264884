/* What coto-init must know to build a native sandbox around itself: the part of a
 * plan that it needs, as one SETUP frame. The receiver checks it again: targets are
 * absolute, without ".." and empty parts; numbers are within bounds.
 *
 * The talk before READY, on the same stream (a UNIX socket): the host sends
 * COTO_GO_SETUP with the descriptors of the mounts, the SETUP frame, then
 * COTO_GO_IDS once the id maps are written, then COTO_GO_CGROUP with descriptors to
 * join the cgroup through, its own namespaces (a struct coto_ns_set): init refuses
 * to go on while it shares one of them, and a struct coto_setup_limits.
 */
#pragma once

#include "base/err.h"
#include "wire/frame.h"

#include <stdbool.h>
#include <stdint.h>

enum {
    COTO_GO_SETUP = 's',
    COTO_GO_IDS = 'i',
    COTO_GO_IDS_AND_GROUPS = 'I', /* and setgroups is possible */
    COTO_GO_CGROUP = 'c',
};

/* Whose the root file system is: coto-init --setup --root=NUMBER. */
enum coto_setup_root {
    COTO_ROOT_OWN,        /* the sandbox's: init makes it */
    COTO_ROOT_FOR_OTHERS, /* init makes one after SETUP, says READY, and is no sandbox */
    COTO_ROOT_GIVEN,      /* one of the latter: init is in it, and adds what is the sandbox's own */
};

#define COTO_SETUP_MOUNTS 64
#define COTO_SETUP_PTYS 64

/* What each process must be limited to because no cgroup does it, which is known only once that was tried. 0: not. */
struct coto_setup_limits {
    uint64_t nproc, data;
};

struct coto_setup_path {
    char *source; /* host path, resolved; NULL: absent */
    char *target; /* absolute path inside */
    uint64_t dev, ino;
    uint32_t mode;
    bool writable;
};

struct coto_setup_tmpfs {
    char *target;
    int64_t size;
};

struct coto_setup {
    uint32_t uid, gid;
    uint64_t caps;
    uint64_t ignored; /* signals the supervisor's caller left ignored; bit 0 is signal 1 */
    /* Where others than who made the sandbox start its programs: what each of those must
     * have at least. filter NULL: no such rule. */
    char *filter; /* seccomp, as EXEC has it */
    size_t filter_len;
    uint64_t landlock_abi;
    char *user_name, *hostname, *workdir;
    int64_t disk_bytes, tmp_bytes, inodes, ptys;
    bool noexec, writable_output_only, verbose;
    bool apparmor; /* a profile will be asked for, which takes a /proc to write to */
    bool mounts_given; /* their clones come as descriptors */
    struct coto_setup_path rootfs;
    struct coto_setup_path mounts[COTO_SETUP_MOUNTS];
    unsigned mount_count;
    struct coto_setup_tmpfs tmpfs[COTO_SETUP_MOUNTS];
    unsigned tmpfs_count;
};

/* Appends the frame; strings are borrowed. */
void coto_setup_encode(const struct coto_setup *setup, struct coto_buf *out);
/* Fills *ret_setup with strings of its own; on failure nothing needs freeing. */
int coto_setup_decode(const struct coto_frame *frame, struct coto_setup *ret_setup,
                      struct coto_err *err);
void coto_setup_fini(struct coto_setup *setup);
