#include "image/image.h"

#include "auth/newfile.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

static int cannot(const char *what, struct coto_err *err)
{
    coto_err_set(err, COTO_ERR_OUTPUT, errno, "images: '%s'", what);
    return coto_err_remedy(err, "use --images-dir DIR for a place where you may write");
}

/* ---- the store ---- */

static int make_path(const char *path)
{
    coto_auto_free char *copy = strdup(path);

    for (char *p = copy ? copy + 1 : NULL; p && (p = strchr(p, '/')); *p++ = '/') {
        *p = '\0';
        if (mkdir(copy, 0755) && errno != EEXIST)
            return -1;
    }
    return !copy || (mkdir(copy, 0755) && errno != EEXIST) ? -1 : 0;
}

int image_store_open(const char *dir, struct image_store *ret_store, struct coto_err *err)
{
    static const char *const parts[] = {"names", "sha256", "tmp"};
    coto_auto_strv stores = {0};

    if (coto_image_stores(dir, &stores, err))
        return -1;
    const char *path = stores.items[0]; /* the caller's own comes first */
    if (make_path(path))
        return cannot(path, err);
    coto_auto_fd fd = coto_image_store_open(path, err);
    if (fd < 0)
        return -1;
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++)
        if (mkdirat(fd, parts[i], i == 2 ? 0700 : 0755) && errno != EEXIST)
            return cannot(path, err);
    /* the umask of the caller is not what others' runs depend on */
    if (geteuid() == 0 && (fchmodat(fd, "names", 0755, 0) || fchmodat(fd, "sha256", 0755, 0)))
        return cannot(path, err);
    ret_store->path = strdup(path);
    if (!ret_store->path)
        return coto_err_set(err, COTO_ERR_LIMIT, ENOMEM, "images");
    ret_store->fd = coto_take_fd(&fd);
    return 0;
}

void image_store_close(struct image_store *store)
{
    if (store->path)
        coto_own_close(&store->fd);
    free(store->path);
    *store = (struct image_store){.fd = -1};
}

/* Held while names and trees change; a descriptor to close. */
static int lock(const struct image_store *store, struct coto_err *err)
{
    coto_auto_fd fd = openat(store->fd, "lock", O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);

    if (fd < 0 || flock(fd, LOCK_EX))
        return cannot("lock", err);
    return coto_take_fd(&fd);
}

/* ---- drafts ---- */

/* What a dead maker left: nobody holds its lock. */
static void sweep(int tmp)
{
    coto_auto_strv names = {0};

    if (image_dir_names(tmp, &names))
        return;
    for (size_t i = 0; i < names.count; i++) {
        coto_auto_fd dir = coto_path_open_beneath(tmp, names.items[i], O_RDONLY | O_DIRECTORY, 0);
        if (dir >= 0 && flock(dir, LOCK_EX | LOCK_NB) == 0)
            coto_path_remove_tree(tmp, names.items[i]);
    }
}

static int make_draft(int tmp, struct image_draft *draft)
{
    unsigned char random[16];

    if (getrandom(random, sizeof random, 0) != sizeof random)
        return -1;
    image_hex(random, sizeof random, draft->name);
    if (mkdirat(tmp, draft->name, 0755))
        return -1;
    draft->fd = coto_path_open_beneath(tmp, draft->name, O_RDONLY | O_DIRECTORY, 0);
    if (draft->fd < 0 || fchmod(draft->fd, 0755) || flock(draft->fd, LOCK_EX | LOCK_NB) ||
        mkdirat(draft->fd, "rootfs", 0755) || mkdirat(draft->fd, "signatures", 0755))
        return -1;
    draft->rootfs = coto_path_open_beneath(draft->fd, "rootfs", O_RDONLY | O_DIRECTORY, 0);
    return draft->rootfs < 0 || fchmod(draft->rootfs, 0755) ? -1 : 0;
}

int image_draft_begin(const struct image_store *store, struct image_draft *ret_draft,
                      struct coto_err *err)
{
    coto_auto_fd held = lock(store, err);
    coto_auto_fd tmp =
        held < 0 ? -1 : coto_path_open_beneath(store->fd, "tmp", O_RDONLY | O_DIRECTORY, 0);

    *ret_draft = (struct image_draft){.fd = -1, .rootfs = -1};
    if (held < 0)
        return -1;
    if (tmp < 0)
        return cannot("tmp", err);
    sweep(tmp);
    if (make_draft(tmp, ret_draft) == 0)
        return 0;
    cannot("tmp", err);
    image_draft_drop(store, ret_draft);
    return -1;
}

void image_draft_drop(const struct image_store *store, struct image_draft *draft)
{
    coto_auto_fd tmp = coto_path_open_beneath(store->fd, "tmp", O_RDONLY | O_DIRECTORY, 0);

    if (*draft->name && tmp >= 0)
        coto_path_remove_tree(tmp, draft->name);
    coto_own_close(&draft->rootfs);
    coto_own_close(&draft->fd);
    draft->name[0] = '\0';
}

static int add_counts(json_t *meta, const struct image_counts *counts, const char *digest)
{
    char text[COTO_SHA256_HEX + 8];

    snprintf(text, sizeof text, "sha256:%s", digest);
    return json_object_set_new(meta, "digest", json_string(text)) ||
           json_object_set_new(meta, "files", json_integer(counts->files)) ||
           json_object_set_new(meta, "bytes", json_integer(counts->bytes));
}

static int write_documents(const struct image_draft *draft, const struct coto_buf *listing,
                           json_t *meta, struct coto_err *err)
{
    coto_auto_buf text = {0};
    json_auto_t *again = NULL;
    char *dump = json_dumps(meta, JSON_INDENT(2) | JSON_SORT_KEYS);

    if (!dump)
        return coto_err_set(err, COTO_ERR_LIMIT, ENOMEM, "image.json");
    coto_buf_addf(&text, "%s\n", dump);
    free(dump);
    /* An image whose description cannot be read is in no list. */
    if (text.failed || text.len > IMAGE_JSON_MAX ||
        image_json_parse(coto_buf_str(&text), text.len, &again)) {
        coto_err_set(err, COTO_ERR_INPUT, 0, "image: its configuration is too large or too deep");
        return coto_err_remedy(err, "import it from a directory or a plain tar archive, without one");
    }
    return coto_newfile_write(draft->fd, "listing", 0644, listing, err) ||
           coto_newfile_write(draft->fd, "image.json", 0644, &text, err);
}

/* On disk before it has a name: a power cut must not leave half a tree under its digest. */
static int move_in(const struct image_store *store, struct image_draft *draft, const char *digest,
                   struct coto_err *err)
{
    char from[128], to[128];

    snprintf(from, sizeof from, "tmp/%s", draft->name);
    snprintf(to, sizeof to, "sha256/%s", digest);
    if (syncfs(store->fd))
        return cannot(to, err);
    if (renameat(store->fd, from, store->fd, to) == 0) {
        draft->name[0] = '\0';
        flock(draft->fd, LOCK_UN);
        return 0;
    }
    return errno == EEXIST || errno == ENOTEMPTY ? 0 : cannot(to, err); /* it is there already */
}

int image_store_point(const struct image_store *store, const char *name, const char *digest,
                      struct coto_err *err)
{
    char file[COTO_IMAGE_NAME_MAX + 1];
    coto_auto_buf text = {0};
    coto_auto_fd names = coto_path_open_beneath(store->fd, "names", O_RDONLY | O_DIRECTORY, 0);

    if (names < 0)
        return cannot("names", err);
    coto_image_name_file(name, file);
    coto_buf_addf(&text, "sha256:%s\n", digest);
    return coto_newfile_replace(names, file, 0644, &text, err);
}

int image_draft_commit(const struct image_store *store, struct image_draft *draft, const char *name,
                       json_t *meta, char ret_digest[COTO_SHA256_HEX], struct coto_err *err)
{
    coto_auto_buf listing = {0};
    struct image_counts counts;

    if (image_tree_list(draft->rootfs, &listing, &counts, err))
        return -1;
    coto_sha256_of(coto_buf_str(&listing), listing.len, ret_digest);
    if (add_counts(meta, &counts, ret_digest))
        return coto_err_set(err, COTO_ERR_LIMIT, ENOMEM, "image.json");
    if (write_documents(draft, &listing, meta, err))
        return -1;
    coto_auto_fd held = lock(store, err);
    if (held < 0 || move_in(store, draft, ret_digest, err))
        return -1;
    return image_store_point(store, name, ret_digest, err);
}

/* ---- names ---- */

int image_store_names(int store, struct coto_strv *ret_pairs, struct coto_err *err)
{
    coto_auto_fd dir = coto_path_open_beneath(store, "names", O_RDONLY | O_DIRECTORY, 0);
    coto_auto_strv files = {0};
    char name[COTO_IMAGE_NAME_MAX + 1], digest[COTO_SHA256_HEX];

    if (dir < 0)
        return errno == ENOENT ? 0 : coto_err_set(err, COTO_ERR_INPUT, errno, "images: names");
    if (image_dir_names(dir, &files))
        return coto_err_set(err, COTO_ERR_INPUT, errno, "images: names");
    for (size_t i = 0; i < files.count; i++) {
        if (!coto_image_file_name(files.items[i], name))
            continue;
        int missing = coto_image_resolve(store, name, digest, err);
        if (missing < 0)
            return -1;
        if (missing == 0 && (coto_strv_add(ret_pairs, name) || coto_strv_add(ret_pairs, digest)))
            return coto_err_set(err, COTO_ERR_LIMIT, ENOMEM, "images");
    }
    return 0;
}

/* ---- removing ---- */

static int remove_name(const struct image_store *store, const char *name, struct coto_err *err)
{
    char file[COTO_IMAGE_NAME_MAX + 1], path[COTO_IMAGE_NAME_MAX + 16];

    coto_image_name_file(name, file);
    snprintf(path, sizeof path, "names/%s", file);
    return unlinkat(store->fd, path, 0) && errno != ENOENT ? cannot(path, err) : 0;
}

/* Moved out of sight first, so that it is whole or not there at any time. */
static int remove_tree(const struct image_store *store, const char *digest, bool force,
                       struct coto_err *err)
{
    char from[128], to[128];

    snprintf(from, sizeof from, "sha256/%s", digest);
    snprintf(to, sizeof to, "tmp/%s", digest);
    coto_auto_fd dir = coto_path_open_beneath(store->fd, from, O_RDONLY | O_DIRECTORY, 0);
    if (dir < 0)
        return errno == ENOENT ? 0 : cannot(from, err);
    coto_auto_fd listing = coto_path_open_beneath(dir, "listing", O_RDWR, 0);
    if (listing >= 0 && coto_image_lock(listing, true) && !force) {
        coto_err_set(err, COTO_ERR_LIMIT, 0, "image sha256:%s: a sandbox is using it", digest);
        return coto_err_remedy(
            err, "wait until it has ended, or use --force: its programs will miss their files");
    }
    if (renameat(store->fd, from, store->fd, to))
        return cannot(from, err);
    coto_auto_fd tmp = coto_path_open_beneath(store->fd, "tmp", O_RDONLY | O_DIRECTORY, 0);
    return tmp < 0 || coto_path_remove_tree(tmp, digest) ? cannot(to, err) : 0;
}

static int no_such_name(const struct image_store *store, const char *name, struct coto_err *err)
{
    coto_err_set(err, COTO_ERR_INPUT, 0, "image '%s': there is none of that name in %s", name,
                 store->path);
    return coto_err_remedy(err, "'coto image list' tells which there are");
}

int image_store_remove(const struct image_store *store, const struct coto_image_ref *ref,
                       bool force, bool *ret_gone, struct coto_err *err)
{
    coto_auto_strv pairs = {0};
    size_t others = 0;
    char digest[COTO_SHA256_HEX];
    coto_auto_fd held = lock(store, err);

    memcpy(digest, ref->digest, sizeof digest);
    if (held < 0 || image_store_names(store->fd, &pairs, err))
        return -1;
    if (*ref->name && coto_image_resolve(store->fd, ref->name, digest, err))
        return err->kind ? -1 : no_such_name(store, ref->name, err);
    for (size_t i = 0; i < pairs.count; i += 2)
        others += *ref->name && strcmp(pairs.items[i], ref->name) != 0 &&
                  strcmp(pairs.items[i + 1], digest) == 0;
    *ret_gone = others == 0;
    if (others == 0 && remove_tree(store, digest, force, err))
        return -1;
    for (size_t i = 0; i < pairs.count; i += 2)
        if (strcmp(pairs.items[i + 1], digest) == 0 &&
            (!*ref->name || strcmp(pairs.items[i], ref->name) == 0) &&
            remove_name(store, pairs.items[i], err))
            return -1;
    return 0;
}
