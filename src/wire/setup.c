#include "wire/setup.h"

#include <stdlib.h>
#include <string.h>

static void encode_path(const struct coto_setup_path *path, struct coto_buf *out)
{
    coto_frame_add_text(out, COTO_TAG_S_SOURCE, path->source);
    coto_frame_add_text(out, COTO_TAG_S_TARGET, path->target ? path->target : "/");
    coto_frame_add_num(out, COTO_TAG_S_DEV, path->dev);
    coto_frame_add_num(out, COTO_TAG_S_INO, path->ino);
    coto_frame_add_num(out, COTO_TAG_S_MODE, path->mode);
    coto_frame_add_num(out, COTO_TAG_S_WRITABLE, path->writable);
}

void coto_setup_encode(const struct coto_setup *setup, struct coto_buf *out)
{
    size_t at = coto_frame_begin(out, COTO_FRAME_SETUP, 0);

    coto_frame_add_num(out, COTO_TAG_UID, setup->uid);
    coto_frame_add_num(out, COTO_TAG_GID, setup->gid);
    coto_frame_add_num(out, COTO_TAG_CAPS, setup->caps);
    coto_frame_add_num(out, COTO_TAG_S_IGNORED, setup->ignored);
    coto_frame_add_num(out, COTO_TAG_S_APPARMOR, setup->apparmor);
    if (setup->filter) {
        coto_frame_add(out, COTO_TAG_SECCOMP, setup->filter, setup->filter_len);
        coto_frame_add_num(out, COTO_TAG_LANDLOCK_ABI, setup->landlock_abi);
    }
    coto_frame_add_text(out, COTO_TAG_S_USER, setup->user_name);
    coto_frame_add_text(out, COTO_TAG_S_HOST, setup->hostname);
    coto_frame_add_text(out, COTO_TAG_CWD, setup->workdir);
    coto_frame_add_num(out, COTO_TAG_S_DISK, (uint64_t)setup->disk_bytes);
    coto_frame_add_num(out, COTO_TAG_S_TMP, (uint64_t)setup->tmp_bytes);
    coto_frame_add_num(out, COTO_TAG_S_INODES, (uint64_t)setup->inodes);
    coto_frame_add_num(out, COTO_TAG_S_PTYS, (uint64_t)setup->ptys);
    coto_frame_add_num(out, COTO_TAG_NOEXEC, setup->noexec);
    coto_frame_add_num(out, COTO_TAG_S_OUTPUT_ONLY, setup->writable_output_only);
    coto_frame_add_num(out, COTO_TAG_S_VERBOSE, setup->verbose);
    coto_frame_add_num(out, COTO_TAG_S_GIVEN, setup->mounts_given);
    if (setup->rootfs.source) {
        coto_frame_add_num(out, COTO_TAG_S_ROOTFS, 1);
        encode_path(&setup->rootfs, out);
    }
    for (unsigned i = 0; i < setup->mount_count; i++) {
        coto_frame_add_num(out, COTO_TAG_S_MOUNT, 1);
        encode_path(&setup->mounts[i], out);
    }
    for (unsigned i = 0; i < setup->tmpfs_count; i++) {
        coto_frame_add_text(out, COTO_TAG_S_TMPFS, setup->tmpfs[i].target);
        coto_frame_add_num(out, COTO_TAG_S_TMPFS_SIZE, (uint64_t)setup->tmpfs[i].size);
    }
    coto_frame_end(out, at);
}

void coto_setup_fini(struct coto_setup *setup)
{
    free(setup->filter);
    free(setup->user_name);
    free(setup->hostname);
    free(setup->workdir);
    free(setup->rootfs.source);
    free(setup->rootfs.target);
    for (unsigned i = 0; i < setup->mount_count; i++) {
        free(setup->mounts[i].source);
        free(setup->mounts[i].target);
    }
    for (unsigned i = 0; i < setup->tmpfs_count; i++)
        free(setup->tmpfs[i].target);
    *setup = (struct coto_setup){0};
}

static char *text_of(const struct coto_field *field)
{
    if (memchr(field->data, 0, field->len))
        return NULL;
    return strndup((const char *)field->data, field->len);
}

static int set_text(char **to, const struct coto_field *field)
{
    free(*to);
    *to = text_of(field);
    return *to ? 0 : -1;
}

/* The fields of one path, in a row behind S_ROOTFS or S_MOUNT. */
static int take_path(struct coto_setup_path *path, const struct coto_field *field)
{
    switch (field->tag) {
    case COTO_TAG_S_SOURCE:
        return set_text(&path->source, field);
    case COTO_TAG_S_TARGET:
        return set_text(&path->target, field);
    case COTO_TAG_S_DEV:
        path->dev = coto_field_value(field);
        return 0;
    case COTO_TAG_S_INO:
        path->ino = coto_field_value(field);
        return 0;
    case COTO_TAG_S_MODE:
        path->mode = (uint32_t)coto_field_value(field);
        return 0;
    default:
        path->writable = coto_field_value(field) != 0;
        return 0;
    }
}

static int take_tmpfs(struct coto_setup *setup, const struct coto_field *field)
{
    if (field->tag == COTO_TAG_S_TMPFS_SIZE) {
        if (setup->tmpfs_count == 0)
            return -1;
        setup->tmpfs[setup->tmpfs_count - 1].size = (int64_t)coto_field_value(field);
        return 0;
    }
    if (setup->tmpfs_count == COTO_SETUP_MOUNTS)
        return -1;
    return set_text(&setup->tmpfs[setup->tmpfs_count++].target, field);
}

static int take_scalar(struct coto_setup *setup, const struct coto_field *field)
{
    uint64_t num = coto_field_value(field);

    switch (field->tag) {
    case COTO_TAG_UID:
        setup->uid = (uint32_t)num;
        break;
    case COTO_TAG_GID:
        setup->gid = (uint32_t)num;
        break;
    case COTO_TAG_CAPS:
        setup->caps = num;
        break;
    case COTO_TAG_S_IGNORED:
        setup->ignored = num;
        break;
    case COTO_TAG_S_DISK:
        setup->disk_bytes = (int64_t)num;
        break;
    case COTO_TAG_S_TMP:
        setup->tmp_bytes = (int64_t)num;
        break;
    case COTO_TAG_S_INODES:
        setup->inodes = (int64_t)num;
        break;
    case COTO_TAG_S_PTYS:
        setup->ptys = (int64_t)num;
        break;
    case COTO_TAG_NOEXEC:
        setup->noexec = num != 0;
        break;
    case COTO_TAG_S_OUTPUT_ONLY:
        setup->writable_output_only = num != 0;
        break;
    case COTO_TAG_S_APPARMOR:
        setup->apparmor = num != 0;
        break;
    case COTO_TAG_S_VERBOSE:
        setup->verbose = num != 0;
        break;
    case COTO_TAG_S_GIVEN:
        setup->mounts_given = num != 0;
        break;
    default:
        break;
    }
    return 0;
}

static int take_filter(struct coto_setup *setup, const struct coto_field *field)
{
    if (setup->filter || field->len == 0)
        return -1;
    setup->filter = malloc(field->len);
    if (!setup->filter)
        return -1;
    memcpy(setup->filter, field->data, field->len);
    setup->filter_len = field->len;
    return 0;
}

static int take_field(struct coto_setup *setup, const struct coto_field *field,
                      struct coto_setup_path **current)
{
    switch (field->tag) {
    case COTO_TAG_S_USER:
        return set_text(&setup->user_name, field);
    case COTO_TAG_S_HOST:
        return set_text(&setup->hostname, field);
    case COTO_TAG_CWD:
        return set_text(&setup->workdir, field);
    case COTO_TAG_SECCOMP:
        return take_filter(setup, field);
    case COTO_TAG_LANDLOCK_ABI:
        setup->landlock_abi = coto_field_value(field);
        return 0;
    case COTO_TAG_S_ROOTFS:
        *current = &setup->rootfs;
        return 0;
    case COTO_TAG_S_MOUNT:
        if (setup->mount_count == COTO_SETUP_MOUNTS)
            return -1;
        *current = &setup->mounts[setup->mount_count++];
        return 0;
    case COTO_TAG_S_SOURCE:
    case COTO_TAG_S_TARGET:
    case COTO_TAG_S_DEV:
    case COTO_TAG_S_INO:
    case COTO_TAG_S_MODE:
    case COTO_TAG_S_WRITABLE:
        return *current ? take_path(*current, field) : -1;
    case COTO_TAG_S_TMPFS:
    case COTO_TAG_S_TMPFS_SIZE:
        return take_tmpfs(setup, field);
    default:
        return take_scalar(setup, field);
    }
}

/* Absolute, not "/", every part non-empty and neither "." nor "..". */
static bool is_target(const char *path)
{
    if (!path || path[0] != '/' || !path[1] || strlen(path) > 4000)
        return false;
    while (*path == '/') {
        size_t n = strcspn(++path, "/");
        if (n == 0 || (n == 1 && path[0] == '.') || (n == 2 && path[0] == '.' && path[1] == '.'))
            return false;
        path += n;
    }
    return true;
}

static bool is_sound(const struct coto_setup *setup)
{
    const int64_t max = (int64_t)1 << 50;

    if (!setup->user_name || !setup->hostname || !is_target(setup->workdir))
        return false;
    if (setup->uid == 0 || setup->gid == 0 || setup->disk_bytes <= 0 || setup->disk_bytes > max ||
        setup->tmp_bytes <= 0 || setup->tmp_bytes > max || setup->inodes <= 0 ||
        setup->inodes > max || (uint64_t)setup->ptys > COTO_SETUP_PTYS)
        return false;
    for (unsigned i = 0; i < setup->mount_count; i++)
        if (!setup->mounts[i].source || setup->mounts[i].source[0] != '/' ||
            !is_target(setup->mounts[i].target))
            return false;
    for (unsigned i = 0; i < setup->tmpfs_count; i++)
        if (!is_target(setup->tmpfs[i].target) || setup->tmpfs[i].size <= 0)
            return false;
    return !setup->rootfs.source || setup->rootfs.source[0] == '/';
}

int coto_setup_decode(const struct coto_frame *frame, struct coto_setup *ret_setup,
                      struct coto_err *err)
{
    struct coto_setup setup = {0};
    struct coto_setup_path *current = NULL;
    struct coto_field field = {0};
    int got = frame->type == COTO_FRAME_SETUP ? 1 : -1;

    while (got == 1 && (got = coto_field_next(frame, &field)) == 1)
        if (take_field(&setup, &field, &current))
            got = -1;
    if (got < 0 || !is_sound(&setup)) {
        coto_setup_fini(&setup);
        return coto_err_set(err, COTO_ERR_INTERNAL, 0, "wire: the SETUP frame is not sound");
    }
    *ret_setup = setup;
    return 0;
}
