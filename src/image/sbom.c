/* A bill of materials from the packages of an image: SPDX 2.3 and CycloneDX 1.5, both JSON. The
 * same image gives the same document each time: its date is the import's. */
#include "image/image.h"

#include "base/json.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <time.h>

struct bill {
    const struct coto_image *image;
    struct image_packages packages;
    char name[COTO_IMAGE_NAME_MAX + 1];
    char created[32];
    struct coto_json json;
};

static bool is_plain(unsigned char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '-' || c == '_' || c == '~' || c == ':';
}

static void add_quoted(struct coto_buf *out, const char *text)
{
    for (const unsigned char *p = (const unsigned char *)text; *p; p++)
        coto_buf_addf(out, is_plain(*p) ? "%c" : "%%%02X", *p);
}

/* Python's names are one whatever their case, and whether with _ or -. */
static void add_python_name(struct coto_buf *out, const char *name)
{
    for (; *name; name++) {
        char c[2] = {*name >= 'A' && *name <= 'Z' ? (char)(*name - 'A' + 'a') : *name, '\0'};
        add_quoted(out, *c == '_' ? "-" : c);
    }
}

/* pkg:deb/debian/NAME@VERSION?arch=... (package-url's specification) */
static void add_purl(const struct bill *bill, const struct image_package *p, struct coto_buf *out)
{
    const char *distro = bill->packages.distro ? bill->packages.distro : NULL;
    bool is_python = strcmp(p->kind, "pypi") == 0;

    coto_buf_addf(out, "pkg:%s/", p->kind);
    if (!is_python && distro) {
        add_quoted(out, distro);
        coto_buf_addc(out, '/');
    }
    if (is_python)
        add_python_name(out, p->name);
    else
        add_quoted(out, p->name);
    coto_buf_addc(out, '@');
    add_quoted(out, p->version);
    if (!is_python && p->arch) {
        coto_buf_adds(out, "?arch=");
        add_quoted(out, p->arch);
        if (distro && bill->packages.distro_version) {
            coto_buf_adds(out, "&distro=");
            add_quoted(out, distro);
            coto_buf_addc(out, '-');
            add_quoted(out, bill->packages.distro_version);
        }
    }
}

/* A UUID that belongs to the digest. */
static void uuid_of(const char *digest, char ret_uuid[37])
{
    snprintf(ret_uuid, 37, "%.8s-%.4s-5%.3s-8%.3s-%.12s", digest, digest + 8, digest + 13,
             digest + 17, digest + 20);
}

/* ---- SPDX ---- */

static void spdx_common(struct coto_json *j)
{
    coto_json_str(j, "downloadLocation", "NOASSERTION");
    coto_json_bool(j, "filesAnalyzed", false);
    coto_json_str(j, "licenseConcluded", "NOASSERTION");
    coto_json_str(j, "licenseDeclared", "NOASSERTION");
    coto_json_str(j, "copyrightText", "NOASSERTION");
}

/* "Person: NAME (MAIL)" or "Organization: NAME (MAIL)" */
static void spdx_party(struct coto_json *j, const char *key, const struct image_party *who)
{
    coto_auto_buf text = {0};

    coto_buf_addf(&text, "%s: %.*s", who->is_group ? "Organization" : "Person", (int)who->name_len,
                  who->name);
    if (who->mail_len)
        coto_buf_addf(&text, " (%.*s)", (int)who->mail_len, who->mail);
    coto_json_str(j, key, coto_buf_str(&text));
}

static void spdx_package(struct bill *bill, size_t i)
{
    const struct image_package *p = &bill->packages.items[i];
    struct coto_json *j = &bill->json;
    coto_auto_buf purl = {0};
    struct image_party who;
    char id[64];

    snprintf(id, sizeof id, "SPDXRef-Package-%zu", i + 1);
    add_purl(bill, p, &purl);
    coto_json_begin(j, NULL, '{');
    coto_json_str(j, "SPDXID", id);
    coto_json_str(j, "name", p->name);
    coto_json_str(j, "versionInfo", p->version);
    if (image_party_parse(p->supplier, &who))
        spdx_party(j, "supplier", &who);
    else
        coto_json_str(j, "supplier", "NOASSERTION");
    if (image_party_parse(p->author, &who))
        spdx_party(j, "originator", &who);
    spdx_common(j);
    if (p->license && *p->license)
        coto_json_str(j, "licenseComments", p->license);
    if (p->source && *p->source)
        coto_json_str(j, "sourceInfo", p->source);
    coto_json_begin(j, "externalRefs", '[');
    coto_json_begin(j, NULL, '{');
    coto_json_str(j, "referenceCategory", "PACKAGE-MANAGER");
    coto_json_str(j, "referenceType", "purl");
    coto_json_str(j, "referenceLocator", coto_buf_str(&purl));
    coto_json_end(j, '}');
    coto_json_end(j, ']');
    coto_json_end(j, '}');
}

static void spdx_relation(struct coto_json *j, const char *from, const char *type, const char *to)
{
    coto_json_begin(j, NULL, '{');
    coto_json_str(j, "spdxElementId", from);
    coto_json_str(j, "relationshipType", type);
    coto_json_str(j, "relatedSpdxElement", to);
    coto_json_end(j, '}');
}

static void spdx_image(struct bill *bill)
{
    struct coto_json *j = &bill->json;

    coto_json_begin(j, NULL, '{');
    coto_json_str(j, "SPDXID", "SPDXRef-Image");
    coto_json_str(j, "name", bill->name);
    coto_json_str(j, "versionInfo", bill->image->digest);
    coto_json_str(j, "primaryPackagePurpose", "CONTAINER");
    spdx_common(j);
    coto_json_begin(j, "checksums", '[');
    coto_json_begin(j, NULL, '{');
    coto_json_str(j, "algorithm", "SHA256");
    coto_json_str(j, "checksumValue", bill->image->digest);
    coto_json_end(j, '}');
    coto_json_end(j, ']');
    coto_json_end(j, '}');
}

static void write_spdx(struct bill *bill)
{
    struct coto_json *j = &bill->json;
    char space[256];

    snprintf(space, sizeof space, "https://spdx.org/spdxdocs/coto-image-%s", bill->image->digest);
    coto_json_begin(j, NULL, '{');
    coto_json_str(j, "spdxVersion", "SPDX-2.3");
    coto_json_str(j, "dataLicense", "CC0-1.0");
    coto_json_str(j, "SPDXID", "SPDXRef-DOCUMENT");
    coto_json_str(j, "name", bill->name);
    coto_json_str(j, "documentNamespace", space);
    coto_json_begin(j, "creationInfo", '{');
    coto_json_str(j, "created", bill->created);
    coto_json_begin(j, "creators", '[');
    coto_json_str(j, NULL, "Tool: coto-" COTO_VERSION);
    coto_json_end(j, ']');
    coto_json_end(j, '}');
    coto_json_begin(j, "packages", '[');
    spdx_image(bill);
    for (size_t i = 0; i < bill->packages.count; i++)
        spdx_package(bill, i);
    coto_json_end(j, ']');
    coto_json_begin(j, "relationships", '[');
    spdx_relation(j, "SPDXRef-DOCUMENT", "DESCRIBES", "SPDXRef-Image");
    for (size_t i = 0; i < bill->packages.count; i++) {
        char id[64];
        snprintf(id, sizeof id, "SPDXRef-Package-%zu", i + 1);
        spdx_relation(j, "SPDXRef-Image", "CONTAINS", id);
    }
    coto_json_end(j, ']');
    coto_json_end(j, '}');
}

/* ---- CycloneDX ---- */

static void cdx_license(struct coto_json *j, const char *license)
{
    coto_json_begin(j, "licenses", '[');
    coto_json_begin(j, NULL, '{');
    coto_json_begin(j, "license", '{');
    coto_json_str(j, "name", license);
    coto_json_end(j, '}');
    coto_json_end(j, '}');
    coto_json_end(j, ']');
}

static void cdx_supplier(struct coto_json *j, const struct image_party *who)
{
    coto_json_begin(j, "supplier", '{');
    coto_json_strn(j, "name", who->name, who->name_len);
    if (who->mail_len) {
        coto_json_begin(j, "contact", '[');
        coto_json_begin(j, NULL, '{');
        coto_json_strn(j, "email", who->mail, who->mail_len);
        coto_json_end(j, '}');
        coto_json_end(j, ']');
    }
    coto_json_end(j, '}');
}

static void cdx_component(struct bill *bill, size_t i)
{
    const struct image_package *p = &bill->packages.items[i];
    struct coto_json *j = &bill->json;
    coto_auto_buf purl = {0};
    struct image_party who;
    char ref[64];

    snprintf(ref, sizeof ref, "package-%zu", i + 1);
    add_purl(bill, p, &purl);
    coto_json_begin(j, NULL, '{');
    coto_json_str(j, "type", "library");
    coto_json_str(j, "bom-ref", ref);
    if (image_party_parse(p->supplier, &who))
        cdx_supplier(j, &who);
    if (image_party_parse(p->author, &who))
        coto_json_strn(j, "author", who.name, who.name_len);
    coto_json_str(j, "name", p->name);
    coto_json_str(j, "version", p->version);
    if (p->license && *p->license)
        cdx_license(j, p->license);
    coto_json_str(j, "purl", coto_buf_str(&purl));
    coto_json_end(j, '}');
}

static void cdx_metadata(struct bill *bill)
{
    struct coto_json *j = &bill->json;

    coto_json_begin(j, "metadata", '{');
    coto_json_str(j, "timestamp", bill->created);
    coto_json_begin(j, "tools", '{');
    coto_json_begin(j, "components", '[');
    coto_json_begin(j, NULL, '{');
    coto_json_str(j, "type", "application");
    coto_json_str(j, "name", "coto");
    coto_json_str(j, "version", COTO_VERSION);
    coto_json_end(j, '}');
    coto_json_end(j, ']');
    coto_json_end(j, '}');
    coto_json_begin(j, "component", '{');
    coto_json_str(j, "type", "container");
    coto_json_str(j, "bom-ref", "image");
    coto_json_str(j, "name", bill->name);
    coto_json_str(j, "version", bill->image->digest);
    coto_json_begin(j, "hashes", '[');
    coto_json_begin(j, NULL, '{');
    coto_json_str(j, "alg", "SHA-256");
    coto_json_str(j, "content", bill->image->digest);
    coto_json_end(j, '}');
    coto_json_end(j, ']');
    coto_json_end(j, '}');
    coto_json_end(j, '}');
}

static void write_cyclonedx(struct bill *bill)
{
    struct coto_json *j = &bill->json;
    char uuid[37], serial[64];

    uuid_of(bill->image->digest, uuid);
    snprintf(serial, sizeof serial, "urn:uuid:%s", uuid);
    coto_json_begin(j, NULL, '{');
    coto_json_str(j, "bomFormat", "CycloneDX");
    coto_json_str(j, "specVersion", "1.5");
    coto_json_str(j, "serialNumber", serial);
    coto_json_int(j, "version", 1);
    cdx_metadata(bill);
    coto_json_begin(j, "components", '[');
    for (size_t i = 0; i < bill->packages.count; i++)
        cdx_component(bill, i);
    coto_json_end(j, ']');
    coto_json_end(j, '}');
}

/* ---- both ---- */

static int begin(struct bill *bill, int root, struct coto_err *err)
{
    json_auto_t *meta = image_meta_load(bill->image->fd, err);
    time_t created = meta ? (time_t)json_integer_value(json_object_get(meta, "created")) : 0;
    struct tm tm;

    if (!meta || image_packages_read(root, &bill->packages, err))
        return -1;
    if (gmtime_r(&created, &tm))
        strftime(bill->created, sizeof bill->created, "%Y-%m-%dT%H:%M:%SZ", &tm);
    snprintf(bill->name, sizeof bill->name, "%s", *bill->image->name ? bill->image->name : "image");
    return 0;
}

int image_sbom_write(const struct coto_image *image, const char *format, struct coto_buf *out,
                     struct coto_err *err)
{
    struct bill bill = {.image = image, .json = {.out = out, .pretty = true}};
    bool is_spdx = strcmp(format, "spdx") == 0;

    if (!is_spdx && strcmp(format, "cyclonedx") != 0) {
        coto_err_set(err, COTO_ERR_USAGE, 0, "--format %.40s: no such format", format);
        return coto_err_remedy(err, "--format spdx, or --format cyclonedx");
    }
    coto_auto_fd root = coto_path_open_beneath(image->fd, "rootfs", O_RDONLY | O_DIRECTORY, 0);
    if (root < 0)
        return coto_err_set(err, COTO_ERR_INPUT, errno, "image sha256:%s", image->digest);
    if (begin(&bill, root, err))
        return -1;
    if (is_spdx)
        write_spdx(&bill);
    else
        write_cyclonedx(&bill);
    coto_buf_addc(out, '\n');
    image_packages_fini(&bill.packages);
    return 0;
}
