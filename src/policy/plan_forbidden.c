/* Host places that are never shown to a sandbox. What is judged is the
 * canonical path of an open descriptor, so a link, a "..", or /proc/self/root in
 * the text somebody wrote changes nothing; nor does mounting a part of such a place elsewhere. */
#include "policy/helper.h"
#include "policy/plan_int.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

enum reach {
    ITSELF,  /* this directory, not what lies below */
    TREE,    /* and everything below */
    TREE_RW, /* and everything below, when it would be writable */
};

struct place {
    const char *path;
    enum reach reach;
    const char *why;
};

static const struct place places[] = {
    {"/", ITSELF, "it is the whole host"},
    {"/etc", TREE, "it holds the host's configuration and password files"},
    {"/proc", TREE, "it shows the host's processes"},
    {"/sys", TREE, "it controls the host's kernel and devices"},
    {"/dev", TREE, "it holds the host's devices"},
    {"/run", TREE, "it holds the sockets and secrets of the host's services"},
    {"/var/run", TREE, "it holds the sockets and secrets of the host's services"},
    {"/boot", TREE, "it holds the host's kernel and boot loader"},
    {"/root", TREE, "it is the home directory of root"},
    {"/home", ITSELF, "it holds the home directories of all users"},
    {"/var", ITSELF, "it holds the host's state and logs"},
    {"/var/log", TREE, "it holds the host's logs"},
    {"/var/spool", TREE, "it holds the host's mail and scheduled jobs"},
    {"/var/lib/docker", TREE, "it holds other containers' files"},
    {"/var/lib/containerd", TREE, "it holds other containers' files"},
    {"/var/lib/containers", TREE, "it holds other containers' files"},
    {"/var/lib/kubelet", TREE, "it holds other pods' files and credentials"},
    {"/var/lib/etcd", TREE, "it holds a cluster's state and secrets"},
    {"/var/lib/coto", TREE, "it holds coto's own state"},
    {"/usr", TREE_RW, "it holds the host's programs"},
    {"/bin", TREE_RW, "it holds the host's programs"},
    {"/sbin", TREE_RW, "it holds the host's programs"},
    {"/lib", TREE_RW, "it holds the host's programs"},
    {"/lib64", TREE_RW, "it holds the host's programs"},
    {"/opt", TREE_RW, "it holds the host's programs"},
};
#define PLACE_COUNT (sizeof places / sizeof places[0])

/* Names that hold keys or state wherever they stand: a path through one is
 * refused, and so is a directory that has one right inside, or the rest of one. */
static const struct {
    const char *name;
    const char *why;
} private_names[] = {
    {".ssh", "SSH keys"},
    {".aws", "cloud credentials"},
    {".azure", "cloud credentials"},
    {".config/gcloud", "cloud credentials"},
    {".gnupg", "private keys"},
    {".kube", "cluster credentials"},
    {".docker", "registry credentials"},
    {".coto", "coto's own state"},
    {".local/state/coto", "coto's own state"},
};

static const char *const engine_sockets[] = {
    "docker.sock",
    "containerd.sock",
    "podman.sock",
    "crio.sock",
    "containerd/containerd.sock",
    "podman/podman.sock",
    "crio/crio.sock",
    "api.sock", /* coto serve; without root its directory may be in /tmp */
    "coto/api.sock",
};

/* Kernel file systems, wherever somebody mounted them. */
static const struct {
    unsigned long magic;
    const char *name;
} kernel_fs[] = {
    {0x9fa0, "procfs"},       {0x62656572, "sysfs"},      {0x27e0eb, "cgroupfs"},
    {0x63677270, "cgroupfs"}, {0x64626720, "debugfs"},    {0x74726163, "tracefs"},
    {0x73636673, "securityfs"}, {0xcafe4a11, "bpffs"},    {0x1cd1, "devpts"},
    {0x6165676c, "pstore"},   {0xde5e81e4, "efivarfs"},
};

static int refuse(const struct coto_plan_shown *shown, struct coto_err *err, const char *why)
{
    bool is_alias = strcmp(shown->given, shown->path) != 0;

    coto_err_set(err, COTO_ERR_FORBIDDEN, 0, "%s: '%s' is refused: %s%s%s%s", shown->what,
                 shown->path, why, is_alias ? " ('" : "", is_alias ? shown->given : "",
                 is_alias ? "' leads there)" : "");
    if (shown->is_rootfs)
        return coto_err_remedy(err, "unpack a root file system into a directory of its own");
    return coto_err_remedy(err, "copy the files the program needs, one by one, with --copy");
}

static bool same_inode(int fd, const char *path)
{
    struct stat a, b;

    return fstat(fd, &a) == 0 && stat(path, &b) == 0 && a.st_dev == b.st_dev &&
           a.st_ino == b.st_ino;
}

static int check_places(const struct coto_plan_shown *shown, struct coto_err *err)
{
    char why[256];

    for (size_t i = 0; i < PLACE_COUNT; i++) {
        const struct place *place = &places[i];
        bool is_root_home = strcmp(place->path, "/root") == 0;
        if (place->reach == TREE_RW && !shown->writable)
            continue;
        /* The same directory by another name: bind mounts, hard-wired links. */
        bool itself = strcmp(shown->path, place->path) == 0 || same_inode(shown->fd, place->path);
        bool below = place->reach != ITSELF && coto_plan_is_below(shown->path, place->path);
        /* Root may keep a root file system in its own home. */
        if (itself || (below && !(shown->is_rootfs && is_root_home)))
            return refuse(shown, err, place->why);
    }
    for (size_t i = 0; i < PLACE_COUNT; i++) {
        if (places[i].reach == TREE_RW && !shown->writable)
            continue;
        if (!coto_plan_is_below(places[i].path, shown->path) || access(places[i].path, F_OK))
            continue;
        snprintf(why, sizeof why, "it contains '%s', and %s", places[i].path, places[i].why);
        return refuse(shown, err, why);
    }
    return 0;
}

static bool has_component(const char *path, const char *name)
{
    size_t len = strlen(name);

    for (const char *p = path; (p = strstr(p, name)); p++)
        if (p > path && p[-1] == '/' && (p[len] == '/' || p[len] == '\0'))
            return true;
    return false;
}

/* What of name is still to come where path ends: of a/b/c, b/c in X/a, all of it in X. */
static const char *rest_of(const char *name, const char *path)
{
    size_t len = strlen(path);

    for (const char *rest = name; (rest = strchr(rest, '/'));) {
        size_t n = (size_t)(rest++ - name);
        if (len > n && path[len - n - 1] == '/' && strncmp(path + len - n, name, n) == 0)
            return rest;
    }
    return name;
}

static int check_private(const struct coto_plan_shown *shown, struct coto_err *err)
{
    struct stat st;
    char why[128];

    for (size_t i = 0; i < sizeof private_names / sizeof private_names[0]; i++) {
        const char *name = private_names[i].name;
        if (has_component(shown->path, name)) {
            snprintf(why, sizeof why, "'%s' holds %s", name, private_names[i].why);
            return refuse(shown, err, why);
        }
        name = rest_of(name, shown->path);
        if (fstatat(shown->fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0) {
            snprintf(why, sizeof why, "it contains '%s', which holds %s", name,
                     private_names[i].why);
            return refuse(shown, err, why);
        }
    }
    return 0;
}

static int check_engine(const struct coto_plan_shown *shown, const char *name, struct coto_err *err)
{
    struct stat st;
    char why[128];

    if (strcmp(strrchr(shown->path, '/') + 1, name) == 0)
        return refuse(shown, err, "who can talk to a container engine owns the host");
    if (fstatat(shown->fd, name, &st, AT_SYMLINK_NOFOLLOW))
        return 0;
    snprintf(why, sizeof why,
             "it contains '%s', and who can talk to a container engine owns the host", name);
    return refuse(shown, err, why);
}

static int check_sockets(const struct coto_plan_shown *shown, mode_t mode, struct coto_err *err)
{
    char own[32];

    snprintf(own, sizeof own, "coto-%u/api.sock", (unsigned)getuid());
    if (check_engine(shown, own, err))
        return -1;
    for (size_t i = 0; i < sizeof engine_sockets / sizeof engine_sockets[0]; i++)
        if (check_engine(shown, engine_sockets[i], err))
            return -1;
    if (S_ISSOCK(mode))
        return refuse(shown, err, "it is a socket of a program on the host");
    if (!S_ISREG(mode) && !S_ISDIR(mode))
        return refuse(shown, err, S_ISFIFO(mode) ? "it is a FIFO" : "it is a device");
    return 0;
}

static int check_file_system(const struct coto_plan_shown *shown, struct coto_err *err)
{
    struct statfs fs;
    char why[96];

    if (fstatfs(shown->fd, &fs))
        return coto_err_set(err, COTO_ERR_INPUT, errno, "%s: '%s'", shown->what, shown->path);
    for (size_t i = 0; i < sizeof kernel_fs / sizeof kernel_fs[0]; i++) {
        if (((unsigned long)fs.f_type & 0xffffffff) != kernel_fs[i].magic)
            continue;
        snprintf(why, sizeof why, "it lies on %s, which opens the host's kernel",
                 kernel_fs[i].name);
        return refuse(shown, err, why);
    }
    return 0;
}

static int check_dir_of(const struct coto_plan_shown *shown, const char *program,
                        struct coto_err *err)
{
    char dir[PATH_MAX], real[PATH_MAX];
    const char *slash = program[0] == '/' ? strrchr(program, '/') : NULL;

    if (!slash || slash == program)
        return 0;
    snprintf(dir, sizeof dir, "%.*s", (int)(slash - program), program);
    if (!realpath(dir, real))
        return 0;
    if (coto_plan_is_below(real, shown->path) || coto_plan_is_below(shown->path, real))
        return refuse(shown, err, "it holds coto itself, and would be writable");
    return 0;
}

/* A sandbox that can change a program that builds its walls has none: this one, coto-init, or what
 * is looked for beside the name we were started by (drivers/initbin.c). */
static int check_own_program(const struct coto_plan_shown *shown, struct coto_err *err)
{
    const char *name = (const char *)getauxval(AT_EXECFN); /* NOLINT: a pointer by contract */
    char path[PATH_MAX];

    if (!shown->writable)
        return 0;
    ssize_t n = readlink("/proc/self/exe", path, sizeof path - 1);
    path[n > 0 ? n : 0] = '\0';
    if (check_dir_of(shown, path, err) || (name && check_dir_of(shown, name, err)))
        return -1;
    return coto_helper_find("coto-init", path, sizeof path) ? 0 : check_dir_of(shown, path, err);
}

int coto_plan_check_forbidden(const struct coto_plan_shown *shown, struct coto_err *err)
{
    struct stat st;

    if (fstat(shown->fd, &st))
        return coto_err_set(err, COTO_ERR_INPUT, errno, "%s: '%s'", shown->what, shown->path);
    if (check_places(shown, err) || coto_plan_check_names(shown, check_places, err) ||
        check_file_system(shown, err) ||
        check_sockets(shown, st.st_mode, err) || check_private(shown, err))
        return -1;
    return check_own_program(shown, err);
}
