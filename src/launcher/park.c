/* An interpreter that waits in a container. It cannot be forked into one from outside, as
 * into a sandbox of our own making (template.c): it is started inside, by coto-init, from the
 * container's own files, and what makes it wait is put there and removed again. The rest, from
 * its hello on, is the same (template/talk.h). Where that fails programs start the long way. */
#include "launcher/launcher.h"

#include "base/fd.h"
#include "policy/helper.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PARK_MS 30000
#define FILE_MAX_BYTES (1 << 20)
#define BARRIER 0xffff /* a process number that nobody has */
#define SCRIPT "/tmp/.coto-template.py"
#define LIBRARY "/tmp/.coto-template.so"

static int add_file(struct coto_buf *out, const char *helper, const char *target)
{
    char path[4096];
    coto_auto_buf data = {0};

    if (coto_helper_find(helper, path, sizeof path))
        return -1;
    coto_auto_fd fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || coto_fd_read_all(fd, FILE_MAX_BYTES, &data) || data.len == 0)
        return -1;
    for (size_t done = 0, n; done < data.len; done += n) {
        n = data.len - done < COTO_FRAME_CHUNK ? data.len - done : COTO_FRAME_CHUNK;
        size_t at = coto_frame_begin(out, done ? COTO_FRAME_PUT_DATA : COTO_FRAME_PUT, 0);
        if (!done) {
            coto_frame_add_text(out, COTO_TAG_PATH, target);
            coto_frame_add_num(out, COTO_TAG_MODE, 0755);
        }
        coto_frame_add(out, COTO_TAG_DATA, data.data + done, n);
        coto_frame_add_num(out, COTO_TAG_MORE, done + n < data.len);
        coto_frame_end(out, at);
    }
    return 0;
}

/* The environment of the default policy: a program's own is compared with it. */
static void add_start(struct coto_buf *out, const struct coto_plan *plan)
{
    const char *const argv[] = {"python3", SCRIPT, LIBRARY, "-", "own", launcher_modules, plan->modules ? plan->modules : ""};
    const char *const fixed[] = {
        "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "SHELL=/bin/sh",
        "LANG=C.UTF-8", "TMPDIR=/tmp"};
    size_t at = coto_frame_begin(out, COTO_FRAME_PARK, 0);
    coto_auto_buf text = {0};

    for (size_t i = 0; i < sizeof argv / sizeof argv[0]; i++)
        coto_frame_add_text(out, COTO_TAG_ARGV, argv[i]);
    for (size_t i = 0; i < sizeof fixed / sizeof fixed[0]; i++)
        coto_frame_add_text(out, COTO_TAG_ENV, fixed[i]);
    coto_buf_addf(&text, "HOME=%s%cUSER=%s%cLOGNAME=%s%cCOTO_OUTPUT=%s/output%c", plan->workdir, 0,
                  plan->user_name, 0, plan->user_name, 0, plan->workdir, 0);
    for (size_t i = 0; !text.failed && i < text.len; i += strlen(text.data + i) + 1)
        coto_frame_add_text(out, COTO_TAG_ENV, text.data + i);
    coto_frame_add_text(out, COTO_TAG_CWD, "/");
    coto_frame_end(out, at);
}

static void add_removal(struct coto_buf *out, const char *path)
{
    size_t at = coto_frame_begin(out, COTO_FRAME_REMOVE, 0);

    coto_frame_add_text(out, COTO_TAG_PATH, path);
    coto_frame_end(out, at);
}

static int send_all(struct coto_sandbox *sandbox, const struct coto_buf *out)
{
    for (size_t done = 0; !out->failed && done < out->len;) {
        struct pollfd pfd = {.fd = sandbox->stream_fd, .events = POLLOUT};
        ssize_t n = write(sandbox->stream_fd, out->data + done, out->len - done);
        if (n < 0 && errno != EAGAIN && errno != EINTR)
            return -1;
        if (n < 0 && poll(&pfd, 1, PARK_MS) == 0)
            return -1;
        done += n > 0 ? (size_t)n : 0;
    }
    return out->failed ? -1 : 0;
}

/* Sends this, and reads until all of it has been done: nothing of it may be left on the stream
 * for the front. *ret_refused: init could not do something of it. */
static int settle(struct coto_sandbox *sandbox, struct coto_frame_reader *reader,
                  struct coto_buf *out, bool *ret_refused, struct coto_err *err)
{
    struct coto_frame frame;
    size_t at = coto_frame_begin(out, COTO_FRAME_COLLECT, BARRIER);

    coto_frame_add_text(out, COTO_TAG_PATH, "output");
    coto_frame_end(out, at);
    if (send_all(sandbox, out))
        return coto_err_set(err, COTO_ERR_LIMIT, errno, "talk to coto-init");
    do {
        if (launcher_await_frame(sandbox, reader, PARK_MS, &frame, err))
            return -1;
        *ret_refused = *ret_refused || frame.type == COTO_FRAME_ERROR;
    } while (frame.type != COTO_FRAME_COLLECTED || frame.proc != BARRIER);
    return 0;
}

int launcher_park_inside(struct coto_sandbox *sandbox, const struct coto_plan *plan,
                         struct coto_frame_reader *reader, struct coto_err *err)
{
    coto_auto_buf out = {0};
    struct coto_frame frame = {0};
    bool is_refused = false;

    if (plan->noexec) /* the library could not be loaded from there */
        return 1;
    if (add_file(&out, "coto-template.py", SCRIPT) || add_file(&out, "coto-template.so", LIBRARY))
        return 1;
    if (settle(sandbox, reader, &out, &is_refused, err))
        return -1;
    coto_buf_clear(&out);
    if (!is_refused) {
        add_start(&out, plan);
        if (send_all(sandbox, &out) || launcher_await_frame(sandbox, reader, PARK_MS, &frame, err))
            return coto_err_set(err, COTO_ERR_LIMIT, 0, "the interpreter neither waits nor ends");
        coto_buf_clear(&out);
    }
    add_removal(&out, SCRIPT);
    add_removal(&out, LIBRARY);
    if (settle(sandbox, reader, &out, &is_refused, err))
        return -1;
    return frame.type == COTO_FRAME_DONE ? 0 : 1;
}
