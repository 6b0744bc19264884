/* "Did you mean": the nearest of many names. */
#pragma once

/* Edit distance of two short words; letters swapped with a neighbour count one,
 * '_' and '-' are the same letter. Words over 63 letters are far from all. */
int coto_nearest_distance(const char *a, const char *b);

/* Keeps the best candidate seen: start with {0}, offer every name, then take
 * `name`, NULL when none is near enough to be what was meant. */
struct coto_nearest {
    const char *name;
    int distance;
};
void coto_nearest_offer(struct coto_nearest *best, const char *word, const char *candidate);
