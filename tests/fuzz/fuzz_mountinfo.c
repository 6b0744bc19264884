/* Text of mountinfo, which names directories as anybody who may mount calls them; and what it says of
 * the other names of a path. */
#include "base/mountinfo.h"
#include "policy/plan_int.h"

#include <stdlib.h>
#include <string.h>

#define MOUNTS_MAX 32

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool holds)
{
    if (!holds)
        abort();
}

static char *copy_text(const uint8_t *data, size_t size)
{
    char *text = malloc(size + 1);

    if (!text)
        exit(1);
    if (size)
        memcpy(text, data, size);
    text[size] = '\0';
    return text;
}

static bool is_inside(const char *piece, const char *text, size_t size)
{
    return piece >= text && piece + strlen(piece) <= text + size;
}

static size_t read_all(char *text, size_t size, struct coto_mount *mounts)
{
    char *cursor = text;
    const char *before = text;
    size_t count = 0;

    while (count < MOUNTS_MAX && coto_mountinfo_next(&cursor, &mounts[count])) {
        const struct coto_mount *it = &mounts[count++];
        must(it->id >= 0 && it->dev >= before && it->dev < it->root && it->root < it->point &&
             it->point < it->options && is_inside(it->options, text, size));
        must(it->dev + strlen(it->dev) < it->root && it->root + strlen(it->root) < it->point);
        must(!strpbrk(it->dev, " \n") && !strpbrk(it->options, " \n") && *it->options);
        must(!coto_mount_is_read_only(it) || strncmp(it->options, "ro", 2) == 0);
        before = it->options;
    }
    return count;
}

/* As the kernel does it. */
static void add_escaped(struct coto_buf *buf, const char *text)
{
    for (; *text; text++)
        coto_buf_addf(buf, strchr(" \t\n\\", *text) ? "\\%03o" : "%c", (unsigned char)*text);
}

/* What was read and is written again reads the same. */
static void check_stable(const struct coto_mount *it)
{
    coto_auto_buf line = {0};
    struct coto_mount again;

    if (!*it->root || !*it->point)
        return; /* the kernel writes no empty name */
    coto_buf_addf(&line, "%d 1 %s ", it->id, it->dev);
    add_escaped(&line, it->root);
    coto_buf_adds(&line, " ");
    add_escaped(&line, it->point);
    coto_buf_addf(&line, " %s - x y z\n", it->options);
    char *cursor = line.data;
    must(coto_mountinfo_next(&cursor, &again));
    must(again.id == it->id && strcmp(again.dev, it->dev) == 0 && strcmp(again.root, it->root) == 0 &&
         strcmp(again.point, it->point) == 0 && strcmp(again.options, it->options) == 0);
}

static bool is_normal(const char *path)
{
    size_t len = strlen(path);

    return path[0] == '/' && !strstr(path, "//") && (len == 1 || path[len - 1] != '/');
}

/* A name by another mount lies below it, and leads back to the same place. */
static void check_names(const struct coto_mount *own, const struct coto_mount *other)
{
    coto_auto_buf path = {0};
    coto_auto_buf name = {0};
    coto_auto_buf back = {0};

    if (!is_normal(own->root) || !is_normal(own->point) || !is_normal(other->root) ||
        !is_normal(other->point))
        return; /* the kernel's are */
    coto_buf_addf(&path, "%s/a/b", strcmp(own->point, "/") == 0 ? "" : own->point);
    if (!coto_plan_other_name(own, other, coto_buf_str(&path), &name))
        return;
    must(strcmp(own->dev, other->dev) == 0);
    must(coto_plan_is_below(coto_buf_str(&name), other->point));
    must(coto_plan_other_name(other, own, coto_buf_str(&name), &back));
    must(strcmp(coto_buf_str(&back), coto_buf_str(&path)) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct coto_mount mounts[MOUNTS_MAX];
    char *text = copy_text(data, size);
    size_t count = read_all(text, size, mounts);

    for (size_t i = 0; i < count; i++) {
        check_stable(&mounts[i]);
        for (size_t k = 0; k < count; k++)
            check_names(&mounts[i], &mounts[k]);
    }
    free(text);
    return 0;
}
