/* coto image: verbs and their flags. */
#include "image/image.h"

#include "auth/tool.h"
#include "base/json.h"
#include "base/units.h"
#include "policy/policy.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static struct {
    const char *dir, *select, *max_size, *max_files, *key, *signature, *output, *format, *debian,
        *mirror;
    struct coto_strv packages;
    bool json, quick, force, listing;
} opt;

static const struct coto_tool_flag flags[] = {
    {"images-dir", "DIR",
     "where images are [$COTO_IMAGES_DIR, else " COTO_IMAGE_SYSTEM_STORE
     " for root, $XDG_DATA_HOME/coto/images for others]",
     &opt.dir, NULL, NULL},
    {"select", "NAME", "which image of an archive that holds several", &opt.select, NULL, NULL},
    {"max-size", "SIZE", "largest sum of file sizes [16g]", &opt.max_size, NULL, NULL},
    {"max-files", "N", "most entries [1000000]", &opt.max_files, NULL, NULL},
    {"debian", "SUITE", "build Debian's SUITE, for example bookworm", &opt.debian, NULL, NULL},
    {"packages", "NAME,...", "packages to build in", NULL, &opt.packages, NULL},
    {"mirror", "URL", "where packages come from [http://deb.debian.org/debian]", &opt.mirror, NULL,
     NULL},
    {"key", "FILE", "verify: public key (minisign, PEM or OpenPGP); sign: private key (PEM)",
     &opt.key, NULL, NULL},
    {"signature", "FILE", "a signature of the listing that was made elsewhere", &opt.signature,
     NULL, NULL},
    {"output", "FILE", "write the signature there too", &opt.output, NULL, NULL},
    {"format", "FORMAT", "spdx or cyclonedx [spdx]", &opt.format, NULL, NULL},
    {"listing", NULL, "print the listing that the digest is of, and that is signed", NULL, NULL,
     &opt.listing},
    {"quick", NULL, "do not read files that nobody has touched since they were last read", NULL,
     NULL, &opt.quick},
    {"force", NULL, "remove it although a sandbox is using it", NULL, NULL, &opt.force},
    {"json", NULL, "print JSON", NULL, NULL, &opt.json},
    {0},
};

static const char *store_dir(void)
{
    const char *from_env = getenv("COTO_IMAGES_DIR");

    return opt.dir ? opt.dir : from_env && *from_env ? from_env : NULL;
}

static int open_image(const char *name, struct coto_image *image, struct coto_err *err)
{
    return coto_image_open(store_dir(), name, image, err);
}

/* ---- import and build ---- */

static int take_limits(struct image_limits *limits, struct coto_err *err)
{
    *limits = (struct image_limits){IMAGE_BYTES_MAX, IMAGE_FILES_MAX};
    if (opt.max_size &&
        (coto_units_parse_size(opt.max_size, &limits->bytes) || limits->bytes < 1)) {
        coto_err_set(err, COTO_ERR_USAGE, 0, "--max-size %.40s: not a size", opt.max_size);
        return coto_err_remedy(err, "--max-size 2g");
    }
    if (opt.max_files &&
        (coto_units_parse_int(opt.max_files, &limits->files) || limits->files < 1)) {
        coto_err_set(err, COTO_ERR_USAGE, 0, "--max-files %.40s: not a number", opt.max_files);
        return coto_err_remedy(err, "--max-files 100000");
    }
    return 0;
}

static int run_import(char **operands, struct coto_err *err)
{
    struct image_order order = {
        .dir = store_dir(), .source = operands[0], .name = operands[1], .select = opt.select};
    coto_auto_buf out = {0};

    if (take_limits(&order.limits, err) || image_import(&order, &out, err))
        return -1;
    return coto_tool_print(&out, err);
}

static int run_build(char **operands, struct coto_err *err)
{
    struct image_order order = {.dir = store_dir(), .source = "", .name = operands[0]};
    struct image_recipe recipe = {opt.debian, opt.mirror, &opt.packages};
    coto_auto_buf out = {0};

    if (!opt.debian) {
        coto_err_set(err, COTO_ERR_USAGE, 0, "build: from what?");
        return coto_err_remedy(err, "coto image build --debian bookworm --packages python3 %.80s",
                               operands[0]);
    }
    if (take_limits(&order.limits, err) || image_build_debian(&order, &recipe, &out, err))
        return -1;
    return coto_tool_print(&out, err);
}

/* ---- list ---- */

struct row {
    char name[COTO_IMAGE_NAME_MAX + 1];
    char digest[COTO_SHA256_HEX];
    json_t *meta;
    struct coto_buf signatures;
};

static void list_row(const struct row *row, const char *store, struct coto_buf *out,
                     struct coto_json *json)
{
    int64_t bytes = json_integer_value(json_object_get(row->meta, "bytes"));
    int64_t created = json_integer_value(json_object_get(row->meta, "created"));
    const char *system = image_meta_str(row->meta, "system");

    if (!opt.json) {
        coto_buf_addf(out, "%-32s %.12s %9.1f MB  ", row->name, row->digest, (double)bytes / 1e6);
        coto_tool_add_time(out, created);
        coto_buf_addf(out, "  %-7s ", row->signatures.len ? "signed" : "-");
        coto_tool_add_visible(out, *system ? system : "-");
        coto_buf_addc(out, '\n');
        return;
    }
    coto_json_begin(json, NULL, '{');
    coto_json_str(json, "name", row->name);
    coto_json_str(json, "digest", row->digest);
    coto_json_str(json, "store", store);
    coto_json_int(json, "bytes", bytes);
    coto_json_int(json, "files", json_integer_value(json_object_get(row->meta, "files")));
    coto_json_int(json, "packages", json_integer_value(json_object_get(row->meta, "packages")));
    coto_json_int(json, "created", created);
    coto_json_str(json, "kind", image_meta_str(row->meta, "kind"));
    coto_json_str(json, "system", *system ? system : NULL);
    coto_json_str(json, "signatures", coto_buf_str(&row->signatures));
    coto_json_end(json, '}');
}

/* An image that is being removed meanwhile is left out. */
static void list_image(const char *store, const char *name, const char *digest,
                       struct coto_buf *out, struct coto_json *json)
{
    struct row row = {0};
    coto_auto_image image = {.fd = -1};
    struct coto_err ignored = {0};
    char ref[COTO_SHA256_HEX + 8];

    snprintf(row.name, sizeof row.name, "%s", name);
    snprintf(row.digest, sizeof row.digest, "%s", digest);
    snprintf(ref, sizeof ref, "sha256:%s", digest);
    if (coto_image_open(store, ref, &image, &ignored) == 0 &&
        (row.meta = image_meta_load(image.fd, &ignored))) {
        image_sign_count(image.fd, &row.signatures);
        list_row(&row, store, out, json);
    }
    json_decref(row.meta);
    coto_buf_fini(&row.signatures);
}

static int list_store(const char *store, struct coto_buf *out, struct coto_json *json,
                      struct coto_err *err)
{
    coto_auto_strv pairs = {0};
    coto_auto_fd fd = coto_image_store_open(store, err);

    if (fd < 0 && (err->sys_errno == ENOENT || err->sys_errno == EACCES)) {
        *err = (struct coto_err){0};
        return 0;
    }
    if (fd < 0 || image_store_names(fd, &pairs, err))
        return -1;
    for (size_t i = 0; i < pairs.count; i += 2)
        list_image(store, pairs.items[i], pairs.items[i + 1], out, json);
    return 0;
}

static int run_list(char **operands, struct coto_err *err)
{
    coto_auto_strv stores = {0};
    coto_auto_buf out = {0};
    coto_auto_buf rows = {0};
    struct coto_json json = {.out = &rows, .pretty = true};

    (void)operands;
    if (coto_image_stores(store_dir(), &stores, err))
        return -1;
    if (opt.json)
        coto_json_begin(&json, NULL, '[');
    for (size_t i = 0; i < stores.count; i++)
        if (list_store(stores.items[i], &rows, &json, err))
            return -1;
    if (opt.json)
        coto_json_end(&json, ']');
    if (!opt.json && rows.len)
        coto_buf_addf(&out, "%-32s %-12s %12s  %-23s  %-7s %s\n", "NAME", "DIGEST", "SIZE",
                      "IMPORTED", "SIGNED", "SYSTEM");
    else if (!opt.json)
        coto_buf_adds(&out, "There is none yet: coto image import SOURCE NAME, or coto image build "
                            "--debian bookworm NAME\n");
    coto_buf_add(&out, coto_buf_str(&rows), rows.len);
    return coto_tool_print(&out, err);
}

/* ---- show ---- */

static void add_value(struct coto_buf *out, const char *label, const char *value)
{
    coto_buf_addf(out, "  %-12s ", label);
    coto_tool_add_visible(out, value);
    coto_buf_addc(out, '\n');
}

static void add_number(struct coto_buf *out, const char *label, const json_t *meta, const char *key)
{
    coto_buf_addf(out, "  %-12s %lld\n", label,
                  (long long)json_integer_value(json_object_get(meta, key)));
}

static void show_text(const struct coto_image *image, const json_t *meta, const char *signatures,
                      struct coto_buf *out)
{
    char *config = json_dumps(json_object_get(meta, "config"), JSON_COMPACT);
    char *recipe = json_dumps(json_object_get(meta, "recipe"), JSON_COMPACT);

    coto_buf_addf(out, "%s\n", *image->name ? image->name : "image");
    coto_buf_addf(out, "  %-12s sha256:%s\n", "digest", image->digest);
    add_value(out, "system",
              *image_meta_str(meta, "system") ? image_meta_str(meta, "system") : "not told");
    add_value(out, "from", image_meta_str(meta, "kind"));
    add_number(out, "layers", meta, "layers");
    add_number(out, "files", meta, "files");
    add_number(out, "bytes", meta, "bytes");
    add_number(out, "packages", meta, "packages");
    add_number(out, "left out", meta, "skipped");
    add_number(out, "set-id", meta, "set_id_dropped");
    coto_buf_addf(out, "  %-12s ", "imported");
    coto_tool_add_time(out, json_integer_value(json_object_get(meta, "created")));
    coto_buf_addc(out, '\n');
    add_value(out, "signatures", *signatures ? signatures : "none");
    if (config)
        add_value(out, "config", config);
    if (recipe)
        add_value(out, "recipe", recipe);
    add_value(out, "directory", image->path);
    free(config);
    free(recipe);
}

/* The very bytes that are signed; names in it are a stranger's, and a terminal gets them escaped. */
static int show_listing(const struct coto_image *image, struct coto_err *err)
{
    coto_auto_buf listing = {0};
    coto_auto_buf out = {0};

    if (image_read_listing(image, &listing, err))
        return -1;
    if (!isatty(1))
        return coto_tool_print(&listing, err);
    for (char *line, *rest = listing.data; (line = strsep(&rest, "\n")) && rest;) {
        coto_tool_add_visible(&out, line);
        coto_buf_addc(&out, '\n');
    }
    return coto_tool_print(&out, err);
}

static int show_json(const struct coto_image *image, json_t *meta, const char *signatures,
                     struct coto_err *err)
{
    coto_auto_buf out = {0};

    json_object_set_new(meta, "name", *image->name ? json_string(image->name) : json_null());
    json_object_set_new(meta, "signatures", json_string(signatures));
    json_object_set_new(meta, "directory", json_string(image->path));
    /* its configuration is a stranger's: no control character goes to a terminal */
    char *text = json_dumps(meta, JSON_INDENT(2) | JSON_SORT_KEYS | JSON_ENSURE_ASCII);
    coto_buf_addf(&out, "%s\n", text ? text : "{}");
    free(text);
    return coto_tool_print(&out, err);
}

static int run_show(char **operands, struct coto_err *err)
{
    coto_auto_image image = {.fd = -1};
    coto_auto_buf out = {0};
    coto_auto_buf signatures = {0};

    if (open_image(operands[0], &image, err))
        return -1;
    if (opt.listing)
        return show_listing(&image, err);
    json_auto_t *meta = image_meta_load(image.fd, err);
    if (!meta)
        return -1;
    image_sign_count(image.fd, &signatures);
    if (opt.json)
        return show_json(&image, meta, coto_buf_str(&signatures), err);
    show_text(&image, meta, coto_buf_str(&signatures), &out);
    return coto_tool_print(&out, err);
}

/* ---- verify and sign ---- */

static int run_verify(char **operands, struct coto_err *err)
{
    coto_auto_image image = {.fd = -1};
    coto_auto_buf out = {0};

    if (open_image(operands[0], &image, err) || image_check_tree(&image, opt.quick, err) ||
        (opt.key && image_sign_verify(&image, opt.key, err)))
        return -1;
    coto_buf_addf(&out, "%s is sha256:%s", *image.name ? image.name : "It", image.digest);
    if (opt.key)
        coto_buf_addf(&out, ", signed by %s", opt.key);
    coto_buf_addc(&out, '\n');
    return coto_tool_print(&out, err);
}

static int read_signature(const char *path, struct coto_buf *text, struct coto_err *err)
{
    coto_auto_fd fd = -1;

    if (coto_policy_open_input("signature", path, &fd, err))
        return coto_err_remedy(err, "give a file that you may read, or a pipe");
    if (coto_fd_read_all(fd, (size_t)1 << 20, text) == 0)
        return 0;
    return coto_err_set(err, COTO_ERR_INPUT, errno, "signature '%s'", path);
}

static int write_signature(const char *path, const struct coto_buf *text, struct coto_err *err)
{
    coto_auto_fd fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOCTTY, 0644);

    if (fd >= 0 && coto_fd_write_all(fd, coto_buf_str(text), text->len) == 0)
        return 0;
    return coto_err_set(err, COTO_ERR_OUTPUT, errno, "'%s'", path);
}

static int run_sign(char **operands, struct coto_err *err)
{
    coto_auto_image image = {.fd = -1};
    coto_auto_buf text = {0};
    coto_auto_buf out = {0};

    if (!opt.key == !opt.signature) {
        coto_err_set(err, COTO_ERR_USAGE, 0, "sign: with which key, or which signature?");
        return coto_err_remedy(
            err,
            "coto image sign NAME --key image.key; or sign what 'coto image show NAME --listing' "
            "prints with minisign or gpg, and give it as --signature FILE");
    }
    if (open_image(operands[0], &image, err) || image_check_tree(&image, false, err) ||
        (opt.key ? image_sign_make(&image, opt.key, &text, err)
                 : read_signature(opt.signature, &text, err)) ||
        image_sign_attach(&image, &text, err) ||
        (opt.output && write_signature(opt.output, &text, err)))
        return -1;
    coto_buf_addf(&out,
                  "%s carries the signature now; to check it: coto image verify %s --key PUBLIC\n",
                  operands[0], operands[0]);
    return coto_tool_print(&out, err);
}

/* ---- sbom and remove ---- */

static int run_sbom(char **operands, struct coto_err *err)
{
    coto_auto_image image = {.fd = -1};
    coto_auto_buf out = {0};

    if (open_image(operands[0], &image, err) ||
        image_sbom_write(&image, opt.format ? opt.format : "spdx", &out, err))
        return -1;
    return coto_tool_print(&out, err);
}

static int run_remove(char **operands, struct coto_err *err)
{
    struct coto_image_ref ref;
    image_auto_store store = {.fd = -1};
    coto_auto_buf out = {0};
    bool is_gone = false;

    if (coto_image_ref_parse(operands[0], &ref, err) ||
        image_store_open(store_dir(), &store, err) ||
        image_store_remove(&store, &ref, opt.force, &is_gone, err))
        return -1;
    coto_buf_addf(&out,
                  is_gone ? "%s is removed\n"
                          : "%s is removed; its files stay, for another name is theirs too\n",
                  operands[0]);
    return coto_tool_print(&out, err);
}

static const struct coto_tool_verb verbs[] = {
    {"import", "DIR|ARCHIVE|- NAME [--select NAME]", 2, 2, " images-dir select max-size max-files ",
     "take a root file system in", run_import},
    {"build", "--debian SUITE [--packages NAME,...] NAME", 1, 1,
     " images-dir debian packages mirror max-size max-files ",
     "make one from Debian packages (root)", run_build},
    {"list", "[--json]", 0, 0, " images-dir json ", "tell which there are", run_list},
    {"show", "NAME [--json|--listing]", 1, 1, " images-dir json listing ", "tell about one",
     run_show},
    {"verify", "NAME[@sha256:...] [--key FILE]", 1, 1, " images-dir key quick ",
     "check its files, and its signature", run_verify},
    {"sign", "NAME --key FILE|--signature FILE", 1, 1, " images-dir key signature output ",
     "sign it, or attach a signature", run_sign},
    {"sbom", "NAME [--format spdx|cyclonedx]", 1, 1, " images-dir format ",
     "print the bill of its packages", run_sbom},
    {"remove", "NAME [--force]", 1, 1, " images-dir force ",
     "take a name away, and the files with the last one", run_remove},
    {0},
};

int main(int argc, char **argv)
{
    static const struct coto_tool tool = {
        "image",
        "coto image keeps root file systems for sandboxes, by what is in them.",
        "Try: docker save python:3.11-slim | coto image import - python:3.11-slim\n"
        "     coto run --image python:3.11-slim hello.py\n"
        "     coto image build --debian bookworm --packages python3 sandbox",
        verbs,
        flags,
    };

    (void)argc;
    umask(022); /* the same image whoever imports it */
    int status = coto_tool_main(&tool, argv);
    coto_strv_fini(&opt.packages);
    return status;
}
