#include "remote/words.h"

#include "schema/bodies.h"
#include "schema/options.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LIMITS "resource_limits."
#define WORD "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_."
#define NUMBER "must be a number"

static const struct {
    const char *field;
    const char *flag;
} fields[] = {
    {"timeout_seconds", "--timeout"}, {"isolation_level", "--isolation"}, {"language", "--lang"},
    {"profile", "--profile"},         {"artifacts", "--artifacts"},       {"files", "--copy"},
    {"env", "--env"},                 {"args", "arguments"},              {"code", "the code"},
    {"stdin", "standard input"},      {"stdin_base64", "standard input"}, {"cold", "--cold"},
    {"require", "--require"},
};

static const char *row_of(const char *field, size_t len)
{
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
        if (strlen(fields[i].field) == len && strncmp(fields[i].field, field, len) == 0)
            return fields[i].flag;
    return NULL;
}

/* "memory" of "resource_limits.memory"; memory_mb is no flag of its own. */
static const char *limit_of(const char *field, size_t len)
{
    char name[64];

    if (len <= strlen(LIMITS) || strncmp(field, LIMITS, strlen(LIMITS)) != 0)
        return NULL;
    snprintf(name, sizeof name, "%.*s", (int)(len - strlen(LIMITS)), field + strlen(LIMITS));
    const struct coto_limit_row *row = coto_limit_find(name);
    return row ? coto_options[row->opt].name : NULL;
}

void coto_remote_words_flag(const char *field, struct coto_buf *out)
{
    size_t len = strcspn(field, ".[");
    const char *limit = limit_of(field, strlen(field));
    const char *flag = row_of(field, len);

    if (limit)
        coto_buf_addf(out, "--%s", limit);
    else if (flag)
        coto_buf_adds(out, flag);
    if (flag && field[len] == '[')
        coto_buf_addf(out, ", number %lu", strtoul(field + len + 1, NULL, 10) + 1);
    else if (flag && field[len] == '.')
        coto_buf_addf(out, " %s", field + len + 1);
}

/* A name that nobody would take for a word of a sentence, as "files" is one. */
static bool add_name(const char *text, size_t len, struct coto_buf *out)
{
    const char *limit = limit_of(text, len);
    const char *flag = memchr(text, '_', len) ? row_of(text, len) : NULL;

    if (limit)
        coto_buf_addf(out, "--%s", limit);
    else if (flag)
        coto_buf_adds(out, flag);
    return limit || flag;
}

static void translate(const char *text, size_t len, struct coto_buf *out)
{
    const char *end = text + len;

    while (text < end) {
        size_t word = strspn(text, WORD);
        word = word < (size_t)(end - text) ? word : (size_t)(end - text);
        size_t name = word;
        while (name && text[name - 1] == '.') /* of the sentence */
            name--;
        size_t rest = word ? word : 1;
        size_t taken = name && add_name(text, name, out) ? name : 0;
        coto_buf_add(out, text + taken, rest - taken);
        text += rest;
    }
}

void coto_remote_words_message(const char *field, const char *text, struct coto_buf *out)
{
    size_t len = strlen(field);
    coto_auto_buf flag = {0};

    coto_remote_words_flag(field, &flag);
    if (flag.len && strncmp(text, field, len) == 0 && text[len] == ':') {
        coto_buf_add(out, flag.data, flag.len);
        text += len;
    }
    const char *number = strcmp(field, "timeout_seconds") == 0 ? strstr(text, NUMBER) : NULL;
    if (number) { /* the flag has units */
        coto_buf_add(out, text, (size_t)(number - text));
        coto_buf_adds(out, NUMBER " of seconds");
        text = number + strlen(NUMBER);
    }
    translate(text, strlen(text), out);
}

static bool is_for_programs(const char *clause, size_t len)
{
    return memmem(clause, len, "GET /", 5) || memmem(clause, len, "POST /", 6);
}

void coto_remote_words_remedy(const char *field, const char *text, struct coto_buf *out)
{
    coto_auto_buf flag = {0};

    coto_remote_words_flag(field, &flag);
    for (const char *at = text; *at; at += *at == ';') {
        at += out->len ? 0 : strspn(at, " ");
        size_t len = strcspn(at, ";");
        if (!is_for_programs(at, len)) {
            coto_buf_adds(out, out->len ? ";" : "");
            translate(at, len, out);
        }
        at += len;
    }
    if (!out->len && strncmp(coto_buf_str(&flag), "--", 2) == 0)
        coto_buf_addf(out, "give %s what the service allows, or leave it out", coto_buf_str(&flag));
    if (strcmp(field, "isolation_level") == 0)
        coto_buf_addf(out, "%s--isolation process is the service's level standard, container its level high",
                      out->len ? "; " : "");
}
