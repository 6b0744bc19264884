/* Completions of gendocs: for bash and for zsh, from the same tables. */
#include "gendocs.h"

#include "policy/value.h"
#include "schema/languages.h"
#include "schema/runners.h"

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
        if (is_of_test(i))
            printf("%s--%s", i % 6 == 5 ? "\n        " : " ", coto_options[i].name);
    puts("'");
    fputs("    if [[ $verb == test ]]; then flags+='", stdout);
    for (size_t i = 0; i < TEST_FLAG_COUNT; i++)
        printf(" --%s", test_flags[i].name);
    fputs("'; else flags+='", stdout);
    for (int i = 0; i < COTO_OPT_COUNT; i++)
        if (!is_of_test(i))
            printf(" --%s", coto_options[i].name);
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

int gendocs_bash(void)
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

static void print_zsh_options(bool of_test)
{
    for (int i = 0; i < COTO_OPT_COUNT; i++)
        if (is_of_test(i) == of_test)
            print_zsh_option(i);
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

int gendocs_zsh(void)
{
    print_zsh_helpers();
    puts("_coto() {\n"
         "    local -a verbs options");
    print_zsh_verbs();
    puts("    options=(\n        '(-h --help)'{-h,--help}'[help]'");
    print_zsh_options(true);
    puts("    )\n"
         "    if [[ $words[2] == test ]]; then options+=(");
    print_zsh_test_flags();
    puts("    ); else options+=(");
    print_zsh_options(false);
    puts("    ); fi");
    print_zsh_cases();
    puts("}\n"
         "_coto \"$@\"");
    return 0;
}
