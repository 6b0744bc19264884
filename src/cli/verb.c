#include "cli/verb.h"

#include "policy/helper.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

const struct coto_verb coto_verbs[] = {
#define X(name, operands, has_options, help) {#name, operands, has_options, help, coto_cli_##name},
    COTO_VERBS(X)
#undef X
    {0},
};

const struct coto_verb *coto_verb_find(const char *name)
{
    for (const struct coto_verb *verb = coto_verbs; verb->name; verb++)
        if (strcmp(verb->name, name) == 0)
            return verb;
    return NULL;
}

/* Programs of ours that are no verbs: PID 1 of a sandbox, and the YAML reader. */
static bool is_inner_program(const char *verb)
{
    return strcmp(verb, "init") == 0 || strcmp(verb, "policy") == 0;
}

static bool is_verb_name(const char *name)
{
    size_t n = strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789-");

    return n > 0 && n < 40 && !name[n] && name[0] != '-' && !is_inner_program(name);
}

int coto_verb_exec(char **argv, char **envp, struct coto_err *err)
{
    char program[64];
    char path[4096];

    snprintf(program, sizeof program, "coto-%.40s", argv[0]);
    if (!is_verb_name(argv[0]) || coto_helper_find(program, path, sizeof path))
        return 0;
    argv[0] = program;
    execve(path, argv, envp);
    return coto_err_set(err, COTO_ERR_SYSTEM, errno, "%s", path);
}
