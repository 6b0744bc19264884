/* Which host ids a sandbox runs as, and writing its user namespace's maps.
 *
 * With privilege over a range of ids every sandbox gets a host uid of its own
 * from 1879048192 on (outside every range that distributions or systemd hand
 * out), in an order that only this process knows: nothing shared, no lock. Every call chooses anew. Without it the caller's single id is mapped, or one of its
 * subordinate ids by the set-uid helpers newuidmap and newgidmap.
 */
#pragma once

#include "base/err.h"

#include <stdbool.h>
#include <sys/types.h>

#define COTO_IDMAP_BASE 1879048192u

enum coto_idmap_kind { COTO_MAP_RANGE, COTO_MAP_SINGLE, COTO_MAP_SUBUID };

struct coto_idmap {
    enum coto_idmap_kind kind;
    uid_t host_uid;
    gid_t host_gid;
    bool is_shared; /* others may have the same: of so few ids none is a sandbox's own */
    char why[160];  /* SINGLE or is_shared: why nothing better */
};

/* mode is COTO_IDMAP_AUTO, _SINGLE or _SUBUID of schema/options.h. */
int coto_idmap_choose(int mode, struct coto_idmap *ret_map, struct coto_err *err);
/* Whether the caller has subordinate ids, and the set-uid helpers work for it. */
bool coto_idmap_has_helpers(void);
/* Writes the maps of a process that has just got a user namespace. */
int coto_idmap_write(const struct coto_idmap *map, pid_t pid, uid_t uid, gid_t gid,
                     struct coto_err *err);

/* The texts it is chosen by, each for one kind of id; 0: there is none. */

/* An id inside the ranges of a map in /proc that this process may map: from COTO_IDMAP_BASE on an
 * ordinary host, the upper end of the largest range inside a container. */
unsigned coto_idmap_pick(const char *text, unsigned number, struct coto_idmap *map);
/* One of the caller's range in /etc/subuid or /etc/subgid; name NULL: it has none. */
unsigned coto_idmap_subordinate(const char *text, uid_t uid, const char *name, unsigned number,
                                struct coto_idmap *map);
