#include "schema/verdict.h"

static const struct {
    const char *word;
    const char *doc;
} rows[] = {
#define X(id, word, doc) [COTO_VERDICT_##id] = {word, doc},
    COTO_VERDICTS(X)
#undef X
};

const char *coto_verdict_word(enum coto_verdict verdict)
{
    return verdict < COTO_VERDICT_COUNT ? rows[verdict].word : "lost";
}

const char *coto_verdict_doc(enum coto_verdict verdict)
{
    return verdict < COTO_VERDICT_COUNT ? rows[verdict].doc : rows[COTO_VERDICT_LOST].doc;
}
