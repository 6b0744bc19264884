/* The operator's ceilings, from settings to a policy (api/ceiling.c). */
#pragma once

#include "daemon/settings.h"
#include "policy/policy.h"

/* The isolation that level high stands for; COTO_ISOLATION_PROCESS: the operator wants none. */
int coto_high_isolation(const struct coto_settings *settings);
int coto_ceiling_read(const struct coto_settings *settings, struct coto_policy *ret_ceiling,
                      struct coto_err *err);
