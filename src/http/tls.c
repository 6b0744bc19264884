#include "http/tls.h"

#include "base/own.h"
#include "base/str.h"
#include "http/server.h"

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#define NAME_MAX_BYTES 1024 /* of one name in a certificate */

struct coto_tls {
    char *certificate, *key, *client_ca, *crl;
    SSL_CTX *context;
};

/* OpenSSL's own type would have to be in the header; this is it by another name. */
static SSL *ssl_of(struct coto_tls_conn *conn)
{
    return (SSL *)conn;
}

/* Whether a PEM text has a block of that kind; the first that it has. */
static bool has_block(const char *file, const char *wanted, char ret_first[64])
{
    char line[128], kind[64];
    FILE *text = fopen(file, "re");
    bool found = false;

    ret_first[0] = '\0';
    while (text && !found && fgets(line, sizeof line, text)) {
        if (sscanf(line, "-----BEGIN %63[A-Z0-9 ]-----", kind) != 1)
            continue;
        found = strstr(kind, wanted) != NULL;
        if (!*ret_first)
            memcpy(ret_first, kind, sizeof kind);
    }
    if (text)
        fclose(text);
    return found;
}

/* What is there instead of what was looked for: OpenSSL says only that it is not. 0: that is not what is wrong. */
static int refuse_kind(struct coto_err *err, const char *what, const char *file)
{
    static const struct {
        const char *what, *noun, *wanted;
    } rows[] = {{"certificate", "a certificate", "CERTIFICATE"}, {"client CA", "a certificate", "CERTIFICATE"},
                {"key", "a private key", "PRIVATE KEY"}, {"revocation list", "a revocation list", "X509 CRL"}};
    char first[64];

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (strcmp(rows[i].what, what) != 0 || has_block(file, rows[i].wanted, first))
            continue;
        coto_err_set(err, COTO_ERR_INPUT, 0, "TLS: %s '%s': %s (BEGIN %s) was expected, %s%s is there", what, file, rows[i].noun,
                     rows[i].wanted, *first ? "BEGIN " : "", *first ? first : "no PEM text");
        return coto_err_remedy(err, "name the PEM file that has it; `coto pki` makes NAME.crt, NAME.key, ca.crt and crl.pem");
    }
    return 0;
}

static int tls_err(struct coto_err *err, const char *what, const char *file)
{
    unsigned long code = ERR_peek_last_error();
    unsigned long first = ERR_peek_error(); /* the kernel's word, before OpenSSL's of the same */
    bool is_sys = ERR_GET_LIB(first) == ERR_LIB_SYS;
    /* "PEM lib" says only who complains: what it says comes first. */
    const char *reason = is_sys                                     ? strerror(ERR_GET_REASON(first))
                         : ERR_GET_REASON(code) == ERR_R_PEM_LIB ? ERR_reason_error_string(first)
                                                                    : ERR_reason_error_string(code);

    ERR_clear_error();
    if (file && !is_sys && refuse_kind(err, what, file))
        return -1;
    coto_err_set(err, COTO_ERR_INPUT, 0, "TLS: %s '%s': %s", what, file ? file : "",
                 reason ? reason : "cannot be used");
    return coto_err_remedy(err, is_sys ? "name a PEM file that is there and readable for the server"
                                       : "check the file: it has to be PEM and readable for the server");
}

/* A key with a password would make OpenSSL ask on the terminal. */
static int no_password(char *buf, int size, int for_writing, void *arg)
{
    (void)buf, (void)size, (void)for_writing, (void)arg;
    return -1;
}

/* One protocol is spoken here; who insists on another one is refused, not misunderstood. */
static int choose_protocol(SSL *ssl, const unsigned char **ret_name, unsigned char *ret_len,
                           const unsigned char *offered, unsigned len, void *arg)
{
    static const unsigned char ours[] = "\x08http/1.1";
    unsigned char *chosen;

    (void)ssl, (void)arg;
    if (SSL_select_next_proto(&chosen, ret_len, ours, sizeof ours - 1, offered, len) !=
        OPENSSL_NPN_NEGOTIATED)
        return SSL_TLSEXT_ERR_ALERT_FATAL;
    *ret_name = chosen;
    return SSL_TLSEXT_ERR_OK;
}

static int set_rules(SSL_CTX *context)
{
    SSL_CTX_set_security_level(context, 2);
    SSL_CTX_set_options(context, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION |
                                     SSL_OP_IGNORE_UNEXPECTED_EOF | SSL_OP_NO_TICKET);
    SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
    SSL_CTX_set_mode(context, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_RELEASE_BUFFERS |
                                  SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
    SSL_CTX_set_default_passwd_cb(context, no_password);
    SSL_CTX_set_alpn_select_cb(context, choose_protocol, NULL);
    return SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION) == 1 &&
           SSL_CTX_set_num_tickets(context, 0) == 1 &&
           SSL_CTX_set_cipher_list(context, "ECDHE+AESGCM:ECDHE+CHACHA20") == 1;
}

/* Of a client's own certificate nobody is the issuer, and every client would be refused; unless it is its own. */
static bool has_authority(SSL_CTX *context)
{
    STACK_OF(X509_OBJECT) *all = X509_STORE_get0_objects(SSL_CTX_get_cert_store(context));

    for (int i = 0; i < sk_X509_OBJECT_num(all); i++) {
        X509 *certificate = X509_OBJECT_get0_X509(sk_X509_OBJECT_value(all, i));
        if (certificate && (X509_check_ca(certificate) > 0 || X509_get_extension_flags(certificate) & EXFLAG_SS))
            return true;
    }
    return false;
}

/* By its name and by its signature: two authorities may have one name. */
static bool is_list_of(X509_CRL *list, X509 *certificate)
{
    return X509_NAME_cmp(X509_CRL_get_issuer(list), X509_get_subject_name(certificate)) == 0 &&
           X509_CRL_verify(list, X509_get0_pubkey(certificate)) == 1;
}

/* Without a list of the one that has signed its certificate nobody is let in. One list is enough here: that of an authority between
 * stands beside it, whose certificate only the clients may have. */
static bool has_own_list(SSL_CTX *context)
{
    STACK_OF(X509_OBJECT) *all = X509_STORE_get0_objects(SSL_CTX_get_cert_store(context));
    bool found = false;

    for (int i = 0; i < sk_X509_OBJECT_num(all); i++) {
        X509_CRL *list = X509_OBJECT_get0_X509_CRL(sk_X509_OBJECT_value(all, i));
        for (int k = 0; list && !found && k < sk_X509_OBJECT_num(all); k++) {
            X509 *certificate = X509_OBJECT_get0_X509(sk_X509_OBJECT_value(all, k));
            found = certificate && is_list_of(list, certificate);
        }
    }
    ERR_clear_error();
    return found;
}

static int load_lists(SSL_CTX *context, const char *crl, struct coto_err *err)
{
    X509_STORE *store = SSL_CTX_get_cert_store(context);
    X509_LOOKUP *lookup = X509_STORE_add_lookup(store, X509_LOOKUP_file());

    if (!lookup || X509_load_crl_file(lookup, crl, X509_FILETYPE_PEM) < 1 ||
        X509_STORE_set_flags(store, X509_V_FLAG_CRL_CHECK) != 1)
        return tls_err(err, "revocation list", crl);
    if (has_own_list(context))
        return 0;
    coto_err_set(err, COTO_ERR_INPUT, 0, "TLS: revocation list '%s': it is of none of the authorities in client-ca", crl);
    return coto_err_remedy(err, "name the list that goes with client-ca: with one of another authority no client would be let in; "
                                "coto pki makes ca.crt and crl.pem side by side");
}

static int load_clients(SSL_CTX *context, const struct coto_tls *tls, struct coto_err *err)
{
    STACK_OF(X509_NAME) *names = SSL_load_client_CA_file(tls->client_ca);

    if (!names || SSL_CTX_load_verify_locations(context, tls->client_ca, NULL) != 1) {
        sk_X509_NAME_pop_free(names, X509_NAME_free);
        return tls_err(err, "client CA", tls->client_ca);
    }
    SSL_CTX_set_client_CA_list(context, names);
    if (!has_authority(context)) {
        coto_err_set(err, COTO_ERR_INPUT, 0, "TLS: client CA '%s': it is no certificate of an authority", tls->client_ca);
        return coto_err_remedy(err, "name the one that has signed the clients' certificates; coto pki init makes ca.crt");
    }
    SSL_CTX_set_verify(context, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, NULL);
    return tls->crl ? load_lists(context, tls->crl, err) : 0;
}

/* No client takes another kind for a server's; OpenSSL loads it without a word. */
static int check_purpose(SSL_CTX *context, const char *file, struct coto_err *err)
{
    X509 *certificate = SSL_CTX_get0_certificate(context);

    if (certificate && X509_check_purpose(certificate, X509_PURPOSE_SSL_SERVER, 0) == 1)
        return 0;
    coto_err_set(err, COTO_ERR_INPUT, 0, "TLS: certificate '%s': it is not for TLS servers", file);
    return coto_err_remedy(err, "name one with the usage serverAuth; coto pki issue server NAME makes it");
}

static bool is_key_of_another(unsigned long code)
{
    int reason = ERR_GET_REASON(code);

    return ERR_GET_LIB(code) == ERR_LIB_X509
               ? reason == X509_R_KEY_VALUES_MISMATCH || reason == X509_R_KEY_TYPE_MISMATCH
               : ERR_GET_LIB(code) == ERR_LIB_SSL && reason == SSL_R_NO_CERTIFICATE_ASSIGNED;
}

static int load_key(const struct coto_tls *tls, SSL_CTX *context, struct coto_err *err)
{
    if (SSL_CTX_use_PrivateKey_file(context, tls->key, SSL_FILETYPE_PEM) == 1 &&
        SSL_CTX_check_private_key(context) == 1)
        return 0;
    if (!is_key_of_another(ERR_peek_last_error()))
        return tls_err(err, "key", tls->key);
    ERR_clear_error();
    coto_err_set(err, COTO_ERR_INPUT, 0, "TLS: key '%s': it is not the key of certificate '%s'",
                 tls->key, tls->certificate);
    return coto_err_remedy(err, "name the key that this certificate was made for, or the other way round");
}

static int load(const struct coto_tls *tls, SSL_CTX *context, struct coto_err *err)
{
    if (!context || !set_rules(context))
        return tls_err(err, "set-up", NULL);
    if (SSL_CTX_use_certificate_chain_file(context, tls->certificate) != 1)
        return tls_err(err, "certificate", tls->certificate);
    if (check_purpose(context, tls->certificate, err) || load_key(tls, context, err))
        return -1;
    return tls->client_ca ? load_clients(context, tls, err) : 0;
}

int coto_tls_reload(struct coto_tls *tls, struct coto_err *err)
{
    ERR_clear_error();
    SSL_CTX *context = SSL_CTX_new(TLS_server_method());
    if (load(tls, context, err) < 0) {
        SSL_CTX_free(context);
        return -1;
    }
    SSL_CTX_free(tls->context); /* connections hold their own reference */
    tls->context = context;
    return 0;
}

static char *copy(const char *text, bool *failed)
{
    char *copied = text ? strdup(text) : NULL;

    *failed |= text && !copied;
    return copied;
}

int coto_tls_new(const struct coto_tls_config *config, struct coto_tls **ret_tls,
                 struct coto_err *err)
{
    struct coto_tls *tls = calloc(1, sizeof *tls);
    bool failed = !tls;

    if (tls) {
        tls->certificate = copy(config->certificate, &failed);
        tls->key = copy(config->key, &failed);
        tls->client_ca = copy(config->client_ca, &failed);
        tls->crl = copy(config->crl, &failed);
    }
    if (failed)
        coto_err_set(err, COTO_ERR_SYSTEM, ENOMEM, "TLS");
    if (failed || coto_tls_reload(tls, err) < 0) {
        coto_tls_free(tls);
        return -1;
    }
    signal(SIGPIPE, SIG_IGN); /* OpenSSL writes without MSG_NOSIGNAL */
    *ret_tls = tls;
    return 0;
}

void coto_tls_free(struct coto_tls *tls)
{
    if (!tls)
        return;
    SSL_CTX_free(tls->context);
    free(tls->certificate);
    free(tls->key);
    free(tls->client_ca);
    free(tls->crl);
    free(tls);
}

/* Listeners hold tls itself: it stays where it is. */
int coto_tls_change(struct coto_tls *tls, const struct coto_tls_config *config, struct coto_err *err)
{
    struct coto_tls *fresh = NULL;

    if (coto_tls_new(config, &fresh, err))
        return -1;
    struct coto_tls old = *tls;
    *tls = *fresh;
    *fresh = old;
    coto_tls_free(fresh);
    return 0;
}

/* ---- who the client is ---- */

bool coto_tls_is_let_in(const struct coto_tls *tls, struct coto_tls_conn *conn)
{
    SSL_CTX *context = tls->context;
    X509 *certificate = SSL_get1_peer_certificate(ssl_of(conn));
    X509_STORE_CTX *check = X509_STORE_CTX_new();
    bool is_let_in = SSL_CTX_get_verify_mode(context) == SSL_VERIFY_NONE;

    if (certificate && check &&
        X509_STORE_CTX_init(check, SSL_CTX_get_cert_store(context), certificate, SSL_get_peer_cert_chain(ssl_of(conn))) == 1 &&
        X509_STORE_CTX_set_default(check, "ssl_client") == 1 &&
        X509_VERIFY_PARAM_set1(X509_STORE_CTX_get0_param(check), SSL_CTX_get0_param(context)) == 1)
        is_let_in = X509_verify_cert(check) == 1;
    X509_STORE_CTX_free(check);
    X509_free(certificate);
    ERR_clear_error();
    return is_let_in;
}

static bool copy_name(const char *kind, const ASN1_STRING *name, char *ret_text, size_t size)
{
    unsigned char *text = NULL;
    int len = ASN1_STRING_to_UTF8(&text, name);
    bool fits = len > 0 && strlen(kind) + (size_t)len < size && coto_utf8_valid(text, (size_t)len);

    for (int i = 0; fits && i < len; i++)
        fits = text[i] >= ' ' && text[i] != 0x7f; /* "a\0.evil" must not read as "a" */
    if (fits) {
        memcpy(ret_text, kind, strlen(kind));
        memcpy(ret_text + strlen(kind), text, (size_t)len);
        ret_text[strlen(kind) + (size_t)len] = '\0';
    }
    OPENSSL_free(text);
    return fits;
}

static bool find_san(const GENERAL_NAMES *names, int type, const char *kind, char *ret_text,
                     size_t size)
{
    for (int i = 0; i < sk_GENERAL_NAME_num(names); i++) {
        const GENERAL_NAME *name = sk_GENERAL_NAME_value(names, i);
        if (name->type == type)
            return copy_name(kind, name->d.ia5, ret_text, size);
    }
    return false;
}

/* With two common names nobody knows which one is meant. */
static bool copy_cn(X509 *certificate, const char *kind, char *ret_text, size_t size)
{
    X509_NAME *subject = X509_get_subject_name(certificate);
    int at = X509_NAME_get_index_by_NID(subject, NID_commonName, -1);

    return at >= 0 && X509_NAME_get_index_by_NID(subject, NID_commonName, at) < 0 &&
           copy_name(kind, X509_NAME_ENTRY_get_data(X509_NAME_get_entry(subject, at)), ret_text, size);
}

static void identify(X509 *certificate, struct coto_http_peer *ret_peer)
{
    GENERAL_NAMES *names = X509_get_ext_d2i(certificate, NID_subject_alt_name, NULL, NULL);
    BIGNUM *serial = ASN1_INTEGER_to_BN(X509_get0_serialNumber(certificate), NULL);
    char *digits = serial ? BN_bn2hex(serial) : NULL;

    copy_cn(certificate, "", ret_peer->cn, sizeof ret_peer->cn);
    if (!find_san(names, GEN_URI, "URI:", ret_peer->san, sizeof ret_peer->san))
        find_san(names, GEN_DNS, "DNS:", ret_peer->san, sizeof ret_peer->san);
    if (digits && strlen(digits) < sizeof ret_peer->serial)
        memcpy(ret_peer->serial, digits, strlen(digits) + 1);
    GENERAL_NAMES_free(names);
    BN_free(serial);
    OPENSSL_free(digits);
}

static bool any_san(const GENERAL_NAMES *names, coto_http_name_fn *fn, void *arg)
{
    char text[NAME_MAX_BYTES];

    for (int i = 0; i < sk_GENERAL_NAME_num(names); i++) {
        const GENERAL_NAME *name = sk_GENERAL_NAME_value(names, i);
        const char *kind = name->type == GEN_URI ? "URI:" : name->type == GEN_DNS ? "DNS:" : NULL;
        if (kind && copy_name(kind, name->d.ia5, text, sizeof text) && fn(text, arg))
            return true;
    }
    return false;
}

bool coto_tls_any_name(struct coto_tls_conn *conn, coto_http_name_fn *fn, void *arg)
{
    X509 *certificate = SSL_get0_peer_certificate(ssl_of(conn));
    char cn[NAME_MAX_BYTES];

    if (!certificate)
        return false;
    if (X509_get_ext_by_NID(certificate, NID_subject_alt_name, -1) < 0)
        return copy_cn(certificate, "CN:", cn, sizeof cn) && fn(cn, arg);
    /* NULL: it cannot be understood, or is there twice; then it has no name at all. */
    GENERAL_NAMES *names = X509_get_ext_d2i(certificate, NID_subject_alt_name, NULL, NULL);
    bool found = any_san(names, fn, arg);
    GENERAL_NAMES_free(names);
    ERR_clear_error();
    return found;
}

bool coto_tls_hash(struct coto_tls_conn *conn, unsigned char ret_hash[32])
{
    X509 *certificate = SSL_get0_peer_certificate(ssl_of(conn));
    unsigned len = 0;

    return certificate && X509_digest(certificate, EVP_sha256(), ret_hash, &len) == 1 && len == 32;
}

/* ---- one connection ---- */

struct coto_tls_conn *coto_tls_open(struct coto_tls *tls, int fd)
{
    SSL *ssl = SSL_new(tls->context);

    if (ssl && SSL_set_fd(ssl, fd) != 1) {
        SSL_free(ssl);
        return NULL;
    }
    if (ssl)
        SSL_set_accept_state(ssl);
    return (struct coto_tls_conn *)ssl;
}

void coto_tls_close(struct coto_tls_conn *conn)
{
    SSL_free(ssl_of(conn));
}

static int outcome(struct coto_tls_conn *conn, int result)
{
    switch (SSL_get_error(ssl_of(conn), result)) {
    case SSL_ERROR_WANT_READ:
        return COTO_TLS_WANT_READ;
    case SSL_ERROR_WANT_WRITE:
        return COTO_TLS_WANT_WRITE;
    case SSL_ERROR_ZERO_RETURN:
        return 0;
    default:
        ERR_clear_error();
        return -1;
    }
}

int coto_tls_handshake(struct coto_tls_conn *conn, struct coto_http_peer *ret_peer)
{
    ERR_clear_error();
    int result = SSL_do_handshake(ssl_of(conn));
    if (result != 1) {
        int wanted = outcome(conn, result);
        return wanted == 0 ? -1 : wanted;
    }
    X509 *certificate = SSL_get0_peer_certificate(ssl_of(conn));
    if (certificate && SSL_get_verify_result(ssl_of(conn)) != X509_V_OK)
        return -1;
    if (certificate)
        identify(certificate, ret_peer);
    return 0;
}

long coto_tls_read(struct coto_tls_conn *conn, void *data, size_t len)
{
    ERR_clear_error();
    int result = SSL_read(ssl_of(conn), data, (int)len);
    return result > 0 ? result : outcome(conn, result);
}

long coto_tls_write(struct coto_tls_conn *conn, const void *data, size_t len)
{
    ERR_clear_error();
    int result = SSL_write(ssl_of(conn), data, len > 1 << 30 ? 1 << 30 : (int)len);
    if (result > 0)
        return result;
    int wanted = outcome(conn, result);
    return wanted == 0 ? -1 : wanted;
}

void coto_tls_shutdown(struct coto_tls_conn *conn)
{
    ERR_clear_error();
    SSL_shutdown(ssl_of(conn));
    ERR_clear_error();
}
