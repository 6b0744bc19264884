#include "policy/nearest.h"

#include <string.h>

#define WORD_MAX 63
#define FAR 1000

static char letter(char c)
{
    return c == '_' ? '-' : c;
}

static int min2(int a, int b)
{
    return a < b ? a : b;
}

int coto_nearest_distance(const char *a, const char *b)
{
    size_t la = strlen(a), lb = strlen(b);
    int rows[3][WORD_MAX + 1]; /* the two rows before, and the current one */

    if (la > WORD_MAX || lb > WORD_MAX)
        return FAR;
    for (size_t j = 0; j <= lb; j++)
        rows[0][j] = (int)j;
    for (size_t i = 1; i <= la; i++) {
        int *now = rows[i % 3], *up = rows[(i + 2) % 3], *up2 = rows[(i + 1) % 3];
        now[0] = (int)i;
        for (size_t j = 1; j <= lb; j++) {
            char ca = letter(a[i - 1]), cb = letter(b[j - 1]);
            int best = min2(min2(up[j], now[j - 1]) + 1, up[j - 1] + (ca != cb));
            if (i > 1 && j > 1 && ca == letter(b[j - 2]) && letter(a[i - 2]) == cb)
                best = min2(best, up2[j - 2] + 1);
            now[j] = best;
        }
    }
    return rows[la % 3][lb];
}

void coto_nearest_offer(struct coto_nearest *best, const char *word, const char *candidate)
{
    size_t len = strlen(word);
    int distance = coto_nearest_distance(word, candidate);

    /* "mem" for "memory": a beginning is as good as one wrong letter. */
    if (len >= 3 && strncmp(word, candidate, len) == 0)
        distance = 1;
    if (distance > (len < 6 ? 1 + (len > 3) : 3))
        return;
    if (!best->name || distance < best->distance) {
        best->name = candidate;
        best->distance = distance;
    }
}
