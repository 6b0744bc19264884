/* What a certificate of ours says. */
#include "auth/keyset.h"
#include "auth/newfile.h"
#include "auth/pki_int.h"

#include "base/fd.h"

#include <arpa/inet.h>
#include <errno.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <time.h>

/* ---- small things ---- */

int pki_add_cert(struct coto_buf *out, X509 *cert)
{
    BIO *bio = BIO_new(BIO_s_mem());
    char *text = NULL;
    long len = bio && PEM_write_bio_X509(bio, cert) == 1 ? BIO_get_mem_data(bio, &text) : 0;

    if (len > 0)
        coto_buf_add(out, text, (size_t)len);
    BIO_free(bio);
    return len > 0 && !out->failed ? 0 : -1;
}

int64_t pki_seconds(const ASN1_TIME *time)
{
    struct tm tm = {0};

    return time && ASN1_TIME_to_tm(time, &tm) == 1 ? (int64_t)timegm(&tm) : 0;
}

void pki_hex(const ASN1_INTEGER *serial, char ret_text[COTO_PKI_SERIAL])
{
    BIGNUM *bn = ASN1_INTEGER_to_BN(serial, NULL);
    char *text = bn ? BN_bn2hex(bn) : NULL;

    snprintf(ret_text, COTO_PKI_SERIAL, "%s", text ? text : "");
    OPENSSL_free(text);
    BN_free(bn);
}

/* ---- subject alternative names ---- */

static bool is_address(const char *text)
{
    unsigned char bytes[16];

    return inet_pton(AF_INET, text, bytes) == 1 || inet_pton(AF_INET6, text, bytes) == 1;
}

static bool is_host(const char *text)
{
    size_t len = strlen(text);

    if (strncmp(text, "*.", 2) == 0)
        text += 2;
    if (len == 0 || len > 253 || !strspn(text, COTO_NEWFILE_LETTERS "_"))
        return false;
    return !text[strspn(text, COTO_NEWFILE_LETTERS "._-")] && !strstr(text, "..");
}

static bool is_uri(const char *text)
{
    const char *colon = strchr(text, ':');

    for (const char *p = text; *p; p++)
        if (*p <= ' ' || *p >= 0x7f || strchr("\"<>\\^`{|}", *p))
            return false;
    return colon && colon > text && colon[1] && strlen(text) < 400;
}

/* "DSN:host": meant as a kind of name, and no scheme of a URI, which is written small. */
static bool is_kind(const char *text)
{
    size_t n = strspn(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZ");

    return n > 0 && text[n] == ':';
}

/* The kind of a name as given, and where it begins; -1 when it is none. */
static int judge_san(const char *text, const char **ret_value)
{
    if (strncasecmp(text, "DNS:", 4) == 0)
        return is_host(*ret_value = text + 4) ? GEN_DNS : -1;
    if (strncasecmp(text, "IP:", 3) == 0)
        return is_address(*ret_value = text + 3) ? GEN_IPADD : -1;
    if (strncasecmp(text, "URI:", 4) == 0)
        return is_uri(*ret_value = text + 4) ? GEN_URI : -1;
    *ret_value = text;
    if (is_address(text))
        return GEN_IPADD;
    if (is_host(text))
        return GEN_DNS;
    return is_uri(text) && !is_kind(text) ? GEN_URI : -1;
}

static int add_san(GENERAL_NAMES *names, const char *text, struct coto_err *err)
{
    const char *value;
    int kind = judge_san(text, &value);

    if (kind < 0) {
        coto_err_set(err, COTO_ERR_USAGE, 0, "'%.200s' is not a host name, address or URI", text);
        return coto_err_remedy(err, "write DNS:api.example.com, IP:10.0.0.5 or URI:urn:team:x");
    }
    GENERAL_NAME *name = a2i_GENERAL_NAME(NULL, NULL, NULL, kind, value, 0);
    if (name && sk_GENERAL_NAME_push(names, name) > 0)
        return 0;
    GENERAL_NAME_free(name);
    return coto_key_err(err, COTO_ERR_SYSTEM, "alternative name");
}

static int fill_sans(GENERAL_NAMES *names, const struct coto_pki_request *request,
                     struct coto_err *err)
{
    char urn[COTO_PKI_NAME + 32];
    size_t given = request->sans ? request->sans->count : 0;

    snprintf(urn, sizeof urn, "URI:urn:coto:client:%s", request->name);
    if (request->is_server && add_san(names, request->name, err))
        return -1;
    if (!request->is_server && given == 0 && add_san(names, urn, err))
        return -1;
    /* Nobody asks for localhost and wants 127.0.0.1 refused. */
    if (request->is_server && strcmp(request->name, "localhost") == 0 &&
        (add_san(names, "127.0.0.1", err) || add_san(names, "::1", err)))
        return -1;
    for (size_t i = 0; i < given; i++)
        if (add_san(names, request->sans->items[i], err))
            return -1;
    return 0;
}

/* Those of the one that is renewed, unless others are asked for. */
static int set_sans(X509 *cert, const struct coto_pki_request *request, X509 *present,
                    struct coto_err *err)
{
    bool stay = present && (!request->sans || request->sans->count == 0);
    GENERAL_NAMES *names = stay ? X509_get_ext_d2i(present, NID_subject_alt_name, NULL, NULL)
                                : GENERAL_NAMES_new();
    int failed = !names ? coto_key_err(err, COTO_ERR_SYSTEM, "alternative names")
                 : stay ? 0
                        : fill_sans(names, request, err);

    if (!failed && X509_add1_ext_i2d(cert, NID_subject_alt_name, names, 0, 0) != 1)
        failed = coto_key_err(err, COTO_ERR_SYSTEM, "alternative names");
    GENERAL_NAMES_free(names);
    return failed;
}

/* ---- the rest of a certificate ---- */

/* 127 random bits that are never zero: nobody can guess the next. */
static bool set_serial(X509 *cert)
{
    unsigned char bytes[16];

    if (RAND_bytes(bytes, sizeof bytes) != 1)
        return false;
    bytes[0] = (unsigned char)((bytes[0] & 0x7f) | 0x40);
    BIGNUM *bn = BN_bin2bn(bytes, sizeof bytes, NULL);
    bool done = bn && BN_to_ASN1_INTEGER(bn, X509_get_serialNumber(cert));
    BN_free(bn);
    return done;
}

static bool set_name(X509 *cert, const char *name)
{
    return X509_NAME_add_entry_by_txt(X509_get_subject_name(cert), "CN", MBSTRING_ASC,
                                      (const unsigned char *)name, -1, -1, 0) == 1;
}

static bool set_times(X509 *cert, int days, const X509 *ca)
{
    time_t now = time(NULL);
    time_t begin = now - PKI_SLACK_S;

    if (!X509_time_adj_ex(X509_getm_notBefore(cert), 0, 0, &begin) ||
        !X509_time_adj_ex(X509_getm_notAfter(cert), days, 0, &now))
        return false;
    /* What outlives its authority would only look valid. */
    if (ca && ASN1_TIME_compare(X509_get0_notAfter(cert), X509_get0_notAfter(ca)) > 0)
        return X509_set1_notAfter(cert, X509_get0_notAfter(ca)) == 1;
    return true;
}

struct extension {
    int nid;
    const char *value; /* NULL ends the list */
};

static bool add_extensions(X509 *cert, X509 *issuer, const struct extension *list)
{
    X509V3_CTX ctx;

    X509V3_set_ctx(&ctx, issuer, cert, NULL, NULL, 0);
    for (; list->value; list++) {
        X509_EXTENSION *ext = X509V3_EXT_conf_nid(NULL, &ctx, list->nid, list->value);
        bool added = ext && X509_add_ext(cert, ext, -1) == 1;
        X509_EXTENSION_free(ext);
        if (!added)
            return false;
    }
    return true;
}

static const struct extension of_ca[] = {
    {NID_basic_constraints, "critical,CA:TRUE,pathlen:0"},
    {NID_key_usage, "critical,keyCertSign,cRLSign"},
    {NID_subject_key_identifier, "hash"},
    {0, NULL},
};

static const struct extension of_server[] = {
    {NID_basic_constraints, "critical,CA:FALSE"},   {NID_key_usage, "critical,digitalSignature"},
    {NID_ext_key_usage, "serverAuth"},              {NID_subject_key_identifier, "hash"},
    {NID_authority_key_identifier, "keyid:always"}, {0, NULL},
};

static const struct extension of_client[] = {
    {NID_basic_constraints, "critical,CA:FALSE"},   {NID_key_usage, "critical,digitalSignature"},
    {NID_ext_key_usage, "clientAuth"},              {NID_subject_key_identifier, "hash"},
    {NID_authority_key_identifier, "keyid:always"}, {0, NULL},
};

static void x509_fini(X509 **cert)
{
    X509_free(*cert);
}
#define auto_x509 __attribute__((cleanup(x509_fini))) X509

X509 *pki_make_ca(EVP_PKEY *key, int days, struct coto_err *err)
{
    auto_x509 *cert = X509_new();
    char name[32];
    unsigned char random[4];

    /* Two authorities of one name would be taken for each other. */
    if (!cert || RAND_bytes(random, sizeof random) != 1) {
        coto_key_err(err, COTO_ERR_SYSTEM, "certificate");
        return NULL;
    }
    snprintf(name, sizeof name, "coto CA %02x%02x%02x%02x", random[0], random[1], random[2],
             random[3]);
    if (X509_set_version(cert, X509_VERSION_3) == 1 && set_serial(cert) && set_name(cert, name) &&
        X509_set_issuer_name(cert, X509_get_subject_name(cert)) == 1 &&
        set_times(cert, days, NULL) && X509_set_pubkey(cert, key) == 1 &&
        add_extensions(cert, cert, of_ca) && X509_sign(cert, key, EVP_sha256()) > 0)
        return coto_take_ptr(cert);
    coto_key_err(err, COTO_ERR_SYSTEM, "certificate");
    return NULL;
}

X509 *pki_make_cert(const struct coto_pki *pki, const struct coto_pki_request *request,
                    EVP_PKEY *key, X509 *present, struct coto_err *err)
{
    auto_x509 *cert = X509_new();

    if (!cert || X509_set_version(cert, X509_VERSION_3) != 1 || !set_serial(cert) ||
        !set_name(cert, request->name) ||
        X509_set_issuer_name(cert, X509_get_subject_name(pki->ca)) != 1 ||
        !set_times(cert, request->days, pki->ca) || X509_set_pubkey(cert, key) != 1 ||
        !add_extensions(cert, pki->ca, request->is_server ? of_server : of_client)) {
        coto_key_err(err, COTO_ERR_SYSTEM, "certificate");
        return NULL;
    }
    if (set_sans(cert, request, present, err))
        return NULL;
    if (X509_sign(cert, pki->key.pkey, pki->key.alg == COTO_KEY_EDDSA ? NULL : EVP_sha256()) > 0)
        return coto_take_ptr(cert);
    coto_key_err(err, COTO_ERR_SYSTEM, "certificate");
    return NULL;
}

/* ---- reading one back ---- */

static void add_address(struct coto_buf *out, const ASN1_OCTET_STRING *address)
{
    char text[INET6_ADDRSTRLEN] = "?";
    int len = ASN1_STRING_length(address);

    if (len == 4 || len == 16)
        inet_ntop(len == 4 ? AF_INET : AF_INET6, ASN1_STRING_get0_data(address), text, sizeof text);
    coto_buf_addf(out, "IP:%s", text);
}

static void describe_sans(X509 *cert, struct coto_pki_cert *ret_cert)
{
    GENERAL_NAMES *names = X509_get_ext_d2i(cert, NID_subject_alt_name, NULL, NULL);
    coto_auto_buf out = {0};

    for (int i = 0; i < sk_GENERAL_NAME_num(names); i++) {
        const GENERAL_NAME *name = sk_GENERAL_NAME_value(names, i);
        if (out.len)
            coto_buf_adds(&out, ", ");
        if (name->type == GEN_IPADD)
            add_address(&out, name->d.iPAddress);
        else if (name->type == GEN_DNS || name->type == GEN_URI)
            coto_buf_addf(&out, "%s:%.*s", name->type == GEN_DNS ? "DNS" : "URI",
                          ASN1_STRING_length(name->d.ia5),
                          (const char *)ASN1_STRING_get0_data(name->d.ia5));
    }
    snprintf(ret_cert->sans, sizeof ret_cert->sans, "%s", coto_buf_str(&out));
    GENERAL_NAMES_free(names);
}

int pki_describe(X509 *cert, struct coto_pki_cert *ret_cert)
{
    X509_NAME *subject = X509_get_subject_name(cert);
    uint32_t usage = X509_get_extended_key_usage(cert);

    if (X509_NAME_get_text_by_NID(subject, NID_commonName, ret_cert->name,
                                  sizeof ret_cert->name) < 1)
        return -1;
    pki_hex(X509_get0_serialNumber(cert), ret_cert->serial);
    describe_sans(cert, ret_cert);
    ret_cert->is_server = usage != UINT32_MAX && (usage & XKU_SSL_SERVER);
    ret_cert->is_client = usage != UINT32_MAX && (usage & XKU_SSL_CLIENT);
    ret_cert->not_after = pki_seconds(X509_get0_notAfter(cert));
    ERR_clear_error();
    return 0;
}
