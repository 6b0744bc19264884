#include "remote/artifacts.h"

#include "base/fd.h"
#include "base/json.h"
#include "base/outfile.h"
#include "base/own.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

/* KEY; with KEY_base64 beside it where it is not text. */
static int take_bytes(const json_t *object, const char *key, const char *key_base64,
                      struct coto_buf *out)
{
    const json_t *text = json_object_get(object, key);
    const json_t *coded = json_object_get(object, key_base64);

    if (!json_is_string(coded) && json_is_string(text))
        coto_buf_add(out, json_string_value(text), json_string_length(text));
    else if (!json_is_string(coded) ||
             coto_base64_take(out, json_string_value(coded), json_string_length(coded)))
        return -1;
    return out->failed ? -1 : 0;
}

static int fail(const char *name, const char *why, struct coto_err *err)
{
    return coto_err_set(err, COTO_ERR_OUTPUT, 0, "--artifacts: '%.300s': %s", name, why);
}

/* Half a file would be taken for a whole one. */
static int write_file(int dirfd, const char *name, const struct coto_buf *content,
                      struct coto_err *err)
{
    coto_auto_fd fd = coto_outfile_create(dirfd, name);

    if (fd >= 0 && coto_fd_write_all(fd, coto_buf_str(content), content->len) == 0)
        return 0;
    coto_err_set(err, COTO_ERR_OUTPUT, errno, "--artifacts: '%.300s'", name);
    if (fd >= 0)
        coto_outfile_remove(dirfd, name);
    return -1;
}

int coto_remote_artifact(struct coto_remote_artifacts *to, const json_t *artifact,
                         struct coto_err *err)
{
    coto_auto_buf name = {0};
    coto_auto_buf content = {0};

    if (take_bytes(artifact, "name", "name_base64", &name) ||
        !coto_outfile_is_safe(coto_buf_str(&name), name.len))
        return fail(coto_buf_str(&name), "the service sent a name that is none", err);
    if (take_bytes(artifact, "content", "content_base64", &content))
        return fail(coto_buf_str(&name), "larger than what a service sends in an answer", err);
    if (write_file(to->dirfd, coto_buf_str(&name), &content, err))
        return -1;
    if (coto_strv_add(&to->came, coto_buf_str(&name)))
        return coto_err_set(err, COTO_ERR_LIMIT, ENOMEM, "--artifacts");
    return 0;
}

/* In the order of the result: a file of that name may be of an earlier run. */
static bool has_come(struct coto_remote_artifacts *to, const json_t *artifact)
{
    coto_auto_buf name = {0};

    if (to->told == to->came.count || take_bytes(artifact, "name", "name_base64", &name) ||
        strcmp(to->came.items[to->told], coto_buf_str(&name)) != 0)
        return false;
    to->told++;
    return true;
}

int coto_remote_artifacts(struct coto_remote_artifacts *to, const json_t *result,
                          struct coto_err *err)
{
    const json_t *item;
    size_t i;

    json_array_foreach (json_object_get(result, "artifacts"), i, item) {
        bool has_bytes =
            json_object_get(item, "content") || json_object_get(item, "content_base64");
        if ((has_bytes || !has_come(to, item)) && coto_remote_artifact(to, item, err))
            return -1;
    }
    return 0;
}
