#include "core/result.h"

#include <signal.h>
#include <sys/wait.h>

struct outcome {
    enum coto_verdict verdict;
    const char *limit;
};

/* The order is the meaning: what the host did comes first, then what the kernel
 * counted, then what the program says by its status. A program that survives a
 * refused fork or an OOM-killed child and ends with 0 is "ok"; the counters are
 * in the result either way. */
static struct outcome decide(const struct coto_facts *f)
{
    bool by_signal = f->exited && WIFSIGNALED(f->wait_status);
    int signo = by_signal ? WTERMSIG(f->wait_status) : 0;
    bool ok = f->exited && f->wait_status == 0;

    switch (f->cause) {
    case COTO_END_WALL_TIME:
        return (struct outcome){COTO_VERDICT_TIMEOUT, "timeout"};
    case COTO_END_CPU_TIME:
        return (struct outcome){COTO_VERDICT_TIMEOUT, "cpu-time"};
    case COTO_END_MEMORY:
        return (struct outcome){COTO_VERDICT_OOM, "memory"};
    case COTO_END_OUTPUT:
        return (struct outcome){COTO_VERDICT_OUTPUT, "output-limit"};
    case COTO_END_LIFETIME:
        return (struct outcome){COTO_VERDICT_TIMEOUT, "lifetime"};
    case COTO_END_CANCEL:
        return (struct outcome){COTO_VERDICT_KILLED, NULL};
    default:
        break;
    }
    if (!ok && f->usage.oom_kills > 0)
        return (struct outcome){COTO_VERDICT_OOM, "memory"};
    if (!f->exited && f->usage.is_starved)
        return (struct outcome){COTO_VERDICT_PIDS, "pids"};
    if (!f->exited || (!by_signal && !WIFEXITED(f->wait_status))) /* or a status nobody has */
        return (struct outcome){COTO_VERDICT_LOST, NULL};
    if (signo == SIGXCPU && f->cpu_limited)
        return (struct outcome){COTO_VERDICT_TIMEOUT, "cpu-time"};
    if (signo == SIGSYS)
        return (struct outcome){COTO_VERDICT_DENIED, "seccomp"};
    if (ok)
        return (struct outcome){COTO_VERDICT_OK, NULL};
    if (f->usage.pids_refused > 0)
        return (struct outcome){COTO_VERDICT_PIDS, "pids"};
    if (f->disk_full)
        return (struct outcome){COTO_VERDICT_DISK, "disk"};
    if (by_signal)
        return (struct outcome){COTO_VERDICT_SIGNAL, NULL};
    return (struct outcome){COTO_VERDICT_NONZERO, NULL};
}

static int exit_status(const struct coto_result *r)
{
    switch (r->verdict) {
    case COTO_VERDICT_TIMEOUT:
        return 124;
    case COTO_VERDICT_OOM:
        return 137;
    case COTO_VERDICT_KILLED:
        return 128 + SIGINT;
    case COTO_VERDICT_OUTPUT:
        return 128 + SIGKILL;
    case COTO_VERDICT_LOST:
        return 70;
    case COTO_VERDICT_PIDS:
        if (r->exit_code < 0 && !r->signal)
            return 128 + SIGKILL; /* a guest's kernel, and all in it */
        break;
    default:
        break;
    }
    return r->signal ? 128 + r->signal : r->exit_code;
}

void coto_verdict_decide(const struct coto_facts *facts, struct coto_result *result)
{
    struct outcome outcome = decide(facts);

    result->verdict = outcome.verdict;
    result->limit = outcome.limit;
    result->signal = facts->exited && WIFSIGNALED(facts->wait_status) ? WTERMSIG(facts->wait_status) : 0;
    result->exit_code =
        facts->exited && WIFEXITED(facts->wait_status) ? WEXITSTATUS(facts->wait_status) : -1;
    result->exit_status = exit_status(result);
}
