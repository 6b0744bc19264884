/* What an engine answers: a head, a body whole or in chunks, and JSON that shows a container.
 * Only one that shows all that was asked for, and nothing more, may pass. */
#include "docker/container.h"

#include "base/fd.h"

#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char wanted[] = "{\"User\":\"9999:9999\",\"HostConfig\":{\"Privileged\":false,\"Memory\":4194304,"
                             "\"CapDrop\":[\"ALL\"],\"Tmpfs\":{\"/tmp\":\"rw\"}}}";

static void must(bool holds)
{
    if (!holds)
        abort();
}

static const json_t *at(const json_t *tree, const char *a, const char *b)
{
    return json_object_get(json_object_get(tree, a), b);
}

static void judge(const struct engine_reply *reply)
{
    json_t *spec = json_loads(wanted, 0, NULL);
    json_t *shown = json_loadb(coto_buf_str(&reply->body), reply->body.len, 0, NULL);
    struct coto_err err = {0};

    if (shown && container_check(spec, shown, &err) == 0) {
        must(!json_is_true(at(shown, "HostConfig", "Privileged")));
        must(json_integer_value(at(shown, "HostConfig", "Memory")) == 4194304);
        must(json_array_size(at(shown, "HostConfig", "CapDrop")) == 1);
        must(json_object_size(at(shown, "HostConfig", "Tmpfs")) == 1);
        must(json_array_size(json_object_get(shown, "Mounts")) >= 1);
    } else if (shown) {
        must(err.kind != 0 && err.text[0]);
    }
    json_decref(shown);
    json_decref(spec);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct engine_reply reply;
    struct coto_err err = {0};
    char text[128];
    int ends[2];

    if (size > 60000 || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends))
        return 0;
    must(coto_fd_write_all(ends[1], data, size) == 0);
    close(ends[1]);
    struct engine_conn conn = {.fd = ends[0]};
    if (engine_receive(&conn, &reply, &err) == 0) {
        must(reply.status >= 100 && reply.status <= 999 && reply.body.len <= size);
        engine_message(&reply, text, sizeof text);
        judge(&reply);
        engine_reply_fini(&reply);
    } else {
        must(err.kind != 0 && err.text[0]);
    }
    engine_close(&conn);
    return 0;
}
