#include "base/outfile.h"

#include "base/fd.h"
#include "base/own.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

bool coto_outfile_is_safe(const char *name, size_t len)
{
    if (len == 0 || len > 4000 || name[0] == '/' || memchr(name, 0, len))
        return false;
    for (const char *p = name; p; p = strchr(p, '/')) {
        p += *p == '/';
        size_t n = strcspn(p, "/");
        if (n == 0 || n > 255 || (n == 1 && p[0] == '.') || (n == 2 && p[0] == '.' && p[1] == '.'))
            return false;
        if (!p[n])
            break;
    }
    return true;
}

void coto_outfile_remove(int dir, const char *name)
{
    coto_auto_free char *copy = strdup(name);
    char *slash = copy ? strrchr(copy, '/') : NULL;

    if (slash)
        *slash = '\0';
    coto_auto_fd parent =
        copy ? coto_path_open_beneath(dir, slash ? copy : ".", O_PATH | O_DIRECTORY, 0) : -1;
    if (parent >= 0)
        unlinkat(parent, slash ? slash + 1 : name, 0);
}

int coto_outfile_create(int dir, const char *name)
{
    if (coto_path_make_parents(dir, name, 0755))
        return -1;
    int fd = coto_path_open_beneath(dir, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0644);
    if (fd < 0 && errno == EEXIST) {
        /* Of an earlier run: replaced, as the caller asked for this directory. */
        coto_outfile_remove(dir, name);
        fd = coto_path_open_beneath(dir, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0644);
    }
    return fd;
}
