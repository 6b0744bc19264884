/* coto token: keys for service tokens, and tokens. */
#include "auth/claims.h"
#include "auth/jwt.h"
#include "auth/keyset.h"
#include "auth/newfile.h"
#include "auth/tool.h"

#include "base/fd.h"
#include "base/units.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <openssl/crypto.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#define TTL_MAX_MS (INT64_C(366) * 86400000)

static struct {
    const char *key, *sub, *aud, *iss, *ttl, *scope, *sandbox, *name, *wait, *certificate;
} opt;

static const struct coto_tool_flag flags[] = {
    {"key", "FILE", "private key or secret to sign with; show: key to verify with", &opt.key,
     NULL, NULL},
    {"sub", "NAME", "whom the token is for: the tenant", &opt.sub, NULL, NULL},
    {"aud", "NAME", "the service it is for [coto]", &opt.aud, NULL, NULL},
    {"iss", "NAME", "who issues it; needed when the service asks for one", &opt.iss, NULL, NULL},
    {"ttl", "TIME", "how long it is valid: 10m, 1h, 30d [1h]", &opt.ttl, NULL, NULL},
    {"not-before", "TIME", "not valid before so much time has passed", &opt.wait, NULL, NULL},
    {"scope", "WORDS", "all it may do: read, write, metrics; without one, all that its tenant may",
     &opt.scope, NULL, NULL},
    {"sandbox", "ID", "good for this one sandbox only", &opt.sandbox, NULL, NULL},
    {"certificate", "FILE", "PEM: good only together with this client certificate", &opt.certificate, NULL, NULL},
    {"name", "NAME", "of the key's files [the algorithm]", &opt.name, NULL, NULL},
    {0},
};

/* ---- mint ---- */

static int parse_time(const char *flag, const char *text, int64_t *ret_s, struct coto_err *err)
{
    int64_t ms;

    if (coto_units_parse_duration(text, &ms) == 0 && ms >= 1000 && ms <= TTL_MAX_MS) {
        *ret_s = ms / 1000;
        return 0;
    }
    coto_err_set(err, COTO_ERR_USAGE, 0, "--%s %.40s: not a time from 1s to 366d", flag, text);
    return coto_err_remedy(err, "write it as 90s, 10m, 1h or 30d");
}

static int copy(char *ret_text, size_t size, const char *text, const char *flag,
                struct coto_err *err)
{
    size_t len = text ? strlen(text) : 0;

    if (len >= size)
        return coto_err_set(err, COTO_ERR_USAGE, 0, "--%s: longer than %zu bytes", flag, size - 1);
    /* It would be left out, and the token be good for more than was meant. No scope at all is one. */
    if (text && !len && strcmp(flag, "scope") != 0) {
        coto_err_set(err, COTO_ERR_USAGE, 0, "--%s: empty", flag);
        return coto_err_remedy(err, "give it a value, or leave the flag out");
    }
    if (text)
        memcpy(ret_text, text, len + 1);
    return 0;
}

static bool is_scope(const char *word, size_t len)
{
    for (const char *const *known = coto_jwt_scopes; *known; known++)
        if (strlen(*known) == len && strncmp(*known, word, len) == 0)
            return true;
    return false;
}

static int refuse_scope(const char *word, size_t len, struct coto_err *err)
{
    coto_auto_buf names = {0};

    for (const char *const *known = coto_jwt_scopes; *known; known++)
        coto_buf_addf(&names, "%s%s", names.len ? ", " : "", *known);
    coto_err_set(err, COTO_ERR_USAGE, 0, "--scope: '%.*s' is no scope", (int)(len > 60 ? 60 : len),
                 word);
    return coto_err_remedy(err, "choose among: %s; with one space between several",
                           coto_buf_str(&names));
}

/* The token would open nothing, and only whom it was made for would notice. */
static int check_scope(const char *scope, struct coto_err *err)
{
    if (!*scope)
        return 0;
    for (;;) {
        size_t n = strcspn(scope, " ");
        if (!is_scope(scope, n))
            return refuse_scope(scope, n, err);
        if (!scope[n])
            return 0;
        scope += n + 1;
    }
}

/* As the service writes it: lower case. */
static bool is_uuid(const char *text)
{
    static const char form[] = "xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx";

    for (size_t i = 0; i < sizeof form - 1; i++)
        if (form[i] == '-' ? text[i] != '-' : !text[i] || !strchr("0123456789abcdef", text[i]))
            return false;
    return !text[sizeof form - 1];
}

static int bind_to(const char *path, struct coto_claims *claims, struct coto_err *err)
{
    FILE *file = fopen(path, "re");
    X509 *certificate = file ? PEM_read_X509(file, NULL, NULL, NULL) : NULL;
    unsigned len = 0;

    if (!file)
        return coto_err_set(err, COTO_ERR_INPUT, errno, "certificate '%s'", path);
    claims->has_certificate = certificate && X509_digest(certificate, EVP_sha256(), claims->certificate, &len) == 1;
    X509_free(certificate);
    fclose(file);
    if (claims->has_certificate)
        return 0;
    coto_err_set(err, COTO_ERR_INPUT, 0, "certificate '%s': it is no certificate in PEM", path);
    return coto_err_remedy(err, "name the client's own, NAME.crt of `coto pki issue client NAME`");
}

/* No service would take it, and only whom it was made for would notice. */
static int check_names(struct coto_err *err)
{
    if (coto_jwt_is_reserved(opt.sub)) {
        coto_err_set(err, COTO_ERR_USAGE, 0, "--sub %.60s: reserved for who is on the service's host; no service takes it from a token", opt.sub);
        return coto_err_remedy(err, "choose another name for the tenant than local and uid:N");
    }
    if (opt.iss && strcmp(opt.iss, COTO_JWT_OWN_ISSUER) == 0) {
        coto_err_set(err, COTO_ERR_USAGE, 0, "--iss %s: the service's own name; no service takes it from another key", opt.iss);
        return coto_err_remedy(err, "name your own issuer, the one of the service's `jwt-issuer`, or leave the flag out");
    }
    if (!opt.sandbox || !*opt.sandbox || is_uuid(opt.sandbox)) /* an empty one is refused with the other flags */
        return 0;
    coto_err_set(err, COTO_ERR_USAGE, 0, "--sandbox %.60s: not the id of a sandbox", opt.sandbox);
    return coto_err_remedy(err, "give the sandbox_id that the service has told, a UUID such as 3f2b8c1e-5d64-4a0f-9c1b-2e7d8a90b1c2");
}

static int fill_claims(struct coto_claims *claims, struct coto_err *err)
{
    int64_t ttl_s;
    int64_t wait_s = 0;

    if (parse_time("ttl", opt.ttl ? opt.ttl : "1h", &ttl_s, err) ||
        (opt.wait && parse_time("not-before", opt.wait, &wait_s, err)) ||
        (opt.scope && check_scope(opt.scope, err)) || check_names(err))
        return -1;
    claims->iat = time(NULL);
    claims->exp = claims->iat + wait_s + ttl_s;
    claims->nbf = opt.wait ? claims->iat + wait_s : 0;
    claims->has_scope = opt.scope != NULL;
    if (copy(claims->sub, sizeof claims->sub, opt.sub, "sub", err) ||
        copy(claims->aud, sizeof claims->aud, opt.aud ? opt.aud : "coto", "aud", err) ||
        copy(claims->iss, sizeof claims->iss, opt.iss, "iss", err) ||
        copy(claims->scope, sizeof claims->scope, opt.scope, "scope", err) ||
        copy(claims->sandbox, sizeof claims->sandbox, opt.sandbox, "sandbox", err) ||
        (opt.certificate && bind_to(opt.certificate, claims, err)))
        return -1;
    return coto_jwt_make_id(claims->jti, sizeof claims->jti, err);
}

/* For the person at the terminal; a script gets the token alone. */
static void tell_minted(const struct coto_key *key, const struct coto_claims *claims)
{
    coto_auto_buf text = {0};

    if (!isatty(2))
        return;
    coto_buf_addf(&text, "%s token for '", coto_key_alg_name(key->alg));
    coto_tool_add_visible(&text, claims->sub);
    coto_buf_adds(&text, "', valid until ");
    coto_tool_add_time(&text, claims->exp);
    coto_buf_addf(&text, "; id %s\n", claims->jti);
    (void)coto_fd_write_all(2, coto_buf_str(&text), text.len);
}

static int run_mint(char **operands, struct coto_err *err)
{
    coto_auto_key key = {0};
    coto_auto_buf token = {0};
    struct coto_claims claims = {0};

    (void)operands;
    if (!opt.key || !opt.sub) {
        coto_err_set(err, COTO_ERR_USAGE, 0, opt.key ? "--sub is missing" : "--key is missing");
        return coto_err_remedy(err, "coto token mint --key FILE --sub NAME; coto token keygen "
                                    "makes a key");
    }
    if (fill_claims(&claims, err) || coto_key_load(opt.key, &key, err))
        return -1;
    if (coto_jwt_mint(&key, &claims, &token, err))
        return coto_err_wrap(err, "mint");
    coto_buf_addc(&token, '\n');
    if (coto_tool_print(&token, err))
        return -1;
    tell_minted(&key, &claims);
    return 0;
}

/* ---- keygen ---- */

static enum coto_key_alg find_alg(const char *word)
{
    for (int alg = COTO_KEY_HS256; alg <= COTO_KEY_EDDSA; alg++)
        if (strcasecmp(word, coto_key_alg_name((enum coto_key_alg)alg)) == 0)
            return (enum coto_key_alg)alg;
    return COTO_KEY_NONE;
}

static int open_dir(const char *path, struct coto_err *err)
{
    if (coto_newfile_make_dir(path, err))
        return -1;
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return fd < 0 ? coto_err_set(err, COTO_ERR_OUTPUT, errno, "directory '%s'", path) : fd;
}

static int write_pair(int dir_fd, const char *name, const struct coto_key *key,
                      struct coto_err *err)
{
    bool is_secret = key->alg == COTO_KEY_HS256;
    char file[80];
    char public_file[80];
    coto_auto_buf private = {0};
    coto_auto_buf public = {0};

    snprintf(file, sizeof file, "%s.%s", name, is_secret ? "secret" : "key");
    snprintf(public_file, sizeof public_file, "%s.pub", name);
    if (coto_key_encode(key, &private, &public, err))
        return -1;
    int failed = coto_newfile_write(dir_fd, file, 0600, &private, err);
    OPENSSL_cleanse(private.data, private.len);
    if (failed || is_secret)
        return failed;
    if (coto_newfile_write(dir_fd, public_file, 0644, &public, err) == 0)
        return 0;
    unlinkat(dir_fd, file, 0);
    return -1;
}

static int tell_keys(const char *dir, const char *name, const struct coto_key *key,
                     struct coto_err *err)
{
    coto_auto_buf out = {0};
    bool is_secret = key->alg == COTO_KEY_HS256;
    const char *ending = is_secret ? "secret" : "key";

    coto_buf_addf(&out, "%s key %s\n", coto_key_alg_name(key->alg), key->id);
    if (is_secret)
        coto_buf_addf(&out, "  %s/%s.secret   mints and verifies tokens: for you and the service "
                            "only\n", dir, name);
    else
        coto_buf_addf(&out, "  %s/%s.key   mints tokens: keep it to yourself\n"
                            "  %s/%s.pub   verifies them: give it to the service\n",
                      dir, name, dir, name);
    coto_buf_addf(&out, "Next: coto token mint --key %s/%s.%s --sub NAME\n", dir, name, ending);
    return coto_tool_print(&out, err);
}

static int run_keygen(char **operands, struct coto_err *err)
{
    coto_auto_key key = {0};
    enum coto_key_alg alg = find_alg(operands[0]);
    char name[80] = "";

    if (alg == COTO_KEY_NONE) {
        coto_err_set(err, COTO_ERR_USAGE, 0, "no algorithm '%.40s'", operands[0]);
        return coto_err_remedy(err, "hs256 (a shared secret), es256, eddsa or rs256; es256 when in "
                                    "doubt");
    }
    snprintf(name, sizeof name, "%s", opt.name ? opt.name : coto_key_alg_name(alg));
    for (char *p = name; !opt.name && *p; p++)
        *p = (char)tolower((unsigned char)*p);
    if (coto_newfile_check(name, err))
        return -1;
    coto_auto_fd dir_fd = open_dir(operands[1], err);
    if (dir_fd < 0 || coto_key_generate(alg, &key, err))
        return -1;
    if (write_pair(dir_fd, name, &key, err)) {
        coto_err_wrap(err, "%s", operands[1]);
        return err->sys_errno ? -1 : coto_err_remedy(err, "choose another name: --name NAME");
    }
    return tell_keys(operands[1], name, &key, err);
}

/* ---- jwks ---- */

static int run_jwks(char **operands, struct coto_err *err)
{
    coto_auto_buf out = {0};
    const char *lead = "{\"keys\": [\n  {";

    for (; *operands; operands++, lead = ",\n  {") {
        coto_auto_key key = {0};
        if (coto_key_load(*operands, &key, err))
            return -1;
        coto_buf_adds(&out, lead);
        if (coto_key_add_jwk(&key, &out)) {
            coto_err_set(err, COTO_ERR_INPUT, 0, "'%s': a secret has no public half", *operands);
            return coto_err_remedy(err, "name the secret file itself to the service");
        }
        coto_buf_addf(&out, ",\"alg\":\"%s\",\"use\":\"sig\",\"kid\":\"%s\"}",
                      coto_key_alg_name(key.alg), key.id);
    }
    coto_buf_adds(&out, "\n]}\n");
    return coto_tool_print(&out, err);
}

/* ---- show ---- */

static int add_pretty(struct coto_buf *out, const char *title, const struct coto_buf *text,
                      struct coto_err *err)
{
    coto_auto_json *root = coto_claims_load(coto_buf_str(text), text->len);
    char *pretty = root ? json_dumps(root, JSON_INDENT(2) | JSON_ENSURE_ASCII) : NULL;

    if (!pretty)
        return coto_err_set(err, COTO_ERR_INPUT, 0, "its %s is not a JSON object", title);
    coto_buf_addf(out, "%s %s\n", title, pretty);
    free(pretty);
    return 0;
}

/* How it stands with a token whose time is over since so many seconds; negative: it is not. */
static void add_over(struct coto_buf *out, int64_t over_s)
{
    if (over_s >= 0 && over_s < COTO_KEYS_SKEW_S)
        coto_buf_addf(out, ": over, but accepted for %d more seconds, because clocks may differ by %d", (int)(COTO_KEYS_SKEW_S - over_s),
                      COTO_KEYS_SKEW_S);
    else if (over_s >= 0)
        coto_buf_adds(out, ": expired");
    coto_buf_addc(out, '\n');
}

static void add_times(struct coto_buf *out, const struct coto_buf *text)
{
    static const struct {
        const char *name, *label;
    } times[] = {{"iat", "issued"}, {"nbf", "not before"}, {"exp", "expires"}};
    coto_auto_json *root = coto_claims_load(coto_buf_str(text), text->len);

    for (size_t i = 0; i < sizeof times / sizeof times[0]; i++) {
        const json_t *value = json_object_get(root, times[i].name);
        if (!json_is_integer(value))
            continue;
        coto_buf_addf(out, "%s ", times[i].label);
        coto_tool_add_time(out, json_integer_value(value));
        add_over(out, i == 2 ? (int64_t)time(NULL) - (int64_t)json_integer_value(value) : -1);
    }
}

/* Verified as a service with that key would; prints the verdict, and fails when refused. */
static int judge(const char *token, struct coto_buf *out, struct coto_err *err)
{
    const char *files[] = {opt.key, NULL};
    char signer[256];
    const struct coto_keys_config config = {
        .files = files, .aud = opt.aud, .iss = opt.iss, .signer = signer, .skew_s = -1};
    struct coto_keys *keys = NULL;
    struct coto_claims claims;

    if (!opt.key) {
        coto_buf_adds(out, "signature: not looked at; --key FILE verifies it\n");
        return 0;
    }
    snprintf(signer, sizeof signer, "a key in '%.200s'", opt.key);
    if (coto_keys_new(&config, &keys, err))
        return -1;
    int failed = coto_jwt_verify(keys, token, time(NULL), &claims, err);
    coto_keys_free(keys);
    if (!failed)
        coto_buf_adds(out, "signature and claims: good\n");
    return failed;
}

/* "-" is standard input: what stands on a command line, others can see. */
static int read_token(const char *operand, struct coto_buf *ret_token, struct coto_err *err)
{
    if (strcmp(operand, "-") != 0)
        coto_buf_adds(ret_token, operand);
    else if (coto_fd_read_all(0, 4 * COTO_JWT_MAX, ret_token))
        return coto_err_set(err, COTO_ERR_INPUT, errno, "standard input");
    if (ret_token->failed || ret_token->len == 0)
        return coto_err_set(err, COTO_ERR_INPUT, 0, "no token");
    ret_token->data[strcspn(ret_token->data, "\r\n")] = '\0';
    return 0;
}

static int run_show(char **operands, struct coto_err *err)
{
    coto_auto_buf token = {0};
    coto_auto_buf header = {0};
    coto_auto_buf claims = {0};
    coto_auto_buf out = {0};
    struct coto_err verdict = {0};

    if (read_token(operands[0], &token, err))
        return -1;
    if (coto_jwt_split(token.data, &header, &claims, err) ||
        add_pretty(&out, "header", &header, err) || add_pretty(&out, "claims", &claims, err)) {
        err->kind = COTO_ERR_INPUT;
        return coto_err_remedy(err, "a token is three parts of letters with dots between");
    }
    add_times(&out, &claims);
    int failed = judge(token.data, &out, &verdict);
    if (coto_tool_print(&out, err))
        return -1;
    if (failed)
        *err = verdict;
    return failed;
}

static const struct coto_tool_verb verbs[] = {
    {"mint", "--key FILE --sub NAME [FLAGS]", 0, 0,
     " key sub aud iss ttl not-before scope sandbox certificate ", "print a new token", run_mint},
    {"keygen", "hs256|es256|eddsa|rs256 DIR", 2, 2, " name ", "make a key for tokens", run_keygen},
    {"show", "TOKEN|- [--key FILE]", 1, 1, " key aud iss ",
     "print what a token says, and verify it", run_show},
    {"jwks", "FILE...", 1, 64, " ", "print the public halves of keys as a JWKS", run_jwks},
    {0},
};

int main(int argc, char **argv)
{
    static const struct coto_tool tool = {
        "token",
        "coto token makes keys and tokens for clients of coto serve.",
        "Try: coto token keygen es256 keys\n"
        "     coto token mint --key keys/es256.key --sub alice --ttl 8h",
        verbs,
        flags,
    };

    (void)argc;
    return coto_tool_main(&tool, argv);
}
