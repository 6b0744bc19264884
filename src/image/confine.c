#include "image/image.h"

#include "kernel/caps.h"
#include "kernel/landlock.h"

#include <errno.h>
#include <sys/prctl.h>
#include <unistd.h>

#define CAP_DAC_READ_SEARCH_BIT 2

int image_confine(const char *store, bool reads_all, struct coto_err *err)
{
    const char *writable[] = {store, NULL};
    struct coto_landlock_ask ask = {.abi_max = 7, .writable = writable, .noexec = true};
    uint64_t keep = reads_all && geteuid() == 0 ? (uint64_t)1 << CAP_DAC_READ_SEARCH_BIT : 0;
    int abi;

    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
        return coto_err_set(err, COTO_ERR_WALL, errno, "no new privileges");
    if (coto_caps_keep(keep, err))
        return -1;
    /* A kernel without Landlock has the rest: no link is followed out of the store anyway. */
    return coto_landlock_abi() > 0 ? coto_landlock_apply(&ask, &abi, err) : 0;
}
