/* attend: runs a service and, whenever it is told to, lets one system call of one of its processes fail.
 *
 *   attend TELL GO ORDERS -- COMMAND...
 *
 * Orders come on descriptor ORDERS, one line each, and "done" is told when one is in force:
 *   list                       tell every call from now on
 *   fail ROLE NUMBER N ERRNO   the N-th call NUMBER of ROLE from now on fails
 *   quiet                      neither
 *
 * Roles: front and launcher with their threads (the launcher's: nets), starter, template, first (what the
 * launcher has cloned, until it executes something), init, thread (of init), child (from init's clone to
 * execve), copy (of the template, from the clone to the program). A program is let go when it starts.
 *
 * Everything is traced from its birth on: no process of the service lets anybody attach to it later. The
 * processes that live long stop at each of their calls all the time, the others when they are looked at.
 *
 * Reports go to descriptor TELL, one line each: "command PID", "done", "call ROLE NUMBER", "fired ROLE NUMBER",
 * "program PID ROLE" (then it waits for a byte on GO, while the caller looks at the sandbox). */
#include "call.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>

#define MAX_TASKS 1024
#define LAST_FD 0x7fffffffu /* template/template.c: the last thing before a program */
#define OPTIONS                                                                                    \
    (PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACEFORK | PTRACE_O_TRACEVFORK | PTRACE_O_TRACECLONE |      \
     PTRACE_O_TRACEEXEC | PTRACE_O_EXITKILL)

/* Those before FIRST live long. */
enum role { KEEPER, HALF, FRONT, LAUNCHER, NETS, STARTER, TEMPLATE, COPY, FIRST, INIT, THREAD, CHILD, OTHER, ROLES };
static const char *const role_name[ROLES] = {"keeper", "half", "front", "launcher", "nets", "starter", "template",
                                             "copy", "first", "init", "thread", "child", "other"};

struct task {
    pid_t pid;
    enum role role;
    bool answer;      /* the call it is in gets our answer */
    bool has_program; /* a copy that was sent one */
    bool is_ready;    /* it has nothing left to do but close descriptors */
    unsigned long long asked;
};

static struct {
    enum role role;
    long number, nth, count;
    int error;
    bool list, fail;
} plan;

static struct task tasks[MAX_TASKS];
static pid_t command;
static int report_fd, go_fd, order_fd;

__attribute__((format(printf, 1, 2))) static void report(const char *format, ...)
{
    char line[256];
    va_list args;

    va_start(args, format);
    int len = vsnprintf(line, sizeof line - 1, format, args);
    va_end(args);
    line[len++] = '\n';
    if (write(report_fd, line, (size_t)len) < 0)
        _exit(70);
}

/* ---- who is who ---- */

static long status_number(pid_t pid, const char *key)
{
    char path[64];
    char line[512];
    long value = -1;

    snprintf(path, sizeof path, "/proc/%d/status", (int)pid);
    FILE *file = fopen(path, "re");
    while (file && fgets(line, sizeof line, file))
        if (strncmp(line, key, strlen(key)) == 0)
            value = atol(line + strlen(key));
    if (file)
        fclose(file);
    return value;
}

static bool is_called(pid_t pid, const char *name)
{
    char path[64];
    char line[32] = "";

    snprintf(path, sizeof path, "/proc/%d/comm", (int)pid);
    FILE *file = fopen(path, "re");
    if (file) {
        if (!fgets(line, sizeof line, file))
            line[0] = '\0';
        fclose(file);
    }
    line[strcspn(line, "\n")] = '\0';
    return strcmp(line, name) == 0;
}

static struct task *find_task(pid_t pid)
{
    for (int i = 0; i < MAX_TASKS; i++)
        if (pid > 0 && tasks[i].pid == pid)
            return &tasks[i];
    return NULL;
}

static enum role role_of(pid_t pid)
{
    static const enum role of_thread[ROLES] = {[FRONT] = FRONT, [LAUNCHER] = NETS, [INIT] = THREAD};
    static const enum role of_child[ROLES] = {[KEEPER] = HALF,    [FRONT] = STARTER, [LAUNCHER] = FIRST, [NETS] = FIRST,
                                              [TEMPLATE] = COPY,  [COPY] = COPY,     [INIT] = CHILD,     [THREAD] = CHILD};
    pid_t leader = (pid_t)status_number(pid, "Tgid:");
    bool is_thread = leader != pid && leader > 0;
    const struct task *from = find_task(is_thread ? leader : (pid_t)status_number(pid, "PPid:"));

    if (!from)
        return pid == command ? KEEPER : OTHER;
    enum role role = is_thread ? of_thread[from->role] : of_child[from->role];
    return role == KEEPER ? OTHER : role;
}

static struct task *know_task(pid_t pid)
{
    struct task *task = find_task(pid);

    for (int i = 0; i < MAX_TASKS && !task; i++)
        if (tasks[i].pid == 0) {
            task = &tasks[i];
            *task = (struct task){.pid = pid, .role = role_of(pid)};
        }
    if (!task) {
        fprintf(stderr, "attend: too many processes\n");
        exit(70);
    }
    return task;
}

/* A half of the service is known by the name it takes. */
static void look_again(struct task *task)
{
    if (task->role == HALF && is_called(task->pid, "coto-front"))
        task->role = FRONT;
    if (task->role == HALF && is_called(task->pid, "coto-launch"))
        task->role = LAUNCHER;
}

/* ---- calls ---- */

static bool is_watched(const struct task *task)
{
    return task->role < FIRST || plan.list || (plan.fail && task->role == plan.role) || task->answer;
}

static void let_go(struct task *task)
{
    char go;

    report("program %d %s", (int)task->pid, role_name[task->role]);
    if (read(go_fd, &go, 1) != 1)
        exit(70);
    ptrace(PTRACE_DETACH, task->pid, 0, 0);
    task->pid = 0;
}

/* A copy gets its program by a message, and closes everything else then. */
static void look_at_copy(struct task *task, const struct __ptrace_syscall_info *info)
{
    if (task->role != COPY)
        return;
    task->has_program |= info->entry.nr == SYS_recvmsg;
    task->is_ready |= task->has_program && info->entry.nr == SYS_close_range && info->entry.args[1] == LAST_FD;
}

/* Locks of files are SQLite's, which counts them itself and does not expect that letting go of one can fail. It cannot, nor
 * can taking out of an epoll what is in it, nor asking for a limit of one's own. */
static bool is_sure(const struct __ptrace_syscall_info *info)
{
    if (info->entry.nr == SYS_prlimit64)
        return info->entry.args[0] == 0 && info->entry.args[2] == 0;
    if (info->entry.nr == SYS_epoll_ctl)
        return info->entry.args[1] == EPOLL_CTL_DEL;
    return info->entry.nr == SYS_fcntl && (info->entry.args[1] == F_SETLK || info->entry.args[1] == F_SETLKW);
}

static void on_call(struct task *task)
{
    struct __ptrace_syscall_info info = {0};

    if (ptrace(PTRACE_GET_SYSCALL_INFO, task->pid, sizeof info, &info) <= 0)
        return;
    if (info.op == PTRACE_SYSCALL_INFO_EXIT && task->answer) {
        task->answer = false;
        call_answer(task->pid, task->asked, plan.error);
    }
    if (info.op != PTRACE_SYSCALL_INFO_ENTRY)
        return;
    if (task->is_ready && info.entry.nr != SYS_close) {
        let_go(task);
        return;
    }
    look_again(task);
    look_at_copy(task, &info);
    long number = (long)info.entry.nr;
    if (call_is_exempt(&info) || is_sure(&info))
        return;
    if (plan.list)
        report("call %s %ld", role_name[task->role], number);
    if (!plan.fail || task->role != plan.role || number != plan.number || ++plan.count != plan.nth)
        return;
    plan.fail = false;
    task->answer = true;
    plan.error = call_error(task->pid, number, (int)info.entry.args[0], plan.error);
    report("fired %s %ld", role_name[task->role], number);
    call_refuse(task->pid, number, &task->asked);
}

/* ---- events ---- */

static void on_exec(struct task *task)
{
    if (task->role == CHILD)
        let_go(task);
    else if (task->role == FIRST)
        task->role = is_called(task->pid, "coto-init") ? INIT : is_called(task->pid, "python3") ? TEMPLATE : OTHER;
}

static void on_birth(pid_t parent)
{
    unsigned long born = 0;

    /* Now, because its parent may be another one soon. */
    if (ptrace(PTRACE_GETEVENTMSG, parent, 0, &born) == 0 && born)
        know_task((pid_t)born);
}

static void on_stop(pid_t pid, int status)
{
    struct task *task = know_task(pid);
    int event = status >> 16;
    int signo = WSTOPSIG(status);

    if (signo == (SIGTRAP | 0x80)) {
        on_call(task);
        signo = 0;
    } else if (event == PTRACE_EVENT_EXEC) {
        on_exec(task);
        signo = 0;
    } else if (event == PTRACE_EVENT_STOP && (signo == SIGSTOP || signo == SIGTSTP)) {
        ptrace(PTRACE_LISTEN, pid, 0, 0);
        return;
    } else if (event) {
        if (event != PTRACE_EVENT_STOP)
            on_birth(pid);
        signo = 0;
    }
    if (task->pid)
        ptrace(is_watched(task) ? PTRACE_SYSCALL : PTRACE_CONT, pid, 0, signo);
}

static void on_end(pid_t pid, int status)
{
    struct task *task = find_task(pid);

    if (task)
        task->pid = 0;
    if (pid == command && (WIFEXITED(status) || WIFSIGNALED(status)))
        exit(WIFEXITED(status) ? WEXITSTATUS(status) : 70);
}

/* ---- orders ---- */

static void obey(const char *line)
{
    char role[16];
    long number, nth;
    int error;

    plan.list = strcmp(line, "list") == 0;
    plan.fail = sscanf(line, "fail %15s %ld %ld %d", role, &number, &nth, &error) == 4;
    if (plan.fail) {
        plan.number = number;
        plan.nth = nth;
        plan.count = 0;
        plan.error = error;
        plan.role = 0;
        while (plan.role < ROLES && strcmp(role_name[plan.role], role))
            plan.role++;
    }
    report("done");
}

/* One at a time: whoever orders waits until it is done. */
static void take_order(void)
{
    char line[128];
    ssize_t n = read(order_fd, line, sizeof line - 1);

    if (n <= 0)
        exit(70);
    line[n] = '\0';
    line[strcspn(line, "\n")] = '\0';
    obey(line);
}

static void watch(int signal_fd)
{
    struct signalfd_siginfo info;
    struct pollfd fds[] = {{.fd = signal_fd, .events = POLLIN}, {.fd = order_fd, .events = POLLIN}};
    int status;

    for (;;) {
        pid_t pid = waitpid(-1, &status, __WALL | WNOHANG);
        if (pid < 0)
            return;
        if (pid > 0 && WIFSTOPPED(status))
            on_stop(pid, status);
        else if (pid > 0)
            on_end(pid, status);
        if (pid > 0)
            continue;
        if (poll(fds, 2, -1) < 0)
            continue;
        if (fds[0].revents && read(signal_fd, &info, sizeof info) < 0)
            return;
        if (fds[1].revents)
            take_order();
    }
}

static void start(char **argv)
{
    int gate[2];
    char go = 1;
    sigset_t none;

    if (pipe2(gate, O_CLOEXEC) || (command = fork()) < 0) {
        perror("attend");
        exit(70);
    }
    if (command == 0) {
        for (int i = 0; i < 3; i++)
            fcntl((int[]){report_fd, go_fd, order_fd}[i], F_SETFD, FD_CLOEXEC);
        sigemptyset(&none);
        sigprocmask(SIG_SETMASK, &none, NULL);
        if (read(gate[0], &go, 1) == 1)
            execv(argv[0], argv);
        _exit(70);
    }
    if (ptrace(PTRACE_SEIZE, command, 0, OPTIONS)) {
        perror("attend: ptrace");
        kill(command, SIGKILL);
        exit(70);
    }
    know_task(command);
    report("command %d", (int)command);
    if (write(gate[1], &go, 1) != 1)
        exit(70);
    close(gate[0]);
    close(gate[1]);
}

int main(int argc, char **argv)
{
    sigset_t child;

    if (argc < 6 || strcmp(argv[4], "--")) {
        fprintf(stderr, "usage: attend TELL GO ORDERS -- COMMAND...\n");
        return 64;
    }
    report_fd = atoi(argv[1]);
    go_fd = atoi(argv[2]);
    order_fd = atoi(argv[3]);
    sigemptyset(&child);
    sigaddset(&child, SIGCHLD);
    sigprocmask(SIG_BLOCK, &child, NULL);
    start(argv + 5);
    watch(signalfd(-1, &child, SFD_CLOEXEC));
    return 0;
}
