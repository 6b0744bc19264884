/* ctest --output-on-failure:
 *
 *       Start 2: bad
 *   2/8 Test #2: bad ..............................***Failed    0.00 sec
 *   what it printed
 *
 *   29% tests passed, 5 tests failed out of 7
 */
#include "report/testcases_int.h"

struct ctest {
    struct coto_cases *cases;
    size_t last; /* failed case whose output follows; SIZE_MAX none */
};

/* "2/8 Test #2: " */
static bool eat_number(struct coto_text *line)
{
    struct coto_text text = *line;

    coto_text_eat_spaces(&text);
    long at = coto_text_find(text, "/");
    if (at <= 0 || coto_text_decimal(coto_text_head(text, (size_t)at), 1) < 0)
        return false;
    at = coto_text_find(text, " Test ");
    if (at < 0 || at > 24)
        return false;
    text = coto_text_tail(text, (size_t)at + 6);
    coto_text_eat_spaces(&text);
    at = coto_text_find(text, ": ");
    if (!coto_text_eat(&text, "#") || at < 2 || at > 12)
        return false;
    *line = coto_text_tail(text, (size_t)at + 1);
    return true;
}

static bool read_result(struct ctest *ct, struct coto_text line)
{
    if (!eat_number(&line) || !coto_text_chop(&line, " sec"))
        return false;
    long dots = coto_text_find(line, " ...");
    long space = coto_text_find_last(line, " ");
    if (dots <= 0 || space <= dots)
        return false;
    int64_t us = coto_text_decimal(coto_text_tail(line, (size_t)space + 1), 1000000);
    struct coto_text status = coto_text_head(line, (size_t)space);
    status = coto_text_tail(status, (size_t)dots + 1);
    while (coto_text_eat(&status, ".") || coto_text_eat(&status, "*"))
        ;
    status = coto_text_trim(status);
    if (us < 0 || status.n == 0)
        return false;
    struct coto_case *item =
        coto_cases_find_or_add(ct->cases, 0, coto_text_head(line, (size_t)dots));
    bool is_skipped = coto_text_is(status, "Skipped") || coto_text_is(status, "Not Run (Disabled)");
    bool is_passed = coto_text_is(status, "Passed");
    coto_case_result(item, is_skipped  ? COTO_CASE_SKIP
                           : is_passed ? COTO_CASE_PASS
                                       : COTO_CASE_FAIL);
    ct->last = SIZE_MAX;
    if (!item)
        return true;
    item->duration_us = us;
    if (!is_passed) {
        coto_case_say(item, status);
        ct->last = is_skipped ? SIZE_MAX : (size_t)(item - ct->cases->items);
    }
    return true;
}

void coto_read_ctest(struct coto_text output, struct coto_cases *cases)
{
    struct ctest ct = {.cases = cases, .last = SIZE_MAX};
    struct coto_text line;

    while (coto_text_line(&output, &line)) {
        struct coto_text text = line;
        size_t indent = coto_text_eat_spaces(&text);
        if (read_result(&ct, line))
            continue;
        if (coto_text_find(line, "% tests passed, ") > 0) {
            cases->is_complete = true;
            ct.last = SIZE_MAX;
        } else if (indent >= 4 && coto_text_eat(&text, "Start ")) {
            ct.last = SIZE_MAX;
        } else if (ct.last < cases->count && line.n > 0) {
            coto_case_say_line(&cases->items[ct.last], line);
        }
    }
}
