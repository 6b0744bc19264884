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
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <yaml.h>

#define INPUT_MAX ((size_t)1 << 20)
#define OUTPUT_MAX ((size_t)4 << 20)
#define KEY_MAX ((size_t)64)
#define KEYS_MAX 256
#define ITEMS_MAX 4096

struct pair {
    char *key;
    char *value;
    char *note; /* the comment on its line */
};

struct reader {
    const char *name; /* put before messages; NULL for stdin */
    char *text;
    size_t len;
    yaml_parser_t parser;
    yaml_event_t event; /* the current one */
    struct pair *pairs;
    size_t count;
    size_t bytes;
};

static _Noreturn void fail(const struct reader *reader, size_t line, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

static _Noreturn void fail(const struct reader *reader, size_t line, const char *fmt, ...)
{
    va_list ap;

    if (reader->name)
        fprintf(stderr, "%s: ", reader->name);
    fprintf(stderr, "line %zu: ", line);
    va_start(ap, fmt);
    vfprintf(stderr, fmt, ap);
    va_end(ap);
    fputc('\n', stderr);
    exit(1);
}

static void *must(void *pointer)
{
    if (!pointer) {
        fputs("line 0: out of memory\n", stderr);
        exit(1);
    }
    return pointer;
}

/* ---- input ---- */

static size_t line_at(const struct reader *reader, size_t offset)
{
    size_t line = 1;

    for (size_t i = 0; i < offset && i < reader->len; i++)
        line += reader->text[i] == '\n';
    return line;
}

static void read_text(struct reader *reader, FILE *file)
{
    reader->text = must(malloc(INPUT_MAX + 2));
    reader->len = fread(reader->text, 1, INPUT_MAX + 1, file);
    if (ferror(file))
        fail(reader, 1, "the file cannot be read");
    if (reader->len > INPUT_MAX)
        fail(reader, line_at(reader, INPUT_MAX), "the file is larger than 1 MiB");
    reader->text[reader->len] = '\0';
    const char *nul = memchr(reader->text, '\0', reader->len);
    if (nul)
        fail(reader, line_at(reader, (size_t)(nul - reader->text)), "a NUL byte");
}

static size_t event_line(const struct reader *reader)
{
    return reader->event.start_mark.line + 1;
}

static _Noreturn void fail_syntax(const struct reader *reader)
{
    const yaml_parser_t *parser = &reader->parser;
    size_t line = parser->problem_mark.line + 1;

    if (parser->error == YAML_READER_ERROR)
        line = line_at(reader, parser->problem_offset);
    fail(reader, line, "%s%s%s", parser->problem ? parser->problem : "not YAML",
         parser->context ? " " : "", parser->context ? parser->context : "");
}

/* Whatever gives a node a second name or another type is refused. */
static void check_plain(const struct reader *reader, const yaml_char_t *anchor,
                        const yaml_char_t *tag)
{
    if (anchor)
        fail(reader, event_line(reader), "anchors are not allowed");
    if (tag)
        fail(reader, event_line(reader), "tags are not allowed");
}

static void check_event(const struct reader *reader)
{
    const yaml_event_t *event = &reader->event;

    switch (event->type) {
    case YAML_ALIAS_EVENT:
        fail(reader, event_line(reader), "aliases are not allowed");
    case YAML_SCALAR_EVENT:
        check_plain(reader, event->data.scalar.anchor, event->data.scalar.tag);
        if (memchr(event->data.scalar.value, '\0', event->data.scalar.length))
            fail(reader, event_line(reader), "a NUL character in a value");
        break;
    case YAML_SEQUENCE_START_EVENT:
        check_plain(reader, event->data.sequence_start.anchor, event->data.sequence_start.tag);
        break;
    case YAML_MAPPING_START_EVENT:
        check_plain(reader, event->data.mapping_start.anchor, event->data.mapping_start.tag);
        break;
    case YAML_DOCUMENT_START_EVENT:
        if (event->data.document_start.version_directive ||
            event->data.document_start.tag_directives.start !=
                event->data.document_start.tag_directives.end)
            fail(reader, event_line(reader), "directives are not allowed");
        break;
    default:
        break;
    }
}

static void next(struct reader *reader)
{
    yaml_event_delete(&reader->event);
    if (!yaml_parser_parse(&reader->parser, &reader->event))
        fail_syntax(reader);
    check_event(reader);
}

static const char *scalar(const struct reader *reader)
{
    return (const char *)reader->event.data.scalar.value;
}

/* ---- pairs ---- */

/* The comment that follows on the current event's last line; "" when none. Marks
 * count characters, so this is exact for ASCII files, which our profiles are, and
 * never beyond the text for others. */
static char *find_note(const struct reader *reader)
{
    const char *p = reader->text + reader->event.end_mark.index;
    size_t n = strcspn(p, "\n");
    const char *hash = memmem(p, n, " #", 2);

    if (!hash)
        return must(strdup(""));
    hash += 2;
    n -= (size_t)(hash - p);
    while (n > 0 && *hash == ' ') {
        hash++;
        n--;
    }
    while (n > 0 && (hash[n - 1] == ' ' || hash[n - 1] == '\r'))
        n--;
    return must(strndup(hash, n));
}

static void add_pair(struct reader *reader, const char *key, char *value, const char *key_note)
{
    char *note = find_note(reader);

    if (!*note && key_note) {
        free(note);
        note = must(strdup(key_note));
    }
    reader->bytes += strlen(key) + strlen(value) + 2;
    if (reader->bytes > OUTPUT_MAX)
        fail(reader, event_line(reader), "the policy is too large");
    /* Grown one by one: a policy has tens of pairs, and at most a few thousand. */
    reader->pairs = must(realloc(reader->pairs, (reader->count + 1) * sizeof *reader->pairs));
    reader->pairs[reader->count++] = (struct pair){must(strdup(key)), value, note};
}

/* Keys of options: '_' and '-' are the same letter there. */
static bool same_key(const char *a, const char *b)
{
    for (; *a && *b; a++, b++)
        if ((*a == '_' ? '-' : *a) != (*b == '_' ? '-' : *b))
            return false;
    return *a == *b;
}

static char *take_key(const struct reader *reader)
{
    size_t len = reader->event.data.scalar.length;

    if (reader->event.type != YAML_SCALAR_EVENT)
        fail(reader, event_line(reader), "a key must be a word");
    if (len == 0)
        fail(reader, event_line(reader), "an empty key");
    if (len > KEY_MAX)
        fail(reader, event_line(reader), "a key of more than %zu letters", KEY_MAX);
    return must(strdup(scalar(reader)));
}

/* An empty plain scalar is YAML's null: somebody forgot the value. */
static void check_scalar_value(const struct reader *reader, const char *key)
{
    const yaml_event_t *event = &reader->event;

    if (event->type != YAML_SCALAR_EVENT)
        fail(reader, event_line(reader), "'%s': lists and maps cannot be nested", key);
    if (event->data.scalar.length == 0 && event->data.scalar.style == YAML_PLAIN_SCALAR_STYLE)
        fail(reader, event_line(reader), "'%s' has no value; write '' for an empty one", key);
}

static void read_list(struct reader *reader, const char *key, const char *note)
{
    size_t before = reader->count;

    for (next(reader); reader->event.type != YAML_SEQUENCE_END_EVENT; next(reader)) {
        check_scalar_value(reader, key);
        if (reader->count - before >= ITEMS_MAX)
            fail(reader, event_line(reader), "'%s' has more than %d items", key, ITEMS_MAX);
        add_pair(reader, key, must(strdup(scalar(reader))), note);
    }
    if (reader->count == before)
        add_pair(reader, key, must(strdup("")), note);
}

/* Whether one of the map's pairs, all "KEY=VALUE", has this key. */
static bool has_map_key(const struct reader *reader, size_t from, const char *name)
{
    size_t len = strlen(name);

    for (size_t i = from; i < reader->count; i++)
        if (strncmp(reader->pairs[i].value, name, len) == 0 && reader->pairs[i].value[len] == '=')
            return true;
    return false;
}

static void read_map(struct reader *reader, const char *key, const char *note)
{
    size_t before = reader->count;

    if (strcmp(key, "env") != 0)
        fail(reader, event_line(reader), "'%s' cannot be a map", key);
    for (next(reader); reader->event.type != YAML_MAPPING_END_EVENT; next(reader)) {
        char *name = take_key(reader);
        char *text = NULL;
        if (strchr(name, '='))
            fail(reader, event_line(reader), "'%s': '=' in the key '%s'", key, name);
        if (has_map_key(reader, before, name))
            fail(reader, event_line(reader), "duplicate key '%s' in '%s'", name, key);
        if (reader->count - before >= ITEMS_MAX)
            fail(reader, event_line(reader), "'%s' has more than %d items", key, ITEMS_MAX);
        next(reader);
        check_scalar_value(reader, name);
        if (asprintf(&text, "%s=%s", name, scalar(reader)) < 0)
            must(NULL);
        add_pair(reader, key, text, note);
        free(name);
    }
    if (reader->count == before)
        add_pair(reader, key, must(strdup("")), note);
}

static void read_value(struct reader *reader, const char *key, const char *note)
{
    switch (reader->event.type) {
    case YAML_SEQUENCE_START_EVENT:
        read_list(reader, key, note);
        break;
    case YAML_MAPPING_START_EVENT:
        read_map(reader, key, note);
        break;
    default:
        check_scalar_value(reader, key);
        add_pair(reader, key, must(strdup(scalar(reader))), NULL);
    }
}

static void read_keys(struct reader *reader)
{
    char *seen[KEYS_MAX];
    size_t count = 0;

    for (next(reader); reader->event.type != YAML_MAPPING_END_EVENT; next(reader)) {
        char *key = take_key(reader);
        for (size_t i = 0; i < count; i++)
            if (same_key(seen[i], key))
                fail(reader, event_line(reader), "duplicate key '%s'", key);
        if (count >= KEYS_MAX)
            fail(reader, event_line(reader), "more than %d keys", KEYS_MAX);
        seen[count++] = key;
        char *note = find_note(reader);
        next(reader);
        read_value(reader, key, note);
        free(note);
    }
    for (size_t i = 0; i < count; i++)
        free(seen[i]);
}

/* The whole stream: nothing, or one document that is empty or a map. Nothing
 * here recurses: a list or map inside a value is refused at its first event, so
 * the depth of a text never matters. */
static void read_stream(struct reader *reader)
{
    if (!yaml_parser_initialize(&reader->parser))
        must(NULL);
    yaml_parser_set_encoding(&reader->parser, YAML_UTF8_ENCODING);
    yaml_parser_set_input_string(&reader->parser, (const unsigned char *)reader->text, reader->len);
    next(reader); /* stream start */
    next(reader);
    if (reader->event.type == YAML_DOCUMENT_START_EVENT) {
        next(reader);
        bool is_empty = reader->event.type == YAML_SCALAR_EVENT &&
                        reader->event.data.scalar.length == 0;
        if (reader->event.type == YAML_MAPPING_START_EVENT)
            read_keys(reader);
        else if (!is_empty)
            fail(reader, event_line(reader), "a policy is a map of 'key: value' lines");
        next(reader); /* document end */
        next(reader);
    }
    if (reader->event.type != YAML_STREAM_END_EVENT)
        fail(reader, event_line(reader), "a second document");
    yaml_event_delete(&reader->event);
    yaml_parser_delete(&reader->parser);
}

static void free_reader(struct reader *reader)
{
    for (size_t i = 0; i < reader->count; i++) {
        free(reader->pairs[i].key);
        free(reader->pairs[i].value);
        free(reader->pairs[i].note);
    }
    free(reader->pairs);
    free(reader->text);
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

static void print_settings(const struct reader *reader, size_t index)
{
    printf("static const char *const settings_%zu[] = {\n", index);
    for (size_t i = 0; i < reader->count; i++) {
        fputs("    ", stdout);
        print_c_string(reader->pairs[i].key, strlen(reader->pairs[i].key));
        fputs(", ", stdout);
        print_c_string(reader->pairs[i].value, strlen(reader->pairs[i].value));
        fputs(",\n", stdout);
    }
    printf("    0,\n};\nstatic const char *const notes_%zu[] = {\n", index);
    for (size_t i = 0; i < reader->count; i++) {
        fputs("    ", stdout);
        print_c_string(reader->pairs[i].note, strlen(reader->pairs[i].note));
        fputs(",\n", stdout);
    }
    puts("    0,\n};\n");
}

static void print_row(const struct reader *reader, size_t index)
{
    const char *base = strrchr(reader->name, '/');
    base = base ? base + 1 : reader->name;
    const char *dot = strrchr(base, '.');
    const char *summary = reader->text + (reader->text[0] == '#');
    summary += strspn(summary, "# ");

    fputs("    {", stdout);
    print_c_string(base, dot ? (size_t)(dot - base) : strlen(base));
    fputs(", ", stdout);
    print_c_string(summary, reader->text[0] == '#' ? strcspn(summary, "\r\n") : 0);
    printf(", settings_%zu, notes_%zu},\n", index, index);
}

/* The default profile comes first, the others as they were given. */
static int by_default_first(const void *a, const void *b)
{
    const struct reader *x = a, *y = b;
    bool first = strstr(x->name, "default.yaml") != NULL;
    bool second = strstr(y->name, "default.yaml") != NULL;

    return first == second ? strcmp(x->name, y->name) : (int)second - (int)first;
}

static int print_profiles(char **names, size_t count)
{
    struct reader *readers = must(calloc(count ? count : 1, sizeof *readers));

    for (size_t i = 0; i < count; i++) {
        FILE *file = fopen(names[i], "re");
        readers[i].name = names[i];
        if (!file)
            fail(&readers[i], 0, "the file cannot be opened");
        read_text(&readers[i], file);
        fclose(file);
        read_stream(&readers[i]);
    }
    qsort(readers, count, sizeof *readers, by_default_first);
    puts("/* Made from profiles by coto-policy --c; do not edit. */\n"
         "#include \"policy/policy.h\"\n");
    for (size_t i = 0; i < count; i++)
        print_settings(&readers[i], i);
    puts("const struct coto_profile coto_profiles[] = {");
    for (size_t i = 0; i < count; i++)
        print_row(&readers[i], i);
    printf("};\nconst unsigned coto_profile_count = %zu;\n", count);
    for (size_t i = 0; i < count; i++)
        free_reader(&readers[i]);
    free(readers);
    return 0;
}

static int print_records(void)
{
    struct reader reader = {0};

    read_text(&reader, stdin);
    read_stream(&reader);
    for (size_t i = 0; i < reader.count; i++) {
        fwrite(reader.pairs[i].key, 1, strlen(reader.pairs[i].key) + 1, stdout);
        fwrite(reader.pairs[i].value, 1, strlen(reader.pairs[i].value) + 1, stdout);
    }
    free_reader(&reader);
    return 0;
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
