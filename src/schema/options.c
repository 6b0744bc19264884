#include "schema/options.h"

#include <string.h>

const struct coto_opt_row coto_options[COTO_OPT_COUNT] = {
#define X(id, name, type, fallback, min, max, metavar, section, help)                              \
    [COTO_OPT_##id] = {name, COTO_TYPE_##type, fallback, min, max, metavar, COTO_SECTION_##section, \
                       help},
    COTO_OPTIONS(X)
#undef X
};

static int same_letter(char a, char b)
{
    return (a == '_' ? '-' : a) == (b == '_' ? '-' : b);
}

int coto_opt_find(const char *name, unsigned long len)
{
    for (int i = 0; i < COTO_OPT_COUNT; i++) {
        const char *row = coto_options[i].name;
        unsigned long n = 0;
        while (n < len && row[n] && same_letter(row[n], name[n]))
            n++;
        if (n == len && !row[n])
            return i;
    }
    return -1;
}

int coto_opt_choice(enum coto_opt opt, const char *word)
{
    const char *p = coto_options[opt].metavar;
    size_t len = strlen(word);

    for (int i = 0; len > 0 && !strchr(word, '|'); i++) {
        size_t n = strcspn(p, "|");
        if (n == len && strncmp(p, word, n) == 0)
            return i;
        if (!p[n])
            return -1;
        p += n + 1;
    }
    return -1;
}

const char *coto_opt_choice_name(enum coto_opt opt, int64_t value)
{
    /* Small: a static program whose thread-local data is more than some hundred bytes in all has musl
     * map memory before main, and crash when there is none. */
    static _Thread_local char ring[4][16];
    static _Thread_local unsigned next;
    const char *p = coto_options[opt].metavar;

    for (int64_t i = 0; i < value && *p; i++) {
        p += strcspn(p, "|");
        p += *p == '|';
    }
    char *out = ring[next++ % 4];
    size_t n = strcspn(p, "|");
    if (n >= sizeof ring[0])
        n = sizeof ring[0] - 1;
    memcpy(out, p, n);
    out[n] = '\0';
    return out;
}
