/* A small certificate authority in a directory, for the TLS of a service and its clients.
 *
 *   ca.key      0600  signs certificates and the revocation list
 *   ca.crt      0644  whom servers and clients trust
 *   crl.pem     0644  what is revoked; the only record of that
 *   NAME.key    0600  NAME.crt  0644  what was issued
 *   old/              certificates that were revoked or renewed, NAME-SERIAL.*
 *
 * P-256 keys throughout. A certificate is for servers or for clients, never for both, and says
 * so. The directory is 0700 and locked while it is used. Nothing is overwritten but crl.pem, which
 * is replaced as a whole. A revocation list does not expire before its authority does unless asked
 * to: the file is local, and an expired one would lock everybody out.
 */
#pragma once

#include "base/err.h"
#include "base/str.h"

#include <stdbool.h>
#include <stdint.h>

#define COTO_PKI_NAME 65
#define COTO_PKI_SERIAL 41
#define COTO_PKI_CA_DAYS 3650
#define COTO_PKI_DAYS 365

struct coto_pki;

/* A new authority; the directory is made, or must be empty. */
int coto_pki_init(const char *dir, int days, struct coto_err *err);
/* Waits while another process has it. */
int coto_pki_open(const char *dir, struct coto_pki **ret_pki, struct coto_err *err);
void coto_pki_close(struct coto_pki *pki); /* NULL is fine */

struct coto_pki_cert {
    char name[COTO_PKI_NAME];
    char serial[COTO_PKI_SERIAL]; /* upper-case hexadecimal */
    char file[128];               /* in the directory */
    char sans[512];               /* "DNS:localhost, IP:127.0.0.1" */
    bool is_server, is_client;
    bool is_revoked, is_old;
    int64_t not_after; /* seconds since 1970 */
};

struct coto_pki_request {
    const char *name;
    bool is_server;               /* else for a client */
    const struct coto_strv *sans; /* DNS:, IP:, URI: or bare. A server has its name too, a client
                                     without any has urn:coto:client:NAME; renewed without any:
                                     those it had */
    int days;
    bool renew; /* the present files of that name are moved to old/ once there are others */
};

/* Writes NAME.key and NAME.crt. */
int coto_pki_issue(struct coto_pki *pki, const struct coto_pki_request *request,
                   struct coto_pki_cert *ret_cert, struct coto_err *err);
/* Revokes all unrevoked certificates of a name, or the one with a serial; tells their
 * serials, and the files that were moved: each old name, then the new one. What is revoked
 * already is no error. */
int coto_pki_revoke(struct coto_pki *pki, const char *name_or_serial, struct coto_strv *ret_serials,
                    struct coto_strv *ret_moved, struct coto_err *err);
/* Signs the list anew; days 0: as long as the authority lives. */
int coto_pki_sign_crl(struct coto_pki *pki, int days, struct coto_err *err);

struct coto_pki_list {
    struct coto_pki_cert *items; /* by name, then by time of expiry */
    size_t count;
};
int coto_pki_list(struct coto_pki *pki, struct coto_pki_list *ret_list, struct coto_err *err);
void coto_pki_list_fini(struct coto_pki_list *list);
