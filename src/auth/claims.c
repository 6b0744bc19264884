#include "auth/claims.h"

#include "auth/b64url.h"
#include "base/json.h"

#include <stdio.h>
#include <string.h>

/* 9999-12-31: sums with it cannot overflow. */
#define TIME_MAX INT64_C(253402300799)

#define CNF_HASH "x5t#S256"
#define CNF_LETTERS 43 /* 32 bytes */

int (coto_jwt_refuse)(struct coto_err *err, const char *fmt, ...)
{
    char why[256];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(why, sizeof why, fmt, ap);
    va_end(ap);
    return coto_err_set(err, COTO_ERR_FORBIDDEN, 0, "token refused: %s", why);
}

json_t *coto_claims_load(const char *text, size_t len)
{
    json_t *root = json_loadb(text, len, JSON_REJECT_DUPLICATES, NULL);

    if (json_is_object(root))
        return root;
    json_decref(root);
    return NULL;
}

/* ---- reading ---- */

static int copy_text(const json_t *value, const char *name, char *ret_text, size_t size,
                     struct coto_err *err)
{
    size_t len = json_string_length(value);

    if (!json_is_string(value))
        return coto_jwt_refuse(err, "%s is not a string", name);
    if (len == 0 || len >= size || !coto_utf8_is_plain(json_string_value(value), len))
        return coto_jwt_refuse(err, "%s is empty, too long or has odd letters", name);
    memcpy(ret_text, json_string_value(value), len + 1);
    return 0;
}

static int copy_optional(const json_t *root, const char *name, char *ret_text, size_t size,
                         struct coto_err *err)
{
    const json_t *value = json_object_get(root, name);

    return value ? copy_text(value, name, ret_text, size, err) : 0;
}

static int copy_time(const json_t *root, const char *name, int64_t *ret_time, struct coto_err *err)
{
    const json_t *value = json_object_get(root, name);

    if (!value)
        return 0;
    if (!json_is_integer(value) || json_integer_value(value) <= 0 ||
        json_integer_value(value) > TIME_MAX)
        return coto_jwt_refuse(err, "%s is not a time in whole seconds", name);
    *ret_time = json_integer_value(value);
    return 0;
}

/* Words of RFC 6749 with single spaces between; none at all is a scope that allows nothing. */
static bool is_scope(const char *text, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        if (text[i] == ' ' ? i == 0 || i + 1 == len || text[i - 1] == ' '
                           : text[i] < '!' || text[i] > '~' || text[i] == '"' || text[i] == '\\')
            return false;
    }
    return true;
}

static int copy_scope(const json_t *root, struct coto_claims *claims, struct coto_err *err)
{
    const json_t *value = json_object_get(root, "scope");
    size_t len = json_string_length(value);

    if (!value)
        return 0;
    if (!json_is_string(value) || len >= sizeof claims->scope ||
        !is_scope(json_string_value(value), len))
        return coto_jwt_refuse(err, "scope is not a string of words");
    memcpy(claims->scope, json_string_value(value), len + 1);
    claims->has_scope = true;
    return 0;
}

static int copy_aud(const json_t *root, const char *wanted, struct coto_claims *claims,
                    struct coto_err *err)
{
    const json_t *value = json_object_get(root, "aud");
    size_t count = json_is_array(value) ? json_array_size(value) : 1;
    bool found = false;

    if (!value)
        return wanted ? coto_jwt_refuse(err, "it has no aud") : 0;
    for (size_t i = 0; i < count; i++) {
        char one[sizeof claims->aud];
        const json_t *item = json_is_array(value) ? json_array_get(value, i) : value;
        if (copy_text(item, "aud", one, sizeof one, err))
            return -1;
        if (!found && (!wanted || strcmp(one, wanted) == 0)) {
            memcpy(claims->aud, one, strlen(one) + 1);
            found = true;
        }
    }
    return found ? 0 : coto_jwt_refuse(err, "it is for another audience");
}

/* A way to hold it that is not known here cannot be checked: the token would be good for anybody. */
static int copy_cnf(const json_t *root, struct coto_claims *claims, struct coto_err *err)
{
    const json_t *cnf = json_object_get(root, "cnf");
    const json_t *hash = json_object_get(cnf, CNF_HASH);
    unsigned char bytes[COTO_B64URL_ROOM(CNF_LETTERS)];

    if (!cnf)
        return 0;
    if (!json_is_object(cnf) || json_object_size(cnf) != 1 || !hash)
        return coto_jwt_refuse(err, "cnf is not an object with x5t#S256 alone");
    if (json_string_length(hash) != CNF_LETTERS ||
        coto_b64url_decode(json_string_value(hash), CNF_LETTERS, bytes) != sizeof claims->certificate)
        return coto_jwt_refuse(err, "x5t#S256 is not a SHA-256 in base64url");
    memcpy(claims->certificate, bytes, sizeof claims->certificate);
    claims->has_certificate = true;
    return 0;
}

int coto_claims_parse(const char *text, size_t len, const char *aud, struct coto_claims *ret_claims,
                      struct coto_err *err)
{
    coto_auto_json *root = coto_claims_load(text, len);
    struct coto_claims c = {0};

    if (!root)
        return coto_jwt_refuse(err, "its claims are not a JSON object");
    if (copy_optional(root, "iss", c.iss, sizeof c.iss, err) ||
        copy_optional(root, "sub", c.sub, sizeof c.sub, err) ||
        copy_optional(root, "jti", c.jti, sizeof c.jti, err) ||
        copy_optional(root, "sandbox", c.sandbox, sizeof c.sandbox, err) ||
        copy_time(root, "exp", &c.exp, err) || copy_time(root, "nbf", &c.nbf, err) ||
        copy_time(root, "iat", &c.iat, err) || copy_scope(root, &c, err) ||
        copy_cnf(root, &c, err) ||
        copy_aud(root, aud, &c, err))
        return -1;
    if (!c.exp)
        return coto_jwt_refuse(err, "it has no exp");
    if (!*c.sub)
        return coto_jwt_refuse(err, "it has no sub");
    *ret_claims = c;
    return 0;
}

/* ---- writing ---- */

static void add_text(struct coto_json *json, const char *name, const char *text)
{
    if (*text)
        coto_json_str(json, name, text);
}

static void add_time(struct coto_json *json, const char *name, int64_t time)
{
    if (time)
        coto_json_int(json, name, time);
}

static void add_cnf(struct coto_json *json, const struct coto_claims *claims)
{
    coto_auto_buf hash = {0};

    if (!claims->has_certificate)
        return;
    coto_b64url_add(&hash, claims->certificate, sizeof claims->certificate);
    json->out->failed |= hash.failed;
    coto_json_begin(json, "cnf", '{');
    coto_json_str(json, CNF_HASH, coto_buf_str(&hash));
    coto_json_end(json, '}');
}

void coto_claims_add(const struct coto_claims *claims, struct coto_buf *out)
{
    struct coto_json json = {.out = out};

    coto_json_begin(&json, NULL, '{');
    add_text(&json, "iss", claims->iss);
    add_text(&json, "sub", claims->sub);
    add_text(&json, "aud", claims->aud);
    add_time(&json, "exp", claims->exp);
    add_time(&json, "nbf", claims->nbf);
    add_time(&json, "iat", claims->iat);
    add_text(&json, "jti", claims->jti);
    if (claims->has_scope)
        coto_json_str(&json, "scope", claims->scope);
    add_text(&json, "sandbox", claims->sandbox);
    add_cnf(&json, claims);
    coto_json_end(&json, '}');
}
