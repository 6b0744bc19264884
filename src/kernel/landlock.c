/* Rights of a path are the union of the rules on it and on all directories
 * above. So what is granted on "/" cannot be taken back further down: for
 * noexec, EXECUTE is granted beside the writable trees instead of above them
 * (grant_execute), by walking from "/" along their parent directories.
 * Files are compared by device and inode, not by name: links in a name the
 * caller chose must not lead around the comparison.
 */
#include "kernel/landlock.h"

#include "base/own.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef SYS_landlock_create_ruleset
#define SYS_landlock_create_ruleset 444
#define SYS_landlock_add_rule 445
#define SYS_landlock_restrict_self 446
#endif

#define ABI_KNOWN 7
#define CREATE_VERSION 1u
#define RULE_PATH_BENEATH 1

enum {
    FS_EXECUTE = 1 << 0,
    FS_WRITE_FILE = 1 << 1,
    FS_READ_FILE = 1 << 2,
    FS_READ_DIR = 1 << 3,
    FS_REMOVE_DIR = 1 << 4,
    FS_REMOVE_FILE = 1 << 5,
    FS_MAKE_CHAR = 1 << 6,
    FS_MAKE_DIR = 1 << 7,
    FS_MAKE_REG = 1 << 8,
    FS_MAKE_SOCK = 1 << 9,
    FS_MAKE_FIFO = 1 << 10,
    FS_MAKE_BLOCK = 1 << 11,
    FS_MAKE_SYM = 1 << 12,
    FS_REFER = 1 << 13,     /* ABI 2 */
    FS_TRUNCATE = 1 << 14,  /* ABI 3 */
    FS_IOCTL_DEV = 1 << 15, /* ABI 5 */

    FS_ABI1 = FS_REFER - 1,
    FS_ON_FILES = FS_EXECUTE | FS_WRITE_FILE | FS_READ_FILE | FS_TRUNCATE | FS_IOCTL_DEV,
    FS_READ = FS_READ_FILE | FS_READ_DIR,
    /* Device nodes are made nowhere. */
    FS_WRITE = FS_WRITE_FILE | FS_REMOVE_DIR | FS_REMOVE_FILE | FS_MAKE_DIR | FS_MAKE_REG |
               FS_MAKE_SOCK | FS_MAKE_FIFO | FS_MAKE_SYM | FS_REFER | FS_TRUNCATE,
    FS_DEVICE = FS_READ | FS_WRITE_FILE | FS_TRUNCATE | FS_IOCTL_DEV,

    NET_ABI4 = 3,   /* bind, connect; what was inherited or accepted stays of use */
    SCOPE_ABI6 = 3, /* abstract UNIX sockets, signals */

    /* Of this program, until it executes another, and of domains that programs make for themselves:
     * else each refusal that they provoke is a line in the host's audit log. */
    LOG_OFF_ABI7 = 1 << 0 | 1 << 2,
};

/* Fields an older kernel does not know are zero, which it accepts. */
struct ruleset_attr {
    uint64_t handled_fs;
    uint64_t handled_net;
    uint64_t scoped;
};

struct path_attr {
    uint64_t allowed;
    int32_t parent_fd;
} __attribute__((packed));

#define TREES_MAX 64
#define PARENTS_MAX 512
#define DEPTH_MAX 64

struct identity {
    dev_t dev;
    ino_t ino;
};

/* For noexec: the writable trees, and all directories above them. */
struct walk {
    struct identity root;
    struct identity trees[TREES_MAX];
    int tree_count;
    struct identity parents[PARENTS_MAX];
    int parent_count;
};

struct apply {
    int ruleset_fd;
    uint64_t handled;
    const struct coto_landlock_ask *ask;
    struct walk *walk; /* noexec only */
};

int coto_landlock_abi(void)
{
    long abi = syscall(SYS_landlock_create_ruleset, NULL, 0UL, CREATE_VERSION);

    return abi > 0 ? (int)abi : 0;
}

static uint64_t handled_by(int abi)
{
    uint64_t rights = FS_ABI1;

    if (abi >= 2)
        rights |= FS_REFER;
    if (abi >= 3)
        rights |= FS_TRUNCATE;
    if (abi >= 5)
        rights |= FS_IOCTL_DEV;
    return rights;
}

static int fail(struct coto_err *err, int error, const char *what, const char *path)
{
    return coto_err_set(err, COTO_ERR_SYSTEM, error, "landlock: %s '%s'", what, path);
}

/* Rights the kernel does not know, or that files do not have, are left out. */
static int add_rule(const struct apply *apply, int fd, mode_t mode, uint64_t rights)
{
    struct path_attr attr = {.allowed = rights & apply->handled, .parent_fd = fd};

    if (!S_ISDIR(mode))
        attr.allowed &= FS_ON_FILES;
    if (!attr.allowed)
        return 0;
    return (int)syscall(SYS_landlock_add_rule, apply->ruleset_fd, RULE_PATH_BENEATH, &attr, 0U);
}

static int grant_path(const struct apply *apply, const char *path, uint64_t rights,
                      struct coto_err *err)
{
    struct stat st;
    coto_auto_fd fd = openat(AT_FDCWD, path, O_PATH | O_CLOEXEC);

    if (fd < 0 || fstat(fd, &st))
        return fail(err, errno, "open", path);
    if (add_rule(apply, fd, st.st_mode, rights))
        return fail(err, errno, "add rule for", path);
    return 0;
}

/* What a sandbox's /dev may lack is no failure. Who reads little has no terminal either. */
static int grant_devices(const struct apply *apply, struct coto_err *err)
{
    static const char *const devices[] = {"/dev/null",    "/dev/zero", "/dev/full", "/dev/random",
                                          "/dev/urandom", "/dev/tty",  "/dev/ptmx", "/dev/pts"};
    size_t count = sizeof devices / sizeof devices[0] - (apply->ask->readable ? 3 : 0);

    if (apply->ask->own_dev)
        return grant_path(apply, "/dev", FS_DEVICE, err);
    for (size_t i = 0; i < count; i++) {
        struct stat st;
        coto_auto_fd fd = openat(AT_FDCWD, devices[i], O_PATH | O_CLOEXEC);
        if (fd < 0 || fstat(fd, &st))
            continue;
        /* A plain file or directory of that name is not a device. */
        bool terminals = i == sizeof devices / sizeof devices[0] - 1;
        if (!(terminals ? S_ISDIR(st.st_mode) : S_ISCHR(st.st_mode)))
            continue;
        if (add_rule(apply, fd, st.st_mode, FS_DEVICE))
            return fail(err, errno, "add rule for", devices[i]);
    }
    return 0;
}

/* ---- noexec ------------------------------------------------------------- */

static bool is_same(const struct identity *a, const struct stat *st)
{
    return a->dev == st->st_dev && a->ino == st->st_ino;
}

static bool has(const struct identity *list, int count, const struct stat *st)
{
    for (int i = 0; i < count; i++)
        if (is_same(&list[i], st))
            return true;
    return false;
}

/* Notes the directory behind fd and all above it, up to "/", which is its own
 * parent. Takes fd. */
static int note_parents(struct walk *walk, int fd)
{
    bool at_root = false;

    for (int depth = 0; depth < DEPTH_MAX; depth++) {
        struct stat st;
        coto_auto_fd dir = fd;
        if (dir < 0 || fstat(dir, &st))
            return -1;
        if (at_root && is_same(&walk->root, &st))
            return 0;
        at_root = is_same(&walk->root, &st);
        if (!has(walk->parents, walk->parent_count, &st)) {
            if (walk->parent_count == PARENTS_MAX) {
                errno = E2BIG;
                return -1;
            }
            walk->parents[walk->parent_count++] = (struct identity){st.st_dev, st.st_ino};
        }
        fd = openat(dir, "..", O_PATH | O_DIRECTORY | O_CLOEXEC);
    }
    coto_own_close(&fd);
    errno = ELOOP;
    return -1;
}

/* A directory knows its parent; of a file only the name does. */
static int open_parent(const char *path, int fd, mode_t mode)
{
    char parent[4096];
    size_t len = strlen(path);

    if (S_ISDIR(mode))
        return openat(fd, "..", O_PATH | O_DIRECTORY | O_CLOEXEC);
    while (len && path[len - 1] != '/')
        len--;
    if (!len || len >= sizeof parent) {
        errno = EINVAL;
        return -1;
    }
    memcpy(parent, path, len);
    parent[len] = '\0';
    return openat(AT_FDCWD, parent, O_PATH | O_DIRECTORY | O_CLOEXEC);
}

static int note_tree(struct walk *walk, const char *path, struct coto_err *err)
{
    struct stat st, link;
    coto_auto_fd fd = openat(AT_FDCWD, path, O_PATH | O_CLOEXEC);

    if (fd < 0 || fstat(fd, &st) || lstat(path, &link))
        return fail(err, errno, "open", path);
    if (!S_ISDIR(st.st_mode) && S_ISLNK(link.st_mode))
        return fail(err, ELOOP, "a link to a file cannot be a writable place:", path);
    if (walk->tree_count == TREES_MAX)
        return fail(err, E2BIG, "too many writable places at", path);
    walk->trees[walk->tree_count++] = (struct identity){st.st_dev, st.st_ino};
    if (note_parents(walk, open_parent(path, fd, st.st_mode)))
        return fail(err, errno, "find the directories above", path);
    return 0;
}

struct kernel_dirent {
    uint64_t ino;
    int64_t off;
    uint16_t reclen;
    uint8_t type;
    char name[];
};

static int grant_execute(const struct apply *apply, int dir, int depth);

/* One entry of a directory that has a writable tree below it. */
static int grant_entry(const struct apply *apply, int dir, const char *name, int depth)
{
    const struct walk *walk = apply->walk;
    struct stat st;

    if (!strcmp(name, ".") || !strcmp(name, ".."))
        return 0;
    coto_auto_fd fd = openat(dir, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st))
        return 0; /* what cannot be looked at gets no right */
    if (S_ISLNK(st.st_mode) || has(walk->trees, walk->tree_count, &st))
        return 0;
    if (has(walk->parents, walk->parent_count, &st))
        return grant_execute(apply, fd, depth + 1);
    return add_rule(apply, fd, st.st_mode, FS_EXECUTE);
}

static int grant_execute(const struct apply *apply, int dir, int depth)
{
    char buf[4096] __attribute__((aligned(8)));
    coto_auto_fd fd = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    if (fd < 0)
        return errno == EACCES ? 0 : -1;
    if (depth > DEPTH_MAX) {
        errno = ELOOP;
        return -1;
    }
    for (;;) {
        long got = syscall(SYS_getdents64, fd, buf, sizeof buf);
        if (got <= 0)
            return (int)got;
        for (long at = 0; at < got;) {
            const struct kernel_dirent *entry = (const struct kernel_dirent *)(buf + at);
            if (grant_entry(apply, dir, entry->name, depth))
                return -1;
            at += entry->reclen;
        }
    }
}

/* Not inlined: its pages of the stack are for noexec only, and everybody else would touch them. */
static __attribute__((noinline)) int grant_execute_beside(const struct apply *all, struct coto_err *err)
{
    struct walk noted, *walk = &noted; /* large: not cleared as a whole */
    const struct apply with_walk = {all->ruleset_fd, all->handled, all->ask, walk}, *apply = &with_walk;
    const char *const *writable = apply->ask->writable;
    struct stat st;

    walk->tree_count = walk->parent_count = 0;

    coto_auto_fd root = openat(AT_FDCWD, "/", O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (root < 0 || fstat(root, &st))
        return fail(err, errno, "open", "/");
    walk->root = (struct identity){st.st_dev, st.st_ino};
    for (size_t i = 0; writable && writable[i]; i++)
        if (note_tree(walk, writable[i], err))
            return -1;
    if (has(walk->trees, walk->tree_count, &st))
        return 0;
    if (grant_execute(apply, root, 0))
        return fail(err, errno, "add rules for", "/");
    return 0;
}

/* ---- all together ------------------------------------------------------- */

/* What this host does not have, or does not let us reach, needs no rule. */
static int grant_readable(const struct apply *apply, uint64_t rights, struct coto_err *err)
{
    const char *const *readable = apply->ask->readable;

    for (size_t i = 0; readable[i]; i++) {
        struct coto_err why = {0};
        if (grant_path(apply, readable[i], rights, &why) == 0 || why.sys_errno == ENOENT || why.sys_errno == EACCES)
            continue;
        *err = why;
        return -1;
    }
    return 0;
}

static int grant_reading(const struct apply *apply, uint64_t rights, struct coto_err *err)
{
    if (apply->ask->readable)
        return grant_readable(apply, rights, err);
    if (grant_path(apply, "/", rights, err))
        return -1;
    return apply->ask->noexec ? grant_execute_beside(apply, err) : 0;
}

static int add_rules(const struct apply *apply, struct coto_err *err)
{
    const char *const *writable = apply->ask->writable;
    uint64_t execute = apply->ask->noexec ? 0 : FS_EXECUTE;

    if (grant_reading(apply, FS_READ | execute, err))
        return -1;
    for (size_t i = 0; writable && writable[i]; i++)
        if (grant_path(apply, writable[i], FS_READ | FS_WRITE | execute, err))
            return -1;
    return grant_devices(apply, err);
}

int coto_landlock_apply(const struct coto_landlock_ask *ask, int *ret_abi, struct coto_err *err)
{
    struct ruleset_attr attr = {0};
    int abi = coto_landlock_abi();
    unsigned flags = abi >= 7 ? LOG_OFF_ABI7 : 0;

    if (abi > ABI_KNOWN)
        abi = ABI_KNOWN;
    if (abi > ask->abi_max)
        abi = ask->abi_max;
    if (abi < 1) {
        coto_err_set(err, COTO_ERR_WALL, 0, "landlock: this kernel does not offer it");
        return coto_err_remedy(err, "use Linux 5.13 or newer with CONFIG_SECURITY_LANDLOCK, and "
                                    "'landlock' in the boot option lsm=");
    }
    attr.handled_fs = handled_by(abi);
    attr.handled_net = abi >= 4 && ask->no_tcp ? NET_ABI4 : 0;
    attr.scoped = abi >= 6 ? SCOPE_ABI6 : 0;
    coto_auto_fd ruleset = (int)syscall(SYS_landlock_create_ruleset, &attr, sizeof attr, 0U);
    if (ruleset < 0)
        return coto_err_set(err, COTO_ERR_SYSTEM, errno, "landlock: create rule set");
    struct apply apply = {ruleset, attr.handled_fs, ask, NULL};
    if (add_rules(&apply, err))
        return -1;
    if (syscall(SYS_landlock_restrict_self, ruleset, flags)) {
        coto_err_set(err, COTO_ERR_SYSTEM, errno, "landlock: restrict");
        return coto_err_remedy(err, "no_new_privs must be set first");
    }
    *ret_abi = abi;
    return 0;
}
