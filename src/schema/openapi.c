#include "schema/openapi.h"

#include "base/units.h"
#include "schema/endpoints.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

/* ---- schemas ---- */

static void add_ref(struct coto_json *json, const char *name)
{
    char text[96];

    snprintf(text, sizeof text, "#/components/schemas/%s", name);
    coto_json_str(json, "$ref", text);
}

static void add_object_of(struct coto_json *json, const char *key, const char *name)
{
    coto_json_begin(json, key, '{');
    add_ref(json, name);
    coto_json_end(json, '}');
}

static void add_type(struct coto_json *json, const char *type, bool is_nullable)
{
    if (!is_nullable) {
        coto_json_str(json, "type", type);
        return;
    }
    coto_json_begin(json, "type", '[');
    coto_json_str(json, NULL, type);
    coto_json_str(json, NULL, "null");
    coto_json_end(json, ']');
}

static void add_words(struct coto_json *json, const char *words, bool is_nullable)
{
    coto_json_begin(json, "enum", '[');
    for (const char *p = words; *p;) {
        size_t n = strcspn(p, "|");
        if (n)
            coto_json_strn(json, NULL, p, n);
        p += n + (p[n] == '|');
    }
    if (is_nullable)
        coto_json_null(json, NULL);
    coto_json_end(json, ']');
}

static void add_texts_of(struct coto_json *json, const char *key)
{
    coto_json_begin(json, key, '{');
    coto_json_str(json, "type", "string");
    coto_json_end(json, '}');
}

static void add_max(struct coto_json *json, const char *key, const struct coto_body_field *field)
{
    if (field->max > 0)
        coto_json_int(json, key, field->max);
}

static void add_number(struct coto_json *json, const struct coto_body_field *field)
{
    bool is_int = field->kind == COTO_KIND_INT;

    add_type(json, is_int ? "integer" : "number", field->flags & COTO_FIELD_NULL);
    coto_json_int(json, is_int ? "minimum" : "exclusiveMinimum", field->min);
    add_max(json, "maximum", field);
}

/* What coto_utf8_is_plain refuses. Not the contrary of it: there are those to whom $ is before a last
 * line's end. */
static void add_plain(struct coto_json *json)
{
    coto_json_begin(json, "not", '{');
    coto_json_str(json, "type", "string");
    coto_json_str(json, "pattern",
                  "[\\u0000-\\u001f\\u007f-\\u009f\\u061c\\u200e\\u200f\\u2028-\\u202e\\u2066-\\u2069]");
    coto_json_end(json, '}');
}

static void add_text(struct coto_json *json, const struct coto_body_field *field)
{
    add_type(json, "string", field->flags & COTO_FIELD_NULL);
    if (field->kind == COTO_KIND_UUID)
        coto_json_str(json, "format", "uuid");
    if (field->kind == COTO_KIND_TIME)
        coto_json_str(json, "format", "date-time");
    if (field->kind == COTO_KIND_WORD)
        add_words(json, field->words, field->flags & COTO_FIELD_NULL);
    if (field->kind == COTO_KIND_NAME)
        add_plain(json);
    if (field->min > 0)
        coto_json_int(json, "minLength", field->min);
    add_max(json, "maxLength", field);
}

static void add_kind(struct coto_json *json, const struct coto_body_field *field)
{
    switch (field->kind) {
    case COTO_KIND_TEXT:
    case COTO_KIND_NAME:
    case COTO_KIND_WORD:
    case COTO_KIND_UUID:
    case COTO_KIND_TIME:
        add_text(json, field);
        break;
    case COTO_KIND_INT:
    case COTO_KIND_NUMBER:
        add_number(json, field);
        break;
    case COTO_KIND_BOOL:
        add_type(json, "boolean", field->flags & COTO_FIELD_NULL);
        break;
    case COTO_KIND_ANY:
        break;
    case COTO_KIND_TEXTS:
        add_type(json, "array", field->flags & COTO_FIELD_NULL);
        add_texts_of(json, "items");
        add_max(json, "maxItems", field);
        break;
    case COTO_KIND_PAIRS:
        add_type(json, "object", false);
        add_texts_of(json, "additionalProperties");
        add_max(json, "maxProperties", field);
        break;
    case COTO_KIND_OBJECT:
        add_ref(json, coto_bodies[field->of].name);
        break;
    case COTO_KIND_LIST:
        add_type(json, "array", false);
        add_object_of(json, "items", coto_bodies[field->of].name);
        add_max(json, "maxItems", field);
        break;
    case COTO_KIND_MAP:
        add_type(json, "object", false);
        add_object_of(json, "additionalProperties", coto_bodies[field->of].name);
        break;
    case COTO_KIND_LIMITS:
        add_ref(json, "limits");
        break;
    case COTO_KIND_OUTCOME:
        coto_json_begin(json, "anyOf", '[');
        add_object_of(json, NULL, coto_bodies[COTO_BODY_result].name);
        add_object_of(json, NULL, coto_bodies[COTO_BODY_execution].name);
        coto_json_end(json, ']');
        break;
    }
}

static bool is_in(const struct coto_body_field *field, int body)
{
    return field->bodies >> body & 1;
}

static void add_required(struct coto_json *json, int body)
{
    coto_json_begin(json, "required", '[');
    for (unsigned i = 0; i < coto_body_field_count; i++)
        if (is_in(&coto_body_fields[i], body) && coto_body_fields[i].flags & COTO_FIELD_MUST)
            coto_json_str(json, NULL, coto_body_fields[i].name);
    coto_json_end(json, ']');
}

static void add_body(struct coto_json *json, int body)
{
    coto_json_begin(json, coto_bodies[body].name, '{');
    coto_json_str(json, "type", "object");
    coto_json_str(json, "description", coto_bodies[body].doc);
    add_required(json, body);
    coto_json_begin(json, "properties", '{');
    for (unsigned i = 0; i < coto_body_field_count; i++) {
        const struct coto_body_field *field = &coto_body_fields[i];
        if (!is_in(field, body))
            continue;
        coto_json_begin(json, field->name, '{');
        add_kind(json, field);
        coto_json_str(json, "description", field->doc);
        coto_json_end(json, '}');
    }
    coto_json_end(json, '}');
    if (body <= COTO_BODY_LAST_REQUEST) /* a caller who misspells a limit must hear of it */
        coto_json_bool(json, "additionalProperties", false);
    coto_json_end(json, '}');
}

/* Of a number alone: of MiB, seconds, CPUs, or the thing itself. */
static void add_bound(struct coto_json *json, const char *key, const struct coto_limit_row *limit, int64_t value)
{
    enum coto_opt_type type = coto_options[limit->opt].type;
    bool is_thousandth = type == COTO_TYPE_DURATION || type == COTO_TYPE_CPUS;
    char text[64];

    snprintf(text, sizeof text, "%.10g", (double)value / (double)(*limit->unit ? COTO_MB : is_thousandth ? 1000 : 1));
    coto_json_raw(json, key, text);
}

static void add_range(struct coto_json *json, const struct coto_limit_row *limit)
{
    const struct coto_opt_row *opt = &coto_options[limit->opt];
    int64_t most = COTO_UNIT_NONE;
    int failed = opt->type == COTO_TYPE_SIZE   ? coto_units_parse_size(limit->ceiling, &most)
                 : opt->type == COTO_TYPE_CPUS ? coto_units_parse_cpus(limit->ceiling, &most)
                 : opt->type == COTO_TYPE_INT  ? coto_units_parse_int(limit->ceiling, &most)
                                               : coto_units_parse_duration(limit->ceiling, &most);

    add_bound(json, "minimum", limit, opt->min);
    if (!failed && most != COTO_UNIT_NONE)
        add_bound(json, "maximum", limit, most);
}

/* Those that have units take a text with one, and the others their number in a text. */
static void add_limit_type(struct coto_json *json, enum coto_opt_type type)
{
    coto_json_begin(json, "type", '[');
    coto_json_str(json, NULL, type == COTO_TYPE_INT ? "integer" : "number");
    coto_json_str(json, NULL, "string");
    coto_json_end(json, ']');
}

static void add_limit(struct coto_json *json, const struct coto_limit_row *limit)
{
    const struct coto_opt_row *opt = &coto_options[limit->opt];
    coto_auto_buf text = {0};

    coto_json_begin(json, limit->name, '{');
    if (opt->type == COTO_TYPE_BOOL) {
        coto_json_str(json, "type", "boolean");
    } else {
        add_limit_type(json, opt->type);
        add_range(json, limit);
    }
    coto_buf_adds(&text, opt->help);
    if (*limit->unit)
        coto_buf_adds(&text, "; in MiB");
    if (*limit->ceiling && strcmp(limit->ceiling, "none") != 0)
        coto_buf_addf(&text, "; at most %s", limit->ceiling);
    coto_json_str(json, "description", coto_buf_str(&text));
    coto_json_end(json, '}');
}

static void add_limits(struct coto_json *json)
{
    coto_json_begin(json, "limits", '{');
    coto_json_str(json, "type", "object");
    coto_json_str(json, "description",
                  "Limits of a sandbox, each by one of its names. A size is bytes, or a text with a unit (\"256m\"), under a name with _mb MiB without one; a time is seconds, or such a text (\"1.5s\"). "
                  "The operator may allow less: `at_most` in GET capabilities. Files in a sandbox, /tmp and /dev/shm are memory too: memory has to hold what disk lets in.");
    coto_json_begin(json, "properties", '{');
    for (unsigned i = 0; i < coto_limit_count; i++)
        add_limit(json, &coto_limits[i]);
    coto_json_end(json, '}');
    coto_json_bool(json, "additionalProperties", false);
    coto_json_end(json, '}');
}

/* ---- paths ---- */

static const char *media_type(enum coto_body body)
{
    switch (body) {
    case COTO_BODY_bytes:
        return "application/octet-stream";
    case COTO_BODY_tar:
        return "application/x-tar";
    case COTO_BODY_text:
        return "text/plain";
    default:
        return "application/json";
    }
}

static void add_media(struct coto_json *json, enum coto_body body)
{
    coto_json_begin(json, media_type(body), '{');
    if (body >= COTO_BODY_FIRST && body < COTO_BODY_COUNT)
        add_object_of(json, "schema", coto_bodies[body].name);
    coto_json_end(json, '}');
}

static void add_content(struct coto_json *json, enum coto_body body)
{
    coto_json_begin(json, "content", '{');
    add_media(json, body);
    coto_json_end(json, '}');
}

static void add_header(struct coto_json *json, const char *name)
{
    if (!name)
        return;
    coto_json_begin(json, "headers", '{');
    coto_json_begin(json, name, '{');
    coto_json_begin(json, "schema", '{');
    coto_json_str(json, "type", strcmp(name, "Retry-After") == 0 ? "integer" : "string");
    coto_json_end(json, '}');
    coto_json_end(json, '}');
    coto_json_end(json, '}');
}

static void add_response(struct coto_json *json, int status, const char *doc, enum coto_body body)
{
    char key[16];

    snprintf(key, sizeof key, "%d", status);
    coto_json_begin(json, status ? key : "default", '{');
    coto_json_str(json, "description", doc);
    add_content(json, body);
    coto_json_end(json, '}');
}

static void add_refusals(struct coto_json *json, const struct coto_endpoint *e)
{
    char key[16];

    for (unsigned i = 0; i < coto_refusal_count; i++) {
        const struct coto_refusal *r = &coto_refusals[i];
        if (!coto_endpoint_is_at(e, r->where))
            continue;
        snprintf(key, sizeof key, "%d", r->status);
        coto_json_begin(json, key, '{');
        coto_json_str(json, "description", r->doc);
        add_header(json, r->header);
        add_content(json, COTO_BODY_error);
        coto_json_end(json, '}');
    }
    add_response(json, 0, "Refused.", COTO_BODY_error);
}

static void add_word(struct coto_json *json, const char *key, const char *word)
{
    coto_json_begin(json, key, '{');
    coto_json_str(json, "const", word);
    coto_json_end(json, '}');
}

static void add_event(struct coto_json *json, const struct coto_event *event, enum coto_body reply)
{
    coto_json_begin(json, NULL, '{');
    coto_json_str(json, "type", "object");
    coto_json_str(json, "description", event->doc);
    coto_json_begin(json, "required", '[');
    coto_json_str(json, NULL, "event");
    coto_json_str(json, NULL, "data");
    coto_json_end(json, ']');
    coto_json_begin(json, "properties", '{');
    add_word(json, "event", event->name);
    add_object_of(json, "data", coto_bodies[event->data ? event->data : reply].name);
    coto_json_end(json, '}');
    coto_json_end(json, '}');
}

/* A list of events with their fields, each of whose data is a text of JSON: this version of OpenAPI has
 * no word for streams. */
static void add_events(struct coto_json *json, enum coto_body reply)
{
    coto_json_begin(json, "text/event-stream", '{');
    coto_json_begin(json, "schema", '{');
    coto_json_str(json, "type", "array");
    coto_json_str(json, "description",
                  "Server-sent events as they happen. Each is a line `event: NAME`, a line `data: ` "
                  "with a JSON object, and an empty line.");
    coto_json_begin(json, "items", '{');
    coto_json_begin(json, "oneOf", '[');
    for (unsigned i = 0; i < coto_event_count; i++)
        add_event(json, &coto_events[i], reply);
    coto_json_end(json, ']');
    coto_json_end(json, '}');
    coto_json_end(json, '}');
    coto_json_end(json, '}');
}

static void add_responses(struct coto_json *json, const struct coto_endpoint *e)
{
    bool is_live = e->how == COTO_HOW_LIVE;
    bool is_file = e->reply == COTO_BODY_bytes;

    coto_json_begin(json, "responses", '{');
    coto_json_begin(json, e->status == 201 ? "201" : e->status == 202 ? "202" : "200", '{');
    coto_json_str(json, "description",
                  e->reply < COTO_BODY_FIRST ? e->doc : coto_bodies[e->reply].doc);
    add_header(json, coto_endpoint_is_at(e, COTO_AT_KEYED)  ? "Idempotent-Replayed"
                     : coto_endpoint_is_at(e, COTO_AT_FILE) ? "Content-Disposition"
                                                            : NULL);
    coto_json_begin(json, "content", '{');
    add_media(json, e->reply);
    if (is_file) /* unless the path is a directory */
        add_media(json, COTO_BODY_directory);
    if (is_live)
        add_events(json, e->reply);
    coto_json_end(json, '}');
    coto_json_end(json, '}');
    if (is_live)
        add_response(json, 202, coto_bodies[COTO_BODY_accepted].doc, COTO_BODY_accepted);
    if (e->reply == COTO_BODY_destroyed)
        add_response(json, 202, "An execution is being ended first.", COTO_BODY_destroyed);
    if (e->reply == COTO_BODY_health && strcmp(e->path, "/readyz") == 0)
        add_response(json, 503, "The service fills its pool, ends, or cannot do its work.", COTO_BODY_health);
    add_refusals(json, e);
    coto_json_end(json, '}');
}

static void add_parameter(struct coto_json *json, const char *in, const struct coto_parameter *p)
{
    coto_json_begin(json, NULL, '{');
    coto_json_str(json, "name", p->name);
    coto_json_str(json, "in", in);
    coto_json_bool(json, "required", p->is_required);
    coto_json_str(json, "description", p->doc);
    coto_json_begin(json, "schema", '{');
    coto_json_str(json, "type", p->max ? "integer" : "string");
    if (p->format)
        coto_json_str(json, "format", p->format);
    if (p->max) {
        coto_json_int(json, "minimum", 1);
        coto_json_int(json, "maximum", p->max);
    }
    coto_json_end(json, '}');
    coto_json_end(json, '}');
}

static void add_parameters(struct coto_json *json, int endpoint)
{
    static const struct coto_parameter id = {
        .name = "id", .is_required = true, .doc = "what the service called it", .format = "uuid"};

    coto_json_begin(json, "parameters", '[');
    if (strchr(coto_endpoints[endpoint].path, '{'))
        add_parameter(json, "path", &id);
    for (unsigned i = 0; i < coto_parameter_count; i++) {
        const struct coto_parameter *p = &coto_parameters[i];
        if ((int)p->endpoint == endpoint)
            add_parameter(json, p->in, p);
    }
    coto_json_end(json, ']');
}

/* Of executions that go on without the caller: what comes to the address that it gave. */
static void add_callback(struct coto_json *json)
{
    static const struct coto_parameter signature = {
        .name = "Coto-Signature",
        .is_required = true,
        .doc = "`t=UNIX-SECONDS,v1=HEX`: HMAC-SHA256 over `UNIX-SECONDS.BODY` with the operator's callback key; a line end at the end of its file is not part of it. A good signature says that the service has sent it: then compare `tenant` and `callback_url`"};

    coto_json_begin(json, "callbacks", '{');
    coto_json_begin(json, "ended", '{');
    coto_json_begin(json, "{$request.body#/callback_url}", '{');
    coto_json_begin(json, "post", '{');
    coto_json_str(json, "summary", "an async execution has ended; three tries, and no redirect is followed");
    coto_json_begin(json, "security", '[');
    coto_json_end(json, ']');
    coto_json_begin(json, "parameters", '[');
    add_parameter(json, "header", &signature);
    coto_json_end(json, ']');
    coto_json_begin(json, "requestBody", '{');
    coto_json_bool(json, "required", true);
    add_content(json, COTO_BODY_callback);
    coto_json_end(json, '}');
    coto_json_begin(json, "responses", '{');
    coto_json_begin(json, "2XX", '{');
    coto_json_str(json, "description", "Taken. 429, 500 and above and no answer are tried again, others not.");
    coto_json_end(json, '}');
    coto_json_end(json, '}');
    for (int i = 0; i < 4; i++)
        coto_json_end(json, '}');
}

/* Where nothing has to be said nothing has to be sent. */
static bool needs_body(enum coto_body body)
{
    return body != COTO_BODY_create && body != COTO_BODY_extend;
}

static void add_operation(struct coto_json *json, int endpoint)
{
    const struct coto_endpoint *e = &coto_endpoints[endpoint];
    char method[16];

    snprintf(method, sizeof method, "%s", e->method);
    for (char *p = method; *p; p++)
        *p = (char)tolower((unsigned char)*p);
    coto_json_begin(json, method, '{');
    coto_json_str(json, "operationId", e->id);
    coto_json_str(json, "summary", e->doc);
    if (e->access == COTO_ACCESS_OPEN) {
        coto_json_begin(json, "security", '[');
        coto_json_end(json, ']');
    }
    add_parameters(json, endpoint);
    if (e->request) {
        coto_json_begin(json, "requestBody", '{');
        coto_json_bool(json, "required", needs_body(e->request));
        add_content(json, e->request);
        coto_json_end(json, '}');
    }
    add_responses(json, e);
    if (e->how == COTO_HOW_LIVE)
        add_callback(json);
    coto_json_end(json, '}');
}

static bool is_first_of_path(int endpoint)
{
    for (int i = 0; i < endpoint; i++)
        if (strcmp(coto_endpoints[i].path, coto_endpoints[endpoint].path) == 0)
            return false;
    return true;
}

static void add_paths(struct coto_json *json)
{
    coto_json_begin(json, "paths", '{');
    for (int i = 0; i < COTO_ENDPOINT_COUNT; i++) {
        if (!is_first_of_path(i))
            continue;
        coto_json_begin(json, coto_endpoints[i].path, '{');
        for (int k = i; k < COTO_ENDPOINT_COUNT; k++)
            if (strcmp(coto_endpoints[i].path, coto_endpoints[k].path) == 0)
                add_operation(json, k);
        coto_json_end(json, '}');
    }
    coto_json_end(json, '}');
}

static void add_security(struct coto_json *json)
{
    coto_json_begin(json, "securitySchemes", '{');
    coto_json_begin(json, "token", '{');
    coto_json_str(json, "type", "http");
    coto_json_str(json, "scheme", "bearer");
    coto_json_str(json, "description",
                  "A service token, the local token of the operator (in a file that the service names when it starts), or for one sandbox its `access_token`. "
                  "A service token with a `scope` opens only what it names: `read` (GET), `write` (everything else), `metrics` (GET /metrics). "
                  "The unix socket needs none. What is made with the local token, and what is made at the unix socket without one, are different tenants': "
                  "neither sees the other's sandboxes.");
    coto_json_end(json, '}');
    coto_json_end(json, '}');
}

void coto_openapi_write(struct coto_json *json)
{
    coto_json_begin(json, NULL, '{');
    coto_json_str(json, "openapi", "3.1.0");
    coto_json_begin(json, "info", '{');
    coto_json_str(json, "title", "coto");
    coto_json_str(json, "description", "Run untrusted code behind every wall the kernel has. A body of JSON has 16 MiB at most; larger files go by PUT files of a sandbox.");
    coto_json_str(json, "version", COTO_VERSION);
    coto_json_end(json, '}');
    coto_json_begin(json, "security", '[');
    coto_json_begin(json, NULL, '{');
    coto_json_begin(json, "token", '[');
    coto_json_end(json, ']');
    coto_json_end(json, '}');
    coto_json_end(json, ']');
    add_paths(json);
    coto_json_begin(json, "components", '{');
    coto_json_begin(json, "schemas", '{');
    for (int body = COTO_BODY_FIRST; body < COTO_BODY_COUNT; body++)
        add_body(json, body);
    add_limits(json);
    coto_json_end(json, '}');
    add_security(json);
    coto_json_end(json, '}');
    coto_json_end(json, '}');
}
