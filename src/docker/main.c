/* coto-docker: speaks to a Docker engine for the docker driver, so that coto itself links no
 * TLS and parses no JSON of others.
 *
 * Descriptor 3 is the driver (wire/docker.h), descriptor 4 the stream that becomes the
 * container's stdin and stdout. It runs in a session of its own, so that a key press at the
 * terminal does not end it before the container; what ends it is the driver's end.
 */
#include "base/fd.h"
#include "docker/container.h"
#include "wire/docker.h"
#include "wire/frame.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

enum { CONTROL_FD = 3, STREAM_FD = 4 };

static int say_error(const struct coto_err *err)
{
    coto_auto_buf out = {0};

    coto_frame_add_error(&out, 0, err);
    coto_fd_write_all(CONTROL_FD, out.data, out.len);
    return 1;
}

/* The first frame, and the reader that it stays in. */
static int read_order(struct coto_frame_reader *reader, struct coto_frame *ret_frame)
{
    int got = 0;

    while (got == 0) {
        size_t room;
        char *to = coto_frame_reader_space(reader, &room);
        ssize_t n = to ? read(CONTROL_FD, to, room) : -1;
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return -1;
        reader->buf.len += (size_t)n;
        got = coto_frame_next(reader, ret_frame, NULL);
    }
    return got == 1 ? 0 : -1;
}

static int say_runs(const struct container *c)
{
    coto_auto_buf out = {0};
    size_t at = coto_frame_begin(&out, (enum coto_frame_type)COTO_DOCKER_RUNS, 0);

    coto_frame_add_text(&out, (enum coto_tag)COTO_DOCKER_CONTAINER, c->id);
    coto_frame_add_text(&out, (enum coto_tag)COTO_DOCKER_RUNTIMES, c->used_runtime);
    coto_frame_add_num(&out, (enum coto_tag)COTO_DOCKER_NO_SWAP, c->memory_swap == -1);
    coto_frame_add_num(&out, (enum coto_tag)COTO_DOCKER_PID, (uint64_t)c->pid);
    coto_frame_add_num(&out, (enum coto_tag)COTO_DOCKER_LOCAL, c->engine->is_unix);
    coto_frame_end(&out, at);
    return coto_fd_write_all(CONTROL_FD, out.data, out.len);
}

static int run(struct engine *engine, const struct coto_frame *order, struct coto_err *err)
{
    struct container c = {.engine = engine, .stream = {.fd = -1}};
    coto_auto_free char *spec = coto_field_text(order, (enum coto_tag)COTO_DOCKER_SPEC);
    coto_auto_free char *id = coto_field_text(order, (enum coto_tag)COTO_DOCKER_ID);

    if (!spec || !id)
        return coto_err_set(err, COTO_ERR_INTERNAL, 0, "docker: the order is incomplete");
    snprintf(c.execution, sizeof c.execution, "%s", id);
    container_sweep(engine);
    if (container_make(&c, spec, err)) {
        container_fini(&c);
        return -1;
    }
    if (say_runs(&c) == 0)
        container_relay(&c, CONTROL_FD, STREAM_FD);
    else
        container_remove(&c, err);
    container_fini(&c);
    return 0;
}

/* ---- what the engine can do ---- */

static void add_words(struct coto_buf *out, enum coto_docker_tag tag, const json_t *list)
{
    coto_auto_buf words = {0};
    const char *key;
    json_t *value;

    for (size_t i = 0; i < json_array_size(list); i++)
        coto_buf_addf(&words, "%s%s", i ? " " : "", json_string_value(json_array_get(list, i)));
    json_object_foreach ((json_t *)list, key, value)
        coto_buf_addf(&words, "%s%s", words.len ? " " : "", key);
    coto_frame_add_text(out, (enum coto_tag)tag, coto_buf_str(&words));
}

static int probe(const struct engine *engine, struct coto_err *err)
{
    static const char *const limits[] = {"MemoryLimit", "SwapLimit", "CpuCfsQuota", "PidsLimit"};
    struct engine_reply reply;
    coto_auto_buf out = {0};
    uint64_t bits = 0;

    if (engine_call(engine, "GET", "/info", NULL, &reply, err))
        return -1;
    json_t *info = json_loadb(coto_buf_str(&reply.body), reply.body.len, 0, NULL);
    engine_reply_fini(&reply);
    for (int i = 0; i < 4; i++)
        if (json_is_true(json_object_get(info, limits[i])))
            bits |= (uint64_t)1 << i;
    const char *version = json_string_value(json_object_get(info, "ServerVersion"));
    size_t at = coto_frame_begin(&out, (enum coto_frame_type)COTO_DOCKER_PROBED, 0);
    coto_frame_add_text(&out, (enum coto_tag)COTO_DOCKER_VERSION, version ? version : "");
    add_words(&out, COTO_DOCKER_RUNTIMES, json_object_get(info, "Runtimes"));
    add_words(&out, COTO_DOCKER_SECURITY, json_object_get(info, "SecurityOptions"));
    coto_frame_add_num(&out, (enum coto_tag)COTO_DOCKER_LIMITS, bits);
    coto_frame_end(&out, at);
    json_decref(info);
    return out.failed || coto_fd_write_all(CONTROL_FD, out.data, out.len) ? -1 : 0;
}

static int which(const struct engine *engine, const struct coto_frame *order, struct coto_err *err)
{
    coto_auto_free char *wanted = coto_field_text(order, (enum coto_tag)COTO_DOCKER_RUNTIMES);
    struct container_runtime found;
    coto_auto_buf out = {0};

    if (container_which(engine, wanted ? wanted : "", &found, err))
        return -1;
    size_t at = coto_frame_begin(&out, (enum coto_frame_type)COTO_DOCKER_THAT, 0);
    coto_frame_add_text(&out, (enum coto_tag)COTO_DOCKER_RUNTIMES, found.name);
    coto_frame_add_text(&out, (enum coto_tag)COTO_DOCKER_VERSION, found.version);
    coto_frame_add_text(&out, (enum coto_tag)COTO_DOCKER_COMMIT, found.commit);
    coto_frame_end(&out, at);
    return out.failed || coto_fd_write_all(CONTROL_FD, out.data, out.len) ? -1 : 0;
}

static int sweep(const struct engine *engine, const struct coto_frame *order, struct coto_err *err)
{
    coto_auto_free char *id = coto_field_text(order, (enum coto_tag)COTO_DOCKER_ID);
    coto_auto_buf out = {0};

    if (!id || container_sweep_execution(engine, id, err))
        return -1;
    coto_frame_end(&out, coto_frame_begin(&out, (enum coto_frame_type)COTO_DOCKER_ENDED, 0));
    return coto_fd_write_all(CONTROL_FD, out.data, out.len);
}

static int obey(struct engine *engine, struct coto_frame_reader *reader, struct coto_frame *order,
                struct coto_err *err)
{
    if (engine_find(engine, err) || engine_ping(engine, err))
        return -1;
    if ((int)order->type == COTO_DOCKER_WHICH) {
        if (which(engine, order, err))
            return -1;
        if (read_order(reader, order))
            return 0; /* the driver does not want it */
    }
    switch ((int)order->type) {
    case COTO_DOCKER_PROBE:
        return probe(engine, err);
    case COTO_DOCKER_SWEEP:
        return sweep(engine, order, err);
    case COTO_DOCKER_CREATE:
        return run(engine, order, err);
    default:
        return coto_err_set(err, COTO_ERR_INTERNAL, 0, "docker: unknown order");
    }
}

int main(void)
{
    struct coto_frame_reader reader = {0};
    struct coto_frame order;
    struct engine engine = {0};
    struct coto_err err = {0};

    setsid();
    signal(SIGPIPE, SIG_IGN);
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    if (read_order(&reader, &order)) {
        fputs("coto-docker: this program is started by coto\n", stderr);
        return 64;
    }
    int failed = obey(&engine, &reader, &order, &err);
    if (failed)
        say_error(&err);
    engine_fini(&engine);
    coto_frame_reader_fini(&reader);
    return failed ? 1 : 0;
}
