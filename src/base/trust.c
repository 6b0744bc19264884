#include "base/trust.h"

#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define OTHERS_WRITE (S_IWGRP | S_IWOTH)

static bool is_ours(const struct stat *st)
{
    return st->st_uid == 0 || st->st_uid == getuid();
}

static int refuse_owner(const struct stat *st, const char *path, struct coto_err *err)
{
    coto_err_set(err, COTO_ERR_FORBIDDEN, 0, "it belongs to uid %u", (unsigned)st->st_uid);
    return coto_err_remedy(err, "chown it to root, or to the user who starts the service: chown %u '%.300s'",
                           (unsigned)getuid(), path);
}

static int check_file(const char *path, struct coto_err *err)
{
    struct stat st;

    if (stat(path, &st))
        return 0;
    if (!is_ours(&st))
        return refuse_owner(&st, path, err);
    if (!(st.st_mode & OTHERS_WRITE))
        return 0;
    coto_err_set(err, COTO_ERR_FORBIDDEN, 0, "others may write to it");
    return coto_err_remedy(err, "look who did, then: chmod go-w '%.300s'", path);
}

/* Whoever may write to a directory may put another file there; with the sticky bit only under a name that is free. */
static int check_dir(const char *path, struct coto_err *err)
{
    const char *slash = strrchr(path, '/');
    char dir[PATH_MAX];
    struct stat st;

    snprintf(dir, sizeof dir, "%.*s", slash ? (int)(slash - path) + (slash == path) : 1, slash ? path : ".");
    if (stat(dir, &st))
        return 0;
    bool is_theirs = !is_ours(&st);
    if (!is_theirs && (!(st.st_mode & OTHERS_WRITE) || st.st_mode & S_ISVTX))
        return 0;
    if (is_theirs)
        coto_err_set(err, COTO_ERR_FORBIDDEN, 0, "its directory '%.200s' belongs to uid %u", dir, (unsigned)st.st_uid);
    else
        coto_err_set(err, COTO_ERR_FORBIDDEN, 0, "others may write to its directory '%.200s'", dir);
    return is_theirs ? coto_err_remedy(err, "chown %u '%.200s', or keep the file elsewhere", (unsigned)getuid(), dir)
                     : coto_err_remedy(err, "chmod go-w '%.200s', or keep the file elsewhere", dir);
}

/* In a sticky directory a link is its owner's, who may have it lead elsewhere. */
static int check_link(const char *path, struct coto_err *err)
{
    char real[PATH_MAX];
    struct stat st;

    if (lstat(path, &st) || !S_ISLNK(st.st_mode) || !realpath(path, real))
        return 0;
    return is_ours(&st) ? check_dir(real, err) : refuse_owner(&st, path, err);
}

int coto_trust_file(const char *what, const char *path, struct coto_err *err)
{
    if (check_file(path, err) || check_dir(path, err) || check_link(path, err))
        return coto_err_wrap(err, "%s '%s'", what, path);
    return 0;
}
