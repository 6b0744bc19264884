/* Names of files inside a sandbox, as strangers give them. */
#include "api/api.h"

#include <string.h>

#define PATH_BYTES 4000

static int refuse(struct coto_err *err, const char *why)
{
    coto_err_set(err, COTO_ERR_USAGE, 0, "path: %s", why);
    return coto_err_remedy(
        err, "use a path relative to the workspace, such as data/in.csv, or one below /tmp");
}

static bool is_below(const char *path, const char *dir)
{
    return coto_str_has_prefix(path, dir) && path[strlen(dir)] == '/';
}

/* coto-init opens it beneath a handle and follows no link; here only what no honest client
 * sends is kept out. */
int api_path(const char *workdir, const char *path, struct coto_buf *ret_target,
             struct coto_err *err)
{
    const char *rest = path;

    if (*path == '\0' || strlen(path) > PATH_BYTES)
        return refuse(err, *path ? "is too long" : "is empty");
    if (*path == '/' && !is_below(path, workdir) && !is_below(path, "/tmp"))
        return refuse(err, "is neither below the workspace nor below /tmp");
    for (rest += *path == '/'; rest; rest = strchr(rest, '/')) {
        rest += *rest == '/';
        size_t n = strcspn(rest, "/");
        if (n == 0 || n > 255)
            return refuse(err, n ? "has too long a name in it" : "has an empty name in it");
        if ((n == 1 && rest[0] == '.') || (n == 2 && rest[0] == '.' && rest[1] == '.'))
            return refuse(err, "has '.' or '..' in it");
    }
    if (*path == '/')
        coto_buf_adds(ret_target, path);
    else
        coto_buf_addf(ret_target, "%s/%s", workdir, path);
    return 0;
}
