/* isolation_level high: what the settings say of it, and whether this host has it. */
#pragma once

#include "api/api.h"
#include "daemon/settings.h"

struct coto_api_high coto_high_of(const struct coto_settings *settings);
/* Whether this host could make a container of the settings' level high, without making one. May take a
 * second: runtimes and engines are asked. */
int coto_high_check(const struct coto_settings *settings, struct coto_err *err);
/* Says on stderr when the operator has set up level high and it cannot be had. */
void coto_high_warn(const struct coto_settings *settings);
/* The same beside the caller, in a process that ends by itself; nothing of a service is open yet. */
void coto_high_warn_beside(const struct coto_settings *settings);
