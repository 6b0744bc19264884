#include "cli/remote_files.h"

#include "base/fd.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define BYTES_MAX ((size_t)11 << 20) /* a request of 16 MB has them as base64 */
#define DEPTH_MAX 40

struct walk {
    struct coto_json *json;
    size_t bytes;
    struct coto_err *err;
};

static int fail(struct walk *w, const char *path, const char *why, const char *remedy)
{
    coto_err_set(w->err, COTO_ERR_UNAVAILABLE, 0, "--copy: '%.300s': %s", path, why);
    return coto_err_remedy(w->err, "%s", remedy);
}

static int add_file(struct walk *w, int fd, mode_t mode, const char *target)
{
    coto_auto_buf data = {0};

    errno = 0;
    if (coto_fd_read_all(fd, BYTES_MAX - w->bytes, &data) || data.failed)
        return errno && errno != EFBIG
                   ? coto_err_set(w->err, COTO_ERR_INPUT, errno, "--copy: '%.300s'", target)
                   : fail(w, target, "more than a request to a service can hold",
                          "create a sandbox and upload an archive: docs/API.md");
    w->bytes += data.len;
    coto_json_begin(w->json, NULL, '{');
    coto_json_str(w->json, "path", target);
    coto_auto_buf coded = {0};
    coto_base64_add(&coded, coto_buf_str(&data), data.len);
    coto_json_str(w->json, "content_base64", coto_buf_str(&coded));
    if (mode & 0111)
        coto_json_bool(w->json, "executable", true);
    coto_json_end(w->json, '}');
    return 0;
}

static int add_dir(struct walk *w, int fd, const char *target, int depth);

static int add_entry(struct walk *w, int dirfd, const char *name, const char *target, int depth)
{
    coto_auto_fd fd =
        openat(dirfd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC | O_NOCTTY);
    struct stat st;

    if (fd < 0 && errno == ELOOP)
        return fail(w, target, "a link cannot be sent to a service", "copy what it points to");
    if (fd < 0 || fstat(fd, &st))
        return coto_err_set(w->err, COTO_ERR_INPUT, errno, "--copy: '%.300s'", target);
    if (S_ISDIR(st.st_mode))
        return add_dir(w, fd, target, depth + 1);
    if (S_ISREG(st.st_mode))
        return add_file(w, fd, st.st_mode, target);
    return fail(w, target, "neither a file nor a directory", "leave it out");
}

static int add_dir(struct walk *w, int fd, const char *target, int depth)
{
    int own = depth < DEPTH_MAX ? fcntl(fd, F_DUPFD_CLOEXEC, 3) : -1;
    DIR *dir = own < 0 ? NULL : fdopendir(own);
    const struct dirent *entry;
    int failed = 0;

    if (!dir) {
        if (own >= 0)
            close(own);
        return fail(w, target, depth < DEPTH_MAX ? "cannot be read" : "too deep", "copy less");
    }
    while (!failed && (entry = readdir(dir))) {
        coto_auto_buf path = {0};
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        coto_buf_addf(&path, "%s/%s", target, entry->d_name);
        failed = coto_utf8_valid(entry->d_name, strlen(entry->d_name))
                     ? add_entry(w, own, entry->d_name, coto_buf_str(&path), depth)
                     : fail(w, coto_buf_str(&path), "its name is not UTF-8", "rename it");
    }
    closedir(dir);
    return failed;
}

int coto_cli_add_files(struct coto_json *json, const struct coto_policy *policy,
                       struct coto_err *err)
{
    struct coto_plan plan = {.rootfs = {.fd = -1},
                             .workdir = strdup(coto_policy_str(policy, COTO_OPT_WORKDIR)),
                             .isolation = COTO_ISOLATION_PROCESS};
    struct walk w = {.json = json, .err = err};
    int failed = !plan.workdir || coto_plan_add_copies(policy, &plan, err);

    coto_json_begin(json, "files", '[');
    for (size_t i = 0; i < plan.copy_count && !failed; i++) {
        const struct coto_plan_path *path = &plan.copies[i];
        if (!coto_utf8_valid(path->target, strlen(path->target)))
            failed = fail(&w, path->target, "its name is not UTF-8", "rename it");
        else if (S_ISDIR(path->mode))
            failed = add_dir(&w, path->fd, path->target, 0);
        else
            failed = add_file(&w, path->fd, path->mode, path->target);
    }
    coto_json_end(json, ']');
    coto_plan_fini(&plan);
    return failed ? -1 : 0;
}
