/* gendocs WHAT: writes a document from the tables of src/schema, so that nothing
 * about an option is written twice.
 *
 *   options      docs/OPTIONS.md
 *   man          man/coto.1
 *   bash, zsh    completions/coto.bash, completions/_coto
 *   exit-codes, walls, verdicts   tables in Markdown
 *
 * tools/check-generated compares the checked-in copies with what this prints.
 */
#include "base/err.h"
#include "cli/verb.h"
#include "policy/policy.h"
#include "policy/value.h"
#include "schema/languages.h"
#include "schema/runners.h"
#include "schema/verdict.h"
#include "schema/walls.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

static const struct {
    const char *name, *operands;
    bool has_options;
    const char *help;
} verbs[] = {
#define X(name, operands, has_options, help) {#name, operands, has_options, help},
    COTO_VERBS(X)
#undef X
};
#define VERB_COUNT (sizeof verbs / sizeof verbs[0])

static const struct {
    const char *name, *help;
} programs[] = {
#define X(name, help) {#name, help},
    COTO_PROGRAMS(X)
#undef X
};
#define PROGRAM_COUNT (sizeof programs / sizeof programs[0])

static const struct {
    const char *name, *metavar, *help;
} test_flags[] = {
#define X(field, name, metavar, help) {name, metavar, help},
    COTO_TEST_FLAGS(X)
#undef X
};
#define TEST_FLAG_COUNT (sizeof test_flags / sizeof test_flags[0])

/* The variables of requirement R1.2 (src/policy/env.c). */
static const struct {
    const char *name, *takes, *doc;
} older_variables[] = {
    {"SANDBOX_TYPE", "local, docker, e2b",
     "local is --isolation process, docker is --isolation docker; e2b is refused until its level "
     "exists"},
    {"SANDBOX_TIMEOUT_SEC", "1 to 86400", "--timeout in seconds"},
    {"SANDBOX_MAX_OUTPUT_KB", "1 to 1048576", "--output-limit in kilobytes"},
    {"DOCKER_IMAGE", "an image name", "--image, at the docker level"},
    {"DOCKER_NETWORK_ENABLED", "true, false",
     "true is refused at the docker level: a sandbox has no network"},
    {"DOCKER_CPU_LIMIT", "0.01 to 1024", "--cpus, at the docker level"},
    {"DOCKER_MEMORY_LIMIT", "4m to 1024t", "--memory, at the docker level"},
};
#define OLDER_COUNT (sizeof older_variables / sizeof older_variables[0])

static const char example_policy[] = "profile: gemini        # start from a built-in policy\n"
                                     "memory: 256m\n"
                                     "timeout: 1m30s\n"
                                     "env:\n"
                                     "  LANG: C.UTF-8\n"
                                     "mount:\n"
                                     "  - /srv/data:/data:ro\n"
                                     "require: [memory, pids]\n";

static bool is_bool(int opt)
{
    return coto_options[opt].type == COTO_TYPE_BOOL;
}

static bool is_enum(int opt)
{
    return coto_options[opt].type == COTO_TYPE_ENUM;
}

static bool is_repeatable(int opt)
{
    return coto_options[opt].type == COTO_TYPE_LIST || coto_options[opt].type == COTO_TYPE_MAP;
}

static char short_letter(int opt)
{
    if (opt == COTO_OPT_CODE)
        return 'c';
    if (opt == COTO_OPT_QUIET)
        return 'q';
    return opt == COTO_OPT_VERBOSE ? 'v' : '\0';
}

static void print_env_name(int opt)
{
    fputs("COTO_", stdout);
    for (const char *p = coto_options[opt].name; *p; p++)
        putchar(*p == '-' ? '_' : toupper((unsigned char)*p));
}

/* What an option takes, without the example of error messages. */
static void add_takes(struct coto_buf *out, int opt)
{
    coto_value_allowed((enum coto_opt)opt, out);
    char *example = out->data ? strstr(out->data, ", for example") : NULL;
    if (example) {
        *example = '\0';
        out->len = (size_t)(example - out->data);
    }
}

/* ---- Markdown ---- */

static void print_md(const char *text)
{
    for (; *text; text++) {
        if (*text == '|' || *text == '<' || *text == '*')
            putchar('\\');
        putchar(*text);
    }
}

static void print_md_code(const char *text)
{
    putchar('`');
    for (; *text; text++) {
        if (*text == '|')
            putchar('\\'); /* in a table even code needs it */
        putchar(*text);
    }
    putchar('`');
}

static void print_md_option(int opt)
{
    const struct coto_opt_row *row = &coto_options[opt];
    coto_auto_buf takes = {0};

    add_takes(&takes, opt);
    printf("| `--%s` ", row->name);
    if (short_letter(opt))
        printf("`-%c` ", short_letter(opt));
    fputs("| ", stdout);
    print_md(coto_buf_str(&takes));
    fputs(" | ", stdout);
    if (*row->fallback)
        print_md_code(row->fallback);
    fputs(" | `", stdout);
    print_env_name(opt);
    fputs("` | ", stdout);
    print_md(row->help);
    puts(" |");
}

static void print_md_profile(const struct coto_profile *profile)
{
    printf("\n### `%s`\n\n%s.\n", profile->name, profile->summary);
    if (!profile->settings[0])
        return;
    puts("\n| key | value | why |\n|---|---|---|");
    for (size_t i = 0; profile->settings[2 * i]; i++) {
        printf("| `%s` | ", profile->settings[2 * i]);
        print_md_code(profile->settings[2 * i + 1]);
        fputs(" | ", stdout);
        print_md(profile->notes[i]);
        puts(" |");
    }
}

static void print_md_intro(void)
{
    puts("# Options\n\n"
         "<!-- Made by tools/gendocs from src/schema/options.h; do not edit. -->\n\n"
         "Every option is a flag, a key of a policy file and a variable. Stronger wins, for lists "
         "and maps as a\nwhole too:\n\n"
         "    default < profile < environment < policy file < flag\n\n"
         "`coto policy explain [OPTIONS]` tells each value and who set it. A value that is out of "
         "range, an unknown\nkey, flag or `COTO_` variable is an error that names it; nothing is "
         "ignored.\n\n"
         "- Sizes: `4096`, `10k`, `256m`, `1.5g`, `1t` (powers of 1024). Times: `500ms`, `30s`, "
         "`1m30s`, `2h`; a bare number\n  is seconds. CPUs: `0.5`, `2`. `none`, where allowed, is "
         "no limit.\n"
         "- Booleans are `true` or `false`; as a flag `--name` or `--no-name`.\n"
         "- Lists and maps: repeat the flag; in a variable separate items with commas "
         "(`COTO_ENV=A=1,B=2`). Where the table\n  ends a value with `,...`, a flag takes commas "
         "too.\n\n"
         "## Policy files\n\n"
         "YAML, or JSON as its subset, in UTF-8, up to 1 MiB: one map of the keys below, plus "
         "`profile`. Scalars are text\nin the syntax of the flags. Anchors, aliases, tags, "
         "duplicate keys, further documents and nesting are refused.\n"
         "`coto policy check FILE` checks one.\n\n```yaml");
    fputs(example_policy, stdout);
    puts("```");
}

static int print_options(void)
{
    print_md_intro();
    for (int section = 0; section <= COTO_SECTION_CLI; section++) {
        printf("\n## %s\n\n", coto_section_title((enum coto_opt_section)section));
        puts("| flag | takes | default | variable | what it does |\n|---|---|---|---|---|");
        for (int i = 0; i < COTO_OPT_COUNT; i++)
            if ((int)coto_options[i].section == section)
                print_md_option(i);
    }
    puts("\n## Other variables\n\nA `COTO_` variable wins over these. Names that begin with "
         "`COTO_INIT` or `COTO_TEST` are reserved and left alone.\n\n"
         "| variable | takes | meaning |\n|---|---|---|");
    for (size_t i = 0; i < OLDER_COUNT; i++)
        printf("| `%s` | %s | %s |\n", older_variables[i].name, older_variables[i].takes,
               older_variables[i].doc);
    puts("\n## Profiles\n\nBuilt in from `profiles/`. R numbers are requirements. What a profile "
         "does not set keeps its default.");
    for (unsigned i = 0; i < coto_profile_count; i++)
        print_md_profile(&coto_profiles[i]);
    return 0;
}

static int print_exit_codes(void)
{
    puts("| status | JSON code | meaning |\n|---|---|---|");
    for (int kind = 1; kind < COTO_ERR_COUNT; kind++) {
        const struct coto_err_info *info = coto_err_info(kind);
        printf("| %d | `%s` | %s |\n", info->exit_code, info->word, info->doc);
    }
    return 0;
}

static int print_verdicts(void)
{
    puts("| verdict | meaning |\n|---|---|");
    for (int i = 0; i < COTO_VERDICT_COUNT; i++)
        printf("| `%s` | %s |\n", coto_verdict_word((enum coto_verdict)i),
               coto_verdict_doc((enum coto_verdict)i));
    return 0;
}

static int print_walls(void)
{
    puts("| wall | class | meaning |\n|---|---|---|");
    for (int i = 0; i < COTO_WALL_COUNT; i++)
        printf("| `%s` | %s | %s |\n", coto_walls[i].name,
               coto_walls[i].class == COTO_WALL_CORE ? "core" : "limit", coto_walls[i].doc);
    return 0;
}

/* ---- man page (mdoc) ---- */

/* Text that troff cannot take for a request or an escape. */
static void print_roff(const char *text)
{
    if (*text == '.' || *text == '\'')
        fputs("\\&", stdout);
    for (; *text; text++) {
        if (*text == '\\')
            fputs("\\e", stdout);
        else if (*text == '-')
            fputs("\\-", stdout);
        else if (*text == '"')
            fputs("\\(dq", stdout);
        else
            putchar(*text);
    }
}

static void print_roff_line(const char *text)
{
    print_roff(text);
    putchar('\n');
}

static void print_man_synopsis(void)
{
    puts(".Sh SYNOPSIS");
    for (size_t i = 0; i < VERB_COUNT; i++) {
        for (const char *form = verbs[i].operands; form;) {
            const char *end = strstr(form, " | ");
            char text[160];
            snprintf(text, sizeof text, "%.*s", (int)(end ? end - form : (long)strlen(form)), form);
            printf(".Nm\n.Cm %s\n", verbs[i].name);
            print_roff_line(text);
            form = end ? end + 3 : NULL;
        }
    }
    for (size_t i = 0; i < PROGRAM_COUNT; i++)
        printf(".Nm\n.Cm %s\n[ARGS...]\n", programs[i].name);
}

static void print_man_option(int opt)
{
    const struct coto_opt_row *row = &coto_options[opt];
    coto_auto_buf takes = {0};

    fputs(".It ", stdout);
    if (short_letter(opt))
        printf("Fl %c , ", short_letter(opt));
    printf("Fl Fl %s", row->name);
    if (*row->metavar)
        printf(" Ar \"%s\"", row->metavar);
    putchar('\n');
    print_roff(row->help);
    puts(".");
    add_takes(&takes, opt);
    if (!is_bool(opt) && strcmp(coto_buf_str(&takes), row->metavar) != 0 && !is_enum(opt)) {
        fputs("Takes ", stdout);
        print_roff(coto_buf_str(&takes));
        puts(".");
    }
    if (*row->fallback && !is_bool(opt)) {
        fputs("Default: ", stdout);
        print_roff(row->fallback);
        puts(".");
    }
}

static void print_man_options(void)
{
    puts(".Sh OPTIONS\n"
         "Every option is also a key of a policy file and a variable, see\n.Sx ENVIRONMENT .\n"
         "The stronger source wins: default, profile, environment, policy file, flag.\n"
         "Sizes are written 10k, 256m, 1.5g; times 500ms, 30s, 1m30s; none is no limit.\n"
         "A boolean is undone with\n.Fl Fl no\\-name .");
    for (int section = 0; section <= COTO_SECTION_CLI; section++) {
        printf(".Ss %s\n.Bl -tag -width Ds\n", coto_section_title((enum coto_opt_section)section));
        for (int i = 0; i < COTO_OPT_COUNT; i++)
            if ((int)coto_options[i].section == section)
                print_man_option(i);
        puts(".El");
    }
    puts(".Ss Of test alone\n.Bl -tag -width Ds");
    for (size_t i = 0; i < TEST_FLAG_COUNT; i++) {
        printf(".It Fl Fl %s Ar %s\n", test_flags[i].name, test_flags[i].metavar);
        print_roff(test_flags[i].help);
        puts(".");
    }
    puts(".El");
}

static void print_man_environment(void)
{
    puts(".Sh ENVIRONMENT\n"
         "Each option NAME is read from COTO_NAME, in capitals and with _ for \\-;\n"
         "items of lists are separated by commas.\n"
         "An unknown COTO_ variable is an error.\n"
         "A COTO_ variable wins over these:\n.Bl -tag -width Ds");
    for (size_t i = 0; i < OLDER_COUNT; i++) {
        printf(".It Ev %s\n", older_variables[i].name);
        print_roff(older_variables[i].doc);
        fputs(" (", stdout);
        print_roff(older_variables[i].takes);
        puts(").");
    }
    puts(".El");
}

static void print_man_end(void)
{
    puts(".Sh EXIT STATUS\n"
         "The program's own status; 124 when a time limit ended it, 137 when the memory\n"
         "limit did, 128+n when signal n did.\n"
         "With\n.Fl Fl json\nthe verdict tells a program's own 124 or 137 from ours.");
    puts("Failures of\n.Nm\nitself:\n.Bl -tag -width Ds");
    for (int kind = 1; kind < COTO_ERR_COUNT; kind++) {
        const struct coto_err_info *info = coto_err_info(kind);
        printf(".It %d\n", info->exit_code);
        print_roff(info->doc);
        printf(" (%s).\n", info->word);
    }
    puts(".El\n.Sh VERDICTS\n.Bl -tag -width Ds");
    for (int i = 0; i < COTO_VERDICT_COUNT; i++) {
        printf(".It %s\n", coto_verdict_word((enum coto_verdict)i));
        print_roff(coto_verdict_doc((enum coto_verdict)i));
        puts(".");
    }
    puts(".El\n.Sh WALLS\n.Bl -tag -width Ds");
    for (int i = 0; i < COTO_WALL_COUNT; i++) {
        printf(".It %s\n", coto_walls[i].name);
        print_roff(coto_walls[i].doc);
        puts(coto_walls[i].class == COTO_WALL_CORE ? " (core)." : " (limit).");
    }
    puts(".El\n.Sh EXAMPLES\n.Dl coto run hello.py\n"
         ".Dl coto run \\-\\-memory 128m \\-\\-timeout 5s \\-c 'print(2+2)' \\-\\-lang python\n"
         ".Dl coto run \\-\\-json \\-\\- ls /\n"
         ".Dl coto policy explain \\-\\-profile enis\n"
         ".Sh SEE ALSO\n.Xr seccomp 2 ,\n.Xr cgroups 7 ,\n.Xr landlock 7 ,\n.Xr namespaces 7");
}

static int print_man(void)
{
    puts(".\\\" Made by tools/gendocs from src/schema; do not edit.\n"
         ".Dd November 15, 2026\n.Dt COTO 1\n.Os\n.Sh NAME\n.Nm coto\n"
         ".Nd run untrusted code behind every wall the kernel has");
    print_man_synopsis();
    puts(".Sh DESCRIPTION\n.Nm\n"
         "runs code in a sandbox of namespaces, mounts, cgroups, seccomp, Landlock and no\n"
         "capabilities, with limits, and tells how it ended.\n"
         "Nothing of a run stays on the host unless asked for.\n"
         "A wall that the policy needs and the host cannot give is an error, never a\n"
         "weaker sandbox.\n.Pp\nThe verbs:\n.Bl -tag -width Ds");
    for (size_t i = 0; i < VERB_COUNT; i++) {
        printf(".It Cm %s\n", verbs[i].name);
        print_roff(verbs[i].help);
        puts(".");
    }
    for (size_t i = 0; i < PROGRAM_COUNT; i++) {
        printf(".It Cm %s\n", programs[i].name);
        print_roff(programs[i].help);
        printf("; see coto %s \\-\\-help.\n", programs[i].name);
    }
    puts(".El");
    print_man_options();
    print_man_environment();
    puts(".Sh PROFILES\n.Bl -tag -width Ds");
    for (unsigned i = 0; i < coto_profile_count; i++) {
        printf(".It %s\n", coto_profiles[i].name);
        print_roff(coto_profiles[i].summary);
        puts(".");
    }
    puts(".El");
    print_man_end();
    return 0;
}

/* ---- completion ---- */

enum completes {
    COMPLETES_NOTHING,
    COMPLETES_WORDS,
    COMPLETES_LIST, /* words with commas between them */
    COMPLETES_FILES,
    COMPLETES_DIRS,
    COMPLETES_IMAGES,
};

/* Words an option can be completed with, separated by spaces, or what else. */
static enum completes find_words(int opt, struct coto_buf *words)
{
    const struct coto_opt_row *row = &coto_options[opt];
    const struct coto_rule *rule = coto_rule_find((enum coto_opt)opt);

    if (opt == COTO_OPT_LANG)
        for (size_t i = 0; i < coto_language_count; i++)
            coto_buf_addf(words, "%s%s", i ? " " : "", coto_languages[i].name);
    else if (opt == COTO_OPT_RUNTIME || opt == COTO_OPT_ALLOW_RUNTIME)
        coto_buf_adds(words, "runc crun runsc kata-runtime");
    else if (row->type == COTO_TYPE_ENUM)
        for (const char *p = row->metavar; *p; p++)
            coto_buf_addc(words, *p == '|' ? ' ' : *p);
    else if (rule && rule->word)
        for (unsigned i = 0; rule->word(i); i++)
            coto_buf_addf(words, "%s%s", i ? " " : "", rule->word(i));
    if (words->len > 0)
        return strstr(row->metavar, ",...") ? COMPLETES_LIST : COMPLETES_WORDS;
    if (opt == COTO_OPT_IMAGE)
        return COMPLETES_IMAGES;
    if (strcmp(row->metavar, "DIR") == 0)
        return COMPLETES_DIRS;
    if (strcmp(row->metavar, "FILE") == 0 || strncmp(row->metavar, "SRC:", 4) == 0)
        return COMPLETES_FILES;
    return COMPLETES_NOTHING;
}

/* The same for a flag of test: names of runners, or files. */
static enum completes find_test_words(size_t flag, struct coto_buf *words)
{
    if (strcmp(test_flags[flag].name, "runner") != 0)
        return COMPLETES_FILES;
    for (size_t i = 0; i < coto_runner_count; i++)
        coto_buf_addf(words, "%s%s", i ? " " : "", coto_runners[i].name);
    return COMPLETES_WORDS;
}

static void print_profiles(void)
{
    coto_auto_buf words = {0};

    find_words(COTO_OPT_PROFILE, &words);
    fputs(coto_buf_str(&words), stdout);
}

static void print_verbs(void)
{
    for (size_t i = 0; i < VERB_COUNT; i++)
        printf("%s%s", i ? " " : "", verbs[i].name);
    for (size_t i = 0; i < PROGRAM_COUNT; i++)
        printf(" %s", programs[i].name);
}

/* serve, image, pki and token tell of their flags themselves: "  --key FILE   what for". The
 * same sed is in both files. */
#define FLAGS_OF_HELP "sed -n 's/^[ *] \\(--[a-z-]*\\)\\( [^ ][^ ]*\\)\\{0,1\\}.*/\\1\\2/p'"
#define VERBS_OF_HELP "sed -n 's/^  \\([a-z][a-z]*\\)  .*/\\1/p'"
/* "usage: coto pki issue server|client NAME": what comes first, when it is one of several words. */
#define FIRST_OF_HELP "sed -n 's/^usage: coto [a-z]* [a-z]* \\([a-z0-9]*|[a-z0-9|]*\\) .*/\\1/p'"
#define IMAGES "coto image list 2>/dev/null | sed '1d;s/ .*//'"

static void print_bash_value(const char *name, enum completes kind, const struct coto_buf *words)
{
    static const char *const how[] = {
        [COMPLETES_NOTHING] = "",
        [COMPLETES_WORDS] = "_coto_words",
        [COMPLETES_LIST] = "_coto_list",
        [COMPLETES_FILES] = "_coto_paths -f",
        [COMPLETES_DIRS] = "_coto_paths -d",
        [COMPLETES_IMAGES] = "_coto_words \"$(" IMAGES ")\"",
    };

    printf("    --%s) %s", name, how[kind]);
    if (kind == COMPLETES_WORDS || kind == COMPLETES_LIST)
        printf(" '%s'", coto_buf_str(words));
    puts(kind == COMPLETES_NOTHING ? ";;" : " ;;");
}

static void print_bash_values(void)
{
    for (int i = 0; i < COTO_OPT_COUNT; i++) {
        coto_auto_buf words = {0};
        enum completes kind = find_words(i, &words);
        if (!is_bool(i))
            print_bash_value(coto_options[i].name, kind, &words);
    }
    for (size_t i = 0; i < TEST_FLAG_COUNT; i++) {
        coto_auto_buf words = {0};
        enum completes kind = find_test_words(i, &words);
        print_bash_value(test_flags[i].name, kind, &words);
    }
}

static void print_bash_flags(void)
{
    fputs("    local flags='--help", stdout);
    for (int i = 0; i < COTO_OPT_COUNT; i++)
        printf("%s--%s", i % 6 == 5 ? "\n        " : " ", coto_options[i].name);
    puts("'");
    fputs("    if [[ $verb == test ]]; then flags+='", stdout);
    for (size_t i = 0; i < TEST_FLAG_COUNT; i++)
        printf(" --%s", test_flags[i].name);
    puts("'; fi");
}

static void print_bash_helpers(void)
{
    puts("# bash completion of coto. Made by tools/gendocs from src/schema; do not edit.\n"
         "# shellcheck shell=bash\n"
         "# These four use cur, the word so far, and head, what stays before it, of _coto.\n"
         "_coto_words() {\n"
         "    mapfile -t COMPREPLY < <(compgen -P \"$head\" -W \"$1\" -- \"$cur\")\n"
         "}\n"
         "_coto_list() {\n"
         "    local last=${cur##*,}\n"
         "    mapfile -t COMPREPLY < <(compgen -P \"$head${cur%\"$last\"}\" -W \"$1\" -- "
         "\"$last\")\n"
         "}\n"
         "_coto_paths() {\n"
         "    compopt -o filenames 2>/dev/null\n"
         "    mapfile -t COMPREPLY < <(compgen -P \"$head\" \"$1\" -- \"$cur\")\n"
         "}\n"
         "_coto_value() {\n"
         "    case $1 in\n"
         "    FILE | PATH) _coto_paths -f ;;\n"
         "    DIR) _coto_paths -d ;;\n"
         "    FORMAT) _coto_words 'spdx cyclonedx' ;;\n"
         "    *'|'*) _coto_words \"${1//|/ }\" ;;\n"
         "    esac\n"
         "}\n"
         "# Flags and operands of coto serve, image, pki and token, as these tell them.\n"
         "_coto_tool() {\n"
         "    local verb=$1 sub=$2 prev=$3 rows kind\n"
         "    local -a call=(coto \"$verb\" --help)\n"
         "    if [[ -n $sub ]]; then call=(coto \"$verb\" \"$sub\" --help); fi\n"
         "    rows=$(\"${call[@]}\" 2>/dev/null | " FLAGS_OF_HELP ")\n"
         "    kind=$(sed -n \"s/^$prev //p\" <<<\"$rows\")");
    fputs("    if [[ $verb$prev =~ ^serve--(allow-)?profile$ ]]; then\n"
          "        _coto_words '",
          stdout);
    print_profiles();
    puts("'\n"
         "    elif [[ $prev == --* && -n $kind ]]; then\n"
         "        _coto_value \"$kind\"\n"
         "    elif [[ $cur == -* ]]; then\n"
         "        _coto_words \"$(cut -d' ' -f1 <<<\"$rows\") --help\"\n"
         "    elif [[ $verb:$sub =~ ^image:(show|verify|sign|sbom|remove)$ ]]; then\n"
         "        _coto_words \"$(" IMAGES ")\"\n"
         "    elif [[ $prev == \"$sub\" ]] && kind=$(\"${call[@]}\" 2>/dev/null | " FIRST_OF_HELP
         ") && [[ -n $kind ]]; then\n"
         "        _coto_value \"$kind\"\n"
         "    elif [[ $verb != serve ]]; then\n"
         "        _coto_paths -f\n"
         "    fi\n"
         "}");
}

static void print_bash_verbs(void)
{
    puts("    case $verb:${words[2]-} in\n"
         "    help:*)\n"
         "        if ((count == 2)); then _coto_words \"$verbs\"; fi\n"
         "        ;;\n"
         "    serve:*) _coto_tool serve '' \"$prev\" ;;\n"
         "    image:* | pki:* | token:*)\n"
         "        if ((count == 2)); then\n"
         "            _coto_words \"$(coto \"$verb\" --help 2>/dev/null | " VERBS_OF_HELP
         ") --help\"\n"
         "        else\n"
         "            _coto_tool \"$verb\" \"${words[2]}\" \"$prev\"\n"
         "        fi\n"
         "        ;;\n"
         "    profiles:*)\n"
         "        if ((count == 2)); then\n"
         "            _coto_words 'list show --json --help'\n"
         "        elif [[ $prev == show ]]; then");
    fputs("            _coto_words '", stdout);
    print_profiles();
    puts("'\n"
         "        else\n"
         "            _coto_words '--json --help'\n"
         "        fi\n"
         "        ;;\n"
         "    doctor:* | version:*) _coto_words '--json --help' ;;\n"
         "    policy:check)\n"
         "        if ((count == 2)); then\n"
         "            _coto_words check\n"
         "        elif [[ $cur == -* ]]; then\n"
         "            _coto_words '--json --help'\n"
         "        else\n"
         "            _coto_paths -f\n"
         "        fi\n"
         "        ;;\n"
         "    *)\n"
         "        if [[ $verb == policy ]] && ((count == 2)); then\n"
         "            _coto_words 'explain check --help'\n"
         "        else\n"
         "            _coto_options \"$verb\" \"$prev\"\n"
         "        fi\n"
         "        ;;\n"
         "    esac");
}

static int print_bash(void)
{
    print_bash_helpers();
    puts("_coto_options() {\n"
         "    local verb=$1 prev=$2");
    print_bash_flags();
    puts("    case $prev in");
    print_bash_values();
    puts("    *)\n"
         "        if [[ $cur == -* ]]; then\n"
         "            _coto_words \"$flags\"\n"
         "        else\n"
         "            _coto_paths -f\n"
         "        fi\n"
         "        ;;\n"
         "    esac\n"
         "}\n"
         "_coto() {\n"
         "    # Words as blanks part them: readline parts them at = and : too.\n"
         "    local line=${COMP_LINE:0:COMP_POINT} words head='' char kept='' count\n"
         "    read -ra words <<<\"$line\"\n"
         "    if [[ $line == *[[:blank:]] ]]; then words+=(''); fi\n"
         "    count=$((${#words[@]} - 1))\n"
         "    local whole=${words[count]} verb=${words[1]-} prev=${words[count - 1]}\n"
         "    local cur=$whole");
    fputs("    local verbs='", stdout);
    print_verbs();
    puts("'\n"
         "    COMPREPLY=()\n"
         "    if [[ $cur == --*=* ]]; then\n"
         "        prev=${cur%%=*} head=${cur%%=*}= cur=${cur#*=}\n"
         "    fi\n"
         "    if ((count == 1)); then\n"
         "        _coto_words \"$verbs --help\"\n"
         "        return\n"
         "    fi");
    print_bash_verbs();
    puts("    for char in = :; do\n"
         "        if [[ $whole == *$char* && $COMP_WORDBREAKS == *$char* ]]; then\n"
         "            char=${whole%\"${whole##*\"$char\"}\"}\n"
         "            if ((${#char} > ${#kept})); then kept=$char; fi\n"
         "        fi\n"
         "    done\n"
         "    COMPREPLY=(\"${COMPREPLY[@]#\"$kept\"}\")\n"
         "}\n"
         "complete -F _coto coto");
    return 0;
}

/* Text inside '...[...]...' of a zsh specification. */
static void print_zsh(const char *text)
{
    for (; *text; text++) {
        if (*text == '\'') {
            fputs("'\\''", stdout);
            continue;
        }
        if (strchr("[]:\\", *text))
            putchar('\\');
        putchar(*text);
    }
}

static void print_zsh_value(enum completes kind, const struct coto_buf *words)
{
    if (kind == COMPLETES_WORDS)
        printf("(%s)", coto_buf_str(words));
    else if (kind == COMPLETES_LIST)
        printf("_values -s , word %s", coto_buf_str(words));
    else if (kind == COMPLETES_DIRS)
        fputs("_files -/", stdout);
    else if (kind == COMPLETES_FILES)
        fputs("_files", stdout);
    else if (kind == COMPLETES_IMAGES)
        fputs("_coto_images", stdout);
    puts("'");
}

static void print_zsh_option(int opt)
{
    const struct coto_opt_row *row = &coto_options[opt];
    coto_auto_buf words = {0};
    enum completes kind = find_words(opt, &words);

    printf("        '%s--%s%s[", is_repeatable(opt) ? "*" : "", row->name, is_bool(opt) ? "" : "=");
    print_zsh(row->help);
    putchar(']');
    if (!is_bool(opt)) {
        putchar(':');
        print_zsh(row->metavar);
        putchar(':');
    }
    print_zsh_value(kind, &words);
}

static void print_zsh_test_flags(void)
{
    for (size_t i = 0; i < TEST_FLAG_COUNT; i++) {
        coto_auto_buf words = {0};
        enum completes kind = find_test_words(i, &words);
        printf("        '--%s=[", test_flags[i].name);
        print_zsh(test_flags[i].help);
        printf("]:%s:", test_flags[i].metavar);
        print_zsh_value(kind, &words);
    }
}

static void print_zsh_helpers(void)
{
    puts("#compdef coto\n"
         "# zsh completion of coto. Made by tools/gendocs from src/schema; do not edit.\n"
         "_coto_images() {\n"
         "    local -a names\n"
         "    names=(${(f)\"$(" IMAGES ")\"})\n"
         "    compadd -a names\n"
         "}\n"
         "# Flags and operands of coto serve, image, pki and token, as these tell them.\n"
         "_coto_tool() {\n"
         "    local -a rows specs\n"
         "    local verb=$1 sub=$2 row flag kind action operand='*:file:_files'\n"
         "    rows=(${(f)\"$(coto $verb $sub --help 2>/dev/null | " FLAGS_OF_HELP ")\"})\n"
         "    for row in $rows; do\n"
         "        flag=${row%% *} kind=${${row#$flag}# } action=' '\n"
         "        case $verb$flag:$kind in");
    fputs("        serve--(allow-|)profile:*) action='(", stdout);
    print_profiles();
    puts(")' ;;\n"
         "        *:FILE|*:PATH) action=_files ;;\n"
         "        *:DIR) action='_files -/' ;;\n"
         "        *:FORMAT) action='(spdx cyclonedx)' ;;\n"
         "        *:*'|'*) action=\"(${kind//|/ })\" ;;\n"
         "        esac\n"
         "        if [[ -n $kind ]]; then\n"
         "            specs+=(\"*$flag=:value:$action\")\n"
         "        else\n"
         "            specs+=($flag)\n"
         "        fi\n"
         "    done\n"
         "    kind=$(coto $verb $sub --help 2>/dev/null | " FIRST_OF_HELP ")\n"
         "    case $verb:$sub in\n"
         "    serve:*) operand= ;;\n"
         "    image:(show|verify|sign|sbom|remove)) operand='*:image:_coto_images' ;;\n"
         "    esac\n"
         "    [[ -n $kind ]] && specs+=(\"1:word:(${kind//|/ })\")\n"
         "    _arguments -S $specs --help $operand\n"
         "}");
}

static void print_zsh_verbs(void)
{
    puts("    verbs=(");
    for (size_t i = 0; i < VERB_COUNT; i++) {
        printf("        '%s:", verbs[i].name);
        print_zsh(verbs[i].help);
        puts("'");
    }
    for (size_t i = 0; i < PROGRAM_COUNT; i++) {
        printf("        '%s:", programs[i].name);
        print_zsh(programs[i].help);
        puts("'");
    }
    puts("    )");
}

/* words and CURRENT begin with the verb, then with what is below it. */
static void print_zsh_cases(void)
{
    puts("    if ((CURRENT == 2)); then\n"
         "        _describe 'verb' verbs\n"
         "        compadd -- --help\n"
         "        return\n"
         "    fi\n"
         "    local verb=$words[2] sub=$words[3]\n"
         "    shift words\n"
         "    ((CURRENT--))\n"
         "    case $verb in\n"
         "    image|pki|token|policy|profiles)\n"
         "        if ((CURRENT > 2)); then\n"
         "            shift words\n"
         "            ((CURRENT--))\n"
         "        else\n"
         "            case $verb in\n"
         "            policy) compadd -- explain check --help ;;\n"
         "            profiles) compadd -- list show --json --help ;;\n"
         "            *) compadd -- $(coto $verb --help 2>/dev/null | " VERBS_OF_HELP
         ") --help ;;\n"
         "            esac\n"
         "            return\n"
         "        fi\n"
         "        ;;\n"
         "    esac\n"
         "    case $verb:$sub in");
    for (size_t i = 0; i < VERB_COUNT; i++)
        if (verbs[i].has_options && strcmp(verbs[i].name, "policy") != 0)
            printf("    %s:*) _arguments -S $options '*:file:_files' ;;\n", verbs[i].name);
    fputs("    policy:check) _arguments --json --help '1:file:_files' ;;\n"
          "    policy:*) _arguments -S $options '*:file:_files' ;;\n"
          "    profiles:show) _arguments --json --help '1:profile:(",
          stdout);
    print_profiles();
    puts(")' ;;\n"
         "    serve:*) _coto_tool serve '' ;;\n"
         "    (image|pki|token):*) _coto_tool $verb $sub ;;\n"
         "    help:*) ((CURRENT == 2)) && _describe 'verb' verbs ;;\n"
         "    *) _arguments '--json[print JSON]' '--help[help]' ;;\n"
         "    esac");
}

static int print_zsh_file(void)
{
    print_zsh_helpers();
    puts("_coto() {\n"
         "    local -a verbs options");
    print_zsh_verbs();
    puts("    options=(\n        '(-h --help)'{-h,--help}'[help]'");
    for (int i = 0; i < COTO_OPT_COUNT; i++)
        print_zsh_option(i);
    puts("    )\n"
         "    if [[ $words[2] == test ]]; then options+=(");
    print_zsh_test_flags();
    puts("    ); fi");
    print_zsh_cases();
    puts("}\n"
         "_coto \"$@\"");
    return 0;
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        int (*print)(void);
    } documents[] = {
        {"options", print_options},   {"man", print_man},     {"bash", print_bash},
        {"zsh", print_zsh_file},      {"walls", print_walls}, {"exit-codes", print_exit_codes},
        {"verdicts", print_verdicts},
    };

    for (size_t i = 0; argc == 2 && i < sizeof documents / sizeof documents[0]; i++)
        if (strcmp(documents[i].name, argv[1]) == 0)
            return documents[i].print() || fflush(stdout) ? 1 : 0;
    fputs("usage: gendocs options|man|bash|zsh|walls|exit-codes|verdicts\n", stderr);
    return 64;
}
