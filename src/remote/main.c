/* coto-remote FD json|"" raw|"" SERVER TOKEN-FILE CA CERTIFICATE KEY DIRECTORY-FD|"": what `coto run --server`
 * becomes. Sends the request in the descriptor to a service and passes on what the program there
 * writes; ends as the program did. The service ends the run when this process ends. */
#include "base/fd.h"
#include "base/json.h"
#include "remote/artifacts.h"
#include "report/escape.h"

#include <curl/curl.h>
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define REQUEST_MAX ((size_t)64 << 20)
#define ANSWER_MAX ((size_t)256 << 20)
#define EVENTS "text/event-stream"

enum { ARG_FD = 1, ARG_JSON, ARG_RAW, ARG_SERVER, ARG_TOKEN, ARG_CA, ARG_CERT, ARG_KEY, ARG_ARTIFACTS, ARG_COUNT };

struct remote {
    char **argv;
    bool json;
    int artifacts_fd; /* -1: they are not wanted */
    CURL *curl;
    struct curl_slist *headers;
    struct coto_buf request, in; /* in: what came and is not dealt with */
    struct coto_escape escape[2];
    bool is_stream;
    bool has_result;
    int exit_status;
    struct coto_err err;
};

/* ---- errors ---- */

static int fail(const struct remote *r)
{
    const struct coto_err_info *info = coto_err_info(r->err.kind);
    coto_auto_buf out = {0};

    if (r->json) {
        struct coto_json json = {.out = &out};
        coto_json_begin(&json, NULL, '{');
        coto_json_begin(&json, "error", '{');
        coto_json_str(&json, "code", info->word);
        coto_json_str(&json, "message", r->err.text);
        coto_json_str(&json, "remedy", r->err.remedy[0] ? r->err.remedy : NULL);
        coto_json_end(&json, '}');
        coto_json_end(&json, '}');
        coto_buf_addc(&out, '\n');
    } else {
        struct coto_escape escape = {0};
        coto_auto_buf text = {0};
        coto_buf_addf(&text, "coto: %s\n", r->err.text);
        if (r->err.remedy[0])
            coto_buf_addf(&text, "  remedy: %s\n", r->err.remedy);
        coto_escape_add(&escape, text.data, text.len, &out); /* another host's words */
        coto_escape_end(&escape, &out);
    }
    (void)coto_fd_write_all(r->json ? 1 : 2, coto_buf_str(&out), out.len);
    return info->exit_code;
}

static const char *text_of(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));

    return text ? text : "";
}

/* The service's error becomes ours, of the same kind. */
static void take_error(struct remote *r, const json_t *object)
{
    const char *word = text_of(object, "code");
    int kind = strcmp(word, "unauthorized") == 0 ? COTO_ERR_FORBIDDEN : COTO_ERR_INTERNAL;

    for (int i = 1; i < COTO_ERR_COUNT; i++)
        if (strcmp(coto_err_info(i)->word, word) == 0)
            kind = i;
    coto_err_set(&r->err, kind, 0, "%s",
                 *text_of(object, "message") ? text_of(object, "message")
                                             : "no answer that makes sense");
    if (*text_of(object, "remedy"))
        coto_err_remedy(&r->err, "%s", text_of(object, "remedy"));
}

/* ---- what comes back ---- */

static int pass_on(struct remote *r, int fd, const json_t *event)
{
    const char *base64 = json_string_value(json_object_get(event, "data_base64"));
    const json_t *data = json_object_get(event, "data");
    coto_auto_buf bytes = {0};
    coto_auto_buf shown = {0};

    if (base64 ? coto_base64_take(&bytes, base64, strlen(base64)) : !json_is_string(data))
        return coto_err_set(&r->err, COTO_ERR_INTERNAL, 0, "the service sent output that is none");
    if (!base64)
        coto_buf_add(&bytes, json_string_value(data), json_string_length(data));
    bool raw = *r->argv[ARG_RAW] || !isatty(fd);
    if (!raw)
        coto_escape_add(&r->escape[fd - 1], bytes.data, bytes.len, &shown);
    const struct coto_buf *out = raw ? &bytes : &shown;
    if (coto_fd_write_all(fd, coto_buf_str(out), out->len) == 0)
        return 0;
    return coto_err_set(&r->err, COTO_ERR_OUTPUT, errno,
                        fd == 1 ? "standard output" : "standard error");
}

static void take_result(struct remote *r, const json_t *result)
{
    const json_t *status = json_object_get(result, "exit_status");

    if (r->artifacts_fd >= 0)
        coto_remote_artifacts(r->artifacts_fd, result, &r->err);
    r->has_result = json_is_integer(status);
    r->exit_status = (int)json_integer_value(status) & 255;
}

static int take_event(struct remote *r, const char *name, const char *data)
{
    json_t *event = json_loads(data, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, NULL);
    int failed = 0;

    if (!event)
        failed =
            coto_err_set(&r->err, COTO_ERR_INTERNAL, 0, "the service sent an event that is none");
    else if (strcmp(name, "stdout") == 0)
        failed = pass_on(r, 1, event);
    else if (strcmp(name, "stderr") == 0)
        failed = pass_on(r, 2, event);
    else if (strcmp(name, "artifact") == 0 && r->artifacts_fd >= 0)
        failed = coto_remote_artifact(r->artifacts_fd, event, &r->err);
    else if (strcmp(name, "result") == 0)
        take_result(r, event);
    else if (strcmp(name, "error") == 0)
        take_error(r, event);
    json_decref(event);
    return failed;
}

/* One event: lines "event: NAME" and "data: JSON". */
static int take_block(struct remote *r, char *block)
{
    const char *name = "";
    const char *data = NULL;

    for (char *rest = NULL, *line = strtok_r(block, "\n", &rest); line;
         line = strtok_r(NULL, "\n", &rest)) {
        if (strncmp(line, "event: ", 7) == 0)
            name = line + 7;
        else if (strncmp(line, "data: ", 6) == 0)
            data = line + 6;
    }
    return data ? take_event(r, name, data) : 0;
}

static int take_blocks(struct remote *r)
{
    char *from = r->in.data;
    char *end;

    while (from && (end = strstr(from, "\n\n"))) {
        *end = '\0';
        if (take_block(r, from))
            return -1;
        from = end + 2;
    }
    size_t left = from ? r->in.len - (size_t)(from - r->in.data) : 0;
    if (from != r->in.data)
        memmove(r->in.data, from, left + 1);
    r->in.len = left;
    return 0;
}

static size_t on_data(char *data, size_t size, size_t count, void *arg)
{
    struct remote *r = arg;
    const char *type = NULL;

    coto_buf_add(&r->in, data, size * count);
    curl_easy_getinfo(r->curl, CURLINFO_CONTENT_TYPE, &type);
    r->is_stream = type && strncmp(type, EVENTS, strlen(EVENTS)) == 0;
    if (r->in.failed || r->in.len > ANSWER_MAX || (r->is_stream && take_blocks(r)))
        return 0;
    return size * count;
}

/* ---- sending ---- */

/* A name and a password may stand before the host that is meant ("http://localhost:1@host"). */
static bool is_here(const char *url)
{
    static const char *const hosts[] = {"http://127.0.0.1", "http://localhost", "http://[::1]"};

    for (size_t i = 0; i < sizeof hosts / sizeof *hosts; i++) {
        size_t n = strlen(hosts[i]);
        if (strncmp(url, hosts[i], n) != 0)
            continue;
        const char *rest = url + n;
        if (*rest == ':')
            rest += 1 + strspn(rest + 1, "0123456789");
        return *rest == '\0' || *rest == '/';
    }
    return false;
}

static int set_server(struct remote *r, struct coto_buf *url)
{
    const char *server = r->argv[ARG_SERVER];
    size_t len = strlen(server);

    if (strncmp(server, "unix:", 5) == 0) {
        curl_easy_setopt(r->curl, CURLOPT_UNIX_SOCKET_PATH, server + 5);
        coto_buf_adds(url, "http://coto");
    } else if (strncmp(server, "https://", 8) == 0 || is_here(server)) {
        coto_buf_add(url, server, len - (server[len - 1] == '/'));
    } else {
        coto_err_set(&r->err, COTO_ERR_USAGE, 0, "--server: '%.200s' is not possible", server);
        return coto_err_remedy(
            &r->err, "use unix:/PATH, http://127.0.0.1:PORT, or https:// for other hosts");
    }
    coto_buf_adds(url, "/api/v1/run");
    curl_easy_setopt(r->curl, CURLOPT_URL, coto_buf_str(url));
    curl_easy_setopt(r->curl, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(r->curl, CURLOPT_PROXY, "");
    if (*r->argv[ARG_CA])
        curl_easy_setopt(r->curl, CURLOPT_CAINFO, r->argv[ARG_CA]);
    if (*r->argv[ARG_CERT])
        curl_easy_setopt(r->curl, CURLOPT_SSLCERT, r->argv[ARG_CERT]);
    if (*r->argv[ARG_KEY])
        curl_easy_setopt(r->curl, CURLOPT_SSLKEY, r->argv[ARG_KEY]);
    return 0;
}

static int set_token(struct remote *r)
{
    const char *path = r->argv[ARG_TOKEN];
    coto_auto_buf line = {0};
    char token[8300];

    if (!*path)
        return 0;
    if (coto_file_read_at(AT_FDCWD, path, token, sizeof token) < 0)
        return coto_err_set(&r->err, COTO_ERR_INPUT, errno, "--token-file '%s'", path);
    coto_buf_addf(&line, "Authorization: Bearer %s", token);
    r->headers = curl_slist_append(r->headers, coto_buf_str(&line));
    return 0;
}

static int prepare(struct remote *r, struct coto_buf *url)
{
    coto_auto_fd fd = atoi(r->argv[ARG_FD]);

    r->curl = curl_easy_init();
    if (!r->curl || coto_fd_read_all(fd, REQUEST_MAX, &r->request))
        return coto_err_set(&r->err, COTO_ERR_SYSTEM, errno, "read the request");
    r->headers = curl_slist_append(r->headers, "Content-Type: application/json");
    r->headers =
        curl_slist_append(r->headers, r->json ? "Accept: application/json" : "Accept: " EVENTS);
    if (set_server(r, url) || set_token(r))
        return -1;
    curl_easy_setopt(r->curl, CURLOPT_HTTPHEADER, r->headers);
    curl_easy_setopt(r->curl, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)r->request.len);
    curl_easy_setopt(r->curl, CURLOPT_POSTFIELDS, coto_buf_str(&r->request));
    curl_easy_setopt(r->curl, CURLOPT_WRITEFUNCTION, on_data);
    curl_easy_setopt(r->curl, CURLOPT_WRITEDATA, r);
    curl_easy_setopt(r->curl, CURLOPT_CONNECTTIMEOUT, 10L);
    curl_easy_setopt(r->curl, CURLOPT_NOSIGNAL, 1L);
    return 0;
}

/* An answer in one piece: the result, or why there is none. */
static void take_answer(struct remote *r, long status)
{
    json_t *answer = json_loads(coto_buf_str(&r->in), JSON_ALLOW_NUL, NULL);

    if (status != 200 || !answer)
        take_error(r, answer);
    else
        take_result(r, answer);
    json_decref(answer);
    if (r->has_result && coto_fd_write_all(1, r->in.data, r->in.len))
        coto_err_set(&r->err, COTO_ERR_OUTPUT, errno, "standard output");
}

static int run(struct remote *r)
{
    coto_auto_buf url = {0};
    char why[CURL_ERROR_SIZE] = "";
    long status = 0;

    if (prepare(r, &url))
        return fail(r);
    curl_easy_setopt(r->curl, CURLOPT_ERRORBUFFER, why);
    CURLcode code = curl_easy_perform(r->curl);
    curl_easy_getinfo(r->curl, CURLINFO_RESPONSE_CODE, &status);
    if (!r->err.kind && code != CURLE_OK) {
        coto_err_set(&r->err, COTO_ERR_UNAVAILABLE, 0, "%s: %s", r->argv[ARG_SERVER],
                     *why ? why : curl_easy_strerror(code));
        coto_err_remedy(&r->err,
                        "is the service there, and does it know you? (--token-file, --server-ca, "
                        "--client-certificate, --client-key)");
    } else if (!r->err.kind && !r->is_stream) {
        take_answer(r, status);
        if (status == 401)
            coto_err_remedy(&r->err, "name the file with your token: --token-file FILE (coto serve says at "
                                     "its start where its own is)");
    }
    if (!r->err.kind && !r->has_result)
        coto_err_set(&r->err, COTO_ERR_UNAVAILABLE, 0, "%s: it broke off", r->argv[ARG_SERVER]);
    return r->err.kind ? fail(r) : r->exit_status;
}

int main(int argc, char **argv)
{
    static struct remote r;

    if (argc != ARG_COUNT) {
        fprintf(stderr, "coto-remote: it is started by `coto run --server`, not by hand\n");
        return 64;
    }
    signal(SIGPIPE, SIG_IGN);
    r.argv = argv;
    r.artifacts_fd = *argv[ARG_ARTIFACTS] ? atoi(argv[ARG_ARTIFACTS]) : -1;
    r.json = strcmp(argv[ARG_JSON], "json") == 0;
    curl_global_init(CURL_GLOBAL_DEFAULT);
    return run(&r);
}
