#include "report/text.h"

#include "base/units.h"

#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>

#define GREEN "\033[32m"
#define RED "\033[31m"
#define YELLOW "\033[33m"
#define RESET "\033[0m"

static void add_signal(struct coto_buf *out, int number)
{
    static const struct {
        int number;
        const char *name;
    } names[] = {
        {SIGHUP, "SIGHUP"},   {SIGINT, "SIGINT"},   {SIGQUIT, "SIGQUIT"}, {SIGILL, "SIGILL"},
        {SIGTRAP, "SIGTRAP"}, {SIGABRT, "SIGABRT"}, {SIGBUS, "SIGBUS"},   {SIGFPE, "SIGFPE"},
        {SIGKILL, "SIGKILL"}, {SIGUSR1, "SIGUSR1"}, {SIGSEGV, "SIGSEGV"}, {SIGUSR2, "SIGUSR2"},
        {SIGPIPE, "SIGPIPE"}, {SIGALRM, "SIGALRM"}, {SIGTERM, "SIGTERM"}, {SIGXCPU, "SIGXCPU"},
        {SIGXFSZ, "SIGXFSZ"}, {SIGSYS, "SIGSYS"},
    };

    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (names[i].number == number) {
            coto_buf_adds(out, names[i].name);
            return;
        }
    }
    coto_buf_addf(out, "signal %d", number);
}

/* Of a limit as it was read back ("300ms", "268435456"); -1 unknown. */
static int64_t read_back(const struct coto_result *result)
{
    int wall = coto_wall_find(result->limit);
    const char *text = wall < 0 ? "" : result->walls[wall].value;

    return *text >= '0' && *text <= '9' ? strtoll(text, NULL, 10) : -1;
}

/* The value a limit had, in the syntax of its flag. */
static void add_limit_value(struct coto_buf *out, const struct coto_result *result,
                            const struct coto_plan *plan_or_none)
{
    static const struct coto_plan none;
    const struct coto_plan *plan = plan_or_none ? plan_or_none : &none;
    const struct {
        const char *name;
        int64_t value;
        void (*add)(struct coto_buf *out, int64_t value);
    } rows[] = {
        {"timeout", plan->timeout_ms, coto_units_add_duration},
        {"cpu-time", plan->cpu_time_ms, coto_units_add_duration},
        {"memory", plan->memory_bytes, coto_units_add_size},
        {"swap", plan->swap_bytes, coto_units_add_size},
        {"disk", plan->disk_bytes, coto_units_add_size},
        {"tmp-size", plan->tmp_bytes, coto_units_add_size},
        {"output-limit", plan->output_bytes, coto_units_add_size},
        {"fsize", plan->fsize_bytes, coto_units_add_size},
        {"pids", plan->pids, NULL},
        {"inodes", plan->inodes, NULL},
        {"nofile", plan->nofile, NULL},
    };

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if (!coto_str_eq(rows[i].name, result->limit))
            continue;
        int64_t value = plan_or_none ? rows[i].value : read_back(result);
        if (!plan_or_none && value < 0)
            continue;
        coto_buf_addc(out, ' ');
        if (rows[i].add)
            rows[i].add(out, value);
        else
            coto_buf_addf(out, "%" PRId64, value);
    }
}

static void add_limit(struct coto_buf *out, const struct coto_result *result,
                      const struct coto_plan *plan)
{
    if (!result->limit)
        return;
    coto_buf_addf(out, " (--%s", result->limit);
    add_limit_value(out, result, plan);
    coto_buf_addc(out, ')');
}

void coto_report_text_reason(const struct coto_result *result, const struct coto_plan *plan,
                             struct coto_buf *out)
{
    static const char *const sentences[COTO_VERDICT_COUNT] = {
        [COTO_VERDICT_TIMEOUT] = "was ended by the time limit",
        [COTO_VERDICT_OOM] = "was ended by the memory limit",
        [COTO_VERDICT_PIDS] = "failed after it had reached the process limit",
        [COTO_VERDICT_OUTPUT] = "was ended by the output limit",
        [COTO_VERDICT_DISK] = "failed with a full file system",
        [COTO_VERDICT_DENIED] = "was killed for a forbidden system call",
        [COTO_VERDICT_KILLED] = "was ended by the caller",
        [COTO_VERDICT_LOST] = "was lost: contact with the sandbox broke; what it did last is unknown",
    };

    if (result->verdict == COTO_VERDICT_OK)
        return;
    coto_buf_addf(out, "the %s ", coto_str_eq(result->stage, "build") ? "build" : "program");
    if (result->verdict == COTO_VERDICT_NONZERO) {
        coto_buf_addf(out, "ended with status %d", result->exit_code);
    } else if (result->verdict == COTO_VERDICT_SIGNAL) {
        coto_buf_adds(out, "died from ");
        add_signal(out, result->signal);
    } else if (result->verdict < COTO_VERDICT_COUNT) {
        coto_buf_adds(out, sentences[result->verdict]);
    }
    add_limit(out, result, plan);
}

void coto_report_text_left_out(int64_t skipped, struct coto_buf *out)
{
    if (skipped > 0)
        coto_buf_addf(out, "coto: --artifacts: %" PRId64 " in output/ left out: links, special or "
                           "unreadable files, or too many\n", skipped);
}

static void add_measured(struct coto_buf *out, const struct coto_result *result)
{
    const struct coto_usage *usage = &result->facts.usage;

    coto_buf_adds(out, "  ");
    coto_units_add_time_rounded(out, result->duration_us);
    if (usage->cpu_user_us >= 0 && usage->cpu_system_us >= 0) {
        coto_buf_adds(out, "  cpu ");
        coto_units_add_time_rounded(out, usage->cpu_user_us + usage->cpu_system_us);
    }
    if (usage->memory_peak_bytes >= 0) {
        coto_buf_adds(out, "  mem ");
        coto_units_add_size_rounded(out, usage->memory_peak_bytes);
    }
}

static void add_walls(struct coto_buf *out, const struct coto_result *result)
{
    int wanted[2] = {0};
    int up[2] = {0};

    for (int i = 0; i < COTO_WALL_COUNT; i++) {
        int class = coto_walls[i].class == COTO_WALL_LIMIT;
        wanted[class] += result->walls[i].wanted;
        up[class] += result->walls[i].wanted && result->walls[i].up;
    }
    if (up[0] == 0)
        coto_buf_adds(out, "  no isolation");
    else
        coto_buf_addf(out, "  walls %d/%d", up[0], wanted[0]);
    coto_buf_addf(out, ", limits %d/%d", up[1], wanted[1]);
}

static void add_missing(struct coto_buf *out, const struct coto_result *result, bool coloured)
{
    const char *separator = coloured ? YELLOW "missing" RESET ": " : "missing: ";
    bool has_core = false;

    for (int i = 0; i < COTO_WALL_COUNT; i++)
        has_core |= coto_walls[i].class == COTO_WALL_CORE && result->walls[i].up;
    for (int i = 0; i < COTO_WALL_COUNT; i++) {
        const struct coto_wall_state *wall = &result->walls[i];
        /* "no isolation" has been said; a list of all core walls, and notes, say no more. */
        if (!wall->wanted || wall->up || (!has_core && coto_walls[i].class == COTO_WALL_CORE))
            continue;
        coto_buf_addf(out, "%s%s", separator, coto_walls[i].name);
        if (wall->note[0] && has_core)
            coto_buf_addf(out, " (%s)", wall->note);
        separator = ", ";
    }
    if (separator[0] == ',')
        coto_buf_addc(out, '\n');
}

void coto_report_text(const struct coto_result *result, const struct coto_plan *plan, bool coloured,
                      struct coto_buf *out)
{
    const char *colour = result->verdict == COTO_VERDICT_OK ? GREEN : RED;

    coto_buf_addf(out, "%s%s%s", coloured ? colour : "", coto_verdict_word(result->verdict),
                  coloured ? RESET : "");
    add_measured(out, result);
    add_walls(out, result);
    coto_buf_addc(out, '\n');
    if (result->verdict != COTO_VERDICT_OK) {
        coto_report_text_reason(result, plan, out);
        coto_buf_addc(out, '\n');
    }
    if (result->out.truncated || result->err.truncated)
        coto_buf_addf(out, "output was cut: %" PRId64 " of %" PRId64 " bytes passed on\n",
                      result->out.kept + result->err.kept, result->out.seen + result->err.seen);
    add_missing(out, result, coloured);
}

void coto_report_text_closing(const struct coto_result *result, const struct coto_plan *plan,
                              bool shows_out, struct coto_buf *out)
{
    bool open_line = (shows_out && result->out.last && result->out.last != '\n') ||
                     (result->err.last && result->err.last != '\n');

    if (open_line)
        coto_buf_addc(out, '\n');
    coto_report_text(result, plan, true, out);
}
