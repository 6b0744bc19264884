/* A program that runs somebody else's Python through libcoto.
 *
 *   cc embed.c $(pkg-config --cflags --libs coto) -o embed && ./embed
 */
#include <coto.h>

#include <stdio.h>

static int complain(const struct coto_error *error)
{
    fprintf(stderr, "embed: %s: %s\n", error->kind, error->message);
    if (error->remedy[0])
        fprintf(stderr, "  remedy: %s\n", error->remedy);
    return error->exit_code;
}

static void show(const coto_result *result)
{
    size_t len;
    const char *text = coto_result_stdout(result, &len);

    printf("verdict: %s\n", coto_result_verdict(result));
    printf("exit code: %d\n", coto_result_exit_code(result));
    printf("stdout: ");
    fwrite(text, 1, len, stdout);
}

int main(void)
{
    static const char code[] = "print(2+2)";
    coto_request *request = coto_request_new();
    coto_result *result = NULL;
    struct coto_error error;
    int status;

    if (!request)
        return 75;
    if (coto_request_code(request, "python", code, sizeof code - 1, &error) ||
        coto_request_set(request, "memory", "128m", &error) ||
        coto_request_set(request, "timeout", "10s", &error) ||
        coto_run(request, &result, &error)) {
        status = complain(&error);
    } else {
        show(result);
        status = coto_result_exit_status(result);
    }
    coto_result_free(result);
    coto_request_free(request);
    return status;
}
