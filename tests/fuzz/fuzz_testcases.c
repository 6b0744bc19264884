/* What a test runner printed, all of it the submission's to choose: any bytes give a list
 * whose cases have results, a failed runner never passes, and the JUnit file is
 * well-formed text. */
#include "report/testcases.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_cases(const struct coto_cases *cases, int exit_code)
{
    size_t failed = 0;

    if (cases->count > COTO_CASES_MAX + 1)
        abort();
    for (size_t i = 0; i < cases->count; i++) {
        const struct coto_case *item = &cases->items[i];
        if (!item->has_result || !item->name || strlen(item->name) > COTO_CASE_NAME_MAX ||
            item->message.len > COTO_CASE_MESSAGE_MAX + 64 || (item->skipped && !item->passed))
            abort();
        failed += !item->passed;
    }
    if (coto_cases_count_failed(cases) != failed)
        abort();
    if (coto_cases_passed(cases, exit_code) && (exit_code != 0 || failed || cases->count == 0))
        abort();
}

/* Tags open and close in order, and no control character is in the text. */
static void check_xml(const char *text, size_t len)
{
    int depth = 0;

    if (!coto_utf8_valid(text, len))
        abort();
    for (size_t i = 0; i < len; i++) {
        unsigned char c = (unsigned char)text[i];
        if (c < 0x20 && c != '\n' && c != '\t' && c != '\r')
            abort();
        if (c != '<')
            continue;
        const char *end = memchr(text + i, '>', len - i);
        if (!end || memchr(text + i + 1, '<', (size_t)(end - text) - i - 1))
            abort();
        depth += text[i + 1] == '/' ? -1 : text[i + 1] == '?' || end[-1] == '/' ? 0 : 1;
        if (depth < 0)
            abort();
    }
    if (depth != 0)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const int codes[] = {0, 1, -1, 5};
    struct coto_cases cases;
    coto_auto_buf output = {0};
    coto_auto_buf xml = {0};

    if (size < 2)
        return 0;
    int exit_code = codes[data[1] % 4];
    coto_buf_add(&output, data + 2, size - 2);
    coto_cases_parse(&coto_runners[data[0] % coto_runner_count], &output, exit_code, &cases);
    check_cases(&cases, exit_code);
    struct coto_junit junit = {.name = "fuzz", .started_at = "2026-01-01T00:00:00Z",
                               .cases = &cases, .output = &output};
    coto_junit_xml(&junit, &xml);
    if (!xml.failed)
        check_xml(coto_buf_str(&xml), xml.len);
    coto_cases_fini(&cases);
    coto_cases_fini(&cases);
    return 0;
}
