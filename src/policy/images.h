/* Images that `coto image` keeps: where they are, and what a name stands for.
 *
 *   STORE/names/NAME:TAG      "sha256:HEX\n"; '/' of a name is '+' here
 *   STORE/sha256/HEX/rootfs   the tree; its group and others may not write, and nobody does
 *   STORE/sha256/HEX/listing  one line per entry of the tree; HEX is the SHA-256 of this file
 *   STORE/sha256/HEX/image.json, signatures/
 *   STORE/tmp/                what is being made; never looked at from here
 *
 * A store is root's /var/lib/coto/images, or a user's $XDG_DATA_HOME/coto/images, who
 * sees root's behind it. Who uses an image holds a read lock on its listing, so that
 * `coto image remove` can tell; a lock that keeps others out is only for who may write.
 */
#pragma once

#include "base/err.h"
#include "base/sha256.h"
#include "base/str.h"

#include <stdbool.h>

#define COTO_IMAGE_NAME_MAX 200
#define COTO_IMAGE_SYSTEM_STORE "/var/lib/coto/images"

struct coto_image_ref {
    char name[COTO_IMAGE_NAME_MAX + 1]; /* with its tag; "" when only a digest was given */
    char digest[COTO_SHA256_HEX];       /* pinned; "" when not */
};

/* NAME[:TAG][@sha256:HEX] or sha256:HEX. */
int coto_image_ref_parse(const char *text, struct coto_image_ref *ret_ref, struct coto_err *err);
/* The file in names/ of a name that was parsed. */
void coto_image_name_file(const char *name, char ret_file[COTO_IMAGE_NAME_MAX + 1]);
/* And the name of such a file; false when it is none. */
bool coto_image_file_name(const char *file, char ret_name[COTO_IMAGE_NAME_MAX + 1]);
bool coto_image_is_digest(const char *hex);

/* Where to look, in this order: `dir` alone when it is neither NULL nor empty. */
int coto_image_stores(const char *dir, struct coto_strv *ret_stores, struct coto_err *err);
/* The store's directory, for reading: its owner is root or the caller, and nobody else may
 * write there. -1 and ENOENT in err->sys_errno when it does not exist. */
int coto_image_store_open(const char *store, struct coto_err *err);
/* What a name in that store points to; 1 when it is not there. */
int coto_image_resolve(int store, const char *name, char ret_digest[COTO_SHA256_HEX],
                       struct coto_err *err);

struct coto_image {
    char name[COTO_IMAGE_NAME_MAX + 1]; /* "" when it was asked for by digest */
    char digest[COTO_SHA256_HEX];
    char *path; /* of its directory */
    int fd;     /* of its directory */
    int lock;   /* its listing, with a read lock: keep it as long as the image is used */
};

/* Finds what the text names. A name that points to another digest than the pinned one is
 * an error of its own. That the tree is still what its digest says is not looked at here. */
int coto_image_open(const char *dir, const char *text, struct coto_image *ret_image,
                    struct coto_err *err);
/* A lock on a listing, at once or not at all; to write needs a descriptor that can. -1 with errno. */
int coto_image_lock(int listing, bool to_write);
void coto_image_close(struct coto_image *image); /* twice if need be */
#define coto_auto_image __attribute__((cleanup(coto_image_close))) struct coto_image
