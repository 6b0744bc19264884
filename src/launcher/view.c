/* What a template sees of the host's files. Libraries make directories, caches and locks while they are imported, in the
 * home above all: not as root on this host. So it has a mount namespace of its own, with everything in it
 * read-only, and one writable place where its copies will have their workspace. A copy that joins a sandbox leaves
 * all of it behind. */
#include "launcher/launcher.h"

#include "base/fd.h"
#include "kernel/mount.h"

#include <dirent.h>
#include <fcntl.h>
#include <sched.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char home[] = "workspace";

static int show_link(int from, int to, const char *name)
{
    char target[4096];
    ssize_t n = readlinkat(from, name, target, sizeof target - 1);

    if (n < 0)
        return -1;
    target[n] = '\0';
    return symlinkat(target, to, name);
}

static int show_directory(int from, int to, const char *name)
{
    coto_auto_fd tree = coto_mount_clone(from, name, true, NULL);

    return mkdirat(to, name, 0755) || tree < 0 || coto_mount_attach_own(tree, to, name, NULL) ? -1 : 0;
}

static int show(int from, int to, const char *name)
{
    struct stat st;

    if (name[0] == '.' || strcmp(name, home) == 0)
        return 0;
    if (fstatat(from, name, &st, AT_SYMLINK_NOFOLLOW))
        return -1;
    return S_ISLNK(st.st_mode) ? show_link(from, to, name) : S_ISDIR(st.st_mode) ? show_directory(from, to, name) : 0;
}

/* What cannot be shown (somebody's FUSE mount, say) is left out, as long as the interpreter is there. */
static int show_all(int from, int to)
{
    const struct dirent *entry;
    DIR *dir = opendir("/");

    if (!dir)
        return -1;
    while ((entry = readdir(dir)))
        (void)show(from, to, entry->d_name);
    closedir(dir);
    return faccessat(to, "usr/bin/python3", X_OK, 0);
}

bool launcher_own_view(void)
{
    static const struct coto_mount_option options[] = {{"size", "16m"}, {"mode", "0755"}, {NULL, NULL}};

    if (unshare(CLONE_NEWNS))
        return false;
    coto_auto_fd old = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (coto_mount_set(old, COTO_ATTR_RDONLY, true, NULL))
        return false;
    coto_auto_fd root = coto_mount_new("tmpfs", options, COTO_ATTR_NOSUID | COTO_ATTR_NODEV, NULL);
    return root >= 0 && coto_mount_attach(root, old, "", NULL) == 0 && show_all(old, root) == 0 &&
           mkdirat(root, home, 0755) == 0 && fchdir(root) == 0 && chroot(".") == 0 && chdir("/") == 0;
}
