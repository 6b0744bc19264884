/* Inside the room: the authority's parts. */
#pragma once

#include "auth/pki.h"

#include "auth/keys.h"

#include <openssl/x509.h>

/* Certificates and lists begin a little in the past: clocks differ. */
#define PKI_SLACK_S 300

struct coto_pki {
    char *dir;
    int dir_fd; /* locked */
    struct coto_key key;
    X509 *ca;
    X509_CRL *crl;
};

/* pki_cert.c: certificates in memory; NULL after an error. */
X509 *pki_make_ca(EVP_PKEY *key, int days, struct coto_err *err);
X509 *pki_make_cert(const struct coto_pki *pki, const struct coto_pki_request *request,
                    EVP_PKEY *key, X509 *present, struct coto_err *err);
int pki_describe(X509 *cert, struct coto_pki_cert *ret_cert);

/* pki_crl.c */
int pki_crl_add(struct coto_pki *pki, const char *serial, struct coto_err *err);
bool pki_crl_has(const struct coto_pki *pki, const char *serial);
/* Signs and writes; the file is the old or the new one. */
int pki_crl_write(struct coto_pki *pki, int days, struct coto_err *err);
X509_CRL *pki_crl_new(void);

/* A PEM text. */
int pki_add_cert(struct coto_buf *out, X509 *cert);
int64_t pki_seconds(const ASN1_TIME *time);
void pki_hex(const ASN1_INTEGER *serial, char ret_text[COTO_PKI_SERIAL]);
