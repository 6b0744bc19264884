/* The template: started on demand, thrown away after some forks. Shortly before, its successor is
 * started, so that nobody waits for that: a tenth of a second. There is one for each list of modules
 * that a profile has (option `modules`), from the first sandbox of such a profile on. A sandbox
 * whose plan asks for a parked interpreter goes through here between READY and its shelf;
 * where that fails it is as good as any other, its programs are only started the long way. */
#include "launcher/launcher.h"

#include "base/clock.h"
#include "base/fd.h"
#include "kernel/sched.h"
#include "policy/helper.h"
#include "template/talk.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define FORKS_MAX 2000         /* then a fresh address layout */
#define FORKS_AHEAD 200        /* when there are no more left its successor is started */
#define FORKS_LATE 2000        /* so many more, where that one takes its time or does not start */
#define START_US 30000000      /* one that is not ready then never will be */
#define COPY_US 10000000       /* nor does one that has not made a copy then */
#define RETRY_US 5000000
#define UNUSED_US 600000000    /* then one with other modules than the usual is let go */
#define PYTHON "/usr/bin/python3"
#define TEMPLATE_HOME "HOME=/dev/null/" /* as long as what it becomes: python.c */

/* The forty or so that programs import most, without those that are heavy (asyncio alone
 * would add half as much memory again to copy at each fork). */
const char launcher_modules[] =
    "abc,array,base64,bisect,calendar,collections,contextlib,copy,csv,dataclasses,datetime,decimal,"
    "enum,fractions,functools,hashlib,heapq,io,itertools,json,keyword,logging,math,numbers,operator,"
    "os,pathlib,random,re,shutil,statistics,string,struct,subprocess,sys,tempfile,textwrap,threading,"
    "time,traceback,types,typing,urllib.parse,uuid,warnings,zlib";

/* ---- its life ---- */

/* Under a name that tells nothing of this host: a copy's own tables (/proc/self/maps) are for a stranger to read. Nobody can
 * change it. Where a host allows no such files it is loaded from where it lies. */
static int open_nameless(const char *path, const char *name)
{
    coto_auto_fd from = open(path, O_RDONLY | O_CLOEXEC);
    coto_auto_fd to = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
    ssize_t n = 1;

    while (from >= 0 && to >= 0 && n > 0)
        n = sendfile(to, from, NULL, 1 << 20);
    if (n || fcntl(to, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL))
        return -1;
    return fcntl(to, F_DUPFD, 10);
}

static void name_it(int fd, const char *path, char *to, size_t size)
{
    if (fd < 0)
        snprintf(to, size, "%s", path);
    else
        snprintf(to, size, "/proc/self/fd/%d", fd);
}

static void run_python(const char *script, const char *library, int fd)
{
    /* What a sandbox of the default policy has, so that a copy has little to change. But for its home:
     * of one on the host the interpreter would run what lies in its .local, and nobody can put
     * anything below this one. Once it has started python.py makes it /workspace. */
    char preload[4128]; /* template/heap.c takes it out of sight again */
    char names[2][4096];
    const int files[] = {open_nameless(script, "coto-template.py"), open_nameless(library, "coto-template.so")};
    char *const envp[] = {"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
                          TEMPLATE_HOME, "USER=sandbox", "LOGNAME=sandbox",
                          "SHELL=/bin/sh",   "LANG=C.UTF-8", "TMPDIR=/tmp",
                          "COTO_OUTPUT=/workspace/output", preload, NULL};
    char number[16];
    char *argv[] = {PYTHON, names[0], names[1], number, NULL, NULL};
    int in[2];
    int out[2];
    sigset_t none;

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    /* Its copies inherit that they are the first to go; without the flag the file is not an ordinary user's own. */
    prctl(PR_SET_DUMPABLE, 1);
    if (coto_file_write_at(AT_FDCWD, "/proc/self/oom_score_adj", "1000"))
        _exit(70);
    /* What it imports asks for the host's name; its copies have the sandbox's. Without the right to that
     * python.py forgets it. */
    if (unshare(CLONE_NEWUTS) == 0)
        (void)!sethostname("coto", 4);
    const char *view = launcher_own_view() ? "own" : "host";
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    for (int i = 1; i < 32; i++)
        signal(i, SIG_DFL);
    /* Pipes, as a program in a sandbox has them: the interpreter looks what kind they are. */
    int control = fcntl(fd, F_DUPFD, 10);
    if (pipe(in) || pipe(out) || control < 0 || dup2(in[0], 0) < 0 || dup2(out[1], 1) < 0 ||
        dup2(out[1], 2) < 0 || chdir("/") || coto_sched_leave_real_time(NULL))
        _exit(70);
    snprintf(number, sizeof number, "%d", control);
    argv[4] = (char *)view;
    name_it(files[0], script, names[0], sizeof names[0]);
    name_it(files[1], library, names[1], sizeof names[1]);
    snprintf(preload, sizeof preload, "LD_PRELOAD=%s", names[1]);
    for (int i = 3; i < 64; i++)
        if (i != control && i != out[0] && i != in[1] && i != files[0] && i != files[1])
            close(i);
    fcntl(out[0], F_SETFD, 0);
    execve(PYTHON, argv, envp);
    _exit(127);
}

/* What it is to import. Not as arguments, whose room in /proc/self/cmdline its copies keep. */
static int say_modules(int fd, const struct template_kind *kind)
{
    struct iovec parts[] = {{(char *)launcher_modules, strlen(launcher_modules)}, {"\n", 1}, {"", 0}};
    const struct msghdr msg = {.msg_iov = parts, .msg_iovlen = 3};

    if (kind->modules)
        parts[2] = (struct iovec){(char *)kind->modules, strlen(kind->modules)};
    return sendmsg(fd, &msg, MSG_NOSIGNAL) < 0 ? -1 : 0;
}

static struct template *current(struct template_kind *kind)
{
    return &kind->templates[kind->turn];
}

static struct template *successor(struct template_kind *kind)
{
    return &kind->templates[!kind->turn];
}

/* Its plan has been held to the lists there are (most.c). */
static struct template_kind *kind_of(struct launcher *l, const struct box *box)
{
    int i = 0;

    while (box->plan.modules && i < l->most.list_count && strcmp(l->most.modules[i], box->plan.modules) != 0)
        i++;
    if (!box->plan.modules || i == l->most.list_count)
        return &l->kinds[0];
    l->kinds[1 + i].modules = l->most.modules[i];
    return &l->kinds[1 + i];
}

/* is_reaped: its number may be somebody else's by now. */
static void forget(struct launcher *l, struct template *t, bool is_reaped, int64_t retry_us)
{
    if (t->pid <= 0)
        return;
    launcher_unwatch(l, t->fd);
    close(t->fd);
    if (!is_reaped) {
        kill(t->pid, SIGKILL);
        while (waitpid(t->pid, NULL, 0) < 0 && errno == EINTR)
            ;
    }
    *t = (struct template){.fd = -1, .retry_us = retry_us};
}

static void start(struct launcher *l, struct template_kind *kind, struct template *t)
{
    char script[4096];
    char library[4096];
    int sv[2];

    if (t->pid > 0 || coto_clock_us() < t->retry_us)
        return;
    t->retry_us = coto_clock_us() + RETRY_US;
    if (access(PYTHON, X_OK) || coto_helper_find("coto-template.py", script, sizeof script) ||
        coto_helper_find("coto-template.so", library, sizeof library) ||
        socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sv))
        return;
    pid_t pid = fork();
    if (pid == 0)
        run_python(script, library, sv[1]);
    close(sv[1]);
    if (pid < 0) {
        close(sv[0]);
        return;
    }
    *t = (struct template){
        .source = {SOURCE_TEMPLATE, t}, .kind = kind, .pid = pid, .fd = sv[0], .began_us = coto_clock_us()};
    if (say_modules(sv[0], kind) || launcher_watch(l, sv[0], &t->source)) /* nobody would hear that it is ready */
        forget(l, t, false, t->began_us + RETRY_US);
}

static void stop(struct launcher *l, struct template *t, int64_t retry_us)
{
    forget(l, t, false, retry_us);
}

/* The one that copies are made of now, if there is any; of one that has made enough, or has died, the successor as
 * soon as it waits. */
static struct template *choose(struct launcher *l, struct template_kind *kind)
{
    struct template *t = current(kind);
    bool is_enough = t->pid > 0 && !t->box && t->forks >= FORKS_MAX - FORKS_AHEAD;

    if (is_enough)
        start(l, kind, successor(kind));
    if ((is_enough && successor(kind)->ready) || (t->pid <= 0 && successor(kind)->pid > 0)) {
        stop(l, t, 0);
        kind->turn = !kind->turn;
    } else if (is_enough && t->forks >= FORKS_MAX + FORKS_LATE) {
        stop(l, t, 0);
    }
    t = current(kind);
    start(l, kind, t);
    return t;
}

/* ---- parking ---- */

static void done(struct launcher *l, struct box *box)
{
    coto_own_close(&box->sandbox->parked_fd);
    if (box->state == BOX_IN_USE) { /* it came late */
        if (l->driver->rest)
            l->driver->rest(box->sandbox);
        return;
    }
    l->status.starting--;
    launcher_box_ready(l, box);
}

static int send_with_fds(int fd, const struct coto_template_fork *ask, const int *fds, int count)
{
    union {
        struct cmsghdr head;
        char space[CMSG_SPACE(COTO_TEMPLATE_FDS * sizeof(int))];
    } control = {0};
    struct iovec iov = {(void *)ask, sizeof *ask};
    struct msghdr msg = {.msg_iov = &iov,
                         .msg_iovlen = 1,
                         .msg_control = &control,
                         .msg_controllen = CMSG_SPACE((size_t)count * sizeof(int))};

    control.head.cmsg_level = SOL_SOCKET;
    control.head.cmsg_type = SCM_RIGHTS;
    control.head.cmsg_len = CMSG_LEN((size_t)count * sizeof(int));
    memcpy(CMSG_DATA(&control.head), fds, (size_t)count * sizeof(int));
    return sendmsg(fd, &msg, MSG_NOSIGNAL) < 0 ? -1 : 0;
}

static int send_fork(const struct launcher *l, const struct template *t, struct box *box)
{
    int fds[COTO_TEMPLATE_FDS] = {box->sandbox->alive_fd, box->sandbox->parked_fd};
    int joins[8];
    bool born = false;
    int count = l->driver->open_join(box->sandbox, joins, &born);
    struct coto_template_fork ask = {.what = born ? COTO_TEMPLATE_FORK_BORN : COTO_TEMPLATE_FORK,
                                     .uid = box->plan.uid,
                                     .gid = box->plan.gid,
                                     .caps = box->plan.caps};

    if (count < 0 || count > COTO_TEMPLATE_FDS - 2)
        return -1;
    memcpy(fds + 2, joins, (size_t)count * sizeof fds[0]);
    int failed = send_with_fds(t->fd, &ask, fds, count + 2);
    for (int i = 0; i < count; i++)
        close(joins[i]);
    return failed;
}

/* The next one in the queue, as long as there is a template that has nothing to do. */
static void next(struct launcher *l, struct template_kind *kind)
{
    struct template *t = choose(l, kind);

    while (kind->parking && (t->pid <= 0 || (t->ready && !t->box))) {
        struct box *box = kind->parking;
        kind->parking = box->next;
        box->next = NULL;
        if (t->pid <= 0 || send_fork(l, t, box)) {
            done(l, box);
        } else {
            t->box = box;
            t->asked_us = coto_clock_us();
        }
    }
}

void launcher_park(struct launcher *l, struct box *box)
{
    struct template_kind *kind = kind_of(l, box);
    struct box **end = &kind->parking;

    while (*end)
        end = &(*end)->next;
    kind->used_us = coto_clock_us();
    /* To import what is large takes seconds. Who waits for this very box waits no longer than without. */
    if (kind != l->kinds && !box->shelf && !choose(l, kind)->ready) {
        done(l, box);
        return;
    }
    *end = box;
    next(l, kind);
}

void launcher_unpark(struct launcher *l, struct box *box)
{
    struct template_kind *kind = kind_of(l, box);

    for (struct box **at = &kind->parking; *at; at = &(*at)->next)
        if (*at == box) {
            *at = box->next;
            return;
        }
    if (current(kind)->box == box) {
        current(kind)->box = NULL;
        current(kind)->unasked++;
    }
}

/* It will not be otherwise the next time. Told once: it is slower, and nothing else. */
static void tell_refused(int why)
{
    static bool is_told;

    if (is_told || (why != EPERM && why != EACCES))
        return;
    is_told = true;
    fprintf(stderr, "coto-launch: Python is started anew in every sandbox, which takes several times as long: its copies may not join one: %s\n"
                    "  remedy: give the service CAP_SYS_PTRACE and CAP_SYS_CHROOT (docs/SERVICE.md, systemd)\n", strerror(why));
}

/* Told once for each list: programs that want one import it themselves, or fail as they would anyway. */
static void tell_missing(struct template_kind *kind, const char *names, ssize_t len)
{
    if (!kind->is_told)
        fprintf(stderr, "coto-launch: of `modules` these cannot be imported and are left out: %.*s\n", (int)len, names);
    kind->is_told = true;
}

void launcher_template_says(struct launcher *l, struct template *t)
{
    unsigned char text[512];
    ssize_t n = recv(t->fd, text, sizeof text, MSG_DONTWAIT);
    struct template_kind *kind = t->kind;
    struct box *box = t->box;

    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n <= 0) {
        stop(l, t, t->began_us + RETRY_US); /* at once, if it has lived longer than that */
    } else if (text[0] == COTO_TEMPLATE_WITHOUT) {
        tell_missing(kind, (const char *)text + 1, n - 1);
        return;
    } else if (text[0] == COTO_TEMPLATE_READY) {
        t->ready = true;
        box = NULL;
    } else {
        t->forks++;
        l->status.parked += text[0] == COTO_TEMPLATE_OK;
        tell_refused(n > 1 ? text[1] : 0);
        if (t->unasked > 0) {
            t->unasked--;
            box = NULL;
        } else {
            t->box = NULL;
        }
    }
    if (box)
        done(l, box);
    next(l, kind);
}

static bool hangs(const struct template *t, int64_t now)
{
    return t->pid > 0 && (t->ready ? t->box && now - t->asked_us > COPY_US : now - t->began_us > START_US);
}

static void look(struct launcher *l, struct template_kind *kind, int64_t now)
{
    for (int i = 0; i < 2; i++) {
        struct template *t = &kind->templates[i];
        struct box *box = t->box;
        bool is_dead = t->pid > 0 && waitpid(t->pid, NULL, WNOHANG) == t->pid;
        if (!is_dead && !hangs(t, now))
            continue;
        forget(l, t, is_dead, t->began_us + RETRY_US);
        if (box)
            done(l, box);
        next(l, kind);
    }
}

static void stop_kind(struct launcher *l, struct template_kind *kind)
{
    stop(l, current(kind), 0);
    stop(l, successor(kind), 0);
}

/* Its socket tells when it dies, unless somebody else has it too; nothing tells that it hangs. */
void launcher_template_look(struct launcher *l)
{
    int64_t now = coto_clock_us();

    for (int i = 0; i < 1 + l->most.list_count; i++) {
        struct template_kind *kind = &l->kinds[i];
        look(l, kind, now);
        if (i > 0 && !kind->parking && !current(kind)->box && now - kind->used_us > UNUSED_US)
            stop_kind(l, kind);
    }
}

void launcher_template_stop(struct launcher *l)
{
    for (int i = 0; i < 1 + l->most.list_count; i++)
        stop_kind(l, &l->kinds[i]);
}
