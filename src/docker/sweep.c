/* A container that was made but not started when both its programs were killed would stay for
 * ever: nothing in it ever ends. Its label tells who made it. */
#include "docker/container.h"

#include "base/fd.h"
#include "wire/docker.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define OLD_SECONDS 3600

static long long start_of(long pid)
{
    int64_t start;
    char state = coto_proc_stat(pid, 22, 1, &start);

    return !state || state == 'Z' || state == 'X' ? 0 : start; /* dead, and nobody has looked yet */
}

static void boot_id(char *ret_text, size_t size)
{
    if (coto_file_read_at(AT_FDCWD, "/proc/sys/kernel/random/boot_id", ret_text, size) <= 0)
        snprintf(ret_text, size, "unknown");
}

/* In which a process number means what it says; 0 unknown. */
static unsigned long long pid_namespace(void)
{
    char text[64];
    ssize_t n = readlink("/proc/self/ns/pid", text, sizeof text - 1);
    unsigned long long inode = 0;

    text[n > 0 ? n : 0] = '\0';
    return sscanf(text, "pid:[%llu]", &inode) == 1 ? inode : 0;
}

void container_owner(char *ret_text, size_t size)
{
    char boot[64];

    boot_id(boot, sizeof boot);
    snprintf(ret_text, size, "%s %ld %lld %llu", boot, (long)getpid(), start_of(getpid()),
             pid_namespace());
}

/* A maker has started its container within minutes of its own start. */
static bool is_old(long long start)
{
    struct timespec now;

    clock_gettime(CLOCK_BOOTTIME, &now);
    return now.tv_sec - start / sysconf(_SC_CLK_TCK) > OLD_SECONDS;
}

struct owner {
    char boot[64];
    long pid;
    long long start;
    unsigned long long space;
};

static bool parse_owner(const char *text, struct owner *ret)
{
    return text && sscanf(text, "%63s %ld %lld %llu", ret->boot, &ret->pid, &ret->start,
                          &ret->space) == 4;
}

/* Whether its process numbers are those that we see. */
static bool is_here(const char *text)
{
    struct owner owner;

    return parse_owner(text, &owner) && owner.space && owner.space == pid_namespace();
}

/* Another host's containers, on an engine that both use, are not ours to judge. Nor are those of a coto
 * in a container beside us, whose numbers mean other processes here, until they are old. */
static bool is_orphan(const char *text)
{
    char boot[64];
    struct owner owner;

    boot_id(boot, sizeof boot);
    if (!parse_owner(text, &owner) || strcmp(boot, owner.boot) != 0)
        return false;
    return is_here(text) ? start_of(owner.pid) != owner.start : is_old(owner.start);
}

/* The containers that a filter names, as the engine lists them; NULL on failure. */
static json_t *list(const struct engine *engine, const char *filters, struct coto_err *err)
{
    struct engine_reply reply;
    char path[400];

    snprintf(path, sizeof path, "/containers/json?all=1&filters=%s", filters);
    if (engine_call(engine, "GET", path, NULL, &reply, err))
        return NULL;
    json_t *tree = json_loadb(coto_buf_str(&reply.body), reply.body.len, 0, NULL);
    engine_reply_fini(&reply);
    return tree;
}

static int remove_item(const struct engine *engine, const json_t *item, struct coto_err *err)
{
    const char *id = json_string_value(json_object_get(item, "Id"));
    struct container c = {.engine = engine, .stream = {.fd = -1}};

    snprintf(c.id, sizeof c.id, "%s", id ? id : "");
    return container_remove(&c, err);
}

void container_sweep(const struct engine *engine)
{
    struct coto_err err;
    /* {"label":["coto.owner"],"status":["created","exited","dead"]} */
    json_t *found =
        list(engine,
             "%7B%22label%22%3A%5B%22" COTO_DOCKER_OWNER
             "%22%5D%2C%22status%22%3A%5B%22created%22%2C%22exited%22%2C%22dead%22%5D%7D",
             &err);

    for (size_t i = 0; i < json_array_size(found); i++) {
        const json_t *item = json_array_get(found, i);
        if (is_orphan(json_string_value(
                json_object_get(json_object_get(item, "Labels"), COTO_DOCKER_OWNER))))
            remove_item(engine, item, &err);
    }
    json_decref(found);
}

void container_sweep_volumes(const struct engine *engine)
{
    struct engine_reply reply;
    struct coto_err err;
    /* {"label":["coto.owner"]} */
    static const char path[] =
        "/volumes?filters=%7B%22label%22%3A%5B%22" COTO_DOCKER_OWNER "%22%5D%7D";

    if (engine_call(engine, "GET", path, NULL, &reply, &err))
        return;
    json_t *tree = json_loadb(coto_buf_str(&reply.body), reply.body.len, 0, NULL);
    const json_t *found = json_object_get(tree, "Volumes");
    engine_reply_fini(&reply);
    for (size_t i = 0; i < json_array_size(found); i++) {
        const json_t *item = json_array_get(found, i);
        const char *name = json_string_value(json_object_get(item, "Name"));
        const char *owner = json_string_value(
            json_object_get(json_object_get(item, "Labels"), COTO_DOCKER_OWNER));
        struct container c = {.engine = engine, .stream = {.fd = -1}};
        if (name && strlen(name) < sizeof c.volume &&
            strspn(name, "coto-0123456789abdef") == strlen(name) && is_orphan(owner)) {
            snprintf(c.volume, sizeof c.volume, "%s", name);
            container_uncarry(&c, is_here(owner) ? CONTAINER_UNCARRY_TRIES : 1);
        }
    }
    json_decref(tree);
}

int container_sweep_execution(const struct engine *engine, const char *id, struct coto_err *err)
{
    char filters[256];

    /* {"label":["coto.execution=ID"]} */
    snprintf(filters, sizeof filters, "%%7B%%22label%%22%%3A%%5B%%22%s%%3D%s%%22%%5D%%7D",
             COTO_DOCKER_LABEL, id);
    json_t *found = list(engine, filters, err);
    int failed = !found;
    for (size_t i = 0; i < json_array_size(found); i++)
        failed |= remove_item(engine, json_array_get(found, i), err);
    json_decref(found);
    struct container c = {.engine = engine, .stream = {.fd = -1}};
    snprintf(c.volume, sizeof c.volume, "coto-%.64s", id);
    container_uncarry(&c, CONTAINER_UNCARRY_TRIES);
    return failed ? -1 : 0;
}
