/* An engine on another machine does not see our coto-init. A container with a read-only root takes
 * no upload, and one with a writable place for it would be one that a program could fill. So the
 * file goes into a volume of this execution through a second container, which is never started, and
 * the sandbox mounts that volume read-only. Before the start the file is read back through the
 * sandbox's own container. Volume and container carry the owner's label: whoever is killed, the
 * next run sweeps. */
#include "docker/container.h"

#include "base/fd.h"
#include "base/tar.h"
#include "wire/docker.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define FILE_NAME "coto-init"
#define INIT_MAX ((size_t)8 << 20)
#define REMOVE_PAUSE_US 20000

static int refused(const char *what, const struct engine_reply *reply, struct coto_err *err)
{
    char why[256];

    engine_message(reply, why, sizeof why);
    coto_err_set(err, COTO_ERR_SYSTEM, 0, "docker: %s: %s", what, why);
    return coto_err_remedy(err, "look at the engine's log: journalctl -u docker");
}

/* A call that is answered with one status, or is an error. */
static int call(const struct container *c, const char *path, const char *body, int wanted,
                struct coto_err *err)
{
    struct engine_reply reply;

    if (engine_call(c->engine, "POST", path, body, &reply, err))
        return -1;
    int failed = reply.status != wanted ? refused("make a volume", &reply, err) : 0;
    engine_reply_fini(&reply);
    return failed;
}

/* ---- the file ---- */

static const char *source_of(const json_t *spec)
{
    const json_t *mounts = json_object_get(json_object_get(spec, "HostConfig"), "Mounts");

    return json_string_value(json_object_get(json_array_get(mounts, 0), "Source"));
}

static int read_init(const char *path, struct coto_buf *ret_data, struct coto_err *err)
{
    coto_auto_fd fd = open(path ? path : "", O_RDONLY | O_CLOEXEC);

    if (fd < 0 || coto_fd_read_all(fd, INIT_MAX, ret_data))
        return coto_err_set(err, COTO_ERR_SYSTEM, errno, "docker: read coto-init");
    return 0;
}

static int archive_of(const struct coto_buf *data, struct coto_buf *ret_archive,
                      struct coto_err *err)
{
    coto_tar_add_file(ret_archive, FILE_NAME, 0755, (int64_t)data->len);
    coto_buf_add(ret_archive, data->data, data->len);
    coto_tar_pad(ret_archive, (int64_t)data->len);
    coto_tar_add_end(ret_archive);
    return ret_archive->failed ? coto_err_set(err, COTO_ERR_LIMIT, ENOMEM, "docker") : 0;
}

/* ---- bringing it ---- */

static json_t *mount_of(const struct container *c, bool is_read_only)
{
    return json_pack("{s:s, s:s, s:s, s:b, s:{s:b}}", "Type", "volume", "Source", c->volume,
                     "Target", COTO_DOCKER_INIT, "ReadOnly", is_read_only, "VolumeOptions",
                     "NoCopy", 1);
}

static int make_volume(struct container *c, const char *owner, struct coto_err *err)
{
    json_t *body =
        json_pack("{s:s, s:{s:s}}", "Name", c->volume, "Labels", COTO_DOCKER_OWNER, owner);
    char *text = body ? json_dumps(body, JSON_COMPACT) : NULL;
    int failed = text ? call(c, "/volumes/create", text, 201, err)
                      : coto_err_set(err, COTO_ERR_LIMIT, ENOMEM, "docker");

    free(text);
    json_decref(body);
    return failed;
}

static int upload(const struct container *carrier, const struct coto_buf *archive,
                  struct coto_err *err)
{
    struct engine_reply reply;
    char path[160];

    snprintf(path, sizeof path, "/containers/%s/archive?path=" COTO_DOCKER_INIT, carrier->id);
    if (engine_put(carrier->engine, path, archive, &reply, err))
        return -1;
    int failed = reply.status != 200 ? refused("send coto-init", &reply, err) : 0;
    engine_reply_fini(&reply);
    return failed;
}

/* The container through which the volume is filled; it is gone afterwards. */
static int fill_volume(struct container *c, const char *owner, const struct coto_buf *archive,
                       struct coto_err *err)
{
    struct container carrier = {.engine = c->engine, .stream = {.fd = -1}};
    struct coto_err ignored;
    char name[96];

    memcpy(carrier.image, c->image, sizeof carrier.image);
    snprintf(name, sizeof name, "%s-carrier", c->volume);
    json_t *spec = json_pack("{s:s, s:[s], s:b, s:{s:s}, s:{s:s, s:b, s:[o]}}", "Image", c->image,
                             "Entrypoint", COTO_DOCKER_INIT, "NetworkDisabled", 1, "Labels",
                             COTO_DOCKER_OWNER, owner, "HostConfig", "NetworkMode", "none",
                             "ReadonlyRootfs", 1, "Mounts", mount_of(c, false));
    int failed = !spec ? coto_err_set(err, COTO_ERR_LIMIT, ENOMEM, "docker")
                       : container_create(&carrier, name, spec, carrier.id, err) ||
                             upload(&carrier, archive, err);
    json_decref(spec);
    if (container_remove(&carrier, &ignored) && !failed) {
        *err = ignored;
        failed = -1;
    }
    return failed ? -1 : 0;
}

int container_carry(struct container *c, json_t *spec, struct coto_err *err)
{
    coto_auto_buf archive = {0};
    char owner[128];
    json_t *host = json_object_get(spec, "HostConfig");

    container_sweep_volumes(c->engine);
    container_owner(owner, sizeof owner);
    coto_buf_clear(&c->init);
    if (read_init(source_of(spec), &c->init, err) || archive_of(&c->init, &archive, err))
        return -1;
    snprintf(c->volume, sizeof c->volume, "coto-%s", c->execution);
    if (make_volume(c, owner, err) || fill_volume(c, owner, &archive, err))
        return -1;
    if (json_object_set_new(host, "Mounts", json_pack("[o]", mount_of(c, true))) ||
        json_object_set_new(spec, "Entrypoint", json_pack("[s]", COTO_DOCKER_INIT "/" FILE_NAME)))
        return coto_err_set(err, COTO_ERR_LIMIT, ENOMEM, "docker");
    return 0;
}

/* ---- reading it back ---- */

struct found {
    struct coto_buf data;
    int files;
    bool is_executable;
};

static int take_file(void *arg, const char *name, bool executable, int64_t bytes,
                     struct coto_err *err)
{
    struct found *found = arg;

    (void)bytes;
    (void)err;
    found->files += strcmp(name, FILE_NAME) == 0 ? 1 : 2;
    found->is_executable = executable;
    return 0;
}

static int take_data(void *arg, const void *data, size_t len, struct coto_err *err)
{
    struct found *found = arg;

    (void)err;
    coto_buf_add(&found->data, data, len);
    return 0;
}

static bool is_same(const struct container *c, const struct coto_buf *archive)
{
    struct found found = {0};
    const struct coto_tar_sink sink = {.file = take_file,
                                       .data = take_data,
                                       .arg = &found,
                                       .max_bytes = (int64_t)INIT_MAX,
                                       .max_members = 1};
    struct coto_tar_reader reader;
    struct coto_err ignored;

    coto_tar_reader_init(&reader, &sink);
    bool same = coto_tar_feed(&reader, archive->data, archive->len, &ignored) == 0 &&
                coto_tar_end(&reader, &ignored) == 0 && found.files == 1 && found.is_executable &&
                !found.data.failed && found.data.len == c->init.len &&
                memcmp(found.data.data, c->init.data, c->init.len) == 0;
    coto_tar_reader_fini(&reader);
    coto_buf_fini(&found.data);
    return same;
}

int container_check_carried(const struct container *c, struct coto_err *err)
{
    struct engine_reply reply;
    char path[160];

    snprintf(path, sizeof path, "/containers/%s/archive?path=" COTO_DOCKER_INIT "/" FILE_NAME,
             c->id);
    if (engine_call(c->engine, "GET", path, NULL, &reply, err))
        return -1;
    bool same = reply.status == 200 && reply.body.len > 0 && is_same(c, &reply.body);
    engine_reply_fini(&reply);
    if (same)
        return 0;
    coto_err_set(err, COTO_ERR_WALL, 0,
                 "docker: the container has another coto-init than was sent");
    return coto_err_remedy(err, "nothing was run; look at what else uses the engine's volumes");
}

/* ---- taking it away ---- */

void container_uncarry(struct container *c, int tries)
{
    char path[160];

    snprintf(path, sizeof path, "/volumes/%s", c->volume);
    for (int i = 0; c->volume[0] && i < tries; i++) {
        struct engine_reply reply;
        struct coto_err err;
        if (engine_call(c->engine, "DELETE", path, NULL, &reply, &err))
            return;
        engine_reply_fini(&reply);
        if (reply.status != 409) /* a container that is going still has it */
            c->volume[0] = '\0';
        else
            usleep(REMOVE_PAUSE_US);
    }
}
