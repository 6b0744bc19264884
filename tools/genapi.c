/* genapi json|md: docs/openapi.json and docs/API.md from the tables of endpoints and bodies.
 * tools/check-generated compares the checked-in copies with what this prints. */
#include "schema/endpoints.h"
#include "schema/openapi.h"

#include <stdio.h>
#include <string.h>

static const char head[] =
    "# The API\n"
    "\n"
    "Written from the same tables that check requests (`src/schema/endpoints.h`, `src/schema/bodies.c`); the\n"
    "OpenAPI document of a running service is at `GET /openapi.json`, a copy is [openapi.json](openapi.json).\n"
    "\n"
    "A program that fails is no error of the service: how it ended is its `verdict`, and the status is 200. What the\n"
    "service refuses has a status of 400 or more and an [error](#error) object. Fields and parameters that are not in these\n"
    "tables are refused.\n"
    "\n"
    "Tokens go into `Authorization: Bearer TOKEN`. *service*: a service's token, or the owner on the unix socket.\n"
    "*sandbox*: that sandbox's own `access_token`, or its service. *operator*: a service's token with `metrics` in its\n"
    "scope, the local token, or the owner on the unix socket. *anybody*: no token. Without `Bearer TOKEN` the answer is\n"
    "401 with one text, with a token that is not good 401 with one other, byte by byte the same whatever is wrong with it, unless it is good and only the client's certificate is not the one that it is for (`cnf`, `bind-tokens`)\n"
    "and whichever endpoint was asked: it says what the sender knows, that one was sent.\n\n"
    "A `POST` to run, create or execute may carry an `Idempotency-Key`: sent again, it gets the same answer\n"
    "([RECORDS.md](RECORDS.md)).\n";

static const char tail[] =
    "\n"
    "## Streaming\n"
    "\n"
    "With `Accept: text/event-stream` or `?stream=1` output comes as server-sent events while the program runs:\n"
    "\n"
    "```\n"
    "event: stdout\n"
    "data: {\"data\":\"hello\\n\"}\n"
    "\n"
    "event: result\n"
    "data: {\"execution_id\":\"...\",\"verdict\":\"ok\",...}\n"
    "```\n"
    "\n"
    "Events are `start` (`execution_id`), `stdout`, `stderr`, `artifact` (with its content, when asked for), and at the end\n"
    "`result` (the object of a plain reply without what was sent already) or `error`; openapi.json has their data. An execution that is cancelled, or whose\n"
    "sandbox's lifetime ends, while it waits for its turn has `start` and `result` at once. What Python prints comes when it\n"
    "is printed ([SANDBOX.md](SANDBOX.md)). `data_base64` stands beside `data` where bytes are no UTF-8 text. A\n"
    "client that takes nothing for five seconds is dropped once 1 MiB waits for it; the run goes on and its outcome is at\n"
    "`GET /api/v1/executions/{id}`. A client that disconnects ends the run, streaming or not, and so does one that closes its half of the connection after the request; in a kept sandbox the interpreter ends with it, and its state. A run with an `Idempotency-Key` goes on: whoever has one comes back for the answer.\n"
    "\n"
    "## Async\n"
    "\n"
    "`\"async\": true` is answered at once with 202 and the `execution_id`. `GET /api/v1/executions/{id}` tells where it\n"
    "stands, and holds its result for ten minutes after the end; `DELETE` on it cancels: one that still waits for its turn\n"
    "ends at once, without a sandbox. With `callback_url` its `tenant`, that `callback_url`, `execution_id`, `sandbox_id`, `agent_id`, `state`, `verdict`,\n"
    "`exit_code` and `duration_ms` are posted there at the end, as JSON and without its output, with the header\n"
    "\n"
    "```\n"
    "Coto-Signature: t=UNIX-SECONDS,v1=HEX\n"
    "```\n"
    "\n"
    "where HEX is HMAC-SHA256 over `UNIX-SECONDS.BODY` with the operator's callback key: the bytes of its file\n"
    "without a line end at their end (`openssl rand -hex 32 >FILE`: the 64 digits as they are). Every tenant's callbacks are signed with\n"
    "that key, and any tenant may name any address of an allowed origin. So a receiver takes what passes these tests:\n"
    "\n"
    "```python\n"
    "def is_good(key, header, body, tenant, url):\n"
    "    field = dict(part.split(\"=\", 1) for part in header.split(\",\"))\n"
    "    mac = hmac.new(key, field[\"t\"].encode() + b\".\" + body, hashlib.sha256).hexdigest()\n"
    "    if not hmac.compare_digest(field[\"v1\"], mac):\n"
    "        return False                                   # not by this service\n"
    "    if abs(time.time() - int(field[\"t\"])) > 300:\n"
    "        return False                                   # an old one, sent again\n"
    "    told = json.loads(body)\n"
    "    return told[\"tenant\"] == tenant and told[\"callback_url\"] == url   # one's own, and meant for this address\n"
    "```\n"
    "\n"
    "Only origins that the operator has\n"
    "named are called; redirects are not followed; it is tried three times. A\n"
    "service that ends in order tells what it has waited for; three seconds later it tells nobody any more.\n"
    "A receiver that does not answer holds up calls of its own tenant only, of which 256 may wait. A result with more than\n"
    "32 MiB of output as JSON, or 64 with artifacts, is not kept, and `error` says so.\n"
    "\n"
    "## Files\n"
    "\n"
    "Paths are relative to the workspace or absolute below it or `/tmp`; `..`, empty names and trailing slashes are refused,\n"
    "and no link is ever followed. Archives are plain tar: files and directories; links, devices and names that lead out are\n"
    "refused, set-id bits are dropped. Files count for the sandbox's memory: past its limit an upload is refused with 413, and the sandbox has ended. The whole workspace is `GET archive`, with or without `?path=.`. While an execution or a transfer uses the sandbox another is refused with 409.\n"
    "\n"
    "## Limits\n"
    "\n"
    "A body of JSON is at most 16 MiB, 64 levels deep and has at most 100,000 values. Past the queue, a tenant's requests in\n"
    "flight, rate or number of sandboxes the answer is 429 with `Retry-After`. Who has the token of a sandbox only may have eight requests there at a\n"
    "time, and whatever all of those do leaves the tenant's own token room to work, and to revoke them. Past `connections` and `peer-connections`, or the\n"
    "descriptors that the service may have, it is 503 with `Retry-After` and the end of the connection, before any request is read;\n"
    "over TLS just the end.\n";

static const char *access_word(enum coto_access access)
{
    static const char *const words[] = {"anybody", "service", "sandbox", "sandbox", "operator"};

    return words[access];
}

static void print_body(enum coto_body body)
{
    static const char *const others[] = {"", "bytes", "tar", "text", "JSON"};

    if (body < COTO_BODY_FIRST)
        fputs(others[body], stdout);
    else
        printf("[%s](#%s)", coto_bodies[body].name, coto_bodies[body].name);
}

static void print_cell(const char *text)
{
    for (; *text; text++) {
        if (*text == '|' || *text == '<' || *text == '*')
            putchar('\\');
        putchar(*text);
    }
}

static void print_endpoints(void)
{
    puts("\n## Endpoints\n\n| request | who | in | out | meaning |\n|---|---|---|---|---|");
    for (int i = 0; i < COTO_ENDPOINT_COUNT; i++) {
        const struct coto_endpoint *e = &coto_endpoints[i];
        printf("| `%s %s` | %s | ", e->method, e->path, access_word(e->access));
        print_body(e->request);
        printf(" | %d%s ", e->status, e->reply == COTO_BODY_destroyed ? ", 202 while an execution is being ended first," : "");
        print_body(e->reply);
        fputs(" | ", stdout);
        print_cell(e->doc);
        for (unsigned k = 0; k < coto_parameter_count; k++)
            if ((int)coto_parameters[k].endpoint == i)
                printf("; `%s%s%s`%s: %s", *coto_parameters[k].in == 'q' ? "?" : "",
                       coto_parameters[k].name, *coto_parameters[k].in == 'q' ? "=" : ":",
                       coto_parameters[k].is_required ? " (needed)" : "", coto_parameters[k].doc);
        puts(" |");
    }
}

static void print_type(const struct coto_body_field *f)
{
    static const char *const words[] = {"text", "text without control characters", "word", "uuid", "time",
                                        "whole number", "number", "boolean", "any JSON",
                                        "list of texts", "object of texts"};

    switch (f->kind) {
    case COTO_KIND_OBJECT:
        print_body(f->of);
        break;
    case COTO_KIND_LIST:
        fputs("list of ", stdout);
        print_body(f->of);
        break;
    case COTO_KIND_MAP:
        fputs("names to ", stdout);
        print_body(f->of);
        break;
    case COTO_KIND_LIMITS:
        fputs("[limits](#limits-of-a-sandbox)", stdout);
        break;
    case COTO_KIND_OUTCOME:
        print_body(COTO_BODY_result);
        fputs(" or ", stdout);
        print_body(COTO_BODY_execution);
        break;
    case COTO_KIND_WORD:
        for (const char *p = f->words; *p; p += strcspn(p, "|"), p += *p == '|')
            printf("%s`%.*s`", p == f->words ? "" : ", ", (int)strcspn(p, "|"), p);
        break;
    default:
        fputs(words[f->kind], stdout);
    }
    if (f->flags & COTO_FIELD_NULL)
        fputs(" or null", stdout);
    if (f->kind == COTO_KIND_NUMBER && f->max)
        printf(", above %lld, at most %lld", (long long)f->min, (long long)f->max);
}

static void print_bodies(void)
{
    puts("\n## Objects\n\nA name in bold is always there.");
    for (int body = COTO_BODY_FIRST; body < COTO_BODY_COUNT; body++) {
        printf("\n### %s\n\n", coto_bodies[body].name);
        print_cell(coto_bodies[body].doc);
        puts("\n\n| field | type | meaning |\n|---|---|---|");
        for (unsigned i = 0; i < coto_body_field_count; i++) {
            const struct coto_body_field *f = &coto_body_fields[i];
            const char *bold = f->flags & COTO_FIELD_MUST ? "**" : "";
            if (!(f->bodies >> body & 1))
                continue;
            printf("| %s`%s`%s | ", bold, f->name, bold);
            print_type(f);
            fputs(" | ", stdout);
            print_cell(f->doc);
            puts(" |");
        }
    }
}

static void print_limits(void)
{
    puts("\n### Limits of a sandbox\n\nA number, or a text with a unit (`\"256m\"`, `\"1.5s\"`). A size without a unit is bytes (`\"memory\": 64` is 64 bytes, and refused), a time seconds; `_mb` takes a number alone. The operator may allow less; of `ptys` it is none unless `max-ptys` says so.\n\n"
         "| field | at most | meaning |\n|---|---|---|");
    for (unsigned i = 0; i < coto_limit_count; i++) {
        printf("| `%s` | %s | ", coto_limits[i].name, coto_limits[i].ceiling);
        print_cell(coto_options[coto_limits[i].opt].help);
        puts(*coto_limits[i].unit ? "; in MiB |" : " |");
    }
}

int main(int argc, char **argv)
{
    if (argc == 2 && strcmp(argv[1], "md") == 0) {
        fputs(head, stdout);
        print_endpoints();
        print_bodies();
        print_limits();
        fputs(tail, stdout);
        return 0;
    }
    coto_auto_buf out = {0};
    struct coto_json json = {.out = &out, .pretty = true};
    coto_openapi_write(&json);
    puts(coto_buf_str(&out));
    return 0;
}
