/* Ending and removing what a sandbox may have left, by names only: in an ordinary end, in the
 * guard of a supervisor that was killed, and in a later run when both were.
 *
 * Nothing of a container lives outside its throw-away directory (bundle, the runtime's
 * state) and its cgroups; mounts go with its namespaces, and processes with the stream, with
 * the runtime's process or with the cgroup. So no runtime has to be asked for anything.
 */
#include "drivers/oci/oci.h"

#include "base/clock.h"
#include "base/fd.h"
#include "kernel/cgroup_text.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define TRIES 300
#define TRY_US 10000
#define STALE_SECONDS 2
#define GROUPS_DEPTH 12
#define REMOVE_US 3000000 /* of a directory: what is left then is swept later */

void oci_dir_base(char ret_base[128])
{
    const char *own = getenv("XDG_RUNTIME_DIR");
    struct stat st;

    if (geteuid() == 0)
        snprintf(ret_base, 128, "/run");
    else if (own && strlen(own) < 100 && lstat(own, &st) == 0 && S_ISDIR(st.st_mode) &&
             st.st_uid == geteuid())
        snprintf(ret_base, 128, "%s", own);
    else
        snprintf(ret_base, 128, "/tmp");
}

/* ---- cgroups ---- */

static void kill_listed(const char *dir)
{
    char path[512];
    char text[8192];

    snprintf(path, sizeof path, "%s/cgroup.procs", dir);
    if (coto_file_read_words_at(AT_FDCWD, path, text, sizeof text) <= 0)
        return;
    for (char *p = text; isdigit((unsigned char)*p); p += *p == '\n') {
        pid_t pid = (pid_t)strtol(p, &p, 10);
        if (pid > 1 && pid != getpid())
            kill(pid, SIGKILL);
    }
}

static void remove_group(const char *dir)
{
    for (int i = 0; i < TRIES && rmdir(dir) && errno == EBUSY; i++) {
        kill_listed(dir);
        usleep(i ? TRY_US : 1000);
    }
}

/* Every controller's directory of that name below our own group, and v2's at the top: also where it is beside
 * v1 and has no controller. */
static void remove_groups(const char *name)
{
    char text[4096];
    char dir[700];

    if (coto_file_read_at(AT_FDCWD, "/proc/self/cgroup", text, sizeof text) <= 0)
        return;
    for (char *cursor = text, *names, *path; coto_cgroup_text_line(&cursor, &names, &path);) {
        const char *own = strcmp(path, "/") ? path : "";
        const char *mount = *names ? names : "unified";
        if (strncmp(mount, "name=", 5) == 0)
            mount += 5;
        snprintf(dir, sizeof dir, "/sys/fs/cgroup/%.100s%.300s/%s", mount, own, name);
        remove_group(dir);
    }
    snprintf(dir, sizeof dir, "/sys/fs/cgroup/unified/%s", name);
    remove_group(dir);
    snprintf(dir, sizeof dir, "/sys/fs/cgroup/%s", name);
    remove_group(dir);
}

/* Wherever it is: whoever made it was in another group than we are. */
static void remove_groups_below(const char *above, const char *name, int depth, int64_t until_us)
{
    DIR *dir = opendir(above);
    struct dirent *entry;

    while (dir && (entry = readdir(dir)) && coto_clock_us() < until_us) {
        char path[700];
        if (entry->d_type != DT_DIR || entry->d_name[0] == '.' ||
            snprintf(path, sizeof path, "%s/%s", above, entry->d_name) >= (int)sizeof path)
            continue;
        if (strcmp(entry->d_name, name) == 0)
            remove_group(path);
        else if (depth > 0)
            remove_groups_below(path, name, depth - 1, until_us);
    }
    if (dir)
        closedir(dir);
}

/* ---- the directory ---- */

static int remove_dir(const char *dir, int64_t until_us)
{
    char base[200];

    snprintf(base, sizeof base, "%s", dir);
    char *slash = strrchr(base, '/');
    if (!slash)
        return 0;
    *slash = '\0';
    coto_auto_fd fd = open(base, O_PATH | O_DIRECTORY | O_CLOEXEC);
    return fd < 0 ? 0 : coto_path_remove_tree_until(fd, slash + 1, until_us);
}

static void clean_until(const char *dir, const char *name, int64_t until_us)
{
    if (name)
        remove_groups(name);
    for (int i = 0; i < TRIES && remove_dir(dir, until_us) && errno != ENOENT && coto_clock_us() < until_us; i++)
        usleep(TRY_US);
}

void oci_clean(const char *dir, const char *name)
{
    clean_until(dir, name, coto_clock_us() + REMOVE_US);
}

/* ---- later ---- */

static bool is_stale(int dirfd, const char *name)
{
    struct stat st;
    char *end;
    long pid = strtol(name + sizeof OCI_DIR_PREFIX - 1, &end, 10);

    if (pid <= 1 || *end != '-' || kill((pid_t)pid, 0) == 0 || errno != ESRCH)
        return false;
    return fstatat(dirfd, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(st.st_mode) &&
           st.st_uid == geteuid() && time(NULL) - st.st_mtime > STALE_SECONDS;
}

/* The directory last: it is what tells of the groups. */
void oci_sweep_dirs(int64_t until_us)
{
    char base[128];
    struct dirent *entry;

    oci_dir_base(base);
    DIR *dir = opendir(base);
    while (dir && (entry = readdir(dir))) {
        char path[400];
        char group[80];
        if (strncmp(entry->d_name, OCI_DIR_PREFIX, sizeof OCI_DIR_PREFIX - 1) != 0 ||
            strlen(entry->d_name) > 60 || !is_stale(dirfd(dir), entry->d_name))
            continue;
        snprintf(path, sizeof path, "%s/%s", base, entry->d_name);
        snprintf(group, sizeof group, OCI_NAME_PREFIX "%s", entry->d_name + sizeof OCI_DIR_PREFIX - 1);
        int64_t now = coto_clock_us();
        if (now >= until_us)
            break;
        int64_t half = now + (until_us - now) / 2; /* one that does not end leaves time for others */
        remove_groups_below("/sys/fs/cgroup", group, GROUPS_DEPTH, half);
        clean_until(path, group, half);
    }
    if (dir)
        closedir(dir);
}
