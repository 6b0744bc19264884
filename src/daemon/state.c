#include "daemon/state.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *absolute(const char *name)
{
    const char *value = getenv(name);

    return value && value[0] == '/' ? value : NULL;
}

int coto_state_dir(const char *given, char *to, size_t size, struct coto_err *err)
{
    const char *systemd = absolute("STATE_DIRECTORY");
    const char *state = absolute("XDG_STATE_HOME");
    const char *home = absolute("HOME");
    int len = -1;

    if (given && given[0] != '/') {
        coto_err_set(err, COTO_ERR_USAGE, 0, "--state-dir '%s': must be an absolute path", given);
        return -1;
    }
    if (given || systemd)
        len = snprintf(to, size, "%s", given ? given : systemd);
    else if (getuid() == 0)
        len = snprintf(to, size, "/var/lib/coto/serve");
    else if (state)
        len = snprintf(to, size, "%s/coto", state);
    else if (home)
        len = snprintf(to, size, "%s/.local/state/coto", home);
    if (len > 0 && (size_t)len < size)
        return 0;
    coto_err_set(err, COTO_ERR_USAGE, 0, "no place for the service's state: HOME is not set");
    return coto_err_remedy(err, "use --state-dir DIR");
}
