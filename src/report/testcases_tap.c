/* TAP as node --test prints it (and anybody else, less richly):
 *
 *   # Subtest: suite
 *       # Subtest: inner
 *       not ok 1 - inner
 *         ---
 *         duration_ms: 0.085
 *         error: 'x'
 *         ...
 *       1..1
 *   not ok 5 - suite
 *   1..5
 *
 * A result that has results below it is a suite, not a case. What tests print
 * reaches us behind "# ".
 */
#include "report/testcases_int.h"

#include <stdlib.h>
#include <string.h>

#define LEVELS 16

struct level {
    struct coto_buf name; /* of the subtest that is open here */
    size_t results;       /* since the level above had one */
    size_t failures;
};

struct tap {
    struct coto_cases *cases;
    struct level levels[LEVELS];
    size_t last;      /* case the YAML block is about; SIZE_MAX none */
    bool in_yaml;
    bool in_error;    /* lines of a block-style error text */
    size_t yaml_indent;
    size_t error_indent;
    int64_t plan;     /* of the top level; -1 not seen */
    int64_t top_results;
};

static struct coto_case *last_case(struct tap *tap)
{
    return tap->last < tap->cases->count ? &tap->cases->items[tap->last] : NULL;
}

static bool is_script(struct coto_text name)
{
    static const char *const endings[] = {".js", ".mjs", ".cjs", ".ts"};

    for (size_t i = 0; i < sizeof endings / sizeof endings[0]; i++) {
        struct coto_text text = name;
        if (coto_text_chop(&text, endings[i]) && memchr(name.p, '/', name.n))
            return true;
    }
    return false;
}

/* "a \# b" → "a # b" */
static void add_unescaped(struct coto_buf *out, struct coto_text text)
{
    for (size_t i = 0; i < text.n; i++) {
        if (text.p[i] == '\\' && i + 1 < text.n && (text.p[i + 1] == '#' || text.p[i + 1] == '\\'))
            i++;
        coto_buf_addc(out, text.p[i]);
    }
}

/* Cuts "# SKIP why" or "# TODO why" off; whether there was one. */
static bool cut_directive(struct coto_text *text, struct coto_text *ret_reason)
{
    for (size_t i = 1; i + 1 < text->n; i++) {
        struct coto_text rest = coto_text_tail(*text, i);
        if (text->p[i - 1] != ' ' || !coto_text_eat(&rest, "# ") || rest.n < 4)
            continue;
        if (strncasecmp(rest.p, "SKIP", 4) != 0 && strncasecmp(rest.p, "TODO", 4) != 0)
            continue;
        *ret_reason = coto_text_trim(coto_text_tail(rest, 4));
        *text = coto_text_trim(coto_text_head(*text, i));
        return true;
    }
    return false;
}

static struct coto_case *add_case(struct tap *tap, size_t level, struct coto_text name)
{
    coto_auto_buf path = {0};
    struct coto_text suite = {NULL, 0};

    for (size_t i = 0; i < level; i++) {
        struct coto_text part = {coto_buf_str(&tap->levels[i].name), tap->levels[i].name.len};
        if (is_script(part)) {
            suite = part;
        } else if (part.n > 0) {
            coto_buf_add(&path, part.p, part.n);
            coto_buf_adds(&path, " > ");
        }
    }
    add_unescaped(&path, name);
    if (path.len == 0)
        coto_buf_addf(&path, "test %zu", tap->cases->count + 1);
    struct coto_case *item =
        coto_cases_add(tap->cases, (struct coto_text){coto_buf_str(&path), path.len});
    if (item && suite.n > 0)
        item->suite = strndup(suite.p, suite.n);
    if (item)
        item->is_file = level == 0 && is_script(name);
    return item;
}

/* "ok 3 - name # SKIP later" behind its indent */
static bool read_result(struct tap *tap, size_t level, struct coto_text text)
{
    struct coto_text reason = {"", 0};
    bool is_ok = !coto_text_eat(&text, "not ");

    if (!coto_text_eat(&text, "ok") || (text.n > 0 && text.p[0] != ' '))
        return false;
    coto_text_eat_spaces(&text);
    while (text.n > 0 && text.p[0] >= '0' && text.p[0] <= '9')
        text = coto_text_tail(text, 1);
    coto_text_eat_spaces(&text);
    coto_text_eat(&text, "- ");
    bool is_excused = cut_directive(&text, &reason);
    struct level *below = level + 1 < LEVELS ? &tap->levels[level + 1] : NULL;
    bool is_suite = below && below->results > 0;
    bool is_shown = !is_suite || (!is_ok && !is_excused && below->failures == 0);

    tap->last = SIZE_MAX;
    if (is_shown) {
        struct coto_case *item = add_case(tap, level, text);
        coto_case_result(item, is_excused ? COTO_CASE_SKIP
                               : is_ok    ? COTO_CASE_PASS
                                          : COTO_CASE_FAIL);
        coto_case_say(item, reason);
        tap->last = item ? tap->cases->count - 1 : SIZE_MAX;
    }
    if (below)
        below->results = below->failures = 0;
    tap->levels[level].results++;
    tap->levels[level].failures += !is_ok && !is_excused;
    tap->top_results += level == 0;
    return true;
}

static void read_yaml_error(struct tap *tap, struct coto_text text)
{
    struct coto_case *item = last_case(tap);

    if (!item || item->skipped)
        return;
    if (coto_text_is(text, "|-") || coto_text_is(text, "|")) {
        tap->in_error = true;
        tap->error_indent = tap->yaml_indent + 2;
        return;
    }
    if (coto_text_eat(&text, "'"))
        coto_text_chop(&text, "'");
    coto_case_say_line(item, text);
}

static void read_yaml(struct tap *tap, struct coto_text line)
{
    struct coto_text text = line;
    size_t indent = coto_text_eat_spaces(&text);
    struct coto_case *item = last_case(tap);

    if (tap->in_error && (indent >= tap->error_indent || text.n == 0)) {
        coto_case_say_line(item, coto_text_tail(line, tap->error_indent));
        return;
    }
    tap->in_error = false;
    if (indent <= tap->yaml_indent && coto_text_is(text, "...")) {
        tap->in_yaml = false;
    } else if (indent == tap->yaml_indent && coto_text_eat(&text, "duration_ms: ")) {
        if (item)
            item->duration_us = coto_text_decimal(text, 1000);
    } else if (indent == tap->yaml_indent && coto_text_eat(&text, "error: ")) {
        read_yaml_error(tap, text);
    }
}

static void read_line(struct tap *tap, struct coto_text line)
{
    struct coto_text text = line;
    size_t indent = coto_text_eat_spaces(&text);
    size_t level = indent / 4;

    if (tap->in_yaml) {
        read_yaml(tap, line);
        return;
    }
    if (coto_text_is(text, "---") && indent % 4 == 2) {
        tap->in_yaml = true;
        tap->in_error = false;
        tap->yaml_indent = indent;
        return;
    }
    if (indent % 4 != 0 || level >= LEVELS)
        return;
    if (coto_text_eat(&text, "# Subtest: ")) {
        coto_buf_clear(&tap->levels[level].name);
        add_unescaped(&tap->levels[level].name, coto_text_head(text, COTO_CASE_NAME_MAX));
    } else if (level == 0 && coto_text_eat(&text, "1..")) {
        long space = coto_text_find(text, " ");
        tap->plan = coto_text_decimal(space > 0 ? coto_text_head(text, (size_t)space) : text, 1);
    } else if (level == 0 && coto_text_eat(&text, "Bail out!")) {
        struct coto_case *item = coto_cases_add(tap->cases, line);
        coto_case_result(item, COTO_CASE_FAIL);
    } else {
        read_result(tap, level, text);
    }
}

static void read_tap(struct coto_text output, struct coto_cases *cases, bool needs_plan)
{
    struct tap tap = {.cases = cases, .last = SIZE_MAX, .plan = -1};
    struct coto_text line;

    while (coto_text_line(&output, &line))
        read_line(&tap, line);
    cases->is_complete = tap.plan < 0 ? !needs_plan : tap.plan == tap.top_results;
    for (size_t i = 0; i < LEVELS; i++)
        coto_buf_fini(&tap.levels[i].name);
}

void coto_read_tap(struct coto_text output, struct coto_cases *cases)
{
    read_tap(output, cases, true);
}

/* ---- make test: TAP, or the lines automake made customary ---- */

static void read_verdict(struct coto_text line, struct coto_cases *cases)
{
    static const struct {
        const char *word;
        enum coto_outcome outcome;
    } words[] = {
        {"PASS: ", COTO_CASE_PASS},  {"FAIL: ", COTO_CASE_FAIL},  {"ERROR: ", COTO_CASE_FAIL},
        {"XPASS: ", COTO_CASE_FAIL}, {"XFAIL: ", COTO_CASE_SKIP}, {"SKIP: ", COTO_CASE_SKIP},
    };

    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        struct coto_text name = line;
        if (!coto_text_eat(&name, words[i].word))
            continue;
        name = coto_text_trim(name);
        if (name.n > 0)
            coto_case_result(coto_cases_find_or_add(cases, 0, name), words[i].outcome);
    }
}

void coto_read_make(struct coto_text output, struct coto_cases *cases)
{
    struct coto_text rest = output, line;
    bool is_tap = false;

    while (coto_text_line(&rest, &line)) {
        read_verdict(line, cases);
        is_tap = is_tap || coto_text_eat(&line, "ok ") || coto_text_eat(&line, "not ok ");
    }
    cases->is_complete = true;
    if (cases->count == 0 && is_tap)
        read_tap(output, cases, false);
}
