#include "drivers/apparmor_probe.h"

#include "base/own.h"
#include "kernel/apparmor.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

/* Naming a profile is the one way to learn without privilege whether it is loaded. What
 * was named counts for the next execve of the naming process only, which never comes. */
static bool try_profile(const char *name, int *ret_errno)
{
    char label[COTO_APPARMOR_LABEL] = "";
    int status = 0;
    pid_t pid = fork();

    if (pid == 0) {
        coto_auto_fd proc = open("/proc", O_PATH | O_DIRECTORY | O_CLOEXEC);
        if (coto_apparmor_on_exec(proc, name, label))
            _exit(errno);
        _exit(coto_apparmor_is_enforced(label) ? 0 : 255);
    }
    if (pid < 0 || waitpid(pid, &status, 0) < 0)
        status = EAGAIN << 8;
    *ret_errno = WEXITSTATUS(status) == 255 ? 0 : WEXITSTATUS(status);
    return status == 0;
}

void coto_apparmor_probe(struct coto_probe *probe)
{
    const char *name = coto_options[COTO_OPT_APPARMOR].fallback;
    struct coto_wall_state *wall = &probe->walls[COTO_WALL_APPARMOR];
    const char *remedy = "boot with apparmor in the list of lsm=";
    int why = EOPNOTSUPP;

    *wall = (struct coto_wall_state){.up = coto_apparmor_is_on() && try_profile(name, &why)};
    if (wall->up) {
        snprintf(wall->mechanism, sizeof wall->mechanism, "profile");
        return;
    }
    if (!coto_apparmor_is_on()) {
        snprintf(wall->note, sizeof wall->note, "this kernel runs no AppArmor; Landlock does its work");
    } else {
        snprintf(wall->note, sizeof wall->note, "profile '%s' %s", name, coto_apparmor_why(why));
        remedy = "install deploy/apparmor/coto in /etc/apparmor.d and load it: apparmor_parser -r "
                 "/etc/apparmor.d/coto";
    }
    snprintf(probe->remedy[COTO_WALL_APPARMOR], sizeof probe->remedy[COTO_WALL_APPARMOR], "%s", remedy);
}
