/* The revocation list. */
#include "auth/keyset.h"
#include "auth/newfile.h"
#include "auth/pki_int.h"

#include <errno.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <string.h>
#include <time.h>

X509_CRL *pki_crl_new(void)
{
    X509_CRL *crl = X509_CRL_new();

    if (crl && X509_CRL_set_version(crl, X509_CRL_VERSION_2) == 1)
        return crl;
    X509_CRL_free(crl);
    return NULL;
}

static ASN1_INTEGER *serial_of(const char *hex)
{
    BIGNUM *bn = NULL;
    ASN1_INTEGER *serial = BN_hex2bn(&bn, hex) ? BN_to_ASN1_INTEGER(bn, NULL) : NULL;

    BN_free(bn);
    return serial;
}

bool pki_crl_has(const struct coto_pki *pki, const char *serial)
{
    STACK_OF(X509_REVOKED) *list = X509_CRL_get_REVOKED(pki->crl);

    /* By hand: the library's search sorts the list it is given. */
    for (int i = 0; i < sk_X509_REVOKED_num(list); i++) {
        char text[COTO_PKI_SERIAL];
        pki_hex(X509_REVOKED_get0_serialNumber(sk_X509_REVOKED_value(list, i)), text);
        if (strcmp(text, serial) == 0)
            return true;
    }
    return false;
}

int pki_crl_add(struct coto_pki *pki, const char *serial, struct coto_err *err)
{
    ASN1_INTEGER *number = serial_of(serial);
    ASN1_TIME *now = ASN1_TIME_set(NULL, time(NULL));
    X509_REVOKED *entry = X509_REVOKED_new();
    bool done = number && now && entry && X509_REVOKED_set_serialNumber(entry, number) == 1 &&
                X509_REVOKED_set_revocationDate(entry, now) == 1 &&
                X509_CRL_add0_revoked(pki->crl, entry) == 1;

    if (!done)
        X509_REVOKED_free(entry);
    ASN1_INTEGER_free(number);
    ASN1_TIME_free(now);
    return done ? 0 : coto_key_err(err, COTO_ERR_SYSTEM, "revocation list");
}

/* Each list has a higher number than the one before. */
static bool set_number(X509_CRL *crl)
{
    ASN1_INTEGER *number = X509_CRL_get_ext_d2i(crl, NID_crl_number, NULL, NULL);
    int64_t value = 0;

    if (number && ASN1_INTEGER_get_int64(&value, number) != 1)
        value = 0;
    if (!number)
        number = ASN1_INTEGER_new();
    bool done = number && ASN1_INTEGER_set_int64(number, value + 1) == 1 &&
                X509_CRL_add1_ext_i2d(crl, NID_crl_number, number, 0, X509V3_ADD_REPLACE) == 1;
    ASN1_INTEGER_free(number);
    return done;
}

static bool set_issuer(const struct coto_pki *pki)
{
    X509V3_CTX ctx;

    if (X509_CRL_get_ext_by_NID(pki->crl, NID_authority_key_identifier, -1) >= 0)
        return true;
    X509V3_set_ctx(&ctx, pki->ca, NULL, NULL, pki->crl, 0);
    X509_EXTENSION *ext =
        X509V3_EXT_conf_nid(NULL, &ctx, NID_authority_key_identifier, "keyid:always");
    bool done = ext && X509_CRL_add_ext(pki->crl, ext, -1) == 1 &&
                X509_CRL_set_issuer_name(pki->crl, X509_get_subject_name(pki->ca)) == 1;
    X509_EXTENSION_free(ext);
    return done;
}

static bool set_times(const struct coto_pki *pki, int days)
{
    time_t now = time(NULL);
    ASN1_TIME *begin = ASN1_TIME_set(NULL, now - PKI_SLACK_S);
    ASN1_TIME *end = days ? ASN1_TIME_adj(NULL, now, days, 0)
                          : ASN1_STRING_dup(X509_get0_notAfter(pki->ca));
    bool done = begin && end && X509_CRL_set1_lastUpdate(pki->crl, begin) == 1 &&
                X509_CRL_set1_nextUpdate(pki->crl, end) == 1;

    ASN1_TIME_free(begin);
    ASN1_TIME_free(end);
    return done;
}

static int add_text(struct coto_buf *out, X509_CRL *crl)
{
    BIO *bio = BIO_new(BIO_s_mem());
    char *text = NULL;
    long len = bio && PEM_write_bio_X509_CRL(bio, crl) == 1 ? BIO_get_mem_data(bio, &text) : 0;

    if (len > 0)
        coto_buf_add(out, text, (size_t)len);
    BIO_free(bio);
    return len > 0 ? 0 : -1;
}

int pki_crl_write(struct coto_pki *pki, int days, struct coto_err *err)
{
    coto_auto_buf text = {0};
    const EVP_MD *digest = pki->key.alg == COTO_KEY_EDDSA ? NULL : EVP_sha256();

    if (!set_issuer(pki) || !set_number(pki->crl) || !set_times(pki, days) ||
        X509_CRL_sort(pki->crl) != 1 || X509_CRL_sign(pki->crl, pki->key.pkey, digest) <= 0 ||
        add_text(&text, pki->crl))
        return coto_key_err(err, COTO_ERR_SYSTEM, "revocation list");
    return coto_newfile_replace(pki->dir_fd, "crl.pem", 0644, &text, err);
}
