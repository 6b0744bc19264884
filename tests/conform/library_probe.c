/* Uses every function of coto.h; test_library.py looks at what it prints. One case
 * per call: library_probe CASE [ARGUMENT]. */
#include <coto.h>

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static struct coto_error error;

static int run(const coto_request *request, coto_result **ret_result)
{
    *ret_result = NULL;
    if (coto_run(request, ret_result, &error) == 0)
        return 0;
    printf("error %s %d: %s | %s\n", error.kind, error.exit_code, error.message, error.remedy);
    return -1;
}

static void tell(const coto_result *result)
{
    size_t out_len;
    size_t err_len;
    const char *out = coto_result_stdout(result, &out_len);
    const char *err = coto_result_stderr(result, &err_len);

    printf("%s code=%d signal=%d status=%d out=%zu[%s] err=%zu[%s]\n", coto_result_verdict(result),
           coto_result_exit_code(result), coto_result_signal(result),
           coto_result_exit_status(result), out_len, out, err_len, err);
}

static int run_and_tell(const coto_request *request)
{
    coto_result *result;

    if (run(request, &result))
        return 1;
    tell(result);
    coto_result_free(result);
    return 0;
}

static int shell(coto_request *request, const char *script)
{
    const char *argv[] = {"sh", "-c", script, NULL};

    return coto_request_command(request, argv, &error) || run_and_tell(request);
}

static int case_code(coto_request *request)
{
    static const char code[] = "import sys; print('\\0out', *sys.argv[1:]); sys.exit(3)";
    const char *arguments[] = {"a", "b c", NULL};

    return coto_request_code(request, "python", code, sizeof code - 1, &error) ||
           coto_request_arguments(request, arguments, &error) || run_and_tell(request);
}

static int case_file(coto_request *request, const char *path)
{
    return coto_request_file(request, path, &error) || run_and_tell(request);
}

static int case_signal(coto_request *request)
{
    return shell(request, "kill -SEGV $$");
}

static int case_timeout(coto_request *request)
{
    return coto_request_set(request, "timeout", "300ms", &error) || shell(request, "sleep 60");
}

/* The later scalar wins, items of a map add up, and a bad value changes nothing. */
static int case_settings(coto_request *request)
{
    const char *bad[][2] = {{"memory", "lots"}, {"memroy", "64m"}, {"json", "true"}};

    for (size_t i = 0; i < 3; i++) {
        error = (struct coto_error){0};
        if (coto_request_set(request, bad[i][0], bad[i][1], &error) == 0)
            return 1;
        printf("refused %s: %s | %s\n", error.kind, error.message, error.remedy);
    }
    if (coto_request_profile(request, "no-such-profile", &error) == 0)
        return 1;
    printf("refused %s: %s\n", error.kind, error.message);
    if (coto_request_set(request, "memory", "bad", NULL) == 0)
        return 1;
    return coto_request_set(request, "hostname", "first", &error) ||
           coto_request_set(request, "hostname", "second", &error) ||
           coto_request_set(request, "env", "A=1", &error) ||
           coto_request_set(request, "env", "B=2", &error) ||
           shell(request, "echo $(uname -n) $A $B");
}

/* Weak to strong: profile, environment, file, set. */
static int case_sources(coto_request *request, const char *policy_file)
{
    setenv("COTO_HOSTNAME", "from-environment", 1);
    setenv("COTO_USER_NAME", "from-environment", 1);
    if (shell(request, "echo $(uname -n) $USER $A"))
        return 1;
    coto_request_use_environment(request, true);
    if (shell(request, "echo $(uname -n) $USER $A") ||
        coto_request_policy_file(request, policy_file, &error) ||
        shell(request, "echo $(uname -n) $USER $A") ||
        coto_request_set(request, "env", "A=set", &error) ||
        shell(request, "echo $(uname -n) $USER $A") ||
        coto_request_policy_file(request, "/nonexistent/policy.yaml", &error))
        return 1;
    shell(request, "true");
    return coto_request_policy_file(request, NULL, &error) ||
           coto_request_profile(request, "enis", &error) || shell(request, "true");
}

/* Bytes go through the caller's descriptors, captured or not. */
static int case_streams(coto_request *request)
{
    int in[2];
    int out[2];
    char text[64] = "";

    if (pipe(in) || pipe(out) || write(in[1], "from the caller", 15) != 15)
        return 1;
    close(in[1]);
    coto_request_stdin(request, in[0]);
    coto_request_stdout(request, out[1]);
    coto_request_capture(request, false);
    if (shell(request, "cat; echo to stderr >&2") || read(out[0], text, sizeof text - 1) < 0)
        return 1;
    printf("pipe [%s]\n", text);
    coto_request_stdin(request, -1);
    coto_request_capture(request, true);
    memset(text, 0, sizeof text);
    if (shell(request, "echo both; cat; echo stderr >&2") || read(out[0], text, sizeof text - 1) < 0)
        return 1;
    printf("pipe [%s]\n", text);
    return 0;
}

/* A reader that goes away must not kill the caller with SIGPIPE. */
static int case_reader_gone(coto_request *request)
{
    int out[2];

    if (pipe(out))
        return 1;
    close(out[0]);
    coto_request_stdout(request, out[1]);
    coto_request_set(request, "timeout", "5s", &error);
    if (shell(request, "head -c 10000000 /dev/zero; true"))
        return 1;
    sigset_t pending;
    sigpending(&pending);
    printf("pending=%d handler=%d\n", sigismember(&pending, SIGPIPE),
           signal(SIGPIPE, SIG_DFL) != SIG_DFL);
    return 0;
}

static int case_cancel(coto_request *request)
{
    int cancel[2];

    if (pipe(cancel))
        return 1;
    coto_request_cancel(request, cancel[0]);
    if (fork() == 0) {
        usleep(200000);
        _exit(write(cancel[1], "x", 1) != 1);
    }
    int failed = shell(request, "sleep 60");
    wait(NULL);
    return failed;
}

static int case_json(coto_request *request)
{
    const char *argv[] = {"sh", "-c", "echo hello; echo made > output/a.txt", NULL};
    coto_result *result;

    if (coto_request_command(request, argv, &error) || run(request, &result))
        return 1;
    char *json = coto_result_json(result);
    coto_result_free(result);
    coto_request_free(NULL);
    coto_result_free(NULL);
    puts(json); /* outlives the result */
    free(json);
    return 0;
}

static int case_artifacts(coto_request *request, const char *dir)
{
    char report[4096];

    snprintf(report, sizeof report, "%s-report", dir);
    return coto_request_set(request, "artifacts", dir, &error) ||
           coto_request_set(request, "report", report, &error) ||
           shell(request, "echo made > output/a.txt");
}

static int case_errors(coto_request *request)
{
    const char *empty[] = {NULL};
    coto_result *result;

    run(request, &result);
    if (coto_request_command(request, empty, &error) == 0)
        return 1;
    printf("refused %s: %s\n", error.kind, error.message);
    shell(request, "true");
    const char *missing[] = {"/no/such/program", NULL};
    coto_request_command(request, missing, &error);
    run(request, &result);
    coto_request_file(request, "/nonexistent/file.py", &error);
    run(request, &result);
    coto_request_code(request, "klingon", "Qapla'", 6, &error);
    run(request, &result);
    coto_request_set(request, "mount", "/etc:/data", &error);
    shell(request, "true");
    close(0);
    shell(request, "true");
    return 0;
}

static int open_descriptors(void)
{
    DIR *dir = opendir("/proc/self/fd");
    int count = 0;

    while (dir && readdir(dir))
        count++;
    closedir(dir);
    return count;
}

/* Nothing is left in the caller after many runs, good and bad. */
static int case_leftovers(coto_request *request)
{
    const char *good[] = {"true", NULL};
    const char *bad[] = {"/no/such/program", NULL};
    coto_result *result;
    int before = open_descriptors();

    for (int i = 0; i < 20; i++) {
        coto_request_command(request, i % 2 ? good : bad, &error);
        if (coto_run(request, &result, &error) == 0)
            coto_result_free(result);
    }
    printf("descriptors %d children %d\n", open_descriptors() - before, wait(NULL));
    return 0;
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        int (*run)(coto_request *request);
        int (*run_with)(coto_request *request, const char *argument);
    } cases[] = {
        {"code", case_code, NULL},
        {"file", NULL, case_file},
        {"signal", case_signal, NULL},
        {"timeout", case_timeout, NULL},
        {"settings", case_settings, NULL},
        {"sources", NULL, case_sources},
        {"streams", case_streams, NULL},
        {"reader_gone", case_reader_gone, NULL},
        {"cancel", case_cancel, NULL},
        {"json", case_json, NULL},
        {"artifacts", NULL, case_artifacts},
        {"errors", case_errors, NULL},
        {"leftovers", case_leftovers, NULL},
    };
    coto_request *request = coto_request_new();
    int status = 64;

    setvbuf(stdout, NULL, _IONBF, 0);
    for (size_t i = 0; argc > 1 && i < sizeof cases / sizeof cases[0]; i++)
        if (strcmp(cases[i].name, argv[1]) == 0)
            status = cases[i].run ? cases[i].run(request)
                                  : cases[i].run_with(request, argc > 2 ? argv[2] : "");
    if (status)
        printf("failed %s %s\n", error.kind ? error.kind : "", error.message);
    coto_request_free(request);
    return status;
}
