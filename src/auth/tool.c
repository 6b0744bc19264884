#include "auth/tool.h"

#include "base/fd.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define MAX_OPERANDS 64

/* ---- text ---- */

void coto_tool_add_visible(struct coto_buf *out, const char *text)
{
    const unsigned char *p = (const unsigned char *)text;
    size_t left = strlen(text);

    for (size_t n; left > 0; p += n, left -= n) {
        n = coto_utf8_len(p, left);
        if (n == 0 || *p < ' ' || *p == 0x7f || coto_utf8_misleads(coto_utf8_value(p, n))) {
            coto_buf_addf(out, "\\x%02x", *p);
            n = 1;
        } else {
            coto_buf_add(out, p, n);
        }
    }
}

void coto_tool_add_time(struct coto_buf *out, int64_t seconds)
{
    time_t time = (time_t)seconds;
    char text[64] = "?";
    struct tm tm;

    if (gmtime_r(&time, &tm))
        strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S UTC", &tm);
    coto_buf_adds(out, text);
}

int coto_tool_print(const struct coto_buf *text, struct coto_err *err)
{
    if (!text->failed && coto_fd_write_all(1, coto_buf_str(text), text->len) == 0)
        return 0;
    return coto_err_set(err, COTO_ERR_OUTPUT, text->failed ? ENOMEM : errno, "standard output");
}

static int complain(const struct coto_err *err)
{
    coto_auto_buf out = {0};

    coto_buf_adds(&out, "coto: ");
    coto_tool_add_visible(&out, err->text);
    if (err->remedy[0]) {
        coto_buf_adds(&out, "\n  remedy: ");
        coto_tool_add_visible(&out, err->remedy);
    }
    coto_buf_addc(&out, '\n');
    (void)coto_fd_write_all(2, coto_buf_str(&out), out.len); /* the status still speaks */
    return coto_err_info(err->kind)->exit_code;
}

/* ---- help ---- */

static bool takes(const struct coto_tool_verb *verb, const char *flag)
{
    char word[64];

    snprintf(word, sizeof word, " %s ", flag);
    return strstr(verb->flags, word) != NULL;
}

static void add_flags(const struct coto_tool *tool, const struct coto_tool_verb *verb,
                      struct coto_buf *out)
{
    coto_buf_adds(out, "\n");
    for (const struct coto_tool_flag *flag = tool->flags; flag->name; flag++) {
        char label[64];
        if (verb && !takes(verb, flag->name))
            continue;
        snprintf(label, sizeof label, "--%s %s", flag->name, flag->metavar ? flag->metavar : "");
        coto_buf_addf(out, "  %-20s %s\n", label, flag->help);
    }
    coto_buf_adds(out, "  -h, --help           this text\n");
}

/* Of one verb, or of all when it is NULL. */
static void add_help(const struct coto_tool *tool, const struct coto_tool_verb *one,
                     struct coto_buf *out)
{
    if (!one)
        coto_buf_addf(out, "%s\n\n", tool->intro);
    for (const struct coto_tool_verb *verb = tool->verbs; verb->name; verb++) {
        if (one && one != verb)
            continue;
        coto_buf_addf(out, "%s coto %s %s%s%s\n", one || verb == tool->verbs ? "usage:" : "      ",
                      tool->name, verb->name, *verb->operands ? " " : "", verb->operands);
    }
    coto_buf_adds(out, "\n");
    for (const struct coto_tool_verb *verb = tool->verbs; verb->name; verb++)
        if (!one || one == verb)
            coto_buf_addf(out, "  %-20s %s\n", verb->name, verb->help);
    add_flags(tool, one, out);
    if (!one)
        coto_buf_addf(out, "\n%s\n", tool->outro);
}

/* ---- the command line ---- */

struct call {
    const struct coto_tool *tool;
    const struct coto_tool_verb *verb; /* NULL: none was named */
    char *operands[MAX_OPERANDS + 1];
    int count;
    bool wants_help;
};

static int bad_usage(const struct call *call, struct coto_err *err)
{
    return coto_err_remedy(err, "'coto %s%s%s --help' tells how", call->tool->name,
                           call->verb ? " " : "", call->verb ? call->verb->name : "");
}

static int set_list(const struct coto_tool_flag *flag, const char *text, struct coto_err *err)
{
    for (;;) {
        size_t n = strcspn(text, ",");
        if (n && coto_strv_addn(flag->list, text, n))
            return coto_err_set(err, COTO_ERR_SYSTEM, ENOMEM, "--%s", flag->name);
        if (!text[n])
            return 0;
        text += n + 1;
    }
}

static int set_flag(const struct call *call, const struct coto_tool_flag *flag, const char *value,
                    struct coto_err *err)
{
    if (flag->is_set) {
        *flag->is_set = true;
        return 0;
    }
    if (flag->list)
        return set_list(flag, value, err);
    if (*flag->value) {
        coto_err_set(err, COTO_ERR_USAGE, 0, "--%s: given twice", flag->name);
        return bad_usage(call, err);
    }
    *flag->value = value;
    return 0;
}

static const struct coto_tool_flag *find_flag(const struct call *call, const char *name, size_t len)
{
    for (const struct coto_tool_flag *flag = call->tool->flags; flag->name; flag++)
        if (strlen(flag->name) == len && strncmp(flag->name, name, len) == 0 &&
            (!call->verb || takes(call->verb, flag->name)))
            return flag;
    return NULL;
}

/* One flag at *argv, which is left at the last argument used. */
static int take_flag(const struct call *call, char ***argv, struct coto_err *err)
{
    bool is_long = (**argv)[1] == '-';
    const char *name = **argv + 1 + is_long;
    size_t len = strcspn(name, "=");
    const struct coto_tool_flag *flag = is_long ? find_flag(call, name, len) : NULL;
    const char *value = name[len] ? name + len + 1 : NULL;

    if (!flag) {
        coto_err_set(err, COTO_ERR_USAGE, 0, "no flag '%.60s'", **argv);
        return bad_usage(call, err);
    }
    if (flag->metavar && !value)
        value = (*argv)[1] ? *++*argv : NULL;
    else if (!flag->metavar && value) {
        coto_err_set(err, COTO_ERR_USAGE, 0, "--%s takes no value", flag->name);
        return bad_usage(call, err);
    }
    if (flag->metavar && !value) {
        coto_err_set(err, COTO_ERR_USAGE, 0, "--%s needs a value: %s", flag->name, flag->metavar);
        return bad_usage(call, err);
    }
    return set_flag(call, flag, value, err);
}

static int take_word(struct call *call, char *word, struct coto_err *err)
{
    if (!call->verb) {
        for (const struct coto_tool_verb *verb = call->tool->verbs; verb->name; verb++)
            if (strcmp(verb->name, word) == 0)
                call->verb = verb;
        if (call->verb)
            return 0;
        coto_err_set(err, COTO_ERR_USAGE, 0, "coto %s has no verb '%.60s'", call->tool->name, word);
        return bad_usage(call, err);
    }
    if (call->count == call->verb->most) {
        coto_err_set(err, COTO_ERR_USAGE, 0, "'%.60s' is one argument too many", word);
        return bad_usage(call, err);
    }
    call->operands[call->count++] = word;
    return 0;
}

static int parse(struct call *call, char **argv, struct coto_err *err)
{
    bool flags_over = false;

    for (; *argv; argv++) {
        int failed = 0;
        if (!flags_over && strcmp(*argv, "--") == 0)
            flags_over = true;
        else if (!flags_over && (strcmp(*argv, "-h") == 0 || strcmp(*argv, "--help") == 0))
            call->wants_help = true;
        else if (!flags_over && (*argv)[0] == '-' && (*argv)[1])
            failed = take_flag(call, &argv, err);
        else
            failed = take_word(call, *argv, err);
        if (failed)
            return -1;
    }
    return 0;
}

static int run(struct call *call, char **argv, struct coto_err *err)
{
    coto_auto_buf help = {0};

    if (parse(call, argv, err))
        return -1;
    if (call->wants_help) {
        add_help(call->tool, call->verb, &help);
        return coto_tool_print(&help, err);
    }
    if (!call->verb || call->count < call->verb->least) {
        coto_err_set(err, COTO_ERR_USAGE, 0, "%s", call->verb ? "an argument is missing"
                                                             : "which verb?");
        if (!call->verb)
            return bad_usage(call, err);
        return coto_err_remedy(err, "coto %s %s %s", call->tool->name, call->verb->name,
                               call->verb->operands);
    }
    return call->verb->run(call->operands, err);
}

int coto_tool_main(const struct coto_tool *tool, char **argv)
{
    struct call call = {.tool = tool};
    struct coto_err err = {0};

    return run(&call, argv + 1, &err) ? complain(&err) : 0;
}
