/* The cgroup that somebody else made around a process: a container engine or runtime. Only
 * read, never changed. */
#pragma once

#include "kernel/cgroup.h"

/* Opens the group of a process, if /proc shows one whose path holds `mark` (the container's
 * id: a process number alone may be another's by now). -1 when it is not there or not ours to
 * see. coto_cgroup_stat and coto_cgroup_close take it; nothing else does. */
int coto_cgroup_open_of(pid_t pid, const char *mark, struct coto_cgroup *ret_group);
/* The limits in force there; -1: none, or not readable. */
void coto_cgroup_limits_of(const struct coto_cgroup *group, struct coto_cgroup_applied *ret_limits);
