/* What the readers of runner output share; nobody else includes this. */
#pragma once

#include "report/testcases.h"

/* A piece of somebody else's bytes. */
struct coto_text {
    const char *p;
    size_t n;
};

/* The next line without its end; false at the end of the text. */
bool coto_text_line(struct coto_text *rest, struct coto_text *ret_line);
/* Cuts a prefix, or spaces, off the front; whether there was one. */
bool coto_text_eat(struct coto_text *text, const char *prefix);
size_t coto_text_eat_spaces(struct coto_text *text);
/* Cuts a suffix off the end. */
bool coto_text_chop(struct coto_text *text, const char *suffix);
bool coto_text_is(struct coto_text text, const char *word);
struct coto_text coto_text_trim(struct coto_text text);
/* Position of the first or last occurrence, or -1. */
long coto_text_find(struct coto_text text, const char *word);
long coto_text_find_last(struct coto_text text, const char *word);
struct coto_text coto_text_head(struct coto_text text, size_t n);
struct coto_text coto_text_tail(struct coto_text text, size_t from);
/* "12.345" → 12345000 with unit 1000000; -1 when it is no plain number. */
int64_t coto_text_decimal(struct coto_text text, int64_t unit);

/* The case of that name from index `from` on; NULL when there is none. */
struct coto_case *coto_cases_find(struct coto_cases *cases, size_t from, struct coto_text name);
/* A new one without a result; NULL when no more fit. */
struct coto_case *coto_cases_add(struct coto_cases *cases, struct coto_text name);
struct coto_case *coto_cases_find_or_add(struct coto_cases *cases, size_t from,
                                         struct coto_text name);
enum coto_outcome { COTO_CASE_PASS, COTO_CASE_FAIL, COTO_CASE_SKIP };
/* Once failed, a case stays failed. NULL is accepted. */
void coto_case_result(struct coto_case *item, enum coto_outcome outcome);
/* Appends to the message, up to its limit. NULL is accepted. */
void coto_case_say(struct coto_case *item, struct coto_text text);
void coto_case_say_line(struct coto_case *item, struct coto_text line);

void coto_read_go(struct coto_text output, struct coto_cases *cases);
void coto_read_pytest(struct coto_text output, struct coto_cases *cases);
void coto_read_unittest(struct coto_text output, struct coto_cases *cases);
void coto_read_tap(struct coto_text output, struct coto_cases *cases);
void coto_read_ctest(struct coto_text output, struct coto_cases *cases);
void coto_read_make(struct coto_text output, struct coto_cases *cases);
