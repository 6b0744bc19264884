/* Errors in words of the API. What plans and sandboxes say is said to `coto run` too, whose flags a
 * caller of the service does not have: each is its field, or it is not for callers. */
#include "api/api.h"

#include "schema/bodies.h"
#include "schema/options.h"

#include <stdio.h>
#include <string.h>

#define WORD 64
#define LETTERS "abcdefghijklmnopqrstuvwxyz-"

static const char *field_of(int opt)
{
    static const struct {
        enum coto_opt opt;
        const char *field;
    } fields[] = {
        {COTO_OPT_LANG, "language"},  {COTO_OPT_ENV, "env"},         {COTO_OPT_TIMEOUT, "timeout_seconds"},
        {COTO_OPT_COPY, "files"},     {COTO_OPT_PROFILE, "profile"}, {COTO_OPT_ISOLATION, "isolation_level"},
        {COTO_OPT_ARTIFACTS, "artifacts"}, {COTO_OPT_REQUIRE, "require"},
    };

    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
        if ((int)fields[i].opt == opt)
            return fields[i].field;
    return NULL;
}

/* What the flag is called here; false: nothing is, and callers cannot set it. */
static bool name_flag(const char *flag, size_t len, char ret_word[WORD])
{
    char name[WORD];
    bool is_off = len > 3 && strncmp(flag, "no-", 3) == 0;

    snprintf(name, sizeof name, "%.*s", (int)(len - 3 * is_off), flag + 3 * is_off);
    int opt = coto_opt_find(name, strlen(name));
    for (char *c = name; *c; c++)
        if (*c == '-')
            *c = '_';
    if (opt >= 0 && field_of(opt))
        snprintf(ret_word, WORD, "%s", field_of(opt));
    else if (opt >= 0 && coto_limit_find(name))
        snprintf(ret_word, WORD, "resource_limits.%s%s", coto_limit_find(name)->name, is_off ? ": false" : "");
    else
        return false;
    return true;
}

/* A level has another name here too; returns how much of the text that was. */
static size_t name_level(const char *text, size_t len, struct coto_buf *out)
{
    static const char process[] = " process";
    size_t n = sizeof process - 1;

    if (len < n || memcmp(text, process, n) != 0 || (len > n && memchr(LETTERS, text[n], strlen(LETTERS))))
        return 0;
    coto_buf_adds(out, " standard");
    return n;
}

/* Where a flag begins: not in a name that somebody has quoted. */
static size_t find_flag(const char *text, size_t at, size_t len)
{
    for (; at + 2 < len; at++)
        if (text[at] == '-' && text[at + 1] == '-' && (at == 0 || strchr(" (", text[at - 1])) &&
            memchr(LETTERS, text[at + 2], strlen(LETTERS) - 1))
            return at;
    return len;
}

/* Flags become fields; an alternative that is none is left out. False: there was another that is none. */
static bool translate(const char *text, size_t len, struct coto_buf *out)
{
    bool is_whole = true;
    char word[WORD];

    for (size_t at = 0, flag; at < len;) {
        flag = find_flag(text, at, len);
        coto_buf_add(out, text + at, flag - at);
        if (flag == len)
            break;
        size_t end = flag + 2 + strspn(text + flag + 2, LETTERS);
        bool is_other = out->len > 4 && memcmp(out->data + out->len - 4, " or ", 4) == 0;
        if (name_flag(text + flag + 2, end - flag - 2, word)) {
            coto_buf_adds(out, word);
            if (strcmp(word, "isolation_level") == 0)
                end += name_level(text + end, len - end, out);
        } else if (is_other && is_whole) {
            out->len -= 4;
        } else {
            coto_buf_add(out, text + flag, end - flag);
            is_whole = false;
        }
        at = end;
    }
    return is_whole;
}

void api_words_message(const char *text, struct coto_buf *out)
{
    translate(text, strlen(text), out);
}

void api_words_remedy(const char *text, struct coto_buf *out)
{
    for (const char *at = text; *at; at += *at == ';') {
        coto_auto_buf clause = {0};
        at += out->len ? 0 : strspn(at, " ");
        size_t len = strcspn(at, ";");
        if (translate(at, len, &clause)) {
            coto_buf_adds(out, out->len ? ";" : "");
            coto_buf_add(out, clause.data, clause.len);
        }
        at += len;
    }
    if (out->len == 0 && *text)
        coto_buf_addf(out, "for the operator of the service: %s", text);
}
