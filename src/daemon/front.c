/* Theory of operation: see keeper.c for the processes, api/api.h for the threads.
 *
 * The order matters. As the keeper's fork it still has the keeper's rights: it does nothing
 * with them but hand over what it was given (sockets, channels, sealed copies of keys).
 * Then it confines itself, and only then reads keys, records and requests. */
#include "daemon/front.h"

#include "api/api.h"
#include "auth/keys.h"
#include "base/fd.h"
#include "daemon/callback.h"
#include "daemon/ceiling.h"
#include "daemon/confine.h"
#include "daemon/high.h"
#include "daemon/keeper.h"
#include "daemon/pages.h"
#include "daemon/state.h"
#include "daemon/talk.h"
#include "http/tls.h"
#include "kernel/self.h"
#include "policy/helper.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <unistd.h>

#define RESIDENT_BYTES 65536
#define LISTS_BYTES ((size_t)4 << 20)
#define TOLD_US 2000000
#define TOLD_EVERY_MS 5
#define REST_EVERY_MS 10
#define CUT_MS 2000   /* for what is cancelled at the end to be over */
#define REPLY_MS 1000 /* and for the last replies to be taken */

struct front {
    const struct coto_front_ask *ask;
    struct coto_settings *settings;
    struct coto_loop *loop;
    struct coto_http *http;
    struct coto_api *api;
    struct coto_tls *tls;
    struct coto_keys *keys;
    struct coto_records *records;
    int signal_fd;
    int callback_fd; /* to coto-callback, -1 none */
    char state[4096];
    int claim_fd; /* of the state directory */
    struct coto_confined confined;
    struct coto_policy ceiling;
    struct coto_buf resident; /* "": there is none */
    int64_t told_us;          /* how long ends are waited for, at the end */
    uint64_t end_timer, rest_timer;
    bool is_cut, is_closed; /* what ran too long was cancelled; nobody is let in any more */
    bool is_high_warm; /* the launcher was told to keep containers ready */
};

/* ---- the pool ---- */

static int make_pool_plan(const struct front *f, const struct coto_api_high *high,
                          struct coto_policy *policy, struct coto_plan *ret_plan,
                          struct coto_err *err)
{
    const struct coto_source_code nothing = {.text = "", .is_image_elsewhere = true};

    if (coto_policy_init(policy, err) ||
        coto_policy_apply_profile(policy, coto_settings_text(f->settings, COTO_SET_PROFILE), err) ||
        coto_ceiling_apply(&f->ceiling, policy, err) ||
        coto_policy_set(policy, COTO_OPT_LANG, "python", COTO_SOURCE_PROFILE, "pool", err) ||
        (high && coto_api_set_high(high, policy, err)) ||
        coto_plan_make(policy, &nothing, ret_plan, err))
        return -1;
    api_plan_parked(ret_plan, false);
    return 0;
}

/* Whether the operator's own sandboxes have no interpreter waiting: he says so, or his profile. */
static bool is_cold(const struct front *f)
{
    struct coto_policy policy;
    struct coto_err err = {0};
    bool is = coto_policy_init(&policy, &err) == 0 &&
              coto_policy_apply_profile(&policy, coto_settings_text(f->settings, COTO_SET_PROFILE), &err) == 0 &&
              coto_ceiling_apply(&f->ceiling, &policy, &err) == 0 && coto_policy_num(&policy, COTO_OPT_COLD);

    coto_policy_fini(&policy);
    return is;
}

static int warm_level(const struct front *f, int control_fd, const struct coto_api_high *high,
                      struct coto_err *err)
{
    const int64_t *num = f->settings->num;
    struct coto_policy policy;
    struct coto_plan plan = {.rootfs = {.fd = -1}};
    const struct coto_launch_keep keep = {.min = high ? high->pool_min : (unsigned)num[COTO_SET_POOL_MIN],
                                          .max = high ? high->pool_max : (unsigned)num[COTO_SET_POOL_MAX],
                                          .wait_ms = num[COTO_SET_POOL_WAIT]};
    int failed = make_pool_plan(f, high, &policy, &plan, err) ||
                 coto_launch_warm(control_fd, &plan, &keep, err);

    coto_plan_fini(&plan);
    coto_policy_fini(&policy);
    return failed ? -1 : 0;
}

static bool has_standard(const struct coto_settings *settings)
{
    return coto_ceiling_has_word((const char *const *)settings->text[COTO_SET_ALLOW_ISOLATION].items, "standard");
}

/* Containers only where the operator wants some ready; a host that has none says so when it is
 * asked for one. */
static int warm(struct front *f, int control_fd, struct coto_err *err)
{
    const struct coto_api_high high = coto_high_of(f->settings);

    if (has_standard(f->settings) && warm_level(f, control_fd, NULL, err))
        return -1;
    if (high.isolation == COTO_ISOLATION_PROCESS || (!high.pool_min && !f->is_high_warm))
        return 0;
    f->is_high_warm = high.pool_min > 0;
    return warm_level(f, control_fd, &high, err);
}

/* ---- what the keeper says ---- */

static void complain(struct coto_err *err, const char *what)
{
    coto_err_wrap(err, "%s", what);
    coto_keeper_fail(err);
}

/* Warmed before workers can reach it: the control channel is nobody's yet. */
static void take_launcher(struct front *f, int control_fd)
{
    struct coto_err err = {0};

    if (warm(f, control_fd, &err))
        complain(&err, "warm the pool");
    coto_api_set_launcher(f->api, control_fd);
}

/* Nobody has all there are, whatever the operator wrote. */
static unsigned per_tenant(const int64_t *num)
{
    unsigned share = api_share_of((unsigned)num[COTO_SET_MAX_SANDBOXES]);

    return num[COTO_SET_TENANT_SANDBOXES] < share ? (unsigned)num[COTO_SET_TENANT_SANDBOXES] : share;
}

/* Who is let in is in them: with half of a list nobody is served. */
static void take_texts(struct front *f, enum coto_setting_when when, int fd)
{
    coto_auto_fd texts = fd;
    coto_auto_buf pairs = {0};
    struct coto_err err = {0};

    if (coto_fd_read_all(texts, LISTS_BYTES, &pairs))
        coto_err_set(&err, COTO_ERR_SYSTEM, errno, "lists");
    if (err.kind || coto_settings_take_texts(f->settings, when, &pairs, &err)) {
        complain(&err, "reload settings");
        _exit(70); /* the next front starts with them */
    }
    f->api->config.client_names = (const char *const *)f->settings->text[COTO_SET_CLIENT_NAMES].items;
}

static void take_numbers(struct front *f, const struct coto_message *message)
{
    struct coto_api_config *c = &f->api->config;
    struct coto_err err = {0};
    const int64_t *num = f->settings->num;

    if (message->len != sizeof f->settings->num || message->fd_count != 1)
        _exit(70); /* no descriptor was free for the lists: the next front starts with them */
    take_texts(f, COTO_SETTING_LIVE, message->fds[0]);
    memcpy(f->settings->num, message->data, message->len);
    c->queue = (unsigned)num[COTO_SET_QUEUE];
    c->pool_max = (unsigned)num[COTO_SET_POOL_MAX];
    c->pool_wait_ms = num[COTO_SET_POOL_WAIT];
    c->high.pool_min = (unsigned)num[COTO_SET_HIGH_POOL_MIN];
    c->high.pool_max = (unsigned)num[COTO_SET_HIGH_POOL_MAX];
    c->lifetime_ms = num[COTO_SET_LIFETIME];
    c->idle_ms = num[COTO_SET_IDLE];
    c->boxes_per_tenant = api_share_of((unsigned)num[COTO_SET_MAX_SANDBOXES]);
    c->destroys = num[COTO_SET_AFTER_EXECUTION];
    c->binds_tokens = num[COTO_SET_BIND_TOKENS];
    c->sandboxes_per_tenant = per_tenant(num);
    c->tenant_requests = (unsigned)num[COTO_SET_TENANT_REQUESTS];
    c->tenant_bodies = num[COTO_SET_TENANT_BODIES] * COTO_MB;
    c->tenant_unread = num[COTO_SET_TENANT_UNREAD] * COTO_MB;
    c->tenant_rate = (unsigned)num[COTO_SET_TENANT_RATE];
    c->tenant_burst = (unsigned)num[COTO_SET_TENANT_BURST];
    /* Without the lock, with which a worker may wait for the launcher: only this thread ever replaces it. */
    if (warm(f, f->api->control_fd, &err))
        complain(&err, "reload the pool");
    f->api->pool_turn++; /* other kinds hear of it when they are asked for again */
}

/* ---- keys and certificates ---- */

/* Paths of their copies, as keys and TLS want them. */
struct copies {
    char paths[COTO_FILES_MAX][COTO_FILES_PATH];
    const char *jwt[COTO_FILES_JWT + 1];
    struct coto_tls_config tls;
    bool has_tls;
};

static void find_copies(const struct coto_files *files, struct copies *to)
{
    char(*paths)[COTO_FILES_PATH] = to->paths;

    *to = (struct copies){0};
    for (int i = 0; i < files->count; i++)
        coto_files_path(files, i, paths[i]);
    for (int i = COTO_FILE_JWT; i < files->count; i++)
        to->jwt[i - COTO_FILE_JWT] = paths[i];
    to->tls = (struct coto_tls_config){paths[COTO_FILE_CERTIFICATE], paths[COTO_FILE_KEY], paths[COTO_FILE_CA],
                                       paths[COTO_FILE_CRL][0] ? paths[COTO_FILE_CRL] : NULL};
    to->has_tls = to->tls.certificate[0] && to->tls.client_ca[0];
}

static const char *const *jwt_names(const struct front *f)
{
    return (const char *const *)f->settings->text[COTO_SET_JWT_KEY].items;
}

static int open_keys(struct front *f, struct coto_err *err)
{
    struct copies copies;
    const char *iss = coto_settings_text(f->settings, COTO_SET_JWT_ISSUER);

    find_copies(f->ask->files, &copies);
    const struct coto_keys_config keys = {.files = copies.jwt,
                                          .names = jwt_names(f),
                                          .aud = coto_settings_text(f->settings, COTO_SET_JWT_AUDIENCE),
                                          .iss = *iss ? iss : NULL,
                                          .own = f->ask->secret,
                                          .skew_s = -1};
    if (coto_keys_new(&keys, &f->keys, err))
        return -1;
    return copies.has_tls ? coto_tls_new(&copies.tls, &f->tls, err) : 0;
}

/* Connections made with a certificate that may be revoked now have to show it again. */
static void take_files(struct front *f, const struct coto_message *message)
{
    struct copies copies;
    struct coto_err err = {0};
    int count = message->fd_count - 1;

    if (count < 0 || (size_t)count != message->len)
        _exit(70);
    take_texts(f, COTO_SETTING_FILE, message->fds[0]);
    if (coto_files_take(f->ask->files, message->fds + 1, message->data, count) ||
        f->ask->files->count - COTO_FILE_JWT != (int)f->settings->text[COTO_SET_JWT_KEY].count)
        _exit(70); /* the next front starts with the right ones */
    find_copies(f->ask->files, &copies);
    /* The keeper has found them good, so this is want of memory or of descriptors; who was revoked must not be let in for that. */
    if (coto_keys_change(f->keys, copies.jwt, jwt_names(f), &err) ||
        (f->tls && copies.has_tls && coto_tls_change(f->tls, &copies.tls, &err))) {
        complain(&err, "reload keys and certificates");
        _exit(70); /* the next front starts with them */
    }
    if (f->http && f->tls)
        coto_http_recycle(f->http, f->tls);
}

static void on_keeper(void *arg, uint32_t events)
{
    struct front *f = arg;
    struct coto_message message;

    (void)events;
    if (coto_talk_receive(f->ask->keeper_fd, &message) <= 0)
        _exit(70); /* without a keeper there is no service */
    if (message.what == COTO_TALK_LAUNCHER && message.fd_count != 1)
        _exit(70); /* nor was one for its channel; the next front starts with it */
    if (message.what == COTO_TALK_LAUNCHER)
        take_launcher(f, message.fds[0]);
    else if (message.what == COTO_TALK_FILES)
        take_files(f, &message);
    else if (message.what == COTO_TALK_NUMBERS)
        take_numbers(f, &message);
}

/* ---- the end ---- */

static void stop(void *arg)
{
    struct front *f = arg;

    coto_loop_stop(f->loop);
}

static void end_in(struct front *f, int64_t ms, coto_loop_fn *fn)
{
    coto_loop_cancel(f->loop, f->end_timer);
    f->end_timer = coto_loop_timer(f->loop, ms, fn, f);
}

/* Whoever comes meanwhile is served, as far as nothing begins with that; then no more. */
static void wait_for_rest(void *arg)
{
    struct front *f = arg;

    f->rest_timer = 0;
    if (api_running_any(f->api)) {
        if (f->is_cut) /* also what has begun since: its request was there before the end */
            api_end_running(f->api);
        f->rest_timer = coto_loop_timer(f->loop, REST_EVERY_MS, wait_for_rest, f);
        return;
    }
    if (f->is_closed) {
        stop(f);
        return;
    }
    f->is_closed = true;
    if (f->is_cut)
        end_in(f, REPLY_MS, stop);
    coto_http_drain(f->http, wait_for_rest, f);
}

static void cut(void *arg)
{
    struct front *f = arg;

    f->is_cut = true;
    if (api_running_any(f->api))
        fprintf(stderr, "coto serve: executions still run; they are ended\n");
    api_end_running(f->api);
    end_in(f, f->is_closed ? REPLY_MS : CUT_MS, stop);
}

static void on_signal(void *arg, uint32_t events)
{
    struct front *f = arg;
    struct signalfd_siginfo info;

    (void)events;
    if (read(f->signal_fd, &info, sizeof info) != (ssize_t)sizeof info || f->api->draining || !f->http)
        return;
    f->api->draining = true;
    fprintf(stderr, "coto serve: ending; running executions are waited for\n");
    end_in(f, f->settings->num[COTO_SET_DRAIN], cut);
    wait_for_rest(f);
}

/* Their ends are told once they are on the disk. */
static void stop_when_told(void *arg)
{
    struct front *f = arg;

    if (api_running_any(f->api) && coto_clock_us() < f->told_us)
        coto_loop_timer(f->loop, TOLD_EVERY_MS, stop_when_told, f);
    else
        stop(f);
}

/* Whoever still waits is cut off, their jobs end, and what these have to say is recorded, and told to
 * those who wanted to be called. */
static void finish(struct front *f)
{
    struct coto_err err = {0};

    coto_http_free(f->http);
    f->http = NULL; /* the keeper may still say something while the loop runs */
    if (f->api) {
        coto_loop_cancel(f->loop, f->end_timer);
        coto_loop_cancel(f->loop, f->rest_timer);
        api_workers_stop(f->api);
        f->told_us = coto_clock_us() + TOLD_US;
        coto_loop_post(f->loop, stop_when_told, f);
        coto_loop_run(f->loop, &err);
    }
    coto_api_free(f->api);
    coto_records_close(f->records);
    coto_callback_end(&f->callback_fd);
}

/* ---- the beginning ---- */

static int watch(struct front *f, struct coto_err *err)
{
    sigset_t set;

    /* Ctrl-C is for the keeper, which then tells us. */
    signal(SIGINT, SIG_IGN);
    signal(SIGHUP, SIG_IGN);
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN); /* a full disk is an error, not the end */
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigprocmask(SIG_SETMASK, &set, NULL);
    f->signal_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    if (f->signal_fd < 0 || coto_loop_add(f->loop, f->signal_fd, EPOLLIN, on_signal, f) ||
        coto_loop_add(f->loop, f->ask->keeper_fd, EPOLLIN, on_keeper, f))
        return coto_err_set(err, COTO_ERR_LIMIT, errno, "watch signals");
    return 0;
}

/* Asked of the kernel, not remembered. */
static struct coto_self look_at_self(const struct coto_confined *confined)
{
    struct coto_self self;

    coto_self_look(&self);
    snprintf(self.filter_hash, sizeof self.filter_hash, "%s", confined->filter_hash);
    return self;
}

static int make_api(struct front *f, struct coto_err *err)
{
    const int64_t *num = f->settings->num;
    const struct coto_api_config config = {
        .front = look_at_self(&f->confined),
        .keeper = *f->ask->self,
        .landlock_abi = f->confined.landlock_abi,
        .has_own_network = f->confined.has_own_network,
        .ceiling = &f->ceiling,
        .profiles = (const char *const *)f->settings->text[COTO_SET_ALLOW_PROFILE].items,
        .levels = (const char *const *)f->settings->text[COTO_SET_ALLOW_ISOLATION].items,
        .profile = coto_settings_text(f->settings, COTO_SET_PROFILE),
        .token = f->ask->place->token,
        .keys = f->keys,
        .client_names = (const char *const *)f->settings->text[COTO_SET_CLIENT_NAMES].items,
        .binds_tokens = num[COTO_SET_BIND_TOKENS],
        .owner_uid = (int)f->ask->owner_uid,
        .workers = (unsigned)num[COTO_SET_WORKERS],
        .queue = (unsigned)num[COTO_SET_QUEUE],
        .pool_min = (unsigned)num[COTO_SET_POOL_MIN],
        .pool_max = (unsigned)num[COTO_SET_POOL_MAX],
        .pool_wait_ms = num[COTO_SET_POOL_WAIT],
        .pool_ready = (unsigned)(!has_standard(f->settings) ? 0
                                 : num[COTO_SET_POOL_MIN] < num[COTO_SET_MAX_SANDBOXES]
                                     ? num[COTO_SET_POOL_MIN]
                                     : num[COTO_SET_MAX_SANDBOXES]),
        .high = coto_high_of(f->settings),
        .node_ahead = (unsigned)num[COTO_SET_NODE_AHEAD],
        .is_cold = is_cold(f),
        .resident = f->resident.len ? coto_buf_str(&f->resident) : NULL,
        .lifetime_ms = num[COTO_SET_LIFETIME],
        .idle_ms = num[COTO_SET_IDLE],
        .boxes_per_tenant = api_share_of((unsigned)num[COTO_SET_MAX_SANDBOXES]),
        .destroys = num[COTO_SET_AFTER_EXECUTION],
        .sandboxes_per_tenant = per_tenant(num),
        .tenant_requests = (unsigned)num[COTO_SET_TENANT_REQUESTS],
        .tenant_bodies = num[COTO_SET_TENANT_BODIES] * COTO_MB,
        .tenant_unread = num[COTO_SET_TENANT_UNREAD] * COTO_MB,
        .tenant_rate = (unsigned)num[COTO_SET_TENANT_RATE],
        .tenant_burst = (unsigned)num[COTO_SET_TENANT_BURST],
        .callback_origins = (const char *const *)f->settings->text[COTO_SET_CALLBACK_ORIGIN].items,
        .callback_fd = f->callback_fd,
        .state_dir = f->state};

    return coto_api_new(&config, f->loop, f->ask->control_fd, &f->api, err);
}

/* What is started in a sandbox whose interpreter has ended. Without it none is. */
static void read_resident(struct front *f)
{
    char path[4096];
    coto_auto_fd fd = coto_helper_find("coto-template.py", path, sizeof path)
                          ? -1
                          : open(path, O_RDONLY | O_CLOEXEC);

    if (fd < 0 || coto_fd_read_all(fd, RESIDENT_BYTES, &f->resident))
        coto_buf_clear(&f->resident);
}

static int confine(struct front *f, struct coto_err *err)
{
    /* What libraries load or look up while it runs; keys it gets as copies in memory. */
    static const char *const readable[] = {"/usr/lib", "/usr/lib64", "/lib", "/lib64", "/etc/ld.so.cache",
                                           "/etc/ssl/openssl.cnf", "/etc/localtime", "/usr/share/zoneinfo",
                                           "/usr/share/locale", "/sys/module/apparmor/parameters/enabled", NULL};
    const char *const writable[] = {f->state, NULL};
    const struct coto_confine_ask ask = {f->ask->uid, f->ask->gid, writable, readable, .is_alone = true};

    if (coto_confine(&ask, &f->confined, err)) {
        if (err->sys_errno == EACCES)
            coto_err_remedy(err, "uid %u must be able to reach '%s'", f->ask->uid, f->state);
        return coto_err_wrap(err, "confine the front");
    }
    if (getppid() != f->ask->keeper) /* it died before the kernel was told to care */
        _exit(70);
    return 0;
}

static int open_records(struct front *f, struct coto_err *err)
{
    const struct coto_records_config config = {
        .dir = f->state,
        .claim_fd = coto_take_fd(&f->claim_fd),
        .loop = f->loop,
        .durable = (enum coto_durable)f->settings->num[COTO_SET_DURABILITY],
        .keep_days = (unsigned)f->settings->num[COTO_SET_KEEP_DAYS]};
    struct coto_records_stats stats;

    umask(077);
    if (coto_records_open(&config, &f->records, err))
        return -1;
    f->api->records = f->records;
    coto_records_get_stats(f->records, &stats);
    if (stats.interrupted)
        fprintf(stderr, "coto serve: %u executions of an earlier service were interrupted\n",
                stats.interrupted);
    return coto_api_load_revoked(f->api, err) || coto_api_adopt(f->api, err) ? -1 : 0;
}

/* What others can reach is never served without TLS. */
static int listen_all(struct front *f, struct coto_err *err)
{
    for (int i = 0; i < f->ask->place->socket_count; i++) {
        const struct coto_place_socket *s = &f->ask->place->sockets[i];
        if (s->is_tls && !f->tls)
            return coto_err_set(err, COTO_ERR_INTERNAL, 0, "'%s' needs TLS", s->where);
        if (coto_http_listen_fd(f->http, s->fd, s->is_tls ? f->tls : NULL, err))
            return -1;
    }
    return 0;
}

static int serve(struct front *f, struct coto_err *err)
{
    const char *asked = coto_settings_text(f->settings, COTO_SET_STATE_DIR);
    const struct coto_message ready = {.what = COTO_TALK_READY};

    read_resident(f);
    if (coto_state_dir(*asked ? asked : NULL, f->state, sizeof f->state, err) ||
        coto_records_claim(f->state, f->ask->uid, f->ask->gid, &f->claim_fd, err) ||
        coto_callback_start(f->settings, f->ask->uid, f->ask->gid, &f->callback_fd, err) ||
        confine(f, err) || coto_loop_new(&f->loop, err) || watch(f, err) || open_keys(f, err) ||
        coto_ceiling_read(f->settings, &f->ceiling, err) || warm(f, f->ask->control_fd, err) || make_api(f, err) || open_records(f, err))
        return -1;
    const struct coto_http_config http = {
        .loop = f->loop,
        .handler = coto_api_handle,
        .arg = f->api,
        .limits = {.connections = (unsigned)f->settings->num[COTO_SET_CONNECTIONS],
                   .connections_per_peer = (unsigned)f->settings->num[COTO_SET_PEER_CONNECTIONS]}};
    if (coto_http_new(&http, &f->http, err) || listen_all(f, err))
        return -1;
    coto_api_watch_pool(f->api);
    coto_talk_send(f->ask->keeper_fd, &ready);
    coto_pages_let_go();
    return coto_loop_run(f->loop, err);
}

int coto_front_run(const struct coto_front_ask *ask)
{
    static struct front f = {.signal_fd = -1, .claim_fd = -1, .callback_fd = -1};
    struct coto_err err = {0};

    f.ask = ask;
    f.settings = ask->settings;
    prctl(PR_SET_NAME, "coto-front");
    int failed = serve(&f, &err);
    finish(&f);
    return failed ? coto_keeper_fail(&err) : 0;
}
