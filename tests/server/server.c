/* coto-http-test: a server for tests/server, nothing but src/http and what provokes it.
 *
 *   coto-http-test [LIMIT=NUMBER | tls=CERT,KEY[,CLIENT_CA[,CRL]] | listen=WHERE | listen-fd=N]...
 *
 * tls= applies to the listeners after it. Prints one line per listener, then "ready".
 * SIGHUP reloads certificates, SIGTERM drains.
 */
#include "http/server.h"
#include "http/tls.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <unistd.h>

#define MiB (1024u * 1024)

static struct coto_loop *loop;
static struct coto_http *server;
static struct coto_tls *tls;
static unsigned long gone_count;

static const char hello[] =
    "{\"message\":\"a body of two hundred bytes, the size of a small result\",\"padding\":\""
    "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"
    "xxxxxxxxxxxxxxxxxx\"}";

/* What a request keeps while it is not answered. */
struct job {
    struct coto_http_request *request;
    uint64_t timer;
    unsigned long left, count;
    char fill[1000];
};

static struct job *job_new(struct coto_http_request *request)
{
    struct job *job = calloc(1, sizeof *job);

    if (!job)
        abort();
    job->request = request;
    memset(job->fill, 'x', sizeof job->fill);
    return job;
}

static void on_gone(struct coto_http_request *request, void *arg)
{
    struct job *job = arg;

    (void)request;
    gone_count++;
    coto_loop_cancel(loop, job->timer);
    free(job);
}

static unsigned long number(struct coto_http_request *request, const char *name)
{
    char value[32];

    return coto_http_query_get(request, name, value, sizeof value) == 1 ? strtoul(value, NULL, 10)
                                                                      : 0;
}

static void text(struct coto_http_request *request, int status, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
static void text(struct coto_http_request *request, int status, const char *fmt, ...)
{
    coto_auto_buf buf = {0};
    va_list ap;

    va_start(ap, fmt);
    coto_buf_vaddf(&buf, fmt, ap);
    va_end(ap);
    coto_http_reply(request, status, "text/plain", buf.data, buf.len);
}

/* ---- /hello, /path, /peer, /stats ---- */

static void do_hello(struct coto_http_request *request)
{
    coto_http_reply(request, 200, "application/json", hello, sizeof hello - 1);
}

static void do_path(struct coto_http_request *request)
{
    const char *header = coto_http_header(request, "X-TEST");
    char value[64] = "";
    int found = coto_http_query_get(request, "q", value, sizeof value);

    coto_http_add_header(request, "X-Fine", "yes");
    coto_http_add_header(request, "X-Split", "a\r\nX-Injected: yes");
    text(request, 200, "%s\n%s\n%s\n%d %s\n%s\n", coto_http_method(request),
         coto_http_path(request), coto_http_query(request), found, found == 1 ? value : "",
         header ? header : "-");
}

static void do_peer(struct coto_http_request *request)
{
    const struct coto_http_peer *peer = coto_http_peer(request);

    text(request, 200, "%s\n%d %d %d\n%d\n%s\n%s\n%s\n", peer->address, peer->uid, peer->gid,
         peer->pid, peer->is_tls, peer->cn, peer->san, peer->serial);
}

static void do_stats(struct coto_http_request *request)
{
    const struct coto_http_stats *stats = coto_http_stats(server);
    struct rusage usage;

    getrusage(RUSAGE_SELF, &usage);
    text(request, 200,
         "{\"connections\":%lu,\"accepted\":%lu,\"refused\":%lu,\"requests\":%lu,\"bad\":%lu,"
         "\"dropped\":%lu,\"handshakes_failed\":%lu,\"gone\":%lu,\"cpu_us\":%lld}",
         stats->connections, stats->accepted, stats->refused, stats->requests, stats->bad,
         stats->dropped, stats->handshakes_failed, gone_count,
         (usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1000000LL + usage.ru_utime.tv_usec +
             usage.ru_stime.tv_usec);
}

/* ---- bodies ---- */

static void on_echo(struct coto_http_request *request, void *arg)
{
    size_t len;
    const char *body = coto_http_body(request, &len);

    (void)arg;
    coto_http_reply(request, 200, "application/octet-stream", body, len);
}

static void do_echo(struct coto_http_request *request)
{
    coto_http_collect(request, MiB, on_echo, NULL);
}

static void ask_late(void *arg)
{
    struct job *job = arg;

    coto_http_on_gone(job->request, NULL, NULL);
    coto_http_collect(job->request, MiB, on_echo, NULL);
    free(job);
}

/* Asks for the body only after a while. */
static void do_echo_late(struct coto_http_request *request)
{
    struct job *job = job_new(request);

    job->timer = coto_loop_timer(loop, 20, ask_late, job);
    coto_http_on_gone(request, on_gone, job);
}

static void resume(void *arg)
{
    struct job *job = arg;

    job->timer = 0;
    coto_http_pause(job->request, false);
}

static int on_piece(struct coto_http_request *request, const void *data, size_t len, void *arg)
{
    struct job *job = arg;

    if (len == 0) {
        text(request, 200, "%lu\n", job->count);
        free(job);
        return 0;
    }
    job->count += len;
    if (job->left) { /* a slow sink */
        coto_http_pause(request, true);
        job->timer = coto_loop_timer(loop, (int64_t)job->left, resume, job);
    }
    return memchr(data, '!', len) ? -1 : 0;
}

static void do_count(struct coto_http_request *request)
{
    struct job *job = job_new(request);

    job->left = number(request, "pause");
    coto_http_on_gone(request, on_gone, job);
    coto_http_sink(request, 64 * MiB, on_piece, job);
}

/* ---- later, streams ---- */

static void on_late(void *arg)
{
    struct job *job = arg;

    do_hello(job->request);
    free(job);
}

static void do_later(struct coto_http_request *request)
{
    struct job *job = job_new(request);

    coto_http_on_gone(request, on_gone, job);
    job->timer = coto_loop_timer(loop, (int64_t)number(request, "ms"), on_late, job);
}

static void on_tick(void *arg)
{
    struct job *job = arg;

    coto_http_event(job->request, "tick", "one\r\ntwo\n", 8);
    coto_http_event(job->request, NULL, NULL, 0);
    if (--job->left > 0) {
        job->timer = coto_loop_timer(loop, 10, on_tick, job);
        return;
    }
    coto_http_finish(job->request);
    free(job);
}

static void do_events(struct coto_http_request *request)
{
    struct job *job = job_new(request);

    job->left = number(request, "n");
    coto_http_on_gone(request, on_gone, job);
    coto_http_stream(request, 200, COTO_HTTP_EVENTS, -1);
    on_tick(job);
}

/* Writes without ever looking whether the client reads. */
static void on_flood(void *arg)
{
    struct job *job = arg;

    job->timer = 0;
    for (int i = 0; i < 100; i++)
        if (coto_http_write(job->request, job->fill, sizeof job->fill) < 0)
            return; /* on_gone comes */
    job->timer = coto_loop_timer(loop, 0, on_flood, job);
}

static void do_flood(struct coto_http_request *request)
{
    struct job *job = job_new(request);

    coto_http_on_gone(request, on_gone, job);
    coto_http_stream(request, 200, "text/plain", -1);
    on_flood(job);
}

/* Writes as fast as the client reads. */
static void on_room(struct coto_http_request *request, void *arg)
{
    struct job *job = arg;

    while (job->left > 0 && coto_http_unsent(request) < 65536) {
        size_t len = job->left < sizeof job->fill ? job->left : sizeof job->fill;
        if (coto_http_write(request, job->fill, len) < 0)
            return;
        job->left -= len;
    }
    if (job->left > 0) {
        coto_http_on_sent(request, on_room, job);
        return;
    }
    coto_http_finish(request);
    free(job);
}

static void do_download(struct coto_http_request *request)
{
    struct job *job = job_new(request);
    unsigned long bytes = number(request, "bytes");

    job->left = bytes - number(request, "short");
    coto_http_on_gone(request, on_gone, job);
    coto_http_stream(request, 200, "text/plain", number(request, "chunked") ? -1 : (int64_t)bytes);
    on_room(request, job);
}

static const struct {
    const char *path;
    void (*fn)(struct coto_http_request *request);
} routes[] = {
    {"/hello", do_hello}, {"/path/", do_path},          {"/peer", do_peer},
    {"/stats", do_stats}, {"/echo-late", do_echo_late}, {"/echo", do_echo},
    {"/count", do_count}, {"/later", do_later},         {"/events", do_events},
    {"/flood", do_flood}, {"/download", do_download},   {"/open", do_hello},
};

static void on_request(struct coto_http_request *request, void *arg)
{
    (void)arg;
    if (strcmp(coto_http_path(request), "/open") != 0) /* which is for strangers */
        coto_http_vouch(request);
    for (size_t i = 0; i < sizeof routes / sizeof *routes; i++)
        if (coto_str_has_prefix(coto_http_path(request), routes[i].path)) {
            routes[i].fn(request);
            return;
        }
    text(request, 404, "not found\n");
}

/* ---- the program ---- */

static void on_drained(void *arg)
{
    (void)arg;
    coto_loop_stop(loop);
}

static void on_signal(void *arg, uint32_t events)
{
    int fd = *(int *)arg;
    struct signalfd_siginfo info;
    struct coto_err err;

    (void)events;
    if (read(fd, &info, sizeof info) != sizeof info)
        return;
    if (info.ssi_signo == SIGTERM) {
        coto_http_drain(server, on_drained, NULL);
        return;
    }
    int result = tls ? coto_tls_reload(tls, &err) : 0;
    coto_http_recycle(server, tls);
    printf("reload: %s\n", result < 0 ? err.text : "ok");
    fflush(stdout);
}

static int make_tls(char *files, struct coto_err *err)
{
    struct coto_tls_config config = {.certificate = strtok(files, ",")};

    config.key = strtok(NULL, ",");
    config.client_ca = strtok(NULL, ",");
    config.crl = strtok(NULL, ",");
    coto_tls_free(tls);
    tls = NULL;
    return coto_tls_new(&config, &tls, err);
}

static int set_limit(struct coto_http_limits *limits, const char *name, const char *value)
{
    const struct {
        const char *name;
        unsigned *limit;
    } table[] = {
        {"head_bytes", &limits->head_bytes}, {"headers", &limits->headers},
        {"connections", &limits->connections}, {"per_peer", &limits->connections_per_peer},
        {"head_ms", &limits->head_ms}, {"body_ms", &limits->body_ms},
        {"idle_ms", &limits->idle_ms}, {"write_ms", &limits->write_ms},
        {"out_bytes", &limits->out_bytes},
    };

    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (strcmp(name, table[i].name) == 0) {
            *table[i].limit = (unsigned)strtoul(value, NULL, 10);
            return 0;
        }
    return -1;
}

static int take_argument(char *argument, struct coto_http_config *config, struct coto_err *err)
{
    char where[COTO_HTTP_ADDRESS];
    char *value = strchr(argument, '=');

    if (!value)
        return coto_err_set(err, COTO_ERR_USAGE, 0, "%s: no value", argument);
    *value++ = '\0';
    if (set_limit(&config->limits, argument, value) == 0)
        return 0;
    if (strcmp(argument, "tls") == 0)
        return make_tls(value, err);
    if (!server && coto_http_new(config, &server, err) < 0)
        return -1;
    if (strcmp(argument, "listen-fd") == 0)
        return coto_http_listen_fd(server, atoi(value), tls, err);
    if (coto_http_listen(server, value, tls, where, err) < 0)
        return -1;
    printf("%s\n", where);
    return 0;
}

int main(int argc, char **argv)
{
    struct coto_err err = {0};
    sigset_t signals;

    sigemptyset(&signals);
    sigaddset(&signals, SIGTERM);
    sigaddset(&signals, SIGHUP);
    sigprocmask(SIG_BLOCK, &signals, NULL);
    int signal_fd = signalfd(-1, &signals, SFD_CLOEXEC);
    int result = coto_loop_new(&loop, &err);
    struct coto_http_config config = {.loop = loop, .handler = on_request};
    for (int i = 1; i < argc && result == 0; i++)
        result = take_argument(argv[i], &config, &err);
    if (result == 0 && coto_loop_add(loop, signal_fd, EPOLLIN, on_signal, &signal_fd) == 0) {
        printf("ready\n");
        fflush(stdout);
        result = coto_loop_run(loop, &err);
    }
    if (result < 0)
        fprintf(stderr, "coto-http-test: %s\n%s\n", err.text, err.remedy);
    coto_http_free(server);
    coto_tls_free(tls);
    coto_loop_free(loop);
    return result < 0 ? 1 : 0;
}
