#include "policy/helper.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#ifndef COTO_LIBEXECDIR
#define COTO_LIBEXECDIR "/usr/local/libexec/coto"
#endif

const char *coto_helper_dir;

/* Directory of the running program; "" when it cannot be told. */
static void own_dir(char *ret_dir, size_t size)
{
    ssize_t n = readlink("/proc/self/exe", ret_dir, size - 1);

    ret_dir[n > 0 ? n : 0] = '\0';
    char *slash = strrchr(ret_dir, '/');
    if (slash)
        *slash = '\0';
}

static int try_dir(const char *dir, const char *name, char *ret_path, size_t size)
{
    char path[4096];
    int n = snprintf(path, sizeof path, "%s/%s", dir, name);

    if (!*dir || n < 0 || (size_t)n >= sizeof path || (size_t)n >= size || access(path, X_OK))
        return -1;
    memcpy(ret_path, path, (size_t)n + 1);
    return 0;
}

int coto_helper_find(const char *name, char *ret_path, size_t size)
{
    char dir[4096];

    if (coto_helper_dir && try_dir(coto_helper_dir, name, ret_path, size) == 0)
        return 0;
    own_dir(dir, sizeof dir);
    if (try_dir(dir, name, ret_path, size) == 0)
        return 0;
    size_t len = strlen(dir);
    if (len > 0 && snprintf(dir + len, sizeof dir - len, "/" COTO_LIBEXEC_FROM_BIN) > 0 &&
        try_dir(dir, name, ret_path, size) == 0)
        return 0;
    return try_dir(COTO_LIBEXECDIR, name, ret_path, size);
}

void coto_helper_places(char *ret_text, size_t size)
{
    char dir[4096];

    own_dir(dir, sizeof dir);
    snprintf(ret_text, size, "%s%s%s", dir, *dir ? ", " : "", COTO_LIBEXECDIR);
}
