#include "schema/languages.h"

#include <stdbool.h>
#include <string.h>

/* Where a tool looks at the extension, code in a file with another one is given
 * the row's own file name. ".sh" stands in two rows: the #! line decides, and
 * without one the first row (POSIX sh) takes it. */
const struct coto_language coto_languages[] = {
    {
        .name = "python",
        .extensions = " .py .pyw ",
        .shebangs = " python python3 pypy3 ",
        .file = "main.py",
        .tool = "python3",
        .package = "python3",
        .version = "python3 --version",
        .run = {"python3", "{src}"},
        .hello = "print('hello from python')\n",
    },
    {
        .name = "node",
        .extensions = " .js .mjs .cjs ",
        .shebangs = " node nodejs ",
        .file = "main.js",
        .tool = "node",
        .package = "nodejs",
        .version = "node --version",
        .run = {"node", "{src}"},
        .hello = "console.log('hello from node');\n",
    },
    {
        .name = "sh",
        .extensions = " .sh ",
        .shebangs = " sh dash ash ",
        .file = "main.sh",
        .tool = "sh",
        .package = "dash",
        .run = {"sh", "{src}"},
        .hello = "echo 'hello from sh'\n",
    },
    {
        .name = "bash",
        .extensions = " .bash .sh ",
        .shebangs = " bash ",
        .file = "main.bash",
        .tool = "bash",
        .package = "bash",
        .version = "bash --version",
        .run = {"bash", "{src}"},
        .hello = "words=(hello from bash); echo \"${words[@]}\"\n",
    },
    {
        .name = "perl",
        .extensions = " .pl .pm ",
        .shebangs = " perl ",
        .file = "main.pl",
        .tool = "perl",
        .package = "perl",
        .version = "perl -e 'print \"perl $^V\"'",
        .run = {"perl", "{src}"},
        .hello = "print \"hello from perl\\n\";\n",
    },
    {
        .name = "ruby",
        .extensions = " .rb ",
        .shebangs = " ruby ",
        .file = "main.rb",
        .tool = "ruby",
        .package = "ruby",
        .version = "ruby --version",
        .run = {"ruby", "{src}"},
        .hello = "puts 'hello from ruby'\n",
    },
    {
        .name = "php",
        .extensions = " .php ",
        .shebangs = " php ",
        .file = "main.php",
        .tool = "php",
        .package = "php-cli",
        .version = "php --version",
        .run = {"php", "{src}"},
        .hello = "<?php echo \"hello from php\\n\";\n",
    },
    {
        .name = "lua",
        .extensions = " .lua ",
        .shebangs = " lua lua5.4 lua5.3 lua5.1 ",
        .file = "main.lua",
        .tool = "lua",
        .package = "lua5.4",
        .version = "lua -v",
        .run = {"lua", "{src}"},
        .hello = "print('hello from lua')\n",
    },
    {
        .name = "c",
        .extensions = " .c ",
        .shebangs = " ",
        .file = "main.c",
        .tool = "gcc",
        .package = "gcc libc6-dev",
        .version = "gcc --version",
        .by_extension = true,
        .build = {"gcc", "-O2", "-o", "{out}", "{src}", "-lm"},
        .run = {"{out}"},
        .hello = "#include <stdio.h>\nint main(void) { puts(\"hello from c\"); return 0; }\n",
    },
    {
        .name = "c++",
        .extensions = " .cpp .cc .cxx .c++ .C ",
        .shebangs = " ",
        .file = "main.cpp",
        .tool = "g++",
        .package = "g++",
        .version = "g++ --version",
        .by_extension = true,
        .build = {"g++", "-O2", "-o", "{out}", "{src}", "-lm"},
        .run = {"{out}"},
        .hello = "#include <iostream>\nint main() { std::cout << \"hello from c++\\n\"; }\n",
    },
    {
        .name = "go",
        .extensions = " .go ",
        .shebangs = " ",
        .file = "main.go",
        .tool = "go",
        .package = "golang-go",
        .version = "go version",
        .by_extension = true,
        .build = {"go", "build", "-o", "{out}", "{src}"},
        .run = {"{out}"},
        /* CGO_ENABLED is left to the tool: where the standard library comes
         * precompiled it is so with cgo, and turning that off rebuilds net and
         * os/user each time (3.8 s instead of 0.5 s). */
        .env = {"GOCACHE={scratch}/.cache/go-build", "GOPATH={scratch}/.go", "GO111MODULE=auto",
                "GOTOOLCHAIN=local", "GOPROXY=off", "GOTELEMETRY=off"},
        .hello = "package main\n\nimport \"fmt\"\n\n"
                 "func main() { fmt.Println(\"hello from go\") }\n",
    },
    {
        .name = "rust",
        .extensions = " .rs ",
        .shebangs = " ",
        .file = "main.rs",
        .tool = "rustc",
        .package = "rustc",
        .version = "rustc --version",
        .by_extension = true,
        /* The crate's name would come from the file's, which may hold a space. */
        .build = {"rustc", "-O", "--crate-name", "main", "-o", "{out}", "{src}"},
        .run = {"{out}"},
        .hello = "fn main() { println!(\"hello from rust\"); }\n",
    },
    {
        .name = "java",
        .extensions = " .java ",
        .shebangs = " ",
        .file = "Main.java",
        .tool = "java",
        .package = "default-jdk-headless",
        .version = "java -XX:-UsePerfData -version",
        .by_extension = true,
        /* The JVM sizes its heap by the host's memory, which it sees, not by
         * the sandbox's limit, which it does not. */
        .run = {"java", "-XX:+UseSerialGC", "-XX:-UsePerfData", "-Xshare:auto",
                "-XX:MaxRAM={memory}", "-XX:MaxRAMPercentage=50", "{src}"},
        .hello = "class Main {\n    public static void main(String[] args) {\n"
                 "        System.out.println(\"hello from java\");\n    }\n}\n",
    },
};

const size_t coto_language_count = sizeof coto_languages / sizeof coto_languages[0];

static const struct {
    const char *alias;
    const char *name;
} aliases[] = {
    {"py", "python"},  {"python3", "python"}, {"js", "node"},   {"javascript", "node"},
    {"nodejs", "node"}, {"cpp", "c++"},       {"cxx", "c++"},   {"golang", "go"},
    {"rs", "rust"},    {"rb", "ruby"},        {"pl", "perl"},
};

/* Whether the word of len bytes stands in a list such as " .py .pyw ". */
static bool list_has(const char *list, const char *word, size_t len)
{
    if (len == 0 || memchr(word, ' ', len))
        return false;
    for (const char *p = list; *p;) {
        p += strspn(p, " ");
        size_t n = strcspn(p, " ");
        if (n == len && memcmp(p, word, n) == 0)
            return true;
        p += n;
    }
    return false;
}

const struct coto_language *coto_language_find(const char *name)
{
    if (!name)
        return NULL;
    for (size_t i = 0; i < sizeof aliases / sizeof aliases[0]; i++)
        if (strcmp(aliases[i].alias, name) == 0)
            name = aliases[i].name;
    for (size_t i = 0; i < coto_language_count; i++)
        if (strcmp(coto_languages[i].name, name) == 0)
            return &coto_languages[i];
    return NULL;
}

bool coto_language_has_extension(const struct coto_language *language, const char *file_name)
{
    const char *slash = strrchr(file_name, '/');
    const char *dot = strrchr(slash ? slash + 1 : file_name, '.');

    return dot && list_has(language->extensions, dot, strlen(dot));
}

static size_t next_word(const char **p, const char *end)
{
    while (*p < end && (**p == ' ' || **p == '\t'))
        (*p)++;
    const char *stop = *p;
    while (stop < end && *stop != ' ' && *stop != '\t')
        stop++;
    return (size_t)(stop - *p);
}

/* Cuts a word down to its last path component. */
static void base_name(const char **word, size_t *len)
{
    const char *slash = memrchr(*word, '/', *len);

    if (slash) {
        *len -= (size_t)(slash + 1 - *word);
        *word = slash + 1;
    }
}

/* The interpreter a #! line names, looking through "env", its flags and its
 * assignments. */
static const struct coto_language *by_shebang(const char *head, size_t len)
{
    if (len < 3 || head[0] != '#' || head[1] != '!')
        return NULL;
    const char *end = memchr(head, '\n', len);
    if (!end)
        end = head + len;
    if (end > head && end[-1] == '\r')
        end--;
    const char *word = head + 2;
    size_t n = next_word(&word, end);
    const char *base = word;
    size_t base_len = n;
    base_name(&base, &base_len);
    bool is_env = base_len == 3 && memcmp(base, "env", 3) == 0;
    while (is_env) {
        word += n;
        n = next_word(&word, end);
        if (n == 0)
            return NULL;
        is_env = word[0] == '-' || memchr(word, '=', n);
        base = word;
        base_len = n;
        base_name(&base, &base_len);
    }
    for (size_t i = 0; i < coto_language_count; i++)
        if (list_has(coto_languages[i].shebangs, base, base_len))
            return &coto_languages[i];
    return NULL;
}

const struct coto_language *coto_language_detect(const char *file_name, const void *head,
                                                 size_t head_len, int *ret_is_elf)
{
    const struct coto_language *named = by_shebang(head, head_len);

    *ret_is_elf = head_len >= 4 && memcmp(head, "\177ELF", 4) == 0;
    if (*ret_is_elf)
        return NULL;
    if (!file_name)
        return named;
    if (named && coto_language_has_extension(named, file_name))
        return named;
    for (size_t i = 0; i < coto_language_count; i++)
        if (coto_language_has_extension(&coto_languages[i], file_name))
            return &coto_languages[i];
    return named;
}
