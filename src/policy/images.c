#include "policy/images.h"

#include "base/fd.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define PREFIX "sha256:"
#define PREFIX_LEN 7
#define HEX_LEN (COTO_SHA256_HEX - 1)

/* ---- names ---- */

static int bad_ref(const char *text, const char *why, struct coto_err *err)
{
    coto_err_set(err, COTO_ERR_USAGE, 0, "image '%.200s': %s", text, why);
    return coto_err_remedy(err, "NAME[:TAG][@sha256:...], for example ia-libre/sandbox:latest");
}

bool coto_image_is_digest(const char *hex)
{
    return strlen(hex) == HEX_LEN && strspn(hex, "0123456789abcdef") == HEX_LEN;
}

/* Words of letters, digits and . _ -, joined by '/', the last one perhaps with a tag. */
static bool is_name(const char *name)
{
    bool has_tag = false;
    char last = '/';

    for (const char *p = name; *p; last = *p++) {
        bool joins = *p == '/' || *p == ':';
        if (!isalnum((unsigned char)*p) && !strchr("._-/:", *p))
            return false;
        if (!isalnum((unsigned char)last) && !isalnum((unsigned char)*p) &&
            (joins || last == '/' || last == ':' || *p == '.'))
            return false;
        /* "host:5000/name" has a port, not a tag */
        if (*p == ':' && has_tag)
            return false;
        has_tag = *p == ':' || (has_tag && *p != '/');
    }
    return isalnum((unsigned char)last);
}

int coto_image_ref_parse(const char *text, struct coto_image_ref *ret_ref, struct coto_err *err)
{
    struct coto_image_ref ref = {0};
    const char *at = strstr(text, "@" PREFIX);
    const char *digest = at ? at + 1 : strncmp(text, PREFIX, PREFIX_LEN) == 0 ? text : NULL;
    size_t len = at ? (size_t)(at - text) : digest ? 0 : strlen(text);

    if (digest && !coto_image_is_digest(digest + PREFIX_LEN))
        return bad_ref(text, "its digest is not sha256: and 64 digits of 0-9 a-f", err);
    if (digest)
        memcpy(ref.digest, digest + PREFIX_LEN, COTO_SHA256_HEX);
    if (len > COTO_IMAGE_NAME_MAX - sizeof ":latest")
        return bad_ref(text, "its name is over 190 bytes", err);
    memcpy(ref.name, text, len);
    if ((len == 0 && !digest) || (at && len == 0) || (len && !is_name(ref.name)))
        return bad_ref(text, "not the name of an image", err);
    const char *last = strrchr(ref.name, '/');
    if (len && !strchr(last ? last : ref.name, ':'))
        memcpy(ref.name + len, ":latest", sizeof ":latest");
    *ret_ref = ref;
    return 0;
}

void coto_image_name_file(const char *name, char ret_file[COTO_IMAGE_NAME_MAX + 1])
{
    size_t i = 0;

    for (; i < COTO_IMAGE_NAME_MAX && name[i]; i++)
        ret_file[i] = name[i] == '/' ? '+' : name[i];
    ret_file[i] = '\0';
}

bool coto_image_file_name(const char *file, char ret_name[COTO_IMAGE_NAME_MAX + 1])
{
    size_t i = 0;

    for (; i < COTO_IMAGE_NAME_MAX && file[i]; i++)
        ret_name[i] = file[i] == '+' ? '/' : file[i];
    ret_name[i] = '\0';
    return !file[i] && is_name(ret_name);
}

/* ---- stores ---- */

static int add_own_store(struct coto_strv *stores)
{
    const char *data = getenv("XDG_DATA_HOME");
    const char *home = getenv("HOME");
    char path[4096];
    int n = 0;

    if (data && *data == '/')
        n = snprintf(path, sizeof path, "%s/coto/images", data);
    else if (home && *home == '/')
        n = snprintf(path, sizeof path, "%s/.local/share/coto/images", home);
    return n > 0 && (size_t)n < sizeof path ? coto_strv_add(stores, path) : 0;
}

int coto_image_stores(const char *dir, struct coto_strv *ret_stores, struct coto_err *err)
{
    bool is_given = dir && *dir;
    int failed = is_given ? coto_strv_add(ret_stores, dir) : 0;

    if (!is_given && geteuid() != 0)
        failed = add_own_store(ret_stores);
    if (!is_given && !failed)
        failed = coto_strv_add(ret_stores, COTO_IMAGE_SYSTEM_STORE);
    return failed ? coto_err_set(err, COTO_ERR_LIMIT, ENOMEM, "images") : 0;
}

/* Who can write there decides what runs as whom: root does not take another's word. */
int coto_image_store_open(const char *store, struct coto_err *err)
{
    coto_auto_fd fd = open(store, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    struct stat st;

    if (fd < 0 || fstat(fd, &st))
        return coto_err_set(err, COTO_ERR_INPUT, errno, "images: '%s'", store);
    if ((st.st_uid != 0 && st.st_uid != geteuid()) || st.st_mode & 022) {
        coto_err_set(err, COTO_ERR_FORBIDDEN, 0, "images: others may write to '%s'", store);
        return coto_err_remedy(err, "make it yours alone: chown %u and chmod go-w", geteuid());
    }
    return coto_take_fd(&fd);
}

int coto_image_resolve(int store, const char *name, char ret_digest[COTO_SHA256_HEX],
                       struct coto_err *err)
{
    char file[COTO_IMAGE_NAME_MAX + 1], path[COTO_IMAGE_NAME_MAX + 16], text[128];

    coto_image_name_file(name, file);
    snprintf(path, sizeof path, "names/%s", file);
    ssize_t n = coto_file_read_at(store, path, text, sizeof text);
    if (n < 0 && (errno == ENOENT || errno == ENOTDIR))
        return 1;
    if (n < 0)
        return coto_err_set(err, COTO_ERR_INPUT, errno, "image '%s'", name);
    if (strncmp(text, PREFIX, PREFIX_LEN) != 0 || !coto_image_is_digest(text + PREFIX_LEN)) {
        coto_err_set(err, COTO_ERR_INPUT, 0, "image '%s': its name points to no digest", name);
        return coto_err_remedy(err, "coto image remove %s, and import it again", name);
    }
    memcpy(ret_digest, text + PREFIX_LEN, COTO_SHA256_HEX);
    return 0;
}

/* ---- one image ---- */

static int other_digest(const struct coto_image_ref *ref, const char *found, struct coto_err *err)
{
    coto_err_set(err, COTO_ERR_FORBIDDEN, 0,
                 "image '%s': it is sha256:%s, and sha256:%s was asked for", ref->name, found,
                 ref->digest);
    return coto_err_remedy(err, "import the image you pinned, or pin the one you have");
}

int coto_image_lock(int listing, bool to_write)
{
    struct flock lock = {.l_type = to_write ? F_WRLCK : F_RDLCK, .l_whence = SEEK_SET};

    return fcntl(listing, F_OFD_SETLK, &lock);
}

/* The listing with a read lock; -1 with errno ENOENT or EAGAIN when it is being removed. */
static int hold(int dir)
{
    coto_auto_fd listing = coto_path_open_beneath(dir, "listing", O_RDONLY, 0);

    if (listing < 0 || coto_image_lock(listing, false))
        return -1;
    return coto_take_fd(&listing);
}

/* 1 when this store has it not. */
static int open_in(const char *store, const struct coto_image_ref *ref,
                   struct coto_image *ret_image, struct coto_err *err)
{
    char digest[COTO_SHA256_HEX], path[128];
    coto_auto_fd fd = coto_image_store_open(store, err);
    coto_auto_buf whole = {0};

    if (fd < 0)
        return err->sys_errno == ENOENT || err->sys_errno == EACCES ? 1 : -1;
    memcpy(digest, ref->digest, sizeof digest);
    int missing = *ref->name ? coto_image_resolve(fd, ref->name, digest, err) : 0;
    if (missing)
        return missing;
    if (*ref->digest && strcmp(ref->digest, digest) != 0)
        return other_digest(ref, digest, err);
    snprintf(path, sizeof path, "sha256/%s", digest);
    coto_auto_fd dir = coto_path_open_beneath(fd, path, O_RDONLY | O_DIRECTORY, 0);
    if (dir < 0)
        return errno == ENOENT
                   ? 1
                   : coto_err_set(err, COTO_ERR_INPUT, errno, "image sha256:%s", digest);
    coto_auto_fd lock = hold(dir);
    if (lock < 0)
        return errno == ENOENT || errno == EAGAIN || errno == EACCES
                   ? 1
                   : coto_err_set(err, COTO_ERR_INPUT, errno, "image sha256:%s: listing", digest);
    coto_buf_addf(&whole, "%s/%s", store, path);
    if (whole.failed)
        return coto_err_set(err, COTO_ERR_LIMIT, ENOMEM, "image");
    memcpy(ret_image->name, ref->name, sizeof ref->name);
    memcpy(ret_image->digest, digest, sizeof digest);
    ret_image->path = coto_take_ptr(whole.data);
    ret_image->fd = coto_take_fd(&dir);
    ret_image->lock = coto_take_fd(&lock);
    return 0;
}

int coto_image_open(const char *dir, const char *text, struct coto_image *ret_image,
                    struct coto_err *err)
{
    coto_auto_strv stores = {0};
    struct coto_image_ref ref;
    coto_auto_buf places = {0};

    if (coto_image_ref_parse(text, &ref, err) || coto_image_stores(dir, &stores, err))
        return -1;
    for (size_t i = 0; i < stores.count; i++) {
        int missing = open_in(stores.items[i], &ref, ret_image, err);
        if (missing <= 0)
            return missing;
        coto_buf_addf(&places, "%s%s", i ? " or " : "", stores.items[i]);
    }
    *err = (struct coto_err){0};
    coto_err_set(err, COTO_ERR_INPUT, 0, "image '%s': there is none of that name in %s", text,
                 coto_buf_str(&places));
    return coto_err_remedy(err,
                           "'coto image list' tells which there are; 'coto image import SOURCE "
                           "%.100s' brings one in, 'coto image build' makes one",
                           *ref.name ? ref.name : "NAME");
}

void coto_image_close(struct coto_image *image)
{
    if (image->path) {
        coto_own_close(&image->fd);
        coto_own_close(&image->lock);
    }
    free(image->path);
    *image = (struct coto_image){.fd = -1, .lock = -1};
}
