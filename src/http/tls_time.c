/* Whether the files of TLS are of use now. OpenSSL loads what has expired without a word; only then no client takes the
 * server for what it is, or none is let in. */
#include "http/tls.h"

#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <stdint.h>
#include <time.h>

struct span {
    int64_t from, to; /* seconds since 1970 */
};

enum kind { FIRST_CERTIFICATE, ANY_CERTIFICATE, ANY_LIST };

static int64_t seconds_of(const ASN1_TIME *time, int64_t otherwise)
{
    struct tm tm = {0};

    return time && ASN1_TIME_to_tm(time, &tm) == 1 ? (int64_t)timegm(&tm) : otherwise;
}

static bool next_certificate(BIO *bio, struct span *ret_span)
{
    X509 *certificate = PEM_read_bio_X509(bio, NULL, NULL, NULL);

    if (certificate)
        *ret_span = (struct span){seconds_of(X509_get0_notBefore(certificate), 0),
                                  seconds_of(X509_get0_notAfter(certificate), INT64_MAX)};
    X509_free(certificate);
    return certificate != NULL;
}

static bool next_list(BIO *bio, struct span *ret_span)
{
    X509_CRL *list = PEM_read_bio_X509_CRL(bio, NULL, NULL, NULL);

    if (list)
        *ret_span = (struct span){seconds_of(X509_CRL_get0_lastUpdate(list), 0),
                                  seconds_of(X509_CRL_get0_nextUpdate(list), INT64_MAX)};
    X509_CRL_free(list);
    return list != NULL;
}

/* Of several one may be of use and another not: the one that ends last counts. */
static bool read_span(const char *file, enum kind kind, struct span *ret_span)
{
    BIO *bio = BIO_new_file(file, "r");
    struct span last = {0, -1}, span = last;

    while (bio && (kind == ANY_LIST ? next_list : next_certificate)(bio, &span)) {
        if (span.to > last.to)
            last = span;
        if (kind == FIRST_CERTIFICATE)
            break;
    }
    BIO_free(bio);
    ERR_clear_error();
    *ret_span = last;
    return last.to >= 0;
}

static void write_time(int64_t seconds, char *to, size_t size)
{
    time_t time = (time_t)seconds;
    struct tm tm;

    if (!gmtime_r(&time, &tm) || !strftime(to, size, "%Y-%m-%d %H:%M:%S UTC", &tm))
        *to = '\0';
}

int coto_tls_check_time(const struct coto_tls_config *config, int64_t now_s, struct coto_err *err)
{
    const struct {
        const char *name, *file, *remedy;
        enum kind kind;
    } files[] = {
        {"certificate", config->certificate, "coto pki issue server NAME --renew makes another",
         FIRST_CERTIFICATE},
        {"client CA", config->client_ca, "name the authority that issues to clients now; coto pki init makes one",
         ANY_CERTIFICATE},
        {"revocation list", config->crl, "coto pki crl signs it anew; as it is every client is refused",
         ANY_LIST},
    };
    struct span span;
    char when[64];

    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        if (!files[i].file || !read_span(files[i].file, files[i].kind, &span) ||
            (span.from <= now_s && now_s < span.to))
            continue;
        bool is_early = now_s < span.from;
        write_time(is_early ? span.from : span.to, when, sizeof when);
        coto_err_set(err, COTO_ERR_INPUT, 0, "TLS: %s '%s': %s %s", files[i].name, files[i].file,
                     is_early ? "not valid before" : "expired on", when);
        return coto_err_remedy(err, "%s", is_early ? "look at this host's clock" : files[i].remedy);
    }
    return 0;
}
