/* Files as a hostile guest sends them to the host: any names and bytes in any order. Every
 * file lies below the directory, and the list agrees with what was written. */
#include "core/session.h"

#include "scratch.h"

#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void take(struct coto_session *s, const struct coto_frame *frame)
{
    switch ((int)frame->type) {
    case COTO_FRAME_FILE:
        coto_artifact_begin(s, frame);
        if (s->file_fd >= 0)
            scratch_check(s->file_fd);
        break;
    case COTO_FRAME_FILE_DATA:
        coto_artifact_data(s, frame);
        break;
    case COTO_FRAME_FILE_END:
        coto_artifact_end(s);
        break;
    default:
        break;
    }
}

static int leads_up(const char *name)
{
    return strncmp(name, "../", 3) == 0 || strstr(name, "/../") || strcmp(name, "..") == 0;
}

static void check_and_remove(const struct coto_result *result, int dir)
{
    for (size_t i = 0; i < result->artifact_count; i++) {
        const struct coto_artifact *file = &result->artifacts[i];
        struct stat st;
        coto_auto_fd fd = coto_path_open_beneath(dir, file->name, O_RDONLY | O_NOFOLLOW, 0);
        /* A later file of the same name has replaced it. */
        if (fd >= 0 && i + 1 == result->artifact_count &&
            (fstat(fd, &st) || !S_ISREG(st.st_mode) || st.st_size != file->bytes))
            abort();
        if (file->name[0] == '/' || leads_up(file->name) || strlen(file->sha256) != 64)
            abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    int root = scratch_root();
    struct coto_result result = {0};
    struct coto_io io = {.artifacts_fd = -1};
    struct coto_session s = {.result = &result, .io = &io, .file_fd = -1};
    struct coto_frame frame;
    size_t room;

    if (mkdirat(root, "files", 0700) || symlinkat("../../outside", root, "files/out"))
        abort();
    io.artifacts_fd = openat(root, "files", O_PATH | O_DIRECTORY | O_CLOEXEC);
    char *space = coto_frame_reader_space(&s.reader, &room);
    if (space && room >= size) {
        memcpy(space, data, size);
        s.reader.buf.len = size;
        while (!s.failed && coto_frame_next(&s.reader, &frame, &s.err) == 1)
            take(&s, &frame);
    }
    coto_artifact_stop(&s);
    if (s.failed && !s.err.text[0])
        abort();
    if (!s.failed)
        check_and_remove(&result, io.artifacts_fd);
    close(io.artifacts_fd);
    scratch_check_outside();
    if (coto_path_remove_tree(root, "files"))
        abort();
    coto_result_fini(&result);
    coto_frame_reader_fini(&s.reader);
    return 0;
}
