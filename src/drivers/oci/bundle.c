/* The bundle: DIR/config.json, DIR/rootfs, DIR/init (a copy of coto-init of which the sandbox gets
 * a read-only view) and DIR/state, where the runtime keeps its own.
 *
 * The root is a skeleton of ours in every case: read-only views of the host's program
 * directories, or of the top level of a root file system, are mounted on it. So no runtime
 * ever writes to an image, and a link named /dev or /proc in one leads nowhere (FS-08).
 */
#include "drivers/oci/oci.h"

#include "base/fd.h"
#include "drivers/initbin.h"
#include "schema/rootfiles.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

#define COPY_MAX (4 << 20)

struct making {
    struct oci *oci;
    int dir_fd, root_fd;
};

void oci_binds_fini(struct oci_binds *binds)
{
    for (size_t i = 0; i < binds->count; i++) {
        free(binds->items[i].source);
        free(binds->items[i].target);
    }
    binds->count = 0;
}

static int cannot(const char *what, const char *name, struct coto_err *err)
{
    return coto_err_set(err, COTO_ERR_SYSTEM, errno, "bundle: %s '%s'", what, name);
}

/* `is`: the file that the source was when it was looked at. */
static int add_bind(struct making *m, const char *source, const char *target, bool writable,
                    const struct stat *is, struct coto_err *err)
{
    struct oci_binds *b = &m->oci->binds;

    if (b->count == OCI_BINDS)
        return coto_err_set(err, COTO_ERR_POLICY, 0, "more than %d mounts", OCI_BINDS);
    b->items[b->count].source = strdup(source);
    b->items[b->count].target = strdup(target);
    b->items[b->count].writable = writable;
    b->items[b->count].is_dir = S_ISDIR(is->st_mode);
    b->items[b->count].dev = is->st_dev;
    b->items[b->count].ino = is->st_ino;
    b->count++;
    if (!b->items[b->count - 1].source || !b->items[b->count - 1].target)
        return coto_err_set(err, COTO_ERR_LIMIT, ENOMEM, "bundle");
    return 0;
}

static int make_dir(struct making *m, const char *path, struct coto_err *err)
{
    return mkdirat(m->root_fd, path, 0755) && errno != EEXIST ? cannot("make", path, err) : 0;
}

/* runc gives a tmpfs the mode of what it is mounted on. Nobody on the host gets here: see close_to_others. */
static int open_to_all(struct making *m, const char *path, struct coto_err *err)
{
    return fchmodat(m->root_fd, path, 01777, 0) && errno != ENOENT ? cannot("open", path, err) : 0;
}

static int write_text(int dir_fd, const char *path, const char *text, size_t len, mode_t mode,
                      struct coto_err *err)
{
    coto_auto_fd fd = openat(dir_fd, path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, mode);

    if (fd < 0 || coto_fd_write_all(fd, text, len))
        return cannot("write", path, err);
    return 0;
}

/* ---- what is shown ---- */

static int copy_file(struct making *m, const char *source, const char *target, struct coto_err *err)
{
    coto_auto_buf data = {0};
    coto_auto_fd from = open(source, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);

    if (from < 0 || coto_fd_read_all(from, COPY_MAX, &data))
        return 0; /* as if it were not there: every one of them is optional */
    return write_text(m->root_fd, target, coto_buf_str(&data), data.len, 0644, err);
}

/* A link as a link, a directory as a read-only view; `copy`: a file as a copy, else a view. */
static int show(struct making *m, const char *source, const char *target, bool copy,
                struct coto_err *err)
{
    char link[PATH_MAX];
    struct stat st;
    const char *at = target + 1;

    if (lstat(source, &st))
        return errno == ENOENT || errno == EACCES ? 0 : cannot("look at", source, err);
    if (S_ISLNK(st.st_mode)) {
        ssize_t n = readlink(source, link, sizeof link - 1);
        link[n < 0 ? 0 : n] = '\0';
        return n < 0 || symlinkat(link, m->root_fd, at) ? cannot("make link", target, err) : 0;
    }
    if (S_ISREG(st.st_mode) && copy)
        return copy_file(m, source, at, err);
    if (!S_ISDIR(st.st_mode) && !S_ISREG(st.st_mode))
        return 0; /* a device, socket or FIFO at the top of an image */
    if (S_ISDIR(st.st_mode) ? make_dir(m, at, err) : write_text(m->root_fd, at, "", 0, 0644, err))
        return -1;
    return add_bind(m, source, target, false, &st, err);
}

static int fresh_etc(struct making *m, struct coto_err *err)
{
    const struct coto_plan *plan = m->oci->plan;
    char text[4][1024];
    static const char *const names[] = {"etc/passwd", "etc/group", "etc/hosts", "etc/hostname"};
    int failed = make_dir(m, "etc", err) || make_dir(m, "etc/ssl", err);

    snprintf(text[0], sizeof text[0], COTO_ROOT_PASSWD, plan->user_name, (unsigned)plan->uid,
             (unsigned)plan->gid, plan->user_name, plan->workdir);
    snprintf(text[1], sizeof text[1], COTO_ROOT_GROUP, plan->user_name, (unsigned)plan->gid);
    snprintf(text[2], sizeof text[2], COTO_ROOT_HOSTS, plan->hostname);
    snprintf(text[3], sizeof text[3], COTO_ROOT_HOSTNAME, plan->hostname);
    for (int i = 0; i < 4 && !failed; i++)
        failed = write_text(m->root_fd, names[i], text[i], strlen(text[i]), 0644, err);
    for (size_t i = 0; i < sizeof coto_root_files / sizeof coto_root_files[0] && !failed; i++)
        failed = write_text(m->root_fd, coto_root_files[i].path, coto_root_files[i].text,
                            strlen(coto_root_files[i].text), 0644, err);
    for (size_t i = 0; i < sizeof coto_root_etc / sizeof coto_root_etc[0] && !failed; i++) {
        char path[96];
        snprintf(path, sizeof path, "/etc/%s", coto_root_etc[i]);
        failed = show(m, path, path, true, err);
    }
    return failed ? -1 : 0;
}

static int show_host(struct making *m, struct coto_err *err)
{
    int failed = 0;

    for (size_t i = 0; i < sizeof coto_root_dirs / sizeof coto_root_dirs[0] && !failed; i++)
        failed = show(m, coto_root_dirs[i], coto_root_dirs[i], false, err);
    if (failed || fresh_etc(m, err) || make_dir(m, "var", err) || make_dir(m, "run", err))
        return -1;
    return symlinkat("/tmp", m->root_fd, "var/tmp") ? cannot("make link", "/var/tmp", err) : 0;
}

static bool is_ours(const char *name)
{
    static const char *const ours[] = {".",   "..",  "dev",        "proc",      "sys",
                                       "tmp", "run", "lost+found", ".coto"};

    for (size_t i = 0; i < sizeof ours / sizeof ours[0]; i++)
        if (strcmp(name, ours[i]) == 0)
            return true;
    return false;
}

/* The plan's root file system, by the name of the very directory that it means. */
static int show_rootfs(struct making *m, struct coto_err *err)
{
    const struct coto_plan_path *rootfs = &m->oci->plan->rootfs;
    coto_auto_fd fd = openat(AT_FDCWD, rootfs->source, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    struct stat st;
    struct dirent *entry;
    int failed = 0;

    if (fd < 0 || fstat(fd, &st))
        return coto_err_set(err, COTO_ERR_INPUT, errno, "root file system '%s'", rootfs->source);
    if (st.st_dev != rootfs->dev || st.st_ino != rootfs->ino)
        return coto_err_set(err, COTO_ERR_FORBIDDEN, 0, "root file system '%s': it was replaced meanwhile",
                            rootfs->source);
    DIR *dir = fdopendir(fd);
    if (!dir)
        return cannot("read", rootfs->source, err);
    coto_take_fd(&fd);
    while (!failed && (entry = readdir(dir))) {
        const char *work = m->oci->plan->workdir + 1;
        char source[PATH_MAX];
        char target[300];
        if (is_ours(entry->d_name) || strcmp(entry->d_name, work) == 0)
            continue;
        snprintf(source, sizeof source, "%.3800s/%s", rootfs->source, entry->d_name);
        snprintf(target, sizeof target, "/%s", entry->d_name);
        failed = show(m, source, target, false, err);
    }
    closedir(dir);
    return failed ? -1 : 0;
}

/* ---- places to mount on ---- */

/* Below a view a place must exist already: views are read-only. */
static int exists_in_view(const char *source, const char *below, const char *target,
                          struct coto_err *err)
{
    coto_auto_fd dir = open(source, O_PATH | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    coto_auto_fd fd = dir < 0 ? -1 : coto_path_open_beneath(dir, below, O_PATH | O_NOFOLLOW, 0);

    if (fd >= 0)
        return 0;
    coto_err_set(err, COTO_ERR_POLICY, 0, "'%s' does not exist in the read-only root", target);
    return coto_err_remedy(err, "choose a path that exists there, or a new one at top level");
}

/* A runtime looks the name up again, as root, and makes what is missing, while whoever may write
 * there can turn a part of it into a link that leads out (FS-09; runc: CVE-2024-45310). */
static int refuse_inside(const char *outer, const char *target, struct coto_err *err)
{
    coto_err_set(err, COTO_ERR_POLICY, 0,
                 "'%s' lies in the writable mount '%s', which the container level does not take",
                 target, outer);
    return coto_err_remedy(
        err, "choose a place outside of it, mount '%s' read-only, or use --isolation process", outer);
}

static int make_place(struct making *m, const char *target, bool is_dir, struct coto_err *err)
{
    const char *at = target + 1;

    for (size_t i = 0; i < m->oci->binds.count; i++) {
        size_t n = strlen(m->oci->binds.items[i].target);
        if (strncmp(m->oci->binds.items[i].target, target, n) != 0 || target[n] != '/')
            continue;
        return m->oci->binds.items[i].writable
                   ? refuse_inside(m->oci->binds.items[i].target, target, err)
                   : exists_in_view(m->oci->binds.items[i].source, target + n + 1, target, err);
    }
    if (coto_path_make_parents(m->root_fd, at, 0755))
        return cannot("make", target, err);
    if (is_dir)
        return make_dir(m, at, err);
    coto_auto_fd fd = coto_path_open_beneath(m->root_fd, at, O_RDONLY | O_CREAT | O_NOFOLLOW, 0644);
    return fd < 0 ? cannot("make", target, err) : 0;
}

/* What a /dev of our own is mounted on: see oci_has_own_dev. */
static int make_dev(struct making *m, struct coto_err *err)
{
    static const char *const links[][2] = {
        {"/proc/self/fd", "dev/fd"},         {"/proc/self/fd/0", "dev/stdin"},
        {"/proc/self/fd/1", "dev/stdout"},   {"/proc/self/fd/2", "dev/stderr"},
        {"urandom", "dev/random"},           {"pts/ptmx", "dev/ptmx"}};
    const size_t count = sizeof links / sizeof links[0] - (m->oci->plan->ptys == 0); /* the last */

    if (make_dir(m, "dev", err))
        return -1;
    if (!oci_has_own_dev(m->oci))
        return 0;
    for (size_t i = 0; oci_devices[i]; i++)
        if (make_place(m, oci_devices[i], false, err))
            return -1;
    for (size_t i = 0; i < count; i++)
        if (symlinkat(links[i][0], m->root_fd, links[i][1]))
            return cannot("make", links[i][1], err);
    if (m->oci->plan->ptys > 0 && make_dir(m, "dev/pts", err))
        return -1;
    return make_dir(m, "dev/shm", err);
}

static int make_places(struct making *m, struct coto_err *err)
{
    const struct coto_plan *plan = m->oci->plan;
    int failed = make_dir(m, "proc", err) || make_dev(m, err) || make_dir(m, "tmp", err) ||
                 open_to_all(m, "tmp", err) || make_place(m, plan->workdir, true, err) ||
                 make_place(m, OCI_INIT_INSIDE, false, err);

    for (size_t i = 0; i < plan->tmpfs_count && !failed; i++)
        failed = make_place(m, plan->tmpfs[i].target, true, err);
    for (size_t i = 0; i < plan->mount_count && !failed; i++) {
        const struct coto_plan_path *mount = &plan->mounts[i];
        struct stat st;
        if (lstat(mount->source, &st) || st.st_dev != mount->dev || st.st_ino != mount->ino)
            return coto_err_set(err, COTO_ERR_FORBIDDEN, 0, "mount '%s': it was replaced meanwhile",
                                mount->source);
        failed = make_place(m, mount->target, S_ISDIR(mount->mode), err) ||
                 add_bind(m, mount->source, mount->target, mount->writable, &st, err);
    }
    return failed ? -1 : 0;
}

/* ---- the whole ---- */

/* Never the installed file itself: whoever broke out of coto-init's own memory would
 * hold a view of what root executes next (ML-01). */
static int copy_init(struct making *m, struct stat *ret_copy, struct coto_err *err)
{
    coto_auto_fd from = coto_initbin_open(err);
    coto_auto_fd to =
        from < 0 ? -1 : openat(m->dir_fd, "init", O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0555);
    struct stat st;

    if (from < 0)
        return -1;
    if (to < 0 || fstat(from, &st) || sendfile(to, from, NULL, (size_t)st.st_size) != st.st_size)
        return cannot("copy", "coto-init", err);
    return fchmod(to, 0555) || fstat(to, ret_copy) ? cannot("copy", "coto-init", err) : 0;
}

static int make_all(struct making *m, struct coto_err *err)
{
    coto_auto_buf config = {0};
    char init[256];
    struct stat copy;

    if (mkdirat(m->dir_fd, "rootfs", 0755) || mkdirat(m->dir_fd, "state", 0711))
        return cannot("make", m->oci->dir, err);
    m->root_fd = openat(m->dir_fd, "rootfs", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (m->root_fd < 0)
        return cannot("open", m->oci->dir, err);
    snprintf(init, sizeof init, "%s/init", m->oci->dir);
    if (copy_init(m, &copy, err) || (m->oci->plan->rootfs.source ? show_rootfs(m, err) : show_host(m, err)) ||
        make_places(m, err) || add_bind(m, init, OCI_INIT_INSIDE, false, &copy, err) ||
        oci_config_make(m->oci, &m->oci->binds, &config, err))
        return -1;
    return write_text(m->dir_fd, "config.json", config.data, config.len, 0644, err);
}

/* Whoever could write here would have a say in what root looks at, and in how long it removes it. The uid 0
 * of the runtime's user namespace only comes through. */
static int close_to_others(const struct oci *oci, int dir_fd, struct coto_err *err)
{
    if (!oci->has_userns || oci->map0.host_uid == geteuid())
        return 0;
    if (fchown(dir_fd, (uid_t)-1, oci->map0.host_gid) || fchmod(dir_fd, 0710))
        return cannot("close", oci->dir, err);
    return 0;
}

int oci_bundle_make(struct oci *oci, struct coto_err *err)
{
    struct making m = {.oci = oci, .dir_fd = -1, .root_fd = -1};
    mode_t mask = umask(0);
    int failed = -1;

    if (mkdir(oci->dir, 0700)) {
        cannot("make", oci->dir, err);
    } else {
        oci->made_dir = true;
        m.dir_fd = open(oci->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
        failed = m.dir_fd < 0 ? cannot("open", oci->dir, err)
                              : close_to_others(oci, m.dir_fd, err) || make_all(&m, err);
    }
    umask(mask);
    coto_own_close(&m.root_fd);
    coto_own_close(&m.dir_fd);
    return failed ? -1 : 0;
}
