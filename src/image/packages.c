/* Packages that an image says it holds: Debian's dpkg, Alpine's apk, Python's dist-info. The
 * files are the image's: read with limits, links followed inside the tree only, never
 * believed beyond their text. */
#include "image/image.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#define DATABASE_MAX ((size_t)64 << 20)
#define TEXT_MAX ((int64_t)256 << 20) /* of all files together */
#define PACKAGES_MAX 100000

/* The text of a file of the tree; empty when it is not there. */
static int read_file(struct image_packages *list, int root, const char *path,
                     struct coto_buf *text, struct coto_err *err)
{
    coto_auto_fd fd = image_tree_open(root, path, O_RDONLY | O_NONBLOCK | O_NOCTTY);
    struct stat st;

    if (fd < 0 || fstat(fd, &st) || !S_ISREG(st.st_mode))
        return 0;
    if (coto_fd_read_all(fd, DATABASE_MAX, text) || text->failed)
        return coto_err_set(err, COTO_ERR_INPUT, errno, "image: '%s'", path);
    list->text_bytes += (int64_t)text->len;
    if (list->text_bytes > TEXT_MAX)
        return coto_err_set(err, COTO_ERR_INPUT, 0,
                            "image: what it tells of its packages is larger than 256 MB");
    for (size_t i = 0; i < text->len; i++)
        if (text->data[i] == '\0')
            text->data[i] = '?';
    return 0;
}

static void package_fini(struct image_package *p)
{
    free(p->kind);
    free(p->name);
    free(p->version);
    free(p->arch);
    free(p->source);
    free(p->license);
    free(p->supplier);
    free(p->author);
    *p = (struct image_package){0};
}

void image_packages_fini(struct image_packages *packages)
{
    for (size_t i = 0; i < packages->count; i++)
        package_fini(&packages->items[i]);
    free(packages->items);
    free(packages->distro);
    free(packages->distro_version);
    free(packages->pretty);
    *packages = (struct image_packages){0};
}

/* Takes the package when it has a name and a version. */
static int add(struct image_packages *list, const char *kind, struct image_package *p,
               struct coto_err *err)
{
    if (!p->name || !*p->name || !p->version || !*p->version) {
        package_fini(p);
        return 0;
    }
    if (list->count >= PACKAGES_MAX) { /* a bill that leaves some out is none */
        package_fini(p);
        return coto_err_set(err, COTO_ERR_INPUT, 0, "image: it tells of more than 100000 packages");
    }
    p->kind = strdup(kind);
    if ((list->count & (list->count - 1)) == 0) {
        size_t cap = list->count ? 2 * list->count : 1;
        struct image_package *grown = realloc(list->items, cap * sizeof *grown);
        if (!grown || !p->kind) {
            package_fini(p);
            return coto_err_set(err, COTO_ERR_LIMIT, ENOMEM, "packages");
        }
        list->items = grown;
    }
    list->items[list->count++] = *p;
    *p = (struct image_package){0};
    return 0;
}

/* ---- paragraphs of "Key: value" ---- */

struct field {
    const char *key;
    char **value;
};

/* A line's value for the first of the fields that it is. */
static void take_line(const char *line, size_t len, const struct field *fields)
{
    for (; fields->key; fields++) {
        size_t n = strlen(fields->key);
        if (len <= n || strncmp(line, fields->key, n) != 0 || *fields->value)
            continue;
        const char *p = line + n;
        while (p < line + len && *p == ' ')
            p++;
        *fields->value = strndup(p, (size_t)(line + len - p));
        return;
    }
}

/* Up to an empty line; what follows it. */
static const char *take_paragraph(const char *text, const struct field *fields)
{
    while (*text) {
        size_t n = strcspn(text, "\n");
        size_t bare = n > 0 && text[n - 1] == '\r' ? n - 1 : n;
        if (bare == 0)
            return text + n + (text[n] == '\n');
        take_line(text, bare, fields);
        text += n + (text[n] == '\n');
    }
    return text;
}

static int read_dpkg_text(struct image_packages *list, const char *text, bool needs_status,
                          struct coto_err *err)
{
    while (*text) {
        struct image_package p = {0};
        char *status = NULL;
        const struct field fields[] = {
            {"Package:", &p.name},
            {"Version:", &p.version},
            {"Architecture:", &p.arch},
            {"Source:", &p.source},
            {"Maintainer:", &p.supplier},
            {"Status:", &status},
            {0},
        };
        text = take_paragraph(text, fields);
        bool is_installed = !needs_status || (status && strstr(status, " installed"));
        free(status);
        if (!is_installed)
            package_fini(&p);
        if (add(list, "deb", &p, err))
            return -1;
    }
    return 0;
}

static int read_dpkg(struct image_packages *list, int root, struct coto_err *err)
{
    coto_auto_buf text = {0};

    if (read_file(list, root, "var/lib/dpkg/status", &text, err))
        return -1;
    if (text.len && read_dpkg_text(list, text.data, true, err))
        return -1;
    /* distroless images have one file per package instead */
    coto_auto_fd dir = image_tree_open(root, "var/lib/dpkg/status.d", O_RDONLY | O_DIRECTORY);
    coto_auto_strv names = {0};
    if (dir < 0 || image_dir_names(dir, &names))
        return 0;
    for (size_t i = 0; i < names.count; i++) {
        coto_auto_buf one = {0};
        if (read_file(list, dir, names.items[i], &one, err) ||
            (one.len && !strstr(names.items[i], ".md5sums") &&
             read_dpkg_text(list, one.data, false, err)))
            return -1;
    }
    return 0;
}

static int read_apk(struct image_packages *list, int root, struct coto_err *err)
{
    coto_auto_buf text = {0};

    if (read_file(list, root, "lib/apk/db/installed", &text, err))
        return -1;
    for (const char *p = coto_buf_str(&text); *p;) {
        struct image_package package = {0};
        const struct field fields[] = {
            {"P:", &package.name},
            {"V:", &package.version},
            {"A:", &package.arch},
            {"L:", &package.license},
            {"o:", &package.source},
            {"m:", &package.supplier},
            {0},
        };
        p = take_paragraph(p, fields);
        if (add(list, "apk", &package, err))
            return -1;
    }
    return 0;
}

/* ---- Python ---- */

static bool ends_with(const char *text, const char *end)
{
    size_t n = strlen(text), m = strlen(end);

    return n > m && strcmp(text + n - m, end) == 0;
}

static int read_dists(struct image_packages *list, int root, const char *place,
                      struct coto_err *err)
{
    coto_auto_fd dir = image_tree_open(root, place, O_RDONLY | O_DIRECTORY);
    coto_auto_strv names = {0};

    if (dir < 0 || image_dir_names(dir, &names))
        return 0;
    for (size_t i = 0; i < names.count; i++) {
        struct image_package p = {0};
        coto_auto_buf path = {0};
        coto_auto_buf text = {0};
        const struct field fields[] = {{"Name:", &p.name},
                                       {"Version:", &p.version},
                                       {"License:", &p.license},
                                       {"Author:", &p.author},
                                       {0}};
        const char *file = ends_with(names.items[i], ".dist-info") ? "METADATA" : "PKG-INFO";
        if (!ends_with(names.items[i], ".dist-info") && !ends_with(names.items[i], ".egg-info"))
            continue;
        coto_buf_addf(&path, "%s/%s/%s", place, names.items[i], file);
        if (read_file(list, root, coto_buf_str(&path), &text, err))
            return -1;
        take_paragraph(coto_buf_str(&text), fields);
        if (add(list, "pypi", &p, err))
            return -1;
    }
    return 0;
}

static int read_python(struct image_packages *list, int root, struct coto_err *err)
{
    static const char *const libs[] = {"usr/lib", "usr/local/lib", "opt/venv/lib"};

    for (size_t i = 0; i < sizeof libs / sizeof libs[0]; i++) {
        coto_auto_fd dir = image_tree_open(root, libs[i], O_RDONLY | O_DIRECTORY);
        coto_auto_strv names = {0};
        if (dir < 0 || image_dir_names(dir, &names))
            continue;
        for (size_t k = 0; k < names.count; k++) {
            char place[512];
            if (strncmp(names.items[k], "python3", 7) != 0)
                continue;
            snprintf(place, sizeof place, "%s/%.255s/dist-packages", libs[i], names.items[k]);
            if (read_dists(list, root, place, err))
                return -1;
            snprintf(place, sizeof place, "%s/%.255s/site-packages", libs[i], names.items[k]);
            if (read_dists(list, root, place, err))
                return -1;
        }
    }
    return 0;
}

/* ---- the system ---- */

/* KEY=value or KEY="value" of os-release. */
static char *release_value(const char *text, const char *key)
{
    size_t n = strlen(key);

    while (*text) {
        size_t len = strcspn(text, "\n");
        if (len > n + 1 && strncmp(text, key, n) == 0 && text[n] == '=') {
            const char *value = text + n + 1;
            size_t size = len - n - 1;
            if (size >= 2 && (*value == '"' || *value == '\'') && value[size - 1] == *value)
                return strndup(value + 1, size - 2);
            return strndup(value, size);
        }
        text += len + (text[len] == '\n');
    }
    return NULL;
}

int image_packages_read(int root, struct image_packages *ret_packages, struct coto_err *err)
{
    struct image_packages list = {0};
    coto_auto_buf release = {0};

    if (read_file(&list, root, "etc/os-release", &release, err) || read_dpkg(&list, root, err) ||
        read_apk(&list, root, err) || read_python(&list, root, err)) {
        image_packages_fini(&list);
        return -1;
    }
    list.distro = release_value(coto_buf_str(&release), "ID");
    list.distro_version = release_value(coto_buf_str(&release), "VERSION_ID");
    list.pretty = release_value(coto_buf_str(&release), "PRETTY_NAME");
    *ret_packages = list;
    return 0;
}
