/* Inside the policy room: text → one checked value. */
#pragma once

#include "base/err.h"
#include "policy/policy.h"

/* Parses and range-checks text into *value, which must be zeroed or hold the
 * list that is added to. `who` begins the message: "--memory", "COTO_MEMORY",
 * "policy.yaml: memory". On failure *value is left for the caller to free. */
int coto_value_parse(enum coto_opt opt, const char *text, const char *who,
                     struct coto_value *value, struct coto_err *err);
void coto_value_fini(struct coto_value *value);

/* What an option takes: "4m to none, for example 256m", "cut, kill". */
void coto_value_allowed(enum coto_opt opt, struct coto_buf *out);
/* The same where a number may be no more than that. */
void coto_value_allowed_to(enum coto_opt opt, int64_t most, struct coto_buf *out);

/* "WHO: 'TEXT' WHAT; allowed: ALLOWED"; returns -1. */
int coto_value_refuse(const char *who, const char *text, const char *what, const char *allowed,
                      struct coto_err *err);

/* Rules for STRING options and for the items of LIST options (rules.c). */
struct coto_rule {
    enum coto_opt opt;
    const char *what;    /* "is not a host name" */
    const char *allowed; /* NULL: the words below */
    /* Whether text is allowed; for list items its canonical form is appended. */
    bool (*accepts)(const char *text, struct coto_buf *canonical);
    /* The n-th allowed word, NULL past the last. */
    const char *(*word)(unsigned n);
};
/* The rule of an option, or NULL. */
const struct coto_rule *coto_rule_find(enum coto_opt opt);
/* "WHO: 'TEXT' is ...; allowed: ..." with the nearest word as remedy; -1. */
int coto_rule_refuse(const struct coto_rule *rule, const char *who, const char *text,
                     struct coto_err *err);
