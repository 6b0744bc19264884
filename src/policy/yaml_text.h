/* Policy text (YAML, and JSON as its subset) → pairs, for coto-policy alone: it is
 * the only program that links libyaml. Knows nothing of options, refuses whatever
 * could mean two things to two readers (see yaml_main.c).
 *
 * Owner: the caller, of the text too; coto_yaml_fini frees the rest, in any state,
 * twice if need be.
 */
#pragma once

#include <stddef.h>

#define COTO_YAML_MAX ((size_t)1 << 20)

struct coto_yaml_pair {
    const char *key;
    const char *value;
    const char *note; /* the comment on its line, "" when none */
};

struct coto_yaml {
    const char *text; /* borrowed; a NUL must follow it */
    size_t len;
    struct coto_yaml_pair *pairs;
    size_t count;
    char **kept; /* what the pairs point to */
    size_t kept_count;
    char message[256]; /* of a refusal: "line N: what" */
};

/* Reads text into pairs. 0, or -1 with the message filled. */
int coto_yaml_read(struct coto_yaml *yaml);
void coto_yaml_fini(struct coto_yaml *yaml);
