/* coto serve's first process. */
#pragma once

#include "base/err.h"
#include "daemon/settings.h"

/* Runs the service with these settings (taken over) until it is told to end; the exit status. */
int coto_keeper_run(struct coto_settings *settings);
/* Reads what a start would read: keys, certificates, the profile. */
int coto_keeper_check(const struct coto_settings *settings, struct coto_err *err);
/* This is --check: what fails from now on fails there. */
void coto_keeper_is_check(void);
/* "coto serve: text" and its remedy on stderr; the exit status of the error. */
int coto_keeper_fail(const struct coto_err *err);
