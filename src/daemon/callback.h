/* coto-callback, which tells others that an async execution has ended: started by the front
 * before it confines itself. One packet of the socket pair is one call: tenant, NUL, URL, NUL,
 * body. */
#pragma once

#include "daemon/settings.h"

#define COTO_CALLBACK_PACKET 16384
#define COTO_CALLBACK_KEY_MIN 32
#define COTO_CALLBACK_KEY_MAX 4096
#define COTO_CALLBACK_ORIGINS 50
#define COTO_CALLBACK_END_MS 3000

/* *ret_fd: our end; -1 when no origin is set. */
int coto_callback_start(const struct coto_settings *settings, unsigned uid, unsigned gid, int *ret_fd,
                        struct coto_err *err);
/* No more calls come: those that were made are waited for, but not for long. */
void coto_callback_end(int *fd);
/* The key, and the form of the origins. */
int coto_callback_check(const struct coto_settings *settings, struct coto_err *err);
