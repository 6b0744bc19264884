#include "remote/trouble.h"

#include "base/fd.h"
#include "base/own.h"
#include "base/str.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define PEM_MAX ((size_t)1 << 20)
#define KEY "PRIVATE KEY-----"

/* ---- files ---- */

static int check_file(const char *flag, const char *path, struct coto_err *err)
{
    struct stat st;

    if (!*path)
        return 0;
    if (access(path, R_OK) || stat(path, &st))
        return coto_err_set(err, COTO_ERR_INPUT, errno, "--%s '%s'", flag, path);
    if (S_ISDIR(st.st_mode))
        return coto_err_set(err, COTO_ERR_INPUT, EISDIR, "--%s '%s'", flag, path);
    return 0;
}

static bool has_text(const char *path, const char *text)
{
    coto_auto_buf pem = {0};
    coto_auto_fd fd = open(path, O_RDONLY | O_CLOEXEC);

    return fd >= 0 && coto_fd_read_all(fd, PEM_MAX, &pem) == 0 && strstr(coto_buf_str(&pem), text);
}

/* One without the other. Both may be in one file. */
static int check_pair(const struct coto_remote_given *given, struct coto_err *err)
{
    if (*given->key && !*given->certificate) {
        coto_err_set(err, COTO_ERR_USAGE, 0, "--client-key without --client-certificate");
        return coto_err_remedy(err, "name the certificate that '%.200s' is the key of: --client-certificate FILE", given->key);
    }
    if (!*given->certificate || *given->key || has_text(given->certificate, KEY))
        return 0;
    coto_err_set(err, COTO_ERR_USAGE, 0, "--client-certificate without --client-key");
    return coto_err_remedy(err, "name the key of '%.200s': --client-key FILE (of coto pki: beside it, NAME.key)",
                           given->certificate);
}

int coto_remote_check_files(const struct coto_remote_given *given, struct coto_err *err)
{
    if (check_file("server-ca", given->ca, err) || check_file("client-certificate", given->certificate, err) ||
        check_file("client-key", given->key, err))
        return -1;
    return strncmp(given->server, "https:", 6) == 0 ? check_pair(given, err) : 0;
}

/* ---- connections ---- */

/* curl's own words name a host and a port, where there are none. */
static int explain_socket(const struct coto_remote_given *given, CURL *curl, struct coto_err *err)
{
    long error = 0;

    curl_easy_getinfo(curl, CURLINFO_OS_ERRNO, &error);
    coto_err_set(err, COTO_ERR_UNAVAILABLE, (int)error, "%s: cannot connect to that socket", given->server);
    return coto_err_remedy(err, "is the service running, is that its socket, and may you use it? "
                                "(coto serve says at its start where it listens)");
}

static int explain_their_certificate(const struct coto_remote_given *given, const char *why, struct coto_err *err)
{
    coto_err_set(err, COTO_ERR_UNAVAILABLE, 0, "%s: %s", given->server, why);
    return *given->ca ? coto_err_remedy(err, "--server-ca must be the authority that the service's "
                                             "certificate comes from, and --server a name in it")
                      : coto_err_remedy(err, "name the authority that the service's certificate comes "
                                             "from: --server-ca FILE (of coto pki: ca.crt)");
}

/* The library refuses them; which of the two it means is in the files. */
static int explain_our_files(const struct coto_remote_given *given, const char *why, struct coto_err *err)
{
    const char *key = *given->key ? given->key : given->certificate;
    bool is_key = strstr(why, "private key");

    if (!is_key) {
        coto_err_set(err, COTO_ERR_INPUT, 0, "--client-certificate '%.200s': no certificate in it that can be used",
                     given->certificate);
        return coto_err_remedy(err, "it must be PEM (BEGIN CERTIFICATE); of coto pki: NAME.crt");
    }
    if (has_text(key, "ENCRYPTED"))
        return coto_err_set(err, COTO_ERR_INPUT, 0, "--client-key '%.200s': it has a passphrase", key);
    if (!has_text(key, KEY)) {
        coto_err_set(err, COTO_ERR_INPUT, 0, "--client-key '%.200s': no private key in it", key);
        return coto_err_remedy(err, "it must be PEM (BEGIN PRIVATE KEY); of coto pki: NAME.key");
    }
    coto_err_set(err, COTO_ERR_INPUT, 0, "--client-key '%.150s' does not belong to --client-certificate '%.150s'", key,
                 given->certificate);
    return coto_err_remedy(err, "name the two that were made together (of coto pki: NAME.crt and NAME.key)");
}

/* What the other side told (TLS alerts), and what it was that is no TLS. */
static const struct {
    const char *piece; /* of curl's words, or "" any of that code */
    CURLcode code;     /* CURLE_OK: any */
    const char *text;
    const char *remedy;
} troubles[] = {
    {"alert certificate required", CURLE_OK, "the service wants a certificate of yours",
     "name it and its key: --client-certificate FILE --client-key FILE"},
    {"alert certificate revoked", CURLE_OK, "the certificate of --client-certificate is revoked",
     "have another one issued (coto pki issue client NAME)"},
    {"alert certificate expired", CURLE_OK, "the certificate of --client-certificate has expired",
     "have another one issued (coto pki issue client NAME)"},
    {"alert unknown ca", CURLE_OK, "the certificate of --client-certificate is of no authority that the service trusts",
     "name one of the service's own authority (its client-ca)"},
    {"wrong version number", CURLE_OK, "no TLS is spoken there", "is it the service's plain port? then --server http://127.0.0.1:PORT"},
    {"", CURLE_GOT_NOTHING, "no answer came", "does it want TLS there? then --server https://HOST:PORT"},
};

int coto_remote_explain(const struct coto_remote_given *given, CURL *curl, CURLcode code, const char *why,
                        struct coto_err *err)
{
    bool is_socket = strncmp(given->server, "unix:", 5) == 0;

    if (code == CURLE_COULDNT_CONNECT && is_socket)
        return explain_socket(given, curl, err);
    if (code == CURLE_PEER_FAILED_VERIFICATION)
        return explain_their_certificate(given, why, err);
    if (code == CURLE_SSL_CERTPROBLEM)
        return explain_our_files(given, why, err);
    for (size_t i = 0; i < sizeof troubles / sizeof *troubles && !is_socket; i++) {
        if (!strstr(why, troubles[i].piece) || (troubles[i].code != CURLE_OK && troubles[i].code != code))
            continue;
        coto_err_set(err, COTO_ERR_UNAVAILABLE, 0, "%s: %s", given->server, troubles[i].text);
        return coto_err_remedy(err, "%s", troubles[i].remedy);
    }
    coto_err_set(err, COTO_ERR_UNAVAILABLE, 0, "%s: %s", given->server, why);
    return coto_err_remedy(err, "is the service there, and does it know you? (--token-file, --server-ca, "
                                "--client-certificate, --client-key)");
}
