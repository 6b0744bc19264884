/* Text in YAML as flat pairs, read by coto-policy in a process of its own: policy files, and the
 * configuration of the service. */
#pragma once

#include "base/err.h"
#include "base/str.h"
#include "policy/policy.h"

#include <stdbool.h>

/* Reads the open file into pairs "key\0value\0". `what` and path begin messages: "policy file", "x.yaml". */
int coto_policy_parse_text(const char *what, const char *path, int fd, struct coto_buf *ret_pairs,
                           struct coto_err *err);
/* Moves *pos past one pair; false at the end. */
bool coto_policy_next_pair(const struct coto_buf *pairs, size_t *pos, const char **ret_key,
                           const char **ret_value);
/* Overlays a policy with them: all, or none where one is refused. */
int coto_policy_apply_pairs(struct coto_policy *policy, const struct coto_buf *pairs,
                            const char *origin, struct coto_err *err);
