#include "daemon/state.h"

#include <errno.h>
#include <grp.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static const char *absolute(const char *name)
{
    const char *value = getenv(name);

    return value && value[0] == '/' ? value : NULL;
}

int coto_state_dir(const char *given, char *to, size_t size, struct coto_err *err)
{
    const char *systemd = absolute("STATE_DIRECTORY");
    const char *state = absolute("XDG_STATE_HOME");
    const char *home = absolute("HOME");
    int len = -1;

    if (given && given[0] != '/') {
        coto_err_set(err, COTO_ERR_USAGE, 0, "--state-dir '%s': must be an absolute path", given);
        return coto_err_remedy(err, "begin it with /: it must be the same wherever the service is started");
    }
    if (given)
        len = snprintf(to, size, "%s", given);
    else if (systemd) /* below it: itself, with all that is in it, systemd takes away from the front at every start */
        len = snprintf(to, size, "%s/serve", systemd);
    else if (getuid() == 0)
        len = snprintf(to, size, "/var/lib/coto/serve");
    else if (state)
        len = snprintf(to, size, "%s/coto", state);
    else if (home)
        len = snprintf(to, size, "%s/.local/state/coto", home);
    if (len > 0 && (size_t)len < size)
        return 0;
    coto_err_set(err, COTO_ERR_USAGE, 0, "no place for the service's state: HOME is not set");
    return coto_err_remedy(err, "use --state-dir DIR");
}

static bool reaches(const char *dir, unsigned uid, unsigned gid)
{
    int status = 0;
    pid_t pid = fork();

    if (pid == 0)
        _exit(setgroups(0, NULL) || setresgid(gid, gid, gid) || setresuid(uid, uid, uid) || access(dir, X_OK));
    while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    return pid < 0 || status == 0;
}

/* What is above it, as far as it is there already. */
static void cut_to_what_is_there(char *path)
{
    char *slash = strrchr(path, '/');

    while (slash) {
        slash[slash == path] = '\0';
        if (slash == path || access(path, F_OK) == 0)
            return;
        slash = strrchr(path, '/');
    }
}

/* As the start has it (records/claim.c). */
static int check_private(const char *dir, const struct stat *st, unsigned uid, struct coto_err *err)
{
    if (!(st->st_mode & 077) && (st->st_uid == getuid() || st->st_uid == uid))
        return 0;
    coto_err_set(err, COTO_ERR_FORBIDDEN, 0, "state-dir '%s': not private to uid %u", dir, uid);
    return coto_err_remedy(err, "chown and chmod 700 it (and what is in it), or name one that is not there yet");
}

/* Root may write where nothing can be made, as in /proc: it is tried, and taken back. */
static int check_made(const char *dir, const char *above, struct coto_err *err)
{
    char try[4096 + 32];

    snprintf(try, sizeof try, "%s/.coto-check-%d", above, (int)getpid());
    if (mkdir(try, 0700) == 0) {
        rmdir(try);
        return 0;
    }
    coto_err_set(err, COTO_ERR_USAGE, errno, "state-dir '%s': nothing can be made in '%s'", dir, above);
    return coto_err_remedy(err, "use another directory");
}

int coto_state_check(const char *dir, unsigned uid, unsigned gid, struct coto_err *err)
{
    struct stat st;
    bool is_there = stat(dir, &st) == 0;
    char above[4096];

    if (is_there && !S_ISDIR(st.st_mode)) {
        coto_err_set(err, COTO_ERR_USAGE, ENOTDIR, "state-dir '%s'", dir);
        return coto_err_remedy(err, "name a directory; it is made where there is none");
    }
    snprintf(above, sizeof above, "%s", dir);
    cut_to_what_is_there(above);
    if (getuid() != 0) {
        if (access(is_there ? dir : above, W_OK | X_OK) == 0)
            return is_there ? check_private(dir, &st, uid, err) : 0;
        coto_err_set(err, COTO_ERR_USAGE, errno, "state-dir '%s'", dir);
        return coto_err_remedy(err, "let this user write to '%s', or use another directory", is_there ? dir : above);
    }
    if (is_there ? check_private(dir, &st, uid, err) : check_made(dir, above, err))
        return -1;
    /* It is given to the front; what is above it is not. */
    if (reaches(above, uid, gid))
        return 0;
    coto_err_set(err, COTO_ERR_USAGE, 0, "state-dir '%s': uid %u of the front cannot reach it", dir, uid);
    return coto_err_remedy(err, "let others pass through '%s' and what is above it (chmod o+x), or use another directory", above);
}
