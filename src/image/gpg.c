/* OpenPGP signatures by gpgv, a program without agent, trust database or network. */
#include "image/image.h"

#include "base/json.h"
#include "policy/helper.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define GPGV "/usr/bin/gpgv"
#define GPGV_SECONDS 60

static int not_a_key(const struct image_text *key, struct coto_err *err)
{
    coto_err_set(err, COTO_ERR_INPUT, 0, "'%s': not an OpenPGP public key", key->path);
    return coto_err_remedy(err, "give what 'gpg --export [--armor] KEY' writes");
}

/* What lies between the headers and the checksum of an armored key. */
static int dearmor(const struct image_text *key, struct coto_buf *ret_raw, struct coto_err *err)
{
    const char *p = strstr(coto_buf_str(&key->data), "-----BEGIN PGP PUBLIC KEY BLOCK-----");
    coto_auto_buf text = {0};
    bool in_body = false;

    for (p = p ? strchr(p, '\n') : NULL; p && *p; p += strcspn(p, "\n")) {
        p++;
        size_t n = strcspn(p, "\r\n");
        if (strncmp(p, "-----END", 8) == 0 || (in_body && *p == '='))
            break;
        if (in_body)
            coto_buf_add(&text, p, n);
        in_body = in_body || n == 0;
    }
    if (!text.len || coto_base64_take(ret_raw, text.data, text.len) || ret_raw->failed)
        return not_a_key(key, err);
    return 0;
}

/* gpgv reads binary keyrings only: a copy in a place of ours. */
static int write_ring(const struct image_text *key, char *path, struct coto_err *err)
{
    coto_auto_buf raw = {0};
    bool is_armored = strncmp(coto_buf_str(&key->data), "-----BEGIN", 10) == 0;

    if (is_armored && dearmor(key, &raw, err))
        return -1;
    const struct coto_buf *ring = is_armored ? &raw : &key->data;
    coto_auto_fd fd = mkstemp(path);
    if (fd < 0 || coto_fd_write_all(fd, coto_buf_str(ring), ring->len)) {
        coto_err_set(err, COTO_ERR_OUTPUT, errno, "'%s'", path);
        if (fd >= 0)
            unlink(path);
        return -1;
    }
    return 0;
}

static int judge(const struct image_text *key, const struct coto_buf *status, int ended,
                 struct coto_err *err)
{
    const char *text = coto_buf_str(status);

    /* gpgv ends with 0 and writes VALIDSIG for these three too. */
    if (strstr(text, "[GNUPG:] EXPKEYSIG ") || strstr(text, "[GNUPG:] REVKEYSIG ") ||
        strstr(text, "[GNUPG:] EXPSIG "))
        return IMAGE_SIG_BAD;
    if (ended == 0 && strstr(text, "[GNUPG:] GOODSIG ") && strstr(text, "[GNUPG:] VALIDSIG "))
        return IMAGE_SIG_GOOD;
    if (strstr(text, "[GNUPG:] NO_PUBKEY "))
        return IMAGE_SIG_OTHER_KEY;
    if (strstr(text, "[GNUPG:] BADSIG ") || strstr(text, "[GNUPG:] ERRSIG "))
        return IMAGE_SIG_BAD;
    return strstr(text, "[GNUPG:] NODATA") ? IMAGE_SIG_BAD : not_a_key(key, err);
}

int image_gpg_check(const struct image_text *key, const char *signature, const char *message,
                    struct coto_err *err)
{
    char ring[] = "/tmp/coto-ring-XXXXXX";
    coto_auto_buf status = {0};
    coto_auto_buf noise = {0};
    int ended = 0;

    if (access(GPGV, X_OK)) {
        coto_err_set(err, COTO_ERR_TOOL, 0,
                     "OpenPGP: " GPGV ", which checks such signatures, is not installed");
        return coto_err_remedy(err, "apt-get install gpgv");
    }
    if (write_ring(key, ring, err))
        return -1;
    char *argv[] = {"gpgv",      "--homedir", "/nonexistent",    "--status-fd",   "1",
                    "--keyring", ring,        (char *)signature, (char *)message, NULL};
    char *envp[] = {"LC_ALL=C", NULL};
    coto_auto_fd in = open("/dev/null", O_RDONLY | O_CLOEXEC);
    struct coto_helper_call call = {GPGV, argv, envp, in, GPGV_SECONDS};
    int failed = in < 0 || coto_helper_lift(&in);
    call.in_fd = in;
    failed = failed || coto_helper_run(&call, &status, &noise, &ended);
    unlink(ring);
    return failed ? coto_err_set(err, COTO_ERR_SYSTEM, errno, GPGV)
                  : judge(key, &status, ended, err);
}
