/* JUnit XML, as CI servers read it. Text comes from inside the sandbox: what XML
 * cannot hold (most control characters, bytes that are not UTF-8) becomes
 * U+FFFD, and so does what a terminal would obey. */
#include "report/testcases.h"

#include <string.h>

#define OUTPUT_MAX ((size_t)1024 * 1024)

static void add_char(struct coto_buf *out, const unsigned char *p, size_t n, bool in_attribute)
{
    bool is_c1 = n == 2 && p[0] == 0xc2 && p[1] < 0xa0;
    bool is_non_char = n == 3 && p[0] == 0xef && p[1] == 0xbf && p[2] >= 0xbe;

    if (n == 0 || is_c1 || is_non_char || p[0] == 0x7f ||
        (p[0] < 0x20 && !strchr("\t\n\r", p[0])) || p[0] == 0)
        coto_buf_adds(out, "\xef\xbf\xbd");
    else if (*p == '&')
        coto_buf_adds(out, "&amp;");
    else if (*p == '<')
        coto_buf_adds(out, "&lt;");
    else if (*p == '>')
        coto_buf_adds(out, "&gt;");
    else if (*p == '"')
        coto_buf_adds(out, "&quot;");
    else if (*p == '\r' || (in_attribute && *p < 0x20))
        coto_buf_addf(out, "&#%d;", *p); /* as it is, a parser would make it a space */
    else
        coto_buf_add(out, p, n);
}

static void add_text(struct coto_buf *out, const char *data, size_t len, bool in_attribute)
{
    const unsigned char *p = (const unsigned char *)data;

    for (size_t i = 0; i < len;) {
        size_t n = coto_utf8_len(p + i, len - i);
        add_char(out, p + i, n, in_attribute);
        i += n ? n : 1;
    }
}

static void add_attribute(struct coto_buf *out, const char *name, const char *value, size_t len)
{
    coto_buf_addf(out, " %s=\"", name);
    add_text(out, value, len, true);
    coto_buf_addc(out, '"');
}

static void add_time(struct coto_buf *out, int64_t us)
{
    if (us >= 0)
        coto_buf_addf(out, " time=\"%lld.%06lld\"", (long long)(us / 1000000),
                      (long long)(us % 1000000));
}

static void add_case(struct coto_buf *out, const char *suite, const struct coto_case *item)
{
    const char *message = coto_buf_str(&item->message);
    const char *class = item->suite ? item->suite : suite;
    const char *tag = item->skipped ? "skipped" : "failure";

    coto_buf_adds(out, "    <testcase");
    add_attribute(out, "classname", class, strlen(class));
    add_attribute(out, "name", item->name, strlen(item->name));
    add_time(out, item->duration_us);
    if (item->passed && !item->skipped) {
        coto_buf_adds(out, "/>\n");
        return;
    }
    coto_buf_addf(out, ">\n      <%s", tag);
    add_attribute(out, "message", message, strcspn(message, "\n"));
    coto_buf_addc(out, '>');
    add_text(out, message, item->message.len, false);
    coto_buf_addf(out, "</%s>\n    </testcase>\n", tag);
}

/* Who reads this file judges by its cases: without this one it would look like success. */
static void add_error(struct coto_buf *out, const struct coto_junit *junit)
{
    coto_buf_adds(out, "    <testcase");
    add_attribute(out, "classname", junit->name, strlen(junit->name));
    add_attribute(out, "name", junit->name, strlen(junit->name));
    coto_buf_adds(out, ">\n      <error");
    add_attribute(out, "message", junit->error, strlen(junit->error));
    coto_buf_adds(out, "/>\n    </testcase>\n");
}

static void add_counts(struct coto_buf *out, const struct coto_junit *junit)
{
    size_t errors = junit->error ? 1 : 0;

    coto_buf_addf(out, " tests=\"%zu\" failures=\"%zu\" errors=\"%zu\" skipped=\"%zu\"",
                  junit->cases->count + errors, coto_cases_count_failed(junit->cases), errors,
                  coto_cases_count_skipped(junit->cases));
    add_time(out, junit->duration_us);
}

void coto_junit_xml(const struct coto_junit *junit, struct coto_buf *out)
{
    size_t len = junit->output->len;
    size_t from = len > OUTPUT_MAX ? len - OUTPUT_MAX : 0;

    coto_buf_adds(out, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites");
    add_counts(out, junit);
    coto_buf_adds(out, ">\n  <testsuite");
    add_attribute(out, "name", junit->name, strlen(junit->name));
    add_counts(out, junit);
    add_attribute(out, "timestamp", junit->started_at, strlen(junit->started_at));
    coto_buf_adds(out, ">\n");
    for (size_t i = 0; i < junit->cases->count; i++)
        add_case(out, junit->name, &junit->cases->items[i]);
    if (junit->error)
        add_error(out, junit);
    coto_buf_adds(out, "    <system-out>");
    add_text(out, coto_buf_str(junit->output) + from, len - from, false);
    coto_buf_adds(out, "</system-out>\n  </testsuite>\n</testsuites>\n");
}
