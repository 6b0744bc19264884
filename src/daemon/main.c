/* coto serve: the service. */
#include "api/api.h"
#include "daemon/confine.h"
#include "daemon/state.h"

#include "base/fd.h"
#include "base/own.h"
#include "policy/helper.h"

#include <errno.h>
#include <fcntl.h>
#include <pwd.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

struct options {
    int port;
    const char *state, *runtime; /* directories; NULL: the usual */
    enum coto_durable durable;
};

struct daemon {
    struct coto_loop *loop;
    struct coto_http *http;
    struct coto_api *api;
    int control_fd;
    pid_t launcher;
    int signal_fd;
    char token[COTO_API_TOKEN];
    struct coto_confined confined;
    unsigned uid, gid; /* of the front, once confined */
    char state[4096];
    int claim_fd; /* of the state directory */
    struct coto_records *records;
    char socket[COTO_HTTP_ADDRESS], address[COTO_HTTP_ADDRESS];
};

static int fail(const struct coto_err *err)
{
    fprintf(stderr, "coto serve: %s\n", err->text);
    if (err->remedy[0])
        fprintf(stderr, "  %s\n", err->remedy);
    return coto_err_info(err->kind)->exit_code;
}

/* ---- the launcher ---- */

static int start_launcher(struct daemon *d, struct coto_err *err)
{
    char path[4096];
    char control[32];
    int sv[2];

    if (coto_helper_find("coto-launch", path, sizeof path))
        return coto_err_set(err, COTO_ERR_SYSTEM, ENOENT, "coto-launch");
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sv))
        return coto_err_set(err, COTO_ERR_LIMIT, errno, "start the launcher");
    snprintf(control, sizeof control, "--control=%d", sv[1]);
    char *argv[] = {"coto-launch", control, NULL};
    char *envp[] = {NULL};
    d->launcher = fork();
    if (d->launcher == 0) {
        sigset_t none;
        sigemptyset(&none);
        sigprocmask(SIG_SETMASK, &none, NULL);
        fcntl(sv[1], F_SETFD, 0);
        execve(path, argv, envp);
        _exit(127);
    }
    close(sv[1]);
    d->control_fd = sv[0];
    if (d->launcher < 0)
        return coto_err_set(err, COTO_ERR_LIMIT, errno, "start the launcher");
    return 0;
}

/* ---- zero configuration ---- */

static int runtime_dir(const char *given, char *to, size_t size, struct coto_err *err)
{
    const char *runtime = getenv("XDG_RUNTIME_DIR");

    if (given)
        snprintf(to, size, "%s", given);
    else if (getuid() == 0)
        snprintf(to, size, "/run/coto");
    else if (runtime && runtime[0] == '/')
        snprintf(to, size, "%s/coto", runtime);
    else
        snprintf(to, size, "/tmp/coto-%u", (unsigned)getuid());
    struct stat st;
    if (mkdir(to, 0700) && errno != EEXIST)
        return coto_err_set(err, COTO_ERR_SYSTEM, errno, "make '%s'", to);
    if (lstat(to, &st) || !S_ISDIR(st.st_mode) || st.st_uid != getuid() || (st.st_mode & 077)) {
        coto_err_set(err, COTO_ERR_FORBIDDEN, 0, "'%s' is not a directory of yours alone", to);
        return coto_err_remedy(err, "remove it, or chmod 700 it");
    }
    return 0;
}

static int make_token(struct daemon *d, const char *dir, struct coto_err *err)
{
    unsigned char bytes[32];
    char path[4200];

    snprintf(path, sizeof path, "%s/token", dir);
    if (getrandom(bytes, sizeof bytes, 0) != (ssize_t)sizeof bytes)
        return coto_err_set(err, COTO_ERR_SYSTEM, errno, "getrandom");
    for (size_t i = 0; i < sizeof bytes; i++)
        snprintf(d->token + 2 * i, 3, "%02x", bytes[i]);
    unlink(path);
    coto_auto_fd fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0 || coto_fd_write_all(fd, d->token, strlen(d->token)))
        return coto_err_set(err, COTO_ERR_SYSTEM, errno, "write '%s'", path);
    printf("token     %s (only you can read it)\n", path);
    return 0;
}

static int listen_locally(struct daemon *d, const struct options *options, struct coto_err *err)
{
    char dir[4096];
    char where[4200];

    if (runtime_dir(options->runtime, dir, sizeof dir, err) || make_token(d, dir, err))
        return -1;
    snprintf(where, sizeof where, "unix:%s/api.sock", dir);
    if (coto_http_listen(d->http, where, NULL, d->socket, err))
        return -1;
    snprintf(where, sizeof where, "127.0.0.1:%d", options->port);
    if (coto_http_listen(d->http, where, NULL, d->address, err))
        return -1;
    printf("listening %s\nlistening http://%s\n\n", d->socket, d->address);
    printf("  curl --unix-socket %s/api.sock http://coto/api/v1/run -d '{\"code\":\"print(2+2)\"}'\n", dir);
    printf("  curl -H \"Authorization: Bearer $(cat %s/token)\" http://%s/api/v1/run -d "
           "'{\"code\":\"print(2+2)\"}'\n\n",
           dir, d->address);
    fflush(stdout);
    return 0;
}

/* ---- life ---- */

static void stop(void *arg)
{
    struct daemon *d = arg;

    coto_loop_stop(d->loop);
}

static void on_signal(void *arg, uint32_t events)
{
    struct daemon *d = arg;
    struct signalfd_siginfo info;

    (void)events;
    if (read(d->signal_fd, &info, sizeof info) != (ssize_t)sizeof info)
        return;
    if (d->api->draining) {
        coto_loop_stop(d->loop);
        return;
    }
    d->api->draining = true;
    fprintf(stderr, "coto serve: ending; running executions are waited for\n");
    coto_http_drain(d->http, stop, d);
}

static int watch_signals(struct daemon *d, struct coto_err *err)
{
    sigset_t set;

    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    sigprocmask(SIG_BLOCK, &set, NULL);
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN); /* a full disk is an error, not the end */
    d->signal_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    if (d->signal_fd < 0 || coto_loop_add(d->loop, d->signal_fd, EPOLLIN, on_signal, d))
        return coto_err_set(err, COTO_ERR_LIMIT, errno, "watch signals");
    return 0;
}

static int warm(struct daemon *d, const struct coto_api_config *config, struct coto_err *err)
{
    struct coto_policy policy;
    struct coto_plan plan = {.rootfs = {.fd = -1}};
    const struct coto_source_code nothing = {.text = "", .text_len = 0};
    int failed = coto_policy_init(&policy, err) ||
                 coto_policy_apply_profile(&policy, config->profile, err) ||
                 coto_policy_set(&policy, COTO_OPT_LANG, "python", COTO_SOURCE_PROFILE, "pool", err) ||
                 coto_plan_make(&policy, &nothing, &plan, err);

    if (!failed) {
        api_plan_parked(&plan);
        failed = coto_launch_warm(d->control_fd, &plan, config->pool_min, config->pool_max, err);
    }
    coto_plan_fini(&plan);
    coto_policy_fini(&policy);
    return failed ? -1 : 0;
}

/* A user of its own where the administrator made one. First of all: a second service on the same
 * state must not touch the sockets of the first. */
static int claim_state(struct daemon *d, const struct options *options, struct coto_err *err)
{
    const struct passwd *user = getuid() == 0 ? getpwnam("coto") : NULL;

    d->uid = getuid() ? getuid() : user ? user->pw_uid : 65534;
    d->gid = getuid() ? getgid() : user ? user->pw_gid : 65534;
    return coto_state_dir(options->state, d->state, sizeof d->state, err) ||
           coto_records_claim(d->state, d->uid, d->gid, &d->claim_fd, err);
}

/* Behind the walls: what the files hold is read with no more rights than requests are. */
static int open_records(struct daemon *d, const struct options *options, struct coto_err *err)
{
    const struct coto_records_config config = {
        .dir = d->state, .claim_fd = d->claim_fd, .loop = d->loop, .durable = options->durable};
    struct coto_records_stats stats;

    umask(077);
    d->claim_fd = -1;
    if (coto_records_open(&config, &d->records, err))
        return -1;
    d->api->records = d->records;
    coto_records_get_stats(d->records, &stats);
    if (stats.interrupted)
        fprintf(stderr, "coto serve: %u executions of an earlier service were interrupted\n",
                stats.interrupted);
    return 0;
}

static int confine(struct daemon *d, struct coto_err *err)
{
    const char *const writable[] = {d->state, NULL};

    if (coto_confine(d->uid, d->gid, writable, &d->confined, err)) {
        if (err->sys_errno == EACCES)
            coto_err_remedy(err, "uid %u must be able to reach '%s'", d->uid, d->state);
        return coto_err_wrap(err, "confine the front");
    }
    fprintf(stderr, "coto serve: front runs as uid %u behind seccomp and Landlock ABI %d\n",
            d->confined.uid, d->confined.landlock_abi);
    return 0;
}

static int serve(struct daemon *d, const struct options *options, struct coto_err *err)
{
    const struct coto_api_config config = {.profile = "default",
                                           .token = d->token,
                                           .owner_uid = (int)getuid(),
                                           .workers = 64,
                                           .queue = 256,
                                           .pool_min = 5,
                                           .pool_max = 100,
                                           .lifetime_ms = 3600000,
                                           .idle_ms = 300000,
                                           .sandboxes_per_tenant = 1000};

    if (claim_state(d, options, err) || start_launcher(d, err) || coto_loop_new(&d->loop, err) || watch_signals(d, err) ||
        warm(d, &config, err) || coto_api_new(&config, d->loop, d->control_fd, &d->api, err))
        return -1;
    const struct coto_http_config http = {.loop = d->loop, .handler = coto_api_handle, .arg = d->api};
    if (coto_http_new(&http, &d->http, err) || listen_locally(d, options, err) || confine(d, err) ||
        open_records(d, options, err))
        return -1;
    return coto_loop_run(d->loop, err);
}

/* The value of --name=VALUE or --name VALUE, else NULL. */
static const char *value_of(char **argv, int *i, const char *name)
{
    size_t len = strlen(name);

    if (strncmp(argv[*i], name, len) != 0)
        return NULL;
    if (argv[*i][len] == '=')
        return argv[*i] + len + 1;
    return argv[*i][len] == '\0' && argv[*i + 1] ? argv[++*i] : NULL;
}

static int take_options(int argc, char **argv, struct options *options, struct coto_err *err)
{
    for (int i = 1; i < argc; i++) {
        const char *value;
        if ((value = value_of(argv, &i, "--port")))
            options->port = atoi(value);
        else if ((value = value_of(argv, &i, "--state-dir")))
            options->state = value;
        else if ((value = value_of(argv, &i, "--runtime-dir")))
            options->runtime = value;
        else if ((value = value_of(argv, &i, "--durability"))) {
            if (coto_durable_parse(value, &options->durable))
                return coto_err_set(err, COTO_ERR_USAGE, 0, "--durability: must be disk, kernel or off");
        }
    }
    return 0;
}

int main(int argc, char **argv)
{
    static struct daemon d = {.control_fd = -1, .claim_fd = -1};
    struct coto_err err = {0};
    struct options options = {.port = 8640};

    if (take_options(argc, argv, &options, &err))
        return fail(&err);
    int failed = serve(&d, &options, &err);
    coto_http_free(d.http);
    coto_api_free(d.api);
    coto_records_close(d.records);
    coto_own_close(&d.claim_fd);
    if (d.control_fd >= 0)
        close(d.control_fd);
    if (d.launcher > 0)
        waitpid(d.launcher, NULL, 0);
    return failed ? fail(&err) : 0;
}
