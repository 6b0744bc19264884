/* coto VERB: finds the verb in the table, or a program coto-VERB, as git does:
 * parts that need heavy libraries are programs of their own, so that the common
 * ones start in a fraction of a millisecond. */
#include "cli/cli.h"
#include "cli/verb.h"
#include "policy/nearest.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static int refuse_verb(const char *name, struct coto_err *err)
{
    struct coto_nearest best = {0};

    for (const struct coto_verb *verb = coto_verbs; verb->name; verb++)
        coto_nearest_offer(&best, name, verb->name);
#define X(program, ...) coto_nearest_offer(&best, name, #program);
    COTO_PROGRAMS(X)
#undef X
    coto_err_set(err, COTO_ERR_USAGE, 0, "no verb '%.60s'", name);
    if (best.name)
        return coto_err_remedy(err, "did you mean 'coto %s'?", best.name);
    if (access(name, R_OK) == 0)
        return coto_err_remedy(err, "to run that file: coto run %s", name);
    return coto_err_remedy(err, "'coto help' lists all verbs");
}

/* A descriptor opened later must never become somebody's stdout. */
static int open_missing_stdio(struct coto_err *err)
{
    for (int fd = 0; fd <= 2; fd++)
        if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", O_RDWR) != fd)
            return coto_err_set(err, COTO_ERR_SYSTEM, errno, "/dev/null");
    return 0;
}

static const char *verb_of_flag(const char *arg)
{
    if (strcmp(arg, "--help") == 0 || strcmp(arg, "-h") == 0)
        return "help";
    if (strcmp(arg, "--version") == 0 || strcmp(arg, "-V") == 0)
        return "version";
    return arg;
}

int main(int argc, char **argv, char **envp)
{
    struct coto_err err = {0};

    signal(SIGCHLD, SIG_DFL); /* a caller may have left it ignored: we count our dead */
    signal(SIGXFSZ, SIG_IGN); /* a file that may not grow is an error to tell, not the end */
    if (open_missing_stdio(&err))
        return coto_cli_fail(&err);
    if (argc < 2) {
        coto_err_set(&err, COTO_ERR_USAGE, 0, "which verb?");
        coto_err_remedy(&err, "'coto help' lists all verbs; coto run FILE runs a file");
        return coto_cli_fail(&err);
    }
    const struct coto_verb *verb = coto_verb_find(verb_of_flag(argv[1]));
    if (verb)
        return verb->main(argc - 1, argv + 1, envp);
    if (coto_verb_exec(argv + 1, envp, &err) == 0)
        refuse_verb(argv[1], &err);
    return coto_cli_fail(&err);
}
