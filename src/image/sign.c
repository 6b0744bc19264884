/* Signatures of an image: files in signatures/ beside its tree, each over the listing. The key
 * tells the kind: a minisign public key, a PEM one (Ed25519 or P-256, as cosign has them), or an
 * OpenPGP keyring. */
#include "image/image.h"

#include "auth/newfile.h"
#include "base/json.h"
#include "policy/policy.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <openssl/pem.h>
#include <string.h>
#include <unistd.h>

#define SMALL_MAX ((size_t)1 << 20)

static int read_text(const char *path, struct image_text *ret, struct coto_err *err)
{
    coto_auto_fd fd = -1;
    int failed = coto_policy_open_input("key", path, &fd, err);

    ret->path = path;
    if (!failed && coto_fd_read_all(fd, SMALL_MAX, &ret->data) == 0 && !ret->data.failed)
        return 0;
    if (!failed)
        coto_err_set(err, COTO_ERR_INPUT, errno, "key '%s'", path);
    return coto_err_remedy(err, "give a file that you may read: minisign, PEM or OpenPGP");
}


/* ---- kinds ---- */

enum kind { MINISIGN, PEM, OPENPGP };

static enum kind kind_of_key(const struct coto_buf *data)
{
    const char *text = coto_buf_str(data);

    if (strncmp(text, "untrusted comment:", 18) == 0 ||
        (data->len < 80 && strncmp(text, "RW", 2) == 0))
        return MINISIGN;
    return strstr(text, "-----BEGIN PUBLIC KEY-----") ? PEM : OPENPGP;
}

static enum kind kind_of_signature(const struct coto_buf *data)
{
    const char *text = coto_buf_str(data);
    unsigned char first = (unsigned char)text[0];

    if (strncmp(text, "untrusted comment:", 18) == 0)
        return MINISIGN;
    if (strncmp(text, "-----BEGIN PGP", 14) == 0 || first == 0x88 || first == 0x89 || first == 0xc2)
        return OPENPGP;
    return PEM;
}

static const char *const kind_names[] = {"minisign", "Ed25519 or P-256", "OpenPGP"};

/* ---- PEM ---- */

static const EVP_MD *digest_for(const EVP_PKEY *key)
{
    return EVP_PKEY_get_base_id(key) == EVP_PKEY_EC ? EVP_sha256() : NULL;
}

static bool can_sign(EVP_PKEY *key)
{
    char group[32] = "";
    size_t len;

    if (key && EVP_PKEY_get_base_id(key) == EVP_PKEY_ED25519)
        return true;
    return key && EVP_PKEY_get_base_id(key) == EVP_PKEY_EC &&
           EVP_PKEY_get_group_name(key, group, sizeof group, &len) == 1 &&
           (strcmp(group, "prime256v1") == 0 || strcmp(group, "P-256") == 0);
}

static EVP_PKEY *load_key(const struct image_text *text, bool is_private, struct coto_err *err)
{
    BIO *bio = BIO_new_mem_buf(coto_buf_str(&text->data), (int)text->data.len);
    EVP_PKEY *key = !bio         ? NULL
                    : is_private ? PEM_read_bio_PrivateKey(bio, NULL, NULL, "")
                                 : PEM_read_bio_PUBKEY(bio, NULL, NULL, NULL);

    BIO_free(bio);
    if (can_sign(key))
        return key;
    EVP_PKEY_free(key);
    coto_err_set(err, COTO_ERR_INPUT, 0, "key '%s': not a %s key of Ed25519 or P-256 in PEM",
                 text->path, is_private ? "private" : "public");
    coto_err_remedy(err, is_private ? "openssl genpkey -algorithm ed25519 -out image.key"
                                    : "openssl pkey -in image.key -pubout -out image.pub");
    return NULL;
}

/* Base64 as cosign writes it, or the bytes themselves. */
static void decode(const struct coto_buf *data, struct coto_buf *ret_raw)
{
    coto_auto_buf text = {0};

    for (size_t i = 0; i < data->len; i++)
        if (!isspace((unsigned char)data->data[i]))
            coto_buf_addc(&text, data->data[i]);
    if (text.len && coto_base64_take(ret_raw, text.data, text.len) == 0)
        return;
    coto_buf_clear(ret_raw);
    coto_buf_add(ret_raw, coto_buf_str(data), data->len);
}

static int check_pem(const struct image_text *key, const struct coto_buf *signature,
                     const struct coto_buf *message, struct coto_err *err)
{
    coto_auto_buf raw = {0};
    EVP_PKEY *pkey = load_key(key, false, err);
    EVP_MD_CTX *ctx = EVP_MD_CTX_new();

    decode(signature, &raw);
    bool good = pkey && ctx && EVP_DigestVerifyInit(ctx, NULL, digest_for(pkey), NULL, pkey) == 1 &&
                EVP_DigestVerify(ctx, (const unsigned char *)coto_buf_str(&raw), raw.len,
                                 (const unsigned char *)coto_buf_str(message), message->len) == 1;
    EVP_MD_CTX_free(ctx);
    EVP_PKEY_free(pkey);
    if (!pkey)
        return -1;
    return good ? IMAGE_SIG_GOOD : IMAGE_SIG_OTHER_KEY; /* it names no key: nobody can tell */
}

int image_sign_make(const struct coto_image *image, const char *key_file, struct coto_buf *ret_text,
                    struct coto_err *err)
{
    struct image_text key = {0};
    coto_auto_buf message = {0};
    unsigned char signature[256];
    size_t len = sizeof signature;

    if (read_text(key_file, &key, err) || image_read_listing(image, &message, err)) {
        coto_buf_fini(&key.data);
        return -1;
    }
    EVP_PKEY *pkey = load_key(&key, true, err);
    EVP_MD_CTX *ctx = EVP_MD_CTX_new();
    bool done = pkey && ctx && EVP_DigestSignInit(ctx, NULL, digest_for(pkey), NULL, pkey) == 1 &&
                EVP_DigestSign(ctx, signature, &len, (const unsigned char *)coto_buf_str(&message),
                               message.len) == 1;
    EVP_MD_CTX_free(ctx);
    OPENSSL_cleanse(key.data.data, key.data.len);
    coto_buf_fini(&key.data);
    EVP_PKEY_free(pkey);
    if (!done)
        return pkey ? coto_err_set(err, COTO_ERR_INTERNAL, 0, "sign: OpenSSL refuses") : -1;
    coto_base64_add(ret_text, signature, len);
    coto_buf_addc(ret_text, '\n');
    return 0;
}

/* ---- all signatures of an image ---- */

struct tally {
    int all, of_kind, bad;
};

static int check_one(const struct coto_image *image, const struct image_text *key, const char *name,
                     const struct coto_buf *message, struct tally *tally, struct coto_err *err)
{
    coto_auto_buf data = {0};
    coto_auto_buf path = {0};
    enum kind kind = kind_of_key(&key->data);
    coto_auto_fd fd = -1;

    coto_buf_addf(&path, "signatures/%s", name);
    fd = coto_path_open_beneath(image->fd, coto_buf_str(&path), O_RDONLY, 0);
    if (fd < 0 || coto_fd_read_all(fd, SMALL_MAX, &data))
        return coto_err_set(err, COTO_ERR_INPUT, errno, "image sha256:%s: '%s'", image->digest,
                            coto_buf_str(&path));
    tally->all++;
    if (kind_of_signature(&data) != kind)
        return IMAGE_SIG_OTHER_KEY;
    tally->of_kind++;
    if (kind == MINISIGN)
        return image_minisign_check(key, &data, message, err);
    if (kind == PEM)
        return check_pem(key, &data, message, err);
    coto_auto_buf whole = {0};
    coto_auto_buf listing = {0};
    coto_buf_addf(&whole, "%s/%s", image->path, coto_buf_str(&path));
    coto_buf_addf(&listing, "%s/listing", image->path);
    return image_gpg_check(key, coto_buf_str(&whole), coto_buf_str(&listing), err);
}

static int refuse(const struct coto_image *image, const char *key, const struct tally *tally,
                  struct coto_err *err)
{
    const char *name = *image->name ? image->name : image->digest;

    if (tally->all == 0) {
        coto_err_set(err, COTO_ERR_FORBIDDEN, 0,
                     "image '%s': it is not signed, and a signature of '%s' is asked for", name,
                     key);
        return coto_err_remedy(
            err, "coto image sign NAME --key PRIVATE, or --signature FILE for one made elsewhere");
    }
    if (tally->bad) {
        coto_err_set(err, COTO_ERR_FORBIDDEN, 0,
                     "image '%s': its signature by '%s' does not fit it", name, key);
        return coto_err_remedy(
            err, "it was made for another image, has expired, or was changed: sign this one again");
    }
    coto_err_set(err, COTO_ERR_FORBIDDEN, 0, "image '%s': none of its %d signatures is by '%s'",
                 name, tally->all, key);
    return coto_err_remedy(err, "use the key of who signed it, or have it signed by this one");
}

static int check_all(const struct coto_image *image, const struct image_text *key,
                     struct coto_err *err)
{
    coto_auto_fd dir = coto_path_open_beneath(image->fd, "signatures", O_RDONLY | O_DIRECTORY, 0);
    coto_auto_strv names = {0};
    coto_auto_buf message = {0};
    struct tally tally = {0};

    if (dir < 0 || image_dir_names(dir, &names))
        return coto_err_set(err, COTO_ERR_INPUT, errno, "image sha256:%s: signatures",
                            image->digest);
    if (image_read_listing(image, &message, err))
        return -1;
    for (size_t i = 0; i < names.count; i++) {
        int result = check_one(image, key, names.items[i], &message, &tally, err);
        if (result == IMAGE_SIG_GOOD || result < 0)
            return result;
        tally.bad += result == IMAGE_SIG_BAD;
    }
    return refuse(image, key->path, &tally, err);
}

int image_sign_verify(const struct coto_image *image, const char *key_file, struct coto_err *err)
{
    struct image_text key = {0};
    int failed = read_text(key_file, &key, err) || check_all(image, &key, err);

    coto_buf_fini(&key.data);
    return failed ? -1 : 0;
}

int image_sign_attach(const struct coto_image *image, const struct coto_buf *signature,
                      struct coto_err *err)
{
    coto_auto_fd dir = coto_path_open_beneath(image->fd, "signatures", O_RDONLY | O_DIRECTORY, 0);
    char hex[COTO_SHA256_HEX];

    if (dir < 0)
        return coto_err_set(err, COTO_ERR_OUTPUT, errno, "image sha256:%s: signatures",
                            image->digest);
    if (signature->len == 0 || signature->len > SMALL_MAX)
        return coto_err_set(err, COTO_ERR_INPUT, 0, "not a signature");
    coto_sha256_of(coto_buf_str(signature), signature->len, hex);
    hex[32] = '\0';
    return coto_newfile_replace(dir, hex, 0644, signature, err);
}

int image_sign_count(int image, struct coto_buf *ret_kinds)
{
    coto_auto_fd dir = coto_path_open_beneath(image, "signatures", O_RDONLY | O_DIRECTORY, 0);
    coto_auto_strv names = {0};

    if (dir < 0 || image_dir_names(dir, &names))
        return 0;
    for (size_t i = 0; i < names.count; i++) {
        coto_auto_fd fd = coto_path_open_beneath(dir, names.items[i], O_RDONLY, 0);
        coto_auto_buf data = {0};
        if (fd >= 0 && coto_fd_read_all(fd, SMALL_MAX, &data) == 0)
            coto_buf_addf(ret_kinds, "%s%s", ret_kinds->len ? ", " : "",
                          kind_names[kind_of_signature(&data)]);
    }
    return (int)names.count;
}
