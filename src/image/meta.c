#include "image/image.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

const char *image_meta_str(const json_t *meta, const char *key)
{
    const char *text = json_string_value(json_object_get(meta, key));

    return text ? text : "";
}

json_t *image_meta_load(int image, struct coto_err *err)
{
    coto_auto_fd fd = coto_path_open_beneath(image, "image.json", O_RDONLY, 0);
    coto_auto_buf text = {0};
    json_t *meta = NULL;

    if (fd < 0 || coto_fd_read_all(fd, IMAGE_JSON_MAX, &text) || text.failed ||
        image_json_parse(coto_buf_str(&text), text.len, &meta)) {
        coto_err_set(err, COTO_ERR_INPUT, fd < 0 ? errno : 0, "image: image.json");
        coto_err_remedy(err, "remove the image and import it again");
        return NULL;
    }
    return meta;
}

int image_meta_add_tree(json_t *meta, int root, struct coto_err *err)
{
    struct image_packages packages = {0};

    if (image_packages_read(root, &packages, err))
        return -1;
    int failed = json_object_set_new(meta, "packages", json_integer((json_int_t)packages.count)) ||
                 json_object_set_new(meta, "system",
                                     packages.pretty ? json_string(packages.pretty) : json_null());
    image_packages_fini(&packages);
    return failed ? coto_err_set(err, COTO_ERR_LIMIT, ENOMEM, "image") : 0;
}
