/* Text of procfs and cgroupfs, as kernels of any version (or something mounted in
 * their place) may write it. */
#include "kernel/cgroup_text.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_lines(char *text, size_t size)
{
    char *cursor = text;
    char *last = text;
    char *names;
    char *path;

    while (coto_cgroup_text_line(&cursor, &names, &path)) {
        /* Both inside the text, in order, and each line further than the one before. */
        if (names < last || path <= names || path > text + size || strchr(path, '\n') ||
            strchr(names, ':') || names + strlen(names) + 1 != path)
            abort();
        last = path;
        (void)coto_cgroup_text_has(names, "memory");
    }
}

/* A word that is found stands there as a whole. */
static void check_words(const char *text)
{
    static const char *const words[] = {"memory", "pids", "cpu", "cpuacct", "io", "blkio"};

    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (coto_cgroup_text_has(text, words[i]) && !strstr(text, words[i]))
            abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const keys[] = {"oom_kill", "usage_usec", "user_usec", "max", ""};
    char *text = malloc(size + 1);

    if (!text)
        return 0;
    memcpy(text, data, size);
    text[size] = '\0';
    (void)coto_cgroup_text_num(text);
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++)
        if (coto_cgroup_text_key(text, keys[i]) != -1 && !strstr(text, keys[i]))
            abort();
    check_words(text);
    check_lines(text, size);
    free(text);
    return 0;
}
