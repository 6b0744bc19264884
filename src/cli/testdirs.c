#include "cli/testdirs.h"

#include "base/fd.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <glob.h>
#include <string.h>
#include <sys/stat.h>

#define DEPTH_MAX 32
#define ENTRIES_MAX 100000
#define FILE_MAX_READ ((size_t)4 * 1024 * 1024)

static int open_dir(const char *what, const char *path, char **ret_path, int *ret_fd,
                    struct coto_err *err)
{
    char *real = realpath(path, NULL);
    coto_auto_fd fd = real ? open(real, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;

    if (fd < 0) {
        coto_err_set(err, COTO_ERR_INPUT, errno, "%s: '%s'", what, path);
        free(real);
        return coto_err_remedy(err, "give folders: coto test SUBMISSION_DIR [TESTS_DIR]");
    }
    *ret_path = real;
    *ret_fd = coto_take_fd(&fd);
    return 0;
}

int coto_testdirs_open(const char *submission, const char *tests, struct coto_testdirs *ret_dirs,
                       struct coto_err *err)
{
    struct coto_testdirs dirs = {.submission_fd = -1, .tests_fd = -1};

    if (open_dir("submission", submission, &dirs.submission, &dirs.submission_fd, err) ||
        (tests && open_dir("tests", tests, &dirs.tests, &dirs.tests_fd, err))) {
        coto_testdirs_close(&dirs);
        return -1;
    }
    *ret_dirs = dirs;
    return 0;
}

void coto_testdirs_close(struct coto_testdirs *dirs)
{
    if (dirs->submission)
        coto_own_close(&dirs->submission_fd);
    if (dirs->tests)
        coto_own_close(&dirs->tests_fd);
    free(dirs->submission);
    free(dirs->tests);
    *dirs = (struct coto_testdirs){.submission_fd = -1, .tests_fd = -1};
}

/* ---- walking ---- */

struct walk {
    /* Returns non-zero to stop. path is relative to where the walk began. */
    int (*visit)(struct walk *walk, int dirfd, const char *path, const struct stat *st);
    void *arg;
    struct coto_err *err;
    size_t entries;
};

static int walk_dir(struct walk *walk, int dirfd, const char *prefix, int depth)
{
    coto_auto_fd copy = openat(dirfd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = copy < 0 || depth > DEPTH_MAX ? NULL : fdopendir(copy);
    struct dirent *entry;
    int stop = 0;

    if (!dir)
        return 0;
    coto_take_fd(&copy);
    while (!stop && walk->entries++ < ENTRIES_MAX && (entry = readdir(dir))) {
        coto_auto_buf path = {0};
        struct stat st;
        if (!strcmp(entry->d_name, ".") || !strcmp(entry->d_name, "..") ||
            fstatat(dirfd, entry->d_name, &st, AT_SYMLINK_NOFOLLOW))
            continue;
        coto_buf_addf(&path, "%s%s%s", prefix, *prefix ? "/" : "", entry->d_name);
        stop = walk->visit(walk, dirfd, coto_buf_str(&path), &st);
        if (stop || !S_ISDIR(st.st_mode))
            continue;
        coto_auto_fd sub = coto_path_open_beneath(dirfd, entry->d_name, O_RDONLY | O_DIRECTORY, 0);
        if (sub >= 0)
            stop = walk_dir(walk, sub, coto_buf_str(&path), depth + 1);
    }
    closedir(dir);
    return stop;
}

/* ---- do the tests fit over the submission? ---- */

static const char *word_of(mode_t mode)
{
    return S_ISREG(mode)   ? "a file"
           : S_ISDIR(mode) ? "a directory"
           : S_ISLNK(mode) ? "a symbolic link"
                           : "a special file";
}

/* A directory with any kind of __init__ goes before a module's file. */
static bool is_package(int dirfd, const char *name)
{
    coto_auto_fd fd = coto_path_open_beneath(dirfd, name, O_RDONLY | O_DIRECTORY, 0);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    const struct dirent *entry;
    bool found = false;

    if (!dir)
        return false;
    coto_take_fd(&fd);
    while (!found && (entry = readdir(dir)))
        found = strncmp(entry->d_name, "__init__.", 9) == 0;
    closedir(dir);
    return found;
}

/* Whether make or Python takes `name` where they are asked for `test`, a file beside it. */
static bool stands_in(int dirfd, const char *test, const char *name)
{
    size_t stem = strlen(test) > 3 ? strlen(test) - 3 : 0;
    struct stat st;

    if (!strcmp(test, "Makefile") || !strcmp(test, "makefile"))
        return !strcmp(name, "GNUmakefile") ||
               (*test == 'M' && !strcmp(name, "makefile"));
    if (stem == 0 || strcmp(test + stem, ".py") != 0 || strncmp(name, test, stem) != 0)
        return false;
    size_t n = strlen(name);
    if (name[stem] == '.')
        return n >= stem + 3 && !strcmp(name + n - 3, ".so");
    if (name[stem] || fstatat(dirfd, name, &st, AT_SYMLINK_NOFOLLOW))
        return false;
    return S_ISLNK(st.st_mode) || is_package(dirfd, name);
}

/* A file of another name can take a test's place too, unless the tests bring that one as well. */
static int find_stand_in(struct walk *walk, int tests_fd, const char *path)
{
    const struct coto_testdirs *dirs = walk->arg;
    const char *slash = strrchr(path, '/');
    coto_auto_free char *parent = slash ? strndup(path, (size_t)(slash - path)) : NULL;
    coto_auto_fd fd = coto_path_open_beneath(dirs->submission_fd, parent ? parent : ".",
                                             O_RDONLY | O_DIRECTORY, 0);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    const char *test = slash ? slash + 1 : path;
    struct dirent *entry;
    int found = 0;

    if (!dir)
        return 0;
    coto_take_fd(&fd);
    while (!found && (entry = readdir(dir))) {
        if (!stands_in(dirfd(dir), test, entry->d_name) ||
            !faccessat(tests_fd, entry->d_name, F_OK, AT_SYMLINK_NOFOLLOW))
            continue;
        coto_err_set(walk->err, COTO_ERR_INPUT, 0,
                     "submission: its '%s' would be read in place of the tests' '%s'",
                     entry->d_name, path);
        found = coto_err_remedy(walk->err, "take it out of the submission: tests are laid over it");
    }
    closedir(dir);
    return found;
}

/* A module of the submission's around a test in a folder: go would leave that folder out. */
static int find_module(struct walk *walk, const char *path)
{
    const struct coto_testdirs *dirs = walk->arg;
    coto_auto_buf name = {0};

    if (fnmatch("*_test.go", path, 0) != 0)
        return 0;
    for (const char *slash = strchr(path, '/'); slash; slash = strchr(slash + 1, '/')) {
        coto_buf_clear(&name);
        coto_buf_addf(&name, "%.*s/go.mod", (int)(slash - path), path);
        if (faccessat(dirs->submission_fd, coto_buf_str(&name), F_OK, AT_SYMLINK_NOFOLLOW) ||
            !faccessat(dirs->tests_fd, coto_buf_str(&name), F_OK, AT_SYMLINK_NOFOLLOW))
            continue;
        coto_err_set(walk->err, COTO_ERR_INPUT, 0,
                     "submission: with its '%s' the tests' '%s' would not be run",
                     coto_buf_str(&name), path);
        return coto_err_remedy(walk->err, "take it out of the submission: tests are laid over it");
    }
    return 0;
}

static int visit_fit(struct walk *walk, int dirfd, const char *path, const struct stat *st)
{
    const struct coto_testdirs *dirs = walk->arg;
    struct stat other;

    if (S_ISREG(st->st_mode) && (find_stand_in(walk, dirfd, path) || find_module(walk, path)))
        return -1;
    /* Parents came first and are directories on both sides, so this name is
     * looked up where the tests will be written. */
    if (fstatat(dirs->submission_fd, path, &other, AT_SYMLINK_NOFOLLOW))
        return 0;
    bool fits = (S_ISREG(st->st_mode) || S_ISDIR(st->st_mode)) &&
                (st->st_mode & S_IFMT) == (other.st_mode & S_IFMT);
    if (fits)
        return 0;
    coto_err_set(walk->err, COTO_ERR_INPUT, 0,
                 "submission: its '%s' is %s, where the tests have %s", path,
                 word_of(other.st_mode), word_of(st->st_mode));
    return coto_err_remedy(walk->err, "take it out of the submission: tests are laid over it");
}

int coto_testdirs_check(const struct coto_testdirs *dirs, struct coto_err *err)
{
    struct walk walk = {.visit = visit_fit, .arg = (void *)(uintptr_t)dirs, .err = err};

    return dirs->tests ? walk_dir(&walk, dirs->tests_fd, "", 0) : 0;
}

/* ---- which runner? ---- */

static bool read_file(int dirfd, const char *path, struct coto_buf *ret_text)
{
    coto_auto_fd fd = coto_path_open_beneath(dirfd, path, O_RDONLY | O_NONBLOCK | O_NOFOLLOW, 0);
    struct stat st;

    return fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode) &&
           coto_fd_read_all(fd, FILE_MAX_READ, ret_text) == 0;
}

/* Whether a makefile has a rule "target:" (and not "target :="). */
static bool has_target(const char *text, const char *target)
{
    size_t len = strlen(target);

    for (const char *line = text; line; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (strncmp(line, target, len) != 0)
            continue;
        const char *p = line + len + strspn(line + len, " \t");
        if (*p == ':' && p[1] != '=')
            return true;
    }
    return false;
}

static bool matches(const char *patterns, const char *name)
{
    char pattern[64];

    for (const char *p = patterns; *p;) {
        p += strspn(p, " ");
        size_t n = strcspn(p, " ");
        if (n == 0 || n >= sizeof pattern)
            break;
        memcpy(pattern, p, n);
        pattern[n] = '\0';
        if (fnmatch(pattern, name, 0) == 0)
            return true;
        p += n;
    }
    return false;
}

static int visit_runner(struct walk *walk, int dirfd, const char *path, const struct stat *st)
{
    const struct coto_runner *runner = walk->arg;
    const char *slash = strrchr(path, '/');
    const char *name = slash ? slash + 1 : path;
    coto_auto_buf text = {0};

    if (!S_ISREG(st->st_mode) || strstr(path, "node_modules/") || !matches(runner->files, name))
        return 0;
    if (!runner->target)
        return 1;
    /* make and its like are run at the top. */
    return !slash && read_file(dirfd, name, &text) &&
           has_target(coto_buf_str(&text), runner->target);
}

static bool module_exists(const char *globs, const char *rootfs)
{
    for (const char *p = globs; *p;) {
        coto_auto_buf pattern = {0};
        glob_t found = {0};
        p += strspn(p, " ");
        size_t n = strcspn(p, " ");
        coto_buf_adds(&pattern, rootfs);
        coto_buf_add(&pattern, p, n);
        bool exists = glob(coto_buf_str(&pattern), GLOB_NOSORT, NULL, &found) == 0;
        globfree(&found);
        if (exists)
            return true;
        p += n;
    }
    return false;
}

static bool fits(int dirfd, const char *rootfs, const struct coto_runner *runner)
{
    struct walk walk = {.visit = visit_runner, .arg = (void *)(uintptr_t)runner};

    return (!runner->module || module_exists(runner->module, rootfs)) &&
           walk_dir(&walk, dirfd, "", 0);
}

int coto_testdirs_detect(const struct coto_testdirs *dirs, const char *rootfs,
                         const struct coto_runner **ret_runner, struct coto_err *err)
{
    const int folders[] = {dirs->tests ? dirs->tests_fd : -1, dirs->submission_fd};
    coto_auto_buf names = {0};

    for (size_t f = 0; f < 2; f++)
        for (size_t i = 0; i < coto_runner_count && folders[f] >= 0; i++)
            if (fits(folders[f], rootfs, &coto_runners[i])) {
                *ret_runner = &coto_runners[i];
                return 0;
            }
    for (size_t i = 0; i < coto_runner_count; i++)
        coto_buf_addf(&names, "%s%s", i ? ", " : "", coto_runners[i].name);
    coto_err_set(err, COTO_ERR_INPUT, 0, "test: no tests that a known runner would find%s%s",
                 dirs->tests ? " in '" : "", dirs->tests ? dirs->tests : "");
    if (dirs->tests)
        strncat(err->text, "'", sizeof err->text - strlen(err->text) - 1);
    return coto_err_remedy(err, "name the runner: --runner %s", coto_buf_str(&names));
}

bool coto_testdirs_file_holds(const struct coto_testdirs *dirs, const char *path, const char *text)
{
    coto_auto_buf data = {0};

    if (!(dirs->tests && read_file(dirs->tests_fd, path, &data)) &&
        !read_file(dirs->submission_fd, path, &data))
        return false;
    return data.len > 0 && memmem(data.data, data.len, text, strlen(text));
}
