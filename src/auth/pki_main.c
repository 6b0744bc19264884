/* coto pki: certificates for a service and its clients. */
#include "auth/pki.h"
#include "auth/tool.h"

#include "base/fd.h"
#include "base/json.h"
#include "base/units.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#define DAYS_MAX 36500

static struct {
    const char *dir, *days;
    struct coto_strv sans;
    bool renew, json;
} opt;

static const struct coto_tool_flag flags[] = {
    {"dir", "DIR", "the authority's directory [$COTO_PKI_DIR, else /etc/coto/pki]", &opt.dir, NULL,
     NULL},
    {"san", "NAME,...", "DNS:host, IP:address or URI:name; may be given more than once", NULL,
     &opt.sans, NULL},
    {"days", "N", "how long it is valid [365; the authority 3650]", &opt.days, NULL, NULL},
    {"renew", NULL, "issue another with the same names; both stay valid", NULL, NULL, &opt.renew},
    {"json", NULL, "print JSON", NULL, NULL, &opt.json},
    {0},
};

static const char *dir_of(void)
{
    const char *from_env = getenv("COTO_PKI_DIR");

    if (opt.dir)
        return opt.dir;
    return from_env && *from_env ? from_env : "/etc/coto/pki";
}

static int days_of(int fallback, int *ret_days, struct coto_err *err)
{
    int64_t days = fallback;

    if (opt.days && (coto_units_parse_int(opt.days, &days) || days < 1 || days > DAYS_MAX)) {
        coto_err_set(err, COTO_ERR_USAGE, 0, "--days %.40s: not a number from 1 to %d", opt.days,
                     DAYS_MAX);
        return coto_err_remedy(err, "--days 90");
    }
    *ret_days = (int)days;
    return 0;
}

static void pki_own(struct coto_pki **pki)
{
    coto_pki_close(*pki);
}
#define auto_pki __attribute__((cleanup(pki_own))) struct coto_pki

/* ---- init ---- */

static int run_init(char **operands, struct coto_err *err)
{
    const char *dir = operands[0] ? operands[0] : dir_of();
    coto_auto_buf out = {0};
    int days;

    if (days_of(COTO_PKI_CA_DAYS, &days, err) || coto_pki_init(dir, days, err))
        return -1;
    coto_buf_addf(&out,
                  "A certificate authority is in %s\n"
                  "  ca.key    signs certificates: whoever has it can be anybody\n"
                  "  ca.crt    for servers and clients: whom to trust\n"
                  "  crl.pem   for servers: what is revoked\n"
                  "Next: coto pki issue server HOST --dir %s\n"
                  "      coto pki issue client NAME --dir %s\n",
                  dir, dir, dir);
    return coto_tool_print(&out, err);
}

/* ---- issue ---- */

static int tell_issued(const struct coto_pki_cert *cert, struct coto_err *err)
{
    coto_auto_buf out = {0};
    const char *dir = dir_of();

    coto_buf_addf(&out, "%s certificate '%s', valid until ", cert->is_server ? "Server" : "Client",
                  cert->name);
    coto_tool_add_time(&out, cert->not_after);
    coto_buf_addf(&out, "\n  %s/%s.crt   %s\n  %s/%s.key   keep it to the %s\n  serial %s\n", dir,
                  cert->name, cert->sans, dir, cert->name, cert->is_server ? "server" : "client",
                  cert->serial);
    if (!cert->is_server)
        coto_buf_addf(&out, "Use: curl --cacert %s/ca.crt --cert %s/%s.crt --key %s/%s.key "
                            "https://HOST:PORT/\n",
                      dir, dir, cert->name, dir, cert->name);
    return coto_tool_print(&out, err);
}

static int run_issue(char **operands, struct coto_err *err)
{
    struct coto_pki_request request = {.name = operands[1], .sans = &opt.sans, .renew = opt.renew};
    struct coto_pki_cert cert;
    auto_pki *pki = NULL;

    request.is_server = strcmp(operands[0], "server") == 0;
    if (!request.is_server && strcmp(operands[0], "client") != 0) {
        coto_err_set(err, COTO_ERR_USAGE, 0, "a certificate for a '%.40s'?", operands[0]);
        return coto_err_remedy(err, "coto pki issue server NAME, or coto pki issue client NAME");
    }
    if (days_of(COTO_PKI_DAYS, &request.days, err) || coto_pki_open(dir_of(), &pki, err) ||
        coto_pki_issue(pki, &request, &cert, err))
        return -1;
    return tell_issued(&cert, err);
}

/* ---- revoke and crl ---- */

static int run_revoke(char **operands, struct coto_err *err)
{
    coto_auto_strv serials = {0};
    coto_auto_strv moved = {0};
    coto_auto_buf out = {0};
    auto_pki *pki = NULL;

    if (coto_pki_open(dir_of(), &pki, err) ||
        coto_pki_revoke(pki, operands[0], &serials, &moved, err))
        return -1;
    for (size_t i = 0; i < serials.count; i++)
        coto_buf_addf(&out, "Revoked: serial %s\n", serials.items[i]);
    if (serials.count == 0)
        coto_buf_addf(&out, "'%s' is revoked already.\n", operands[0]);
    for (size_t i = 0; i + 1 < moved.count; i += 2)
        coto_buf_addf(&out, "Moved: %s/%s to %s/%s\n", dir_of(), moved.items[i], dir_of(),
                      moved.items[i + 1]);
    if (serials.count)
        coto_buf_addf(&out, "A service that reads %s/crl.pem notices by itself; where it reads a "
                            "copy, give it this one\n", dir_of());
    return coto_tool_print(&out, err);
}

static int run_crl(char **operands, struct coto_err *err)
{
    coto_auto_buf out = {0};
    auto_pki *pki = NULL;
    int days = 0;

    (void)operands;
    if (days_of(0, &days, err) || coto_pki_open(dir_of(), &pki, err) ||
        coto_pki_sign_crl(pki, days, err))
        return -1;
    coto_buf_addf(&out, "%s/crl.pem\n", dir_of());
    return coto_tool_print(&out, err);
}

/* ---- list ---- */

static const char *state_of(const struct coto_pki_cert *cert)
{
    if (cert->is_revoked)
        return "revoked";
    if (cert->not_after <= time(NULL))
        return "expired";
    return cert->is_old ? "renewed" : "valid";
}

static const char *purpose_of(const struct coto_pki_cert *cert)
{
    return cert->is_server ? "server" : cert->is_client ? "client" : "other";
}

static void add_json(struct coto_buf *out, const struct coto_pki_list *list)
{
    struct coto_json json = {.out = out, .pretty = true};

    coto_json_begin(&json, NULL, '[');
    for (size_t i = 0; i < list->count; i++) {
        const struct coto_pki_cert *cert = &list->items[i];
        coto_json_begin(&json, NULL, '{');
        coto_json_str(&json, "name", cert->name);
        coto_json_str(&json, "purpose", purpose_of(cert));
        coto_json_str(&json, "state", state_of(cert));
        coto_json_str(&json, "serial", cert->serial);
        coto_json_int(&json, "not_after", cert->not_after);
        coto_json_str(&json, "names", cert->sans);
        coto_json_str(&json, "file", cert->file);
        coto_json_end(&json, '}');
    }
    coto_json_end(&json, ']');
    coto_buf_addc(out, '\n');
}

static void add_table(struct coto_buf *out, const struct coto_pki_list *list)
{
    if (list->count == 0)
        coto_buf_adds(out, "Nothing was issued yet: coto pki issue server|client NAME\n");
    else
        coto_buf_addf(out, "%-20s %-7s %-8s %-24s %-33s %s\n", "NAME", "FOR", "STATE", "UNTIL",
                      "SERIAL", "NAMES");
    for (size_t i = 0; i < list->count; i++) {
        const struct coto_pki_cert *cert = &list->items[i];
        coto_buf_addf(out, "%-20s %-7s %-8s ", cert->name, purpose_of(cert), state_of(cert));
        coto_tool_add_time(out, cert->not_after);
        coto_buf_addf(out, "  %-33s ", cert->serial);
        coto_tool_add_visible(out, cert->sans);
        coto_buf_addc(out, '\n');
    }
}

static int run_list(char **operands, struct coto_err *err)
{
    struct coto_pki_list list = {0};
    coto_auto_buf out = {0};
    auto_pki *pki = NULL;

    (void)operands;
    if (coto_pki_open(dir_of(), &pki, err) || coto_pki_list(pki, &list, err))
        return -1;
    if (opt.json)
        add_json(&out, &list);
    else
        add_table(&out, &list);
    coto_pki_list_fini(&list);
    return coto_tool_print(&out, err);
}

static const struct coto_tool_verb verbs[] = {
    {"init", "[DIR] [--days N]", 0, 1, " dir days ", "make a certificate authority", run_init},
    {"issue", "server|client NAME [--san NAME,...] [--days N] [--renew]", 2, 2,
     " dir san days renew ", "make a key and a certificate", run_issue},
    {"revoke", "NAME|SERIAL", 1, 1, " dir ", "end a certificate before its time", run_revoke},
    {"list", "[--json]", 0, 0, " dir json ", "tell what was issued", run_list},
    {"crl", "[--days N]", 0, 0, " dir days ", "sign the list of what is revoked anew", run_crl},
    {0},
};

int main(int argc, char **argv)
{
    static const struct coto_tool tool = {
        "pki",
        "coto pki is a small certificate authority for coto serve and its clients.",
        "Try: coto pki init pki\n"
        "     coto pki issue server localhost --dir pki\n"
        "     coto pki issue client alice --dir pki",
        verbs,
        flags,
    };

    (void)argc;
    int status = coto_tool_main(&tool, argv);
    coto_strv_fini(&opt.sans);
    return status;
}
