/* The library in a process that lives on: one run in which a fault is injected, then one that has
 * to work. Tells after each how many descriptors and children the process has more than before.
 *
 *     library PROBE
 *
 * Linked with alloc.c, so that allocations fail in turn as well. */
#include <coto.h>

#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define CALL_BEGIN 0xfa18 /* see inject.c */
#define CALL_END 0xfa19

static int open_descriptors(void)
{
    DIR *dir = opendir("/proc/self/fd");
    int count = 0;

    while (dir && readdir(dir))
        count++;
    if (dir)
        closedir(dir);
    return count;
}

static void tell(const char *name, int failed, coto_result *result, const struct coto_error *error)
{
    size_t len = 0;

    if (failed)
        printf("%s error %d %s\n", name, error->exit_code, error->message);
    else
        printf("%s %s %d\n", name, coto_result_verdict(result),
               strncmp(coto_result_stdout(result, &len), "landlock", 8) == 0);
    coto_result_free(result);
}

int main(int argc, char **argv)
{
    const char *command[] = {"./probe", NULL};
    struct coto_error error = {0};
    coto_request *request = coto_request_new();
    char copy[4096];
    int status = 1;

    snprintf(copy, sizeof copy, "%s:probe", argc > 1 ? argv[1] : "");
    if (coto_request_set(request, "copy", copy, &error) ||
        coto_request_command(request, command, &error)) {
        fprintf(stderr, "library: %s\n", error.message);
        return 64;
    }
    setvbuf(stdout, NULL, _IOLBF, 0);
    int before = open_descriptors();
    for (int i = 0; i < 2; i++) {
        coto_result *result = NULL;
        memset(&error, 0, sizeof error);
        if (i == 0)
            syscall(CALL_BEGIN);
        int failed = coto_run(request, &result, &error);
        if (i == 0)
            syscall(CALL_END);
        tell(i ? "second" : "first", failed, result, &error);
        printf("descriptors %d children %d\n", open_descriptors() - before,
               waitpid(-1, &status, WNOHANG));
    }
    coto_request_free(request);
    return 0;
}
