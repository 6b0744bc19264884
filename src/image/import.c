/* Source → tree → store. The source is opened first, then privileges go, then its bytes are
 * looked at. */
#include "image/image.h"

#include "auth/tool.h"
#include "policy/policy.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define PIECE ((size_t)256 << 10)

struct import {
    const struct image_order *order;
    struct image_unpack unpack;
    struct image_store *store;
    struct image_draft draft;
    const char *kind; /* "directory", "tar", "docker", "oci" */
    size_t layer_count;
    int64_t stream_left; /* bytes that all layers together may still be */
    json_t *config;
};

static int64_t stream_max(const struct image_limits *limits)
{
    return limits->bytes + limits->files * 2048 + ((int64_t)16 << 20);
}

/* ---- archives ---- */

/* Bytes that cannot be read twice, or are compressed, go to a nameless file first. */
static int spool(struct import *it, int from, struct image_stream *stream, struct coto_err *err)
{
    coto_auto_fd to = openat(it->draft.fd, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    coto_auto_free char *piece = malloc(PIECE);
    int64_t left = stream_max(&it->order->limits);
    ssize_t n = 0;

    if (to < 0 || !piece)
        return coto_err_set(err, COTO_ERR_OUTPUT, errno, "images: a temporary file");
    while ((n = stream ? image_stream_read(stream, piece, PIECE, err) : read(from, piece, PIECE)) >
           0) {
        if ((left -= n) < 0)
            return coto_err_set(err, COTO_ERR_INPUT, 0,
                                "archive: larger than the limit, see --max-size");
        if (coto_fd_write_all(to, piece, (size_t)n))
            return coto_err_set(err, errno == ENOSPC ? COTO_ERR_LIMIT : COTO_ERR_OUTPUT, errno,
                                "images: a temporary file");
    }
    if (n < 0)
        return err->kind ? -1 : coto_err_set(err, COTO_ERR_INPUT, errno, "'%s'", it->order->source);
    return coto_take_fd(&to);
}

/* An uncompressed, seekable descriptor of the archive. */
static int flatten(struct import *it, int source, struct coto_err *err)
{
    struct stat st;
    image_auto_stream *stream = NULL;
    coto_auto_fd fd = -1;

    if (fstat(source, &st))
        return coto_err_set(err, COTO_ERR_INPUT, errno, "'%s'", it->order->source);
    fd = S_ISREG(st.st_mode) ? fcntl(source, F_DUPFD_CLOEXEC, 0) : spool(it, source, NULL, err);
    if (fd < 0 || fstat(fd, &st))
        return err->kind ? -1 : coto_err_set(err, COTO_ERR_INPUT, errno, "'%s'", it->order->source);
    if (image_stream_open(fd, 0, st.st_size, stream_max(&it->order->limits), &stream, err))
        return -1;
    return image_stream_is_plain(stream) ? coto_take_fd(&fd) : spool(it, fd, stream, err);
}

static int open_layer(const struct import *it, const struct image_part *part,
                      struct image_stream **ret, struct coto_err *err)
{
    return image_stream_open(part->fd, part->offset, part->size, it->stream_left, ret, err);
}

/* One blob can be hundreds of layers: what is read of it counts each time. */
static int spend(struct import *it, const struct image_part *part, struct coto_err *err)
{
    if (part->size <= it->stream_left)
        return 0;
    coto_err_set(err, COTO_ERR_INPUT, 0, "archive: all its layers are larger than the limit");
    return coto_err_remedy(err, "--max-size and --max-files raise the limits");
}

static int apply_layer(struct import *it, const struct image_layers *layers, size_t i,
                       const struct image_part *part, struct coto_err *err)
{
    image_auto_stream *first = NULL;
    image_auto_stream *second = NULL;
    char hex[COTO_SHA256_HEX];

    if (spend(it, part, err))
        return -1;
    if (*layers->digests.items[i] &&
        image_part_check(part, layers->digests.items[i], layers->blobs.items[i], err))
        return -1;
    if (i > 0 &&
        (open_layer(it, part, &first, err) || image_unpack_whiteouts(&it->unpack, first, err)))
        return -1;
    if (open_layer(it, part, &second, err) || image_unpack_tar(&it->unpack, second, true, hex, err))
        return -1;
    it->stream_left -=
        image_stream_total(second) > part->size ? image_stream_total(second) : part->size;
    if (strcmp(hex, layers->diffs.items[i]) == 0)
        return 0;
    coto_err_set(err, COTO_ERR_FORBIDDEN, 0, "archive: layer %zu is not what its digest says",
                 i + 1);
    return coto_err_remedy(err, "it was changed or damaged: save or copy it again");
}

static int apply_layers(struct import *it, const struct image_blobs *blobs, struct coto_err *err)
{
    struct image_layers layers = {0};
    int failed = image_layers_read(blobs, it->order->select, &layers, err);

    it->stream_left = stream_max(&it->order->limits);
    for (size_t i = 0; !failed && i < layers.blobs.count; i++) {
        struct image_part part = {.fd = -1};
        failed = image_blobs_open(blobs, layers.blobs.items[i], &part, err) ||
                 apply_layer(it, &layers, i, &part, err);
        coto_own_close(&part.fd);
        if (failed)
            coto_err_wrap(err, "layer %zu", i + 1);
    }
    it->kind = layers.kind;
    it->layer_count = layers.blobs.count;
    it->config = json_incref(layers.config);
    image_layers_fini(&layers);
    return failed ? -1 : 0;
}

static int unpack_plain(struct import *it, int fd, struct coto_err *err)
{
    image_auto_stream *stream = NULL;
    char hex[COTO_SHA256_HEX];
    struct stat st;

    it->kind = "tar";
    if (fstat(fd, &st))
        return coto_err_set(err, COTO_ERR_INPUT, errno, "'%s'", it->order->source);
    if (image_stream_open(fd, 0, st.st_size, stream_max(&it->order->limits), &stream, err))
        return -1;
    return image_unpack_tar(&it->unpack, stream, false, hex, err);
}

static int unpack_archive(struct import *it, int source, struct coto_err *err)
{
    struct image_blobs blobs = {.fd = -1};
    coto_auto_fd fd = flatten(it, source, err);
    struct coto_err ignored = {0};

    if (fd < 0)
        return -1;
    /* A root file system may have more members than an image archive: then it is none. */
    bool is_image = image_blobs_scan(fd, &blobs, &ignored) == 0 && image_layers_possible(&blobs);
    int failed = is_image ? apply_layers(it, &blobs, err) : unpack_plain(it, fd, err);
    image_blobs_fini(&blobs);
    return failed;
}

static int take_directory(struct import *it, int source, struct coto_err *err)
{
    struct image_blobs blobs = {.fd = source, .is_dir = true};
    struct stat st, host;

    if (image_layers_possible(&blobs))
        return apply_layers(it, &blobs, err);
    it->kind = "directory";
    if (fstat(source, &st) == 0 && stat("/", &host) == 0 && st.st_dev == host.st_dev &&
        st.st_ino == host.st_ino) {
        coto_err_set(err, COTO_ERR_FORBIDDEN, 0, "import: '%s' is the whole host",
                     it->order->source);
        return coto_err_remedy(err, "import a directory that holds a root file system");
    }
    return image_copy_tree(&it->unpack, source, err);
}

/* ---- the tree as a whole ---- */

/* Mounts go to these names; the driver refuses links there, so say it now. */
static int check_tree(int root, struct coto_err *err)
{
    static const char *const places[] = {"dev", "proc", "sys", "tmp", "etc"};
    struct stat st;
    coto_auto_strv names = {0};

    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        if (fstatat(root, places[i], &st, AT_SYMLINK_NOFOLLOW) || S_ISDIR(st.st_mode))
            continue;
        coto_err_set(err, COTO_ERR_FORBIDDEN, 0,
                     "image: its '%s' is no directory, and a mount there would go astray",
                     places[i]);
        return coto_err_remedy(err, "make it a directory in the root file system");
    }
    if (image_dir_names(root, &names) || names.count == 0) {
        coto_err_set(err, COTO_ERR_INPUT, 0, "image: there is nothing in it");
        return coto_err_remedy(err, "give a root file system: usr, etc and so on at its top");
    }
    return 0;
}

static json_t *describe(const struct import *it)
{
    json_t *meta = json_pack(
        "{s:I, s:s, s:I, s:I, s:I, s:O?, s:O?}", "created", (json_int_t)time(NULL), "kind",
        it->kind, "layers", (json_int_t)it->layer_count, "skipped",
        (json_int_t)it->unpack.counts.skipped, "set_id_dropped",
        (json_int_t)it->unpack.counts.set_id, "config", it->config, "recipe", it->order->recipe);
    return meta;
}

static void tell(const struct import *it, const json_t *meta, const char *digest,
                 struct coto_buf *out)
{
    coto_buf_addf(out, "%s\n  sha256:%s\n  %lld files, %.1f MB", it->order->name, digest,
                  (long long)json_integer_value(json_object_get(meta, "files")),
                  (double)json_integer_value(json_object_get(meta, "bytes")) / 1e6);
    if (*image_meta_str(meta, "system")) {
        coto_buf_adds(out, ", ");
        coto_tool_add_visible(out, image_meta_str(meta, "system")); /* a stranger's word */
        coto_buf_addf(out, ", %lld packages",
                      (long long)json_integer_value(json_object_get(meta, "packages")));
    }
    coto_buf_addc(out, '\n');
    if (it->unpack.counts.skipped)
        coto_buf_addf(out, "  left out: %lld devices, FIFOs or sockets\n",
                      (long long)it->unpack.counts.skipped);
    if (it->unpack.counts.set_id)
        coto_buf_addf(out, "  set-id bits dropped: %lld files\n",
                      (long long)it->unpack.counts.set_id);
    coto_buf_addf(out, "Next: coto run --image %s -- /bin/ls -l /\n", it->order->name);
}

static int fill(struct import *it, int source, bool is_dir, struct coto_err *err)
{
    it->unpack = (struct image_unpack){.root = it->draft.rootfs, .limits = it->order->limits};
    if (is_dir ? take_directory(it, source, err) : unpack_archive(it, source, err))
        return -1;
    return check_tree(it->draft.rootfs, err);
}

static int finish(struct import *it, struct coto_buf *ret_told, struct coto_err *err)
{
    json_auto_t *meta = describe(it);
    char digest[COTO_SHA256_HEX];

    if (!meta)
        return coto_err_set(err, COTO_ERR_LIMIT, ENOMEM, "image.json");
    if (image_meta_add_tree(meta, it->draft.rootfs, err) ||
        image_draft_commit(it->store, &it->draft, it->order->name, meta, digest, err))
        return -1;
    tell(it, meta, digest, ret_told);
    return 0;
}

/* A FIFO without a writer is not waited for, and a device has no end. */
static int open_source(const char *source, int *ret_fd, struct coto_err *err)
{
    *ret_fd = strcmp(source, "-") == 0 ? fcntl(0, F_DUPFD_CLOEXEC, 3)
                                       : open(source, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (*ret_fd >= 0)
        return 0;
    return errno == ENOTDIR ? coto_policy_open_input("archive", source, ret_fd, err)
                            : coto_err_set(err, COTO_ERR_INPUT, errno, "'%s'", source);
}

int image_import(const struct image_order *order, struct coto_buf *ret_told, struct coto_err *err)
{
    struct coto_image_ref ref;
    image_auto_store store = {.fd = -1};
    struct import it = {.store = &store};
    struct image_order named = *order;
    struct stat st;

    if (coto_image_ref_parse(order->name, &ref, err))
        return -1;
    if (*ref.digest || !*ref.name)
        return coto_err_set(err, COTO_ERR_USAGE, 0,
                            "image '%s': a name, not a digest, is what an import gets",
                            order->name);
    named.name = ref.name;
    it.order = &named;
    coto_auto_fd source = -1;
    if (open_source(order->source, &source, err) || fstat(source, &st))
        return coto_err_remedy(err, "give a directory, a tar archive, a 'docker save' archive or "
                                    "an OCI layout; - is stdin");
    if (image_store_open(order->dir, &store, err) ||
        image_confine(store.path, S_ISDIR(st.st_mode), err) ||
        image_draft_begin(&store, &it.draft, err))
        return -1;
    int failed = fill(&it, source, S_ISDIR(st.st_mode), err) || finish(&it, ret_told, err);
    image_draft_drop(&store, &it.draft);
    json_decref(it.config);
    return failed ? -1 : 0;
}
