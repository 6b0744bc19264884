/* Prints docs/SYSCALLS.md from the system-call table. */
#include "kernel/seccomp.h"
#include "schema/options.h"

#include <errno.h>
#include <stdio.h>

#define NUMBERS 600

static const char *answer_word(struct coto_seccomp_rule rule)
{
    switch (rule.answer) {
    case COTO_ANSWER_ALLOW:
        return "yes";
    case COTO_ANSWER_ARGS:
        return "check";
    default:
        return "-";
    }
}

static const char *errno_word(int error)
{
    switch (error) {
    case 0:
        return "0 (done nothing)";
    case EPERM:
        return "EPERM";
    case EINVAL:
        return "EINVAL";
    case ENOSYS:
        return "ENOSYS";
    case EAFNOSUPPORT:
        return "EAFNOSUPPORT";
    case EOPNOTSUPP:
        return "EOPNOTSUPP";
    case ENOPROTOOPT:
        return "ENOPROTOOPT";
    default:
        return "?";
    }
}

static void print_heading(void)
{
    printf("# System calls\n\n"
           "What a program in the sandbox may ask the kernel, on x86_64. Printed from\n"
           "`src/kernel/seccomp_table.h` by `tools/gensyscalls.c`; do not edit.\n\n"
           "`yes`: allowed. `check`: allowed when the rule in the last column holds, else the\n"
           "answer. `-`: refused with the answer. A number that is not in the table answers\n"
           "ENOSYS, and so does -1. Calls of another architecture (i386, x32) end the process\n"
           "with SIGSYS. Arguments of 32 bits are judged by their low word; a rule that allows\n"
           "by value also wants the high word to be zero, but for socket options, which the\n"
           "kernel cuts to 32 bits too. With `noexec`, memfd_create answers\n"
           "EPERM. Where a directory of the host is mounted writable, set-id bits in a new mode\n"
           "(chmod, open, creat, mknod and the like) answer EPERM, and openat2, whose mode no\n"
           "filter sees, ENOSYS; the filter then has another hash. Below `debug`, prctl\n"
           "refuses PR_SET_SECCOMP too: it loads filters as seccomp does. Newer kernels answer\n"
           "uretprobe and uprobe (335, 336) themselves, before any filter.\n\n");
}

static void print_counts(void)
{
    static const char *const tiers[] = {"strict", "default", "debug", "service", "front"};
    static struct coto_seccomp_program program;

    printf("| tier | allowed | by argument | instructions | SHA-256 of the filter |\n"
           "|---|---|---|---|---|\n");
    for (int tier = COTO_SECCOMP_STRICT; tier <= COTO_SECCOMP_FRONT; tier++) {
        int allowed = 0, checked = 0;
        for (int number = 0; number < NUMBERS; number++) {
            struct coto_seccomp_rule rule = coto_seccomp_rule(tier, number);
            enum coto_seccomp_answer answer = rule.answer;
            allowed += rule.name && answer == COTO_ANSWER_ALLOW;
            checked += answer == COTO_ANSWER_ARGS;
        }
        if (coto_seccomp_build(tier, false, &program, NULL) == 0)
            printf("| `%s` | %d | %d | %u | `%s` |\n", tiers[tier], allowed, checked, program.len,
                   program.hash);
    }
    printf("\n");
}

/* No tier of sandboxes: what is refused to all of the service. */
static void print_service(void)
{
    printf("`service` is no tier of sandboxes but the filter of the service's own processes, and so\n"
           "of all that they start (not of an ordinary user's who has subordinate ids: docs/SERVICE.md). It allows everything, numbers that are not in the table\n"
           "too, but for these, which answer EPERM:\n");
    for (int number = 0, count = 0; number < NUMBERS; number++) {
        struct coto_seccomp_rule rule = coto_seccomp_rule(COTO_SECCOMP_SERVICE, number);
        if (rule.answer == COTO_ANSWER_ERRNO)
            printf("%s%s", count++ ? ", " : "", rule.name);
    }
    printf(".\n\n");
}

/* Nor is this one: what the process that reads the network may do. */
static void print_front(void)
{
    printf("`front` is the filter of the service's process that reads the network, whoever has started it. It allows the\n"
           "calls of `default` that it makes, with the same rules or the one in brackets; others answer EPERM, or as in\n"
           "`default`:\n");
    for (int number = 0, count = 0; number < NUMBERS; number++) {
        struct coto_seccomp_rule rule = coto_seccomp_rule(COTO_SECCOMP_FRONT, number);
        struct coto_seccomp_rule normal = coto_seccomp_rule(COTO_SECCOMP_DEFAULT, number);
        if (rule.answer == COTO_ANSWER_ERRNO)
            continue;
        printf("%s%s", count++ ? ", " : "", rule.name);
        if (rule.check && rule.check != normal.check)
            printf(" (%s)", rule.check);
    }
    printf(".\n\n");
}

/* The answer when refused: of the lowest tier that refuses, else of the check. */
static void print_row(int number)
{
    struct coto_seccomp_rule strict = coto_seccomp_rule(COTO_SECCOMP_STRICT, number);
    struct coto_seccomp_rule normal = coto_seccomp_rule(COTO_SECCOMP_DEFAULT, number);
    struct coto_seccomp_rule debug = coto_seccomp_rule(COTO_SECCOMP_DEBUG, number);

    if (!debug.name)
        return;
    const char *refusal = strict.answer == COTO_ANSWER_ALLOW ? "" : errno_word(strict.error);
    printf("| %s | %d | %s | %s | %s | %s", debug.name, number, answer_word(strict),
           answer_word(normal), answer_word(debug), refusal);
    if (debug.answer == COTO_ANSWER_ARGS && debug.error != strict.error)
        printf("; %s by check", errno_word(debug.error));
    printf(" | %s |\n", debug.check ? debug.check : "");
}

int main(void)
{
    print_heading();
    print_counts();
    print_service();
    print_front();
    printf("| name | number | strict | default | debug | answer | check |\n"
           "|---|---|---|---|---|---|---|\n");
    for (int number = 0; number < NUMBERS; number++)
        print_row(number);
    return ferror(stdout) || fflush(stdout) ? 1 : 0;
}
