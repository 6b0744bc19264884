#include "cli/execute.h"

#include "cli/cli.h"

#include "base/json.h"
#include "kernel/sched.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/signalfd.h>
#include <unistd.h>

void coto_cli_fill_stdio(void)
{
    for (int fd = 0; fd < 3; fd++)
        if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", fd == 0 ? O_RDONLY : O_WRONLY) < 0)
            return; /* a host without /dev/null: what is written there then fails, as it did */
}

/* What our caller has ignored, as nohup does, stays so: once blocked it would be kept for us. */
static void add_unless_ignored(sigset_t *mask, int number)
{
    struct sigaction action;

    if (sigaction(number, NULL, &action) == 0 && action.sa_handler == SIG_IGN)
        return;
    sigaddset(mask, number);
}

int coto_cli_catch_signals(struct coto_err *err)
{
    static const int ends[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};
    sigset_t mask;

    coto_sched_be_prompt(0);
    signal(SIGPIPE, SIG_IGN);
    sigemptyset(&mask);
    for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++)
        add_unless_ignored(&mask, ends[i]);
    sigprocmask(SIG_BLOCK, &mask, NULL);
    int fd = signalfd(-1, &mask, SFD_CLOEXEC | SFD_NONBLOCK);
    if (fd < 0) /* without it Ctrl-C would do nothing */
        coto_err_set(err, COTO_ERR_LIMIT, errno, "catch signals");
    return fd;
}

int coto_cli_signal_status(int signal_fd, const struct coto_result *result, int otherwise)
{
    struct signalfd_siginfo info;

    if (result->verdict == COTO_VERDICT_KILLED &&
        read(signal_fd, &info, sizeof info) == sizeof info)
        return 128 + (int)info.ssi_signo;
    return otherwise;
}

void coto_cli_show_step(void *arg, const char *step, int64_t us)
{
    (void)arg;
    dprintf(2, "coto: %8.3f ms  %s\n", (double)us / 1000, step);
}

int coto_cli_print_plan(const struct coto_plan *plan)
{
    coto_auto_buf out = {0};
    struct coto_json json = {.out = &out, .pretty = true};

    coto_plan_json(plan, &json);
    return coto_cli_print(&out);
}
