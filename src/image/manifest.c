/* From an archive's documents to its layers. Two kinds: `docker save` has manifest.json, an
 * OCI layout index.json; newer engines write both, and then they say the same. */
#include "image/image.h"

#include <errno.h>
#include <string.h>
#include <sys/utsname.h>

#define LAYERS_MAX 512

static int refuse(struct coto_err *err, const char *why)
{
    coto_err_set(err, COTO_ERR_INPUT, 0, "archive: %s", why);
    return coto_err_remedy(err,
                           "save it again with 'docker save', 'skopeo copy' or 'buildah push'");
}

static const char *text_of(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));

    return text ? text : "";
}

/* The 64 digits of "sha256:...", NULL when it is something else. */
static const char *hex_of(const char *digest)
{
    return strncmp(digest, "sha256:", 7) == 0 && coto_image_is_digest(digest + 7) ? digest + 7
                                                                                  : NULL;
}

void image_layers_fini(struct image_layers *layers)
{
    coto_strv_fini(&layers->blobs);
    coto_strv_fini(&layers->digests);
    coto_strv_fini(&layers->diffs);
    json_decref(layers->config);
    *layers = (struct image_layers){0};
}

bool image_layers_possible(const struct image_blobs *blobs)
{
    return (image_blobs_has(blobs, "oci-layout") && image_blobs_has(blobs, "index.json")) ||
           (image_blobs_has(blobs, "manifest.json") && !image_blobs_has(blobs, "bin/sh") &&
            !image_blobs_has(blobs, "usr/bin/env"));
}

static int add_layer(struct image_layers *layers, const char *blob, const char *hex,
                     struct coto_err *err)
{
    if (layers->blobs.count >= LAYERS_MAX)
        return refuse(err, "more than 512 layers");
    if (coto_strv_add(&layers->blobs, blob) || coto_strv_add(&layers->digests, hex))
        return coto_err_set(err, COTO_ERR_LIMIT, ENOMEM, "archive");
    return 0;
}

/* From the configuration: what each layer is when decompressed, and how to run it. */
static int take_config(struct image_layers *layers, json_t *config, struct coto_err *err)
{
    json_t *diffs = json_object_get(json_object_get(config, "rootfs"), "diff_ids");
    json_t *item;
    size_t i;

    layers->config = json_incref(json_object_get(config, "config"));
    if (json_array_size(diffs) != layers->blobs.count)
        return refuse(err, "its configuration tells another number of layers");
    json_array_foreach (diffs, i, item) {
        const char *digest = json_string_value(item);
        const char *hex = digest ? hex_of(digest) : NULL;
        if (!hex)
            return refuse(err, "a layer whose digest is not SHA-256");
        if (coto_strv_add(&layers->diffs, hex))
            return coto_err_set(err, COTO_ERR_LIMIT, ENOMEM, "archive");
    }
    return 0;
}

/* ---- which of several ---- */

static bool has_tag(const json_t *image, const char *tag)
{
    json_t *item;
    size_t i;

    json_array_foreach (json_object_get(image, "RepoTags"), i, item)
        if (json_is_string(item) && strcmp(json_string_value(item), tag) == 0)
            return true;
    return false;
}

static int which(struct coto_err *err, const char *names)
{
    coto_err_set(err, COTO_ERR_USAGE, 0, "archive: it holds several images: %.300s", names);
    return coto_err_remedy(err, "choose one with --select NAME");
}

/* ---- docker save ---- */

static json_t *choose_docker(const json_t *list, const char *select, struct coto_err *err)
{
    coto_auto_buf names = {0};
    json_t *image, *tag;
    size_t i, k;

    json_array_foreach (list, i, image) {
        if (select && has_tag(image, select))
            return image;
        json_array_foreach (json_object_get(image, "RepoTags"), k, tag)
            coto_buf_addf(&names, "%s%s", names.len ? ", " : "", json_string_value(tag));
    }
    if (!select && json_array_size(list) == 1)
        return json_array_get(list, 0);
    which(err, coto_buf_str(&names));
    return NULL;
}

/* "HEX.json" or "blobs/sha256/HEX": the name is its hash. */
static const char *hex_in_name(const char *name, char hex[COTO_SHA256_HEX])
{
    const char *base = strrchr(name, '/');

    base = base ? base + 1 : name;
    snprintf(hex, COTO_SHA256_HEX, "%.64s", base);
    return coto_image_is_digest(hex) ? hex : NULL;
}

static int read_docker(const struct image_blobs *blobs, const char *select,
                       struct image_layers *layers, struct coto_err *err)
{
    char hex[COTO_SHA256_HEX];
    json_t *item;
    size_t i;
    json_auto_t *list = image_blobs_json(blobs, "manifest.json", NULL, err);
    json_t *image = list ? choose_docker(list, select, err) : NULL;

    if (!image)
        return -1;
    const char *name = text_of(image, "Config");
    json_auto_t *config = image_blobs_json(blobs, name, hex_in_name(name, hex), err);
    if (!config)
        return -1;
    layers->kind = "docker";
    json_array_foreach (json_object_get(image, "Layers"), i, item) {
        const char *blob = json_string_value(item);
        if (!blob)
            return refuse(err, "a layer without a name");
        if (add_layer(layers, blob, "", err))
            return -1;
    }
    return take_config(layers, config, err);
}

/* ---- OCI ---- */

/* Architecture of this machine, in their words. */
static const char *machine(void)
{
    static struct utsname host;

    if (uname(&host))
        return "";
    return strcmp(host.machine, "x86_64") == 0    ? "amd64"
           : strcmp(host.machine, "aarch64") == 0 ? "arm64"
                                                  : host.machine;
}

static bool fits(const json_t *entry, const char *select)
{
    json_t *platform = json_object_get(entry, "platform");
    json_t *notes = json_object_get(entry, "annotations");
    const char *arch = text_of(platform, "architecture");

    if (select && strcmp(text_of(notes, "org.opencontainers.image.ref.name"), select) != 0 &&
        strcmp(text_of(notes, "io.containerd.image.name"), select) != 0)
        return false;
    return !*arch ||
           (strcmp(arch, machine()) == 0 && strcmp(text_of(platform, "os"), "linux") == 0);
}

static json_t *choose_oci(const json_t *index, const char *select, struct coto_err *err)
{
    coto_auto_buf names = {0};
    json_t *entry, *found = NULL;
    size_t i, count = 0;

    json_array_foreach (json_object_get(index, "manifests"), i, entry) {
        json_t *notes = json_object_get(entry, "annotations");
        coto_buf_addf(&names, "%s%s", names.len ? ", " : "",
                      text_of(notes, "org.opencontainers.image.ref.name"));
        if (!fits(entry, select))
            continue;
        found = entry;
        count++;
    }
    if (count == 1)
        return found;
    if (count == 0)
        refuse(err, "it holds no image of that name for this machine");
    else
        which(err, coto_buf_str(&names));
    return NULL;
}

/* A document that another one points to: NULL when it is not there or not what was said. */
static json_t *follow(const struct image_blobs *blobs, const json_t *entry, struct coto_err *err)
{
    const char *hex = hex_of(text_of(entry, "digest"));
    char name[128];

    if (!hex) {
        refuse(err, "a document whose digest is not SHA-256");
        return NULL;
    }
    snprintf(name, sizeof name, "blobs/sha256/%s", hex);
    return image_blobs_json(blobs, name, hex, err);
}

/* Through at most two indexes, as multi-platform images have them. */
static json_t *find_manifest(const struct image_blobs *blobs, const char *select,
                             struct coto_err *err)
{
    json_t *document = image_blobs_json(blobs, "index.json", NULL, err);

    for (int hops = 0; document && hops < 3; hops++) {
        if (json_is_array(json_object_get(document, "layers")))
            return document;
        json_t *entry = choose_oci(document, hops ? NULL : select, err);
        json_t *next = entry ? follow(blobs, entry, err) : NULL;
        json_decref(document);
        document = next;
    }
    if (document) {
        json_decref(document);
        refuse(err, "indexes in indexes");
    }
    return NULL;
}

static int read_oci(const struct image_blobs *blobs, const char *select,
                    struct image_layers *layers, struct coto_err *err)
{
    json_auto_t *manifest = find_manifest(blobs, select, err);
    json_t *item;
    size_t i;

    if (!manifest)
        return -1;
    layers->kind = "oci";
    json_array_foreach (json_object_get(manifest, "layers"), i, item) {
        const char *hex = hex_of(text_of(item, "digest"));
        char name[128];
        if (!hex)
            return refuse(err, "a layer whose digest is not SHA-256");
        snprintf(name, sizeof name, "blobs/sha256/%s", hex);
        if (add_layer(layers, name, hex, err))
            return -1;
    }
    json_auto_t *config = follow(blobs, json_object_get(manifest, "config"), err);
    return config ? take_config(layers, config, err) : -1;
}

int image_layers_read(const struct image_blobs *blobs, const char *select,
                      struct image_layers *ret_layers, struct coto_err *err)
{
    struct image_layers layers = {0};
    bool is_docker = image_blobs_has(blobs, "manifest.json");

    if (is_docker ? read_docker(blobs, select, &layers, err)
                  : read_oci(blobs, select, &layers, err)) {
        image_layers_fini(&layers);
        return -1;
    }
    *ret_layers = layers;
    return 0;
}
