/* coto help: generated from the tables of verbs and options. */
#include "cli/args.h"
#include "cli/cli.h"
#include "cli/verb.h"
#include "schema/options.h"

#include <string.h>

#define FLAG_COLUMN 28
#define LINE_WIDTH 92

static void pad_to(struct coto_buf *out, size_t from, size_t column)
{
    for (; from < column; from++)
        coto_buf_addc(out, ' ');
}

/* Appends text word by word, indented to FLAG_COLUMN, the first line at `column`. */
static void add_wrapped(struct coto_buf *out, const char *text, size_t column)
{
    pad_to(out, column, FLAG_COLUMN);
    column = FLAG_COLUMN;
    while (*text) {
        size_t n = strcspn(text, " ");
        if (column > FLAG_COLUMN && column + 1 + n > LINE_WIDTH) {
            coto_buf_addc(out, '\n');
            pad_to(out, 0, FLAG_COLUMN);
            column = FLAG_COLUMN;
        } else if (column > FLAG_COLUMN) {
            coto_buf_addc(out, ' ');
            column++;
        }
        coto_buf_add(out, text, n);
        column += n;
        text += n + strspn(text + n, " ");
    }
    coto_buf_addc(out, '\n');
}

/* One entry of a list of flags: "  --name VALUE     help". */
static void add_entry(struct coto_buf *out, const char *label, const char *help)
{
    size_t width = 2 + strlen(label);

    coto_buf_addf(out, "  %s", label);
    if (width + 2 > FLAG_COLUMN) {
        coto_buf_addc(out, '\n');
        width = 0;
    }
    add_wrapped(out, help, width);
}

static const char *short_form(enum coto_opt opt)
{
    switch (opt) {
    case COTO_OPT_CODE:
        return "-c, ";
    case COTO_OPT_QUIET:
        return "-q, ";
    case COTO_OPT_VERBOSE:
        return "-v, ";
    default:
        return "";
    }
}

static void add_option(struct coto_buf *out, enum coto_opt opt)
{
    const struct coto_opt_row *row = &coto_options[opt];
    coto_auto_buf label = {0};
    coto_auto_buf help = {0};

    coto_buf_addf(&label, "%s--%s%s%s", short_form(opt), row->name, *row->metavar ? " " : "",
                  row->metavar);
    coto_buf_adds(&help, row->help);
    if (*row->fallback && row->type != COTO_TYPE_BOOL)
        coto_buf_addf(&help, " [%s]", row->fallback);
    add_entry(out, coto_buf_str(&label), coto_buf_str(&help));
}

static void add_options(struct coto_buf *out, const char *verb)
{
    for (int section = 0; section < COTO_SECTION_COUNT; section++) {
        if (!coto_verb_has_section(verb, (enum coto_opt_section)section))
            continue;
        coto_buf_addf(out, "\n%s:\n", coto_section_title((enum coto_opt_section)section));
        for (int i = 0; i < COTO_OPT_COUNT; i++)
            if ((int)coto_options[i].section == section)
                add_option(out, (enum coto_opt)i);
    }
    add_entry(out, "-h, --help", "this text");
    coto_buf_adds(out, "\nIn [brackets]: the default. Sizes: 10k, 256m, 1.5g; times: 500ms, 30s, "
                       "1m30s; none: no limit.\n"
                       "Stronger wins: default < profile < environment (COTO_MEMORY=256m) < policy "
                       "file < flag.\n");
}

static void add_extra(struct coto_buf *out, const struct coto_args_flag *extra)
{
    if (!extra || !extra->name)
        return;
    coto_buf_adds(out, "\nOf this verb:\n");
    for (; extra->name; extra++) {
        coto_auto_buf label = {0};
        coto_buf_addf(&label, "--%s%s%s", extra->name, extra->metavar ? " " : "",
                      extra->metavar ? extra->metavar : "");
        add_entry(out, coto_buf_str(&label), extra->help);
    }
}

static void add_usage(struct coto_buf *out, const struct coto_verb *verb)
{
    const char *form = verb->operands;
    const char *lead = "usage:";

    for (;;) {
        const char *end = strstr(form, " | ");
        size_t n = end ? (size_t)(end - form) : strlen(form);
        coto_buf_addf(out, "%s coto %s %.*s\n", lead, verb->name, (int)n, form);
        if (!end)
            return;
        form = end + 3;
        lead = "      ";
    }
}

static void add_overview(struct coto_buf *out)
{
    coto_buf_adds(out, "coto runs untrusted code behind every wall the kernel has.\n\n"
                       "usage: coto VERB [OPTIONS] [ARGUMENTS]\n\n");
    for (const struct coto_verb *verb = coto_verbs; verb->name; verb++)
        coto_buf_addf(out, "  %-10s %s\n", verb->name, verb->help);
#define X(program, help) coto_buf_addf(out, "  %-10s %s\n", #program, help);
    COTO_PROGRAMS(X)
#undef X
    coto_buf_adds(out, "\nTry: coto run -c 'print(2+2)' --lang python\n"
                       "'coto help VERB' tells more; 'coto doctor' tells what this host can do.\n");
}

void coto_cli_help_text(const char *name, const struct coto_args_flag *extra, struct coto_buf *out)
{
    const struct coto_verb *verb = name ? coto_verb_find(name) : NULL;

    if (!verb) {
        add_overview(out);
        return;
    }
    add_usage(out, verb);
    coto_buf_addf(out, "\n%s\n", verb->help);
    add_extra(out, extra);
    if (verb->has_options)
        add_options(out, verb->name);
}

int coto_cli_help_verb(const char *verb, const struct coto_args_flag *extra)
{
    coto_auto_buf out = {0};

    coto_cli_help_text(verb, extra, &out);
    return coto_cli_print(&out);
}

int coto_cli_help(int argc, char **argv, char **envp)
{
    const struct coto_verb *verb = argc > 1 ? coto_verb_find(argv[1]) : NULL;

    if (verb && strcmp(verb->name, "help") != 0) {
        /* The verb itself knows the flags that are its own. */
        char *ask[] = {argv[1], "--help", NULL};
        return verb->main(2, ask, envp);
    }
    if (argc > 1 && !verb && argv[1][0] != '-') {
        struct coto_err err = {0};
        char *ask[] = {argv[1], "--help", NULL};
        if (coto_verb_exec(ask, envp, &err) == 0) {
            coto_err_set(&err, COTO_ERR_USAGE, 0, "help: no verb '%.60s'", argv[1]);
            coto_err_remedy(&err, "'coto help' lists all verbs");
        }
        return coto_cli_fail(&err);
    }
    return coto_cli_help_verb(argc > 1 && verb ? "help" : NULL, NULL);
}
