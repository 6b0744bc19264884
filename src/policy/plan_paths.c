/* Host paths of a plan: opened here, once, and never resolved by name again. */
#include "base/own.h"
#include "base/units.h"
#include "base/weak.h"
#include "policy/plan_int.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

/* ---- names inside ---- */

bool coto_plan_is_below(const char *path, const char *dir)
{
    size_t len = strlen(dir);

    if (len == 1)
        return path[0] == '/';
    return strncmp(path, dir, len) == 0 && (path[len] == '\0' || path[len] == '/');
}

static int bad_path(const char *what, const char *text, const char *why, struct coto_err *err)
{
    coto_err_set(err, COTO_ERR_POLICY, 0, "%s: '%s' %s", what, text, why);
    if (strcmp(what, "--copy") == 0)
        return coto_err_remedy(err, "give a path in the workspace, such as data/in.csv, or one below /tmp");
    return coto_err_remedy(err, "give an absolute path inside the sandbox, such as /data");
}

int coto_plan_normalise(const char *what, const char *text, const char *base, char **ret_path,
                        struct coto_err *err)
{
    coto_auto_buf path = {0};

    if (!*text)
        return bad_path(what, text, "is an empty path", err);
    if (*text != '/' && !base)
        return bad_path(what, text, "is not an absolute path", err);
    if (*text != '/')
        coto_buf_adds(&path, base);
    for (const char *p = text; *p;) {
        p += strspn(p, "/");
        size_t n = strcspn(p, "/");
        if (n == 2 && p[0] == '.' && p[1] == '.')
            return bad_path(what, text, "goes up with '..'", err);
        if (n > NAME_MAX)
            return bad_path(what, text, "has a component over 255 bytes", err);
        if (n > 0 && !(n == 1 && p[0] == '.')) {
            coto_buf_addc(&path, '/');
            coto_buf_add(&path, p, n);
        }
        p += n;
    }
    if (path.len == 0)
        coto_buf_addc(&path, '/');
    if (path.len >= PATH_MAX)
        return bad_path(what, text, "is over 4095 bytes", err);
    if (path.failed)
        return coto_plan_no_memory(err);
    *ret_path = coto_take_ptr(path.data);
    return 0;
}

int coto_plan_check_target(const char *what, const char *path, struct coto_err *err)
{
    static const char *const taken[] = {"/proc", "/dev", "/sys", "/etc", "/usr", "/bin", "/sbin"};

    if (strcmp(path, "/") == 0)
        return bad_path(what, path, "is the root of the sandbox", err);
    if (strncmp(path, "/lib", 4) == 0)
        return bad_path(what, path, "would hide the sandbox's own '/lib'", err);
    for (size_t i = 0; i < sizeof taken / sizeof taken[0]; i++) {
        char why[64];
        if (!coto_plan_is_below(path, taken[i]))
            continue;
        snprintf(why, sizeof why, "would hide the sandbox's own '%s'", taken[i]);
        return bad_path(what, path, why, err);
    }
    return 0;
}

/* A mount point must be new, and must not swallow the workspace. */
static int check_mount_point(const struct coto_plan *plan, const char *what, const char *target,
                             struct coto_err *err)
{
    if (coto_plan_check_target(what, target, err))
        return -1;
    if (coto_plan_is_below(plan->workdir, target))
        return bad_path(what, target, "would hide the workspace", err);
    for (size_t i = 0; i < plan->mount_count; i++)
        if (coto_str_eq(plan->mounts[i].target, target))
            return bad_path(what, target, "is already the place of a --mount", err);
    for (size_t i = 0; i < plan->tmpfs_count; i++)
        if (coto_str_eq(plan->tmpfs[i].target, target))
            return bad_path(what, target, "is already the place of a --tmpfs", err);
    return 0;
}

/* ---- opening ---- */

static int canonical(int fd, char **ret_path)
{
    char link[64], path[PATH_MAX];

    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t n = readlink(link, path, sizeof path);
    if (n <= 0 || n >= (ssize_t)sizeof path || path[0] != '/') {
        errno = n >= (ssize_t)sizeof path ? ENAMETOOLONG : ENOENT;
        return -1;
    }
    *ret_path = strndup(path, (size_t)n);
    return *ret_path ? 0 : -1;
}

static int cannot_open(const char *what, const char *source, int number, struct coto_err *err)
{
    coto_err_set(err, COTO_ERR_INPUT, number, "%s: '%s'", what, source);
    return coto_err_remedy(err, "check that the path exists and that you may read it");
}

/* Fills *ret_path from an open descriptor, which it takes. */
static int take_path(const char *what, const char *source, int *fd,
                     struct coto_plan_path *ret_path, struct coto_err *err)
{
    struct coto_plan_path path = {0};
    struct stat st;

    if (fstat(*fd, &st) || canonical(*fd, &path.source))
        return cannot_open(what, source, errno, err);
    path.dev = st.st_dev;
    path.ino = st.st_ino;
    path.mode = st.st_mode;
    path.fd = coto_take_fd(fd);
    *ret_path = path;
    return 0;
}

static void path_drop(struct coto_plan_path *path)
{
    if (path->source)
        close(path->fd);
    free(path->source);
    free(path->target);
    *path = (struct coto_plan_path){.fd = -1};
}
#define coto_auto_path __attribute__((cleanup(path_drop))) struct coto_plan_path

bool coto_plan_writes_host(const struct coto_plan *plan)
{
    for (size_t i = 0; i < plan->mount_count; i++)
        if (plan->mounts[i].writable)
            return true;
    return false;
}

int coto_plan_open_mount(const char *spec_source, bool writable, struct coto_plan_path *ret_path,
                         struct coto_err *err)
{
    coto_auto_fd fd = open(spec_source, O_PATH | O_CLOEXEC);
    coto_auto_path path = {.fd = -1};

    if (fd < 0)
        return cannot_open("--mount", spec_source, errno, err);
    if (take_path("--mount", spec_source, &fd, &path, err))
        return -1;
    struct coto_plan_shown shown = {
        .what = "--mount",
        .given = spec_source,
        .path = path.source,
        .fd = path.fd,
        .writable = writable,
    };
    if (coto_plan_check_forbidden(&shown, err) || coto_plan_check_below(&shown, err))
        return -1;
    path.writable = writable;
    *ret_path = path;
    path = (struct coto_plan_path){.fd = -1};
    return 0;
}

/* For --copy: no link as the last component, and nothing but files and
 * directories. Two steps, so that no device or FIFO is ever opened for real. */
static int open_copy(const char *source, struct coto_plan_path *ret_path, struct coto_err *err)
{
    char link[64];
    coto_auto_buf bare = {0};
    size_t len = strlen(source);
    struct stat st;

    /* "link/" would be followed in spite of O_NOFOLLOW. */
    while (coto_up("slash") && len > 1 && source[len - 1] == '/')
        len--;
    coto_buf_add(&bare, source, len);
    if (bare.failed)
        return coto_plan_no_memory(err);
    coto_auto_fd at = open(coto_buf_str(&bare), O_PATH | O_NOFOLLOW | O_CLOEXEC);
    if (at < 0 || fstat(at, &st))
        return cannot_open("--copy", source, errno, err);
    if (S_ISLNK(st.st_mode)) {
        coto_err_set(err, COTO_ERR_INPUT, 0, "--copy: '%s' is a symbolic link", source);
        return coto_err_remedy(err, "name what it points to");
    }
    if (!S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode)) {
        coto_err_set(err, COTO_ERR_INPUT, 0, "--copy: '%s' is neither a file nor a directory",
                     source);
        return coto_err_remedy(err, "only files and directories can be copied");
    }
    snprintf(link, sizeof link, "/proc/self/fd/%d", at);
    coto_auto_fd fd = open(link, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return cannot_open("--copy", source, errno, err);
    return take_path("--copy", source, &fd, ret_path, err);
}

/* ---- copies ---- */

static bool can_copy_to(const struct coto_plan *plan, const char *target)
{
    if (coto_plan_is_below(target, plan->workdir))
        return true;
    /* A level without a /tmp of its own would write to the host's. */
    if (plan->isolation != COTO_ISOLATION_SUBPROCESS && coto_plan_is_below(target, "/tmp"))
        return true;
    for (size_t i = 0; i < plan->tmpfs_count; i++)
        if (coto_plan_is_below(target, plan->tmpfs[i].target))
            return true;
    return false;
}

/* The target of a copy: "" is the source's own name in the workspace, and a
 * file copied to "DIR/" keeps its name there. */
static int copy_target(const struct coto_plan *plan, const char *text,
                       struct coto_plan_path *path, struct coto_err *err)
{
    const char *name = strrchr(path->source, '/') + 1;
    coto_auto_buf target = {0};
    size_t len = strlen(text);

    coto_buf_adds(&target, text);
    if (len == 0 || (S_ISREG(path->mode) && text[len - 1] == '/'))
        coto_buf_adds(&target, name);
    if (target.failed)
        return coto_plan_no_memory(err);
    if (coto_plan_normalise("--copy", coto_buf_str(&target), plan->workdir, &path->target, err))
        return -1;
    if (S_ISREG(path->mode) && strcmp(path->target, plan->workdir) == 0) {
        coto_err_set(err, COTO_ERR_POLICY, 0, "--copy: a file cannot take the workspace's place");
        return coto_err_remedy(err, "write --copy '%s:%s'", path->source, name);
    }
    if (can_copy_to(plan, path->target))
        return 0;
    coto_err_set(err, COTO_ERR_POLICY, 0, "--copy: '%s' is not in the workspace '%s' or in /tmp",
                 path->target, plan->workdir);
    return coto_err_remedy(
        err, "copy it to one of these, or show it elsewhere with --mount '%s:/data'", path->source);
}

int coto_plan_add_copies(const struct coto_policy *policy, struct coto_plan *plan, struct coto_err *err)
{
    const struct coto_strv *list = coto_policy_list(policy, COTO_OPT_COPY);

    if (list->count == 0)
        return 0;
    plan->copies = calloc(list->count, sizeof *plan->copies);
    if (!plan->copies)
        return coto_plan_no_memory(err);
    for (size_t i = 0; i < list->count; i++) {
        coto_auto_buf source = {0};
        const char *item = list->items[i];
        const char *colon = strrchr(item, ':');
        coto_buf_add(&source, item, colon ? (size_t)(colon - item) : strlen(item));
        if (source.failed)
            return coto_plan_no_memory(err);
        if (source.len == 0 || (colon && !colon[1])) {
            coto_err_set(err, COTO_ERR_POLICY, 0, "--copy: '%s' is not SRC:DST", item);
            return coto_err_remedy(err, "write --copy SRC or --copy SRC:DST");
        }
        struct coto_plan_path *path = &plan->copies[i];
        if (open_copy(coto_buf_str(&source), path, err))
            return -1;
        plan->copy_count = i + 1;
        if (copy_target(plan, colon ? colon + 1 : "", path, err))
            return -1;
    }
    return 0;
}

/* ---- mounts ---- */

static int bad_mount(const char *item, struct coto_err *err)
{
    coto_err_set(err, COTO_ERR_POLICY, 0, "--mount: '%s' is not SRC:DST[:ro|rw]", item);
    return coto_err_remedy(err, "write --mount /host/dir:/inside, with :rw to make it writable");
}

static int add_mount(const char *item, struct coto_plan *plan, struct coto_err *err)
{
    coto_auto_path path = {.fd = -1};
    coto_auto_free char *spec = strdup(item);
    coto_auto_free char *target = NULL;
    bool writable = false;

    if (!spec)
        return coto_plan_no_memory(err);
    char *colon = strrchr(spec, ':');
    if (colon && (!strcmp(colon, ":ro") || !strcmp(colon, ":rw"))) {
        writable = colon[2] == 'w';
        *colon = '\0';
        colon = strrchr(spec, ':');
    }
    if (!colon || colon == spec || !colon[1])
        return bad_mount(item, err);
    *colon = '\0';
    if (coto_plan_normalise("--mount", colon + 1, NULL, &target, err) ||
        check_mount_point(plan, "--mount", target, err) ||
        coto_plan_open_mount(spec, writable, &path, err))
        return -1;
    path.target = coto_take_ptr(target);
    plan->mounts[plan->mount_count++] = path;
    path = (struct coto_plan_path){.fd = -1};
    return 0;
}

static int add_mounts(const struct coto_policy *policy, struct coto_plan *plan,
                      struct coto_err *err)
{
    const struct coto_strv *list = coto_policy_list(policy, COTO_OPT_MOUNT);

    if (list->count == 0)
        return 0;
    plan->mounts = calloc(list->count, sizeof *plan->mounts);
    if (!plan->mounts)
        return coto_plan_no_memory(err);
    for (size_t i = 0; i < list->count; i++)
        if (add_mount(list->items[i], plan, err))
            return -1;
    return 0;
}

/* ---- extra tmpfs ---- */

static int add_tmpfs(const char *item, struct coto_plan *plan, struct coto_err *err)
{
    struct coto_plan_tmpfs *made = &plan->tmpfs[plan->tmpfs_count];
    coto_auto_free char *spec = strdup(item);
    coto_auto_free char *target = NULL;
    int64_t size = plan->tmp_bytes;

    if (!spec)
        return coto_plan_no_memory(err);
    char *colon = strrchr(spec, ':');
    if (colon) {
        *colon = '\0';
        if (coto_units_parse_size(colon + 1, &size) || size == COTO_UNIT_NONE ||
            size < 4 * COTO_KB) {
            coto_err_set(err, COTO_ERR_POLICY, 0, "--tmpfs: '%s' is not a size of at least 4k",
                         colon + 1);
            return coto_err_remedy(err, "write --tmpfs PATH[:SIZE], as in /cache:16m");
        }
    }
    if (coto_plan_normalise("--tmpfs", spec, NULL, &target, err) ||
        check_mount_point(plan, "--tmpfs", target, err))
        return -1;
    if (strcmp(target, "/tmp") == 0) {
        coto_err_set(err, COTO_ERR_POLICY, 0, "--tmpfs: '/tmp' is there already");
        return coto_err_remedy(err, "its size is set with --tmp-size");
    }
    made->target = coto_take_ptr(target);
    made->size = size;
    plan->tmpfs_count++;
    return 0;
}

static int add_all_tmpfs(const struct coto_policy *policy, struct coto_plan *plan,
                         struct coto_err *err)
{
    const struct coto_strv *list = coto_policy_list(policy, COTO_OPT_TMPFS);

    if (list->count == 0)
        return 0;
    plan->tmpfs = calloc(list->count, sizeof *plan->tmpfs);
    if (!plan->tmpfs)
        return coto_plan_no_memory(err);
    for (size_t i = 0; i < list->count; i++)
        if (add_tmpfs(list->items[i], plan, err))
            return -1;
    return 0;
}

/* ---- rootfs ---- */

/* Our mounts go to these names below the rootfs; as links they, or a directory on the
 * way, would send us elsewhere (CVE-2026-41579, CVE-2026-47766, CVE-2026-87766). */
static int check_no_link(const struct coto_plan *plan, const char *target, struct coto_err *err)
{
    size_t len = 0;

    if (coto_plan_walk(plan->rootfs.fd, target + 1, &len) != COTO_WALK_LINK)
        return 0;
    coto_err_set(err, COTO_ERR_FORBIDDEN, 0,
                 "--rootfs: '%s' is refused: its '%.*s' is a symbolic link, which would lead a mount "
                 "astray",
                 plan->rootfs.source, (int)len, target + 1);
    return coto_err_remedy(err, "make '%.*s' a directory in the root file system", (int)len,
                           target + 1);
}

static int check_rootfs_links(const struct coto_plan *plan, struct coto_err *err)
{
    static const char *const fixed[] = {"/dev", "/proc", "/sys", "/tmp", "/etc"};

    for (size_t i = 0; i < sizeof fixed / sizeof fixed[0]; i++)
        if (check_no_link(plan, fixed[i], err))
            return -1;
    if (check_no_link(plan, plan->workdir, err))
        return -1;
    for (size_t i = 0; i < plan->mount_count; i++)
        if (check_no_link(plan, plan->mounts[i].target, err))
            return -1;
    for (size_t i = 0; i < plan->tmpfs_count; i++)
        if (check_no_link(plan, plan->tmpfs[i].target, err))
            return -1;
    return 0;
}

static int check_rootfs(const struct coto_plan *plan, const char *source, struct coto_err *err)
{
    struct stat host;

    if (stat("/", &host) == 0 && host.st_dev == plan->rootfs.dev &&
        host.st_ino == plan->rootfs.ino) {
        coto_err_set(err, COTO_ERR_FORBIDDEN, 0, "--rootfs: '%s' is refused: it is the whole host",
                     source);
        return coto_err_remedy(err, "leave --rootfs out: the host's programs are there anyway");
    }
    struct coto_plan_shown shown = {
        .what = "--rootfs",
        .given = source,
        .path = plan->rootfs.source,
        .fd = plan->rootfs.fd,
        .is_rootfs = true,
    };
    if (coto_plan_check_forbidden(&shown, err) || coto_plan_check_below(&shown, err))
        return -1;
    return check_rootfs_links(plan, err);
}

static int add_image(const struct coto_policy *policy, struct coto_plan *plan,
                     struct coto_err *err)
{
    coto_auto_fd fd = coto_plan_open_image(policy, plan, err);

    if (fd == -2)
        return 0;
    if (fd < 0 || take_path("--image", plan->image, &fd, &plan->rootfs, err))
        return -1;
    return check_rootfs_links(plan, err);
}

int coto_plan_use_image(struct coto_plan *plan, const struct coto_plan_image *image,
                        struct coto_err *err)
{
    const struct {
        enum coto_opt opt;
        const char *text;
    } values[] = {{COTO_OPT_IMAGE, image->name},
                  {COTO_OPT_IMAGES_DIR, image->dir},
                  {COTO_OPT_IMAGE_KEY, image->key}};
    struct coto_policy policy;
    int failed = coto_policy_init(&policy, err);

    for (size_t i = 0; i < sizeof values / sizeof values[0] && !failed; i++)
        failed = *values[i].text && coto_policy_set(&policy, values[i].opt, values[i].text,
                                                    COTO_SOURCE_FLAG, "image", err);
    failed = failed || add_image(&policy, plan, err);
    coto_policy_fini(&policy);
    return failed ? -1 : 0;
}

static int add_rootfs(const struct coto_policy *policy, struct coto_plan *plan,
                      struct coto_err *err)
{
    const char *source = coto_policy_str(policy, COTO_OPT_ROOTFS);

    if (!*source)
        return add_image(policy, plan, err);
    coto_auto_fd fd = open(source, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return cannot_open("--rootfs", source, errno, err);
    if (take_path("--rootfs", source, &fd, &plan->rootfs, err))
        return -1;
    return check_rootfs(plan, source, err);
}

int coto_plan_add_paths(const struct coto_policy *policy, struct coto_plan *plan,
                        struct coto_err *err)
{
    bool has_view = coto_policy_list(policy, COTO_OPT_MOUNT)->count ||
                    *coto_policy_str(policy, COTO_OPT_ROOTFS);

    if (plan->isolation == COTO_ISOLATION_SUBPROCESS && has_view) {
        coto_err_set(err, COTO_ERR_UNAVAILABLE, 0,
                     "--mount, --rootfs: isolation subprocess has no file system of its own");
        return coto_err_remedy(err, "use --isolation process, or bring files in with --copy");
    }
    if (add_all_tmpfs(policy, plan, err) || add_mounts(policy, plan, err) ||
        add_rootfs(policy, plan, err) || coto_plan_nest_mounts(plan, err))
        return -1;
    return coto_plan_add_copies(policy, plan, err);
}
