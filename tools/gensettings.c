/* gensettings md|man: docs/SETTINGS.md or man/coto-serve.1 from the table of settings. tools/check-generated compares the
 * checked-in copies with what this prints. */
#include "base/err.h"
#include "schema/settings.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

static const char head[] =
    "# Settings of coto serve\n"
    "\n"
    "Written from `src/schema/settings.h`. Each is a flag (`--name VALUE`) and a key of the configuration file, which is YAML:\n"
    "`--config FILE`, else `/etc/coto/serve.yaml` when root starts the service and it exists. A flag wins over the file. `coto serve --check` reads\n"
    "all of it, keys and certificates included, looks where socket and records are to be, takes and lets go the addresses, and says what is wrong; of a level high\n"
    "that was set up and cannot be had it warns, as a start does.\n"
    "\n"
    "SIGHUP reads file, keys and certificates again. *live* changes then; *file*: the file that is named then is read, and again when\n"
    "it is seen to change; *start*: a change needs a restart, and the service says so.\n"
    "\n"
    "Files that decide who is let in (the configuration, `tls-certificate`, `tls-key`, `client-ca`, `client-crl`, `jwt-key`, `callback-key`) must belong to root or to the\n"
    "user who starts the service, and nobody else may be able to write to them or to their directory; a sticky one, as /tmp is, will do.\n"
    "\n"
    "| setting | value | default | changes | meaning |\n"
    "|---|---|---|---|---|\n";

/* A bar would end the cell. */
static void print_cell(const char *text)
{
    for (; *text; text++)
        if (*text == '|')
            fputs("\\|", stdout);
        else
            putchar(*text);
}

static void print_md(void)
{
    static const char *const when[] = {"start", "live", "file"};

    fputs(head, stdout);
    for (int i = 0; i < COTO_SET_COUNT; i++) {
        const struct coto_setting_info *info = &coto_setting_infos[i];
        printf("| `%s` | ", info->name);
        print_cell(info->metavar);
        printf(" | %s | %s | ", info->def, when[info->when]);
        print_cell(info->help);
        puts(" |");
    }
}

/* ---- the man page ---- */

static const char man_head[] =
    ".\\\" Made by tools/gensettings from src/schema; do not edit.\n"
    ".Dd November 18, 2026\n.Dt COTO-SERVE 1\n.Os\n.Sh NAME\n.Nm coto-serve\n"
    ".Nd sandboxes over HTTP\n"
    ".Sh SYNOPSIS\n.Nm coto serve\n.Op Fl Fl config Ar FILE\n.Op Fl Fl check\n.Op Fl Fl Ar SETTING VALUE ...\n"
    ".Sh DESCRIPTION\n"
    ".Nm coto serve\nruns programs in sandboxes for whoever asks over HTTP.\n"
    "Without any setting it listens on a unix socket for the user who starts it, and on 127.0.0.1:8640 for whoever\n"
    "has the token that it makes at its start; its first lines tell where both are.\n"
    "Nothing listens for other hosts without TLS, client certificates and tokens.\n"
    "What it answers is told by\n.Pa /openapi.json .\n"
    ".Bl -tag -width Ds\n"
    ".It Fl Fl config Ar FILE\n"
    "settings in YAML; a flag wins over the file.\n"
    ".It Fl Fl check\n"
    "reads settings, keys and certificates, says what is wrong with them, and ends.\n"
    ".El\n"
    ".Sh SETTINGS\n"
    "Each is a flag and a key of the file.\n"
    "Those with\n.Dq live\nchange at SIGHUP; of those with\n.Dq file\nthe file they name is read again then, and when it\n"
    "is seen to change; the others need a restart.\n"
    ".Bl -tag -width Ds\n";

static const char man_signals[] =
    ".El\n"
    ".Sh SIGNALS\n.Bl -tag -width Ds\n"
    ".It Dv SIGTERM , SIGINT\n"
    "it waits for what runs as long as the setting\n.Ar drain\nsays, ends the rest, and ends with status 0.\n"
    "A second one does not wait.\n"
    ".It Dv SIGHUP\n"
    "reads settings, keys and certificates again.\n"
    "A file with an error changes nothing; what needs a restart is named.\n"
    ".El\n"
    ".Sh FILES\n.Bl -tag -width Ds\n"
    ".It Pa /etc/coto/serve.yaml\n"
    "settings, when root starts it and there is no\n.Fl Fl config .\n"
    ".It Pa /run/coto/api.sock\nthe socket, 0600.\n"
    ".It Pa /run/coto/token\nthe token of the port on 127.0.0.1, 0600, another one at each start.\n"
    ".It Pa /var/lib/coto/serve\nrecords of sandboxes and executions.\n"
    ".El\n.Pp\n"
    "Where an ordinary user starts it the first is not read, those of\n.Pa /run/coto\nare in\n"
    ".Pa $XDG_RUNTIME_DIR/coto ,\nelse in\n.Pa /tmp/coto-UID ,\nand records in\n.Pa ~/.local/state/coto .\n"
    ".Sh EXIT STATUS\n"
    "0 when a signal ended it, or when\n.Fl Fl check\nfound nothing wrong.\n"
    "70 when one of its processes ended twenty times in a minute.\n"
    "Otherwise it could not start, and says why:\n"
    ".Bl -tag -width Ds\n";

static const char man_end[] =
    ".El\n"
    ".Sh EXAMPLES\n.Bd -literal\n"
    "coto serve &\n"
    "curl \\-\\-unix\\-socket /run/coto/api.sock http://coto/api/v1/run \\-d '{\"code\": \"print(2+2)\"}'\n"
    "coto run \\-\\-server unix:/run/coto/api.sock script.py\n"
    ".Ed\n"
    ".Sh SEE ALSO\n.Xr coto 1 ,\n.Xr coto-image 1 ,\n.Xr coto-pki 1 ,\n.Xr coto-token 1\n.Pp\ndocs/SERVICE.md, docs/API.md";

static void print_roff(const char *text)
{
    if (*text == '.' || *text == '\'')
        fputs("\\&", stdout);
    for (; *text; text++)
        if (*text == '\\')
            fputs("\\e", stdout);
        else if (*text == '-')
            fputs("\\-", stdout);
        else if (*text == '"')
            fputs("\\(dq", stdout);
        else
            putchar(*text);
}

static void print_man_setting(const struct coto_setting_info *info)
{
    static const char *const when[] = {"", "; live", "; file"};

    printf(".It Fl Fl %s Ar \"", info->name);
    print_roff(info->metavar);
    puts("\"");
    print_roff(info->help);
    if (*info->def || info->when)
        printf(" (%s%s%s)", *info->def ? "default " : "", info->def, *info->def ? when[info->when] : when[info->when] + 2);
    puts(".");
}

static void print_man(void)
{
    /* Those that a start can end with; the others are of runs. */
    static const int kinds[] = {COTO_ERR_USAGE, COTO_ERR_POLICY, COTO_ERR_INPUT, COTO_ERR_FORBIDDEN, COTO_ERR_UNAVAILABLE,
                                COTO_ERR_INTERNAL, COTO_ERR_SYSTEM, COTO_ERR_OUTPUT, COTO_ERR_LIMIT};

    fputs(man_head, stdout);
    for (int i = 0; i < COTO_SET_COUNT; i++)
        print_man_setting(&coto_setting_infos[i]);
    fputs(man_signals, stdout);
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        printf(".It %d\n", coto_err_info(kinds[i])->exit_code);
        print_roff(coto_err_info(kinds[i])->doc);
        puts(".");
    }
    puts(man_end);
}

int main(int argc, char **argv)
{
    bool is_man = argc == 2 && strcmp(argv[1], "man") == 0;

    (is_man ? print_man : print_md)();
    return fflush(stdout) ? 1 : 0;
}
