/* What an EXEC frame asks for. */
#pragma once

#include "base/err.h"
#include "base/str.h"
#include "wire/frame.h"

#include <linux/filter.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/resource.h>

#define INIT_RLIMITS 16

struct init_spec {
    struct coto_strv argv, env, writable, full_paths;
    char *cwd;
    char *apparmor; /* NULL: none */
    bool apparmor_must;
    bool label_now; /* there will be no execve to take it on */
    int labels_fd;
    int keep_fds[4]; /* above 2: stay open until execve, or until the caller closes them */
    bool is_bounded; /* coto_caps_is_bounded was true in this process or its parent */
    uint64_t uid, gid, caps;
    bool has_uid, frames, noexec, own_dev, parked, context, has_resident, kill_on_exit, spares, bye_on_exit;
    uint64_t ignored; /* signals the caller may have left ignored, bit 0 is signal 1 */
    uint64_t umask_bits, timeout_ms, landlock_abi;
    struct {
        int resource;
        struct rlimit limit;
    } rlimits[INIT_RLIMITS];
    int rlimit_count;
    struct sock_filter *filter;
    unsigned short filter_len;
    const struct sock_fprog *watching; /* the same for who can have a listener (kernel/sockwatch.h), or NULL */
};

/* Start with a zeroed struct; release it in any case. */
int init_spec_parse(const struct coto_frame *frame, struct init_spec *spec, struct coto_err *err);
/* What RESIDENT names: has_resident. The caller releases it in any case. */
int init_spec_resident(const struct coto_frame *frame, struct coto_strv *ret_argv);
void init_spec_fini(struct init_spec *spec);
