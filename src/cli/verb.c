#include "cli/verb.h"

#include <string.h>

const struct coto_verb coto_verbs[] = {
#define X(name, operands, has_options, help) {#name, operands, has_options, help, coto_cli_##name},
    COTO_VERBS(X)
#undef X
    {0},
};

const struct coto_verb *coto_verb_find(const char *name)
{
    for (const struct coto_verb *verb = coto_verbs; verb->name; verb++)
        if (strcmp(verb->name, name) == 0)
            return verb;
    return NULL;
}
