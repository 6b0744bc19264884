#include "report/testcases.h"

#include "report/testcases_int.h"

#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

/* ---- text ---- */

bool coto_text_line(struct coto_text *rest, struct coto_text *ret_line)
{
    if (rest->n == 0)
        return false;
    const char *end = memchr(rest->p, '\n', rest->n);
    size_t len = end ? (size_t)(end - rest->p) : rest->n;
    size_t used = end ? len + 1 : len;

    *ret_line = (struct coto_text){rest->p, len};
    if (len > 0 && rest->p[len - 1] == '\r')
        ret_line->n--;
    *rest = coto_text_tail(*rest, used);
    return true;
}

bool coto_text_eat(struct coto_text *text, const char *prefix)
{
    size_t n = strlen(prefix);

    if (text->n < n || memcmp(text->p, prefix, n) != 0)
        return false;
    *text = coto_text_tail(*text, n);
    return true;
}

size_t coto_text_eat_spaces(struct coto_text *text)
{
    size_t n = 0;

    while (n < text->n && text->p[n] == ' ')
        n++;
    *text = coto_text_tail(*text, n);
    return n;
}

bool coto_text_chop(struct coto_text *text, const char *suffix)
{
    size_t n = strlen(suffix);

    if (text->n < n || memcmp(text->p + text->n - n, suffix, n) != 0)
        return false;
    text->n -= n;
    return true;
}

bool coto_text_is(struct coto_text text, const char *word)
{
    return text.n == strlen(word) && memcmp(text.p, word, text.n) == 0;
}

struct coto_text coto_text_trim(struct coto_text text)
{
    coto_text_eat_spaces(&text);
    while (text.n > 0 && text.p[text.n - 1] == ' ')
        text.n--;
    return text;
}

long coto_text_find(struct coto_text text, const char *word)
{
    const char *at = text.n ? memmem(text.p, text.n, word, strlen(word)) : NULL;

    return at ? (long)(at - text.p) : -1;
}

long coto_text_find_last(struct coto_text text, const char *word)
{
    size_t n = strlen(word);

    for (size_t i = text.n; i >= n; i--)
        if (memcmp(text.p + i - n, word, n) == 0)
            return (long)(i - n);
    return -1;
}

struct coto_text coto_text_head(struct coto_text text, size_t n)
{
    return (struct coto_text){text.p, n < text.n ? n : text.n};
}

struct coto_text coto_text_tail(struct coto_text text, size_t from)
{
    if (from > text.n)
        from = text.n;
    return (struct coto_text){text.p + from, text.n - from};
}

int64_t coto_text_decimal(struct coto_text text, int64_t unit)
{
    int64_t value = 0;
    int64_t scale = unit;
    bool after_point = false;

    if (text.n == 0 || text.n > 24 || text.p[0] == '.')
        return -1;
    for (size_t i = 0; i < text.n; i++) {
        if (text.p[i] == '.' && !after_point) {
            after_point = true;
            continue;
        }
        if (text.p[i] < '0' || text.p[i] > '9' || value > INT64_MAX / 20 - unit)
            return -1;
        if (!after_point)
            value = value * 10 + (text.p[i] - '0') * unit;
        else
            value += (text.p[i] - '0') * (scale /= 10);
    }
    return value;
}

/* ---- the list ---- */

static uint32_t hash_of(const struct coto_cases *cases, struct coto_text name)
{
    uint32_t hash = 2166136261u ^ cases->seed;

    for (size_t i = 0; i < name.n; i++)
        hash = (hash ^ (unsigned char)name.p[i]) * 16777619u;
    return hash ^ hash >> 16;
}

struct coto_case *coto_cases_find(struct coto_cases *cases, size_t from, struct coto_text name)
{
    name = coto_text_head(name, COTO_CASE_NAME_MAX);
    uint32_t hash = hash_of(cases, name);
    int32_t at = cases->newest[hash % COTO_CASES_SLOTS] - 1;

    for (; at >= 0 && (size_t)at >= from; at = cases->items[at].older) {
        struct coto_case *item = &cases->items[at];
        if (item->hash == hash && strlen(item->name) == name.n &&
            memcmp(item->name, name.p, name.n) == 0)
            return item;
    }
    return NULL;
}

static bool make_room(struct coto_cases *cases)
{
    if (cases->count < cases->capacity)
        return true;
    size_t capacity = cases->capacity ? cases->capacity * 2 : 16;
    struct coto_case *items = realloc(cases->items, capacity * sizeof *items);
    if (!items)
        return false;
    cases->items = items;
    cases->capacity = capacity;
    return true;
}

static struct coto_case *add(struct coto_cases *cases, struct coto_text name)
{
    name = coto_text_head(name, COTO_CASE_NAME_MAX);
    char *copy = make_room(cases) ? malloc(name.n + 1) : NULL;
    if (!copy) {
        cases->failed = true;
        return NULL;
    }
    /* A NUL would end the name early and let two names pass for one. */
    for (size_t i = 0; i < name.n; i++)
        copy[i] = name.p[i] ? name.p[i] : '?';
    copy[name.n] = '\0';
    struct coto_case *item = &cases->items[cases->count++];
    *item = (struct coto_case){.name = copy, .duration_us = -1, .hash = hash_of(cases, name)};
    int32_t *newest = &cases->newest[item->hash % COTO_CASES_SLOTS];
    item->older = *newest - 1;
    *newest = (int32_t)cases->count;
    return item;
}

struct coto_case *coto_cases_add(struct coto_cases *cases, struct coto_text name)
{
    /* One place is kept for what is said about the runner itself. */
    if (cases->count >= COTO_CASES_MAX - 1) {
        cases->failed = true;
        return NULL;
    }
    return add(cases, name);
}

struct coto_case *coto_cases_find_or_add(struct coto_cases *cases, size_t from,
                                         struct coto_text name)
{
    struct coto_case *item = coto_cases_find(cases, from, name);

    return item ? item : coto_cases_add(cases, name);
}

void coto_case_result(struct coto_case *item, enum coto_outcome outcome)
{
    if (!item || (item->has_result && !item->passed))
        return;
    item->has_result = true;
    item->passed = outcome != COTO_CASE_FAIL;
    item->skipped = outcome == COTO_CASE_SKIP;
}

void coto_case_say(struct coto_case *item, struct coto_text text)
{
    if (!item || item->message.len >= COTO_CASE_MESSAGE_MAX)
        return;
    text = coto_text_head(text, COTO_CASE_MESSAGE_MAX - item->message.len);
    coto_buf_add(&item->message, text.p, text.n);
}

void coto_case_say_line(struct coto_case *item, struct coto_text line)
{
    if (item && item->message.len > 0)
        coto_case_say(item, (struct coto_text){"\n", 1});
    coto_case_say(item, line);
}

void coto_cases_fini(struct coto_cases *cases)
{
    for (size_t i = 0; i < cases->count; i++) {
        free(cases->items[i].suite);
        free(cases->items[i].name);
        coto_buf_fini(&cases->items[i].message);
    }
    free(cases->items);
    *cases = (struct coto_cases){0};
}

/* ---- the whole ---- */

static void say(struct coto_case *item, const char *text)
{
    coto_case_say_line(item, (struct coto_text){text, strlen(text)});
}

static void settle_cases(struct coto_cases *cases)
{
    for (size_t i = 0; i < cases->count; i++) {
        struct coto_case *item = &cases->items[i];
        if (!item->has_result) {
            coto_case_result(item, COTO_CASE_FAIL);
            say(item, "it was started and has no result");
        }
        if (item->passed && !item->skipped)
            coto_buf_clear(&item->message);
    }
}

/* One more case when the runner failed and no case shows it. */
static void settle_runner(const struct coto_runner *runner, int exit_code,
                          struct coto_cases *cases)
{
    bool too_many = cases->failed;
    coto_auto_buf why = {0};

    if (coto_cases_count_failed(cases) > 0 && !too_many)
        return;
    if (too_many)
        coto_buf_addf(&why, "it told of more than %d cases", COTO_CASES_MAX - 1);
    else if (exit_code < 0)
        coto_buf_adds(&why, "it was ended before it was done");
    else if (exit_code > 0)
        coto_buf_addf(&why, "it ended with status %d; see its output", exit_code);
    else if (cases->count > 0 && !cases->is_complete)
        coto_buf_adds(&why, "it ended early: its closing line is missing");
    else
        return;
    struct coto_case *item = add(cases, (struct coto_text){runner->name, strlen(runner->name)});
    coto_case_result(item, COTO_CASE_FAIL);
    say(item, coto_buf_str(&why));
}

void coto_cases_parse(const struct coto_runner *runner, const struct coto_buf *output,
                      int exit_code, struct coto_cases *ret_cases)
{
    static void (*const readers[])(struct coto_text, struct coto_cases *) = {
        [COTO_FORMAT_GO] = coto_read_go,         [COTO_FORMAT_PYTEST] = coto_read_pytest,
        [COTO_FORMAT_UNITTEST] = coto_read_unittest, [COTO_FORMAT_TAP] = coto_read_tap,
        [COTO_FORMAT_CTEST] = coto_read_ctest,   [COTO_FORMAT_MAKE] = coto_read_make,
    };
    struct coto_cases cases = {0};

    if (getrandom(&cases.seed, sizeof cases.seed, GRND_NONBLOCK) < 0)
        cases.seed = (uint32_t)getpid();
    readers[runner->format]((struct coto_text){coto_buf_str(output), output->len}, &cases);
    if (runner->format == COTO_FORMAT_MAKE && cases.count == 0 && exit_code >= 0) {
        struct coto_case *item = coto_cases_add(&cases, (struct coto_text){"make test", 9});
        coto_case_result(item, exit_code ? COTO_CASE_FAIL : COTO_CASE_PASS);
        if (exit_code)
            say(item, "it failed; see its output");
    }
    settle_cases(&cases);
    settle_runner(runner, exit_code, &cases);
    *ret_cases = cases;
}

size_t coto_cases_count_failed(const struct coto_cases *cases)
{
    size_t n = 0;

    for (size_t i = 0; i < cases->count; i++)
        n += !cases->items[i].passed;
    return n;
}

size_t coto_cases_count_skipped(const struct coto_cases *cases)
{
    size_t n = 0;

    for (size_t i = 0; i < cases->count; i++)
        n += cases->items[i].skipped;
    return n;
}

bool coto_cases_passed(const struct coto_cases *cases, int exit_code)
{
    return exit_code == 0 && !cases->failed && coto_cases_count_failed(cases) == 0 &&
           cases->count > coto_cases_count_skipped(cases);
}
