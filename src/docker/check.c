/* Reading the flags back: every value that was asked for is looked up in what inspect shows. */
#include "docker/container.h"

#include "wire/docker.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#define PATH_ROOM 200

static int differs(const char *path, const json_t *want, const json_t *got, struct coto_err *err)
{
    char *wanted = want ? json_dumps(want, JSON_ENCODE_ANY | JSON_COMPACT) : NULL;
    char *found = got ? json_dumps(got, JSON_ENCODE_ANY | JSON_COMPACT) : NULL;

    coto_err_set(
        err, COTO_ERR_WALL, 0,
        "docker: the engine made another container than was asked for: %s is %.80s, not %.80s",
        path, found ? found : "absent", wanted ? wanted : "?");
    free(wanted);
    free(found);
    return coto_err_remedy(err, "nothing was run; look at the engine's own settings (daemon.json) "
                                "and version");
}

static bool is_nothing(const json_t *value)
{
    return !value || json_is_null(value) || json_is_false(value) ||
           (json_is_integer(value) && json_integer_value(value) == 0) ||
           (json_is_string(value) && json_string_length(value) == 0) ||
           (json_is_array(value) && json_array_size(value) == 0) ||
           (json_is_object(value) && json_object_size(value) == 0);
}

/* Engines write capabilities with and without their prefix. */
static const char *bare(const char *word)
{
    return strncasecmp(word, "CAP_", 4) == 0 ? word + 4 : word;
}

static int same(const char *path, const json_t *want, const json_t *got, struct coto_err *err);

static int same_list(const char *path, const json_t *want, const json_t *got, struct coto_err *err)
{
    size_t n = json_array_size(want);

    if (!json_is_array(got) || json_array_size(got) != n)
        return differs(path, want, got, err);
    for (size_t i = 0; i < n; i++)
        if (same(path, json_array_get(want, i), json_array_get(got, i), err))
            return -1;
    return 0;
}

/* Keys that were not asked for are the engine's defaults or the image's labels; what would be
 * a hole among them is asked for by name. Only extra places to write to have any name. */
static int same_object(const char *path, const json_t *want, const json_t *got,
                       struct coto_err *err)
{
    const char *dot = strrchr(path, '.');
    bool whole = strcmp(dot ? dot + 1 : path, "Tmpfs") == 0;
    const char *key;
    json_t *value;

    if (!json_is_object(got) || (whole && json_object_size(got) != json_object_size(want)))
        return differs(path, want, got, err);
    json_object_foreach ((json_t *)want, key, value) {
        char below[PATH_ROOM];
        snprintf(below, sizeof below, "%s.%s", path, key);
        if (same(below, value, json_object_get(got, key), err))
            return -1;
    }
    return 0;
}

/* A kernel without swap accounting: engines drop that limit and say so; the driver tells it. */
static bool is_swap_dropped(const char *path, const json_t *got)
{
    return strcmp(path, "HostConfig.MemorySwap") == 0 && json_integer_value(got) == -1;
}

static int same(const char *path, const json_t *want, const json_t *got, struct coto_err *err)
{
    if (is_swap_dropped(path, got))
        return 0;
    if (is_nothing(want))
        return is_nothing(got) ? 0 : differs(path, want, got, err);
    if (json_is_object(want))
        return same_object(path, want, got, err);
    if (json_is_array(want))
        return same_list(path, want, got, err);
    if (json_is_string(want) && json_is_string(got) &&
        strcasecmp(bare(json_string_value(want)), bare(json_string_value(got))) == 0)
        return 0;
    return json_equal(want, got) ? 0 : differs(path, want, got, err);
}

/* What is mounted beside the tmpfs of the spec: coto-init, read-only, and nothing else. An
 * image that declares a volume would get a writable one without a limit. */
static int check_mounts(const json_t *shown, struct coto_err *err)
{
    const json_t *mounts = json_object_get(shown, "Mounts");
    bool has_init = false;

    for (size_t i = 0; i < json_array_size(mounts); i++) {
        const json_t *mount = json_array_get(mounts, i);
        const char *at = json_string_value(json_object_get(mount, "Destination"));
        if (at && strcmp(at, COTO_DOCKER_INIT) == 0 &&
            json_is_false(json_object_get(mount, "RW"))) {
            has_init = true;
            continue;
        }
        coto_err_set(err, COTO_ERR_WALL, 0, "docker: the container would have a volume at '%.100s'",
                     at ? at : "?");
        return coto_err_remedy(err,
                               "use an image without VOLUME: it could be written without limit");
    }
    return has_init ? 0
                    : coto_err_set(err, COTO_ERR_INTERNAL, 0, "docker: coto-init is not mounted");
}

static int check_masks(const json_t *shown, struct coto_err *err)
{
    static const char *const lists[] = {"MaskedPaths", "ReadonlyPaths"};
    const json_t *host = json_object_get(shown, "HostConfig");

    for (size_t i = 0; i < 2; i++)
        if (json_array_size(json_object_get(host, lists[i])) == 0) {
            coto_err_set(err, COTO_ERR_WALL, 0, "docker: HostConfig.%s is empty", lists[i]);
            return coto_err_remedy(
                err, "nothing was run; the engine must hide what /proc tells of the host");
        }
    return 0;
}

int container_check(const json_t *spec, const json_t *shown, struct coto_err *err)
{
    const char *key;
    json_t *value;

    json_object_foreach ((json_t *)spec, key, value) {
        char path[PATH_ROOM];
        bool host = strcmp(key, "HostConfig") == 0;
        snprintf(path, sizeof path, "%s%s", host ? "" : "Config.", key);
        const json_t *got = host ? json_object_get(shown, key)
                                 : json_object_get(json_object_get(shown, "Config"), key);
        if (same(path, value, got, err))
            return -1;
    }
    return check_mounts(shown, err) || check_masks(shown, err) ? -1 : 0;
}
