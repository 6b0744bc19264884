/* python3 -m unittest -v:
 *
 *   test_ok (thing_test.T.test_ok) ... ok
 *   test_doc (thing_test.T.test_doc)
 *   what the test's doc string says ... FAIL
 *   test_sub (thing_test.T.test_sub) ...
 *     test_sub (thing_test.T.test_sub) (i=1) ... FAIL
 *   ======================================================================
 *   FAIL: test_doc (thing_test.T.test_doc)
 *   ----------------------------------------------------------------------
 *   AssertionError: 1 != 2
 *   ----------------------------------------------------------------------
 *   Ran 9 tests in 0.001s
 */
#include "report/testcases_int.h"

#include <string.h>

struct unittest {
    struct coto_cases *cases;
    size_t open;         /* case that waits for its result; SIZE_MAX none */
    size_t told;         /* case the section is about; SIZE_MAX none */
    bool after_progress; /* the first ===== was seen */
    int64_t ran;
};

static const struct {
    const char *word;
    enum coto_outcome outcome;
} words[] = {
    {"ok", COTO_CASE_PASS},
    {"FAIL", COTO_CASE_FAIL},
    {"ERROR", COTO_CASE_FAIL},
    {"expected failure", COTO_CASE_SKIP},
    {"unexpected success", COTO_CASE_FAIL},
};

/* "NAME (PATH)" at the front; ret_name is MODULE.CLASS.NAME, which newer Pythons
 * print in the brackets and older ones leave to be put together. */
static bool read_name(struct coto_text *text, struct coto_buf *ret_name)
{
    long space = coto_text_find(*text, " (");
    if (space <= 0 || memchr(text->p, ' ', (size_t)space))
        return false;
    struct coto_text rest = coto_text_tail(*text, (size_t)space + 2);
    long end = coto_text_find(rest, ")");
    if (end <= 0 || memchr(rest.p, ' ', (size_t)end))
        return false;
    struct coto_text name = coto_text_head(*text, (size_t)space);
    struct coto_text path = coto_text_head(rest, (size_t)end);
    bool is_whole = path.n > name.n && path.p[path.n - name.n - 1] == '.' &&
                    memcmp(path.p + path.n - name.n, name.p, name.n) == 0;
    coto_buf_clear(ret_name);
    coto_buf_add(ret_name, path.p, path.n);
    if (!is_whole) {
        coto_buf_addc(ret_name, '.');
        coto_buf_add(ret_name, name.p, name.n);
    }
    *text = coto_text_tail(rest, (size_t)end + 1);
    return true;
}

static struct coto_case *at(struct unittest *ut, size_t index)
{
    return index < ut->cases->count ? &ut->cases->items[index] : NULL;
}

/* Whether the text is a result, or ends in one behind what a test printed. */
static bool take_result(struct unittest *ut, struct coto_text text, bool may_have_noise)
{
    struct coto_case *item = at(ut, ut->open);
    struct coto_text reason = text;

    if (!item)
        return false;
    if (coto_text_eat(&reason, "skipped ")) {
        coto_case_result(item, COTO_CASE_SKIP);
        if (coto_text_eat(&reason, "'") || coto_text_eat(&reason, "\""))
            reason.n -= reason.n > 0;
        coto_case_say(item, reason);
        ut->open = SIZE_MAX;
        return true;
    }
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        struct coto_text rest = text;
        if (!coto_text_chop(&rest, words[i].word) || (rest.n > 0 && !may_have_noise))
            continue;
        /* Behind noise this may be a wrong guess ("a book"); the sections at the
         * end name every failure and set it right. */
        coto_case_result(item, words[i].outcome);
        ut->open = SIZE_MAX;
        return true;
    }
    return false;
}

static void read_sub_test(struct unittest *ut, struct coto_text line)
{
    struct coto_text name = line;
    long dots = coto_text_find_last(line, " ... ");

    if (dots <= 0)
        return;
    name.n = (size_t)dots;
    struct coto_text word = coto_text_tail(line, (size_t)dots + 5);
    if (!coto_text_is(word, "FAIL") && !coto_text_is(word, "ERROR"))
        return;
    coto_case_result(coto_cases_find_or_add(ut->cases, 0, name), COTO_CASE_FAIL);
    /* The test it belongs to gets no line of its own any more. */
    coto_case_result(at(ut, ut->open), COTO_CASE_FAIL);
}

static void read_progress(struct unittest *ut, struct coto_text line)
{
    coto_auto_buf name = {0};
    struct coto_text text = line;

    if (coto_text_eat(&text, "  ") && text.n > 0 && text.p[0] != ' ' && at(ut, ut->open)) {
        read_sub_test(ut, text);
        return;
    }
    text = line;
    if (read_name(&text, &name)) {
        struct coto_text whole = {coto_buf_str(&name), name.len};
        struct coto_case *item = coto_cases_find_or_add(ut->cases, 0, whole);
        ut->open = item ? (size_t)(item - ut->cases->items) : SIZE_MAX;
        if (coto_text_eat(&text, " ... "))
            take_result(ut, text, true);
        return;
    }
    long dots = coto_text_find_last(line, " ... ");
    if (dots >= 0 && take_result(ut, coto_text_tail(line, (size_t)dots + 5), false))
        return;
    take_result(ut, line, false);
}

static void read_section(struct unittest *ut, struct coto_text line)
{
    coto_auto_buf name = {0};
    struct coto_text text = line;

    if (coto_text_eat(&text, "FAIL: ") || coto_text_eat(&text, "ERROR: ")) {
        struct coto_text sub = text;
        ut->told = SIZE_MAX;
        if (!read_name(&text, &name))
            return;
        struct coto_text whole = {coto_buf_str(&name), name.len};
        struct coto_case *item = coto_cases_find(ut->cases, 0, text.n > 0 ? sub : whole);
        if (!item)
            item = coto_cases_find_or_add(ut->cases, 0, whole);
        coto_case_result(item, COTO_CASE_FAIL);
        ut->told = item ? (size_t)(item - ut->cases->items) : SIZE_MAX;
        return;
    }
    coto_case_say_line(at(ut, ut->told), line);
}

static bool is_rule(struct coto_text line, char mark)
{
    for (size_t i = 0; i < line.n; i++)
        if (line.p[i] != mark)
            return false;
    return line.n == 70;
}

static void read_line(struct unittest *ut, struct coto_text line)
{
    struct coto_text text = line;

    if (is_rule(line, '=')) {
        ut->after_progress = true;
        ut->told = SIZE_MAX;
    } else if (is_rule(line, '-')) {
        return;
    } else if (coto_text_eat(&text, "Ran ") && coto_text_find(text, " in ") > 0) {
        long space = coto_text_find(text, " test");
        ut->ran = space > 0 ? coto_text_decimal(coto_text_head(text, (size_t)space), 1) : -1;
        ut->told = SIZE_MAX;
        ut->after_progress = true;
    } else if (ut->after_progress) {
        read_section(ut, line);
    } else {
        read_progress(ut, line);
    }
}

void coto_read_unittest(struct coto_text output, struct coto_cases *cases)
{
    struct unittest ut = {.cases = cases, .open = SIZE_MAX, .told = SIZE_MAX, .ran = -1};
    struct coto_text line;

    while (coto_text_line(&output, &line))
        read_line(&ut, line);
    cases->is_complete = ut.ran >= 0 && ut.ran <= (int64_t)cases->count;
}
