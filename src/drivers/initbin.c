#include "drivers/initbin.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#ifndef COTO_LIBEXECDIR
#define COTO_LIBEXECDIR "/usr/local/libexec/coto"
#endif

int coto_initbin_open(struct coto_err *err)
{
    char path[4096];
    ssize_t n = readlink("/proc/self/exe", path, sizeof path - 16);
    int fd = -1;

    while (n > 0 && path[n - 1] != '/')
        n--;
    if (n > 0) {
        memcpy(path + n, "coto-init", 10);
        fd = open(path, O_RDONLY | O_CLOEXEC);
    }
    if (fd < 0)
        fd = open(COTO_LIBEXECDIR "/coto-init", O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        coto_err_set(err, COTO_ERR_SYSTEM, errno, "find coto-init beside coto or in %s",
                     COTO_LIBEXECDIR);
        coto_err_remedy(err, "install both programs: make install");
    }
    return fd;
}
