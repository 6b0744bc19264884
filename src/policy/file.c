/* Policy files. The text is parsed by coto-policy (libyaml), a program of its
 * own with an empty environment and no descriptor but its three, which answers
 * with flat records "key\0value\0". So neither the YAML library nor its start-up
 * cost is in coto, and a bug in the parser meets nothing worth having.
 */
#include "base/fd.h"
#include "policy/helper.h"
#include "policy/pairs.h"
#include "policy/policy.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <unistd.h>

#define PARSE_SECONDS 10

#define PIPEFS 0x50495045

/* A pipe that was handed over has a writer or has had one; a FIFO may wait for one for ever. */
static bool is_pipe(int fd)
{
    struct statfs fs;

    return fstatfs(fd, &fs) == 0 && fs.f_type == PIPEFS;
}

static const char *refused_kind(int fd, const struct stat *st)
{
    if (S_ISREG(st->st_mode) || (S_ISFIFO(st->st_mode) && is_pipe(fd)))
        return NULL;
    if (S_ISCHR(st->st_mode))
        return st->st_rdev == makedev(1, 3) /* /dev/null */ ? NULL : "a device";
    return S_ISDIR(st->st_mode) ? "a directory" : S_ISFIFO(st->st_mode) ? "a FIFO" : "a device";
}

int coto_policy_open_input(const char *what, const char *path, int *ret_fd, struct coto_err *err)
{
    coto_auto_fd fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    struct stat st;

    if (fd < 0 || fstat(fd, &st))
        return coto_err_set(err, COTO_ERR_INPUT, errno, "%s '%s'", what, path);
    const char *kind = refused_kind(fd, &st);
    if (kind)
        return coto_err_set(err, COTO_ERR_INPUT, 0, "%s '%s': it is %s", what, path, kind);
    if (fcntl(fd, F_SETFL, 0) || coto_helper_lift(&fd))
        return coto_err_set(err, COTO_ERR_SYSTEM, errno, "%s '%s'", what, path);
    *ret_fd = coto_take_fd(&fd);
    return 0;
}

static int find_helper(const char *what, const char *path, char *ret_helper, size_t size,
                       struct coto_err *err)
{
    char places[320];

    if (coto_helper_find("coto-policy", ret_helper, size) == 0)
        return 0;
    coto_helper_places(places, sizeof places);
    coto_err_set(err, COTO_ERR_UNAVAILABLE, 0,
                 "%s '%s': the program coto-policy, which reads it, is not installed", what, path);
    return coto_err_remedy(err, "install it ('make install') in one of: %s", places);
}

int coto_policy_parse_text(const char *what, const char *path, int fd, struct coto_buf *ret_pairs,
                           struct coto_err *err)
{
    char helper[4096];
    coto_auto_buf complaint = {0};
    int status = 0;

    char *argv[] = {"coto-policy", NULL};
    char *envp[] = {NULL};
    struct coto_helper_call call = {helper, argv, envp, fd, PARSE_SECONDS};
    if (find_helper(what, path, helper, sizeof helper, err))
        return -1;
    if (coto_helper_run(&call, ret_pairs, &complaint, &status))
        return coto_err_set(err, COTO_ERR_SYSTEM, errno, "%s '%s'", what, path);
    if (status == 0)
        return 0;
    if (WIFEXITED(status) && WEXITSTATUS(status) == 1 && complaint.len > 0) {
        complaint.data[strcspn(complaint.data, "\n")] = '\0';
        return coto_err_set(err, COTO_ERR_POLICY, 0, "%s: %.300s", path, complaint.data);
    }
    return coto_err_set(err, COTO_ERR_INTERNAL, 0, "%s '%s': coto-policy ended with %s %d", what,
                        path, WIFSIGNALED(status) ? "signal" : "status",
                        WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
}

static int read_records(const char *path, struct coto_buf *records, struct coto_err *err)
{
    char helper[4096]; /* without it the file is not even opened */

    if (find_helper("policy file", path, helper, sizeof helper, err))
        return -1;
    coto_auto_fd fd = -1;
    if (coto_policy_open_input("policy file", path, &fd, err))
        return err->kind == COTO_ERR_INPUT
                   ? coto_err_remedy(err, "give a readable YAML or JSON file, or a pipe")
                   : -1;
    if (coto_policy_parse_text("policy file", path, fd, records, err) == 0)
        return 0;
    if (err->kind == COTO_ERR_POLICY)
        coto_err_remedy(err, "docs/OPTIONS.md shows what a policy file looks like");
    return -1;
}

/* An unfinished pair cannot be: the buffer itself ends with a NUL behind its length. */
bool coto_policy_next_pair(const struct coto_buf *pairs, size_t *pos, const char **ret_key,
                           const char **ret_value)
{
    if (*pos >= pairs->len)
        return false;
    *ret_key = pairs->data + *pos;
    *pos += strlen(*ret_key) + 1;
    *ret_value = *pos < pairs->len ? pairs->data + *pos : "";
    *pos += strlen(*ret_value) + 1;
    return true;
}

static bool is_profile_key(const char *key)
{
    return strcmp(key, "profile") == 0;
}

static int apply_own_profile(struct coto_policy *policy, const struct coto_buf *records,
                             const char *origin, struct coto_err *err)
{
    const char *key, *value;

    for (size_t pos = 0; coto_policy_next_pair(records, &pos, &key, &value);) {
        if (!is_profile_key(key))
            continue;
        if (coto_policy_set(policy, COTO_OPT_PROFILE, value, COTO_SOURCE_FILE, origin, err))
            return -1;
        if (policy->v[COTO_OPT_PROFILE].source == COTO_SOURCE_FILE)
            return coto_policy_apply_profile(policy, value, err);
    }
    return 0;
}

/* coto-policy refuses a key that comes twice, so one that does here is a list. */
static int refuse_lists_for_scalars(const struct coto_buf *records, const char *origin,
                                    struct coto_err *err)
{
    const char *last = "";
    const char *key, *value;

    for (size_t pos = 0; coto_policy_next_pair(records, &pos, &key, &value); last = key) {
        int opt = coto_opt_find(key, strlen(key));
        if (opt < 0 || strcmp(key, last) != 0 || coto_options[opt].type == COTO_TYPE_LIST ||
            coto_options[opt].type == COTO_TYPE_MAP)
            continue;
        coto_err_set(err, COTO_ERR_POLICY, 0, "%s: '%s' takes one value, not a list", origin, key);
        return coto_err_remedy(err, "write '%s: VALUE'", key);
    }
    return 0;
}

static int apply_pairs(struct coto_policy *policy, const struct coto_buf *pairs, const char *origin,
                       struct coto_err *err)
{
    const char *key, *value;

    if (refuse_lists_for_scalars(pairs, origin, err) ||
        apply_own_profile(policy, pairs, origin, err))
        return -1;
    for (size_t pos = 0; coto_policy_next_pair(pairs, &pos, &key, &value);)
        if (!is_profile_key(key) &&
            coto_policy_set_key(policy, key, value, COTO_SOURCE_FILE, origin, err))
            return -1;
    return 0;
}

int coto_policy_apply_pairs(struct coto_policy *policy, const struct coto_buf *pairs,
                            const char *origin, struct coto_err *err)
{
    struct coto_policy changed;

    if (coto_policy_copy(policy, &changed, err))
        return -1;
    int failed = apply_pairs(&changed, pairs, origin, err);
    coto_policy_fini(failed ? &changed : policy);
    if (!failed)
        *policy = changed;
    return failed;
}

int coto_policy_apply_file(struct coto_policy *policy, const char *path, struct coto_err *err)
{
    coto_auto_buf records = {0};
    char origin[sizeof policy->v[0].origin];
    size_t len = strlen(path);

    if (read_records(path, &records, err))
        return -1;
    /* The end of a long path tells more than its beginning. */
    if (len < sizeof origin)
        memcpy(origin, path, len + 1);
    else
        snprintf(origin, sizeof origin, "...%s", path + len - (sizeof origin - 4));
    return coto_policy_apply_pairs(policy, &records, origin, err);
}
