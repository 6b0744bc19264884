#include "auth/pki.h"

#include "auth/keyset.h"
#include "auth/newfile.h"
#include "auth/pki_int.h"

#include "base/fd.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>

#define FILE_MAX (16 * 1024 * 1024) /* a list of some hundred thousand */
#define NEW ".new"                  /* of a pair that is to take another's place */

/* ---- files ---- */

static BIO *open_file(int dir_fd, const char *name)
{
    coto_auto_fd fd = openat(dir_fd, name, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    coto_auto_buf text = {0};

    if (fd < 0 || coto_fd_read_all(fd, FILE_MAX, &text))
        return NULL;
    BIO *bio = BIO_new(BIO_s_mem());
    if (bio && BIO_write(bio, coto_buf_str(&text), (int)text.len) == (int)text.len)
        return bio;
    BIO_free(bio);
    return NULL;
}

static X509 *read_cert(int dir_fd, const char *name)
{
    BIO *bio = open_file(dir_fd, name);
    X509 *cert = bio ? PEM_read_bio_X509(bio, NULL, NULL, NULL) : NULL;

    BIO_free(bio);
    ERR_clear_error();
    return cert;
}

static X509_CRL *read_crl(int dir_fd)
{
    BIO *bio = open_file(dir_fd, "crl.pem");
    X509_CRL *crl = bio ? PEM_read_bio_X509_CRL(bio, NULL, NULL, NULL) : NULL;

    BIO_free(bio);
    ERR_clear_error();
    return crl;
}

/* NAME.key and NAME.crt, both or none; the ending is "" or NEW. */
static int write_pair(const struct coto_pki *pki, const char *name, const char *ending,
                      const struct coto_key *key, X509 *cert, struct coto_err *err)
{
    char key_file[80];
    char cert_file[80];
    coto_auto_buf private = {0};
    coto_auto_buf public = {0};
    coto_auto_buf text = {0};

    snprintf(key_file, sizeof key_file, "%s.key%s", name, ending);
    snprintf(cert_file, sizeof cert_file, "%s.crt%s", name, ending);
    if (coto_key_encode(key, &private, &public, err))
        return -1;
    if (pki_add_cert(&text, cert))
        return coto_key_err(err, COTO_ERR_SYSTEM, "certificate");
    int failed = coto_newfile_write(pki->dir_fd, key_file, 0600, &private, err);
    OPENSSL_cleanse(private.data, private.len);
    if (failed)
        return -1;
    if (coto_newfile_write(pki->dir_fd, cert_file, 0644, &text, err) == 0)
        return fsync(pki->dir_fd) ? coto_err_set(err, COTO_ERR_OUTPUT, errno, "%s", name) : 0;
    unlinkat(pki->dir_fd, key_file, 0);
    return -1;
}

/* ---- opening ---- */

void coto_pki_close(struct coto_pki *pki)
{
    if (!pki)
        return;
    coto_key_fini(&pki->key);
    X509_free(pki->ca);
    X509_CRL_free(pki->crl);
    coto_own_close(&pki->dir_fd); /* and unlocks */
    free(pki->dir);
    free(pki);
}

static void pki_own(struct coto_pki **pki)
{
    coto_pki_close(*pki);
}
#define auto_pki __attribute__((cleanup(pki_own))) struct coto_pki

static struct coto_pki *open_dir(const char *dir, struct coto_err *err)
{
    struct coto_pki *pki = calloc(1, sizeof *pki);

    if (!pki || !(pki->dir = strdup(dir))) {
        free(pki);
        coto_err_set(err, COTO_ERR_SYSTEM, ENOMEM, "%s", dir);
        return NULL;
    }
    pki->dir_fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (pki->dir_fd >= 0 && flock(pki->dir_fd, LOCK_EX) == 0)
        return pki;
    coto_err_set(err, COTO_ERR_INPUT, errno, "directory '%s'", dir);
    coto_err_remedy(err, "coto pki init makes an authority; --dir DIR names the one you have");
    coto_pki_close(pki);
    return NULL;
}

static int load(struct coto_pki *pki, struct coto_err *err)
{
    char path[4096];

    pki->ca = read_cert(pki->dir_fd, "ca.crt");
    if (!pki->ca) {
        coto_err_set(err, COTO_ERR_INPUT, 0, "there is no authority in '%s'", pki->dir);
        return coto_err_remedy(err, "coto pki init makes one; --dir DIR names the one you have");
    }
    snprintf(path, sizeof path, "%s/ca.key", pki->dir);
    if (coto_key_load(path, &pki->key, err))
        return -1;
    if (!pki->key.is_private || X509_check_private_key(pki->ca, pki->key.pkey) != 1) {
        ERR_clear_error();
        return coto_err_set(err, COTO_ERR_INPUT, 0, "'%s' is not the key of ca.crt", path);
    }
    /* Without the list nothing would be known of what was revoked. */
    pki->crl = read_crl(pki->dir_fd);
    if (pki->crl && X509_CRL_verify(pki->crl, pki->key.pkey) == 1)
        return 0;
    ERR_clear_error();
    coto_err_set(err, COTO_ERR_INPUT, 0, "'%s/crl.pem' is missing, or not of this authority",
                 pki->dir);
    return coto_err_remedy(err, "bring it back from a backup: it holds what was revoked");
}

int coto_pki_open(const char *dir, struct coto_pki **ret_pki, struct coto_err *err)
{
    auto_pki *pki = open_dir(dir, err);

    if (!pki || load(pki, err))
        return -1;
    *ret_pki = coto_take_ptr(pki);
    return 0;
}

/* ---- init ---- */

static int check_empty(const struct coto_pki *pki, struct coto_err *err)
{
    DIR *dir = opendir(pki->dir);
    bool is_empty = dir != NULL;

    for (const struct dirent *entry; dir && (entry = readdir(dir));)
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            is_empty = false;
    if (dir)
        closedir(dir);
    if (is_empty)
        return fchmod(pki->dir_fd, 0700)
                   ? coto_err_set(err, COTO_ERR_OUTPUT, errno, "directory '%s'", pki->dir)
                   : 0;
    coto_err_set(err, COTO_ERR_OUTPUT, 0, "'%s' is not empty", pki->dir);
    return coto_err_remedy(err, "nothing is overwritten: name a new directory");
}

static void remove_half(const struct coto_pki *pki)
{
    static const char *const names[] = {"ca.key", "ca.crt", "crl.pem", "crl.pem.new"};

    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        unlinkat(pki->dir_fd, names[i], 0);
}

int coto_pki_init(const char *dir, int days, struct coto_err *err)
{
    if (coto_newfile_make_dir(dir, err))
        return -1;
    auto_pki *pki = open_dir(dir, err);
    if (!pki || check_empty(pki, err) || coto_key_generate(COTO_KEY_ES256, &pki->key, err))
        return -1;
    pki->ca = pki_make_ca(pki->key.pkey, days, err);
    pki->crl = pki_crl_new();
    if (!pki->ca || !pki->crl)
        return pki->ca ? coto_key_err(err, COTO_ERR_SYSTEM, "revocation list") : -1;
    if (write_pair(pki, "ca", "", &pki->key, pki->ca, err) == 0 && pki_crl_write(pki, 0, err) == 0)
        return 0;
    remove_half(pki);
    return coto_err_wrap(err, "%s", dir);
}

/* ---- list ---- */

static int compare(const void *a, const void *b)
{
    const struct coto_pki_cert *x = a;
    const struct coto_pki_cert *y = b;
    int order = strcmp(x->name, y->name);

    return order ? order : (x->not_after > y->not_after) - (x->not_after < y->not_after);
}

static int add_cert(const struct coto_pki *pki, const char *file, struct coto_pki_list *list)
{
    struct coto_pki_cert item = {.is_old = strchr(file, '/') != NULL};
    X509 *cert = read_cert(pki->dir_fd, file);
    bool ours = cert && X509_verify(cert, pki->key.pkey) == 1 && pki_describe(cert, &item) == 0;

    X509_free(cert);
    ERR_clear_error();
    if (!ours)
        return 0; /* somebody else's file */
    struct coto_pki_cert *more = realloc(list->items, (list->count + 1) * sizeof *more);
    if (!more)
        return -1;
    list->items = more;
    item.is_revoked = pki_crl_has(pki, item.serial);
    snprintf(item.file, sizeof item.file, "%s", file);
    list->items[list->count++] = item;
    return 0;
}

static int add_folder(const struct coto_pki *pki, const char *folder, struct coto_pki_list *list)
{
    int fd = openat(pki->dir_fd, *folder ? folder : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
    int failed = 0;

    for (const struct dirent *entry; dir && !failed && (entry = readdir(dir));) {
        char file[128];
        size_t len = strlen(entry->d_name);
        if (len < 5 || len > 110 || strcmp(entry->d_name + len - 4, ".crt") != 0 ||
            strcmp(entry->d_name, "ca.crt") == 0)
            continue;
        snprintf(file, sizeof file, "%s%.110s", folder, entry->d_name);
        failed = add_cert(pki, file, list);
    }
    if (dir)
        closedir(dir);
    else
        coto_own_close(&fd);
    return failed;
}

int coto_pki_list(struct coto_pki *pki, struct coto_pki_list *ret_list, struct coto_err *err)
{
    struct coto_pki_list list = {0};

    if (add_folder(pki, "", &list) || add_folder(pki, "old/", &list)) {
        coto_pki_list_fini(&list);
        return coto_err_set(err, COTO_ERR_SYSTEM, ENOMEM, "list of certificates");
    }
    if (list.count)
        qsort(list.items, list.count, sizeof *list.items, compare);
    *ret_list = list;
    return 0;
}

void coto_pki_list_fini(struct coto_pki_list *list)
{
    free(list->items);
    *list = (struct coto_pki_list){0};
}
#define auto_list __attribute__((cleanup(coto_pki_list_fini))) struct coto_pki_list

/* ---- issue and revoke ---- */

static const char *const endings[] = {"crt", "key"};

struct move {
    char from[160], to[160];
};

/* To old/NAME-SERIAL.* */
static struct move move_of(const struct coto_pki_cert *cert, int i)
{
    struct move move;
    int stem = (int)strlen(cert->file) - 4;

    snprintf(move.from, sizeof move.from, "%.*s.%s", stem, cert->file, endings[i]);
    snprintf(move.to, sizeof move.to, "old/%s-%s.%s", cert->name, cert->serial, endings[i]);
    return move;
}

static void take_back(const struct coto_pki *pki, const struct coto_pki_cert *cert)
{
    for (int i = 0; i < 2; i++) {
        struct move move = move_of(cert, i);
        renameat2(pki->dir_fd, move.to, pki->dir_fd, move.from, RENAME_NOREPLACE);
    }
}

/* A key that is not here was moved to where it is used. `moved` may be NULL. */
static int put_away(const struct coto_pki *pki, const struct coto_pki_cert *cert,
                    struct coto_strv *moved, struct coto_err *err)
{
    if (mkdirat(pki->dir_fd, "old", 0700) && errno != EEXIST)
        return coto_err_set(err, COTO_ERR_OUTPUT, errno, "'%s/old'", pki->dir);
    for (int i = 0; i < 2; i++) {
        struct move move = move_of(cert, i);
        if (renameat2(pki->dir_fd, move.from, pki->dir_fd, move.to, RENAME_NOREPLACE) == 0) {
            if (moved && (coto_strv_add(moved, move.from) || coto_strv_add(moved, move.to)))
                return coto_err_set(err, COTO_ERR_SYSTEM, ENOMEM, "revoke");
            continue;
        }
        if (errno == ENOENT && i > 0)
            continue;
        coto_err_set(err, COTO_ERR_OUTPUT, errno, "'%s/%s'", pki->dir, move.to);
        if (i > 0)
            take_back(pki, cert);
        return -1;
    }
    return 0;
}

/* What the name has now: 1 found, 0 nothing, -1 it may not be renewed. */
static int find_present(struct coto_pki *pki, const struct coto_pki_request *request,
                        struct coto_pki_cert *ret_cert, struct coto_err *err)
{
    auto_list list = {0};
    char file[80];

    snprintf(file, sizeof file, "%s.crt", request->name);
    if (coto_pki_list(pki, &list, err))
        return -1;
    for (size_t i = 0; i < list.count; i++) {
        if (strcmp(list.items[i].file, file) != 0)
            continue;
        *ret_cert = list.items[i];
        if (request->renew && ret_cert->is_server == request->is_server)
            return 1;
        if (request->renew) {
            coto_err_set(err, COTO_ERR_USAGE, 0, "the certificate of '%s' is for a %s", request->name,
                         ret_cert->is_server ? "server" : "client");
            return coto_err_remedy(err, "renew it as that, or choose another name");
        }
        coto_err_set(err, COTO_ERR_OUTPUT, 0, "'%s' has a certificate", request->name);
        return coto_err_remedy(err, "--renew issues another and keeps both valid; coto pki revoke "
                                    "%s ends it", request->name);
    }
    return 0;
}

static struct move place_of(const char *name, int i)
{
    struct move move;

    snprintf(move.from, sizeof move.from, "%s.%s" NEW, name, endings[i]);
    snprintf(move.to, sizeof move.to, "%s.%s", name, endings[i]);
    return move;
}

static void remove_new(const struct coto_pki *pki, const char *name)
{
    for (int i = 0; i < 2; i++)
        unlinkat(pki->dir_fd, place_of(name, i).from, 0);
}

/* Both or none, but for what the disk may lose when it fails. */
static int place_new(const struct coto_pki *pki, const char *name, struct coto_err *err)
{
    struct move cert = place_of(name, 0), key = place_of(name, 1);

    if (renameat2(pki->dir_fd, key.from, pki->dir_fd, key.to, RENAME_NOREPLACE))
        return coto_err_set(err, COTO_ERR_OUTPUT, errno, "'%s/%s'", pki->dir, key.to);
    if (renameat2(pki->dir_fd, cert.from, pki->dir_fd, cert.to, RENAME_NOREPLACE)) {
        coto_err_set(err, COTO_ERR_OUTPUT, errno, "'%s/%s'", pki->dir, cert.to);
        renameat(pki->dir_fd, key.to, pki->dir_fd, key.from);
        return -1;
    }
    return fsync(pki->dir_fd) ? coto_err_set(err, COTO_ERR_OUTPUT, errno, "'%s'", pki->dir) : 0;
}

/* A server needs the present files until there are others: these are whole before those are moved. */
static int replace_pair(const struct coto_pki *pki, const struct coto_pki_cert *present,
                        const struct coto_key *key, X509 *cert, struct coto_err *err)
{
    remove_new(pki, present->name); /* of one that was interrupted */
    if (write_pair(pki, present->name, NEW, key, cert, err))
        return -1;
    if (put_away(pki, present, NULL, err) == 0) {
        if (place_new(pki, present->name, err) == 0)
            return 0;
        take_back(pki, present);
    }
    remove_new(pki, present->name);
    return -1;
}

static int check_request(const struct coto_pki_request *request, struct coto_err *err)
{
    if (coto_newfile_check(request->name, err))
        return -1;
    if (strcmp(request->name, "ca") != 0)
        return 0;
    coto_err_set(err, COTO_ERR_USAGE, 0, "'ca' is the authority's own name");
    return coto_err_remedy(err, "choose another name");
}

/* Whatever it signed would have ended already. */
static int check_authority(const struct coto_pki *pki, struct coto_err *err)
{
    if (pki_seconds(X509_get0_notAfter(pki->ca)) > time(NULL))
        return 0;
    coto_err_set(err, COTO_ERR_INPUT, 0, "the authority in '%s' has expired", pki->dir);
    return coto_err_remedy(err, "coto pki init makes another; its ca.crt goes to servers and clients");
}

int coto_pki_issue(struct coto_pki *pki, const struct coto_pki_request *request,
                   struct coto_pki_cert *ret_cert, struct coto_err *err)
{
    coto_auto_key key = {0};

    if (check_request(request, err) || check_authority(pki, err) || coto_key_generate(COTO_KEY_ES256, &key, err))
        return -1;
    struct coto_pki_cert present;
    int found = find_present(pki, request, &present, err);
    X509 *old = found > 0 ? read_cert(pki->dir_fd, present.file) : NULL;
    X509 *cert = found < 0 ? NULL : pki_make_cert(pki, request, key.pkey, old, err);
    int failed = !cert       ? -1
                 : found > 0 ? replace_pair(pki, &present, &key, cert, err)
                             : write_pair(pki, request->name, "", &key, cert, err);
    if (!failed) {
        *ret_cert = (struct coto_pki_cert){0};
        pki_describe(cert, ret_cert);
        snprintf(ret_cert->file, sizeof ret_cert->file, "%s.crt", request->name);
    }
    X509_free(cert);
    X509_free(old);
    return failed ? -1 : 0;
}

static bool is_serial(const char *text)
{
    size_t len = strlen(text);

    return len >= 16 && len < COTO_PKI_SERIAL && !text[strspn(text, "0123456789abcdefABCDEF")];
}

static bool is_meant(const struct coto_pki_cert *cert, const char *what)
{
    return strcmp(cert->name, what) == 0 || strcasecmp(cert->serial, what) == 0;
}

/* Marks all that are meant; how many there are, or -1. */
static int mark(struct coto_pki *pki, const struct coto_pki_list *list, const char *what,
                struct coto_strv *serials, struct coto_err *err)
{
    int found = 0;

    for (size_t i = 0; i < list->count; i++) {
        const struct coto_pki_cert *cert = &list->items[i];
        if (!is_meant(cert, what))
            continue;
        found++;
        if (cert->is_revoked)
            continue;
        if (coto_strv_add(serials, cert->serial))
            return coto_err_set(err, COTO_ERR_SYSTEM, ENOMEM, "revoke");
        if (pki_crl_add(pki, cert->serial, err))
            return -1;
    }
    return found;
}

/* Its files may be lost; who knows the serial can still revoke it. */
static int mark_unknown(struct coto_pki *pki, const char *what, struct coto_strv *serials,
                        struct coto_err *err)
{
    char serial[COTO_PKI_SERIAL] = "";

    if (!is_serial(what)) {
        coto_err_set(err, COTO_ERR_USAGE, 0, "no certificate '%.80s'", what);
        return coto_err_remedy(err, "coto pki list tells names and serials");
    }
    for (size_t i = 0; what[i]; i++)
        serial[i] = (char)(what[i] >= 'a' ? what[i] - 'a' + 'A' : what[i]);
    if (pki_crl_has(pki, serial))
        return 0;
    if (coto_strv_add(serials, serial))
        return coto_err_set(err, COTO_ERR_SYSTEM, ENOMEM, "revoke");
    return pki_crl_add(pki, serial, err);
}

int coto_pki_revoke(struct coto_pki *pki, const char *name_or_serial, struct coto_strv *ret_serials,
                    struct coto_strv *ret_moved, struct coto_err *err)
{
    auto_list list = {0};

    if (coto_pki_list(pki, &list, err))
        return -1;
    int found = mark(pki, &list, name_or_serial, ret_serials, err);
    if (found < 0 || (found == 0 && mark_unknown(pki, name_or_serial, ret_serials, err)))
        return -1;
    /* The list first: whatever happens then, they are revoked. */
    if (ret_serials->count && pki_crl_write(pki, 0, err))
        return -1;
    for (size_t i = 0; i < list.count; i++)
        if (is_meant(&list.items[i], name_or_serial) && !list.items[i].is_old &&
            put_away(pki, &list.items[i], ret_moved, err))
            return -1;
    return 0;
}

int coto_pki_sign_crl(struct coto_pki *pki, int days, struct coto_err *err)
{
    return pki_crl_write(pki, days, err);
}
