/* A tar archive into a tree that only we can reach. Whatever was at a name is removed
 * first and the new entry made with O_EXCL, so neither a link nor a hard link that came
 * before is ever written through; a name that comes twice is what it was last. */
#include "image/image.h"

#include "base/tar.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define PIECE ((size_t)256 << 10)
#define WHITEOUT ".wh."
#define OPAQUE ".wh..wh..opq"

struct run {
    struct image_unpack *u;
    struct coto_tar_reader reader;
    struct image_place place;
    bool is_layer, only_whiteouts;
    int fd;       /* the file that is being written, or -1: its bytes are not wanted */
    int64_t left; /* of its bytes */
    char *name;   /* for messages */
};

static int cannot_make(const char *name, int number, struct coto_err *err)
{
    coto_err_set(err, number == ENOSPC || number == EDQUOT ? COTO_ERR_LIMIT : COTO_ERR_OUTPUT,
                 number, "image: '%.200s'", name);
    return number == ENOSPC
               ? coto_err_remedy(err, "make room where images are kept, or use --images-dir")
               : -1;
}

static const char *base_of(const char *name)
{
    const char *slash = strrchr(name, '/');

    return slash ? slash + 1 : name;
}

/* Takes away what is at the name; a directory only for something else. */
static int clear(struct run *run, int parent, const char *base, bool for_dir, struct coto_err *err)
{
    struct stat st;

    if (fstatat(parent, base, &st, AT_SYMLINK_NOFOLLOW))
        return errno == ENOENT ? 0 : cannot_make(base, errno, err);
    if (S_ISDIR(st.st_mode) && for_dir)
        return 0;
    if (!S_ISREG(st.st_mode))
        image_place_forget(&run->place); /* others may have come through it */
    int at = dup(parent);
    int failed = at < 0 || coto_path_remove_tree(at, base);
    int saved = errno;
    if (at >= 0)
        close(at);
    return failed ? cannot_make(base, saved, err) : 0;
}

/* The place of a member, free for it: the parent's descriptor (owned) and the last name. */
static int make_room(struct run *run, const char *clean, bool for_dir, const char **ret_base,
                     struct coto_err *err)
{
    int parent = image_place_parent(&run->place, clean, true, ret_base, err);
    coto_auto_fd own = parent < 0 ? -1 : fcntl(parent, F_DUPFD_CLOEXEC, 0);

    if (own < 0)
        return parent < 0 ? -1 : cannot_make(clean, errno, err);
    return clear(run, own, *ret_base, for_dir, err) ? -1 : coto_take_fd(&own);
}

static bool is_whiteout(const struct run *run, const char *clean)
{
    return run->is_layer && strncmp(base_of(clean), WHITEOUT, strlen(WHITEOUT)) == 0;
}

/* ---- whiteouts ---- */

static int empty(int parent, const char *path, struct coto_err *err)
{
    coto_auto_fd dir = image_tree_open(parent, path, O_RDONLY | O_DIRECTORY);
    coto_auto_strv names = {0};

    if (dir < 0)
        return errno == ENOENT || errno == ENOTDIR ? 0 : cannot_make(path, errno, err);
    if (image_dir_names(dir, &names))
        return cannot_make(path, errno, err);
    for (size_t i = 0; i < names.count; i++)
        if (coto_path_remove_tree(dir, names.items[i]))
            return cannot_make(names.items[i], errno, err);
    return 0;
}

static int white_out(struct run *run, const char *clean, struct coto_err *err)
{
    const char *base = base_of(clean);
    const char *hidden = base + strlen(WHITEOUT);
    coto_auto_buf dir = {0};

    image_place_forget(&run->place);
    if (strcmp(base, OPAQUE) == 0) {
        coto_buf_add(&dir, clean, (size_t)(base - clean));
        return empty(run->u->root, dir.len ? dir.data : ".", err);
    }
    if (strncmp(hidden, WHITEOUT, strlen(WHITEOUT)) == 0)
        return 0; /* bookkeeping of an old union file system */
    if (!*hidden || strcmp(hidden, ".") == 0 || strcmp(hidden, "..") == 0)
        return coto_err_set(err, COTO_ERR_INPUT, 0, "layer: '%.200s' takes away nothing", clean);
    int parent = image_place_parent(&run->place, clean, false, &base, err);
    if (parent < 0)
        return errno == ENOENT && !err->kind ? 0 : -1;
    if (coto_path_remove_tree(parent, hidden) && errno != ENOENT)
        return cannot_make(clean, errno, err);
    return 0;
}

/* ---- members ---- */

static int end_file(struct run *run, struct coto_err *err)
{
    struct timespec times[2] = {{.tv_nsec = UTIME_OMIT}, {.tv_sec = run->reader.mtime}};

    if (run->fd < 0)
        return 0;
    if (fchmod(run->fd, image_file_mode(run->reader.mode)) || futimens(run->fd, times))
        return cannot_make(run->name, errno, err);
    coto_own_close(&run->fd);
    return 0;
}

static int on_file(void *arg, const char *name, bool executable, int64_t bytes,
                   struct coto_err *err)
{
    struct run *run = arg;
    coto_auto_buf clean = {0};
    const char *base;

    (void)executable;
    run->left = bytes;
    if (image_name_clean(name, &clean, err))
        return -1;
    if (run->only_whiteouts)
        return is_whiteout(run, clean.data) ? white_out(run, clean.data, err) : 0;
    if (is_whiteout(run, clean.data))
        return 0;
    coto_auto_fd parent = make_room(run, clean.data, false, &base, err);
    if (parent < 0)
        return -1;
    run->fd = openat(parent, base, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (run->fd < 0)
        return cannot_make(clean.data, errno, err);
    free(run->name);
    run->name = coto_take_ptr(clean.data);
    run->u->counts.files++;
    run->u->counts.bytes += bytes;
    run->u->counts.set_id += (run->reader.mode & 06000) != 0;
    return bytes == 0 ? end_file(run, err) : 0;
}

static int on_data(void *arg, const void *data, size_t len, struct coto_err *err)
{
    struct run *run = arg;

    run->left -= (int64_t)len;
    if (run->fd < 0)
        return 0;
    if (coto_fd_write_all(run->fd, data, len))
        return cannot_make(run->name, errno, err);
    return run->left == 0 ? end_file(run, err) : 0;
}

/* What comes in its place hides what is there; of a directory only `for_dir` something else. */
static int hide(struct run *run, const char *clean, bool for_dir, struct coto_err *err)
{
    const char *base;
    int parent = image_place_parent(&run->place, clean, false, &base, err);

    if (parent < 0)
        return err->kind ? -1 : 0;
    coto_auto_fd own = fcntl(parent, F_DUPFD_CLOEXEC, 0);
    return own < 0 ? cannot_make(clean, errno, err) : clear(run, own, base, for_dir, err);
}

/* Whether this member is to be made now: 1, 0 or -1; its clean name. */
static int is_wanted(struct run *run, const char *name, struct coto_buf *clean, struct coto_err *err)
{
    if (image_name_clean(name, clean, err))
        return -1;
    return !run->only_whiteouts && !is_whiteout(run, clean->data);
}

static int on_directory(void *arg, const char *name, struct coto_err *err)
{
    struct run *run = arg;
    coto_auto_buf clean = {0};
    const char *base;

    int wanted = is_wanted(run, name, &clean, err);
    /* before any whiteout below is looked at: else that would take away what a link led to */
    if (wanted == 0 && run->only_whiteouts)
        return hide(run, clean.data, true, err);
    if (wanted != 1)
        return wanted;
    coto_auto_fd parent = make_room(run, clean.data, true, &base, err);
    if (parent < 0)
        return -1;
    if (mkdirat(parent, base, 0700) && errno != EEXIST)
        return cannot_make(clean.data, errno, err);
    coto_auto_fd dir = coto_path_open_beneath(parent, base, O_RDONLY | O_DIRECTORY, 0);
    if (dir < 0 || fchmod(dir, image_dir_mode(run->reader.mode)))
        return cannot_make(clean.data, errno, err);
    run->u->counts.dirs++;
    return 0;
}

/* The file that a hard link stands for: one of the tree, and no link itself. */
static int find_target(struct run *run, const char *name, const char *target, struct stat *ret_st,
                       struct coto_err *err)
{
    coto_auto_buf clean = {0};
    const char *base;

    if (image_name_clean(target, &clean, err))
        return coto_err_wrap(err, "the hard link '%.100s'", name);
    coto_auto_fd fd = -1;
    int parent = image_place_parent(&run->place, clean.data, false, &base, err);
    if (parent >= 0)
        fd = coto_path_open_beneath(parent, base, O_PATH | O_NOFOLLOW, 0);
    if (fd >= 0 && fstat(fd, ret_st) == 0 && S_ISREG(ret_st->st_mode))
        return coto_take_fd(&fd);
    *err = (struct coto_err){0};
    coto_err_set(err, COTO_ERR_INPUT, 0,
                 "archive: '%.100s' is a hard link to '%.100s', which is no file of it", name,
                 target);
    return coto_err_remedy(err, "it is not the archive of a root file system, or a hostile one");
}

static int make_hard_link(struct run *run, const char *clean, const char *target,
                          struct coto_err *err)
{
    char path[32];
    struct stat st, old;
    const char *base;
    coto_auto_fd from = find_target(run, clean, target, &st, err);

    if (from < 0)
        return -1;
    int at = image_place_parent(&run->place, clean, true, &base, err);
    if (at < 0)
        return -1;
    if (fstatat(at, base, &old, AT_SYMLINK_NOFOLLOW) == 0 && old.st_ino == st.st_ino &&
        old.st_dev == st.st_dev)
        return 0; /* to itself */
    /* it is listed, read and copied as often as it has names: a small archive must not be a large image */
    if (st.st_size > run->reader.sink.max_bytes - run->reader.bytes) {
        coto_err_set(err, COTO_ERR_INPUT, 0, "archive: with its hard links it is larger than the limit");
        return coto_err_remedy(err, "--max-size raises it");
    }
    run->reader.bytes += st.st_size;
    coto_auto_fd parent = make_room(run, clean, false, &base, err);
    if (parent < 0)
        return -1;
    snprintf(path, sizeof path, "/proc/self/fd/%d", from);
    if (linkat(AT_FDCWD, path, parent, base, AT_SYMLINK_FOLLOW))
        return cannot_make(clean, errno, err);
    run->u->counts.files++;
    return 0;
}

static int on_link(void *arg, const char *name, const char *target, bool is_symbolic,
                   struct coto_err *err)
{
    struct run *run = arg;
    coto_auto_buf clean = {0};
    const char *base;

    int wanted = is_wanted(run, name, &clean, err);
    if (wanted != 1)
        return wanted;
    if (!is_symbolic)
        return make_hard_link(run, clean.data, target, err);
    coto_auto_fd parent = make_room(run, clean.data, false, &base, err);
    if (parent < 0)
        return -1;
    if (symlinkat(target, parent, base))
        return cannot_make(clean.data, errno, err);
    run->u->counts.links++;
    return 0;
}

static int on_special(void *arg, const char *name, struct coto_err *err)
{
    struct run *run = arg;
    coto_auto_buf clean = {0};

    int wanted = is_wanted(run, name, &clean, err);
    if (wanted != 1)
        return wanted;
    run->u->counts.skipped++;
    return hide(run, clean.data, false, err);
}

/* ---- the whole ---- */

static int feed(struct run *run, struct image_stream *stream, EVP_MD_CTX *sha, struct coto_err *err)
{
    coto_auto_free char *piece = malloc(PIECE);
    ssize_t n;

    if (!piece)
        return coto_err_set(err, COTO_ERR_LIMIT, ENOMEM, "archive");
    while ((n = image_stream_read(stream, piece, PIECE, err)) > 0) {
        if (EVP_DigestUpdate(sha, piece, (size_t)n) != 1)
            return coto_err_set(err, COTO_ERR_INTERNAL, 0, "SHA-256");
        if (coto_tar_feed(&run->reader, piece, (size_t)n, err))
            return -1;
    }
    return n < 0 ? -1 : coto_tar_end(&run->reader, err);
}

static int read_tar(struct run *run, struct image_stream *stream, char ret_hex[COTO_SHA256_HEX],
                    struct coto_err *err)
{
    const struct coto_tar_sink sink = {
        .file = on_file,
        .data = on_data,
        .directory = on_directory,
        .arg = run,
        .max_bytes = run->u->limits.bytes,
        .max_members = run->u->limits.files,
        .link = on_link,
        .special = on_special,
    };
    unsigned char hash[EVP_MAX_MD_SIZE];
    EVP_MD_CTX *sha = EVP_MD_CTX_new();

    run->fd = -1;
    image_place_init(&run->place, run->u->root);
    coto_tar_reader_init(&run->reader, &sink);
    int failed = !sha || EVP_DigestInit_ex(sha, EVP_sha256(), NULL) != 1
                     ? coto_err_set(err, COTO_ERR_INTERNAL, 0, "SHA-256")
                     : feed(run, stream, sha, err);
    if (!failed && EVP_DigestFinal_ex(sha, hash, NULL) == 1)
        image_hex(hash, 32, ret_hex);
    if (!run->only_whiteouts) {
        run->u->limits.bytes -= run->reader.bytes;
        run->u->limits.files -= run->reader.members;
    }
    EVP_MD_CTX_free(sha);
    coto_tar_reader_fini(&run->reader);
    image_place_fini(&run->place);
    coto_own_close(&run->fd);
    free(run->name);
    if (failed && strncmp(err->remedy, "send a plain tar", 16) == 0)
        coto_err_remedy(
            err, "give a directory, a tar archive, a 'docker save' archive or an OCI layout; "
                 "--max-size and --max-files raise the limits");
    return failed;
}

int image_unpack_whiteouts(struct image_unpack *u, struct image_stream *layer, struct coto_err *err)
{
    struct run run = {.u = u, .is_layer = true, .only_whiteouts = true};
    char hex[COTO_SHA256_HEX];

    return read_tar(&run, layer, hex, err);
}

int image_unpack_tar(struct image_unpack *u, struct image_stream *stream, bool is_layer,
                     char ret_hex[COTO_SHA256_HEX], struct coto_err *err)
{
    struct run run = {.u = u, .is_layer = is_layer};

    return read_tar(&run, stream, ret_hex, err);
}
