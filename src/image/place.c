/* Where a member of an archive goes. Links that the archive itself brought are followed as
 * the program would see them, with the tree as the root, and never out of it:
 * RESOLVE_IN_ROOT, the way back from CVE-2018-15664 and its kin. The last component is
 * never followed at all. */
#include "image/image.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef SYS_openat2
#define SYS_openat2 437
#endif
#define RESOLVE_NO_XDEV_BIT 0x01
#define RESOLVE_NO_MAGICLINKS_BIT 0x02
#define RESOLVE_IN_ROOT_BIT 0x10

int image_tree_open(int root, const char *path, int flags)
{
    struct {
        uint64_t flags, mode, resolve;
    } how = {
        .flags = (uint64_t)(unsigned)(flags | O_CLOEXEC),
        .resolve = RESOLVE_IN_ROOT_BIT | RESOLVE_NO_MAGICLINKS_BIT | RESOLVE_NO_XDEV_BIT,
    };
    return (int)syscall(SYS_openat2, root, path, &how, sizeof how);
}

void image_place_init(struct image_place *place, int root)
{
    *place = (struct image_place){.root = root, .fd = -1};
}

void image_place_fini(struct image_place *place)
{
    image_place_forget(place);
}

void image_place_forget(struct image_place *place)
{
    coto_own_close(&place->fd);
    free(place->cached);
    place->cached = NULL;
}

static int bad_name(const char *name, const char *why, struct coto_err *err)
{
    coto_err_set(err, COTO_ERR_INPUT, 0, "archive: '%.200s' %s", name, why);
    return coto_err_remedy(err, "it is not the archive of a root file system, or a hostile one");
}

int image_name_clean(const char *name, struct coto_buf *ret_clean, struct coto_err *err)
{
    int depth = 0;

    if (*name == '/')
        return bad_name(name, "is an absolute path", err);
    for (const char *p = name; *p;) {
        size_t n = strcspn(p, "/");
        if (n == 2 && p[0] == '.' && p[1] == '.')
            return bad_name(name, "goes up with '..'", err);
        if (n > NAME_MAX)
            return bad_name(name, "has a component over 255 bytes", err);
        if (n > 0 && !(n == 1 && p[0] == '.')) {
            if (++depth > IMAGE_DEPTH_MAX)
                return bad_name(name, "is over 256 directories deep", err);
            if (ret_clean->len)
                coto_buf_addc(ret_clean, '/');
            coto_buf_add(ret_clean, p, n);
        }
        p += n + (p[n] == '/');
    }
    if (ret_clean->failed)
        return coto_err_set(err, COTO_ERR_LIMIT, ENOMEM, "archive");
    if (ret_clean->len == 0)
        return bad_name(name, "is no name", err);
    return ret_clean->len >= PATH_MAX ? bad_name(name, "is over 4095 bytes", err) : 0;
}

/* The next directory on the way: `path` is all of it so far, `name` its last component. */
static int step(const struct image_place *place, int above, const char *path, const char *name,
                bool make)
{
    int fd = image_tree_open(place->root, path, O_PATH | O_DIRECTORY);

    if (fd >= 0 || errno != ENOENT || !make)
        return fd;
    if (mkdirat(above, name, 0755) && errno != EEXIST)
        return -1;
    return image_tree_open(place->root, path, O_PATH | O_DIRECTORY);
}

/* Opens the directory `path`, component by component when some are missing. */
static int open_parent(const struct image_place *place, char *path, bool make)
{
    int at = image_tree_open(place->root, path, O_PATH | O_DIRECTORY);

    if (at >= 0 || errno != ENOENT || !make)
        return at;
    at = fcntl(place->root, F_DUPFD_CLOEXEC, 0);
    for (char *p = path; at >= 0 && *p;) {
        char *end = p + strcspn(p, "/");
        char kept = *end;
        *end = '\0';
        int next = step(place, at, path, p, make);
        *end = kept;
        int saved = errno;
        close(at);
        errno = saved;
        at = next;
        p = end + (kept == '/');
    }
    return at;
}

int image_place_parent(struct image_place *place, const char *clean, bool make,
                       const char **ret_base, struct coto_err *err)
{
    const char *slash = strrchr(clean, '/');
    size_t len = slash ? (size_t)(slash - clean) : 0;

    *ret_base = slash ? slash + 1 : clean;
    if (!slash)
        return place->root;
    if (place->cached && strlen(place->cached) == len && memcmp(place->cached, clean, len) == 0)
        return place->fd;
    image_place_forget(place);
    char *path = strndup(clean, len);
    int fd = path ? open_parent(place, path, make) : -1;
    if (fd < 0) {
        int saved = errno;
        free(path);
        errno = saved;
        if (saved == ENOENT && !make)
            return -1;
        coto_err_set(err, COTO_ERR_INPUT, saved, "archive: the directory of '%.200s'", clean);
        return coto_err_remedy(
            err, "something that is no directory, or a link to none, lies on its way");
    }
    place->cached = path;
    place->fd = fd;
    return fd;
}
