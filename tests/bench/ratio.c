/* Times commands against each other in one run: every round starts each command
 * once, in turn, so that noise hits all of them alike. Prints median, p99,
 * minimum and the ratio to the first, or with --json one object, or with --tsv
 * lines of name, n, median, p99, minimum (ms), failures.
 *
 *   ratio [--rounds N] [--json|--tsv] NAME CMD... ";;" NAME CMD... ";;" ...
 */
#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MAX_COMMANDS 32

extern char **environ;

struct command {
    const char *name;
    char **argv;
    double *ms;
    double cpu_ms;
    long maxrss_kb;
    int failures;
};

static double now_ms(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (double)ts.tv_sec * 1e3 + (double)ts.tv_nsec / 1e6;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;

    return (x > y) - (x < y);
}

static void run_once(struct command *c, int round)
{
    posix_spawn_file_actions_t actions;
    struct rusage ru;
    pid_t pid;
    int status = -1;

    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", O_WRONLY, 0);
    double before = now_ms();
    if (posix_spawnp(&pid, c->argv[0], &actions, NULL, c->argv, environ) == 0) {
        while (wait4(pid, &status, 0, &ru) < 0 && errno == EINTR)
            ;
        c->cpu_ms += (double)(ru.ru_utime.tv_sec + ru.ru_stime.tv_sec) * 1e3 +
                     (double)(ru.ru_utime.tv_usec + ru.ru_stime.tv_usec) / 1e3;
        if (ru.ru_maxrss > c->maxrss_kb)
            c->maxrss_kb = ru.ru_maxrss;
    }
    c->ms[round] = now_ms() - before;
    c->failures += status != 0;
    posix_spawn_file_actions_destroy(&actions);
}

enum format { AS_TABLE, AS_JSON, AS_TSV };

static void print(struct command *commands, int count, int rounds, enum format format)
{
    double base = 0;

    if (format == AS_JSON)
        printf("[");
    else if (format == AS_TABLE)
        printf("%-28s %9s %9s %9s %7s %5s  n=%d\n", "", "median", "p99", "min", "ratio", "fail",
               rounds);
    for (int i = 0; i < count; i++) {
        struct command *c = &commands[i];
        qsort(c->ms, (size_t)rounds, sizeof *c->ms, compare);
        double median = c->ms[rounds / 2];
        double p99 = c->ms[rounds - 1 - rounds / 100];
        if (i == 0)
            base = median;
        if (format == AS_TSV)
            printf("%s\t%d\t%.3f\t%.3f\t%.3f\t%d\n", c->name, rounds, median, p99, c->ms[0],
                   c->failures);
        else if (format == AS_JSON)
            printf("%s{\"name\":\"%s\",\"n\":%d,\"median_ms\":%.3f,\"p99_ms\":%.3f,\"min_ms\":%.3f,"
                   "\"maxrss_kb\":%ld,\"failures\":%d}",
                   i ? "," : "", c->name, rounds, median, p99, c->ms[0], c->maxrss_kb, c->failures);
        else
            printf("%-28s %6.2f ms %6.2f ms %6.2f ms %6.2fx %5d\n", c->name, median, p99, c->ms[0],
                   median / base, c->failures);
    }
    if (format == AS_JSON)
        printf("]\n");
}

int main(int argc, char **argv)
{
    static struct command commands[MAX_COMMANDS];
    int count = 0;
    int rounds = 200;
    enum format format = AS_TABLE;
    int i = 1;

    for (; i < argc && argv[i][0] == '-' && argv[i][1] == '-' && argv[i][2]; i++) {
        if (strcmp(argv[i], "--json") == 0)
            format = AS_JSON;
        else if (strcmp(argv[i], "--tsv") == 0)
            format = AS_TSV;
        else if (strcmp(argv[i], "--rounds") == 0 && i + 1 < argc)
            rounds = atoi(argv[++i]);
    }
    /* ";;" between commands, because "--" is part of many of them. */
    while (i < argc && count < MAX_COMMANDS) {
        commands[count].name = argv[i++];
        commands[count].argv = argv + i;
        commands[count].ms = calloc((size_t)rounds, sizeof(double));
        while (i < argc && strcmp(argv[i], ";;") != 0)
            i++;
        if (i < argc)
            argv[i++] = NULL;
        count++;
    }
    if (count == 0 || rounds < 1) {
        fprintf(stderr, "usage: ratio [--rounds N] [--json|--tsv] NAME CMD... ';;' NAME CMD...\n");
        return 64;
    }
    for (int warm = 0; warm < 3; warm++)
        for (int k = 0; k < count; k++)
            run_once(&commands[k], 0);
    for (int k = 0; k < count; k++) {
        commands[k].failures = 0;
        commands[k].cpu_ms = 0;
    }
    for (int r = 0; r < rounds; r++)
        for (int k = 0; k < count; k++)
            run_once(&commands[k], r);
    print(commands, count, rounds, format);
    return 0;
}
