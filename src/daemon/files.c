#include "daemon/files.h"

#include "auth/keys.h"
#include "base/fd.h"
#include "base/trust.h"
#include "http/tls.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define FILE_MAX ((size_t)4 << 20)

static const enum coto_setting settings_of[COTO_FILE_JWT] = {
    COTO_SET_TLS_CERTIFICATE, COTO_SET_TLS_KEY, COTO_SET_CLIENT_CA, COTO_SET_CLIENT_CRL};

static const char *or_null(const char *text)
{
    return *text ? text : NULL;
}

static int file_count(const struct coto_settings *settings)
{
    return COTO_FILE_JWT + (int)settings->text[COTO_SET_JWT_KEY].count;
}

static const char *path_of(const struct coto_settings *settings, int i)
{
    return i < COTO_FILE_JWT ? coto_settings_text(settings, settings_of[i])
                             : settings->text[COTO_SET_JWT_KEY].items[i - COTO_FILE_JWT];
}

bool coto_files_any(const struct coto_settings *settings)
{
    for (int i = 0; i < file_count(settings); i++)
        if (*path_of(settings, i))
            return true;
    return false;
}

/* A number that changes with the file; 0: there is none. */
static uint64_t look_at(const char *path)
{
    uint64_t look = 0;
    struct stat st;

    if (!*path || stat(path, &st))
        return 0;
    const uint64_t parts[] = {st.st_ino, (uint64_t)st.st_size, (uint64_t)st.st_mtim.tv_sec,
                              (uint64_t)st.st_mtim.tv_nsec, (uint64_t)st.st_ctim.tv_nsec};
    for (size_t k = 0; k < sizeof parts / sizeof *parts; k++)
        look = (look ^ parts[k]) * 0x100000001b3u + 1;
    return look;
}

static unsigned which_is(int i)
{
    return i == COTO_FILE_CRL ? COTO_FILES_CERTIFICATES | COTO_FILES_CRL
           : i < COTO_FILE_JWT ? COTO_FILES_CERTIFICATES
                               : COTO_FILES_KEYS;
}

unsigned coto_files_changed(const struct coto_settings *settings, const struct coto_files *files,
                            struct coto_buf *ret_names)
{
    unsigned changed = 0;

    for (int i = 0; i < file_count(settings) && i < COTO_FILES_MAX; i++) {
        if (look_at(path_of(settings, i)) == files->looks[i])
            continue;
        coto_buf_addf(ret_names, "%s%s", changed ? ", " : "", path_of(settings, i));
        changed |= which_is(i);
    }
    return changed;
}

/* ---- the files as they are ---- */

/* Whoever can write to them decides who is let in. Slots from first to before end. */
static int check_trust(const struct coto_settings *s, int first, int end, struct coto_err *err)
{
    for (int i = first; i < end; i++) {
        enum coto_setting id = i < COTO_FILE_JWT ? settings_of[i] : COTO_SET_JWT_KEY;
        if (*path_of(s, i) && coto_trust_file(coto_setting_infos[id].name, path_of(s, i), err))
            return -1;
    }
    return 0;
}

static int check_private(const char *path, struct coto_err *err)
{
    struct stat st;

    if (!*path) {
        coto_err_set(err, COTO_ERR_USAGE, 0, "tls-key: it is missing, and tls-certificate is there");
        return coto_err_remedy(err, "name the key of that certificate");
    }
    if (stat(path, &st))
        return coto_err_set(err, COTO_ERR_INPUT, errno, "tls-key '%s'", path);
    if (!(st.st_mode & S_IRWXO))
        return 0;
    coto_err_set(err, COTO_ERR_FORBIDDEN, 0, "tls-key '%s': open to everybody", path);
    return coto_err_remedy(err, "chmod 600 it; who could read it may have copied it");
}

static struct coto_tls_config tls_of(const struct coto_settings *s)
{
    return (struct coto_tls_config){coto_settings_text(s, COTO_SET_TLS_CERTIFICATE),
                                    coto_settings_text(s, COTO_SET_TLS_KEY),
                                    or_null(coto_settings_text(s, COTO_SET_CLIENT_CA)),
                                    or_null(coto_settings_text(s, COTO_SET_CLIENT_CRL))};
}

int coto_files_check_time(const struct coto_settings *settings, struct coto_err *err)
{
    const struct coto_tls_config tls = tls_of(settings);

    return *tls.certificate ? coto_tls_check_time(&tls, (int64_t)time(NULL), err) : 0;
}

static int check_tls(const struct coto_tls_config *tls, struct coto_err *err)
{
    struct coto_tls *try = NULL;
    int failed = coto_tls_new(tls, &try, err);

    coto_tls_free(try);
    return failed;
}

static int check_certificates(const struct coto_settings *s, struct coto_err *err)
{
    const struct coto_tls_config tls = tls_of(s);

    if (check_trust(s, 0, COTO_FILE_JWT, err))
        return -1;
    if (!*tls.certificate && !*tls.key)
        return 0;
    return check_private(tls.key, err) || check_tls(&tls, err) ? -1 : 0;
}

static int check_keys(const struct coto_settings *s, struct coto_err *err)
{
    const struct coto_keys_config keys = {.files =
                                              (const char *const *)s->text[COTO_SET_JWT_KEY].items};
    struct coto_keys *try = NULL;
    int failed = check_trust(s, COTO_FILE_JWT, file_count(s), err) || coto_keys_new(&keys, &try, err) ? -1 : 0;

    coto_keys_free(try);
    return failed;
}

/* Whether the list that is there now goes with the certificates that were there before. */
static int check_crl(const struct coto_settings *s, const struct coto_files *old, struct coto_err *err)
{
    char paths[COTO_FILE_CRL][COTO_FILES_PATH];
    const char *crl = coto_settings_text(s, COTO_SET_CLIENT_CRL);

    for (int i = 0; i < COTO_FILE_CRL; i++)
        coto_files_path(old, i, paths[i]);
    const struct coto_tls_config tls = {paths[COTO_FILE_CERTIFICATE], paths[COTO_FILE_KEY],
                                        or_null(paths[COTO_FILE_CA]), crl};
    return *crl && check_trust(s, COTO_FILE_CRL, COTO_FILE_JWT, err) == 0 ? check_tls(&tls, err) : -1;
}

/* ---- copies ---- */

static int copy(const char *path, unsigned uid, struct coto_err *err)
{
    coto_auto_buf text = {0};
    coto_auto_fd from = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    coto_auto_fd to = memfd_create("coto-key", MFD_CLOEXEC | MFD_ALLOW_SEALING);

    if (from < 0 || to < 0 || coto_fd_read_all(from, FILE_MAX, &text) ||
        coto_fd_write_all(to, coto_buf_str(&text), text.len) || fchmod(to, 0400) ||
        (getuid() == 0 && fchown(to, uid, (gid_t)-1)) ||
        fcntl(to, F_ADD_SEALS, F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE))
        coto_err_set(err, COTO_ERR_INPUT, errno, "'%s'", path);
    else
        err->kind = 0;
    if (text.data)
        explicit_bzero(text.data, text.len);
    return err->kind ? -1 : coto_take_fd(&to);
}

/* Slots from first to before end. */
static int fill(struct coto_files *files, int first, int end, const struct coto_settings *settings,
                struct coto_err *err)
{
    for (int i = first; i < end; i++) {
        const char *path = path_of(settings, i);
        int fd = *path ? copy(path, files->uid, err) : -1;
        if (*path && fd < 0)
            return -1;
        coto_own_close(&files->fds[i]);
        files->fds[i] = fd;
    }
    return 0;
}

static void drop(struct coto_files *files, int first, int end)
{
    for (int i = first; i < end; i++)
        coto_own_close(&files->fds[i]);
}

/* Slots from first to before end as they are in old, from where they are moved: what is there already is not lost for want of
 * descriptors. So is the look: a file whose copy is older than it is is tried again at each look. */
static void keep(struct coto_files *files, int first, int end, struct coto_files *old)
{
    drop(files, first, end);
    for (int i = first; i < end; i++) {
        files->fds[i] = coto_take_fd(&old->fds[i]);
        files->looks[i] = old->looks[i];
    }
}

static void keep_keys(struct coto_files *files, struct coto_files *old)
{
    drop(files, COTO_FILE_JWT, COTO_FILES_MAX);
    files->count = old->count;
    keep(files, COTO_FILE_JWT, files->count, old);
}

/* Looked at before reading: what is written meanwhile is news next time. */
static struct coto_files begin(const struct coto_settings *settings, unsigned uid)
{
    struct coto_files files = {.count = file_count(settings), .uid = uid};

    memset(files.fds, 0xff, sizeof files.fds);
    for (int i = 0; i < files.count && i < COTO_FILES_MAX; i++)
        files.looks[i] = look_at(path_of(settings, i));
    return files;
}

static int check_count(const struct coto_settings *settings, struct coto_err *err)
{
    if (file_count(settings) <= COTO_FILES_MAX)
        return 0;
    return coto_err_set(err, COTO_ERR_USAGE, 0, "jwt-key: more than %d files", COTO_FILES_JWT);
}

int coto_files_read(const struct coto_settings *settings, unsigned uid,
                    struct coto_files *ret_files, struct coto_err *err)
{
    struct coto_files files = begin(settings, uid);

    if (check_count(settings, err) || check_certificates(settings, err) || check_keys(settings, err))
        return -1;
    if (fill(&files, 0, files.count, settings, err)) {
        coto_files_close(&files);
        return -1;
    }
    *ret_files = files;
    return 0;
}

/* A revocation takes effect whatever else is wrong. */
static bool renew_crl(const struct coto_settings *settings, const struct coto_files *old, struct coto_files *files)
{
    struct coto_err err;

    return check_crl(settings, old, &err) == 0 && fill(files, COTO_FILE_CRL, COTO_FILE_JWT, settings, &err) == 0;
}

void coto_files_renew(const struct coto_settings *settings, unsigned which, struct coto_files *old,
                      struct coto_files *ret_files, struct coto_files_news *ret_news)
{
    struct coto_files files = begin(settings, old->uid);
    struct coto_files_news news = {0};

    news.has_certificates = which & COTO_FILES_CERTIFICATES && check_certificates(settings, &news.certificates) == 0 &&
                            fill(&files, 0, COTO_FILE_JWT, settings, &news.certificates) == 0;
    if (!news.has_certificates) { /* the list is judged by what is in old, which moves then */
        news.has_crl = which & COTO_FILES_CRL && renew_crl(settings, old, &files);
        keep(&files, 0, news.has_crl ? COTO_FILE_CRL : COTO_FILE_JWT, old);
    }
    news.has_keys = which & COTO_FILES_KEYS && check_count(settings, &news.keys) == 0 &&
                    check_keys(settings, &news.keys) == 0 &&
                    fill(&files, COTO_FILE_JWT, files.count, settings, &news.keys) == 0;
    if (!news.has_keys)
        keep_keys(&files, old);
    *ret_files = files;
    *ret_news = news;
}

void coto_files_close(struct coto_files *files)
{
    drop(files, 0, files->count);
    files->count = 0;
}

int coto_files_list(const struct coto_files *files, int *ret_fds, char *ret_slots)
{
    int count = 0;

    for (int i = 0; i < files->count; i++)
        if (files->fds[i] >= 0) {
            ret_slots[count] = (char)i;
            ret_fds[count++] = files->fds[i];
        }
    return count;
}

int coto_files_take(struct coto_files *files, const int *fds, const char *slots, int count)
{
    int failed = 0;

    coto_files_close(files);
    files->count = COTO_FILE_JWT;
    for (int i = 0; i < count; i++) {
        int slot = (unsigned char)slots[i];
        if (slot >= COTO_FILES_MAX || files->fds[slot] >= 0) {
            close(fds[i]);
            failed = -1;
            continue;
        }
        files->fds[slot] = fds[i];
        files->count = slot < files->count ? files->count : slot + 1;
    }
    return failed;
}

void coto_files_path(const struct coto_files *files, int file, char ret_path[COTO_FILES_PATH])
{
    ret_path[0] = '\0';
    if (file < files->count && files->fds[file] >= 0)
        snprintf(ret_path, COTO_FILES_PATH, "/proc/self/fd/%d", files->fds[file]);
}
