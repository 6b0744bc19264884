/* spawn SECONDS PROGRAM ARGUMENT...: starts a program again and again, its output thrown away, and
 * prints the milliseconds of each. In C, so that what is measured is the program and not who starts it. */
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>

extern char **environ;

static double now_s(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

int main(int argc, char **argv)
{
    posix_spawn_file_actions_t actions;
    double end = now_s() + (argc > 1 ? atof(argv[1]) : 0);
    int status;
    pid_t pid;

    if (argc < 3 || posix_spawn_file_actions_init(&actions) ||
        posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", O_WRONLY, 0))
        return 64;
    for (double began = now_s(); began < end; began = now_s()) {
        if (posix_spawn(&pid, argv[2], &actions, NULL, argv + 2, environ) || waitpid(pid, &status, 0) != pid || status)
            return 1;
        printf("%.6f\n", (now_s() - began) * 1000);
    }
    return 0;
}
