/* What every program of this sandbox must have at least, as said by whoever made the sandbox:
 * the service's launcher, which does not trust the front that starts the programs. */
#pragma once

#include "init/spec.h"
#include "wire/setup.h"

struct init_floor {
    bool is_set;
    char *filter;
    size_t filter_len;
    uint64_t landlock_abi, caps;
    uint32_t uid, gid;
    bool noexec;
    struct coto_strv writable;
    struct coto_setup_limits limits;
};

/* Takes the filter from *setup. */
int init_floor_take(struct coto_setup *setup, struct init_floor *ret_floor, struct coto_err *err);
/* Refuses a program with less. */
int init_floor_check(const struct init_floor *floor, const struct init_spec *spec,
                     struct coto_err *err);
