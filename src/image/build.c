/* coto image build: a Debian root file system by debootstrap, then imported. Packages'
 * own scripts run as root in a chroot, as on any Debian machine: whoever builds trusts the mirror
 * whose signatures debootstrap checks. */
#include "image/image.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define TOOL "/usr/sbin/debootstrap"
#define MIRROR "http://deb.debian.org/debian"
#define TAIL 2000

static int check_word(const char *what, const char *word, const char *more, struct coto_err *err)
{
    for (const char *p = word; *p; p++) {
        bool is_plain = (*p >= 'a' && *p <= 'z') || (*p >= '0' && *p <= '9') || strchr(more, *p);
        if (!is_plain || (p == word && (*p == '-' || *p == '.'))) {
            coto_err_set(err, COTO_ERR_USAGE, 0, "%s: '%.80s' is no such name", what, word);
            return coto_err_remedy(
                err, "coto image build --debian bookworm --packages python3,gcc NAME");
        }
    }
    return 0;
}

static int check_recipe(const struct image_recipe *recipe, struct coto_err *err)
{
    if (geteuid() != 0) {
        coto_err_set(err, COTO_ERR_FORBIDDEN, 0, "build: debootstrap needs root");
        return coto_err_remedy(
            err, "sudo coto image build ..., or import an archive that was made elsewhere");
    }
    if (access(TOOL, X_OK)) {
        coto_err_set(err, COTO_ERR_TOOL, 0, "build: debootstrap is not installed");
        return coto_err_remedy(err, "apt-get install debootstrap");
    }
    if (check_word("--debian", recipe->suite, "-", err))
        return -1;
    for (size_t i = 0; i < recipe->packages->count; i++)
        if (check_word("--packages", recipe->packages->items[i], "-+.", err))
            return -1;
    if (recipe->mirror && strncmp(recipe->mirror, "http", 4) != 0 &&
        strncmp(recipe->mirror, "file:/", 6) != 0)
        return coto_err_set(err, COTO_ERR_USAGE, 0,
                            "--mirror '%.200s': not an http:, https: or file: address",
                            recipe->mirror);
    return 0;
}

static _Noreturn void exec_tool(const struct image_recipe *recipe, const char *include,
                                const char *root, int out)
{
    const char *proxy = getenv("http_proxy");
    char proxy_text[1024] = "PATH=/usr/sbin:/usr/bin:/sbin:/bin";
    char *envp[] = {"PATH=/usr/sbin:/usr/bin:/sbin:/bin",
                    "LC_ALL=C",
                    "DEBIAN_FRONTEND=noninteractive",
                    "HOME=/root",
                    proxy_text,
                    NULL};
    char *argv[] = {"debootstrap",
                    "--variant=minbase",
                    (char *)include,
                    (char *)recipe->suite,
                    (char *)root,
                    (char *)(recipe->mirror ? recipe->mirror : MIRROR),
                    NULL};

    if (proxy)
        snprintf(proxy_text, sizeof proxy_text, "http_proxy=%s", proxy);
    if (dup2(out, 1) < 0 || dup2(out, 2) < 0)
        _exit(126);
    prctl(PR_SET_PDEATHSIG, SIGTERM, 0, 0, 0);
    execve(TOOL, argv, envp);
    _exit(127);
}

/* One line that is written over, on a terminal only. */
static void show_progress(const char *line, size_t len)
{
    char text[80];

    if (!isatty(2) || len < 3 || line[1] != ':')
        return;
    for (size_t i = 3; i < len && i - 3 < sizeof text - 1; i++)
        text[i - 3] = line[i] >= ' ' && line[i] < 0x7f ? line[i] : '?';
    text[len - 3 < sizeof text - 1 ? len - 3 : sizeof text - 1] = '\0';
    dprintf(2, "\r\x1b[K%s", text);
}

/* Reads what it says up to its end; the last lines stay in `tail`. */
static void follow(int from, struct coto_buf *tail)
{
    char piece[4096];
    size_t begin = 0;
    ssize_t n;

    while ((n = read(from, piece, sizeof piece)) > 0 || (n < 0 && errno == EINTR)) {
        if (n < 0)
            continue;
        coto_buf_add(tail, piece, (size_t)n);
        for (char *end;
             !tail->failed && (end = memchr(tail->data + begin, '\n', tail->len - begin));) {
            show_progress(tail->data + begin, (size_t)(end - (tail->data + begin)));
            begin = (size_t)(end - tail->data) + 1;
        }
        if (tail->len > 2 * TAIL && !tail->failed) {
            size_t cut = tail->len - TAIL;
            memmove(tail->data, tail->data + cut, TAIL + 1);
            tail->len = TAIL;
            begin = begin > cut ? begin - cut : 0;
        }
    }
    if (isatty(2))
        dprintf(2, "\r\x1b[K");
}

/* The last line that says what went wrong. */
static void add_reason(const struct coto_buf *tail, struct coto_buf *out)
{
    const char *text = coto_buf_str(tail);
    const char *last = strstr(text, "E: ");

    for (const char *p = text; (p = strstr(p, "\nE: ")); p++)
        last = p + 1;
    if (!last && tail->len > 200)
        last = text + tail->len - 200;
    else if (!last)
        last = text;
    coto_buf_add(out, last, strcspn(last, "\n"));
}

static int run_tool(const struct image_recipe *recipe, const char *include, const char *root,
                    struct coto_err *err)
{
    coto_auto_buf tail = {0};
    coto_auto_buf reason = {0};
    int ends[2], status = 0;

    if (pipe2(ends, O_CLOEXEC))
        return coto_err_set(err, COTO_ERR_SYSTEM, errno, "pipe");
    pid_t pid = fork();
    if (pid == 0)
        exec_tool(recipe, include, root, ends[1]);
    close(ends[1]);
    if (pid > 0)
        follow(ends[0], &tail);
    close(ends[0]);
    if (pid < 0 || waitpid(pid, &status, 0) < 0)
        return coto_err_set(err, COTO_ERR_SYSTEM, errno, "debootstrap");
    if (status == 0)
        return 0;
    add_reason(&tail, &reason);
    coto_err_set(err, COTO_ERR_INPUT, 0, "build: debootstrap: %.300s", coto_buf_str(&reason));
    return coto_err_remedy(
        err, "check the names of suite and packages, and that the mirror answers: --mirror URL");
}

/* What a mirror left behind is no part of the image: it would differ each day. */
static int clean(const char *root, struct coto_err *err)
{
    static const char *const parts[] = {"var/cache/apt",      "var/lib/apt/lists", "var/log",
                                        "var/cache/ldconfig", "debootstrap",       "etc/machine-id",
                                        "etc/resolv.conf",    "etc/hostname"};
    coto_auto_fd fd = open(root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    if (fd < 0)
        return coto_err_set(err, COTO_ERR_SYSTEM, errno, "build: '%s'", root);
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        coto_auto_free char *copy = strdup(parts[i]);
        char *slash = copy ? strrchr(copy, '/') : NULL;
        if (slash)
            *slash = '\0';
        coto_auto_fd at =
            copy ? coto_path_open_beneath(fd, slash ? copy : ".", O_RDONLY | O_DIRECTORY, 0) : -1;
        if (at >= 0)
            coto_path_remove_tree(at, slash ? slash + 1 : parts[i]);
    }
    return 0;
}

static json_t *recipe_json(const struct image_recipe *recipe)
{
    json_t *packages = json_array();

    for (size_t i = 0; packages && i < recipe->packages->count; i++)
        json_array_append_new(packages, json_string(recipe->packages->items[i]));
    return json_pack("{s:s, s:s, s:o}", "debian", recipe->suite, "mirror",
                     recipe->mirror ? recipe->mirror : MIRROR, "packages", packages);
}

static int build_in(const char *room, const struct image_order *order,
                    const struct image_recipe *recipe, struct coto_buf *ret_told,
                    struct coto_err *err)
{
    coto_auto_buf root = {0};
    coto_auto_buf include = {0};
    json_auto_t *made = recipe_json(recipe);

    coto_buf_addf(&root, "%s/root", room);
    coto_buf_adds(&include, "--include=");
    for (size_t i = 0; i < recipe->packages->count; i++)
        coto_buf_addf(&include, "%s%s", i ? "," : "", recipe->packages->items[i]);
    if (recipe->packages->count == 0)
        coto_buf_adds(&include, "base-files");
    if (root.failed || include.failed || !made)
        return coto_err_set(err, COTO_ERR_LIMIT, ENOMEM, "build");
    if (run_tool(recipe, coto_buf_str(&include), coto_buf_str(&root), err) ||
        clean(coto_buf_str(&root), err))
        return -1;
    struct image_order import = *order;
    import.source = coto_buf_str(&root);
    import.recipe = made;
    return image_import(&import, ret_told, err);
}

/* image_import gives up what removing the chroot needs, so it happens in a child. */
static int build_child(const char *room, const struct image_order *order,
                       const struct image_recipe *recipe, struct coto_buf *ret_told,
                       struct coto_err *err)
{
    int ends[2], status = 0;

    if (pipe2(ends, O_CLOEXEC))
        return coto_err_set(err, COTO_ERR_SYSTEM, errno, "pipe");
    pid_t pid = fork();
    if (pid == 0) {
        coto_auto_buf told = {0};
        struct coto_err why = {0};
        int failed = build_in(room, order, recipe, &told, &why);
        (void)!write(ends[1], &why, sizeof why);
        if (!failed)
            (void)coto_fd_write_all(ends[1], coto_buf_str(&told), told.len);
        _exit(0);
    }
    close(ends[1]);
    if (pid < 0 || coto_fd_read_exact(ends[0], err, sizeof *err) ||
        coto_fd_read_all(ends[0], 65536, ret_told))
        coto_err_set(err, COTO_ERR_SYSTEM, errno, "build: it ended early");
    close(ends[0]);
    if (pid > 0)
        waitpid(pid, &status, 0);
    return err->kind ? -1 : 0;
}

int image_build_debian(const struct image_order *order, const struct image_recipe *recipe,
                       struct coto_buf *ret_told, struct coto_err *err)
{
    struct coto_image_ref ref;
    image_auto_store store = {.fd = -1};
    struct image_draft draft;
    coto_auto_buf room = {0};

    if (coto_image_ref_parse(order->name, &ref, err) || check_recipe(recipe, err) ||
        image_store_open(order->dir, &store, err) || image_draft_begin(&store, &draft, err))
        return -1;
    /* a draft of its own is the place to build in: swept when we are killed */
    coto_buf_addf(&room, "%s/tmp/%s", store.path, draft.name);
    int failed = build_child(coto_buf_str(&room), order, recipe, ret_told, err);
    image_draft_drop(&store, &draft);
    return failed;
}
