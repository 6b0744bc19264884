/* coto-remote FD json|"" raw|"" quiet|"" SERVER TOKEN-FILE CA CERTIFICATE KEY DIRECTORY-FD|"": what
 * `coto run --server` becomes. Sends the request in the descriptor to a service and passes on what the program there
 * writes; ends as the program did. The service ends the run when this process ends. */
#include "base/fd.h"
#include "base/json.h"
#include "remote/answer.h"
#include "remote/trouble.h"

#include <curl/curl.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define REQUEST_MAX ((size_t)64 << 20)
#define EVENTS "text/event-stream"

enum { ARG_FD = 1, ARG_JSON, ARG_RAW, ARG_QUIET, ARG_SERVER, ARG_TOKEN, ARG_CA, ARG_CERT, ARG_KEY, ARG_ARTIFACTS,
       ARG_COUNT };

struct remote {
    char **argv;
    CURL *curl;
    struct curl_slist *headers;
    struct coto_buf request;
    struct coto_remote_answer answer;
    bool is_stream;
    struct coto_err err;
};

/* ---- errors ---- */

static int fail(const struct remote *r)
{
    const struct coto_err_info *info = coto_err_info(r->err.kind);
    coto_auto_buf out = {0};

    if (r->answer.json) {
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
    (void)coto_fd_write_all(r->answer.json ? 1 : 2, coto_buf_str(&out), out.len);
    return info->exit_code;
}

static size_t on_data(char *data, size_t size, size_t count, void *arg)
{
    struct remote *r = arg;
    const char *type = NULL;

    curl_easy_getinfo(r->curl, CURLINFO_CONTENT_TYPE, &type);
    r->is_stream = type && strncmp(type, EVENTS, strlen(EVENTS)) == 0;
    if (coto_remote_answer_add(&r->answer, data, size * count, r->is_stream, &r->err))
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

static int refuse_token(struct remote *r, const char *path)
{
    coto_err_set(&r->err, COTO_ERR_INPUT, 0, "--token-file '%s': no token in it", path);
    return coto_err_remedy(&r->err, "it must be one line, the token");
}

static int set_token(struct remote *r)
{
    const char *path = r->argv[ARG_TOKEN];
    coto_auto_buf line = {0};
    char token[8300];

    if (!*path)
        return 0;
    if (coto_file_read_at(AT_FDCWD, path, token, sizeof token) < 0) {
        coto_err_set(&r->err, COTO_ERR_INPUT, errno, "--token-file '%s'", path);
        return coto_err_remedy(&r->err, "coto serve says at its start where the token is; coto token mint makes one of a service");
    }
    for (const char *c = token; c == token || *c; c++) /* an empty one, too */
        if (*c <= ' ' || *c > '~')
            return refuse_token(r, path);
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
        curl_slist_append(r->headers, r->answer.json ? "Accept: application/json" : "Accept: " EVENTS);
    if (set_server(r, url) || set_token(r))
        return -1;
    curl_easy_setopt(r->curl, CURLOPT_HTTPHEADER, r->headers);
    curl_easy_setopt(r->curl, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)r->request.len);
    curl_easy_setopt(r->curl, CURLOPT_POSTFIELDS, coto_buf_str(&r->request));
    curl_easy_setopt(r->curl, CURLOPT_WRITEFUNCTION, on_data);
    curl_easy_setopt(r->curl, CURLOPT_WRITEDATA, r);
    curl_easy_setopt(r->curl, CURLOPT_CONNECTTIMEOUT, 10L);
    /* A program may say nothing for hours; a service whose host is gone never will again. */
    curl_easy_setopt(r->curl, CURLOPT_TCP_KEEPALIVE, 1L);
    curl_easy_setopt(r->curl, CURLOPT_TCP_KEEPIDLE, 30L);
    curl_easy_setopt(r->curl, CURLOPT_TCP_KEEPINTVL, 10L);
    curl_easy_setopt(r->curl, CURLOPT_NOSIGNAL, 1L);
    return 0;
}

/* ---- being interrupted ---- */

static volatile sig_atomic_t interrupted;

static void on_signal(int signo)
{
    interrupted = signo;
}

static int is_interrupted(void *arg, curl_off_t a, curl_off_t b, curl_off_t c, curl_off_t d)
{
    (void)arg, (void)a, (void)b, (void)c, (void)d;
    return interrupted;
}

/* What is ignored stays so, as nohup wants it. */
static void set_handlers(void (*from)(int), void (*to)(int))
{
    static const int signals[] = {SIGINT, SIGTERM, SIGHUP};
    const struct sigaction action = {.sa_handler = to};
    struct sigaction before;

    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++)
        if (sigaction(signals[i], NULL, &before) == 0 && before.sa_handler == from)
            sigaction(signals[i], &action, NULL);
}

/* Whoever reads an object gets one. The service sees the connection end, and ends the run. */
static void hear_signals(struct remote *r)
{
    set_handlers(SIG_DFL, on_signal);
    curl_easy_setopt(r->curl, CURLOPT_NOPROGRESS, 0L);
    curl_easy_setopt(r->curl, CURLOPT_XFERINFOFUNCTION, is_interrupted);
}

static int tell_interrupted(struct remote *r)
{
    coto_err_set(&r->err, COTO_ERR_UNAVAILABLE, 0, "%s: interrupted by signal %d; the service ends the run",
                 r->argv[ARG_SERVER], (int)interrupted);
    coto_err_remedy(&r->err, "run it again; without --json the output so far is shown");
    fail(r);
    return 128 + (int)interrupted;
}

/* Whose token was not good is told so by the service; who sent none, how to name one here. */
static void explain_token(struct remote *r)
{
    const char *path = r->argv[ARG_TOKEN];

    if (!*path)
        coto_err_remedy(&r->err, "name the file with your token: --token-file FILE (coto serve says at "
                                 "its start where its own is)");
    else if (!r->err.remedy[0])
        coto_err_remedy(&r->err, "the one in '%.200s' is not good", path);
}

/* Behind the host; or there is none. */
static const char *path_of(const char *server)
{
    const char *host = strstr(server, "://");
    const char *path = host ? strchr(host + 3, '/') : NULL;

    return path && path[1] ? path : NULL;
}

static void explain_address(struct remote *r)
{
    const char *server = r->argv[ARG_SERVER], *path = path_of(server);

    if (!path)
        return;
    coto_err_set(&r->err, COTO_ERR_UNAVAILABLE, 0, "%s: there is no service below '%.100s'", server, path);
    coto_err_remedy(&r->err, "leave the path out, unless a proxy has one for the service: --server %.*s", (int)(path - server), server);
}

static int run(struct remote *r)
{
    coto_auto_buf url = {0};
    char why[CURL_ERROR_SIZE] = "";
    long status = 0;
    const struct coto_remote_given given = {.server = r->argv[ARG_SERVER],
                                            .ca = r->argv[ARG_CA],
                                            .certificate = r->argv[ARG_CERT],
                                            .key = r->argv[ARG_KEY]};

    if (prepare(r, &url) || coto_remote_check_files(&given, &r->err))
        return fail(r);
    curl_easy_setopt(r->curl, CURLOPT_ERRORBUFFER, why);
    if (r->answer.json)
        hear_signals(r);
    CURLcode code = curl_easy_perform(r->curl);
    set_handlers(on_signal, SIG_DFL); /* whoever does not read what is written now is not waited for */
    curl_easy_getinfo(r->curl, CURLINFO_RESPONSE_CODE, &status);
    if (interrupted && code == CURLE_ABORTED_BY_CALLBACK)
        return tell_interrupted(r);
    if (!r->err.kind && code != CURLE_OK) {
        coto_remote_explain(&given, r->curl, code, *why ? why : curl_easy_strerror(code), &r->err);
    } else if (!r->err.kind && !r->is_stream) {
        coto_remote_answer_end(&r->answer, status, &r->err);
        if (status == 401)
            explain_token(r);
        if (status == 404)
            explain_address(r);
    }
    if (!r->err.kind && !r->answer.has_result)
        coto_err_set(&r->err, COTO_ERR_UNAVAILABLE, 0, "%s: it broke off", r->argv[ARG_SERVER]);
    return r->err.kind ? fail(r) : r->answer.exit_status;
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
    r.answer = (struct coto_remote_answer){
        .artifacts.dirfd = *argv[ARG_ARTIFACTS] ? atoi(argv[ARG_ARTIFACTS]) : -1,
        .json = strcmp(argv[ARG_JSON], "json") == 0,
        .raw = *argv[ARG_RAW],
        .quiet = *argv[ARG_QUIET],
        .fds = {1, 2}};
    curl_global_init(CURL_GLOBAL_DEFAULT);
    return run(&r);
}
