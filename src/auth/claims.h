/* Inside the room: claims and their JSON. */
#pragma once

#include "auth/jwt.h"

#include <jansson.h>

/* Well-formed or refused; nothing is said about whose and until when. aud is what the token must
 * be for, or NULL for any (of several, the first is taken). */
int coto_claims_parse(const char *text, size_t len, const char *aud, struct coto_claims *ret_claims,
                      struct coto_err *err);
void coto_claims_add(const struct coto_claims *claims, struct coto_buf *out);

/* A JSON object, or NULL: no duplicate keys, nothing behind it. */
json_t *coto_claims_load(const char *text, size_t len);
int coto_jwt_refuse(struct coto_err *err, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
#ifdef __clang_analyzer__
#define coto_jwt_refuse(...) (coto_jwt_refuse(__VA_ARGS__), -1) /* see base/err.h */
#endif

static inline void coto_own_json(json_t **json)
{
    json_decref(*json);
    *json = NULL;
}
#define coto_auto_json __attribute__((cleanup(coto_own_json))) json_t
