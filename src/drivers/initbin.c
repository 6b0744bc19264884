#include "drivers/initbin.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

#ifndef COTO_LIBEXECDIR
#define COTO_LIBEXECDIR "/usr/local/libexec/coto"
#endif

static int open_beside(char *path, size_t len, size_t size)
{
    while (len > 0 && path[len - 1] != '/')
        len--;
    if (len == 0 || len + sizeof "coto-init" > size)
        return -1;
    memcpy(path + len, "coto-init", sizeof "coto-init");
    return open(path, O_RDONLY | O_CLOEXEC);
}

int coto_initbin_open(struct coto_err *err)
{
    char path[4096] = "";
    const char *started_as = (const char *)getauxval(AT_EXECFN); /* NOLINT: a pointer by contract */
    int fd = -1;

    /* The name we were started by is there for nothing; the link behind it, for when
     * that is a link, costs a walk through procfs. */
    size_t len = started_as && started_as[0] == '/' ? strlen(started_as) : 0;
    if (len > 0 && len < sizeof path) {
        memcpy(path, started_as, len);
        fd = open_beside(path, len, sizeof path);
    }
    if (fd < 0) {
        ssize_t n = readlink("/proc/self/exe", path, sizeof path);
        fd = open_beside(path, n > 0 ? (size_t)n : 0, sizeof path);
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
