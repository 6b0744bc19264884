#include "docker/container.h"

#include "base/clock.h"
#include "base/fd.h"
#include "wire/docker.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define REMOVE_TRIES 600
#define REMOVE_PAUSE_US 20000

static int no_memory(struct coto_err *err)
{
    return coto_err_set(err, COTO_ERR_LIMIT, ENOMEM, "docker");
}

/* An answer's JSON, or NULL; the reply is gone afterwards. */
static json_t *tree_of(struct engine_reply *reply)
{
    json_t *tree = json_loadb(coto_buf_str(&reply->body), reply->body.len, 0, NULL);

    engine_reply_fini(reply);
    return tree;
}

/* ---- making ---- */

static int create_refused(const struct container *c, const struct engine_reply *reply,
                          struct coto_err *err)
{
    char why[256];

    engine_message(reply, why, sizeof why);
    if (reply->status == 404) {
        coto_err_set(err, COTO_ERR_INPUT, 0, "docker: the engine has no image '%s'", c->image);
        return coto_err_remedy(
            err,
            "get it (docker pull %.150s), build it (docker/sandbox.Dockerfile), or "
            "name another with --image",
            c->image);
    }
    if (strstr(why, "runtime") && (strstr(why, "nknown") || strstr(why, "invalid"))) {
        coto_err_set(err, COTO_ERR_UNAVAILABLE, 0, "docker: the engine knows no runtime '%s'",
                     c->runtime);
        return coto_err_remedy(
            err, "register it under \"runtimes\" in /etc/docker/daemon.json and restart "
                 "the engine, or name another with --runtime");
    }
    coto_err_set(err, COTO_ERR_SYSTEM, 0, "docker: create a container: %s", why);
    return coto_err_remedy(err, "look at the engine's log: journalctl -u docker");
}

static int post(struct container *c, const char *name, const json_t *spec,
                struct engine_reply *ret_reply, struct coto_err *err)
{
    char *body = json_dumps(spec, JSON_COMPACT);
    char path[160];

    if (!body)
        return no_memory(err);
    snprintf(path, sizeof path, "/containers/create?name=%s", name);
    int failed = engine_call(c->engine, "POST", path, body, ret_reply, err);
    free(body);
    return failed;
}

int container_create(struct container *c, const char *name, const json_t *spec, char ret_id[80],
                     struct coto_err *err)
{
    struct engine_reply reply;

    if (post(c, name, spec, &reply, err))
        return -1;
    if (reply.status != 201) {
        create_refused(c, &reply, err);
        engine_reply_fini(&reply);
        return -1;
    }
    json_t *tree = tree_of(&reply);
    const char *id = json_string_value(json_object_get(tree, "Id"));
    bool good = id && strlen(id) < sizeof c->id && strspn(id, "0123456789abcdef") == strlen(id);
    if (good)
        snprintf(ret_id, sizeof c->id, "%s", id);
    json_decref(tree);
    return good ? 0 : coto_err_set(err, COTO_ERR_INTERNAL, 0, "docker: create gave no id");
}

/* An engine behind TCP may find anything at a path of ours, or nothing. One behind a socket
 * that does not see the file says so. */
static int create(struct container *c, json_t *spec, struct coto_err *err)
{
    char name[80];

    snprintf(name, sizeof name, "coto-%s", c->execution);
    c->since = (int64_t)time(NULL) - 1;
    if (c->engine->is_unix) {
        if (container_create(c, name, spec, c->id, err) == 0)
            return 0;
        if (!strstr(err->text, "bind source path does not exist"))
            return -1;
    }
    return container_carry(c, spec, err) || container_create(c, name, spec, c->id, err) ? -1 : 0;
}

static json_t *inspect(const struct container *c, struct coto_err *err)
{
    struct engine_reply reply;
    char path[128];

    snprintf(path, sizeof path, "/containers/%s/json", c->id);
    if (engine_call(c->engine, "GET", path, NULL, &reply, err))
        return NULL;
    int status = reply.status;
    json_t *tree = tree_of(&reply);
    if (status != 200 || !tree) {
        coto_err_set(err, COTO_ERR_SYSTEM, 0, "docker: the container is gone before it ran");
        coto_err_remedy(err, "look at the engine's log: journalctl -u docker");
        json_decref(tree);
        return NULL;
    }
    return tree;
}

static int compare(const struct container *c, const json_t *spec, struct coto_err *err)
{
    json_t *shown = inspect(c, err);
    int failed = !shown || container_check(spec, shown, err) ||
                 (c->volume[0] && container_check_carried(c, err));

    json_decref(shown);
    return failed ? -1 : 0;
}

static int attach(struct container *c, struct coto_err *err)
{
    char path[160];

    snprintf(path, sizeof path, "/containers/%s/attach?stream=1&stdin=1&stdout=1&stderr=1", c->id);
    if (engine_upgrade(c->engine, path, &c->stream, &c->rest, err))
        return -1;
    return 0;
}

static int start(const struct container *c, struct coto_err *err)
{
    struct engine_reply reply;
    char path[128];
    char why[300];

    snprintf(path, sizeof path, "/containers/%s/start", c->id);
    if (engine_call(c->engine, "POST", path, NULL, &reply, err))
        return -1;
    engine_message(&reply, why, sizeof why);
    int status = reply.status;
    engine_reply_fini(&reply);
    if (status == 204)
        return 0;
    coto_err_set(err, COTO_ERR_SYSTEM, 0, "docker: start the container%s%s: %s",
                 c->runtime[0] ? " with runtime " : "", c->runtime, why);
    return coto_err_remedy(
        err,
        "try the image and the runtime by hand (docker run --rm%s%s %.100s true), and "
        "look at the engine's log",
        c->runtime[0] ? " --runtime " : "", c->runtime, c->image);
}

static int read_pid(struct container *c, struct coto_err *err)
{
    json_t *shown = inspect(c, err);

    if (!shown)
        return -1;
    c->pid = json_integer_value(json_object_get(json_object_get(shown, "State"), "Pid"));
    const char *runtime =
        json_string_value(json_object_get(json_object_get(shown, "HostConfig"), "Runtime"));
    snprintf(c->used_runtime, sizeof c->used_runtime, "%s", runtime ? runtime : "?");
    c->memory_swap =
        json_integer_value(json_object_get(json_object_get(shown, "HostConfig"), "MemorySwap"));
    json_decref(shown);
    return 0;
}

/* The driver's spec, with what only this process can say. */
static json_t *complete(const struct container *c, const char *text)
{
    json_t *spec = json_loads(text, 0, NULL);
    json_t *labels = json_object_get(spec, "Labels");
    char owner[128];

    container_owner(owner, sizeof owner);
    if (!labels || json_object_set_new(labels, COTO_DOCKER_OWNER, json_string(owner)) ||
        json_object_set_new(labels, COTO_DOCKER_LABEL, json_string(c->execution))) {
        json_decref(spec);
        return NULL;
    }
    return spec;
}

int container_make(struct container *c, const char *spec_text, struct coto_err *err)
{
    json_t *spec = complete(c, spec_text);

    if (!spec)
        return no_memory(err);
    const json_t *runtime = json_object_get(json_object_get(spec, "HostConfig"), "Runtime");
    const char *image = json_string_value(json_object_get(spec, "Image"));
    snprintf(c->image, sizeof c->image, "%s", image ? image : "");
    snprintf(c->runtime, sizeof c->runtime, "%s", runtime ? json_string_value(runtime) : "");
    int failed = create(c, spec, err) || compare(c, spec, err) || attach(c, err) || start(c, err) ||
                 read_pid(c, err);
    json_decref(spec);
    if (failed) {
        struct coto_err ignored;
        container_remove(c, &ignored);
    }
    return failed ? -1 : 0;
}

/* ---- ending ---- */

void container_kill(const struct container *c)
{
    struct engine_reply reply;
    struct coto_err err;
    char path[128];

    snprintf(path, sizeof path, "/containers/%s/kill", c->id);
    if (c->id[0] && engine_call(c->engine, "POST", path, NULL, &reply, &err) == 0)
        engine_reply_fini(&reply);
}

int container_remove(struct container *c, struct coto_err *err)
{
    char path[128];

    engine_close(&c->stream);
    snprintf(path, sizeof path, "/containers/%s?force=1&v=1", c->id);
    c->is_gone = c->is_gone || !c->id[0];
    for (int i = 0; !c->is_gone && i < REMOVE_TRIES; i++) {
        struct engine_reply reply;
        if (engine_call(c->engine, "DELETE", path, NULL, &reply, err))
            return -1;
        int status = reply.status;
        engine_reply_fini(&reply);
        c->is_gone = status == 404; /* 204 may come before an automatic removal has ended */
        if (status != 204 && status != 404)
            usleep(REMOVE_PAUSE_US);
    }
    if (c->is_gone) {
        container_uncarry(c, CONTAINER_UNCARRY_TRIES);
        return 0;
    }
    coto_err_set(err, COTO_ERR_SYSTEM, 0, "docker: the engine does not remove container %.12s",
                 c->id);
    return coto_err_remedy(err, "look at the engine's log: journalctl -u docker");
}

void container_fini(struct container *c)
{
    engine_close(&c->stream);
    coto_buf_fini(&c->rest);
    coto_buf_fini(&c->init);
}

/* ---- watching ---- */

static int64_t number_at(const json_t *tree, const char *a, const char *b, const char *key)
{
    const json_t *object = json_object_get(tree, a);

    if (b)
        object = json_object_get(object, b);
    const json_t *value = json_object_get(object, key);
    return json_is_integer(value) ? json_integer_value(value) : -1;
}

int container_usage(const struct container *c, struct container_usage *ret_usage,
                    struct coto_err *err)
{
    struct engine_reply reply;
    char path[160];

    *ret_usage = (struct container_usage){-1, -1, -1, -1};
    snprintf(path, sizeof path, "/containers/%s/stats?stream=false&one-shot=true", c->id);
    if (engine_call(c->engine, "GET", path, NULL, &reply, err))
        return -1;
    json_t *tree = tree_of(&reply);
    int64_t user = number_at(tree, "cpu_stats", "cpu_usage", "usage_in_usermode");
    int64_t system = number_at(tree, "cpu_stats", "cpu_usage", "usage_in_kernelmode");
    int64_t total = number_at(tree, "cpu_stats", "cpu_usage", "total_usage");
    if (user >= 0 && system >= 0 && user + system > 0) {
        ret_usage->cpu_user_us = user / 1000;
        ret_usage->cpu_system_us = system / 1000;
    } else if (total > 0) {
        ret_usage->cpu_user_us = total / 1000;
        ret_usage->cpu_system_us = 0;
    }
    ret_usage->memory_peak = number_at(tree, "memory_stats", NULL, "max_usage");
    ret_usage->pids = number_at(tree, "pids_stats", NULL, "current");
    json_decref(tree);
    return 0;
}

/* One event per line. */
static void take_event(const char *line, size_t len, int64_t *ooms, int64_t *status)
{
    json_t *event = json_loadb(line, len, 0, NULL);
    const char *what = json_string_value(json_object_get(event, "Action"));
    const char *code = json_string_value(json_object_get(
        json_object_get(json_object_get(event, "Actor"), "Attributes"), "exitCode"));

    if (what && strcmp(what, "oom") == 0)
        ++*ooms;
    if (what && code && strcmp(what, "die") == 0)
        *status = atoll(code);
    json_decref(event);
}

void container_events(const struct container *c, int64_t *ret_ooms, int64_t *ret_exit)
{
    struct engine_reply reply;
    struct coto_err err;
    struct timespec now;
    char path[320];

    *ret_ooms = 0;
    *ret_exit = -1;
    clock_gettime(CLOCK_REALTIME, &now);
    snprintf(path, sizeof path,
             "/events?since=%lld&until=%lld.%09ld&filters=%%7B%%22container%%22%%3A%%5B%%22%s%%22%%"
             "5D%%7D",
             (long long)c->since, (long long)now.tv_sec, now.tv_nsec, c->id);
    if (!c->id[0] || engine_call(c->engine, "GET", path, NULL, &reply, &err))
        return;
    const char *line = coto_buf_str(&reply.body);
    for (const char *end; (end = strchr(line, '\n')); line = end + 1)
        take_event(line, (size_t)(end - line), ret_ooms, ret_exit);
    engine_reply_fini(&reply);
}
