#include "drivers/seccomp_profile.h"

#include "kernel/seccomp.h"
#include "schema/options.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <sys/syscall.h>

#define NUMBERS 600

#if defined(__x86_64__)
#define ARCHITECTURE "SCMP_ARCH_X86_64"
#elif defined(__aarch64__)
#define ARCHITECTURE "SCMP_ARCH_AARCH64"
#else
#error "no name for this architecture in a seccomp profile"
#endif

/* prlimit64: it sets RLIMIT_CORE, which programs may not. */
const char *const coto_seccomp_profile_init[] = {
    "seccomp",  "landlock_create_ruleset", "landlock_add_rule", "landlock_restrict_self",
    "openat2",  "signalfd4",               "prlimit64",         "setrlimit",
    "capset",   NULL,
};

static bool is_inits(const char *name)
{
    for (size_t i = 0; coto_seccomp_profile_init[i]; i++)
        if (strcmp(name, coto_seccomp_profile_init[i]) == 0)
            return true;
    return false;
}

static struct coto_seccomp_rule rule_of(int tier, bool noexec, int number)
{
    struct coto_seccomp_rule rule = coto_seccomp_rule(tier, number);

    if (rule.name && is_inits(rule.name))
        rule.answer = COTO_ANSWER_ALLOW;
    if (noexec && number == SYS_memfd_create)
        rule = (struct coto_seccomp_rule){rule.name, number, COTO_ANSWER_ERRNO, EPERM, NULL};
    return rule;
}

/* One entry for all calls with this answer; nothing when there is none. */
static void add_calls(struct coto_buf *out, int tier, bool noexec,
                      enum coto_seccomp_answer answer, int error)
{
    size_t count = 0;

    for (int number = 0; number < NUMBERS; number++) {
        struct coto_seccomp_rule rule = rule_of(tier, noexec, number);
        if (!rule.name || rule.answer != answer ||
            (answer == COTO_ANSWER_ERRNO && rule.error != error))
            continue;
        coto_buf_addf(out, "%s\"%s\"", count++ ? "," : ",\n{\"names\":[", rule.name);
    }
    if (count && answer == COTO_ANSWER_ERRNO)
        coto_buf_addf(out, "],\"action\":\"SCMP_ACT_ERRNO\",\"errnoRet\":%d}", error);
    else if (count)
        coto_buf_adds(out, "],\"action\":\"SCMP_ACT_ALLOW\"}");
}

struct checked {
    struct coto_buf *out;
    const char *name;
};

static void add_row(void *arg, const struct coto_seccomp_row *row)
{
    const struct checked *call = arg;

    coto_buf_addf(call->out, ",\n{\"names\":[\"%s\"],\"action\":\"SCMP_ACT_ALLOW\",\"args\":[",
                  call->name);
    for (int i = 0; i < row->count; i++)
        coto_buf_addf(call->out,
                      "%s{\"index\":%u,\"value\":%" PRIu64 ",\"valueTwo\":%" PRIu64
                      ",\"op\":\"SCMP_CMP_MASKED_EQ\"}",
                      i ? "," : "", row->compare[i].arg, row->compare[i].mask,
                      row->compare[i].value);
    coto_buf_adds(call->out, "]}");
}

/* Calls without a row, and those that answer as they do, are the default. */
int coto_seccomp_profile(int tier, bool noexec, struct coto_buf *out, struct coto_err *err)
{
    coto_auto_buf entries = {0};
    bool has_error[256] = {false};

    if (tier < COTO_SECCOMP_STRICT || tier > COTO_SECCOMP_DEBUG)
        return coto_err_set(err, COTO_ERR_INTERNAL, 0, "seccomp: tier %d does not exist", tier);
    add_calls(&entries, tier, noexec, COTO_ANSWER_ALLOW, 0);
    for (int number = 0; number < NUMBERS; number++) {
        struct coto_seccomp_rule rule = rule_of(tier, noexec, number);
        struct checked call = {&entries, rule.name};
        if (rule.answer == COTO_ANSWER_ARGS)
            coto_seccomp_rows(tier, number, add_row, &call);
        else if (rule.name && rule.answer == COTO_ANSWER_ERRNO && rule.error < 256)
            has_error[rule.error] = rule.error != ENOSYS;
    }
    for (int error = 0; error < 256; error++)
        if (has_error[error])
            add_calls(&entries, tier, noexec, COTO_ANSWER_ERRNO, error);
    coto_buf_addf(out,
                  "{\"defaultAction\":\"SCMP_ACT_ERRNO\",\"defaultErrnoRet\":%d,"
                  "\"architectures\":[\"" ARCHITECTURE "\"],\"syscalls\":[%s]}",
                  ENOSYS, entries.len > 1 ? entries.data + 2 : "");
    if (entries.failed || out->failed)
        return coto_err_set(err, COTO_ERR_LIMIT, ENOMEM, "seccomp profile");
    return 0;
}
