/* The command line and the environment: NUL-separated items, those before an empty
 * one are variables, the others arguments. Whatever comes, the parser takes it or
 * says why; a value that was taken reads back to itself. */
#include "cli/args.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define MAX_ITEMS 64

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Scalars only: items of a list may hold the comma that joins them in text. */
static void check_value(const struct coto_policy *policy, enum coto_opt opt)
{
    struct coto_policy again;
    struct coto_err err = {0};
    coto_auto_buf text = {0};
    coto_auto_buf back = {0};

    if (coto_options[opt].type == COTO_TYPE_LIST || coto_options[opt].type == COTO_TYPE_MAP ||
        policy->v[opt].source == COTO_SOURCE_DEFAULT)
        return;
    coto_policy_value_text(policy, opt, &text);
    if (coto_policy_init(&again, &err) ||
        coto_policy_set(&again, opt, coto_buf_str(&text), COTO_SOURCE_FLAG, "again", &err))
        abort();
    coto_policy_value_text(&again, opt, &back);
    if (strcmp(coto_buf_str(&text), coto_buf_str(&back)) != 0)
        abort();
    coto_policy_fini(&again);
}

static void check_rest(const struct coto_args *rest, char **argv, size_t count)
{
    if (rest->rest < argv || rest->rest > argv + count || rest->rest[rest->count] != NULL)
        abort();
}

static void parse(char **argv, size_t count, char **envp)
{
    struct coto_policy policy;
    struct coto_args rest;
    struct coto_err err = {0};

    (void)coto_args_want_json(NULL, argv, envp);
    if (coto_args_policy((int)count, argv, envp, &policy, &rest, &err)) {
        if (err.kind == COTO_ERR_NONE || !err.text[0])
            abort();
        return;
    }
    check_rest(&rest, argv, count);
    for (int i = 0; i < COTO_OPT_COUNT; i++)
        check_value(&policy, (enum coto_opt)i);
    (void)coto_policy_check(&policy, &err);
    coto_policy_fini(&policy);
}

/* A policy file would start the helper program: not this target's business. */
static bool names_a_file(const char *text)
{
    return strcasestr(text, "policy") != NULL;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = malloc(size + 1);
    char *envp[MAX_ITEMS + 1] = {NULL};
    char *argv[MAX_ITEMS + 1] = {"run", NULL};
    size_t env_count = 0;
    size_t count = 1;
    bool in_env = true;
    bool skip = false;

    if (!text)
        return 0;
    memcpy(text, data, size);
    text[size] = '\0';
    for (char *p = text; p < text + size; p += strlen(p) + 1) {
        skip = skip || names_a_file(p);
        if (in_env && !*p)
            in_env = false;
        else if (in_env && env_count < MAX_ITEMS)
            envp[env_count++] = p;
        else if (!in_env && count < MAX_ITEMS)
            argv[count++] = p;
    }
    if (!skip)
        parse(argv, count, envp);
    free(text);
    return 0;
}
