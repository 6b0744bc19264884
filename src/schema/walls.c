#include "schema/walls.h"

#include <stddef.h>

const struct coto_wall_row coto_walls[COTO_WALL_COUNT] = {
#define X(id, name, class, doc) [COTO_WALL_##id] = {name, COTO_WALL_##class, doc},
    COTO_WALLS(X)
#undef X
};

int coto_wall_find(const char *name)
{
    for (int i = 0; i < COTO_WALL_COUNT; i++) {
        const char *row = coto_walls[i].name;
        size_t n = 0;
        while (row[n] && (row[n] == name[n] || (row[n] == '_' && name[n] == '-')))
            n++;
        if (!row[n] && !name[n])
            return i;
    }
    return -1;
}
