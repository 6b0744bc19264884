/* pytest -v --tb=short --durations=0. Three parts:
 *
 *   collected 10 items
 *   test_a.py::test_bad FAILED                           [ 20%]
 *   ===== FAILURES =====
 *   _____ test_bad _____
 *   E   assert 1 == 2
 *   ===== short test summary info =====
 *   FAILED test_a.py::test_bad - assert 1 == 2
 *   ===== 1 failed, 9 passed in 0.02s =====
 *
 * Results are believed in the first part only: the others repeat what tests
 * printed, line by line.
 */
#include "report/testcases_int.h"

#include <string.h>

/* A million forged sections must not cost a million searches: past this they are about nobody. */
#define LOOK_MAX ((size_t)10000000)

struct pytest {
    struct coto_cases *cases;
    int64_t collected;
    bool after_progress;  /* a "=== TITLE ===" after the results was seen */
    bool in_durations;
    bool in_summary;
    size_t told;          /* index of the case a section is about; SIZE_MAX none */
    size_t next;          /* sections come in the order of their cases: where to look first */
    size_t looked;        /* cases looked at for sections so far */
    struct coto_buf section_name;
    struct coto_buf section; /* text of a section about no known case */
};

/* "==== TITLE ====" or "____ TITLE ____" */
static bool read_title(struct coto_text line, char mark, struct coto_text *ret_title)
{
    size_t n = 0;

    while (n < line.n && line.p[n] == mark)
        n++;
    if (n < 1 || n + 2 >= line.n || line.p[n] != ' ' || line.p[line.n - 1] != mark)
        return false;
    struct coto_text title = coto_text_tail(line, n + 1);
    while (title.n > 0 && title.p[title.n - 1] == mark)
        title.n--;
    *ret_title = coto_text_trim(title);
    return true;
}

static const struct {
    const char *word;
    enum coto_outcome outcome;
} words[] = {
    {" PASSED", COTO_CASE_PASS},  {" FAILED", COTO_CASE_FAIL}, {" ERROR", COTO_CASE_FAIL},
    {" SKIPPED", COTO_CASE_SKIP}, {" XFAIL", COTO_CASE_SKIP},  {" XPASS", COTO_CASE_PASS},
};

/* "[ 20%]" at the end */
static bool chop_percent(struct coto_text *line)
{
    struct coto_text text = *line;

    if (!coto_text_chop(&text, "%]"))
        return false;
    long at = coto_text_find_last(text, "[");
    if (at <= 0 || text.n - (size_t)at > 4)
        return false;
    *line = coto_text_trim(coto_text_head(text, (size_t)at));
    return true;
}

static bool read_result(struct pytest *py, struct coto_text line)
{
    struct coto_text text = line;

    if (py->after_progress || !chop_percent(&text) || coto_text_find(text, "::") < 0)
        return false;
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        /* The last one: a parameter may be called " PASSED" itself. */
        long at = coto_text_find_last(text, words[i].word);
        struct coto_text rest = coto_text_tail(text, (size_t)(at + (long)strlen(words[i].word)));
        if (at <= 0 || (rest.n > 0 && !coto_text_eat(&rest, " (")))
            continue;
        struct coto_case *item =
            coto_cases_find_or_add(py->cases, 0, coto_text_head(text, (size_t)at));
        coto_case_result(item, words[i].outcome);
        if (words[i].outcome == COTO_CASE_SKIP && coto_text_chop(&rest, ")"))
            coto_case_say(item, rest);
        return true;
    }
    return false;
}

/* Whether "test_a.py::TestK::test_m" is what a section calls "TestK.test_m". */
static bool is_called(const char *id, struct coto_text title)
{
    const char *p = strstr(id, "::");
    size_t i = 0;

    if (!p)
        return false;
    p += 2;
    while (*p && i < title.n) {
        bool is_colons = p[0] == ':' && p[1] == ':' && title.p[i] == '.';
        if (!is_colons && *p != title.p[i])
            return false;
        p += is_colons ? 2 : 1;
        i++;
    }
    return !*p && i == title.n;
}

static void open_section(struct pytest *py, struct coto_text title)
{
    py->told = SIZE_MAX;
    coto_buf_clear(&py->section);
    coto_buf_clear(&py->section_name);
    if (coto_text_eat(&title, "ERROR collecting ")) {
        coto_buf_add(&py->section_name, title.p, title.n);
        return;
    }
    if (!coto_text_eat(&title, "ERROR at setup of "))
        coto_text_eat(&title, "ERROR at teardown of ");
    size_t count = py->cases->count;
    for (size_t i = 0; i < count && py->looked < LOOK_MAX; i++, py->looked++) {
        size_t at = (py->next + i) % count;
        const struct coto_case *item = &py->cases->items[at];
        if (!item->passed && item->message.len == 0 && is_called(item->name, title)) {
            py->told = at;
            py->next = at + 1;
            return;
        }
    }
}

/* A file that could not be loaded has no case yet. */
static void add_broken_file(struct pytest *py)
{
    struct coto_text name = {coto_buf_str(&py->section_name), py->section_name.len};

    if (name.n == 0)
        return;
    struct coto_case *item = coto_cases_find_or_add(py->cases, 0, name);
    coto_case_result(item, COTO_CASE_FAIL);
    coto_case_say(item, (struct coto_text){coto_buf_str(&py->section), py->section.len});
    coto_buf_clear(&py->section_name);
}

static void close_section(struct pytest *py)
{
    add_broken_file(py);
    py->told = SIZE_MAX;
}

/* "0.12s call     test_a.py::test_ok" */
static void read_duration(struct pytest *py, struct coto_text line)
{
    coto_text_eat_spaces(&line);
    long at = coto_text_find(line, "s ");
    int64_t us = at > 0 ? coto_text_decimal(coto_text_head(line, (size_t)at), 1000000) : -1;
    struct coto_text text = coto_text_tail(line, (size_t)(at + 2));
    if (us < 0 || (!coto_text_eat(&text, "call ") && !coto_text_eat(&text, "setup ") &&
                   !coto_text_eat(&text, "teardown ")))
        return;
    struct coto_case *item = coto_cases_find(py->cases, 0, coto_text_trim(text));
    if (item)
        item->duration_us = (item->duration_us < 0 ? 0 : item->duration_us) + us;
}

/* "FAILED test_a.py::test_bad - AssertionError": the message when no section
 * told more. */
static void read_summary(struct pytest *py, struct coto_text line)
{
    if (!coto_text_eat(&line, "FAILED ") && !coto_text_eat(&line, "ERROR "))
        return;
    long at = coto_text_find(line, " - ");
    struct coto_text name = at > 0 ? coto_text_head(line, (size_t)at) : line;
    struct coto_case *item = coto_cases_find_or_add(py->cases, 0, name);
    coto_case_result(item, COTO_CASE_FAIL);
    if (item && item->message.len == 0 && at > 0)
        coto_case_say(item, coto_text_tail(line, (size_t)at + 3));
}

static void read_heading(struct pytest *py, struct coto_text title)
{
    close_section(py);
    if (coto_text_is(title, "test session starts"))
        return;
    py->after_progress = true;
    py->in_durations = coto_text_find(title, "slowest durations") >= 0;
    py->in_summary = coto_text_is(title, "short test summary info");
    long at = coto_text_find_last(title, " in ");
    /* "3 passed in 0.02s", "... in 61.00s (0:01:01)" */
    if (at > 0 && title.p[0] >= '0' && title.p[0] <= '9') {
        struct coto_text text = coto_text_tail(title, (size_t)at + 4);
        long s = coto_text_find(text, "s");
        py->cases->is_complete =
            s > 0 && coto_text_decimal(coto_text_head(text, (size_t)s), 1000) >= 0;
    }
}

static void read_line(struct pytest *py, struct coto_text line)
{
    struct coto_text title, text = line;

    if (read_result(py, line))
        return;
    if (coto_text_eat(&text, "collecting ... "))
        line = text;
    if (py->collected < 0 && coto_text_eat(&text, "collected ")) {
        long at = coto_text_find(text, " item");
        py->collected = at > 0 ? coto_text_decimal(coto_text_head(text, (size_t)at), 1) : -1;
    } else if (read_title(line, '=', &title)) {
        read_heading(py, title);
    } else if (py->after_progress && read_title(line, '_', &title)) {
        close_section(py);
        open_section(py, title);
    } else if (py->in_durations) {
        read_duration(py, line);
    } else if (py->in_summary) {
        read_summary(py, line);
    } else if (py->told < py->cases->count) {
        coto_case_say_line(&py->cases->items[py->told], line);
    } else if (py->section_name.len > 0 && py->section.len < COTO_CASE_MESSAGE_MAX) {
        coto_buf_add(&py->section, line.p, line.n);
        coto_buf_addc(&py->section, '\n');
    }
}

void coto_read_pytest(struct coto_text output, struct coto_cases *cases)
{
    struct pytest py = {.cases = cases, .collected = -1, .told = SIZE_MAX};
    struct coto_text line;

    while (coto_text_line(&output, &line))
        read_line(&py, line);
    close_section(&py);
    if (py.collected > (int64_t)cases->count)
        cases->is_complete = false;
    coto_buf_fini(&py.section);
    coto_buf_fini(&py.section_name);
}
