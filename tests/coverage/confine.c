/* Linked into coto-serve of the coverage build: its front may write counters from behind its walls. */
#include "daemon/confine.h"

#include <stddef.h>

int __real_coto_confine(unsigned uid, unsigned gid, const char *const *writable,
                        struct coto_confined *ret_confined, struct coto_err *err);
int __wrap_coto_confine(unsigned uid, unsigned gid, const char *const *writable,
                        struct coto_confined *ret_confined, struct coto_err *err);

int __wrap_coto_confine(unsigned uid, unsigned gid, const char *const *writable,
                        struct coto_confined *ret_confined, struct coto_err *err)
{
    const char *more[8] = {COTO_COVERAGE_DIR};

    for (size_t i = 0; i < 6 && writable[i]; i++)
        more[i + 1] = writable[i];
    return __real_coto_confine(uid, gid, more, ret_confined, err);
}
