#include "policy/yaml_text.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <yaml.h>

#define OUTPUT_MAX ((size_t)4 << 20)
#define KEY_MAX ((size_t)64)
#define KEYS_MAX 256
#define ITEMS_MAX 4096

struct reader {
    struct coto_yaml *yaml; /* what comes out */
    yaml_parser_t parser;
    yaml_event_t event; /* the current one */
    size_t bytes;
    /* A refusal may come from any depth; all that is allocated belongs to the
     * reader, so that one jump out needs no way back through the callers. */
    jmp_buf refused;
};

static _Noreturn void fail(struct reader *reader, size_t line, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

static _Noreturn void fail(struct reader *reader, size_t line, const char *fmt, ...)
{
    struct coto_yaml *yaml = reader->yaml;
    va_list ap;

    int n = snprintf(yaml->message, sizeof yaml->message, "line %zu: ", line);
    va_start(ap, fmt);
    vsnprintf(yaml->message + n, sizeof yaml->message - (size_t)n, fmt, ap);
    va_end(ap);
    longjmp(reader->refused, 1);
}

/* Takes an allocated text into the reader's keeping; NULL is out of memory. */
static char *keep(struct reader *reader, char *text)
{
    struct coto_yaml *yaml = reader->yaml;
    char **list = text ? realloc(yaml->kept, (yaml->kept_count + 1) * sizeof *list) : NULL;

    if (!list) {
        free(text);
        fail(reader, 0, "out of memory");
    }
    yaml->kept = list;
    yaml->kept[yaml->kept_count++] = text;
    return text;
}

/* ---- input ---- */

static size_t line_at(const struct reader *reader, size_t offset)
{
    size_t line = 1;

    for (size_t i = 0; i < offset && i < reader->yaml->len; i++)
        line += reader->yaml->text[i] == '\n';
    return line;
}

static void check_text(struct reader *reader)
{
    const struct coto_yaml *yaml = reader->yaml;
    const char *nul = memchr(yaml->text, '\0', yaml->len);

    if (yaml->len > COTO_YAML_MAX)
        fail(reader, line_at(reader, COTO_YAML_MAX), "the file is larger than 1 MiB");
    if (nul)
        fail(reader, line_at(reader, (size_t)(nul - yaml->text)), "a NUL byte");
}

static size_t event_line(const struct reader *reader)
{
    return reader->event.start_mark.line + 1;
}

static _Noreturn void fail_syntax(struct reader *reader)
{
    const yaml_parser_t *parser = &reader->parser;
    size_t line = parser->problem_mark.line + 1;

    if (parser->error == YAML_READER_ERROR)
        line = line_at(reader, parser->problem_offset);
    fail(reader, line, "%s%s%s", parser->problem ? parser->problem : "not YAML",
         parser->context ? " " : "", parser->context ? parser->context : "");
}

/* Whatever gives a node a second name or another type is refused. */
static void check_plain(struct reader *reader, const yaml_char_t *anchor,
                        const yaml_char_t *tag)
{
    if (anchor)
        fail(reader, event_line(reader), "anchors are not allowed");
    if (tag)
        fail(reader, event_line(reader), "tags are not allowed");
}

static void check_event(struct reader *reader)
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
static char *find_note(struct reader *reader)
{
    const char *p = reader->yaml->text + reader->event.end_mark.index;
    size_t n = strcspn(p, "\n");
    const char *hash = memmem(p, n, " #", 2);

    if (!hash)
        return keep(reader, strdup(""));
    hash += 2;
    n -= (size_t)(hash - p);
    while (n > 0 && *hash == ' ') {
        hash++;
        n--;
    }
    while (n > 0 && (hash[n - 1] == ' ' || hash[n - 1] == '\r'))
        n--;
    return keep(reader, strndup(hash, n));
}

static void add_pair(struct reader *reader, const char *key, char *value, const char *key_note)
{
    char *note = find_note(reader);

    if (!*note && key_note)
        note = keep(reader, strdup(key_note));
    reader->bytes += strlen(key) + strlen(value) + 2;
    if (reader->bytes > OUTPUT_MAX)
        fail(reader, event_line(reader), "the policy is too large");
    /* Grown one by one: a policy has tens of pairs, and at most a few thousand. */
    struct coto_yaml *yaml = reader->yaml;
    struct coto_yaml_pair *pairs = realloc(yaml->pairs, (yaml->count + 1) * sizeof *pairs);
    if (!pairs)
        fail(reader, 0, "out of memory");
    yaml->pairs = pairs;
    yaml->pairs[yaml->count++] = (struct coto_yaml_pair){key, value, note};
}

/* Keys of options: '_' and '-' are the same letter there. */
static bool same_key(const char *a, const char *b)
{
    for (; *a && *b; a++, b++)
        if ((*a == '_' ? '-' : *a) != (*b == '_' ? '-' : *b))
            return false;
    return *a == *b;
}

static char *take_key(struct reader *reader)
{
    size_t len = reader->event.data.scalar.length;

    if (reader->event.type != YAML_SCALAR_EVENT)
        fail(reader, event_line(reader), "a key must be a word");
    if (len == 0)
        fail(reader, event_line(reader), "an empty key");
    if (len > KEY_MAX)
        fail(reader, event_line(reader), "a key of more than %zu letters", KEY_MAX);
    return keep(reader, strdup(scalar(reader)));
}

/* An empty plain scalar is YAML's null: somebody forgot the value. */
static void check_scalar_value(struct reader *reader, const char *key)
{
    const yaml_event_t *event = &reader->event;

    if (event->type != YAML_SCALAR_EVENT)
        fail(reader, event_line(reader), "'%s': lists and maps cannot be nested", key);
    if (event->data.scalar.length == 0 && event->data.scalar.style == YAML_PLAIN_SCALAR_STYLE)
        fail(reader, event_line(reader), "'%s' has no value; write '' for an empty one", key);
}

static void read_list(struct reader *reader, const char *key, const char *note)
{
    size_t before = reader->yaml->count;

    for (next(reader); reader->event.type != YAML_SEQUENCE_END_EVENT; next(reader)) {
        check_scalar_value(reader, key);
        if (reader->yaml->count - before >= ITEMS_MAX)
            fail(reader, event_line(reader), "'%s' has more than %d items", key, ITEMS_MAX);
        add_pair(reader, key, keep(reader, strdup(scalar(reader))), note);
    }
    if (reader->yaml->count == before)
        add_pair(reader, key, keep(reader, strdup("")), note);
}

/* Whether one of the map's pairs, all "KEY=VALUE", has this key. */
static bool has_map_key(const struct reader *reader, size_t from, const char *name)
{
    size_t len = strlen(name);

    for (size_t i = from; i < reader->yaml->count; i++)
        if (strncmp(reader->yaml->pairs[i].value, name, len) == 0 && reader->yaml->pairs[i].value[len] == '=')
            return true;
    return false;
}

static void read_map(struct reader *reader, const char *key, const char *note)
{
    size_t before = reader->yaml->count;

    if (strcmp(key, "env") != 0)
        fail(reader, event_line(reader), "'%s' cannot be a map", key);
    for (next(reader); reader->event.type != YAML_MAPPING_END_EVENT; next(reader)) {
        char *name = take_key(reader);
        char *text = NULL;
        if (strchr(name, '='))
            fail(reader, event_line(reader), "'%s': '=' in the key '%s'", key, name);
        if (has_map_key(reader, before, name))
            fail(reader, event_line(reader), "duplicate key '%s' in '%s'", name, key);
        if (reader->yaml->count - before >= ITEMS_MAX)
            fail(reader, event_line(reader), "'%s' has more than %d items", key, ITEMS_MAX);
        next(reader);
        check_scalar_value(reader, name);
        if (asprintf(&text, "%s=%s", name, scalar(reader)) < 0)
            text = NULL;
        add_pair(reader, key, keep(reader, text), note);
    }
    if (reader->yaml->count == before)
        add_pair(reader, key, keep(reader, strdup("")), note);
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
        add_pair(reader, key, keep(reader, strdup(scalar(reader))), NULL);
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
    }
}

/* The whole stream: nothing, or one document that is empty or a map. Nothing
 * here recurses: a list or map inside a value is refused at its first event, so
 * the depth of a text never matters. */
static void read_stream(struct reader *reader)
{
    yaml_parser_set_encoding(&reader->parser, YAML_UTF8_ENCODING);
    yaml_parser_set_input_string(&reader->parser, (const unsigned char *)reader->yaml->text,
                                 reader->yaml->len);
    next(reader); /* stream start */
    next(reader);
    if (reader->event.type == YAML_DOCUMENT_START_EVENT) {
        next(reader);
        bool is_empty = reader->event.type == YAML_SCALAR_EVENT &&
                        reader->event.data.scalar.length == 0;
        if (reader->event.type == YAML_MAPPING_START_EVENT)
            read_keys(reader);
        else if (!is_empty)
            fail(reader, event_line(reader), "not a map of 'key: value' lines");
        next(reader); /* document end */
        next(reader);
    }
    if (reader->event.type != YAML_STREAM_END_EVENT)
        fail(reader, event_line(reader), "a second document");
}

int coto_yaml_read(struct coto_yaml *yaml)
{
    struct reader *reader = calloc(1, sizeof *reader);

    if (!reader || !yaml_parser_initialize(&reader->parser)) {
        free(reader);
        snprintf(yaml->message, sizeof yaml->message, "line 0: out of memory");
        return -1;
    }
    reader->yaml = yaml;
    int refused = setjmp(reader->refused);
    if (!refused) {
        check_text(reader);
        read_stream(reader);
    }
    yaml_event_delete(&reader->event);
    yaml_parser_delete(&reader->parser);
    free(reader);
    return refused ? -1 : 0;
}

void coto_yaml_fini(struct coto_yaml *yaml)
{
    for (size_t i = 0; i < yaml->kept_count; i++)
        free(yaml->kept[i]);
    free(yaml->kept);
    free(yaml->pairs);
    yaml->kept = NULL;
    yaml->pairs = NULL;
    yaml->kept_count = yaml->count = 0;
}
