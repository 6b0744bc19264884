/* Idempotency-Key: a request that is sent again, because its answer did not arrive, gets the
 * answer it would have got.
 *
 * A key belongs to a tenant and to the first request that came with it; another request
 * with the same key is refused. What comes with the token of one sandbox has keys of its own: whoever
 * holds such a token could otherwise use up the keys of its service. While the first one runs the second is refused too (409, try
 * again), also when its client has gone: it goes on then, and is done once. Answers are kept for a day, with the record of what they tell. Errors are not kept: whoever
 * was refused may try again with the same key. After a crash of the service the request runs anew.
 */
#include "api/api.h"

#include "base/sha256.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define KEY_LENGTH 255

enum { KEY_NEW, KEY_SAME, KEY_OTHER };

static int refuse(struct api_call *call, int status, const char *what, const char *remedy)
{
    struct coto_err err = {0};

    coto_err_set(&err, status == 503 ? COTO_ERR_LIMIT : COTO_ERR_USAGE, 0, "Idempotency-Key: %s", what);
    coto_err_remedy(&err, "%s", remedy);
    api_reply_error(call->request, status, &err, "Idempotency-Key");
    return 1;
}

static bool is_valid(const char *key)
{
    size_t len = strlen(key);

    for (size_t i = 0; i < len; i++)
        if (key[i] < 0x21 || key[i] > 0x7e)
            return false;
    return len > 0 && len <= KEY_LENGTH;
}

/* No key holds a space. */
static void name_key(const struct coto_caller *caller, const char *text, char name[static COTO_RECORD_KEY])
{
    snprintf(name, COTO_RECORD_KEY, "%s%s%s", caller->sandbox, *caller->sandbox ? " " : "", text);
}

void api_key_free(struct coto_api *api, struct api_key *key)
{
    struct api_key **at = &api->keys;

    if (!key)
        return;
    while (*at && *at != key)
        at = &(*at)->next;
    if (*at)
        *at = key->next;
    coto_buf_fini(&key->body);
    coto_buf_fini(&key->found.reply);
    json_decref(key->parsed);
    free(key);
}

static struct api_key *find(struct coto_api *api, const char *tenant, const char *name)
{
    struct api_key *key = api->keys;

    while (key && (strcmp(key->kept.key, name) != 0 || strcmp(key->kept.tenant, tenant) != 0))
        key = key->next;
    return key;
}

/* ---- on a worker ---- */

static void look_up(struct api_job *job, int channel_fd)
{
    struct api_key *key = job->key;
    struct coto_sha256 sha;

    (void)channel_fd;
    coto_sha256_init(&sha);
    coto_sha256_add(&sha, key->body.data, key->body.len);
    coto_sha256_hex(&sha, key->kept.request_hash);
    memcpy(key->found.tenant, key->kept.tenant, sizeof key->found.tenant);
    memcpy(key->found.key, key->kept.key, sizeof key->found.key);
    int found = coto_records_get_kept(job->api->records, &key->found, &job->err);
    if (found < 0)
        job->status = 503;
    bool same = found > 0 && strcmp(key->found.request_hash, key->kept.request_hash) == 0;
    key->outcome = found <= 0 ? KEY_NEW : same ? KEY_SAME : KEY_OTHER;
}

/* ---- on the loop ---- */

static void replay(struct api_call *call, const struct coto_kept *found)
{
    const struct coto_buf *body = &found->reply;
    coto_auto_buf created = {0};

    if (found->status == 0) {
        refuse(call, 409, "its answer was too large to be kept",
               "GET /api/v1/executions tells how it ended; use another key to run it again");
        return;
    }
    if (found->status == 201) {
        const struct api_sandbox *s = api_sandbox_find(call->api, coto_buf_str(&found->reply));
        if (!s || s->state == API_ENDING) {
            refuse(call, 409, "the sandbox it created is gone", "use another key");
            return;
        }
        api_write_created(call->api, s, &created);
        body = &created;
    }
    coto_http_add_header(call->request, "Idempotent-Replayed", "true");
    api_reply(call->request, found->status, body);
}

static void looked_up(struct api_job *job)
{
    struct api_key *key = job->key;
    struct api_call call = {.api = job->api,
                            .request = job->request,
                            .endpoint = key->endpoint,
                            .caller = job->caller};

    memcpy(call.id, key->id, sizeof call.id);
    if (!job->request || job->err.kind)
        return;
    job->request = NULL; /* answered here, or by another job */
    if (key->outcome == KEY_SAME) {
        replay(&call, &key->found);
    } else if (key->outcome == KEY_OTHER) {
        refuse(&call, 409, "was used for another request", "use a new key for every new request");
    } else {
        job->key = NULL;
        coto_buf_fini(&key->body);
        call.key = key;
        call.body = key->parsed;
        key->parsed = NULL;
        api_call_function(&call);
    }
}

static bool takes_a_key(const struct coto_endpoint *endpoint)
{
    return strcmp(endpoint->id, "run") == 0 || strcmp(endpoint->id, "create") == 0 ||
           strcmp(endpoint->id, "execute") == 0;
}

static struct api_key *new_key(const struct api_call *call, const char *name)
{
    struct api_key *key = calloc(1, sizeof *key);
    size_t len;
    const char *body = coto_http_body(call->request, &len);

    if (!key)
        return NULL;
    snprintf(key->kept.tenant, sizeof key->kept.tenant, "%s", call->caller.tenant);
    snprintf(key->kept.key, sizeof key->kept.key, "%s", name);
    memcpy(key->id, call->id, sizeof key->id);
    key->endpoint = call->endpoint;
    const char *path = call->endpoint->path; /* and not the caller's: an id in capitals is the same one */
    const char *after = strchr(path, '}');
    coto_buf_addf(&key->body, "%s %.*s%s%s?%s\n", coto_http_method(call->request), (int)strcspn(path, "{"), path,
                  call->id, after ? after + 1 : "", coto_http_query(call->request));
    coto_buf_add(&key->body, body, len);
    if (key->body.failed) {
        api_key_free(call->api, key);
        return NULL;
    }
    key->next = call->api->keys;
    call->api->keys = key;
    return key;
}

int api_key_begin(struct api_call *call)
{
    const char *text = coto_http_header(call->request, "Idempotency-Key");
    char name[COTO_RECORD_KEY];

    if (!text || !call->api->records || !takes_a_key(call->endpoint))
        return 0;
    if (!is_valid(text))
        return refuse(call, 400, "must be 1 to 255 visible ASCII characters", "a UUID does well");
    name_key(&call->caller, text, name);
    if (find(call->api, call->caller.tenant, name)) {
        coto_http_add_header(call->request, "Retry-After", "1");
        return refuse(call, 409, "the request with this key is still running", "try again later");
    }
    call->key = new_key(call, name);
    if (!call->key)
        return refuse(call, 503, "no memory to keep it", "try again later");
    call->key->parsed = call->body;
    call->body = NULL;
    api_submit_reading(call, look_up, looked_up);
    return 1;
}
