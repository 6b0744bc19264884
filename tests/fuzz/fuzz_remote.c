/* What a hostile service answers to `coto run --server`: events or one object, in pieces of any size.
 * The pieces make no difference to what comes of it; files lie below the directory, through no link;
 * an error has a kind and words. The first byte chooses the kind of answer, the second the pieces. */
#include "remote/answer.h"

#include "scratch.h"

#include <stdint.h>
#include <sys/mman.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct outcome {
    struct coto_remote_answer answer;
    struct coto_err err;
    int result;
    struct coto_buf written[2];
};

static void must(bool holds)
{
    if (!holds)
        abort();
}

static void check_files(const struct coto_remote_artifacts *artifacts)
{
    for (size_t i = 0; i < artifacts->came.count; i++) {
        const char *name = artifacts->came.items[i];
        must(*name && *name != '/' && strncmp(name, "../", 3) != 0 && !strstr(name, "/../"));
        struct stat st;
        coto_auto_fd fd = coto_path_open_beneath(artifacts->dirfd, name, O_RDONLY | O_NOFOLLOW, 0);
        must(fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_nlink == 1);
        scratch_check(fd);
    }
    must(artifacts->told <= artifacts->came.count);
}

static void read_back(int fd, struct coto_buf *ret_bytes)
{
    must(lseek(fd, 0, SEEK_SET) == 0 && coto_fd_read_all(fd, 1 << 24, ret_bytes) == 0);
    close(fd);
}

static void run(struct outcome *out, unsigned kind, const uint8_t *data, size_t size, size_t step)
{
    struct coto_remote_answer *answer = &out->answer;
    bool is_stream = !(kind & 1);
    int root = scratch_root();

    must(mkdirat(root, "files", 0700) == 0 && symlinkat("../../outside", root, "files/out") == 0);
    *answer = (struct coto_remote_answer){.artifacts.dirfd = -1, .json = kind & 2};
    if (kind & 4)
        answer->artifacts.dirfd = openat(root, "files", O_PATH | O_DIRECTORY | O_CLOEXEC);
    for (int i = 0; i < 2; i++)
        must((answer->fds[i] = memfd_create("out", MFD_CLOEXEC)) >= 0);
    for (size_t at = 0; at < size && out->result == 0; at += step)
        out->result = coto_remote_answer_add(answer, (const char *)data + at,
                                             size - at < step ? size - at : step, is_stream, &out->err);
    if (!is_stream)
        coto_remote_answer_end(answer, kind & 8 ? 404 : 200, &out->err);
    if (kind & 4)
        check_files(&answer->artifacts);
    coto_own_close(&answer->artifacts.dirfd);
    for (int i = 0; i < 2; i++)
        read_back(answer->fds[i], &out->written[i]);
    scratch_check_outside();
    must(coto_path_remove_tree(root, "files") == 0);
    must(out->result == 0 || out->err.kind != COTO_ERR_NONE);
    must(out->err.kind == COTO_ERR_NONE || (out->err.kind < COTO_ERR_COUNT && out->err.text[0]));
    must(answer->exit_status >= 0 && answer->exit_status <= 255);
}

static void fini(struct outcome *out)
{
    coto_remote_answer_fini(&out->answer);
    coto_buf_fini(&out->written[0]);
    coto_buf_fini(&out->written[1]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct outcome whole = {0}, cut = {0};

    if (size < 3)
        return 0;
    run(&whole, data[0], data + 2, size - 2, size);
    run(&cut, data[0], data + 2, size - 2, data[1] % 64 + 1u);
    must(whole.result == cut.result && whole.err.kind == cut.err.kind);
    must(strcmp(whole.err.text, cut.err.text) == 0);
    must(whole.answer.has_result == cut.answer.has_result &&
         whole.answer.exit_status == cut.answer.exit_status);
    must(whole.answer.artifacts.came.count == cut.answer.artifacts.came.count);
    for (int i = 0; i < 2; i++)
        must(whole.written[i].len == cut.written[i].len &&
             memcmp(coto_buf_str(&whole.written[i]), coto_buf_str(&cut.written[i]), cut.written[i].len) == 0);
    fini(&whole);
    fini(&cut);
    return 0;
}
