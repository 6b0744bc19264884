#include "remote/answer.h"

#include "base/fd.h"
#include "base/json.h"
#include "remote/result.h"
#include "remote/words.h"
#include "report/text.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#define ANSWER_MAX ((size_t)256 << 20)

static const char *text_of(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));

    return text ? text : "";
}

/* The service's error becomes ours, of the same kind, in words of who gave flags. */
static void take_error(const json_t *object, struct coto_err *err)
{
    const char *word = text_of(object, "code");
    const char *field = text_of(object, "field");
    coto_auto_buf message = {0};
    coto_auto_buf remedy = {0};
    int kind = strcmp(word, "unauthorized") == 0 ? COTO_ERR_FORBIDDEN : COTO_ERR_INTERNAL;

    for (int i = 1; i < COTO_ERR_COUNT; i++)
        if (strcmp(coto_err_info(i)->word, word) == 0)
            kind = i;
    coto_remote_words_message(field, text_of(object, "message"), &message);
    coto_remote_words_remedy(field, text_of(object, "remedy"), &remedy);
    coto_err_set(err, kind, 0, "%s", message.len ? message.data : "no answer that makes sense");
    if (remedy.len)
        coto_err_remedy(err, "%s", remedy.data);
}

/* As they are, but a terminal gets no control of another host. */
static int write_bytes(struct coto_remote_answer *answer, int which, const struct coto_buf *bytes)
{
    int fd = answer->fds[which];
    bool raw = answer->raw || !isatty(fd);
    coto_auto_buf shown = {0};

    if (!raw)
        coto_escape_add(&answer->escape[which], bytes->data, bytes->len, &shown);
    const struct coto_buf *out = raw ? bytes : &shown;
    if (bytes->len)
        answer->last[which] = bytes->data[bytes->len - 1];
    return coto_fd_write_all(fd, coto_buf_str(out), out->len);
}

static int pass_on(struct coto_remote_answer *answer, int which, const json_t *event,
                   struct coto_err *err)
{
    const char *base64 = json_string_value(json_object_get(event, "data_base64"));
    const json_t *data = json_object_get(event, "data");
    coto_auto_buf bytes = {0};

    if (base64 ? coto_base64_take(&bytes, base64, strlen(base64)) : !json_is_string(data))
        return coto_err_set(err, COTO_ERR_INTERNAL, 0, "the service sent output that is none");
    if (!base64)
        coto_buf_add(&bytes, json_string_value(data), json_string_length(data));
    if (write_bytes(answer, which, &bytes) == 0)
        return 0;
    return coto_err_set(err, COTO_ERR_OUTPUT, errno, which == 0 ? "standard output" : "standard error");
}

/* As `coto run` closes without a service. */
static void write_closing(const struct coto_remote_answer *answer, const json_t *object)
{
    struct coto_result result;
    coto_auto_buf text = {0};

    if (answer->json || answer->quiet || !isatty(answer->fds[1]) || coto_remote_result(object, &result))
        return;
    result.out.last = answer->last[0];
    result.err.last = answer->last[1];
    coto_report_text_closing(&result, NULL, isatty(answer->fds[0]), &text);
    coto_fd_write_closing(answer->fds[1], coto_buf_str(&text), text.len);
}

static void take_result(struct coto_remote_answer *answer, const json_t *result, struct coto_err *err)
{
    const json_t *status = json_object_get(result, "exit_status");
    coto_auto_buf left_out = {0};

    if (!answer->has_result)
        write_closing(answer, result);
    if (answer->artifacts.dirfd >= 0 &&
        coto_remote_artifacts(&answer->artifacts, result, err) == 0 && !answer->json)
        coto_report_text_left_out(json_integer_value(json_object_get(result, "artifacts_skipped")), &left_out);
    (void)coto_fd_write_all(answer->fds[1], coto_buf_str(&left_out), left_out.len);
    answer->has_result = json_is_integer(status);
    answer->exit_status = (int)json_integer_value(status) & 255;
}

static int take_event(struct coto_remote_answer *answer, const char *name, const char *data,
                      struct coto_err *err)
{
    json_t *event = json_loads(data, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, NULL);
    int failed = 0;

    if (!event)
        failed = coto_err_set(err, COTO_ERR_INTERNAL, 0, "the service sent an event that is none");
    else if (strcmp(name, "stdout") == 0)
        failed = pass_on(answer, 0, event, err);
    else if (strcmp(name, "stderr") == 0)
        failed = pass_on(answer, 1, event, err);
    else if (strcmp(name, "artifact") == 0 && answer->artifacts.dirfd >= 0)
        failed = coto_remote_artifact(&answer->artifacts, event, err);
    else if (strcmp(name, "result") == 0)
        take_result(answer, event, err);
    else if (strcmp(name, "error") == 0)
        take_error(event, err);
    json_decref(event);
    return failed;
}

/* One event: lines "event: NAME" and "data: JSON". */
static int take_block(struct coto_remote_answer *answer, char *block, struct coto_err *err)
{
    const char *name = "";
    const char *data = NULL;

    for (char *rest = NULL, *line = strtok_r(block, "\n", &rest); line;
         line = strtok_r(NULL, "\n", &rest)) {
        if (strncmp(line, "event: ", 7) == 0)
            name = line + 7;
        else if (strncmp(line, "data: ", 6) == 0)
            data = line + 6;
    }
    return data ? take_event(answer, name, data, err) : 0;
}

static int take_blocks(struct coto_remote_answer *answer, struct coto_err *err)
{
    struct coto_buf *in = &answer->in;
    char *from = in->data;
    size_t left = in->len;
    char *end;

    while (left && (end = memmem(from + answer->looked, left - answer->looked, "\n\n", 2))) {
        *end = '\0';
        if (from + strlen(from) != end)
            return coto_err_set(err, COTO_ERR_INTERNAL, 0, "the service sent an event that is none");
        if (take_block(answer, from, err))
            return -1;
        left -= (size_t)(end + 2 - from);
        from = end + 2;
        answer->looked = 0;
    }
    answer->looked = left ? left - 1 : 0; /* a large event comes in thousands of pieces */
    if (from != in->data)
        memmove(in->data, from, left + 1);
    in->len = left;
    return 0;
}

int coto_remote_answer_add(struct coto_remote_answer *answer, const char *data, size_t len,
                           bool is_stream, struct coto_err *err)
{
    coto_buf_add(&answer->in, data, len);
    if (answer->in.failed || answer->in.len > ANSWER_MAX)
        return coto_err_set(err, COTO_ERR_LIMIT, 0, "the service sent more than %zu MiB", ANSWER_MAX >> 20);
    return is_stream ? take_blocks(answer, err) : 0;
}

void coto_remote_answer_end(struct coto_remote_answer *answer, long status, struct coto_err *err)
{
    json_t *object = json_loads(coto_buf_str(&answer->in), JSON_ALLOW_NUL, NULL);

    if (status != 200 || !object)
        take_error(object, err);
    else
        take_result(answer, object, err);
    json_decref(object);
    /* One object: the result, or an error. */
    if (answer->has_result && !err->kind && write_bytes(answer, 0, &answer->in))
        coto_err_set(err, COTO_ERR_OUTPUT, errno, "standard output");
}

void coto_remote_answer_fini(struct coto_remote_answer *answer)
{
    coto_buf_fini(&answer->in);
    coto_strv_fini(&answer->artifacts.came);
}
