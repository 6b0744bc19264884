/* inject: runs a command and lets one system call of one of its processes fail.
 *
 *   inject TELL GO SECONDS SIGNAL list [ROLE] -- COMMAND...
 *                                                       tells every call of every process, or of
 * ROLE inject TELL GO SECONDS SIGNAL fail ROLE NUMBER N ERRNO -- COMMAND... fails the N-th call
 * NUMBER of ROLE inject TELL GO SECONDS SIGNAL within ROLE NUMBER N ERRNO -- COMMAND... counts from
 * the command's CALL_BEGIN on
 *
 * What runs after SECONDS is told as hanging and ended. A SIGNAL that is not 0 is sent to
 * the command when the program is about to start.
 *
 * Roles: coto, guard (any other process beside it), init, thread (of init), child (from
 * init's clone to the program's execve). The program itself is let go when it starts.
 *
 * ptrace, because it sees every process of the tree from its first instruction, counts per
 * role and can answer in the kernel's place without the program knowing; strace counts per
 * process, cannot tell the guard from the child of init, and has no moment at
 * which the caller may look at the finished sandbox from outside.
 *
 * Reports go to descriptor TELL, one line each: "command PID", "call ROLE NUMBER",
 * "fired ROLE NUMBER", "program PID" (then it waits for a byte on descriptor GO, while the
 * caller looks at the sandbox), "exit CODE" or "signal NUMBER" of the command, "survivor PID
 * NAME", "hang". An allocation of the test build is a call with a number of its own, see
 * alloc.c. A command of which only a part is looked at says with calls of CALL_BEGIN and
 * CALL_END where that is; "begin" is told at its beginning. */
#include "call.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#define MAX_TASKS 256
#define CALL_BEGIN 0xfa18
#define CALL_END 0xfa19
#define OPTIONS                                                                                    \
    (PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACEFORK | PTRACE_O_TRACEVFORK | PTRACE_O_TRACECLONE |      \
     PTRACE_O_TRACEEXEC | PTRACE_O_EXITKILL)

enum role { COTO, GUARD, INIT, THREAD, CHILD, ROLES };
static const char *const role_name[ROLES] = {"coto", "guard", "init", "thread", "child"};

struct task {
    pid_t pid;
    enum role role;
    bool answer;              /* the call it is in gets our answer */
    unsigned long long asked; /* brk: what it wanted */
};

static struct {
    enum role role;
    long number, nth;
    int error, signal, seconds;
    bool list, one, fired, is_outside; /* one: list ROLE only, the others run as fast as ever */
} plan;

static struct task tasks[MAX_TASKS];
static long count; /* of the calls that may be the one */
static pid_t command;
static int report_fd, go_fd;
static volatile sig_atomic_t hanging;

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
        if (strncmp(line, key, strlen(key)) == 0) {
            char *last = strrchr(line, '\t'); /* NSpid: the innermost is last */
            value = last ? atol(last + 1) : -1;
        }
    if (file)
        fclose(file);
    return value;
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
    pid_t leader = (pid_t)status_number(pid, "Tgid:");

    if (leader != pid && leader > 0)
        return THREAD;
    const struct task *parent = find_task((pid_t)status_number(pid, "PPid:"));
    if (!parent)
        return pid == command ? COTO : GUARD;
    if (parent->role == COTO)
        return status_number(pid, "NSpid:") == 1 ? INIT : GUARD;
    return parent->role == GUARD ? GUARD : CHILD;
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
        fprintf(stderr, "inject: too many processes\n");
        exit(70);
    }
    return task;
}

/* ---- calls ---- */

static bool is_watched(const struct task *task)
{
    if (plan.list)
        return !plan.one || task->role == plan.role;
    return (!plan.fired && task->role == plan.role) || task->answer;
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
    if (info.op != PTRACE_SYSCALL_INFO_ENTRY || call_is_exempt(&info))
        return;
    long number = (long)info.entry.nr;
    if (number == CALL_BEGIN || number == CALL_END) {
        plan.is_outside = number == CALL_END;
        report(plan.is_outside ? "end" : "begin");
        return;
    }
    if (plan.is_outside)
        return;
    if (plan.list)
        report("call %s %ld", role_name[task->role], number);
    if (plan.list || plan.fired || task->role != plan.role || number != plan.number ||
        ++count != plan.nth)
        return;
    plan.fired = task->answer = true;
    report("fired %s %ld", role_name[task->role], number);
    plan.error = call_error(task->pid, number, (int)info.entry.args[0], plan.error);
    call_refuse(task->pid, number, &task->asked);
}

/* ---- events ---- */

static void on_exec(struct task *task)
{
    char go;

    if (task->role != CHILD)
        return;
    report("program %d", (int)task->pid);
    if (read(go_fd, &go, 1) != 1)
        report("nobody looks");
    if (plan.signal)
        kill(command, plan.signal);
    ptrace(PTRACE_DETACH, task->pid, 0, 0);
    task->pid = 0;
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
    if (pid != command)
        return;
    if (WIFEXITED(status))
        report("exit %d", WEXITSTATUS(status));
    else
        report("signal %d", WTERMSIG(status));
}

/* ---- survivors: orphans come to us ---- */

static void end_survivors(void)
{
    char path[64];
    char name[32] = "?\n";
    pid_t pid = 0;
    char text[4096] = "";

    snprintf(path, sizeof path, "/proc/self/task/%d/children", (int)getpid());
    FILE *file = fopen(path, "re");
    if (file && !fgets(text, sizeof text, file))
        text[0] = '\0';
    if (file)
        fclose(file);
    for (char *p = text; (pid = (pid_t)strtol(p, &p, 10)) > 0;) {
        snprintf(path, sizeof path, "/proc/%d/comm", (int)pid);
        if ((file = fopen(path, "re"))) {
            if (!fgets(name, sizeof name, file))
                name[0] = '\0';
            fclose(file);
        }
        name[strcspn(name, "\n")] = '\0';
        report("survivor %d %s", (int)pid, name);
        kill(pid, SIGKILL);
    }
}

static void on_alarm(int signo)
{
    (void)signo;
    hanging = hanging + 1;
}

static void watch(void)
{
    struct sigaction action = {.sa_handler = on_alarm};
    struct itimerval every = {{plan.seconds, 0}, {plan.seconds, 0}};
    int status;

    sigaction(SIGALRM, &action, NULL);
    setitimer(ITIMER_REAL, &every, NULL);
    for (;;) {
        pid_t pid = waitpid(-1, &status, __WALL);
        if (pid < 0 && errno == EINTR && hanging) {
            report("hang");
            end_survivors();
            if (hanging > 2)
                exit(70);
        }
        if (pid < 0 && errno == EINTR)
            continue;
        if (pid < 0)
            break;
        if (WIFSTOPPED(status))
            on_stop(pid, status);
        else
            on_end(pid, status);
    }
}

static void start(char **argv)
{
    int gate[2];
    char go = 1;

    if (pipe2(gate, O_CLOEXEC) || (command = fork()) < 0) {
        perror("inject");
        exit(70);
    }
    if (command == 0) {
        fcntl(report_fd, F_SETFD, FD_CLOEXEC);
        fcntl(go_fd, F_SETFD, FD_CLOEXEC);
        if (read(gate[0], &go, 1) == 1)
            execv(argv[0], argv);
        _exit(70);
    }
    if (ptrace(PTRACE_SEIZE, command, 0, OPTIONS)) {
        perror("inject: ptrace");
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

static int usage(void)
{
    fprintf(stderr,
            "usage: inject TELL GO SECONDS SIGNAL list [ROLE] -- COMMAND...\n"
            "       inject TELL GO SECONDS SIGNAL fail|within ROLE NUMBER N ERRNO -- COMMAND...\n");
    return 64;
}

int main(int argc, char **argv)
{
    int at = 6;

    if (argc < 8)
        return usage();
    report_fd = atoi(argv[1]);
    go_fd = atoi(argv[2]);
    plan.seconds = atoi(argv[3]);
    plan.signal = atoi(argv[4]);
    plan.list = strcmp(argv[5], "list") == 0;
    plan.is_outside = strcmp(argv[5], "within") == 0;
    plan.one = plan.list && strcmp(argv[6], "--") != 0;
    if (!plan.list || plan.one)
        while (plan.role < ROLES && strcmp(role_name[plan.role], argv[6]))
            plan.role++;
    at += plan.one;
    if (!plan.list) {
        if (argc < 12)
            return usage();
        plan.number = atol(argv[7]);
        plan.nth = atol(argv[8]);
        plan.error = atoi(argv[9]);
        at = 10;
    }
    if (plan.role == ROLES || strcmp(argv[at], "--") || !argv[at + 1])
        return usage();
    prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
    start(argv + at + 1);
    watch();
    return 0;
}
