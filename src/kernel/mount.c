#include "kernel/mount.h"

#include "base/fd.h"
#include "base/rawcall.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mount.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef SYS_open_tree
#define SYS_open_tree 428
#define SYS_move_mount 429
#define SYS_fsopen 430
#define SYS_fsconfig 431
#define SYS_fsmount 432
#endif
#ifndef SYS_mount_setattr
#define SYS_mount_setattr 442
#endif

#define K_FSOPEN_CLOEXEC 1u
#define K_FSMOUNT_CLOEXEC 1u
#define K_CONFIG_FLAG 0u
#define K_CONFIG_STRING 1u
#define K_CONFIG_CREATE 6u
#define K_OPEN_TREE_CLONE 1u
#define K_AT_RECURSIVE 0x8000u
#define K_MOVE_F_EMPTY 0x04u
#define K_MOVE_T_EMPTY 0x40u

struct k_mount_attr {
    uint64_t attr_set, attr_clr, propagation, userns_fd;
};

int coto_mount_new(const char *type, const struct coto_mount_option *options, unsigned attrs,
                   struct coto_err *err)
{
    coto_auto_fd fs = (int)syscall(SYS_fsopen, type, K_FSOPEN_CLOEXEC);

    if (fs < 0)
        return coto_err_set(err, COTO_ERR_SYSTEM, errno, "new %s mount", type);
    for (; options && options->key; options++) {
        unsigned command = options->value ? K_CONFIG_STRING : K_CONFIG_FLAG;
        if (syscall(SYS_fsconfig, fs, command, options->key, options->value, 0))
            return coto_err_set(err, COTO_ERR_SYSTEM, errno, "%s mount option %s=%s", type,
                                options->key, options->value ? options->value : "");
    }
    int fd = -1;
    if (syscall(SYS_fsconfig, fs, K_CONFIG_CREATE, NULL, NULL, 0) == 0)
        fd = (int)syscall(SYS_fsmount, fs, K_FSMOUNT_CLOEXEC, attrs);
    if (fd < 0)
        return coto_err_set(err, COTO_ERR_SYSTEM, errno, "mount %s", type);
    return fd;
}

int coto_mount_clone(int dirfd, const char *path, bool recursive, struct coto_err *err)
{
    unsigned flags = K_OPEN_TREE_CLONE | O_CLOEXEC | AT_NO_AUTOMOUNT | AT_SYMLINK_NOFOLLOW;

    if (recursive)
        flags |= K_AT_RECURSIVE;
    if (!*path)
        flags |= AT_EMPTY_PATH;
    int fd = (int)syscall(SYS_open_tree, dirfd, path, flags);
    if (fd < 0)
        coto_err_set(err, COTO_ERR_SYSTEM, errno, "clone mount '%s'", path);
    return fd;
}

int coto_mount_set(int mount_fd, unsigned attrs, bool recursive, struct coto_err *err)
{
    /* A clone stays in its original's peer group: what is mounted there later would come along. */
    struct k_mount_attr attr = {.attr_set = attrs, .propagation = MS_PRIVATE};
    unsigned flags = AT_EMPTY_PATH | (recursive ? K_AT_RECURSIVE : 0);

    if (syscall(SYS_mount_setattr, mount_fd, "", flags, &attr, sizeof attr))
        return coto_err_set(err, COTO_ERR_SYSTEM, errno, "set mount flags 0x%x", attrs);
    return 0;
}

int coto_mount_set_at(const char *path, unsigned attrs, struct coto_err *err)
{
    struct k_mount_attr attr = {.attr_set = attrs, .propagation = MS_PRIVATE};

    if (syscall(SYS_mount_setattr, AT_FDCWD, path, 0, &attr, sizeof attr))
        return coto_err_set(err, COTO_ERR_SYSTEM, errno, "set mount flags of '/%s'", path);
    return 0;
}

int coto_mount_seal(int root_fd, unsigned attrs, struct coto_err *err)
{
    struct k_mount_attr all = {.attr_set = attrs, .propagation = MS_PRIVATE};
    struct k_mount_attr first = {.attr_clr = COTO_ATTR_RDONLY};

    if (syscall(SYS_mount_setattr, root_fd, "", AT_EMPTY_PATH | K_AT_RECURSIVE, &all, sizeof all) ||
        syscall(SYS_mount_setattr, root_fd, "", AT_EMPTY_PATH, &first, sizeof first))
        return coto_err_set(err, COTO_ERR_SYSTEM, errno, "make mounts read-only");
    return 0;
}

int coto_mount_attach(int mount_fd, int dirfd, const char *path, struct coto_err *err)
{
    coto_auto_fd target = *path ? coto_path_open_beneath(dirfd, path, O_PATH | O_NOFOLLOW, 0) : -1;

    if (*path && target < 0)
        return coto_err_set(err, COTO_ERR_SYSTEM, errno, "mount point '/%s'", path);
    if (syscall(SYS_move_mount, mount_fd, "", *path ? target : dirfd, "",
                K_MOVE_F_EMPTY | K_MOVE_T_EMPTY))
        return coto_err_set(err, COTO_ERR_SYSTEM, errno, "mount on '/%s'", path);
    return 0;
}

int coto_mount_attach_own(int mount_fd, int dirfd, const char *path, struct coto_err *err)
{
    if (syscall(SYS_move_mount, mount_fd, "", dirfd, path, K_MOVE_F_EMPTY))
        return coto_err_set(err, COTO_ERR_SYSTEM, errno, "mount on '/%s'", path);
    return 0;
}

int coto_mount_on(const char *type, const char *path, unsigned attrs, const char *options,
                  struct coto_err *err)
{
    unsigned long flags = (attrs & COTO_ATTR_RDONLY ? MS_RDONLY : 0) |
                          (attrs & COTO_ATTR_NOSUID ? MS_NOSUID : 0) |
                          (attrs & COTO_ATTR_NODEV ? MS_NODEV : 0) |
                          (attrs & COTO_ATTR_NOEXEC ? MS_NOEXEC : 0);

    if (mount(type, path, type, flags, options))
        return coto_err_set(err, COTO_ERR_SYSTEM, errno, "mount %s on '/%s'", type, path);
    return 0;
}

int coto_mount_bind(const char *source, const char *path, struct coto_err *err)
{
    if (mount(source, path, NULL, MS_BIND | MS_REC, NULL))
        return coto_err_set(err, COTO_ERR_SYSTEM, errno, "show '%s'", source);
    return 0;
}

int coto_mount_pivot(int root_fd, struct coto_err *err)
{
    /* "." twice: the old root ends up on top of the new one and is then
     * detached, so no directory for it is needed inside. */
    if (fchdir(root_fd) || syscall(SYS_pivot_root, ".", ".")) {
        coto_err_set(err, COTO_ERR_WALL, errno, "pivot_root");
        /* EINVAL: "/" is the kernel's first file system, below which nothing can go. */
        return coto_err_remedy(err, "on a host in its initramfs, switch_root to a real root file "
                                    "system first");
    }
    return 0;
}

int coto_mount_drop_old(void)
{
    long failed = coto_raw_call(SYS_umount2, (long)(intptr_t)".", MNT_DETACH, 0, 0);

    if (!failed)
        failed = coto_raw_call(SYS_chdir, (long)(intptr_t)"/", 0, 0, 0);
    return (int)-failed;
}
