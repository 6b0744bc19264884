/* The operator's ceilings, from settings to a policy (api/ceiling.c). */
#pragma once

#include "daemon/settings.h"
#include "policy/policy.h"

/* The isolation that level high stands for; COTO_ISOLATION_PROCESS: the operator wants none. */
int coto_high_isolation(const struct coto_settings *settings);
/* What the profiles that requests may name bring along beside sizes: for the launcher, which refuses
 * what none of them has. */
#define COTO_CEILING_IDS 16
#define COTO_CEILING_LISTS 8
struct coto_ceiling_walls {
    uint64_t caps;
    int seccomp; /* the widest tier */
    unsigned idmaps; /* a bit for each kind */
    unsigned levels; /* 1: standard, 2: high */
    struct {
        unsigned uid, gid;
    } ids[COTO_CEILING_IDS];
    int id_count;
    char *modules[COTO_CEILING_LISTS]; /* each list that one of them has, but for the empty one */
    int list_count;
};
void coto_ceiling_walls(const struct coto_settings *settings, const struct coto_policy *ceiling,
                        struct coto_ceiling_walls *ret_walls);
int coto_ceiling_read(const struct coto_settings *settings, struct coto_policy *ret_ceiling,
                      struct coto_err *err);
