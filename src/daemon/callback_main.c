/* coto-callback --control=FD --uid=N --gid=N --key=FILE ORIGIN...
 *
 * Theory of operation. A child of the front, and the only part of the service that connects to
 * anybody. It reads the key, becomes the front's user behind the same walls, then takes calls
 * (daemon/callback.h) and forks for each: libcurl reads what a stranger answers in a process
 * that has nothing else to do. Whatever the front says, only the named origins are called,
 * no redirect is followed and no proxy used. It ends with the front, and starts again when it dies.
 *
 * A receiver that does not answer takes half a minute. So a tenant has some of the calls at once and
 * some of the places to wait for one: others are called while his are waiting.
 */
#include "base/clock.h"
#include "base/fd.h"
#include "base/str.h"
#include "daemon/callback.h"
#include "daemon/confine.h"

#include <curl/curl.h>
#include <errno.h>
#include <fcntl.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define CALLS_MAX 32 /* at once */
#define TENANT_CALLS 24
#define WAITING_MAX 2048
#define TENANT_WAITING 256
#define LOOK_MS 20 /* between looks for calls that have ended, while others wait */
#define TRIES 3
#define REPLY_MAX 65536
#define SAY_US 60000000

struct waiting {
    struct waiting *next;
    const char *url, *body;
    char tenant[]; /* then the other two */
};

struct callback {
    int control_fd;
    unsigned uid, gid;
    const char *key_file;
    struct coto_buf key;
    char **origins;
    struct {
        pid_t pid; /* 0: free */
        const char *origin;
        char tenant[160];
    } calls[CALLS_MAX];
    struct waiting *first;
    unsigned lost, unsaid; /* that the front, and people, were not told of yet */
    int64_t said_us;
    unsigned failed; /* that people were not told of yet; the last of them */
    const char *failed_origin;
    int failed_status;
    int64_t said_failed_us;
};

/* ---- one call, in a process of its own ---- */

static size_t drop(char *data, size_t size, size_t count, void *arg)
{
    size_t *seen = arg;

    (void)data;
    *seen += size * count;
    return *seen > REPLY_MAX ? 0 : size * count;
}

static void sign(const struct callback *c, const char *body, char *to, size_t size)
{
    coto_auto_buf text = {0};
    unsigned char mac[EVP_MAX_MD_SIZE];
    unsigned len = 0;
    long long now = (long long)time(NULL);
    char hex[2 * EVP_MAX_MD_SIZE + 1] = "";

    coto_buf_addf(&text, "%lld.%s", now, body);
    HMAC(EVP_sha256(), c->key.data, (int)c->key.len, (unsigned char *)text.data, text.len, mac,
         &len);
    for (unsigned i = 0; i < len; i++)
        snprintf(hex + 2 * (size_t)i, 3, "%02x", mac[i]);
    snprintf(to, size, "Coto-Signature: t=%lld,v1=%s", now, hex);
}

static void set_up(CURL *curl, const char *url, const char *body, struct curl_slist *fields,
                   size_t *seen)
{
    curl_easy_setopt(curl, CURLOPT_URL, url);
    curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(curl, CURLOPT_FOLLOWLOCATION, 0L);
    curl_easy_setopt(curl, CURLOPT_PROXY, "");
    curl_easy_setopt(curl, CURLOPT_NETRC, (long)CURL_NETRC_IGNORED);
    curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT, 5L);
    curl_easy_setopt(curl, CURLOPT_TIMEOUT, 10L);
    curl_easy_setopt(curl, CURLOPT_USERAGENT, "coto");
    curl_easy_setopt(curl, CURLOPT_POSTFIELDS, body);
    curl_easy_setopt(curl, CURLOPT_POSTFIELDSIZE, (long)strlen(body));
    curl_easy_setopt(curl, CURLOPT_HTTPHEADER, fields);
    curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, drop);
    curl_easy_setopt(curl, CURLOPT_WRITEDATA, seen);
}

/* The status, 0 when there was none. */
static long try_once(const struct callback *c, const char *url, const char *body)
{
    char signature[160];
    CURL *curl = curl_easy_init();
    struct curl_slist *fields = NULL;
    long status = 0;
    size_t seen = 0;

    sign(c, body, signature, sizeof signature);
    fields = curl_slist_append(fields, "Content-Type: application/json");
    fields = curl_slist_append(fields, signature);
    if (curl && fields) {
        set_up(curl, url, body, fields, &seen);
        if (curl_easy_perform(curl) == CURLE_OK)
            curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &status);
    }
    curl_slist_free_all(fields);
    curl_easy_cleanup(curl);
    return status;
}

/* The status that was answered fits into the one that a process ends with: those from 300 to 549, and 0 for none. */
#define NO_ANSWER 1
#define STATUS_BASE 298

/* What the process ends with; 0: it was taken. */
static int call(const struct callback *c, const char *url, const char *body)
{
    long status = 0;

    for (int i = 0; i < TRIES; i++) {
        if (i > 0)
            sleep(i == 1 ? 1 : 5);
        status = try_once(c, url, body);
        if (status >= 200 && status < 500 && status != 429)
            break; /* taken, or refused for good */
    }
    if (status >= 200 && status < 300)
        return 0;
    return status >= 300 && status < 550 ? (int)status - STATUS_BASE : NO_ANSWER;
}

/* ---- calls ---- */

/* NULL: it is not allowed. */
static const char *origin_of(const struct callback *c, const char *url)
{
    for (char **origin = c->origins; *origin; origin++) {
        size_t n = strlen(*origin);
        if (strncmp(url, *origin, n) == 0 && (!url[n] || url[n] == '/' || url[n] == '?'))
            return *origin;
    }
    return NULL;
}

static void note_end(struct callback *c, const char *origin, int status)
{
    int code = WIFEXITED(status) ? WEXITSTATUS(status) : NO_ANSWER;

    if (!code)
        return;
    c->failed++;
    c->failed_origin = origin;
    c->failed_status = code == NO_ANSWER ? 0 : code + STATUS_BASE;
}

static void reap(struct callback *c)
{
    for (int i = 0; i < CALLS_MAX; i++) {
        int status = 0;
        pid_t pid = c->calls[i].pid ? waitpid(c->calls[i].pid, &status, WNOHANG) : 0;
        if (pid > 0)
            note_end(c, c->calls[i].origin, status);
        if (pid != 0)
            c->calls[i].pid = 0;
    }
}

/* A place for a call of this tenant, -1 none. */
static int place_for(const struct callback *c, const char *tenant)
{
    int place = -1;
    int own = 0;

    for (int i = 0; i < CALLS_MAX; i++) {
        if (!c->calls[i].pid)
            place = i;
        else
            own += strcmp(c->calls[i].tenant, tenant) == 0;
    }
    return own < TENANT_CALLS ? place : -1;
}

static bool start(struct callback *c, const struct waiting *w, int place)
{
    pid_t pid = fork();

    if (pid == 0) {
        close(c->control_fd);
        _exit(call(c, w->url, w->body));
    }
    if (pid < 0)
        return false;
    c->calls[place].pid = pid;
    c->calls[place].origin = origin_of(c, w->url);
    snprintf(c->calls[place].tenant, sizeof c->calls[place].tenant, "%s", w->tenant);
    return true;
}

static void start_all(struct callback *c)
{
    for (struct waiting **at = &c->first; *at;) {
        struct waiting *w = *at;
        int place = place_for(c, w->tenant);
        if (place < 0 || !start(c, w, place)) { /* later */
            at = &w->next;
            continue;
        }
        *at = w->next;
        free(w);
    }
}

/* The end of the list, NULL when there is no room for another of this tenant. */
static struct waiting **end_for(struct callback *c, const char *tenant)
{
    struct waiting **at = &c->first;
    unsigned all = 0, own = 0;

    for (; *at; at = &(*at)->next) {
        all++;
        own += strcmp((*at)->tenant, tenant) == 0;
    }
    return all < WAITING_MAX && own < TENANT_WAITING ? at : NULL;
}

static void take(struct callback *c, const char *packet, size_t len)
{
    size_t tenant_len = strnlen(packet, len);
    size_t url_len = tenant_len < len ? strnlen(packet + tenant_len + 1, len - tenant_len - 1) : 0;

    if (tenant_len + 1 + url_len >= len || !origin_of(c, packet + tenant_len + 1))
        return;
    struct waiting **end = end_for(c, packet);
    struct waiting *w = end ? malloc(sizeof *w + len + 1) : NULL;
    if (!w) {
        c->lost++;
        c->unsaid++;
        return;
    }
    memcpy(w->tenant, packet, len);
    w->tenant[len] = '\0';
    w->url = w->tenant + tenant_len + 1;
    w->body = w->url + url_len + 1;
    w->next = NULL;
    *end = w;
}

/* To the front, whose counter it is; and now and then to people: a tenant must not write the log at its will. */
static void tell_lost(struct callback *c)
{
    int64_t now = coto_clock_us();

    if (c->lost && send(c->control_fd, &c->lost, sizeof c->lost, MSG_DONTWAIT | MSG_NOSIGNAL) == (ssize_t)sizeof c->lost)
        c->lost = 0;
    if (!c->unsaid || (c->said_us && now - c->said_us < SAY_US))
        return;
    fprintf(stderr, "coto serve: %u callbacks are lost, too many of their tenants wait\n", c->unsaid);
    c->said_us = now;
    c->unsaid = 0;
}

/* The first at once, then now and then, for the same reason. */
static void tell_failed(struct callback *c)
{
    int64_t now = coto_clock_us();
    const char *why = c->failed_status ? "it answered with status" : "no answer, or none of HTTP; status";

    if (!c->failed || (c->said_failed_us && now - c->said_failed_us < SAY_US))
        return;
    if (c->failed == 1)
        fprintf(stderr, "coto serve: callback to %s failed: %s %d\n", c->failed_origin, why, c->failed_status);
    else
        fprintf(stderr, "coto serve: %u callbacks failed, the last one to %s: %s %d\n", c->failed, c->failed_origin, why, c->failed_status);
    c->said_failed_us = now;
    c->failed = 0;
}

static bool is_done(const struct callback *c)
{
    for (int i = 0; i < CALLS_MAX; i++)
        if (c->calls[i].pid)
            return false;
    return !c->first;
}

static void wake(int number)
{
    (void)number; /* its coming ends the wait */
}

/* A call that ends is reaped at once: it wakes us, and only where we wait. */
static void watch_calls(sigset_t *ret_waiting)
{
    const struct sigaction action = {.sa_handler = wake};
    sigset_t child;

    sigaction(SIGCHLD, &action, NULL);
    sigemptyset(&child);
    sigaddset(&child, SIGCHLD);
    sigprocmask(SIG_BLOCK, &child, ret_waiting);
    sigdelset(ret_waiting, SIGCHLD);
}

/* A front that ends in order says so, and waits a while for what is not told yet. */
static int serve(struct callback *c)
{
    static const struct timespec look = {.tv_nsec = LOOK_MS * 1000000L};
    static char packet[COTO_CALLBACK_PACKET];
    bool ending = false;
    sigset_t waiting;

    watch_calls(&waiting);
    for (;;) {
        struct pollfd control = {.fd = ending ? -1 : c->control_fd, .events = POLLIN};
        int ready = ppoll(&control, 1, c->first || ending ? &look : NULL, &waiting);
        ssize_t n = ready > 0 ? recv(c->control_fd, packet, sizeof packet, 0) : -1;
        if ((n < 0 && ready > 0 && errno != EINTR) || (ready < 0 && errno != EINTR))
            return 0;
        ending = ending || n == 0;
        if (n > 0)
            take(c, packet, (size_t)n);
        tell_lost(c);
        reap(c);
        tell_failed(c);
        start_all(c);
        if (ending && is_done(c))
            return 0;
    }
}

/* The one that takes calls is watched by one that does nothing else: should it die, another takes what
 * comes next. */
static int watch(struct callback *c)
{
    for (;;) {
        int status;
        pid_t watcher = getpid();
        pid_t pid = fork();
        if (pid == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            _exit(getppid() == watcher ? serve(c) : 0);
        }
        while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR)
            continue;
        if (pid > 0 && WIFEXITED(status))
            return WEXITSTATUS(status);
        if (pid > 0)
            fprintf(stderr, "coto serve: coto-callback died (signal %d), another is started\n",
                    WTERMSIG(status));
        sleep(1); /* should it die at once, again and again */
    }
}

static const char *value_of(const char *arg, const char *name)
{
    size_t n = strlen(name);

    return arg && strncmp(arg, name, n) == 0 ? arg + n : "";
}

static int prepare(struct callback *c, struct coto_err *err)
{
    /* Libraries, names of hosts, certificates of authorities: wherever distributions keep them. */
    static const char *const readable[] = {"/etc", "/usr", "/lib", "/lib64", "/run/systemd/resolve", "/run/resolvconf",
                                           "/run/NetworkManager", "/run/nscd", "/var/lib/ca-certificates", NULL};
    const struct coto_confine_ask ask = {.uid = c->uid, .gid = c->gid, .readable = readable};
    struct coto_confined confined;
    coto_auto_fd fd = open(c->key_file, O_RDONLY | O_CLOEXEC);

    if (fd < 0 || coto_fd_read_all(fd, COTO_CALLBACK_KEY_MAX, &c->key))
        return coto_err_set(err, COTO_ERR_INPUT, errno, "callback-key: '%s'", c->key_file);
    coto_buf_cut_line_end(&c->key); /* nobody's idea of a key; daemon/callback.c has the same rule */
    if (c->key.len < COTO_CALLBACK_KEY_MIN)
        return coto_err_set(err, COTO_ERR_INPUT, 0, "callback-key: '%s': less than %d bytes",
                            c->key_file, COTO_CALLBACK_KEY_MIN);
    curl_global_init(CURL_GLOBAL_DEFAULT);
    return coto_confine(&ask, &confined, err);
}

int main(int argc, char **argv)
{
    struct callback c = {.origins = argv + 5};
    struct coto_err err = {0};

    if (argc < 6)
        return 64;
    c.control_fd = atoi(value_of(argv[1], "--control="));
    c.uid = (unsigned)atoi(value_of(argv[2], "--uid="));
    c.gid = (unsigned)atoi(value_of(argv[3], "--gid="));
    c.key_file = value_of(argv[4], "--key=");
    if (c.control_fd < 3)
        return 64;
    fcntl(c.control_fd, F_SETFD, FD_CLOEXEC);
    /* A key press, or the end of a terminal, is for the keeper: we end with the front. */
    signal(SIGINT, SIG_IGN);
    signal(SIGTERM, SIG_IGN);
    signal(SIGHUP, SIG_IGN);
    if (prepare(&c, &err)) {
        fprintf(stderr, "coto serve: %s\n", err.text);
        return 70;
    }
    if (send(c.control_fd, "", 1, MSG_NOSIGNAL) != 1)
        return 70;
    return watch(&c);
}
