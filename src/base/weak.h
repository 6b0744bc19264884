/* Walls left out on purpose, for the tests that prove what each wall is worth.
 *
 * coto_up("seccomp") asks whether a wall is to be raised. In the product it is the
 * constant true and leaves nothing behind in the programs. Only a build configured
 * with -Dweak=true (build-weak/, never installed) looks at a comma list of walls in
 * its environment, which it also hands to coto-init, and does not refuse a run whose
 * walls are missing. tests/escape/test_product.py proves that the product knows none
 * of this.
 */
#pragma once

#include <stdbool.h>

#ifdef COTO_WEAK

#include <stdlib.h>
#include <string.h>

#define COTO_WEAK_NAME "COTO_TEST_WITHOUT"

/* Whether anything at all is left out. */
static inline bool coto_weakened(void)
{
    const char *list = getenv(COTO_WEAK_NAME);

    return list && *list;
}

static inline bool coto_up(const char *wall)
{
    const char *at = getenv(COTO_WEAK_NAME);
    size_t len = strlen(wall);

    while (at && *at) {
        size_t n = strcspn(at, ",");
        if (n == len && strncmp(at, wall, n) == 0)
            return false;
        at += n + (at[n] == ',');
    }
    return true;
}

/* The variable as it stands in our environment: the whole of coto-init's. */
static inline char *coto_weak_env(void)
{
    char *value = getenv(COTO_WEAK_NAME);

    return value ? value - sizeof COTO_WEAK_NAME : NULL;
}

#else

static inline bool coto_weakened(void)
{
    return false;
}

static inline bool coto_up(const char *wall)
{
    (void)wall;
    return true;
}

static inline char *coto_weak_env(void)
{
    return NULL;
}

#endif
