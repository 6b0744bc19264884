/* The members of an image archive, or the files of a layout directory, by name. */
#include "image/image.h"

#include "base/tar.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#define PIECE ((size_t)64 << 10)
#define MEMBERS_MAX 100000
#define NAME_LONG 255 /* no document and no layer has a longer name */

struct scan {
    struct image_blobs *blobs;
    int64_t offset; /* where the bytes of a member that begins now lie */
};

static int add_blob(struct scan *scan, const char *name, const char *link, int64_t size,
                    struct coto_err *err)
{
    struct image_blobs *blobs = scan->blobs;

    if (strlen(name) > NAME_LONG || (link && strlen(link) > NAME_LONG))
        return 0; /* nobody asks for it, and a hundred thousand would fill the memory */
    if ((blobs->count & (blobs->count - 1)) == 0) {
        size_t cap = blobs->count ? 2 * blobs->count : 1;
        struct image_blob *grown = realloc(blobs->items, cap * sizeof *grown);
        if (!grown)
            return coto_err_set(err, COTO_ERR_LIMIT, ENOMEM, "archive");
        blobs->items = grown;
    }
    struct image_blob *blob = &blobs->items[blobs->count];
    *blob = (struct image_blob){strdup(name), link ? strdup(link) : NULL, scan->offset, size};
    if (!blob->name || (link && !blob->link)) {
        free(blob->name);
        free(blob->link);
        return coto_err_set(err, COTO_ERR_LIMIT, ENOMEM, "archive");
    }
    blobs->count++;
    return 0;
}

static int on_file(void *arg, const char *name, bool executable, int64_t bytes,
                   struct coto_err *err)
{
    (void)executable;
    return add_blob(arg, name, NULL, bytes, err);
}

static int on_data(void *arg, const void *data, size_t len, struct coto_err *err)
{
    (void)arg;
    (void)data;
    (void)len;
    (void)err;
    return 0;
}

static int on_directory(void *arg, const char *name, struct coto_err *err)
{
    (void)arg;
    (void)name;
    (void)err;
    return 0;
}

static int on_link(void *arg, const char *name, const char *target, bool is_symbolic,
                   struct coto_err *err)
{
    coto_auto_buf path = {0};
    const char *slash = is_symbolic ? strrchr(name, '/') : NULL;

    /* "../ID/layer.tar", as docker writes a layer that it has written before */
    while (slash && strncmp(target, "../", 3) == 0) {
        const char *up = slash;
        while (up > name && up[-1] != '/')
            up--;
        slash = up > name ? up - 1 : NULL;
        target += 3;
    }
    if (slash)
        coto_buf_add(&path, name, (size_t)(slash - name) + 1);
    coto_buf_adds(&path, target);
    return add_blob(arg, name, coto_buf_str(&path), 0, err);
}

/* A block at a time, so that bytes of members are never read. */
static int scan_blocks(int fd, struct coto_tar_reader *reader, struct scan *scan,
                       struct coto_err *err)
{
    char block[COTO_TAR_BLOCK];
    int64_t at = 0;

    while (!reader->is_ended) {
        ssize_t n = pread(fd, block, sizeof block, at);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return coto_err_set(err, COTO_ERR_INPUT, errno, "archive");
        if (n == 0)
            break;
        at += n;
        scan->offset = at;
        if (coto_tar_feed(reader, block, (size_t)n, err))
            return -1;
        at += coto_tar_skip(reader);
    }
    return coto_tar_end(reader, err);
}

static int on_special(void *arg, const char *name, struct coto_err *err)
{
    return on_directory(arg, name, err);
}

int image_blobs_scan(int fd, struct image_blobs *ret_blobs, struct coto_err *err)
{
    struct image_blobs blobs = {.fd = fd};
    struct scan scan = {.blobs = &blobs};
    struct coto_tar_reader reader;
    const struct coto_tar_sink sink = {
        .file = on_file,
        .data = on_data,
        .directory = on_directory,
        .arg = &scan,
        .max_bytes = INT64_MAX,
        .max_members = MEMBERS_MAX,
        .link = on_link,
        .special = on_special,
    };

    coto_tar_reader_init(&reader, &sink);
    int failed = scan_blocks(fd, &reader, &scan, err);
    coto_tar_reader_fini(&reader);
    if (failed)
        image_blobs_fini(&blobs);
    else
        *ret_blobs = blobs;
    return failed;
}

void image_blobs_fini(struct image_blobs *blobs)
{
    for (size_t i = 0; i < blobs->count; i++) {
        free(blobs->items[i].name);
        free(blobs->items[i].link);
    }
    free(blobs->items);
    *blobs = (struct image_blobs){.fd = -1};
}

static const struct image_blob *find(const struct image_blobs *blobs, const char *name)
{
    /* the last of that name, as tar has it; a link to a link is nobody's */
    for (int hops = 0; hops < 2; hops++) {
        const struct image_blob *blob = NULL;
        for (size_t i = blobs->count; i > 0 && !blob; i--)
            if (strcmp(blobs->items[i - 1].name, name) == 0)
                blob = &blobs->items[i - 1];
        if (!blob || !blob->link)
            return blob;
        name = blob->link;
    }
    return NULL;
}

bool image_blobs_has(const struct image_blobs *blobs, const char *name)
{
    struct stat st;

    return blobs->is_dir
               ? fstatat(blobs->fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(st.st_mode)
               : find(blobs, name) != NULL;
}

static int missing(const char *name, int number, struct coto_err *err)
{
    coto_err_set(err, COTO_ERR_INPUT, number, "archive: it has no '%.150s'", name);
    return coto_err_remedy(err, "it is not complete: save or copy it again");
}

int image_blobs_open(const struct image_blobs *blobs, const char *name, struct image_part *ret_part,
                     struct coto_err *err)
{
    const struct image_blob *blob = blobs->is_dir ? NULL : find(blobs, name);
    struct stat st;

    if (!blobs->is_dir && !blob)
        return missing(name, 0, err);
    coto_auto_fd fd = blob ? fcntl(blobs->fd, F_DUPFD_CLOEXEC, 0)
                           : coto_path_open_beneath(blobs->fd, name, O_RDONLY | O_NONBLOCK, 0);
    if (fd < 0 || fstat(fd, &st) || !S_ISREG(st.st_mode))
        return missing(name, fd < 0 ? errno : 0, err);
    if (blob && (blob->offset > st.st_size || blob->size > st.st_size - blob->offset))
        return missing(name, 0, err);
    ret_part->offset = blob ? blob->offset : 0;
    ret_part->size = blob ? blob->size : st.st_size;
    ret_part->fd = coto_take_fd(&fd);
    return 0;
}

int image_part_check(const struct image_part *part, const char *hex, const char *name,
                     struct coto_err *err)
{
    char found[COTO_SHA256_HEX];

    if (image_hash_fd(part->fd, part->offset, part->size, found))
        return coto_err_set(err, COTO_ERR_INPUT, errno, "archive: '%.150s'", name);
    if (strcmp(found, hex) == 0)
        return 0;
    coto_err_set(err, COTO_ERR_FORBIDDEN, 0, "archive: '%.100s' is not what its digest says", name);
    return coto_err_remedy(err, "it was changed or damaged: save or copy it again");
}

int image_json_parse(const void *data, size_t len, json_t **ret_json)
{
    int depth = 0;
    bool in_string = false;

    /* jansson goes 2048 deep on our stack; nothing of ours is deeper than a few */
    for (size_t i = 0; i < len; i++) {
        char c = ((const char *)data)[i];
        if (c == '"')
            in_string = !in_string;
        else if (in_string)
            i += c == '\\';
        else
            depth += c == '{' || c == '[' ? 1 : c == '}' || c == ']' ? -1 : 0;
        if (depth > 64)
            return -1;
    }
    *ret_json = json_loadb(data, len, JSON_REJECT_DUPLICATES, NULL);
    return *ret_json ? 0 : -1;
}

json_t *image_blobs_json(const struct image_blobs *blobs, const char *name, const char *hex,
                         struct coto_err *err)
{
    struct image_part part = {.fd = -1};
    json_t *json = NULL;

    if (image_blobs_open(blobs, name, &part, err))
        return NULL;
    coto_auto_fd fd = part.fd;
    size_t size = part.size <= (int64_t)IMAGE_JSON_MAX ? (size_t)part.size : 0;
    /* a file of a layout can be a hole of any size: nobody would wait for its hash */
    if (size && hex && image_part_check(&part, hex, name, err))
        return NULL;
    coto_auto_free char *text = malloc(size + 1);
    if (!text || size == 0 || pread(fd, text, size, part.offset) != (ssize_t)size ||
        image_json_parse(text, size, &json)) {
        coto_err_set(err, COTO_ERR_INPUT, 0, "archive: '%.150s' is no JSON of a sensible size",
                     name);
        coto_err_remedy(err, "it is damaged, or no image: save or copy it again");
        return NULL;
    }
    return json;
}
