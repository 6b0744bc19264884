/* What the documents and the completions of gendocs are both made from. */
#pragma once

#include "base/err.h"
#include "cli/verb.h"
#include "policy/policy.h"

#include <stdio.h>
#include <string.h>

static const struct {
    const char *name, *operands;
    bool has_options;
    const char *help;
} verbs[] = {
#define X(name, operands, has_options, help) {#name, operands, has_options, help},
    COTO_VERBS(X)
#undef X
};
#define VERB_COUNT (sizeof verbs / sizeof verbs[0])

static const struct {
    const char *name, *help;
} programs[] = {
#define X(name, help) {#name, help},
    COTO_PROGRAMS(X)
#undef X
};
#define PROGRAM_COUNT (sizeof programs / sizeof programs[0])

static const struct {
    const char *name, *metavar, *help;
} test_flags[] = {
#define X(field, name, metavar, help) {name, metavar, help},
    COTO_TEST_FLAGS(X)
#undef X
};
#define TEST_FLAG_COUNT (sizeof test_flags / sizeof test_flags[0])

static inline bool is_bool(int opt)
{
    return coto_options[opt].type == COTO_TYPE_BOOL;
}

static inline bool is_repeatable(int opt)
{
    return coto_options[opt].type == COTO_TYPE_LIST || coto_options[opt].type == COTO_TYPE_MAP;
}

static inline bool is_of_test(int opt)
{
    return coto_verb_has_section("test", coto_options[opt].section);
}

/* gendocs_completions.c */
int gendocs_bash(void);
int gendocs_zsh(void);
