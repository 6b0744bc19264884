/* Paths inside the sandbox, as --workdir, --copy, --mount and --tmpfs take them: what
 * is accepted is absolute and normal, stays below its base, and is its own normal
 * form; a mount point is never one of the sandbox's own places. */
#include "policy/plan_int.h"
#include "policy/value.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_normal(const char *path)
{
    size_t len = strlen(path);

    if (path[0] != '/' || len >= 4096 || strstr(path, "//") || strstr(path, "/./") ||
        strstr(path, "/../") || (len > 1 && path[len - 1] == '/'))
        abort();
    if ((len >= 2 && strcmp(path + len - 2, "/.") == 0) ||
        (len >= 3 && strcmp(path + len - 3, "/..") == 0))
        abort();
}

static void check_target(const char *path)
{
    static const char *const own[] = {"/proc", "/dev", "/sys", "/etc", "/usr", "/bin", "/lib"};
    struct coto_err err = {0};

    if (coto_plan_check_target("--mount", path, &err)) {
        if (err.kind != COTO_ERR_POLICY || !err.text[0])
            abort();
        return;
    }
    if (strcmp(path, "/") == 0)
        abort();
    for (size_t i = 0; i < sizeof own / sizeof own[0]; i++)
        if (coto_plan_is_below(path, own[i]))
            abort();
}

static void check_path(const char *text, const char *base)
{
    struct coto_err err = {0};
    char *path = NULL;
    char *again = NULL;

    if (coto_plan_normalise("--copy", text, base, &path, &err)) {
        if (path || err.kind == COTO_ERR_NONE)
            abort();
        return;
    }
    check_normal(path);
    if (text[0] != '/' && !coto_plan_is_below(path, base))
        abort();
    if (coto_plan_normalise("--copy", path, NULL, &again, &err) || strcmp(path, again) != 0)
        abort();
    check_target(path);
    free(again);
    free(path);
}

/* {src} and the like: expansion ends, whatever braces stand where. */
static void check_expand(const char *text)
{
    struct coto_plan_names names = {"/workspace/main.c", "/tmp/out", "/workspace", "/tmp", 1 << 20};
    coto_auto_buf out = {0};

    (void)coto_plan_expand(text, &names, &out);
}

/* The specs themselves: SRC:DST[:ro], PATH[:SIZE]. */
static void check_specs(const char *text)
{
    static const enum coto_opt opts[] = {COTO_OPT_COPY, COTO_OPT_MOUNT, COTO_OPT_TMPFS,
                                         COTO_OPT_WORKDIR, COTO_OPT_USER, COTO_OPT_HOSTNAME};

    for (size_t i = 0; i < sizeof opts / sizeof opts[0]; i++) {
        struct coto_value value = {0};
        struct coto_err err = {0};
        if (coto_value_parse(opts[i], text, "--x", &value, &err) && !err.text[0])
            abort();
        coto_value_fini(&value);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = malloc(size + 1);

    if (!text)
        return 0;
    memcpy(text, data, size);
    text[size] = '\0';
    check_path(text, NULL);
    check_path(text, "/workspace");
    check_expand(text);
    check_specs(text);
    free(text);
    return 0;
}
