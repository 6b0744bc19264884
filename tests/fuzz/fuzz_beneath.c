/* Names a stranger chose, as --copy, artifacts and coto-init's files use them: whatever
 * is opened or made lies below the directory, whatever links lie there. */
#include "scratch.h"

#include <stdint.h>

#define NAME_BYTES 512 /* each directory of it is really made */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void try_open(int root, const char *name, int flags)
{
    coto_auto_fd fd = coto_path_open_beneath(root, name, flags | O_NONBLOCK, 0600);

    if (fd >= 0)
        scratch_check(fd);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    int root = scratch_root();
    char *name = malloc(size + 1);

    if (!name || size > NAME_BYTES) {
        free(name);
        return 0;
    }
    memcpy(name, data, size);
    name[size] = '\0';
    try_open(root, name, O_PATH);
    try_open(root, name, O_RDONLY | O_DIRECTORY);
    if (coto_path_make_parents(root, name, 0700) == 0)
        try_open(root, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW);
    /* What was made goes again; links in the way are not followed. */
    char *first = name + strspn(name, "/");
    first[strcspn(first, "/")] = '\0';
    if (first[0] && strcmp(first, "a") != 0 && strcmp(first, "out") != 0 && first == name &&
        strcmp(first, ".") != 0 && strcmp(first, "..") != 0)
        coto_path_remove_tree(root, first);
    scratch_check_outside();
    free(name);
    return 0;
}
