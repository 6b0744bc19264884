/* How gVisor runs programs here: a platform is offered because a trivial container ran on it,
 * and the answer is kept for this version and kernel. kvm is never tried: what passes for
 * /dev/kvm on a virtual machine may hang the host's own, and only its owner knows. */
#include "drivers/oci/oci.h"

#include "base/fd.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#define TRY_MS 20000

static bool works(const struct oci_chosen *chosen, const char *platform)
{
    char base[128];
    char root[160];
    char flag[40];
    struct oci_output out;
    char *argv[] = {(char *)chosen->path, "--root", root, flag, "--network=none", "--ignore-cgroups",
                    geteuid() ? "--rootless" : "--network=none", "do", "true", NULL};

    oci_dir_base(base);
    /* Nobody else may have made it: in /tmp the runtime would keep its state among another's links. */
    snprintf(root, sizeof root, "%s/" OCI_DIR_PREFIX "%d-XXXXXX", base, (int)getpid());
    if (!mkdtemp(root))
        return false;
    snprintf(flag, sizeof flag, "--platform=%s", platform);
    bool ok = oci_command(argv, TRY_MS, &out) == 0 && out.status == 0;
    oci_clean(root, NULL);
    return ok;
}

static void name_memory(char ret_path[200])
{
    char base[128];

    oci_dir_base(base);
    snprintf(ret_path, 200, "%s/.coto-gvisor-%u", base, (unsigned)geteuid());
}

/* "VERSION KERNEL PLATFORM", in a file of ours. */
static bool recall(const char *key, char ret_platform[16])
{
    char path[200];
    char text[256];
    struct stat st;
    size_t n = strlen(key);

    name_memory(path);
    coto_auto_fd fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK); /* not a FIFO's writer */
    if (fd < 0 || fstat(fd, &st) || !S_ISREG(st.st_mode) || st.st_uid != geteuid() ||
        (st.st_mode & 022))
        return false;
    ssize_t len = read(fd, text, sizeof text - 1);
    text[len > 0 ? len : 0] = '\0';
    return strncmp(text, key, n) == 0 && sscanf(text + n, " %15[a-z]", ret_platform) == 1;
}

static void remember(const char *key, const char *platform)
{
    char path[200];
    char fresh[240];
    char text[256];

    name_memory(path);
    snprintf(fresh, sizeof fresh, "%s.%d", path, (int)getpid());
    int len = snprintf(text, sizeof text, "%s %s\n", key, platform);
    coto_auto_fd fd = open(fresh, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return;
    if (coto_fd_write_all(fd, text, (size_t)len) || rename(fresh, path))
        unlink(fresh);
}

int oci_platform(struct oci_chosen *chosen, struct coto_err *err)
{
    static const char *const platforms[] = {"systrap", "ptrace"};
    struct utsname kernel = {0};
    char key[200];

    uname(&kernel);
    snprintf(key, sizeof key, "%s %.64s", chosen->version, kernel.release);
    if (recall(key, chosen->platform))
        return 0;
    for (size_t i = 0; i < sizeof platforms / sizeof platforms[0]; i++) {
        if (!works(chosen, platforms[i]))
            continue;
        snprintf(chosen->platform, sizeof chosen->platform, "%s", platforms[i]);
        remember(key, platforms[i]);
        return 0;
    }
    coto_err_set(err, COTO_ERR_WALL, 0, "runsc: no platform works here (systrap, ptrace were tried)");
    return coto_err_remedy(err, "allow ptrace: sysctl kernel.yama.ptrace_scope=1, in Docker "
                                "--cap-add SYS_PTRACE; or use --runtime runc");
}

void oci_say_runtime(const struct oci_chosen *chosen, char *ret_text, size_t size)
{
    snprintf(ret_text, size, "%s %s (%s)%s%s%s%s", chosen->runtime->name, chosen->version,
             chosen->judged, chosen->platform[0] ? ", platform " : "", chosen->platform,
             chosen->lacks[0] ? "; without the fix of " : "", chosen->lacks);
}
