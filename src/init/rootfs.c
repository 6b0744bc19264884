/* The sandbox's file system.
 *
 * The root is a small tmpfs, made read-only at the end. On it: read-only clones
 * of the host's program directories (or of --rootfs), a few clones and fresh
 * files in /etc, a private procfs mounted read-only, a handful of device nodes,
 * and the writable tmpfs mounts: workspace, /tmp, /dev/shm, and what the policy
 * adds. Nothing of /home, /root, /var, /srv, /run is ever cloned.
 *
 * Clones are taken first, with the caller's own file permissions; everything
 * after that runs as the sandbox's uid.
 */
#include "init/setup.h"

#include "base/fd.h"
#include "base/weak.h"
#include "kernel/mount.h"
#include "schema/rootfiles.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#define RW (COTO_ATTR_NOSUID | COTO_ATTR_NODEV)
#define RO (RW | (coto_up("root_read_only") ? COTO_ATTR_RDONLY : 0))

/* ---- sources ---- */

static int add_top(struct init_root *root, int dirfd, const char *name, struct coto_err *err)
{
    const int max = INIT_ROOT_TOP;

    if (root->top_count == max)
        return coto_err_set(err, COTO_ERR_UNAVAILABLE, 0,
                            "root file system has more than %d top-level entries", max);
    int i = root->top_count;
    root->top[i].mount_fd = -1;
    /* Links are looked for first: a clone that is not used costs an RCU grace
     * period when it is closed. */
    ssize_t n = readlinkat(dirfd, name, root->top[i].link, sizeof root->top[i].link - 1);
    if (n >= 0) {
        root->top[i].link[n] = '\0';
        if ((size_t)n == sizeof root->top[i].link - 1) { /* what follows is not known */
            coto_err_set(err, COTO_ERR_UNAVAILABLE, ENAMETOOLONG, "root file system: link '%s'", name);
            return coto_err_remedy(err, "let it point to a shorter path");
        }
    } else if (errno == ENOENT) {
        return 0;
    } else {
        int fd = root->top[i].mount_fd = coto_mount_clone(dirfd, name, true, err);
        if (fd < 0)
            return coto_err_wrap(err, "show '%s' in the sandbox", name);
    }
    snprintf(root->top[i].name, sizeof root->top[i].name, "%s", *name == '/' ? name + 1 : name);
    root->top_count++;
    return 0;
}

/* Re-opens a host path in this mount namespace and insists that it is the very
 * file the plan means. */
static int reopen(const struct coto_setup_path *path, struct coto_err *err)
{
    const char *below = path->source + strspn(path->source, "/");
    coto_auto_fd host = openat(AT_FDCWD, "/", O_PATH | O_DIRECTORY | O_CLOEXEC);
    coto_auto_fd fd = coto_path_open_beneath(host, *below ? below : ".", O_PATH | O_NOFOLLOW, 0);
    struct stat st;

    if (fd < 0 || fstat(fd, &st))
        return coto_err_set(err, COTO_ERR_INPUT, errno, "mount '%s'", path->source);
    if (st.st_dev != path->dev || st.st_ino != path->ino)
        return coto_err_set(err, COTO_ERR_FORBIDDEN, 0, "mount '%s': it was replaced meanwhile",
                            path->source);
    return coto_take_fd(&fd);
}

static int clone_planned(const struct coto_setup_path *path, struct coto_err *err)
{
    coto_auto_fd fd = reopen(path, err);

    return fd < 0 ? -1 : coto_mount_clone(fd, "", true, err);
}

/* An empty file that nobody may open, for a moment. */
static const char mask[] = ".masked";

static bool is_ours(const char *name)
{
    static const char *const ours[] = {".",   "..",  "dev",        "proc", "sys",
                                       "tmp", "run", "lost+found", mask};

    for (size_t i = 0; i < sizeof ours / sizeof ours[0]; i++)
        if (strcmp(name, ours[i]) == 0)
            return true;
    return false;
}

/* Tests only: without a mount namespace of its own the program sees these of the host. */
static bool is_hosts(const char *name)
{
    return name[0] != '.' && strcmp(name, "proc") != 0;
}

/* Tests only: a link of the image's in place of a directory of ours is left where it is. */
static bool is_followed(int dirfd, const char *name)
{
    char byte;

    return !coto_up("beneath") && readlinkat(dirfd, name, &byte, 1) > 0;
}

static int clone_rootfs(struct init_root *root, struct coto_err *err)
{
    const struct coto_setup *setup = root->setup;
    bool whole = !coto_up("mount_namespace");
    coto_auto_fd fd = whole ? openat(AT_FDCWD, "/", O_PATH | O_DIRECTORY | O_CLOEXEC) : reopen(&setup->rootfs, err);
    coto_auto_fd list = fd < 0 ? -1 : openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = list < 0 ? NULL : fdopendir(list);
    struct dirent *entry;
    int failed = 0;

    if (!dir)
        return coto_err_set(err, COTO_ERR_INPUT, errno, "root file system '%s'", setup->rootfs.source);
    coto_take_fd(&list);
    while (!failed && (entry = readdir(dir))) {
        size_t n = strlen(entry->d_name);
        bool work = strncmp(setup->workdir + 1, entry->d_name, n) == 0 && !setup->workdir[n + 1];
        bool taken = !is_ours(entry->d_name) || (whole && is_hosts(entry->d_name)) ||
                     is_followed(fd, entry->d_name);
        if (taken && !work && n < sizeof root->top[0].name)
            failed = add_top(root, fd, entry->d_name, err);
    }
    closedir(dir);
    return failed;
}

int init_root_clone_host(struct init_root *root, struct coto_err *err)
{
    const struct coto_setup *setup = root->setup;

    if (setup->rootfs.source || !coto_up("mount_namespace")) {
        if (clone_rootfs(root, err))
            return -1;
    } else {
        for (size_t i = 0; i < sizeof coto_root_dirs / sizeof coto_root_dirs[0]; i++)
            if (add_top(root, AT_FDCWD, coto_root_dirs[i], err))
                return -1;
    }
    for (unsigned i = 0; i < setup->mount_count && !setup->mounts_given; i++) {
        root->mount_fds[i] = clone_planned(&setup->mounts[i], err);
        if (root->mount_fds[i] < 0)
            return -1;
    }
    return 0;
}

/* ---- the new root ---- */

static int new_tmpfs(int64_t bytes, int64_t inodes, const char *mode, unsigned attrs,
                     struct coto_err *err)
{
    char size[24];
    char count[24];
    /* Without a mode it is 1777, as for every tmpfs. */
    struct coto_mount_option options[] = {
        {"size", size}, {"nr_inodes", count}, {mode ? "mode" : NULL, mode}, {NULL, NULL}};

    snprintf(size, sizeof size, "%" PRId64, bytes);
    snprintf(count, sizeof count, "%" PRId64, inodes);
    return coto_mount_new("tmpfs", options, attrs, err);
}

static int cannot_make(const char *path, struct coto_err *err)
{
    if (errno != EROFS)
        return coto_err_set(err, COTO_ERR_SYSTEM, errno, "make '/%s'", path);
    coto_err_set(err, COTO_ERR_POLICY, 0, "'/%s' does not exist in the read-only root", path);
    return coto_err_remedy(err, "choose a path that exists there, or a new one at top level");
}

/* Until pivot_root an absolute link leads to the host: no name that others made is followed,
 * and what is there stays as it is (CVE-2026-87766). */
static int make_dir(const struct init_root *root, const char *path, struct coto_err *err)
{
    char above[PATH_MAX];
    const char *slash = strrchr(path, '/');

    if (!slash)
        return mkdirat(root->fd, path, 0755) && errno != EEXIST ? cannot_make(path, err) : 0;
    snprintf(above, sizeof above, "%.*s", (int)(slash - path), path);
    if (coto_path_make_parents(root->fd, path, 0755))
        return cannot_make(path, err);
    coto_auto_fd parent = coto_path_open_beneath(root->fd, above, O_PATH | O_DIRECTORY, 0);
    if (parent < 0 || (mkdirat(parent, slash + 1, 0755) && errno != EEXIST))
        return cannot_make(path, err);
    return 0;
}

static int make_file(const struct init_root *root, const char *path, struct coto_err *err)
{
    if (coto_path_make_parents(root->fd, path, 0755))
        return cannot_make(path, err);
    coto_auto_fd fd =
        coto_path_open_beneath(root->fd, path, O_RDONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0644);
    return fd < 0 && errno != EEXIST ? cannot_make(path, err) : 0;
}

/* Places that are ours from the first component on. */
static int make_own_dir(const struct init_root *root, const char *path, struct coto_err *err)
{
    if (mkdirat(root->fd, path, 0755) && (errno != EEXIST || coto_up("beneath")))
        return coto_err_set(err, COTO_ERR_SYSTEM, errno, "make '/%s'", path);
    return 0;
}

/* An empty file to mount something on. */
static int make_own_node(const struct init_root *root, const char *path, struct coto_err *err)
{
    if (mknodat(root->fd, path, S_IFREG | 0644, 0))
        return coto_err_set(err, COTO_ERR_SYSTEM, errno, "make '/%s'", path);
    return 0;
}

static int write_own_file(const struct init_root *root, const char *path, const char *text,
                          struct coto_err *err)
{
    coto_auto_fd fd = openat(root->fd, path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);

    if (fd < 0 || coto_fd_write_all(fd, text, strlen(text)))
        return coto_err_set(err, COTO_ERR_SYSTEM, errno, "write '/%s'", path);
    return 0;
}

static int own_tmpfs(const struct init_root *root, const char *path, int64_t bytes,
                     struct coto_err *err)
{
    bool is_given = root->kind == COTO_ROOT_GIVEN; /* then it is there */
    unsigned attrs = RW | (root->setup->noexec ? COTO_ATTR_NOEXEC : 0);
    char options[80];

    snprintf(options, sizeof options, "size=%" PRId64 ",nr_inodes=%" PRId64, bytes,
             root->setup->inodes);
    if (!is_given && make_own_dir(root, path, err))
        return -1;
    return coto_mount_on("tmpfs", path, attrs, options, err);
}

static int attach_tmpfs(const struct init_root *root, const char *path, int64_t bytes,
                        struct coto_err *err)
{
    const struct coto_setup *setup = root->setup;
    unsigned attrs = RW | (setup->noexec ? COTO_ATTR_NOEXEC : 0);
    coto_auto_fd fd = new_tmpfs(bytes, setup->inodes, NULL, attrs, err);

    if (fd < 0 || make_dir(root, path, err))
        return -1;
    return coto_mount_attach(fd, root->fd, path, err);
}

int init_root_make(struct init_root *root, struct coto_err *err)
{
    coto_auto_fd host = openat(AT_FDCWD, "/", O_PATH | O_DIRECTORY | O_CLOEXEC);

    root->fd = new_tmpfs(1 << 20, 1024, "755", RW, err);
    if (root->fd < 0 || coto_mount_attach(root->fd, host, "", err))
        return -1;
    for (int i = 0; i < root->top_count; i++) {
        const char *name = root->top[i].name;
        struct stat st;
        if (root->top[i].mount_fd < 0) {
            if (symlinkat(root->top[i].link, root->fd, name))
                return coto_err_set(err, COTO_ERR_SYSTEM, errno, "make link '/%s'", name);
            continue;
        }
        if (fstat(root->top[i].mount_fd, &st))
            return coto_err_set(err, COTO_ERR_SYSTEM, errno, "look at '/%s'", name);
        if (S_ISDIR(st.st_mode) ? make_dir(root, name, err) : make_file(root, name, err))
            return -1;
        if (coto_mount_attach_own(root->top[i].mount_fd, root->fd, name, err))
            return -1;
        coto_own_close(&root->top[i].mount_fd);
    }
    /* Names below are relative to it. */
    if (fchdir(root->fd))
        return coto_err_set(err, COTO_ERR_SYSTEM, errno, "enter the new root");
    return 0;
}

/* What is mounted so far; what follows has flags of its own. */
int init_root_seal(struct init_root *root, struct coto_err *err)
{
    return coto_up("mount_namespace") ? coto_mount_seal(root->fd, RO, err) : 0;
}

int init_root_mounts(struct init_root *root, struct coto_err *err)
{
    const struct coto_setup *setup = root->setup;
    bool is_var = false; /* the host's: nothing is put into it */

    for (unsigned i = 0; i < setup->tmpfs_count; i++)
        if (attach_tmpfs(root, setup->tmpfs[i].target + 1, setup->tmpfs[i].size, err))
            return -1;
    for (unsigned i = 0; i < setup->mount_count; i++) {
        const struct coto_setup_path *m = &setup->mounts[i];
        const char *at = m->target + 1;
        unsigned attrs = m->writable ? RW | (setup->noexec ? COTO_ATTR_NOEXEC : 0) : RO;
        if (coto_mount_set(root->mount_fds[i], attrs, true, err))
            return coto_err_wrap(err, "mount '%s'", m->source);
        int failed = S_ISDIR(m->mode) ? make_dir(root, at, err) : make_file(root, at, err);
        is_var |= strcmp(at, "var") == 0;
        if (failed || coto_mount_attach(root->mount_fds[i], root->fd, at, err))
            return coto_err_wrap(err, "mount '%s'", m->source);
        close(root->mount_fds[i]);
    }
    /* Unless the policy has put something there. */
    if (!setup->rootfs.source && !is_var && symlinkat("/tmp", root->fd, "var/tmp") &&
        errno != EEXIST)
        return coto_err_set(err, COTO_ERR_SYSTEM, errno, "make '/var/tmp'");
    return 0;
}

/* ---- /proc ---- */

/* What every uid could read and no sandbox should: keys, kernel addresses,
 * interrupts of the host. What only the host's root may open needs
 * no mask: no capability that a policy can add back reaches it. */
int init_root_mask(const char *file, struct coto_err *err)
{
    static const char *const masked[] = {"proc/keys", "proc/key-users", "proc/kallsyms",
                                         "proc/interrupts", "proc/locks"};

    for (size_t i = 0; i < sizeof masked / sizeof masked[0] && coto_up("proc_masks"); i++)
        if (coto_mount_bind(file, masked[i], err) && errno != ENOENT) /* not in every kernel */
            return coto_err_wrap(err, "mask '/%s'", masked[i]);
    return 0;
}

/* An empty file that nobody may open. */
static int make_mask(const struct init_root *root, const char *file, struct coto_err *err)
{
    if (make_own_node(root, file, err))
        return -1;
    if (fchmodat(root->fd, file, 0, 0))
        return coto_err_set(err, COTO_ERR_SYSTEM, errno, "close the mask of /proc");
    return 0;
}

int init_root_proc(struct init_root *root, struct coto_err *err)
{
    bool whole = !coto_up("proc_private") || !coto_up("pid_namespace");
    unsigned attrs = (coto_up("proc_masks") ? RO : RW) | COTO_ATTR_NOEXEC;

    if (make_own_dir(root, "proc", err))
        return -1;
    if (whole)
        return coto_mount_bind("/proc", "proc", err);
    if (coto_mount_on("proc", "proc", attrs, NULL, err)) {
        coto_err_wrap(err, "private /proc");
        return coto_err_remedy(err, "inside a container, start it with an unmasked /proc (docker "
                                    "run --security-opt systempaths=unconfined)");
    }
    if (make_mask(root, mask, err) || init_root_mask(mask, err))
        return -1;
    if (unlinkat(root->fd, mask, 0))
        return coto_err_set(err, COTO_ERR_SYSTEM, errno, "remove the mask's name");
    return 0;
}

/* ---- /dev ---- */

static int show_device(const struct init_root *root, const char *name, struct coto_err *err)
{
    char host[32];
    struct stat st;

    snprintf(host, sizeof host, "/dev/%s", name);
    const char *inside = host + 1;
    if (make_own_node(root, inside, err) || coto_mount_bind(host, inside, err))
        return -1;
    if (fstatat(root->fd, inside, &st, 0) || !S_ISCHR(st.st_mode))
        return coto_err_set(err, COTO_ERR_SYSTEM, 0, "%s is not the device it should be", host);
    /* Read-only keeps the host's node from being re-dated; devices are written all the same. */
    return coto_mount_set_at(inside, COTO_ATTR_RDONLY | COTO_ATTR_NOSUID | COTO_ATTR_NOEXEC, err);
}

int init_root_dev(struct init_root *root, struct coto_err *err)
{
    static const char *const devices[] = {"null", "zero", "full", "urandom"};
    static const char *const links[][2] = {{"/proc/self/fd", "dev/fd"},
                                           {"/proc/self/fd/0", "dev/stdin"},
                                           {"/proc/self/fd/1", "dev/stdout"},
                                           {"/proc/self/fd/2", "dev/stderr"},
                                           /* one generator behind both */
                                           {"urandom", "dev/random"},
                                           {"pts/ptmx", "dev/ptmx"}};
    const size_t count = sizeof links / sizeof links[0] - (root->setup->ptys == 0); /* the last */

    if (!coto_up("mount_namespace"))
        return 0;
    if (make_own_dir(root, "dev", err))
        return -1;
    for (size_t i = 0; i < sizeof devices / sizeof devices[0]; i++)
        if (show_device(root, devices[i], err))
            return -1;
    for (size_t i = 0; i < count; i++)
        if (symlinkat(links[i][0], root->fd, links[i][1]))
            return coto_err_set(err, COTO_ERR_SYSTEM, errno, "make '/%s'", links[i][1]);
    if (root->setup->ptys && make_own_dir(root, "dev/pts", err))
        return -1;
    return root->kind == COTO_ROOT_OWN ? init_root_terminals(root->setup, err) : 0;
}

/* What is written to a terminal is worked on by threads of the kernel, in no cgroup: one write,
 * and any amount of CPU time that no limit holds and nobody is charged for. So there are none
 * unless the plan says how many; and they are counted host-wide. */
int init_root_terminals(const struct coto_setup *setup, struct coto_err *err)
{
    char pts[80];

    if (setup->ptys == 0)
        return 0;
    snprintf(pts, sizeof pts, "newinstance,ptmxmode=0666,mode=0620,max=%d", (int)setup->ptys);
    return coto_mount_on("devpts", "dev/pts", COTO_ATTR_NOSUID | COTO_ATTR_NOEXEC, pts, err);
}

/* ---- workspace and /tmp ---- */

/* The program's view is read-only while init keeps a writable handle to put files in: two
 * mounts of one file system. The writable one leaves again once it was cloned: before
 * Linux 6.15 only what is attached can be. */
static int show_output_only(const struct init_root *root, const char *at, struct coto_err *err)
{
    char path[4200];
    coto_auto_fd shown = coto_mount_clone(root->work_fd, "", false, err);
    coto_auto_fd out = shown < 0 ? -1 : coto_mount_clone(root->work_fd, "output", false, err);

    if (out < 0)
        return -1;
    if (umount2(at, MNT_DETACH | UMOUNT_NOFOLLOW))
        return coto_err_set(err, COTO_ERR_SYSTEM, errno, "detach '/%s'", at);
    snprintf(path, sizeof path, "%s/output", at);
    if (coto_mount_set(shown, COTO_ATTR_RDONLY, false, err) ||
        coto_mount_attach(shown, root->fd, at, err))
        return -1;
    return coto_mount_attach(out, root->fd, path, err);
}

int init_root_work(struct init_root *root, struct coto_err *err)
{
    const struct coto_setup *setup = root->setup;
    const char *at = setup->workdir + 1;
    unsigned attrs = RW | (setup->noexec ? COTO_ATTR_NOEXEC : 0);

    if (coto_up("mount_namespace") && (own_tmpfs(root, "tmp", setup->tmp_bytes, err) ||
                                       own_tmpfs(root, "dev/shm", setup->tmp_bytes, err)))
        return -1;
    if (!setup->rootfs.source && root->kind == COTO_ROOT_OWN &&
        (make_dir(root, "var", err) || make_dir(root, "run", err)))
        return -1;
    root->work_fd = new_tmpfs(setup->disk_bytes, setup->inodes, "755", attrs, err);
    if (root->work_fd < 0 || make_dir(root, at, err))
        return -1;
    if (mkdirat(root->work_fd, "output", 0755))
        return coto_err_set(err, COTO_ERR_SYSTEM, errno, "make '%s/output'", setup->workdir);
    if (coto_mount_attach(root->work_fd, root->fd, at, err))
        return -1;
    return setup->writable_output_only ? show_output_only(root, at, err) : 0;
}

/* What the sandboxes that share this root will mount things on. The mask lies where each
 * of them then has its own /tmp. */
int init_root_places(struct init_root *root, struct coto_err *err)
{
    static const char *const dirs[] = {"proc", "tmp", "dev/shm", "var", "run"};

    for (size_t i = 0; i < sizeof dirs / sizeof dirs[0]; i++)
        if (make_own_dir(root, dirs[i], err))
            return -1;
    if (make_dir(root, root->setup->workdir + 1, err) || make_mask(root, INIT_ROOT_MASK, err))
        return -1;
    if (symlinkat("/tmp", root->fd, "var/tmp"))
        return coto_err_set(err, COTO_ERR_SYSTEM, errno, "make '/var/tmp'");
    /* A process may mount a /proc of its own only where it sees one already; each sandbox's lies
     * on top of this one, which knows of no process. */
    return coto_mount_on("proc", "proc", RW | COTO_ATTR_NOEXEC, NULL, err);
}

/* ---- /etc ---- */

static int show_etc(const struct init_root *root, const char *name, struct coto_err *err)
{
    char host[64];
    char link[256];
    struct stat st;

    snprintf(host, sizeof host, "/etc/%s", name);
    const char *inside = host + 1;
    if (fstatat(AT_FDCWD, host, &st, AT_SYMLINK_NOFOLLOW)) {
        if (errno == ENOENT || errno == EACCES)
            return 0;
        return coto_err_set(err, COTO_ERR_SYSTEM, errno, "look at '%s'", host);
    }
    if (S_ISLNK(st.st_mode)) {
        ssize_t n = readlinkat(AT_FDCWD, host, link, sizeof link - 1);
        link[n < 0 ? 0 : n] = '\0';
        if (n < 0 || symlinkat(link, root->fd, inside))
            return coto_err_set(err, COTO_ERR_SYSTEM, errno, "make link '%s'", host);
        return 0;
    }
    if (S_ISDIR(st.st_mode) ? make_own_dir(root, inside, err) : make_own_node(root, inside, err))
        return -1;
    return coto_mount_bind(host, inside, err);
}

static int fresh_etc(const struct init_root *root, struct coto_err *err)
{
    const struct coto_setup *setup = root->setup;
    char text[1024];

    snprintf(text, sizeof text, COTO_ROOT_PASSWD, setup->user_name, (unsigned)setup->uid,
             (unsigned)setup->gid, setup->user_name, setup->workdir);
    if (write_own_file(root, "etc/passwd", text, err))
        return -1;
    snprintf(text, sizeof text, COTO_ROOT_GROUP, setup->user_name,
             (unsigned)setup->gid);
    if (write_own_file(root, "etc/group", text, err))
        return -1;
    snprintf(text, sizeof text, COTO_ROOT_HOSTS, setup->hostname);
    if (write_own_file(root, "etc/hosts", text, err))
        return -1;
    snprintf(text, sizeof text, COTO_ROOT_HOSTNAME, setup->hostname);
    if (write_own_file(root, "etc/hostname", text, err))
        return -1;
    for (size_t i = 0; i < sizeof coto_root_files / sizeof coto_root_files[0]; i++)
        if (write_own_file(root, coto_root_files[i].path, coto_root_files[i].text, err))
            return -1;
    return 0;
}

int init_root_etc(struct init_root *root, struct coto_err *err)
{
    if (root->setup->rootfs.source || !coto_up("mount_namespace"))
        return 0; /* it brings its own */
    if (make_own_dir(root, "etc", err) || make_own_dir(root, "etc/ssl", err) || fresh_etc(root, err))
        return -1;
    for (size_t i = 0; i < sizeof coto_root_etc / sizeof coto_root_etc[0]; i++)
        if (show_etc(root, coto_root_etc[i], err))
            return -1;
    return 0;
}

int init_root_enter(struct init_root *root, struct coto_err *err)
{
    struct statvfs fs;

    if (coto_mount_pivot(root->fd, err))
        return -1;
    if (!coto_up("root_read_only"))
        return 0;
    if (coto_mount_set(root->fd, COTO_ATTR_RDONLY, false, err))
        return -1;
    /* By descriptor: the old root may still lie on top. */
    if (fstatvfs(root->fd, &fs) || !(fs.f_flag & ST_RDONLY))
        return coto_err_set(err, COTO_ERR_WALL, 0, "root_read_only: the kernel says it is writable");
    return 0;
}
