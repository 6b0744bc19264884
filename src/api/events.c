/* Output as server-sent events while the program runs. Each event's data is a JSON object on one
 * line: whatever the program writes, it cannot end the event or begin another. */
#include "api/api.h"

#include "api/flow.h"
#include "base/units.h"
#include "report/json.h"

#include <string.h>

static void send_event(struct api_job *job, const char *event, const struct coto_buf *data)
{
    coto_auto_buf text = {0};

    coto_buf_addf(&text, "event: %s\ndata: %s\n\n", event, coto_buf_str(data));
    if (!text.failed)
        api_flow_send(job, text.data, text.len);
}

static void send_output(struct api_job *job, int which, const char *data, size_t len)
{
    coto_auto_buf text = {0};
    struct coto_json json = {.out = &text};

    coto_json_begin(&json, NULL, '{');
    coto_json_bytes(&json, "data", data, len);
    coto_json_end(&json, '}');
    send_event(job, which == 1 ? "stdout" : "stderr", &text);
}

void api_events_begin(struct api_job *job)
{
    coto_auto_buf text = {0};
    struct coto_json json = {.out = &text};

    api_flow_begin(job, COTO_HTTP_EVENTS, -1);
    /* A slow reader must not buy its program time. */
    if (job->plan.timeout_ms != COTO_UNIT_NONE)
        api_flow_wait_until(job, coto_clock_us() + job->plan.timeout_ms * 1000);
    coto_json_begin(&json, NULL, '{');
    coto_json_str(&json, "execution_id", job->id);
    coto_json_end(&json, '}');
    send_event(job, "start", &text);
}

/* A comment, which clients skip: a proxy in between must not take silence for the end. */
void api_events_quiet(void *arg)
{
    api_flow_send(arg, ":\n\n", 3);
}

/* Bytes at the end that begin a character which may be completed by what comes next. */
static size_t unfinished(const char *data, size_t len)
{
    for (size_t n = 1; n <= 3 && n <= len; n++) {
        unsigned char c = (unsigned char)data[len - n];
        if ((c & 0xc0) == 0x80)
            continue;
        size_t whole = c >= 0xf0 ? 4 : c >= 0xe0 ? 3 : c >= 0xc0 ? 2 : 1;
        return whole > n ? n : 0;
    }
    return 0;
}

void api_events_output(void *arg, int which, const char *data, size_t len)
{
    struct api_job *job = arg;
    coto_auto_buf whole = {0};
    size_t *carried = &job->carried[which - 1];

    if (*carried) {
        coto_buf_add(&whole, job->carry[which - 1], *carried);
        coto_buf_add(&whole, data, len);
        if (whole.failed)
            return;
        data = whole.data;
        len = whole.len;
    }
    *carried = unfinished(data, len);
    memcpy(job->carry[which - 1], data + len - *carried, *carried);
    if (len > *carried)
        send_output(job, which, data, len - *carried);
}

/* One after the other: all of them in the result could be more than a client may owe us. */
static void send_artifact(struct api_job *job, struct coto_artifact *artifact)
{
    coto_auto_buf text = {0};
    struct coto_json json = {.out = &text};

    if (!artifact->is_kept)
        return;
    coto_report_json_artifact(artifact, &json);
    send_event(job, "artifact", &text);
    coto_buf_fini(&artifact->content);
    artifact->is_kept = false;
}

void api_events_end(struct api_job *job)
{
    for (int which = 1; which <= 2; which++)
        if (job->carried[which - 1])
            send_output(job, which, (const char *)job->carry[which - 1], job->carried[which - 1]);
    for (size_t i = 0; job->has_result && i < job->result.artifact_count; i++)
        send_artifact(job, &job->result.artifacts[i]);
    api_flow_wait(job);
}
