/* The part of an interpreter template that is not the interpreter: forking into a sandbox.
 *
 * Theory of operation. The template is an ordinary interpreter, started by the launcher with its
 * privilege, that has imported its libraries and then waits here. It never sees a byte of
 * user code. For each sandbox it makes one copy of itself inside:
 *
 *   template        outside all namespaces of the sandbox
 *    +- A           borrows the template's memory; joins the sandbox's cgroup and namespaces
 *        +- B       a copy of the memory (fork): the parked interpreter
 *
 * An orphan goes to the init of its parent's pid namespace: when A, which is made in the sandbox's, ends, B
 * becomes a child of the sandbox's coto-init, which waits for it like for any other. Only B costs a copy; A lives for a
 * few system calls while the template sleeps.
 *
 * To make children in another pid namespace takes a privilege that an ordinary user's template has only once it has joined the
 * sandbox's user namespace. There A joins both, and one more between the two, A', makes B.
 *
 * B tells init that it is there, and waits. When init has a program for it, it raises the
 * walls around itself (init/walls.c, the very code that runs before an execve), says what the
 * kernel says about it, closes every descriptor but 0, 1, 2, and returns to the interpreter.
 *
 * Most of the system-call filter is loaded once, by the template: the kernel takes longer to compile it
 * than to run a short program, and a copy inherits it compiled. It allows what A, A' and B do up to here as well, so
 * B loads a second, small one where others load all of it, which takes that away (kernel/seccomp.h).
 *
 * All copies of one template share its address layout; the launcher throws a template away after some
 * forks (docs/decisions/0009). Their hash secrets are their own (hash.c).
 */
#include "template/talk.h"
#include "template/template.h"

#include "base/fd.h"
#include "init/walls.h"
#include "kernel/ns.h"
#include "kernel/seccomp.h"
#include "kernel/sockwatch.h"
#include "schema/options.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#ifndef PR_GET_TID_ADDRESS
#define PR_GET_TID_ADDRESS 40
#endif
#define BESIDE __attribute__((section(".data"))) /* with what else is small, and not where the large arrays are */
#define ALL_NAMESPACES                                                                             \
    (CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNS | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS |      \
     CLONE_NEWCGROUP)

/* No number is above it, and gVisor takes ~0u for -1. */
#define LAST_FD 0x7fffffffu
#define LAST_OPEN 1023u /* a template has a dozen */

/* The stacks come first, so that their upper ends, where they are used, lie beside the rest: each page that is written to
 * here is copied for each sandbox. */
static struct {
    _Alignas(16) char stack_a[32 * 1024];
    _Alignas(16) char stack_b[32 * 1024];
    int fds[COTO_TEMPLATE_FDS]; /* as they came: pidfd, channel, cgroup */
    int fd_count;
    struct coto_template_fork ask;
    bool born;     /* fds[2] is a cgroup v2 directory, already used */
    int *tid;      /* where the C library keeps this thread's id */
    int error;     /* of A or A' */
    bool is_inside; /* A is in the pid namespace from the beginning */
    void *back[5]; /* B's way back to the template's stack */
} t;

/* Of the default tier. Programs of another tier load theirs beside it, unless that one allows more: the
 * service starts those the long way (api/execute.c). */
static struct {
    struct coto_seccomp_program whole, shared, rest, watching; /* the last: the rest, and who makes a socket is seen */
    struct sock_fprog watch; /* that last one */
    bool is_loaded; /* shared is in force */
} filter;

static int own_pidfd = -1; /* the template's */
static struct init_spec spec BESIDE;
static int channel = -1; /* to init, while there may be another program */
static int listener = -1; /* until init has it */
static int own[2] = {-1, -1}; /* the channel from the first answer on, where state is kept */
static pid_t self BESIDE; /* who got the program; it may fork, and what is forked has not */
static bool is_inside; /* it was started in the sandbox, by its init */
static bool is_bounded; /* there: coto_caps_is_bounded, seen while it waits */

/* ---- A and A': system calls only, in borrowed memory ---- */

/* On the stack of its parent, in memory of its own. */
static __attribute__((noreturn)) void return_as_copy(void)
{
    __builtin_longjmp(t.back, 1);
}

static int make_copy(void *arg)
{
    long pid = syscall(SYS_clone, CLONE_CHILD_SETTID | CLONE_CHILD_CLEARTID | SIGCHLD, 0, NULL, t.tid, 0);

    (void)arg;
    if (pid == 0)
        return_as_copy();
    if (pid < 0)
        t.error = errno;
    return 0;
}

static int join_cgroup(void)
{
    for (int i = 2; i < t.fd_count && !t.born; i++)
        if (write(t.fds[i], "0", 1) != 1)
            return errno;
    return 0;
}

static int run_outer(void *arg)
{
    const struct coto_ns_child inner = {make_copy, NULL, t.stack_b, sizeof t.stack_b};
    int pidfd = -1;

    (void)arg;
    t.error = join_cgroup();
    if (!t.error && setns(t.fds[0], ALL_NAMESPACES & (t.is_inside ? ~CLONE_NEWPID : ~0)))
        t.error = errno;
    if (t.error)
        return 0;
    if (t.is_inside)
        return make_copy(NULL);
    pid_t pid = coto_ns_spawn(CLONE_VFORK, -1, &inner, &pidfd);
    if (pid < 0)
        t.error = errno;
    else
        waitpid(pid, NULL, 0);
    return 0;
}

/* Of the template's children, from now on. Who may not once never may. */
static bool enter_pid_namespace(void)
{
    static bool is_refused;

    if (is_refused || own_pidfd < 0)
        return false;
    bool is_done = setns(t.fds[0], CLONE_NEWPID) == 0;
    is_refused = !is_done && errno == EPERM;
    return is_done;
}

/* Without its own no other copy could be made, and the sandbox's would stay. */
static void leave_pid_namespace(void)
{
    if (t.is_inside && setns(own_pidfd, CLONE_NEWPID))
        _exit(71);
}

/* 0 in the template, 1 in the copy. */
static int fork_inside(void)
{
    const struct coto_ns_child outer = {run_outer, NULL, t.stack_a, sizeof t.stack_a};
    int pidfd = -1;

    t.error = 0;
    if (__builtin_setjmp(t.back))
        return 1;
    t.is_inside = enter_pid_namespace();
    pid_t pid = coto_ns_spawn(CLONE_VFORK, t.born ? t.fds[2] : -1, &outer, &pidfd);
    if (pid < 0)
        t.error = errno;
    leave_pid_namespace();
    if (pid < 0)
        return 0;
    coto_own_close(&pidfd);
    while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
        ;
    return 0;
}

static int become_parked(int control_fd);

/* ---- the template ---- */

/* The interpreter's own care before and after a fork, where it has any. */
static void call(const char *name)
{
    void (*function)(void);
    void *found = dlsym(RTLD_DEFAULT, name);

    memcpy(&function, &found, sizeof function);
    if (found)
        function();
}

static int receive(int fd)
{
    union {
        struct cmsghdr head;
        char space[CMSG_SPACE(sizeof t.fds)];
    } control;
    struct iovec iov = {&t.ask, sizeof t.ask};
    struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1, .msg_control = &control,
                         .msg_controllen = sizeof control.space};
    ssize_t n;

    do
        n = recvmsg(fd, &msg, MSG_CMSG_CLOEXEC);
    while (n < 0 && errno == EINTR);
    if (n != (ssize_t)sizeof t.ask)
        return -1;
    struct cmsghdr *c = CMSG_FIRSTHDR(&msg);
    t.fd_count = 0;
    if (c && c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS) {
        t.fd_count = (int)((c->cmsg_len - CMSG_LEN(0)) / sizeof(int));
        memcpy(t.fds, CMSG_DATA(c), (size_t)t.fd_count * sizeof(int));
    }
    return 0;
}

static void close_received(void)
{
    for (int i = 0; i < t.fd_count; i++)
        coto_own_close(&t.fds[i]);
    t.fd_count = 0;
}

static void answer(int fd)
{
    unsigned char text[2] = {t.error ? COTO_TEMPLATE_ERROR : COTO_TEMPLATE_OK, (unsigned char)t.error};

    if (send(fd, text, sizeof text, MSG_NOSIGNAL) < 0)
        _exit(0);
}

/* Without it copies load the whole. */
static void share_filter(void)
{
    struct sock_fprog program = {.filter = filter.shared.code};

    if (coto_seccomp_build(COTO_SECCOMP_DEFAULT, 0, &filter.whole, NULL) ||
        coto_seccomp_build(COTO_SECCOMP_DEFAULT, COTO_SECCOMP_SHARED, &filter.shared, NULL) ||
        coto_seccomp_build(COTO_SECCOMP_DEFAULT, COTO_SECCOMP_REST, &filter.rest, NULL) ||
        coto_seccomp_build(COTO_SECCOMP_DEFAULT, COTO_SECCOMP_REST | COTO_SECCOMP_WATCHED, &filter.watching, NULL))
        return;
    program.len = filter.shared.len;
    filter.watch = (struct sock_fprog){.len = filter.watching.len, .filter = filter.watching.code};
    filter.is_loaded = prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
                       syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) == 0;
}

/* Where it is simple neither side runs a line of the interpreter's about the fork, which would
 * only make both write to, and so copy, pages they have in common. */
int template_serve(int control_fd, bool is_simple)
{
    char what = COTO_TEMPLATE_READY;

    prctl(PR_SET_DUMPABLE, 0);
    own_pidfd = (int)syscall(SYS_pidfd_open, getpid(), 0);
    if (prctl(PR_GET_TID_ADDRESS, &t.tid, 0, 0, 0))
        t.tid = NULL;
    share_filter();
    if (send(control_fd, &what, 1, MSG_NOSIGNAL) != 1)
        return -1;
    while (receive(control_fd) == 0) {
        t.born = t.ask.what == COTO_TEMPLATE_FORK_BORN;
        t.error = t.fd_count < 2 || (t.ask.what != COTO_TEMPLATE_FORK && !t.born) ? EINVAL : 0;
        if (!t.error) {
            if (!is_simple)
                call("PyOS_BeforeFork");
            if (fork_inside()) {
                if (!is_simple)
                    call("PyOS_AfterFork_Child");
                return become_parked(control_fd) ? -1 : template_go(NULL);
            }
            if (!is_simple)
                call("PyOS_AfterFork_Parent");
        }
        close_received();
        answer(control_fd);
    }
    return -1;
}

/* ---- the parked copy ---- */

/* Without any privilege from here on, but for what its plan adds back inside, and within reach of the sandbox's init. What is left of it, all five
 * sets, is read before there is a program (init/walls.c), and need not be read now. */
static int drop_privilege(void)
{
    for (unsigned bit = 0; bit < 64; bit++)
        if (!(t.ask.caps >> bit & 1) && prctl(PR_CAPBSET_DROP, bit, 0, 0, 0)) {
            if (errno != EINVAL)
                return -1;
            break; /* past the last one */
        }
    if (t.ask.caps && prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0))
        return -1;
    if (setgroups(0, NULL) && errno != EPERM)
        return -1;
    if (setresgid(t.ask.gid, t.ask.gid, t.ask.gid) || setresuid(t.ask.uid, t.ask.uid, t.ask.uid))
        return -1;
    return coto_caps_keep(t.ask.caps, NULL) || prctl(PR_SET_KEEPCAPS, 0, 0, 0, 0) || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
}

static int say_hello(void)
{
    struct coto_parked_hello hello = {COTO_PARKED_MAGIC, getpid()};

    return send(channel, &hello, sizeof hello, MSG_NOSIGNAL) == (ssize_t)sizeof hello ? 0 : -1;
}

/* A fourth descriptor is a /proc to ask for a profile in. */
static int wait_for_program(struct coto_buf *buf, int fds[4])
{
    union {
        struct cmsghdr head;
        char space[CMSG_SPACE(4 * sizeof(int))];
    } control;
    struct iovec iov = {buf->data, COTO_FRAME_MAX + COTO_FRAME_HEADER};
    struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1, .msg_control = &control,
                         .msg_controllen = sizeof control.space};
    ssize_t n;
    do
        n = recvmsg(channel, &msg, MSG_CMSG_CLOEXEC);
    while (n < 0 && errno == EINTR);
    struct cmsghdr *c = n > 0 ? CMSG_FIRSTHDR(&msg) : NULL;
    if (!c || c->cmsg_type != SCM_RIGHTS ||
        (c->cmsg_len != CMSG_LEN(3 * sizeof(int)) && c->cmsg_len != CMSG_LEN(4 * sizeof(int))))
        return -1;
    fds[3] = -1;
    memcpy(fds, CMSG_DATA(c), c->cmsg_len - CMSG_LEN(0));
    buf->len = (size_t)n;
    return 0;
}

/* What the filter of the program asks for beyond the one in force. */
static int leave_out_shared(struct coto_err *err)
{
    size_t size = filter.whole.len * sizeof filter.whole.code[0];

    if (!filter.is_loaded || spec.filter_len != filter.whole.len || memcmp(spec.filter, filter.whole.code, size) != 0)
        return 0;
    size = filter.rest.len * sizeof filter.rest.code[0];
    free(spec.filter);
    spec.filter = malloc(size);
    if (!spec.filter)
        return coto_err_set(err, COTO_ERR_LIMIT, ENOMEM, "template: filter");
    memcpy(spec.filter, filter.rest.code, size);
    spec.filter_len = filter.rest.len;
    spec.watching = is_inside ? NULL : &filter.watch;
    return 0;
}

static int take_program(const struct coto_buf *buf, unsigned *ret_proc, struct coto_err *err)
{
    struct coto_frame_reader reader = {.buf = *buf};
    struct coto_frame frame;

    if (coto_frame_next(&reader, &frame, err) != 1 || frame.type != COTO_FRAME_EXEC)
        return coto_err_set(err, COTO_ERR_INTERNAL, 0, "template: no EXEC frame");
    *ret_proc = frame.proc;
    spec.own_dev = !is_inside;
    spec.is_bounded = is_bounded;
    spec.label_now = true;
    return init_spec_parse(&frame, &spec, err) || leave_out_shared(err) ? -1 : 0;
}

/* The interpreter has no use for the pipes' other numbers. */
static int use_stdio(const int stdio[3], struct coto_err *err)
{
    for (int i = 0; i < 3; i++)
        if (dup2(stdio[i], i) < 0)
            return coto_err_set(err, COTO_ERR_SYSTEM, errno, "template: stdio");
    for (int i = 0; i < 3; i++)
        close(stdio[i]);
    return 0;
}

/* Of the template's own: its socket above all, by whose end the launcher sees that it has died. */
static void close_templates(int control_fd)
{
    if (syscall(SYS_close_range, 3u, (unsigned)channel - 1, 0u) == 0 &&
        syscall(SYS_close_range, (unsigned)channel + 1, LAST_FD, 0u) == 0)
        return;
    close_received();
    close(control_fd);
}

static int become_parked(int control_fd)
{
    channel = t.fds[1];
    t.fds[1] = -1;
    close_templates(control_fd);
    return drop_privilege() || say_hello();
}

int template_park(void)
{
    is_inside = true;
    channel = fcntl(0, F_DUPFD_CLOEXEC, 10);
    is_bounded = coto_caps_is_bounded();
    return channel < 0 || say_hello() ? -1 : template_go(NULL);
}

/* The profile is there but was not taken on. With an execve it may be: init starts the program anew
 * when this ends without a word. Where state is to be kept there is nobody else to keep it. */
static int check_label(const struct init_report *report, struct coto_err *err)
{
    int why = (int)report->apparmor_errno;

    if (why != EACCES && why != EPERM)
        return 0;
    if (!spec.context)
        _exit(0);
    coto_err_set(err, COTO_ERR_WALL, 0, "apparmor: profile '%s' %s", spec.apparmor, coto_apparmor_why(why));
    return coto_err_remedy(err, "run the service unconfined, or create the sandbox with cold: true");
}

/* Walls are raised once; what they are is told with every program. */
static int raise_walls(const struct init_report **ret_report, struct coto_err *err)
{
    static struct init_report report BESIDE;
    static bool up;

    *ret_report = &report;
    if (up)
        return 0;
    /* The program will hold it, and the first was made in the host's network namespace, which could be asked
     * for its interfaces by it, and given names. */
    if (spec.context && !is_inside && socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, own))
        return coto_err_set(err, COTO_ERR_LIMIT, errno, "template: channel");
    if (spec.filter && !is_inside && !spec.watching) /* without it calls of another kind would go unseen */
        listener = coto_sockwatch_install();
    spec.keep_fds[0] = channel;
    spec.keep_fds[1] = listener;
    spec.keep_fds[2] = own[0];
    spec.keep_fds[3] = own[1];
    int failed = init_walls_raise(&spec, &report, err);
    if (spec.watching && !failed)
        listener = report.listener;
    if (check_label(&report, err) || failed)
        return -1;
    /* The new uid made us undumpable; the sandbox's own tools may look at us again. */
    prctl(PR_SET_DUMPABLE, 1);
    up = true;
    return 0;
}

/* A filter of the host's may not know the call. */
static void close_from(unsigned first, unsigned last)
{
    if (syscall(SYS_close_range, first, last, 0u) == 0)
        return;
    for (unsigned fd = first; fd <= last && fd <= LAST_OPEN; fd++)
        close((int)fd);
}

/* Nothing but 0, 1, 2 stays open; the channel does for a context, and dies with execve. What is open
 * when a context's next program comes is the program before's, and stays too. */
static void close_others(void)
{
    static bool is_done;
    const int keep = spec.context ? channel : 2;

    if (spec.context && is_done)
        return;
    is_done = true;
    if (keep > 2)
        close_from(3, (unsigned)keep - 1);
    close_from((unsigned)keep + 1, LAST_FD);
    if (!spec.context)
        channel = -1;
}

/* Whether it is another than the interpreter has, in which case each change of it costs. */
static bool is_new_environment(void)
{
    size_t count = 0;

    for (char **have = environ; *have; have++, count++) {
        bool found = false;
        for (size_t i = 0; i < spec.env.count && !found; i++)
            found = strcmp(*have, spec.env.items[i]) == 0;
        if (!found)
            return true;
    }
    return count != spec.env.count;
}

static int send_answer(const struct coto_buf *out)
{
    union {
        struct cmsghdr head;
        char space[CMSG_SPACE(2 * sizeof(int))];
    } control = {0};
    struct iovec iov = {out->data, out->len};
    struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};
    int fds[2];
    size_t size = 0;

    if (own[1] >= 0)
        fds[size++] = own[1];
    if (listener >= 0)
        fds[size++] = listener;
    size *= sizeof fds[0];
    if (size > 0) {
        msg.msg_control = &control;
        msg.msg_controllen = CMSG_SPACE(size);
        control.head.cmsg_level = SOL_SOCKET;
        control.head.cmsg_type = SCM_RIGHTS;
        control.head.cmsg_len = CMSG_LEN(size);
        memcpy(CMSG_DATA(&control.head), fds, size);
    }
    ssize_t n = out->failed ? -1 : sendmsg(channel, &msg, MSG_NOSIGNAL);
    coto_own_close(&listener);
    coto_own_close(&own[1]);
    if (own[0] >= 0) {
        close(channel);
        channel = coto_take_fd(&own[0]);
    }
    return n < 0 ? -1 : 0;
}

int template_go(void (*forget)(void))
{
    static char space[COTO_FRAME_MAX + COTO_FRAME_HEADER + 1];
    struct coto_buf buf = {.data = space, .cap = sizeof space};
    coto_auto_buf out = {0};
    const struct init_report *report;
    struct coto_err err = {0};
    unsigned proc = 0;
    int fds[4];

    if (wait_for_program(&buf, fds))
        return -1;
    if (forget)
        forget();
    init_spec_fini(&spec);
    spec = (struct init_spec){.labels_fd = fds[3]};
    int failed = take_program(&buf, &proc, &err) || use_stdio(fds, &err) || raise_walls(&report, &err);
    if (failed)
        coto_frame_add_error(&out, proc, &err);
    else
        init_walls_add_started(&out, proc, getpid(), report);
    if (send_answer(&out) || failed)
        return -1;
    self = getpid();
    close_others();
    return (spec.context ? TEMPLATE_IS_CONTEXT : 0) |
           (is_new_environment() ? TEMPLATE_NEW_ENVIRONMENT : 0);
}

int template_done(int status)
{
    struct coto_parked_done done = {COTO_PARKED_MAGIC, status};
    int null = channel < 0 || getpid() != self ? -1 : open("/dev/null", O_RDWR | O_CLOEXEC);

    if (null < 0)
        return -1;
    for (int i = 0; i < 3; i++)
        dup2(null, i);
    if (null > 2) /* else the program had closed one of the three */
        close(null);
    return send(channel, &done, sizeof done, MSG_NOSIGNAL) == (ssize_t)sizeof done ? 0 : -1;
}

const struct init_spec *template_program(void)
{
    return &spec;
}
