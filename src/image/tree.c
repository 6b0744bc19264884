/* The listing: a line per entry, directories before what is in them, names in the order of
 * their bytes:
 *
 *   coto image 1
 *   d 0755 usr
 *   f 0755 1234 SHA256 usr/bin/tool
 *   l usr/bin/other -> tool
 *
 * Bytes below 0x21, 0x7f and '\' of names are written \xNN, so a name cannot pretend to be
 * more than one. */
#include "image/image.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#define PIECE ((size_t)256 << 10)

void image_hex(const unsigned char *hash, size_t len, char *ret_hex)
{
    for (size_t i = 0; i < len; i++)
        snprintf(ret_hex + 2 * i, 3, "%02x", hash[i]);
}

static int hash_bytes(int fd, int64_t offset, int64_t size, EVP_MD_CTX *sha)
{
    coto_auto_free char *piece = malloc(PIECE);

    while (piece && size > 0) {
        ssize_t n = pread(fd, piece, size < (int64_t)PIECE ? (size_t)size : PIECE, offset);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0 || EVP_DigestUpdate(sha, piece, (size_t)n) != 1) {
            errno = n < 0 ? errno : EIO;
            return -1;
        }
        offset += n;
        size -= n;
    }
    return piece ? 0 : -1;
}

int image_hash_fd(int fd, int64_t offset, int64_t size, char ret_hex[COTO_SHA256_HEX])
{
    unsigned char hash[EVP_MAX_MD_SIZE];
    EVP_MD_CTX *sha = EVP_MD_CTX_new();
    int failed = !sha || EVP_DigestInit_ex(sha, EVP_sha256(), NULL) != 1 ||
                 hash_bytes(fd, offset, size, sha) || EVP_DigestFinal_ex(sha, hash, NULL) != 1;

    int saved = errno;
    EVP_MD_CTX_free(sha);
    errno = saved;
    if (failed)
        return -1;
    image_hex(hash, 32, ret_hex);
    return 0;
}

static int compare(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

int image_dir_names(int dir, struct coto_strv *ret_names)
{
    int copy = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *list = copy < 0 ? NULL : fdopendir(copy);
    struct dirent *entry;
    int failed = 0;

    if (!list)
        return -1;
    errno = 0;
    while (!failed && (entry = readdir(list)))
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            failed = coto_strv_add(ret_names, entry->d_name);
    failed = failed || errno;
    int saved = errno;
    closedir(list);
    errno = saved;
    if (!failed && ret_names->count)
        qsort(ret_names->items, ret_names->count, sizeof *ret_names->items, compare);
    return failed ? -1 : 0;
}

/* ---- walking ---- */

struct walk {
    struct coto_buf *out; /* the listing, or NULL: a stamp is wanted */
    struct coto_sha256 stamp;
    struct image_counts counts;
    struct coto_buf path;
};

static void add_name(struct coto_buf *out, const char *name)
{
    for (const unsigned char *p = (const unsigned char *)name; *p; p++) {
        if (*p < 0x21 || *p == 0x7f || *p == '\\')
            coto_buf_addf(out, "\\x%02x", *p);
        else
            coto_buf_addc(out, (char)*p);
    }
}

static int list_file(struct walk *w, int dir, const char *name, struct coto_err *err)
{
    coto_auto_fd fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    char hex[COTO_SHA256_HEX];
    struct stat st;

    if (fd < 0 || fstat(fd, &st) || !S_ISREG(st.st_mode) || image_hash_fd(fd, 0, st.st_size, hex))
        return coto_err_set(err, COTO_ERR_INPUT, errno, "image: '%.200s'", coto_buf_str(&w->path));
    coto_buf_addf(w->out, "f %04o %lld %s ", (unsigned)st.st_mode & 07777, (long long)st.st_size,
                  hex);
    add_name(w->out, coto_buf_str(&w->path));
    coto_buf_addc(w->out, '\n');
    w->counts.bytes += st.st_size;
    w->counts.files++;
    return 0;
}

static int list_link(struct walk *w, int dir, const char *name, struct coto_err *err)
{
    char target[4096];
    ssize_t n = readlinkat(dir, name, target, sizeof target - 1);

    if (n < 0)
        return coto_err_set(err, COTO_ERR_INPUT, errno, "image: '%.200s'", coto_buf_str(&w->path));
    target[n] = '\0';
    coto_buf_adds(w->out, "l ");
    add_name(w->out, coto_buf_str(&w->path));
    coto_buf_adds(w->out, " -> ");
    add_name(w->out, target);
    coto_buf_addc(w->out, '\n');
    w->counts.links++;
    return 0;
}

/* Whatever is changed, the time of its change is too, and nobody can set that. */
static void stamp_entry(struct walk *w, const struct stat *st)
{
    char text[256];
    int n = snprintf(text, sizeof text, "%llu %llu %o %u %lld %lld.%09ld %lld.%09ld ",
                     (unsigned long long)st->st_dev, (unsigned long long)st->st_ino, st->st_mode,
                     st->st_uid, (long long)st->st_size, (long long)st->st_mtim.tv_sec,
                     st->st_mtim.tv_nsec, (long long)st->st_ctim.tv_sec, st->st_ctim.tv_nsec);

    coto_sha256_add(&w->stamp, text, (size_t)n);
    coto_sha256_add(&w->stamp, coto_buf_str(&w->path), w->path.len + 1);
}

static int walk_dir(struct walk *w, int dir, int depth, struct coto_err *err);

static int walk_entry(struct walk *w, int dir, const char *name, int depth, struct coto_err *err)
{
    struct stat st;

    if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW))
        return coto_err_set(err, COTO_ERR_INPUT, errno, "image: '%.200s'", coto_buf_str(&w->path));
    if (!w->out)
        stamp_entry(w, &st);
    if (S_ISDIR(st.st_mode)) {
        coto_auto_fd sub = coto_path_open_beneath(dir, name, O_RDONLY | O_DIRECTORY, 0);
        if (sub < 0)
            return coto_err_set(err, COTO_ERR_INPUT, errno, "image: '%.200s'",
                                coto_buf_str(&w->path));
        if (w->out) {
            coto_buf_addf(w->out, "d %04o ", (unsigned)st.st_mode & 07777);
            add_name(w->out, coto_buf_str(&w->path));
            coto_buf_addc(w->out, '\n');
        }
        w->counts.dirs++;
        return walk_dir(w, sub, depth + 1, err);
    }
    if (!w->out)
        return 0;
    if (S_ISLNK(st.st_mode))
        return list_link(w, dir, name, err);
    if (S_ISREG(st.st_mode))
        return list_file(w, dir, name, err);
    return coto_err_set(err, COTO_ERR_FORBIDDEN, 0, "image: '%.200s' is a device, FIFO or socket",
                        coto_buf_str(&w->path));
}

static int walk_dir(struct walk *w, int dir, int depth, struct coto_err *err)
{
    coto_auto_strv names = {0};
    size_t len = w->path.len;

    if (depth > IMAGE_DEPTH_MAX + 1)
        return coto_err_set(err, COTO_ERR_INPUT, 0, "image: over 256 directories deep");
    if (image_dir_names(dir, &names))
        return coto_err_set(err, COTO_ERR_INPUT, errno, "image: '%.200s'", coto_buf_str(&w->path));
    for (size_t i = 0; i < names.count; i++) {
        if (len)
            coto_buf_addc(&w->path, '/');
        coto_buf_adds(&w->path, names.items[i]);
        if (w->path.failed)
            return coto_err_set(err, COTO_ERR_LIMIT, ENOMEM, "image");
        if (walk_entry(w, dir, names.items[i], depth, err))
            return -1;
        w->path.len = len;
        w->path.data[len] = '\0';
    }
    return 0;
}

int image_tree_list(int root, struct coto_buf *ret_listing, struct image_counts *ret_counts,
                    struct coto_err *err)
{
    struct walk w = {.out = ret_listing};

    coto_buf_adds(ret_listing, "coto image 1\n");
    int failed = walk_dir(&w, root, 0, err);
    coto_buf_fini(&w.path);
    if (!failed && ret_listing->failed)
        failed = coto_err_set(err, COTO_ERR_LIMIT, ENOMEM, "image");
    if (!failed && ret_counts)
        *ret_counts = w.counts;
    return failed;
}

int image_tree_stamp(int root, char ret_hex[COTO_SHA256_HEX], struct coto_err *err)
{
    struct walk w = {0};

    coto_sha256_init(&w.stamp);
    int failed = walk_dir(&w, root, 0, err);
    coto_buf_fini(&w.path);
    if (!failed)
        coto_sha256_hex(&w.stamp, ret_hex);
    return failed;
}

/* ---- comparing ---- */

/* What a line is about, for a person: its kind and name. */
static void add_subject(struct coto_buf *out, const char *line, size_t len)
{
    int blanks = line[0] == 'f' ? 4 : line[0] == 'd' ? 2 : 1;
    const char *end = line + len;

    for (; blanks > 0 && line < end; line++)
        blanks -= *line == ' ';
    coto_buf_add(out, line, (size_t)(end - line));
}

void image_tree_difference(const struct coto_buf *wanted, const struct coto_buf *found,
                           struct coto_buf *ret_text)
{
    const char *a = coto_buf_str(wanted), *b = coto_buf_str(found);

    for (;;) {
        size_t m = strcspn(a, "\n"), n = strcspn(b, "\n");
        if (m != n || memcmp(a, b, m) != 0) {
            bool has_b = n > 0;
            add_subject(ret_text, has_b ? b : a, has_b ? n : m);
            return;
        }
        if (!a[m] || !b[n])
            return;
        a += m + 1;
        b += n + 1;
    }
}
