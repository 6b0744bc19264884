/* A root file system that several sandboxes have in common.
 *
 * Making two dozen mounts is most of what a sandbox costs, and all but five of them are the same
 * for every sandbox of a plan. A launcher that is root lets one coto-init make them once, in a
 * mount namespace that it keeps; each sandbox is then born with a copy of that namespace
 * (CLONE_NEWNS), in a user namespace of its own, which locks every one of these mounts and
 * its flags: read-only stays read-only. What is the sandbox's own lies on top: /proc of its
 * pid namespace, /tmp, /dev/shm, /dev/pts if there are terminals, and the workspace. The files of
 * the shared root belong to the host's root, whom no sandbox maps.
 */
#include "init/aside.h"
#include "init/setup.h"

#include "base/fd.h"
#include "kernel/mount.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

/* ---- one for others ---- */

/* First of all: it is made in a mount namespace whose mounts may still hear, and tell, the
 * host's. */
int init_shared_detach(struct coto_err *err)
{
    umask(022);
    if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL))
        return coto_err_set(err, COTO_ERR_SYSTEM, errno, "make mounts private");
    return 0;
}

int init_shared_leave(struct coto_err *err)
{
    int failed = coto_mount_drop_old();

    return failed ? coto_err_set(err, COTO_ERR_SYSTEM, failed, "detach the old root") : 0;
}

/* ---- in one ---- */

int init_shared_enter(struct init_root *root, struct coto_err *err)
{
    struct statvfs fs;

    root->fd = openat(AT_FDCWD, "/", O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (root->fd < 0 || fchdir(root->fd))
        return coto_err_set(err, COTO_ERR_SYSTEM, errno, "enter the root");
    if (fstatvfs(root->fd, &fs) || !(fs.f_flag & ST_RDONLY))
        return coto_err_set(err, COTO_ERR_WALL, 0,
                            "root_read_only: the kernel says it is writable");
    return 0;
}

/* See aside.c for what is written and why. */
static int write_limits(int proc, bool has_network, struct coto_err *err)
{
    /* With its uid a process loses its own files here; nobody else is inside yet. */
    prctl(PR_SET_DUMPABLE, 1);
    int failed = coto_file_write_at(proc, "self/oom_score_adj", "1000");
    int saved = errno;

    prctl(PR_SET_DUMPABLE, 0);
    init_aside_limits(proc, has_network);
    return failed ? coto_err_set(err, COTO_ERR_WALL, saved, "set oom_score_adj") : 0;
}

int init_shared_proc(bool has_network, struct coto_err *err)
{
    const unsigned attrs = COTO_ATTR_NOSUID | COTO_ATTR_NODEV | COTO_ATTR_NOEXEC;
    coto_auto_fd proc = coto_mount_new("proc", NULL, attrs, err);

    if (proc < 0)
        return coto_err_wrap(err, "private /proc");
    if (write_limits(proc, has_network, err) || coto_mount_set(proc, COTO_ATTR_RDONLY, false, err) ||
        coto_mount_attach_own(proc, AT_FDCWD, "proc", err))
        return -1;
    return init_root_mask(INIT_ROOT_MASK, err);
}

int init_shared_network(struct coto_err *err)
{
    int failed = coto_ns_make_net(NULL);

    if (!failed)
        return 0;
    coto_err_set(err, COTO_ERR_WALL, failed, "net_namespace");
    if (failed == ENOSPC)
        coto_err_remedy(err, "raise the limit: sysctl user.max_net_namespaces=16384");
    return -1;
}
