/* Runs the saved inputs of one fuzz target as a test (TAP): test_corpus_X DIRECTORY is
 * compiled with the target's LLVMFuzzerTestOneInput. An input that once crashed is
 * put into the directory and never crashes again unseen. */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LARGEST_INPUT (1 << 20)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int not_hidden(const struct dirent *entry)
{
    return entry->d_name[0] != '.';
}

/* The input in memory of its exact size, so that a sanitizer sees a read past it. */
static void run_file(const char *path)
{
    static uint8_t buffer[LARGEST_INPUT];
    FILE *file = fopen(path, "rb");
    size_t size = file ? fread(buffer, 1, sizeof buffer, file) : 0;
    uint8_t *data = malloc(size ? size : 1);

    if (!file || !data) {
        fprintf(stderr, "%s: cannot be read\n", path);
        exit(1);
    }
    fclose(file);
    memcpy(data, buffer, size);
    LLVMFuzzerTestOneInput(data, size);
    free(data);
}

int main(int argc, char **argv)
{
    const char *dir = argc > 1 ? argv[1] : CORPUS_DIR;
    struct dirent **names = NULL;
    int count = scandir(dir, &names, not_hidden, alphasort);

    if (count < 1) {
        fprintf(stderr, "%s: no saved input\n", dir);
        return 1;
    }
    printf("1..%d\n", count);
    for (int i = 0; i < count; i++) {
        char path[4096];
        snprintf(path, sizeof path, "%s/%s", dir, names[i]->d_name);
        fflush(stdout); /* a crash must not take the earlier lines with it */
        run_file(path);
        printf("ok %d - %s\n", i + 1, names[i]->d_name);
        free(names[i]);
    }
    free(names);
    return 0;
}
