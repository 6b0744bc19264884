#include "docker/container.h"

#include <stdio.h>
#include <string.h>

static json_t *ask(const struct engine *engine, const char *path, struct coto_err *err)
{
    struct engine_reply reply;

    if (engine_call(engine, "GET", path, NULL, &reply, err))
        return NULL;
    json_t *tree = json_loadb(coto_buf_str(&reply.body), reply.body.len, 0, NULL);
    engine_reply_fini(&reply);
    if (!tree)
        coto_err_set(err, COTO_ERR_INTERNAL, 0, "docker: %s was answered with no JSON", path);
    return tree;
}

static void copy(char *to, size_t size, const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));

    snprintf(to, size, "%s", text ? text : "");
}

static int default_runtime(const struct engine *engine, char *ret_name, size_t size,
                           struct coto_err *err)
{
    json_t *info = ask(engine, "/info", err);

    if (!info)
        return -1;
    copy(ret_name, size, info, "DefaultRuntime");
    json_decref(info);
    return 0;
}

int container_which(const struct engine *engine, const char *wanted,
                    struct container_runtime *ret_runtime, struct coto_err *err)
{
    struct container_runtime found = {0};

    snprintf(found.name, sizeof found.name, "%s", wanted);
    if (!found.name[0] && default_runtime(engine, found.name, sizeof found.name, err))
        return -1;
    json_t *version = ask(engine, "/version", err);
    if (!version)
        return -1;
    const json_t *parts = json_object_get(version, "Components");
    for (size_t i = 0; i < json_array_size(parts); i++) {
        const json_t *part = json_array_get(parts, i);
        const char *name = json_string_value(json_object_get(part, "Name"));
        if (!name || strcmp(name, "runc") != 0)
            continue;
        copy(found.version, sizeof found.version, part, "Version");
        copy(found.commit, sizeof found.commit, json_object_get(part, "Details"), "GitCommit");
    }
    json_decref(version);
    *ret_runtime = found;
    return 0;
}
