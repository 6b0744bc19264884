#include "drivers/initbin.h"

#include "policy/helper.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/auxv.h>

/* The name we were started by is there for nothing; coto_helper_find, which sees
 * through links, costs a walk through procfs. */
static int open_beside_name(void)
{
    static const char *const places[] = {"coto-init", COTO_LIBEXEC_FROM_BIN "/coto-init"};
    const char *name = (const char *)getauxval(AT_EXECFN); /* NOLINT: a pointer by contract */
    const char *slash = name && name[0] == '/' ? strrchr(name, '/') : NULL;
    char path[4096];
    int fd = -1;

    for (size_t i = 0; i < 2 && slash && fd < 0; i++) {
        int n = snprintf(path, sizeof path, "%.*s/%s", (int)(slash - name), name, places[i]);
        if (n > 0 && (size_t)n < sizeof path)
            fd = open(path, O_RDONLY | O_CLOEXEC);
    }
    return fd;
}

int coto_initbin_open(struct coto_err *err)
{
    char path[4096];
    int fd = open_beside_name();

    if (fd < 0 && coto_helper_find("coto-init", path, sizeof path) == 0)
        fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        int saved = errno;
        coto_helper_places(path, sizeof path);
        coto_err_set(err, COTO_ERR_SYSTEM, saved, "find coto-init in %s", path);
        coto_err_remedy(err, "install both programs: make install");
    }
    return fd;
}

int coto_initbin_died(struct coto_err *err)
{
    coto_err_set(err, COTO_ERR_LIMIT, 0, "coto-init ended before it was ready");
    return coto_err_remedy(err, "somebody has killed it, or the host is out of memory: try again");
}
