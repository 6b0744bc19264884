/* The word about the end of an async execution, for those who do not want to ask. The front
 * connects to nobody: coto-callback does (daemon/callback_main.c), to the origins that its
 * operator has named, and signs. */
#include "api/api.h"

#include "schema/verdict.h"

#include <string.h>
#include <sys/socket.h>

/* "https://host:port" and then a path: nothing that two programs could read differently. */
static bool is_of_origin(const char *url, const char *origin)
{
    size_t n = strlen(origin);

    return n > 0 && strncmp(url, origin, n) == 0 && (!url[n] || url[n] == '/' || url[n] == '?');
}

static bool is_plain(const char *url)
{
    for (; *url; url++)
        if (*url <= ' ' || *url > '~' || strchr("@\\#\"<>", *url))
            return false;
    return true;
}

int api_callback_check(struct api_job *job)
{
    const char *url = json_string_value(json_object_get(job->body, "callback_url"));
    const struct coto_api_config *config = &job->api->config;

    if (!url)
        return 0;
    strcpy(job->field, "callback_url");
    if (config->callback_fd < 0) {
        coto_err_set(&job->err, COTO_ERR_UNAVAILABLE, 0, "callback_url: this service calls nobody");
        return coto_err_remedy(&job->err,
                               "an operator can set `callback-origin` and `callback-key`");
    }
    if (!strstr(url, "://")) {
        coto_err_set(&job->err, COTO_ERR_USAGE, 0, "callback_url: it is no URL");
        return coto_err_remedy(&job->err, "send the whole of it, from https:// on");
    }
    for (const char *const *origin = config->callback_origins; is_plain(url) && *origin; origin++)
        if (is_of_origin(url, *origin)) {
            job->field[0] = '\0';
            return 0;
        }
    coto_err_set(&job->err, COTO_ERR_FORBIDDEN, 0, "callback_url: its origin is not allowed here");
    return coto_err_remedy(&job->err, "an operator can add it to `callback-origin`");
}

static void write_callback(const struct api_job *job, struct coto_buf *out)
{
    struct coto_json json = {.out = out};
    const char *agent = json_string_value(json_object_get(job->body, "agent_id"));
    const struct coto_result *r = &job->result;

    if (!agent && job->sandbox && job->sandbox->agent[0])
        agent = job->sandbox->agent;
    coto_json_begin(&json, NULL, '{');
    /* One key signs for all tenants and all receivers: who is told whose it is, and for whom. */
    coto_json_str(&json, "tenant", job->caller.tenant);
    coto_json_str(&json, "callback_url", json_string_value(json_object_get(job->body, "callback_url")));
    coto_json_str(&json, "execution_id", job->id);
    coto_json_str(&json, "sandbox_id", job->sandbox ? job->sandbox->id : NULL);
    coto_json_str(&json, "agent_id", agent);
    coto_json_str(&json, "state", job->err.kind ? "error" : "finished");
    coto_json_str(&json, "verdict", job->has_result ? coto_verdict_word(r->verdict) : NULL);
    if (job->has_result && r->exit_code >= 0)
        coto_json_int(&json, "exit_code", r->exit_code);
    else
        coto_json_null(&json, "exit_code");
    if (job->has_result)
        coto_json_ms(&json, "duration_ms", r->duration_us);
    else
        coto_json_null(&json, "duration_ms");
    coto_json_end(&json, '}');
}

/* There is room for some only of each tenant's; coto-callback says how many there was none for. */
void api_callback_count_lost(struct coto_api *api)
{
    unsigned lost;

    while (api->config.callback_fd >= 0 &&
           recv(api->config.callback_fd, &lost, sizeof lost, MSG_DONTWAIT) == (ssize_t)sizeof lost)
        api->counters.callbacks_lost += lost;
}

/* One packet: whose it counts as, NUL, the URL, NUL, the body. Those of a tenant's guests are counted apart: no tenant's name begins so. */
void api_callback_send(struct api_job *job)
{
    const char *url = json_string_value(json_object_get(job->body, "callback_url"));
    coto_auto_buf packet = {0};

    if (!url)
        return;
    if (job->is_guests)
        coto_buf_addc(&packet, '\1');
    coto_buf_add(&packet, job->caller.tenant, strlen(job->caller.tenant) + 1);
    coto_buf_add(&packet, url, strlen(url) + 1);
    write_callback(job, &packet);
    if (!packet.failed && send(job->api->config.callback_fd, packet.data, packet.len,
                               MSG_DONTWAIT | MSG_NOSIGNAL) == (ssize_t)packet.len)
        job->api->counters.callbacks++;
    else
        job->api->counters.callbacks_lost++;
}
