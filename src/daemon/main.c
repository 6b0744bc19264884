/* coto serve: the service. */
#include "daemon/keeper.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef SYS_close_range
#define SYS_close_range 436
#endif

/* Descriptors of whoever started us would be passed on to everything here; those of
 * a service manager are counted in LISTEN_FDS. */
static void close_strangers(void)
{
    const char *count = getenv("LISTEN_FDS");
    int n = count ? atoi(count) : 0;

    syscall(SYS_close_range, 3u + (n > 0 ? (unsigned)n : 0), ~0u, 0u);
}

/* The C library keeps what a thread has freed for that thread: of the front's 64 workers that came to two MB that
 * were free, lay on pages that could not be given back, and became more with each day. It takes no such
 * order but from the environment of a start. */
#define TUNABLES "GLIBC_TUNABLES"
#define NO_CACHES "glibc.malloc.tcache_count=0"
static void start_without_caches(char **argv)
{
    char text[4096] = NO_CACHES;
    char name[16] = "";
    const char *now = getenv(TUNABLES);

    prctl(PR_GET_NAME, name);
    prctl(PR_SET_NAME, "coto-serve");
    /* "exe": this is the second start, whatever has become of its environment. With capabilities of its file, or an id of it,
     * the C library takes no such order. */
    if (strcmp(name, "exe") == 0 || getauxval(AT_SECURE))
        return;
    if (now && strstr(now, "tcache_count")) /* the operator's own */
        return;
    if (now && *now && (size_t)snprintf(text, sizeof text, "%s:" NO_CACHES, now) >= sizeof text)
        return;
    if (setenv(TUNABLES, text, 1) == 0)
        execv("/proc/self/exe", argv); /* where that cannot be, with caches */
}

static int help(void)
{
    coto_auto_buf text = {0};

    coto_settings_help(&text);
    return fputs(coto_buf_str(&text), stdout) < 0 ? 73 : 0;
}

int main(int argc, char **argv)
{
    static struct coto_settings settings;
    struct coto_serve_args args;
    struct coto_err err = {0};

    for (int i = 1; i < argc; i++)
        if (strcmp(argv[i], "--check") == 0)
            coto_keeper_is_check();
    if (coto_settings_init(&settings, &err) ||
        coto_settings_load(&settings, argc, argv, &args, &err))
        return coto_keeper_fail(&err);
    if (args.help)
        return help();
    if (args.check ? coto_keeper_check(&settings, &err) : coto_settings_check(&settings, &err))
        return coto_keeper_fail(&err);
    if (args.check)
        return puts("settings, keys and certificates are fine") < 0 ? 73 : 0;
    start_without_caches(argv);
    close_strangers();
    return coto_keeper_run(&settings);
}
