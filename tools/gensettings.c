/* gensettings: docs/SETTINGS.md from the table of settings. tools/check-generated compares the
 * checked-in copy with what this prints. */
#include "schema/settings.h"

#include <stdio.h>
#include <string.h>

static const char head[] =
    "# Settings of coto serve\n"
    "\n"
    "Written from `src/schema/settings.h`. Each is a flag (`--name VALUE`) and a key of the configuration file, which is YAML:\n"
    "`--config FILE`, else `/etc/coto/serve.yaml` when root starts the service and it exists. A flag wins over the file. A file that\n"
    "anybody but root and the user who starts the service could have written is refused. `coto serve --check` reads\n"
    "all of it, keys and certificates included, looks where socket and records are to be, and says what is wrong.\n"
    "\n"
    "SIGHUP reads file, keys and certificates again. *live* changes then; *file*: the named file is read again, also when\n"
    "it is seen to change; *start*: a change needs a restart, and the service says so.\n"
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

int main(void)
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
    return 0;
}
