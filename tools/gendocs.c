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
#include "gendocs.h"

#include "policy/value.h"
#include "schema/verdict.h"
#include "schema/walls.h"

#include <ctype.h>

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

static bool is_enum(int opt)
{
    return coto_options[opt].type == COTO_TYPE_ENUM;
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
    for (int section = 0; section < COTO_SECTION_COUNT; section++) {
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
    for (int section = 0; section < COTO_SECTION_COUNT; section++) {
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
         "limit did, 128+n when signal n did, 130 when it was cancelled with Ctrl\\-C\n"
         "(128+n by another signal n to\n.Nm ) .\n"
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
         ".Sh SEE ALSO\n.Xr coto-image 1 ,\n.Xr coto-pki 1 ,\n.Xr coto-serve 1 ,\n.Xr coto-token 1 ,\n.Xr seccomp 2 ,\n.Xr cgroups 7 ,\n.Xr landlock 7 ,\n.Xr namespaces 7");
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

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        int (*print)(void);
    } documents[] = {
        {"options", print_options},   {"man", print_man},     {"bash", gendocs_bash},
        {"zsh", gendocs_zsh},      {"walls", print_walls}, {"exit-codes", print_exit_codes},
        {"verdicts", print_verdicts},
    };

    for (size_t i = 0; argc == 2 && i < sizeof documents / sizeof documents[0]; i++)
        if (strcmp(documents[i].name, argv[1]) == 0)
            return documents[i].print() || fflush(stdout) ? 1 : 0;
    fputs("usage: gendocs options|man|bash|zsh|walls|exit-codes|verdicts\n", stderr);
    return 64;
}
