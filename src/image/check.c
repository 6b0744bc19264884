/* Whether an image is still what its digest says. */
#include "image/image.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

static int changed(const struct coto_image *image, const char *what, struct coto_err *err)
{
    coto_err_set(err, COTO_ERR_FORBIDDEN, 0,
                 "image sha256:%.12s...: it was changed since it was imported: '%.200s'",
                 image->digest, what);
    return coto_err_remedy(err, "remove it and import it again; find out who wrote to %.150s",
                           image->path);
}

int image_read_listing(const struct coto_image *image, struct coto_buf *listing,
                       struct coto_err *err)
{
    coto_auto_fd fd = coto_path_open_beneath(image->fd, "listing", O_RDONLY, 0);
    char hex[COTO_SHA256_HEX];

    if (fd < 0 || coto_fd_read_all(fd, COTO_BUF_MAX - 1, listing))
        return coto_err_set(err, COTO_ERR_INPUT, errno, "image sha256:%s: listing", image->digest);
    coto_sha256_of(coto_buf_str(listing), listing->len, hex);
    return strcmp(hex, image->digest) == 0 ? 0 : changed(image, "listing", err);
}

/* The stamp is written by whoever may; a reader without permission looks at everything
 * each time. */
static void keep_stamp(const struct coto_image *image, const char *stamp)
{
    coto_auto_fd fd =
        openat(image->fd, "stamp.new", O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0644);

    if (fd >= 0 && coto_fd_write_all(fd, stamp, strlen(stamp)) == 0)
        renameat(image->fd, "stamp.new", image->fd, "stamp");
}

static bool has_stamp(const struct coto_image *image, const char *stamp)
{
    char text[COTO_SHA256_HEX + 1];

    return coto_file_read_at(image->fd, "stamp", text, sizeof text) > 0 && strcmp(text, stamp) == 0;
}

static int compare(const struct coto_image *image, int root, struct coto_err *err)
{
    coto_auto_buf wanted = {0};
    coto_auto_buf found = {0};
    coto_auto_buf what = {0};

    if (image_read_listing(image, &wanted, err) || image_tree_list(root, &found, NULL, err))
        return -1;
    if (wanted.len == found.len && memcmp(wanted.data, found.data, wanted.len) == 0)
        return 0;
    image_tree_difference(&wanted, &found, &what);
    return changed(image, coto_buf_str(&what), err);
}

int image_check_tree(const struct coto_image *image, bool quick, struct coto_err *err)
{
    coto_auto_fd root = coto_path_open_beneath(image->fd, "rootfs", O_RDONLY | O_DIRECTORY, 0);
    char before[COTO_SHA256_HEX];

    if (root < 0)
        return coto_err_set(err, COTO_ERR_INPUT, errno, "image sha256:%s", image->digest);
    /* taken before the content is read: what changes meanwhile is seen next time */
    if (image_tree_stamp(root, before, err))
        return -1;
    if (quick && has_stamp(image, before))
        return 0;
    if (compare(image, root, err))
        return -1;
    keep_stamp(image, before);
    return 0;
}
