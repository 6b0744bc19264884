/* go test -v. A package's tests stand before its "ok" or "FAIL" line:
 *
 *   === RUN   TestSub/two
 *       a_test.go:8: got 1
 *   --- FAIL: TestSub (0.00s)
 *       --- FAIL: TestSub/two (0.00s)
 *   FAIL    example/sub     0.002s
 *
 * What a test prints without a newline ends up before the "--- PASS" on the same
 * line; such a result counts only for a test that was started and has none.
 */
#include "report/testcases_int.h"

#include <stdlib.h>
#include <string.h>

struct go {
    struct coto_cases *cases;
    size_t package_start;     /* index of the package's first case */
    size_t current;           /* whose output the lines are; SIZE_MAX: nobody's */
    struct coto_buf build;    /* what the compiler said since "# package" */
    bool in_build;
    bool has_package_end;
};

static struct coto_case *current_case(struct go *go)
{
    return go->current < go->cases->count ? &go->cases->items[go->current] : NULL;
}

static void set_current(struct go *go, const struct coto_case *item)
{
    go->current = item ? (size_t)(item - go->cases->items) : SIZE_MAX;
    go->in_build = false;
}

/* "NAME (0.01s)" */
static bool split_result(struct coto_text text, struct coto_text *ret_name, int64_t *ret_us)
{
    if (!coto_text_chop(&text, "s)"))
        return false;
    long at = coto_text_find_last(text, " (");
    if (at <= 0)
        return false;
    *ret_us = coto_text_decimal(coto_text_tail(text, (size_t)at + 2), 1000000);
    *ret_name = coto_text_head(text, (size_t)at);
    return *ret_us >= 0;
}

static const struct {
    const char *word;
    enum coto_outcome outcome;
} outcomes[] = {{"--- PASS: ", COTO_CASE_PASS},
                {"--- FAIL: ", COTO_CASE_FAIL},
                {"--- SKIP: ", COTO_CASE_SKIP}};

static bool take_result(struct go *go, struct coto_text text, enum coto_outcome outcome,
                        bool at_start)
{
    struct coto_text name;
    int64_t us;

    if (!split_result(text, &name, &us))
        return false;
    struct coto_case *item = coto_cases_find(go->cases, go->package_start, name);
    if (!item && (outcome != COTO_CASE_FAIL || !at_start))
        return false; /* passing is for tests that were started */
    if (item && item->has_result && !at_start)
        return false;
    if (!item)
        item = coto_cases_add(go->cases, name);
    coto_case_result(item, outcome);
    if (item)
        item->duration_us = us;
    set_current(go, item);
    return true;
}

static bool read_result(struct go *go, struct coto_text line)
{
    struct coto_text bare = line;

    if (coto_text_eat_spaces(&bare) % 4 != 0)
        bare = line;
    for (size_t i = 0; i < sizeof outcomes / sizeof outcomes[0]; i++) {
        struct coto_text text = bare;
        if (coto_text_eat(&text, outcomes[i].word) &&
            take_result(go, text, outcomes[i].outcome, true))
            return true;
    }
    for (size_t i = 0; i < sizeof outcomes / sizeof outcomes[0]; i++) {
        long at = coto_text_find_last(line, outcomes[i].word);
        struct coto_text text = coto_text_tail(line, (size_t)(at + 10));
        if (at > 0 && take_result(go, text, outcomes[i].outcome, false))
            return true;
    }
    return false;
}

static bool read_start(struct go *go, struct coto_text line)
{
    static const char *const again[] = {"=== CONT  ", "=== NAME  ", "=== PAUSE "};

    if (coto_text_eat(&line, "=== RUN   ")) {
        set_current(go, coto_cases_find_or_add(go->cases, go->package_start, line));
        return true;
    }
    for (size_t i = 0; i < sizeof again / sizeof again[0]; i++) {
        if (!coto_text_eat(&line, again[i]))
            continue;
        set_current(go, coto_cases_find(go->cases, go->package_start, line));
        return true;
    }
    return false;
}

static void end_package(struct go *go, struct coto_text package)
{
    long tab = coto_text_find(package, "\t");
    struct coto_text name = tab > 0 ? coto_text_head(package, (size_t)tab) : package;

    for (size_t i = go->package_start; i < go->cases->count; i++) {
        free(go->cases->items[i].suite);
        go->cases->items[i].suite = strndup(name.p, name.n);
    }
    if (coto_text_find(package, "[build failed]") > 0 ||
        coto_text_find(package, "[setup failed]") > 0) {
        struct coto_case *item = coto_cases_add(go->cases, package);
        coto_case_result(item, COTO_CASE_FAIL);
        coto_case_say(item, (struct coto_text){coto_buf_str(&go->build), go->build.len});
    }
    go->package_start = go->cases->count;
    go->current = SIZE_MAX;
    go->has_package_end = true;
}

static bool read_package(struct go *go, struct coto_text line)
{
    struct coto_text text = line;

    if (coto_text_eat(&text, "ok  \t") || coto_text_eat(&text, "FAIL\t")) {
        end_package(go, text);
        return true;
    }
    if (coto_text_eat(&text, "?   \t"))
        return true;
    return coto_text_is(line, "PASS") || coto_text_is(line, "FAIL");
}

static void read_other(struct go *go, struct coto_text line)
{
    if (coto_text_eat(&line, "# ")) {
        go->in_build = true;
        go->current = SIZE_MAX;
    } else if (go->in_build && go->build.len < COTO_CASE_MESSAGE_MAX) {
        coto_buf_add(&go->build, line.p, line.n);
        coto_buf_addc(&go->build, '\n');
    } else {
        coto_case_say_line(current_case(go), line);
    }
}

void coto_read_go(struct coto_text output, struct coto_cases *cases)
{
    struct go go = {.cases = cases, .current = SIZE_MAX};
    struct coto_text line;

    while (coto_text_line(&output, &line))
        if (!read_start(&go, line) && !read_result(&go, line) && !read_package(&go, line))
            read_other(&go, line);
    cases->is_complete = go.has_package_end && go.package_start == cases->count;
    coto_buf_fini(&go.build);
}
