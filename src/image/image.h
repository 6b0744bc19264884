/* coto image: root file systems for sandboxes, kept by what is in them.
 *
 * An image is a tree of directories, regular files and symbolic links, and nothing else.
 * Its digest is the SHA-256 of a listing with one line per entry (tree.c), so two imports
 * of the same files are the same image whoever made them: owners, times, extended
 * attributes and set-id bits are no part of it, and write permission is for the owner
 * alone. The listing is what gets signed. policy/images.h tells where all this lies.
 *
 * A tree is made below STORE/tmp, in a directory that its maker holds a lock on, and moved
 * to its digest when it is complete: a killed import leaves what nobody lists, and the next one
 * that wants to write sweeps it. Strangers' archives are read without capabilities and
 * with Landlock around the store (confine.c).
 */
#pragma once

#include "base/err.h"
#include "base/fd.h"
#include "base/sha256.h"
#include "base/str.h"
#include "policy/images.h"

#include <jansson.h>
#include <openssl/evp.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

#define IMAGE_DEPTH_MAX 256            /* directories in one another */
#define IMAGE_BYTES_MAX ((int64_t)16 << 30)
#define IMAGE_FILES_MAX 1000000
#define IMAGE_JSON_MAX ((size_t)4 << 20)

struct image_limits {
    int64_t bytes, files;
};

struct image_counts {
    int64_t files, bytes, links, dirs;
    int64_t skipped; /* devices, FIFOs and sockets, which an image does not have */
    int64_t set_id;  /* files whose set-id bits were dropped */
};

/* Modes that an image keeps. */
static inline unsigned image_file_mode(unsigned mode)
{
    return (mode & 0755) | 0400;
}
static inline unsigned image_dir_mode(unsigned mode)
{
    return (mode & 0755) | 0700;
}

/* ---- place.c: names inside a tree ---- */

struct image_place {
    int root;
    char *cached; /* the parent that `fd` is, below root */
    int fd;
};

void image_place_init(struct image_place *place, int root);
void image_place_fini(struct image_place *place);
/* A member's name without ".", "//"; refused when it leads out, is too long or too deep. */
int image_name_clean(const char *name, struct coto_buf *ret_clean, struct coto_err *err);
/* Directory of a clean name (borrowed until the next call), its missing parents made when
 * `make` is set, links followed inside the tree only; *ret_base is the last component. -1 with
 * errno ENOENT and no error set when it is not there and must not be made. */
int image_place_parent(struct image_place *place, const char *clean, bool make,
                       const char **ret_base, struct coto_err *err);
/* Something was removed or replaced: what is cached may be gone. */
void image_place_forget(struct image_place *place);

/* ---- stream.c: bytes of a file, decompressed ---- */

struct image_stream;
/* Bytes [offset, offset + size) of fd; gzip, zstd, xz or plain by their first bytes. Whoever
 * reads more than max bytes gets an error. */
int image_stream_open(int fd, int64_t offset, int64_t size, int64_t max,
                      struct image_stream **ret_stream, struct coto_err *err);
bool image_stream_is_plain(const struct image_stream *stream);
int64_t image_stream_total(const struct image_stream *stream); /* bytes that came out so far */
/* 0 at the end, -1 on failure. */
ssize_t image_stream_read(struct image_stream *stream, void *data, size_t len,
                          struct coto_err *err);
void image_stream_free(struct image_stream *stream);
static inline void image_stream_own(struct image_stream **stream)
{
    image_stream_free(*stream);
}
#define image_auto_stream __attribute__((cleanup(image_stream_own))) struct image_stream

/* ---- unpack.c: a tar archive into a tree ---- */

struct image_unpack {
    int root;
    struct image_limits limits; /* what is left of them */
    struct image_counts counts;
};

/* Whiteouts of the layer, applied to what is below it. */
int image_unpack_whiteouts(struct image_unpack *u, struct image_stream *layer, struct coto_err *err);
/* The members; with is_layer names that begin with ".wh." are whiteouts and are left out. The
 * SHA-256 of the uncompressed bytes comes back. */
int image_unpack_tar(struct image_unpack *u, struct image_stream *stream, bool is_layer,
                     char ret_hex[COTO_SHA256_HEX], struct coto_err *err);

/* ---- copy.c: a directory into a tree ---- */

int image_copy_tree(struct image_unpack *u, int from, struct coto_err *err);

/* ---- archive.c, manifest.c: `docker save` archives and OCI layouts ---- */

struct image_blob {
    char *name;
    char *link; /* the member is a link to this name; NULL: bytes */
    int64_t offset, size;
};
struct image_blobs {
    int fd; /* an uncompressed archive, or the directory of a layout */
    bool is_dir;
    struct image_blob *items;
    size_t count;
};
struct image_part {
    int fd; /* owned */
    int64_t offset, size;
};
/* Tells the members of an uncompressed archive. */
int image_blobs_scan(int fd, struct image_blobs *ret_blobs, struct coto_err *err);
void image_blobs_fini(struct image_blobs *blobs);
bool image_blobs_has(const struct image_blobs *blobs, const char *name);
int image_blobs_open(const struct image_blobs *blobs, const char *name, struct image_part *ret_part,
                     struct coto_err *err);
/* A JSON document of it; its SHA-256 must be `hex` unless that is NULL. */
json_t *image_blobs_json(const struct image_blobs *blobs, const char *name, const char *hex,
                         struct coto_err *err);
int image_part_check(const struct image_part *part, const char *hex, const char *name,
                     struct coto_err *err);
int image_json_parse(const void *data, size_t len, json_t **ret_json);

struct image_layers {
    struct coto_strv blobs;   /* names, the lowest layer first */
    struct coto_strv digests; /* SHA-256 of each blob; "" when the archive does not say */
    struct coto_strv diffs;   /* SHA-256 of each when decompressed; "" when it does not say */
    json_t *config;           /* "config" of the image's configuration, or NULL */
    const char *kind;         /* "docker" or "oci" */
};
/* Whether it is such an archive at all. */
bool image_layers_possible(const struct image_blobs *blobs);
/* `select`: which of several images, or NULL. */
int image_layers_read(const struct image_blobs *blobs, const char *select,
                      struct image_layers *ret_layers, struct coto_err *err);
void image_layers_fini(struct image_layers *layers);

/* ---- tree.c: what a tree is ---- */

/* The listing of the tree at `root`, with counts when not NULL. */
int image_tree_list(int root, struct coto_buf *ret_listing, struct image_counts *ret_counts,
                    struct coto_err *err);
/* A hash over inode, size, mode and times of all entries: the same as long as nobody has touched
 * one. Reads no content. */
int image_tree_stamp(int root, char ret_hex[COTO_SHA256_HEX], struct coto_err *err);
/* The path of the first line that differs. */
void image_tree_difference(const struct coto_buf *wanted, const struct coto_buf *found,
                           struct coto_buf *ret_text);
/* Opens a file of a tree for reading, links followed inside the tree only. -1 with errno. */
int image_tree_open(int root, const char *path, int flags);
/* Names in a directory, sorted, without "." and "..". 0 or -1 with errno. */
int image_dir_names(int dir, struct coto_strv *ret_names);
int image_hash_fd(int fd, int64_t offset, int64_t size, char ret_hex[COTO_SHA256_HEX]);
void image_hex(const unsigned char *hash, size_t len, char *ret_hex);

/* ---- store.c ---- */

struct image_store {
    char *path;
    int fd;
};
/* Opens the store that is written to, making it when it is not there. */
int image_store_open(const char *dir, struct image_store *ret_store, struct coto_err *err);
void image_store_close(struct image_store *store);
#define image_auto_store __attribute__((cleanup(image_store_close))) struct image_store

struct image_draft {
    char name[64]; /* below tmp/ */
    int fd, rootfs;
};
/* A place for a new image; sweeps those of makers that are dead. */
int image_draft_begin(const struct image_store *store, struct image_draft *ret_draft,
                      struct coto_err *err);
/* Lists the tree, writes listing and image.json, and moves it to its digest under that name. */
int image_draft_commit(const struct image_store *store, struct image_draft *draft, const char *name,
                       json_t *meta, char ret_digest[COTO_SHA256_HEX], struct coto_err *err);
void image_draft_drop(const struct image_store *store, struct image_draft *draft);

int image_store_point(const struct image_store *store, const char *name, const char *digest,
                      struct coto_err *err);
/* Names in that store and what they point to, sorted: name, digest, name, digest... */
int image_store_names(int store, struct coto_strv *ret_pairs, struct coto_err *err);
/* Takes the name away, and the tree when no other name points to it. With a digest all names
 * go. *ret_gone tells if the tree went. */
int image_store_remove(const struct image_store *store,
                       const struct coto_image_ref *ref, bool force, bool *ret_gone,
                       struct coto_err *err);

/* ---- meta.c: image.json ---- */

json_t *image_meta_load(int image, struct coto_err *err);
/* What can be told from the tree: its system and how many packages. */
int image_meta_add_tree(json_t *meta, int root, struct coto_err *err);
const char *image_meta_str(const json_t *meta, const char *key); /* "" when it is not there */

/* ---- packages.c, party.c, sbom.c ---- */

struct image_package {
    char *kind; /* "deb", "apk", "pypi" */
    char *name, *version, *arch, *source, *license;
    char *supplier, *author; /* as written: "Name <mail>" */
};
struct image_packages {
    struct image_package *items;
    size_t count;
    char *distro, *distro_version, *pretty;
    int64_t text_bytes; /* of the files that tell */
};
int image_packages_read(int root, struct image_packages *ret_packages, struct coto_err *err);
void image_packages_fini(struct image_packages *packages);

/* Pieces of the text; no NUL behind them. */
struct image_party {
    const char *name, *mail;
    size_t name_len, mail_len; /* a name is never empty, a mail may be */
    bool is_group;
};
/* False when nobody is named; text may be NULL. */
bool image_party_parse(const char *text, struct image_party *ret_party);
int image_sbom_write(const struct coto_image *image, const char *format, struct coto_buf *out,
                     struct coto_err *err);

/* ---- sign.c, minisign.c, gpg.c ---- */

enum { IMAGE_SIG_GOOD, IMAGE_SIG_OTHER_KEY, IMAGE_SIG_BAD };
struct image_text { /* a small file */
    const char *path;
    struct coto_buf data;
};
/* One signature against one key: IMAGE_SIG_*, or -1 when the key cannot be read. */
int image_minisign_check(const struct image_text *key, const struct coto_buf *signature,
                         const struct coto_buf *message, struct coto_err *err);
int image_gpg_check(const struct image_text *key, const char *signature, const char *message,
                    struct coto_err *err);
/* The image's signatures against a key file; 0 when one of them is good. */
int image_sign_verify(const struct coto_image *image, const char *key_file, struct coto_err *err);
/* Signs the listing with a private key (PEM, Ed25519 or P-256): base64, as cosign does. */
int image_sign_make(const struct coto_image *image, const char *key_file, struct coto_buf *ret_text,
                    struct coto_err *err);
int image_sign_attach(const struct coto_image *image, const struct coto_buf *signature,
                      struct coto_err *err);
/* How many there are, and of which kinds: "minisign, OpenPGP". */
int image_sign_count(int image, struct coto_buf *ret_kinds);

/* ---- check.c, confine.c, import.c, build.c ---- */

/* The listing that the digest is of. */
int image_read_listing(const struct coto_image *image, struct coto_buf *listing,
                       struct coto_err *err);
/* That the tree is what its digest says; quick: that nobody has touched it since that was looked
 * at. */
int image_check_tree(const struct coto_image *image, bool quick, struct coto_err *err);
/* No capabilities but reading others' files when `reads_all`, no new privileges, and no writing
 * outside the store. */
int image_confine(const char *store, bool reads_all, struct coto_err *err);

struct image_order {
    const char *dir;    /* of the store, or NULL */
    const char *source; /* path or "-" */
    const char *name;   /* of the image to be */
    const char *select; /* which of several in the archive */
    struct image_limits limits;
    json_t *recipe; /* how it was built; NULL */
};
int image_import(const struct image_order *order, struct coto_buf *ret_told, struct coto_err *err);

struct image_recipe {
    const char *suite, *mirror;
    const struct coto_strv *packages;
};
int image_build_debian(const struct image_order *order, const struct image_recipe *recipe,
                       struct coto_buf *ret_told, struct coto_err *err);
