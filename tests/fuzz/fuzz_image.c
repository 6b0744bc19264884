/* Root file systems as strangers pack them: tar members with links and whiteouts into a tree,
 * and the documents of image archives. Nothing outside the tree is made or changed, and what came
 * of it is a tree that can be listed. */
#include "image/image.h"
#include "scratch.h"
#include "tarsum.h"

#include <stdint.h>
#include <sys/mman.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define BYTES 100000
#define FILES 64

/* Twice: as a first layer and as one above it. */
static void unpack(int fd, size_t size, int tree)
{
    struct image_unpack u = {.root = tree, .limits = {BYTES, FILES}};
    struct coto_err err = {0};
    char hex[COTO_SHA256_HEX];

    for (int layer = 0; layer < 2 && !err.kind; layer++) {
        image_auto_stream *first = NULL;
        image_auto_stream *second = NULL;
        if (image_stream_open(fd, 0, (int64_t)size, BYTES * 2, &first, &err) ||
            image_unpack_whiteouts(&u, first, &err) ||
            image_stream_open(fd, 0, (int64_t)size, BYTES * 2, &second, &err) ||
            image_unpack_tar(&u, second, true, hex, &err))
            break;
    }
    if (u.limits.bytes < 0 || u.counts.bytes > BYTES)
        abort();
}

static void check(int tree)
{
    coto_auto_buf listing = {0};
    struct coto_err err = {0};

    if (image_tree_list(tree, &listing, NULL, &err))
        abort();
    scratch_check(tree);
    scratch_check_outside();
}

static void read_documents(int fd)
{
    struct image_blobs blobs = {.fd = -1};
    struct image_layers layers = {0};
    struct coto_err err = {0};

    if (image_blobs_scan(fd, &blobs, &err))
        return;
    for (size_t i = 0; i < blobs.count; i++) {
        struct image_part part = {.fd = -1};
        if (image_blobs_open(&blobs, blobs.items[i].name, &part, &err) == 0)
            close(part.fd);
    }
    if (image_layers_read(&blobs, NULL, &layers, &err) == 0)
        image_layers_fini(&layers);
    image_blobs_fini(&blobs);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static unsigned serial;
    char name[32];
    uint8_t *copy = malloc(size + 1);
    coto_auto_fd fd = memfd_create("image", MFD_CLOEXEC);

    if (!copy || fd < 0)
        return 0;
    memcpy(copy, data, size);
    mend(copy, size);
    if (write(fd, copy, size) != (ssize_t)size)
        abort();
    free(copy);
    snprintf(name, sizeof name, "tree-%u", serial++);
    if (mkdirat(scratch_root(), name, 0700))
        abort();
    coto_auto_fd tree = openat(scratch_root(), name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    unpack(fd, size, tree);
    check(tree);
    read_documents(fd);
    if (coto_path_remove_tree(scratch_root(), name))
        abort();
    return 0;
}
