/* The service's own processes: what those of them that have rights give up, and what the kernel says of any. */
#pragma once

#include "base/err.h"
#include "base/sha256.h"

#include <stdbool.h>
#include <stdint.h>

/* Travels from the launcher to the front as it is. */
struct coto_self {
    uint64_t uid;
    uint64_t capabilities; /* of the sets but for the bounding set, together */
    uint64_t bounding;     /* what programs it starts could have at most */
    uint64_t seccomp;      /* 2: a filter */
    uint64_t no_new_privs, is_dumpable;
    char filter_hash[COTO_SHA256_HEX]; /* "": none of ours */
};

/* Loads the filter of a tier (kernel/seccomp.h) and has the kernel confirm it. */
int coto_self_filter(int tier, char ret_hash[COTO_SHA256_HEX], struct coto_err *err);

/* Capabilities of the launcher: with CAP_DAC_OVERRIDE where there may be containers, or where cgroups of sandboxes cannot be made
 * without it. The keeper has them too, since it starts launchers, and reads key files of any user again. What they are
 * for: docs/SERVICE.md. */
uint64_t coto_self_launcher_needs(bool has_high);
uint64_t coto_self_keeper_needs(void);

/* Takes on no_new_privs and the filter COTO_SECCOMP_SERVICE, unless that is inherited: then it is the hash that the parent had
 * loaded (NULL: nobody did). Root gives up all capabilities but these. An ordinary user has none to give up; one with
 * subordinate ids does without the rest too, since newuidmap would not work: nothing is done. Called before there is any thread. *ret_self is what the kernel
 * says then. */
int coto_self_confine(uint64_t needs, const char *inherited, struct coto_self *ret_self, struct coto_err *err);

/* What the kernel says of the calling process; the hash is the caller's to fill in. */
void coto_self_look(struct coto_self *ret_self);
