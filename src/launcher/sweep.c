/* Removing what killed launchers and their boxes have left, in a process of its own, coto-sweep: how much that
 * is, and how long it takes, must not matter to anybody who asks for a sandbox. */
#include "launcher/launcher.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

/* Every descriptor of ours closes by itself at execve. */
static _Noreturn void become_sweeper(void)
{
    char *argv[] = {"coto-sweep", "--sweep", NULL};

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    execve("/proc/self/exe", argv, environ);
    _exit(127);
}

void launcher_sweep_look(struct launcher *l)
{
    if (l->sweeper > 0 && waitpid(l->sweeper, NULL, WNOHANG) != 0)
        l->sweeper = 0;
}

void launcher_sweep(struct launcher *l)
{
    if (l->sweeper > 0)
        return;
    l->sweeper = fork();
    if (l->sweeper == 0)
        become_sweeper();
}

int launcher_sweep_main(void)
{
    prctl(PR_SET_NAME, "coto-sweep");
    for (size_t i = 0; i < coto_driver_count; i++)
        if (coto_drivers[i]->sweep)
            coto_drivers[i]->sweep();
    return 0;
}
