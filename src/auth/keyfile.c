/* What a key file holds: told by its content, never by its name. */
#include "auth/keyset.h"

#include "base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/crypto.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <string.h>
#include <sys/stat.h>

/* A file's text, NUL-terminated; wiped when done with. */
struct text {
    char *data;
    size_t len;
    mode_t mode;
};

static void text_fini(struct text *text)
{
    OPENSSL_clear_free(text->data, text->len + 1);
    text->data = NULL;
}

static int refuse_file(struct coto_err *err, const char *why, const char *remedy)
{
    coto_err_set(err, COTO_ERR_INPUT, 0, "%s", why);
    return coto_err_remedy(err, "%s", remedy);
}

static int check_file(const struct stat *st, struct coto_err *err)
{
    if (!S_ISREG(st->st_mode))
        return refuse_file(err, "not a regular file", "name a PEM, JWKS or secret file");
    if (st->st_size > COTO_KEY_FILE_MAX)
        return refuse_file(err, "larger than 256 KB", "name a PEM, JWKS or secret file");
    if (st->st_mode & S_IWOTH)
        return refuse_file(err, "everybody may write to it, and so put a key of theirs there",
                           "chmod o-w the file");
    return 0;
}

static int read_text(const char *path, struct text *ret_text, struct coto_err *err)
{
    struct stat st;
    coto_auto_fd fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);

    if (fd < 0 || fstat(fd, &st)) {
        coto_err_set(err, COTO_ERR_INPUT, errno, "cannot be read");
        return coto_err_remedy(err, "check the name, and that this user may read the file");
    }
    if (check_file(&st, err))
        return -1;
    size_t len = (size_t)st.st_size;
    struct text text = {OPENSSL_malloc(len + 1), len, st.st_mode};
    if (!text.data || coto_fd_read_exact(fd, text.data, len)) {
        text_fini(&text);
        return coto_err_set(err, COTO_ERR_INPUT, errno, "cannot be read");
    }
    text.data[len] = '\0';
    *ret_text = text;
    if (memchr(text.data, '\0', len) == NULL)
        return 0;
    text_fini(ret_text);
    return refuse_file(err, "binary", "write the key as PEM (openssl pkey), or as a line of text");
}

/* Called once it is known that the content is secret. */
static int check_private(const struct text *text, struct coto_err *err)
{
    if (!(text->mode & S_IRWXO))
        return 0;
    return refuse_file(err, "it holds a secret and is open to everybody",
                       "chmod 600 it (or 640); who could read it may have copied it: make a new "
                       "key when in doubt");
}

/* ---- PEM ---- */

/* A key with a password would make OpenSSL ask on the terminal. */
static int no_password(char *buf, int size, int for_writing, void *arg)
{
    (void)buf, (void)size, (void)for_writing, (void)arg;
    return -1;
}

/* Blocks of a PEM text; `openssl ecparam -genkey` puts the curve before the key. */
static int count_blocks(const char *text)
{
    static const char begin[] = "-----BEGIN ";
    int count = 0;

    for (const char *p = text; (p = strstr(p, begin)); p += sizeof begin - 1)
        count += strncmp(p + sizeof begin - 1, "EC PARAMETERS-", 14) != 0;
    return count;
}

static int explain_pem(const struct text *text, struct coto_err *err)
{
    if (strstr(text->data, "ENCRYPTED"))
        return refuse_file(err, "the key has a password",
                           "openssl pkey -in FILE -out NEW writes it without one");
    if (strstr(text->data, "BEGIN CERTIFICATE-"))
        return refuse_file(err, "a certificate, not a key",
                           "openssl x509 -in FILE -noout -pubkey writes its key");
    if (strstr(text->data, "BEGIN RSA PUBLIC"))
        return refuse_file(err, "an RSA key in the old form",
                           "openssl rsa -RSAPublicKey_in -in FILE -pubout writes the new one");
    return refuse_file(err, "no key could be read from this PEM text",
                       "check it: openssl pkey -in FILE (-pubin) -noout -text");
}

static int read_pem(const struct text *text, struct coto_key *ret_key, struct coto_err *err)
{
    bool is_private = strstr(text->data, "PRIVATE KEY-----") != NULL;
    EVP_PKEY *pkey = NULL;

    if (count_blocks(text->data) != 1)
        return refuse_file(err, "not exactly one key", "keep each key in a file of its own");
    if (is_private && check_private(text, err))
        return -1;
    BIO *bio = BIO_new_mem_buf(text->data, (int)text->len);
    if (bio && is_private)
        pkey = PEM_read_bio_PrivateKey(bio, NULL, no_password, NULL);
    else if (bio)
        pkey = PEM_read_bio_PUBKEY(bio, NULL, no_password, NULL);
    BIO_free(bio);
    if (!pkey) {
        coto_key_err(err, COTO_ERR_INPUT, "PEM");
        return explain_pem(text, err);
    }
    return coto_key_from_pkey(pkey, is_private, ret_key, err);
}

/* ---- secrets ---- */

/* Whatever may be somebody's *public* key must not become a secret: it would let everybody
 * who has it sign. PEM and JSON are told apart before; this is for the rest. */
static bool looks_public(const char *text)
{
    static const char *const beginnings[] = {"ssh-", "ecdsa-", "sk-ssh-", "sk-ecdsa-",
                                             "MIIB",  "MIIC",  "MFkw",    "MCow"};

    for (size_t i = 0; i < sizeof beginnings / sizeof beginnings[0]; i++)
        if (coto_str_has_prefix(text, beginnings[i]))
            return true;
    return false;
}

static int read_secret(const struct text *text, struct coto_key *ret_key, struct coto_err *err)
{
    size_t len = text->len;

    if (check_private(text, err))
        return -1;
    if (len && text->data[len - 1] == '\n')
        len--;
    if (len && text->data[len - 1] == '\r')
        len--;
    for (size_t i = 0; i < len; i++)
        if (text->data[i] < ' ' || text->data[i] == 0x7f)
            return refuse_file(err, "neither PEM nor JWKS nor one line of printable text",
                               "coto token keygen writes key files");
    if (looks_public(text->data))
        return refuse_file(err, "this looks like a public key, and what is public is no secret",
                           "write the key as PEM: openssl pkey -pubin, ssh-keygen -e -m pkcs8");
    return coto_key_from_secret(text->data, len, ret_key, err);
}

/* ---- files ---- */

static bool is_pem(const struct text *text)
{
    return strstr(text->data, "-----BEGIN") != NULL;
}

static bool is_json(const struct text *text)
{
    size_t at = strspn(text->data, " \t\r\n");

    /* A byte order mark is no JSON, but a key set with one is no secret either. */
    return text->data[at] == '{' || coto_str_has_prefix(text->data, "\xef\xbb\xbf");
}

static void set_name(struct coto_key *key, const char *path)
{
    const char *slash = strrchr(path, '/');
    const char *base = slash ? slash + 1 : path;
    const char *dot = strrchr(base, '.');
    size_t len = dot && dot > base ? (size_t)(dot - base) : strlen(base);

    if (!coto_key_id_valid(base, len))
        return; /* known by its thumbprint alone */
    memcpy(key->name, base, len);
    key->name[len] = '\0';
}

static int read_one(const struct text *text, const char *path, struct coto_key *ret_key,
                    struct coto_err *err)
{
    coto_auto_key key = {0};

    if (is_pem(text) ? read_pem(text, &key, err) : read_secret(text, &key, err))
        return -1;
    set_name(&key, path);
    *ret_key = key;
    key = (struct coto_key){0};
    return 0;
}

int coto_key_load(const char *path, struct coto_key *ret_key, struct coto_err *err)
{
    __attribute__((cleanup(text_fini))) struct text text = {0};
    int failed = read_text(path, &text, err);

    if (!failed && is_json(&text))
        failed = refuse_file(err, "a JSON file", "name a PEM or secret file");
    else if (!failed)
        failed = read_one(&text, path, ret_key, err);
    return failed ? coto_err_wrap(err, "key file '%s'", path) : 0;
}

/* A process that only verifies has no business with the private half. */
static int drop_private(struct coto_key *key, struct coto_err *err)
{
    unsigned char *der = NULL;
    int len = key->pkey ? i2d_PUBKEY(key->pkey, &der) : 0;
    const unsigned char *p = der;

    key->is_private = false;
    if (!key->pkey)
        return 0;
    EVP_PKEY_free(key->pkey);
    key->pkey = len > 0 ? d2i_PUBKEY(NULL, &p, len) : NULL;
    OPENSSL_free(der);
    return key->pkey ? 0 : coto_key_err(err, COTO_ERR_INPUT, "the public half");
}

static int add_one(struct coto_keyset *set, const struct text *text, const char *path,
                   struct coto_err *err)
{
    coto_auto_key key = {0};

    if (read_one(text, path, &key, err) || drop_private(&key, err))
        return -1;
    return coto_keyset_take(set, &key, err);
}

int coto_keyset_add_file(struct coto_keyset *set, const char *path, const char *name,
                         struct coto_err *err)
{
    __attribute__((cleanup(text_fini))) struct text text = {0};
    int failed = read_text(path, &text, err);

    set->file = name;
    if (!failed && is_pem(&text))
        failed = add_one(set, &text, name, err);
    else if (!failed && is_json(&text))
        failed = (coto_jwks_is_secret(text.data, text.len) && check_private(&text, err)) ||
                 coto_keyset_add_jwks(set, text.data, text.len, err);
    else if (!failed)
        failed = add_one(set, &text, name, err);
    return failed ? coto_err_wrap(err, "key file '%s'", name) : 0;
}
