#include "base/err.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static const struct coto_err_info infos[] = {
    [COTO_ERR_NONE] = {"none", "no error", 0, 200},
#define X(id, code, http, word, doc) [COTO_ERR_##id] = {word, doc, code, http},
    COTO_ERR_KINDS(X)
#undef X
};

const struct coto_err_info *coto_err_info(int kind)
{
    if (kind < 0 || kind >= COTO_ERR_COUNT)
        kind = COTO_ERR_INTERNAL;
    return &infos[kind];
}

/* Names in parentheses: the analyser has macros of the same names (err.h). */
int (coto_err_set)(struct coto_err *err, int kind, int sys_errno, const char *fmt, ...)
{
    va_list ap;

    if (!err)
        return -1;
    err->kind = kind;
    err->sys_errno = sys_errno;
    err->remedy[0] = '\0';
    va_start(ap, fmt);
    int n = vsnprintf(err->text, sizeof err->text, fmt, ap);
    va_end(ap);
    if (sys_errno && n >= 0 && (size_t)n < sizeof err->text)
        snprintf(err->text + n, sizeof err->text - (size_t)n, ": %s", strerror(sys_errno));
    return -1;
}

int (coto_err_remedy)(struct coto_err *err, const char *fmt, ...)
{
    va_list ap;

    if (!err)
        return -1;
    va_start(ap, fmt);
    vsnprintf(err->remedy, sizeof err->remedy, fmt, ap);
    va_end(ap);
    return -1;
}

int (coto_err_wrap)(struct coto_err *err, const char *fmt, ...)
{
    char old[sizeof err->text];
    va_list ap;

    if (!err)
        return -1;
    memcpy(old, err->text, sizeof old);
    old[sizeof old - 1] = '\0';
    va_start(ap, fmt);
    int n = vsnprintf(err->text, sizeof err->text, fmt, ap);
    va_end(ap);
    if (n >= 0 && (size_t)n < sizeof err->text)
        snprintf(err->text + n, sizeof err->text - (size_t)n, ": %s", old);
    return -1;
}
