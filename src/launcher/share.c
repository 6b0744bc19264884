/* How the kinds of a level share what may be ready at once: pool-max holds for all of them together, and so does
 * high-pool-max for containers. The largest gives first, so that those which are asked for get about as many each; one of
 * a kind that was asked for stays as long as there is room, and so does what the operator wants of his own. */
#include "launcher/launcher.h"

#include "launcher/share.h"

static unsigned floor_of(const struct shelf *shelf)
{
    return shelf->min > 1 ? shelf->min : 1;
}

/* The operator's own kind is set up before any other. */
static bool is_operators(const struct launcher *l, const struct shelf *shelf)
{
    for (unsigned i = 0; i < l->shelf_count; i++)
        if (l->shelves[i].is_apart == shelf->is_apart)
            return &l->shelves[i] == shelf && shelf->min > 0;
    return false;
}

/* Whose target is lowered by one; NULL: nobody's can be. */
static struct shelf *who_gives(struct launcher *l, bool is_apart)
{
    struct shelf *largest = NULL, *oldest = NULL;

    for (unsigned i = 0; i < l->shelf_count; i++) {
        struct shelf *it = &l->shelves[i];
        if (it->is_apart != is_apart || it->target == 0)
            continue;
        if (it->target > floor_of(it) && (!largest || it->target > largest->target))
            largest = it;
        if (!is_operators(l, it) && (!oldest || it->used_us < oldest->used_us))
            oldest = it;
    }
    return largest ? largest : oldest;
}

void launcher_share(struct launcher *l, bool is_apart)
{
    unsigned total = 0;
    struct shelf *gives;

    for (unsigned i = 0; i < l->shelf_count; i++)
        total += l->shelves[i].is_apart == is_apart ? l->shelves[i].target : 0;
    for (; total > l->ready_max[is_apart] && (gives = who_gives(l, is_apart)); total--)
        gives->target--;
}

/* Those that are, and those on their way that nobody waits for. */
static unsigned count_ready(const struct launcher *l, bool is_apart)
{
    unsigned count = 0;

    for (unsigned i = 0; i < l->shelf_count; i++) {
        const struct shelf *it = &l->shelves[i];
        if (it->is_apart == is_apart)
            count += it->ready_count + (it->starting > it->queued ? it->starting - it->queued : 0);
    }
    return count;
}

static struct shelf *who_has_too_many(struct launcher *l, bool is_apart)
{
    for (unsigned i = 0; i < l->shelf_count; i++)
        if (l->shelves[i].is_apart == is_apart && l->shelves[i].ready_count > l->shelves[i].target)
            return &l->shelves[i];
    return NULL;
}

bool launcher_make_room(struct launcher *l, const struct shelf *shelf)
{
    unsigned most = l->ready_max[shelf->is_apart];
    struct shelf *other;

    if (shelf->queued > shelf->ready_count + shelf->starting) /* it will be nobody's spare one */
        return true;
    while (count_ready(l, shelf->is_apart) >= most) {
        if (!(other = who_has_too_many(l, shelf->is_apart)))
            return false;
        launcher_end_ready(l, other);
    }
    return true;
}

bool launcher_has_place(const struct launcher *l, const struct shelf *shelf)
{
    return count_ready(l, shelf->is_apart) < l->ready_max[shelf->is_apart];
}
