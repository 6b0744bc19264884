/* coto version */
#include "base/json.h"
#include "cli/args.h"
#include "cli/cli.h"
#include "cli/verb.h"

#include <string.h>
#include <sys/utsname.h>

#ifndef COTO_VERSION
#define COTO_VERSION "0.1.0"
#endif

static int print_json(void)
{
    coto_auto_buf out = {0};
    struct coto_json json = {.out = &out, .pretty = true};
    struct utsname host = {0};

    uname(&host);
    coto_json_begin(&json, NULL, '{');
    coto_json_str(&json, "name", "coto");
    coto_json_str(&json, "version", COTO_VERSION);
    coto_json_str(&json, "kernel", host.release);
    coto_json_str(&json, "machine", host.machine);
    coto_json_end(&json, '}');
    return coto_cli_print(&out);
}

int coto_cli_version(int argc, char **argv, char **envp)
{
    bool json = coto_args_want_json(NULL, argv, envp);
    struct coto_err err = {0};
    coto_auto_buf out = {0};

    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0)
            return coto_cli_help_verb("version", NULL);
        if (strcmp(argv[i], "--json") != 0) {
            coto_err_set(&err, COTO_ERR_USAGE, 0, "version: '%.60s' is not known here", argv[i]);
            coto_err_remedy(&err, "coto version [--json]");
            return coto_cli_fail_as(json, &err);
        }
    }
    if (json)
        return print_json();
#ifdef COTO_WEAK
    coto_buf_adds(&out, "weak test build, not for use: ");
#endif
    coto_buf_adds(&out, "coto " COTO_VERSION "\n");
    return coto_cli_print(&out);
}
