/* coto-policy: policy text (YAML, and JSON as its subset) → flat records.
 *
 *   coto-policy < FILE            "key\0value\0" per value on stdout
 *   coto-policy --c FILE...       C source of the built-in profiles
 *
 * A program of its own so that coto links no YAML library. It knows nothing of
 * options: it turns text into pairs and refuses whatever could mean two things
 * to two readers (anchors, aliases, tags, directives, duplicate keys, further
 * documents, nesting). Every scalar stays text: `0755`, `no`, `1e3` are handed on
 * as written, and the policy room decides. A list gives one pair per item, the
 * `env` map one pair "env", "KEY=VALUE" per variable; an empty list or map gives
 * one pair with an empty value. A refusal is one line "line N: what" on stderr
 * and status 1.
 */
#include "policy/yaml_text.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* One file and what was read from it. */
struct input {
    const char *name; /* put before messages; NULL for stdin */
    char *text;
    struct coto_yaml yaml;
};

static _Noreturn void fail(const char *name, const char *message)
{
    fprintf(stderr, "%s%s%s\n", name ? name : "", name ? ": " : "", message);
    exit(1);
}

static void read_input(struct input *input, FILE *file)
{
    input->text = malloc(COTO_YAML_MAX + 2);
    if (!input->text)
        fail(input->name, "line 0: out of memory");
    input->yaml.len = fread(input->text, 1, COTO_YAML_MAX + 1, file);
    if (ferror(file))
        fail(input->name, "line 1: the file cannot be read");
    input->text[input->yaml.len] = '\0';
    input->yaml.text = input->text;
    if (coto_yaml_read(&input->yaml))
        fail(input->name, input->yaml.message);
}

static void free_input(struct input *input)
{
    coto_yaml_fini(&input->yaml);
    free(input->text);
}

/* ---- C source ---- */

static void print_c_string(const char *text, size_t len)
{
    putchar('"');
    for (size_t i = 0; i < len; i++) {
        unsigned char c = (unsigned char)text[i];
        if (c == '"' || c == '\\')
            printf("\\%c", c);
        else if (c < 0x20 || c >= 0x7f)
            printf("\\%03o", c);
        else
            putchar(c);
    }
    putchar('"');
}

static void print_settings(const struct input *input, size_t index)
{
    printf("static const char *const settings_%zu[] = {\n", index);
    for (size_t i = 0; i < input->yaml.count; i++) {
        fputs("    ", stdout);
        print_c_string(input->yaml.pairs[i].key, strlen(input->yaml.pairs[i].key));
        fputs(", ", stdout);
        print_c_string(input->yaml.pairs[i].value, strlen(input->yaml.pairs[i].value));
        fputs(",\n", stdout);
    }
    printf("    0,\n};\nstatic const char *const notes_%zu[] = {\n", index);
    for (size_t i = 0; i < input->yaml.count; i++) {
        fputs("    ", stdout);
        print_c_string(input->yaml.pairs[i].note, strlen(input->yaml.pairs[i].note));
        fputs(",\n", stdout);
    }
    puts("    0,\n};\n");
}

static void print_row(const struct input *input, size_t index)
{
    const char *base = strrchr(input->name, '/');
    base = base ? base + 1 : input->name;
    const char *dot = strrchr(base, '.');
    const char *summary = input->text + (input->text[0] == '#');
    summary += strspn(summary, "# ");

    fputs("    {", stdout);
    print_c_string(base, dot ? (size_t)(dot - base) : strlen(base));
    fputs(", ", stdout);
    print_c_string(summary, input->text[0] == '#' ? strcspn(summary, "\r\n") : 0);
    printf(", settings_%zu, notes_%zu},\n", index, index);
}

/* The default profile comes first, the others as they were given. */
static int by_default_first(const void *a, const void *b)
{
    const struct input *x = a, *y = b;
    bool first = strstr(x->name, "default.yaml") != NULL;
    bool second = strstr(y->name, "default.yaml") != NULL;

    return first == second ? strcmp(x->name, y->name) : (int)second - (int)first;
}

static void print_profiles(char **names, size_t count)
{
    struct input *inputs = calloc(count, sizeof *inputs);

    if (!inputs)
        fail(NULL, "line 0: out of memory");
    for (size_t i = 0; i < count; i++) {
        FILE *file = fopen(names[i], "re");
        inputs[i].name = names[i];
        if (!file)
            fail(names[i], "line 0: the file cannot be opened");
        read_input(&inputs[i], file);
        fclose(file);
    }
    qsort(inputs, count, sizeof *inputs, by_default_first);
    puts("/* Made from profiles by coto-policy --c; do not edit. */\n"
         "#include \"policy/policy.h\"\n");
    for (size_t i = 0; i < count; i++)
        print_settings(&inputs[i], i);
    puts("const struct coto_profile coto_profiles[] = {");
    for (size_t i = 0; i < count; i++)
        print_row(&inputs[i], i);
    printf("};\nconst unsigned coto_profile_count = %zu;\n", count);
    for (size_t i = 0; i < count; i++)
        free_input(&inputs[i]);
    free(inputs);
}

static void print_records(void)
{
    struct input input = {0};

    read_input(&input, stdin);
    for (size_t i = 0; i < input.yaml.count; i++) {
        const struct coto_yaml_pair *pair = &input.yaml.pairs[i];
        fwrite(pair->key, 1, strlen(pair->key) + 1, stdout);
        fwrite(pair->value, 1, strlen(pair->value) + 1, stdout);
    }
    free_input(&input);
}

int main(int argc, char **argv)
{
    if (argc > 2 && strcmp(argv[1], "--c") == 0)
        print_profiles(argv + 2, (size_t)argc - 2);
    else if (argc == 1)
        print_records();
    else {
        fputs("usage: coto-policy < FILE | coto-policy --c FILE...\n", stderr);
        return 64;
    }
    if (fflush(stdout) || ferror(stdout)) {
        fputs("line 0: the answer cannot be written\n", stderr);
        return 1;
    }
    return 0;
}
