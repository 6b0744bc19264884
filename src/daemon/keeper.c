/* The keeper: parent of the service's two halves.
 *
 * Theory of operation.
 *   keeper    as started, but for capabilities and system calls that neither it nor the launcher needs
 *             (kernel/self.h); holds lock, listening sockets (it never accepts), copies of key files; reads
 *             no byte of the network and none of a sandbox
 *   front     its fork, then another user behind seccomp and Landlock; HTTP, TLS, JSON, tokens
 *   launcher  coto-launch; as privileged as the keeper, or a little less; makes sandboxes
 * Front and launcher share a control channel; the keeper keeps no end of it, but has a channel
 * of its own to the launcher. When the front ends, a new one is started and its control channel
 * sent to the launcher, which has kept the sandboxes that callers hold (launcher/hold.c); async
 * executions go on meanwhile in processes of their own (api/async.c). When the launcher ends, its
 * sandboxes die with it (parent-death signals; whatever was not reached by them is our child
 * now, because we are a subreaper, and is killed here), the front answers what ran in them
 * with an error, and gets the channel of a new launcher. When the keeper is killed the kernel
 * kills the front, and the launcher sees its channel close and ends. The next life waits for
 * the last one's lock, which all three hold.
 */
#include "daemon/keeper_int.h"

#include "auth/keys.h"
#include "base/clock.h"
#include "base/fd.h"
#include "daemon/callback.h"
#include "daemon/ceiling.h"
#include "daemon/front.h"
#include "daemon/high.h"
#include "daemon/notify.h"
#include "daemon/pages.h"
#include "daemon/pulse.h"
#include "daemon/state.h"
#include "daemon/sweep.h"
#include "daemon/talk.h"
#include "policy/helper.h"
#include "policy/policy.h"
#include "records/records.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pwd.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define NOBODY 65534
#define DESCRIPTORS 65536
#define GRACE_US 9000000 /* beyond `drain`: what has not ended then is killed */
#define LAUNCHER_END_US 4000000
#define CRASHES_MAX 20 /* in CRASH_WINDOW_US; then it is no accident */
#define CRASH_WINDOW_US 60000000
#define RETRY_MAX_US 2000000
#define SWEEP_EVERY_US 50000
#define SWEEP_US 10000000 /* how long the dead may take to be gone */

static bool is_check; /* nobody needs to be told of it then */

void coto_keeper_is_check(void)
{
    is_check = true;
}

int coto_keeper_fail(const struct coto_err *err)
{
    bool is_setting = err->kind == COTO_ERR_USAGE || err->kind == COTO_ERR_POLICY || err->kind == COTO_ERR_INPUT;

    fprintf(stderr, "coto serve: %s\n", err->text);
    if (err->remedy[0])
        fprintf(stderr, "  remedy: %s\n", err->remedy);
    else if (is_setting)
        fprintf(stderr, "  remedy: coto serve --help lists the settings and what they take%s\n",
                is_check ? "" : "; --check reads them and starts nothing");
    return coto_err_info(err->kind)->exit_code;
}

void keeper_say(const char *what, const char *rest)
{
    fprintf(stderr, "coto serve: %s%s\n", what, rest);
}

/* ---- starting ---- */

#define HIGH_ALLOWED 8
#define HIGH_ARGS (5 + HIGH_ALLOWED)

static char *join(const char *a, const char *b)
{
    char *text = NULL;

    return asprintf(&text, "%s%s", a, b) < 0 ? NULL : text;
}

/* What requests for isolation_level high get. */
static void add_high(const struct coto_settings *settings, char **argv)
{
    const struct coto_strv *allowed = &settings->text[COTO_SET_HIGH_ALLOW_RUNTIME];
    char level[16];
    int count = 0;

    snprintf(level, sizeof level, "%d", coto_high_isolation(settings));
    argv[count++] = join("--high-isolation=", level);
    argv[count++] = join("--high-runtime=", coto_settings_text(settings, COTO_SET_HIGH_RUNTIME));
    argv[count++] = join("--high-image=", coto_settings_text(settings, COTO_SET_HIGH_IMAGE));
    argv[count++] = join("--high-images-dir=", coto_settings_text(settings, COTO_SET_HIGH_IMAGES_DIR));
    argv[count++] = join("--high-image-key=", coto_settings_text(settings, COTO_SET_HIGH_IMAGE_KEY));
    for (size_t i = 0; i < allowed->count && i < HIGH_ALLOWED; i++)
        argv[count++] = join("--high-allow-runtime=", allowed->items[i]);
    argv[count] = NULL;
}

/* Where the engine is, for coto-docker, and where a user's images are; nothing else of the
 * environment is anybody's business. */
#define ENGINE_VARIABLES 6
static void add_engine(char **envp)
{
    static const char *const names[ENGINE_VARIABLES] = {"DOCKER_HOST=", "DOCKER_TLS_VERIFY=",
                                                        "DOCKER_CERT_PATH=", "HOME=",
                                                        "XDG_DATA_HOME=", "XDG_RUNTIME_DIR="};
    int count = 0;

    for (int i = 0; i < ENGINE_VARIABLES; i++) {
        char name[32];
        snprintf(name, sizeof name, "%.*s", (int)strlen(names[i]) - 1, names[i]);
        const char *value = getenv(name);
        if (value && (envp[count] = join(names[i], value)))
            count++;
    }
    envp[count] = NULL;
}

static char *number(const char *name, int64_t value)
{
    char text[32];

    snprintf(text, sizeof text, "%lld", (long long)value);
    return join(name, text);
}

/* What the front cannot exceed, whoever it is by then. */
#define MOST_ARGS (12 + COTO_CEILING_IDS + COTO_CEILING_LISTS)
static int add_most(const struct keeper *k, char **argv)
{
    static const struct {
        const char *name;
        enum coto_opt opt;
    } most[] = {{"--memory=", COTO_OPT_MEMORY}, {"--cpus=", COTO_OPT_CPUS},
                {"--pids=", COTO_OPT_PIDS},     {"--disk=", COTO_OPT_DISK},
                {"--swap=", COTO_OPT_SWAP},     {"--tmp-size=", COTO_OPT_TMP_SIZE},
                {"--inodes=", COTO_OPT_INODES}, {"--ptys=", COTO_OPT_PTYS}};
    const struct coto_ceiling_walls *walls = &k->walls;
    int count = 0;

    for (size_t i = 0; i < sizeof most / sizeof most[0]; i++)
        argv[count++] = number(most[i].name, coto_policy_num(&k->ceiling, most[i].opt));
    argv[count++] = number("--caps=", (int64_t)walls->caps);
    argv[count++] = number("--seccomp=", walls->seccomp);
    argv[count++] = number("--idmaps=", walls->idmaps);
    argv[count++] = number("--levels=", walls->levels);
    for (int i = 0; i < walls->id_count; i++) {
        char text[32];
        snprintf(text, sizeof text, "%u:%u", walls->ids[i].uid, walls->ids[i].gid);
        argv[count++] = join("--ids=", text);
    }
    for (int i = 0; i < walls->list_count; i++)
        argv[count++] = join("--modules=", walls->modules[i]);
    return count;
}

static void exec_launcher(const struct keeper *k, const char *path, int keeper)
{
    char *argv[6 + MOST_ARGS + HIGH_ARGS + 1] = {"coto-launch"};
    char *envp[ENGINE_VARIABLES + 1] = {NULL};
    sigset_t none;

    argv[1] = number("--keeper=", keeper);
    argv[2] = number("--life=", k->place.life_lock);
    argv[3] = number("--generation=", k->launchers);
    argv[4] = number("--max-sandboxes=", k->settings->num[COTO_SET_MAX_SANDBOXES]);
    int count = 5;
    if (k->self.filter_hash[0])
        argv[count++] = join("--filter=", k->self.filter_hash);
    count += add_most(k, argv + count);
    add_high(k->settings, argv + count);
    add_engine(envp);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    setpgid(0, 0); /* a key press at the terminal must not reach what runs in sandboxes */
    fcntl(keeper, F_SETFD, 0);
    fcntl(k->place.life_lock, F_SETFD, 0);
    execve(path, argv, envp);
    _exit(127);
}

static int start_launcher(struct keeper *k, struct coto_err *err)
{
    char path[4096];
    int sv[2];

    if (coto_helper_find("coto-launch", path, sizeof path))
        return coto_err_set(err, COTO_ERR_SYSTEM, ENOENT, "coto-launch");
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sv))
        return coto_err_set(err, COTO_ERR_LIMIT, errno, "start the launcher");
    k->launchers++;
    pid_t pid = fork();
    if (pid == 0)
        exec_launcher(k, path, sv[1]);
    close(sv[1]);
    if (pid < 0) {
        close(sv[0]);
        return coto_err_set(err, COTO_ERR_LIMIT, errno, "start the launcher");
    }
    k->launcher = pid;
    k->launch_fd = sv[0];
    k->pulse = (struct coto_pulse){0};
    coto_place_note(&k->place, pid);
    return 0;
}

/* The front's end of a control channel whose other end the launcher has, or -1. */
static int connect_launcher(struct keeper *k, struct coto_err *err)
{
    int sv[2];

    if ((!k->launcher && start_launcher(k, err)))
        return -1;
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sv))
        return coto_err_set(err, COTO_ERR_LIMIT, errno, "connect the launcher");
    int failed = coto_fd_send(k->launch_fd, 'F', &sv[1], 1);
    close(sv[1]);
    if (failed) {
        close(sv[0]);
        return coto_err_set(err, COTO_ERR_SYSTEM, errno, "connect the launcher");
    }
    return sv[0];
}

static void become_front(struct keeper *k, int control, int talk, pid_t keeper)
{
    const struct coto_front_ask ask = {.settings = k->settings,
                                       .place = &k->place,
                                       .files = &k->files,
                                       .uid = k->uid,
                                       .gid = k->gid,
                                       .owner_uid = getuid(),
                                       .control_fd = control,
                                       .keeper_fd = talk,
                                       .keeper = keeper,
                                       .self = &k->self,
                                       .secret = k->secret};

    close(k->signal_fd);
    coto_own_close(&k->launch_fd); /* its end is the launcher's: the keeper's alone to hold */
    coto_own_close(&k->place.keeper_lock);
    exit(coto_front_run(&ask));
}

static int start_front(struct keeper *k, int control, struct coto_err *err)
{
    pid_t keeper = getpid();
    int sv[2];

    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sv))
        return coto_err_set(err, COTO_ERR_LIMIT, errno, "start the front");
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        close(sv[0]);
        become_front(k, control, sv[1], keeper);
    }
    close(sv[1]);
    if (pid < 0) {
        close(sv[0]);
        return coto_err_set(err, COTO_ERR_LIMIT, errno, "start the front");
    }
    k->front = pid;
    k->talk_fd = sv[0];
    return 0;
}

static int start_both(struct keeper *k, struct coto_err *err)
{
    coto_auto_fd control = connect_launcher(k, err);

    return control < 0 ? -1 : start_front(k, control, err);
}

static int renew_launcher(struct keeper *k, struct coto_err *err)
{
    coto_auto_fd control = connect_launcher(k, err);
    struct coto_message message = {.what = COTO_TALK_LAUNCHER, .fds = {control}, .fd_count = 1};

    if (control < 0)
        return -1;
    if (coto_talk_send(k->talk_fd, &message))
        kill(k->front, SIGKILL); /* it does not listen: both again */
    return 0;
}

/* ---- the dead ---- */

/* Those that end by themselves: a process of a front that has died does when its sandbox does, and
 * what a launcher had for a container clean up after it first. */
static bool ends_by_itself(pid_t pid)
{
    static const char *const names[] = {"coto-async", "coto-box", "coto-guard", "coto-docker"};
    char path[64];
    char name[32];

    snprintf(path, sizeof path, "/proc/%d/comm", (int)pid);
    if (coto_file_read_at(AT_FDCWD, path, name, sizeof name) <= 0)
        return false;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strcmp(name, names[i]) == 0)
            return true;
    return false;
}

/* Children that are neither of the two were a launcher's. */
static void kill_orphans(const struct keeper *k)
{
    char path[64];
    char text[65536];

    snprintf(path, sizeof path, "/proc/self/task/%d/children", (int)getpid());
    if (coto_file_read_words_at(AT_FDCWD, path, text, sizeof text) < 0)
        return;
    for (char *rest = NULL, *word = strtok_r(text, " \n", &rest); word;
         word = strtok_r(NULL, " \n", &rest)) {
        pid_t pid = (pid_t)atol(word);
        if (pid > 1 && pid != k->front && pid != k->launcher && !ends_by_itself(pid))
            kill(pid, SIGKILL);
    }
}

static void count_crash(struct keeper *k)
{
    int64_t now = coto_clock_us();

    if (now - k->crashes_since_us > CRASH_WINDOW_US) {
        k->crashes = 0;
        k->crashes_since_us = now;
    }
    k->crashes++;
    int64_t wait = k->crashes < 2 ? 0 : 25000LL << (k->crashes < 8 ? k->crashes - 1 : 7);
    k->retry_us = now + (wait > RETRY_MAX_US ? RETRY_MAX_US : wait);
    if (k->crashes < CRASHES_MAX)
        return;
    keeper_say("its processes keep ending; giving up", "");
    k->stopping = true;
    k->status = 70;
    k->kill_us = now;
}

static void tell_end(const char *who, int status)
{
    fprintf(stderr, "coto serve: the %s ended (%s %d); it is started again\n", who,
            WIFSIGNALED(status) ? "signal" : "status",
            WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
}

static void front_ended(struct keeper *k, int status)
{
    k->front = 0;
    coto_own_close(&k->talk_fd);
    if (!k->stopping && !k->was_ready) { /* it has said why */
        k->stopping = true;
        k->status = WIFEXITED(status) ? WEXITSTATUS(status) : 70;
    }
    if (k->stopping) {
        k->kill_us = coto_clock_us() + LAUNCHER_END_US;
        coto_own_close(&k->launch_fd); /* the launcher ends by itself, and cleans up */
        return;
    }
    tell_end("front", status);
    count_crash(k);
}

/* Its sandboxes are dying: their cgroups can be removed as soon as they have. */
static void sweep(struct keeper *k, int64_t now)
{
    bool done = true;

    for (int i = 0; i < COTO_PLACE_LAUNCHERS; i++)
        if (!k->launcher || k->place.launchers[i] != k->launcher)
            done &= coto_sweep(k->place.launchers[i]);
    k->sweep_us = done || now >= k->sweep_until_us ? 0 : now + SWEEP_EVERY_US;
}

static void launcher_ended(struct keeper *k, int status)
{
    k->launcher = 0;
    coto_own_close(&k->launch_fd);
    if (status != 0) {
        k->sweep_us = coto_clock_us();
        k->sweep_until_us = k->sweep_us + SWEEP_US;
    }
    if (k->front && !k->stopping) {
        tell_end("launcher", status);
        count_crash(k);
    }
}

static void reap(struct keeper *k)
{
    int status;
    pid_t pid;

    while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
        if (pid == k->front)
            front_ended(k, status);
        else if (pid == k->launcher)
            launcher_ended(k, status);
    }
    if (!k->launcher)
        kill_orphans(k);
}

/* ---- life ---- */

static void begin_stop(struct keeper *k)
{
    int64_t now = coto_clock_us();

    if (k->stopping) { /* asked twice */
        k->kill_us = now;
        return;
    }
    k->stopping = true;
    k->kill_us = now + k->settings->num[COTO_SET_DRAIN] * 1000 + GRACE_US;
    coto_notify("STOPPING=1");
    if (k->front)
        kill(k->front, SIGTERM);
    else
        coto_own_close(&k->launch_fd);
}

static void on_signals(struct keeper *k)
{
    struct signalfd_siginfo info;

    while (read(k->signal_fd, &info, sizeof info) == (ssize_t)sizeof info) {
        if (info.ssi_signo == SIGHUP)
            keeper_reload(k);
        else if (info.ssi_signo != SIGCHLD)
            begin_stop(k);
    }
    reap(k);
}

static void on_talk(struct keeper *k)
{
    struct coto_message message;

    if (coto_talk_receive(k->talk_fd, &message) <= 0) {
        coto_own_close(&k->talk_fd); /* it ends; reap hears of it */
        return;
    }
    for (int i = 0; i < message.fd_count; i++)
        coto_fd_drop(message.fds[i]);
    if (message.what != COTO_TALK_READY || k->was_ready)
        return;
    coto_auto_buf text = {0};
    coto_place_tell(&k->place, &text);
    fputs(coto_buf_str(&text), stdout);
    fflush(stdout);
    k->was_ready = true;
    coto_notify("READY=1\nSTATUS=serving");
    coto_pages_let_go();
}

/* The front first: without it the launcher ends by itself, and cleans up. */
static void kill_late(struct keeper *k)
{
    if (k->front && k->stopping)
        kill(k->front, SIGKILL);
    else if (k->launcher && !k->front)
        kill(k->launcher, SIGKILL);
    k->kill_us = coto_clock_us() + LAUNCHER_END_US;
}

/* Whatever is due now. */
static void step(struct keeper *k)
{
    int64_t now = coto_clock_us();
    struct coto_err err = {0};

    if (k->kill_us && now >= k->kill_us)
        kill_late(k);
    if (k->look_us && now >= k->look_us)
        keeper_look_at_files(k, now);
    if (k->sweep_us && now >= k->sweep_us)
        sweep(k, now);
    if (k->launcher && !k->stopping && coto_pulse_take(&k->pulse, k->launcher, k->launch_fd, now)) {
        keeper_say("the launcher does not answer; it is killed, with its sandboxes", "");
        kill(k->launcher, SIGKILL);
    }
    if (k->stopping || now < k->retry_us || (k->front && k->launcher))
        return;
    k->kill_us = 0;
    if (k->front ? renew_launcher(k, &err) : start_both(k, &err)) {
        coto_keeper_fail(&err);
        count_crash(k);
    }
}

static int wait_ms(const struct keeper *k)
{
    int64_t now = coto_clock_us();
    int64_t until = INT64_MAX;

    if (k->kill_us && k->stopping)
        until = k->kill_us;
    if (!k->stopping && (!k->launcher || !k->front) && k->retry_us < until)
        until = k->retry_us;
    if (k->look_us && k->look_us < until)
        until = k->look_us;
    if (k->launcher && !k->stopping && k->pulse.due_us < until)
        until = k->pulse.due_us;
    if (k->sweep_us && k->sweep_us < until)
        until = k->sweep_us;
    if (until == INT64_MAX)
        return -1;
    return until <= now ? 0 : (int)((until - now) / 1000 + 1);
}

/* What an earlier life left whose launcher was killed with all the rest. */
static void take_over(struct keeper *k)
{
    k->sweep_us = coto_clock_us();
    k->sweep_until_us = k->sweep_us + SWEEP_US;
}

static int live(struct keeper *k)
{
    take_over(k);
    keeper_warn_of_time(k);
    keeper_watch_files(k);
    while (!k->stopping || k->front || k->launcher) {
        step(k);
        struct pollfd fds[2] = {{k->signal_fd, POLLIN, 0}, {k->talk_fd, POLLIN, 0}};
        if (poll(fds, 2, wait_ms(k)) < 0 && errno != EINTR)
            return 71;
        if (fds[1].revents)
            on_talk(k);
        if (fds[0].revents)
            on_signals(k);
    }
    return k->status;
}

/* All are gone, but a launcher that had to be killed may have left sandboxes; so may that of
 * a killed life before this one, whose processes are nobody's children here. */
static void end_orphans(struct keeper *k)
{
    while (k->sweep_us) {
        kill_orphans(k);
        while (waitpid(-1, NULL, WNOHANG) > 0)
            ;
        sweep(k, coto_clock_us());
        if (k->sweep_us)
            poll(NULL, 0, SWEEP_EVERY_US / 1000);
    }
}

static int watch_signals(struct keeper *k, struct coto_err *err)
{
    sigset_t set;

    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGHUP);
    sigaddset(&set, SIGCHLD);
    sigprocmask(SIG_SETMASK, &set, NULL);
    signal(SIGPIPE, SIG_IGN);
    k->signal_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    if (k->signal_fd < 0)
        return coto_err_set(err, COTO_ERR_LIMIT, errno, "watch signals");
    return 0;
}

/* A user of its own where the administrator made one. */
static void choose_user(const struct coto_settings *settings, unsigned *ret_uid, unsigned *ret_gid)
{
    const struct passwd *user = getpwnam(coto_settings_text(settings, COTO_SET_USER));
    bool is_other = user && user->pw_uid != 0;

    *ret_uid = getuid() ? getuid() : is_other ? user->pw_uid : NOBODY;
    *ret_gid = getuid() ? getgid() : is_other ? user->pw_gid : NOBODY;
}

static int check_state_dir(const struct coto_settings *settings, struct coto_err *err)
{
    const char *asked = coto_settings_text(settings, COTO_SET_STATE_DIR);
    char dir[4096];
    unsigned uid, gid;

    choose_user(settings, &uid, &gid);
    return coto_state_dir(*asked ? asked : NULL, dir, sizeof dir, err) ||
                   coto_state_check(dir, uid, gid, err)
               ? -1
               : 0;
}

/* A sandbox takes a handful; the usual limit, 1024, is for programs that use select(2). What runs in sandboxes has
 * limits of its own. */
static void take_descriptors(void)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) || limit.rlim_cur >= DESCRIPTORS)
        return;
    limit.rlim_cur = limit.rlim_max < DESCRIPTORS ? limit.rlim_max : DESCRIPTORS;
    setrlimit(RLIMIT_NOFILE, &limit);
}

/* Once its sockets are open: a port below 1024 takes a capability that it has no other use for. */
static int confine(struct keeper *k, struct coto_err *err)
{
    return coto_self_confine(coto_self_keeper_needs(), NULL, &k->self, err) ? coto_err_wrap(err, "confine the keeper") : 0;
}

int coto_keeper_run(struct coto_settings *settings)
{
    static struct keeper k = {.signal_fd = -1, .talk_fd = -1, .launch_fd = -1};
    struct coto_err err = {0};

    k.settings = settings;
    choose_user(settings, &k.uid, &k.gid);
    if (getrandom(k.secret, sizeof k.secret, 0) != (ssize_t)sizeof k.secret) {
        coto_err_set(&err, COTO_ERR_SYSTEM, errno, "random numbers");
        return coto_keeper_fail(&err);
    }
    take_descriptors();
    prctl(PR_SET_NAME, "coto-keeper");
    prctl(PR_SET_DUMPABLE, 0);
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    int failed = watch_signals(&k, &err) || coto_ceiling_read(settings, &k.ceiling, &err);
    if (!failed) {
        coto_ceiling_walls(settings, &k.ceiling, &k.walls);
        coto_high_warn_beside(settings);
    }
    int status = failed || coto_files_read(settings, k.uid, &k.files, &err) ||
                         check_state_dir(settings, &err) || coto_place_open(settings, &k.place, &err) ||
                         confine(&k, &err)
                     ? coto_keeper_fail(&err)
                     : live(&k);
    end_orphans(&k);
    coto_place_close(&k.place);
    return status;
}

/* A service that runs with this runtime-dir has its own. */
static int check_claim(const struct coto_settings *settings, struct coto_err *err)
{
    const char *asked = coto_settings_text(settings, COTO_SET_STATE_DIR);
    char dir[4096];
    unsigned uid, gid;

    choose_user(settings, &uid, &gid);
    if (coto_place_is_running(settings))
        return 0;
    return coto_state_dir(*asked ? asked : NULL, dir, sizeof dir, err) ? -1 : coto_records_check_claim(dir, uid, err);
}

int coto_keeper_check(const struct coto_settings *settings, struct coto_err *err)
{
    struct coto_files files;
    struct coto_policy policy = {0};
    int failed = coto_settings_check(settings, err) || coto_callback_check(settings, err) ||
                 coto_ceiling_read(settings, &policy, err);

    coto_policy_fini(&policy);
    if (failed || coto_files_read(settings, getuid(), &files, err))
        return -1;
    coto_files_close(&files);
    failed =
        coto_files_check_time(settings, err) || coto_place_check(settings, err) || check_state_dir(settings, err) || check_claim(settings, err) ||
        coto_policy_init(&policy, err) ||
        coto_policy_apply_profile(&policy, coto_settings_text(settings, COTO_SET_PROFILE), err);
    coto_policy_fini(&policy);
    if (!failed)
        coto_high_warn(settings);
    return failed ? -1 : 0;
}
