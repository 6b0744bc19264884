/* A directory of key files, and tokens with any header and claims, for the tests of src/auth. */
#pragma once

#include "auth/b64url.h"
#include "auth/jwt.h"
#include "auth/keyset.h"
#include "base/fd.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define NOW INT64_C(1800000000)
#define GOOD "{\"sub\":\"alice\",\"aud\":\"coto\",\"exp\":1800000100}"

struct room {
    char dir[64];
    char path[128]; /* of the file written last */
};

static inline void room_open(struct room *room)
{
    strcpy(room->dir, "/tmp/coto-test-auth-XXXXXX");
    assert_non_null(mkdtemp(room->dir));
}

static inline void room_close(struct room *room)
{
    coto_auto_fd parent = open("/tmp", O_PATH | O_DIRECTORY | O_CLOEXEC);

    assert_int_equal(coto_path_remove_tree(parent, strrchr(room->dir, '/') + 1), 0);
}

static inline const char *room_write(struct room *room, const char *name, unsigned mode,
                                     const char *text, size_t len)
{
    snprintf(room->path, sizeof room->path, "%s/%s", room->dir, name);
    int fd = open(room->path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(coto_fd_write_all(fd, text, len), 0);
    assert_int_equal(fchmod(fd, mode), 0);
    close(fd);
    return room->path;
}

/* The public half of a key (a secret: itself) in a file of that name. */
static inline const char *room_write_key(struct room *room, const char *name,
                                         const struct coto_key *key)
{
    coto_auto_buf private = {0};
    coto_auto_buf public = {0};

    assert_int_equal(coto_key_encode(key, &private, &public, NULL), 0);
    if (key->alg == COTO_KEY_HS256)
        return room_write(room, name, 0600, private.data, private.len);
    return room_write(room, name, 0644, public.data, public.len);
}

static inline struct coto_keys *room_keys(const char *path, const char *iss)
{
    const char *files[] = {path, NULL};
    struct coto_keys_config config = {.files = files, .iss = iss, .skew_s = 60};
    struct coto_keys *keys = NULL;
    struct coto_err err = {0};

    if (coto_keys_new(&config, &keys, &err))
        fail_msg("%s", err.text);
    return keys;
}

/* Whatever header and claims, properly signed. */
static inline void sign_parts(const struct coto_key *key, const char *header, const char *claims,
                              struct coto_buf *out)
{
    coto_auto_buf sig = {0};

    coto_buf_clear(out);
    coto_b64url_add(out, header, strlen(header));
    coto_buf_addc(out, '.');
    coto_b64url_add(out, claims, strlen(claims));
    assert_int_equal(coto_key_sign(key, out->data, out->len, &sig, NULL), 0);
    coto_buf_addc(out, '.');
    coto_b64url_add(out, sig.data, sig.len);
    assert_false(out->failed);
}
