/* What kinds of sandboxes have of the room in the pool (share.c). */
#pragma once

#include "launcher/launcher.h"

/* Lowers targets until the kinds of that level fit together. */
void launcher_share(struct launcher *l, bool is_apart);
/* Whether one more may be begun; one that another kind has too many is ended for it. */
bool launcher_make_room(struct launcher *l, const struct shelf *shelf);
/* Whether one that has come may be kept. */
bool launcher_has_place(const struct launcher *l, const struct shelf *shelf);
/* pool.c: the oldest that is ready. */
void launcher_end_ready(struct launcher *l, struct shelf *shelf);
