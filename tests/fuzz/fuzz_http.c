/* HTTP requests as strangers send them. The first byte chooses into what pieces they are
 * cut: the outcome must be the one of the whole, and every text must lie inside. */
#include "http/parse.h"

#include "base/str.h"

#include <stdlib.h>
#include <string.h>

#define HEAD_MAX 2048

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct outcome {
    struct coto_http_head head;
    int result;
    char *text; /* as long as what was given */
    size_t body_len, body_used;
    int body_result;
};

static void must(bool holds)
{
    if (!holds)
        abort();
}

static void parse_head(struct outcome *out, const uint8_t *data, size_t size, size_t step)
{
    for (size_t have = 0; out->result == 0 && have < size;) {
        size_t more = size - have < step ? size - have : step;
        char *moved = malloc(have + more);
        must(moved != NULL);
        if (have)
            memcpy(moved, out->text, have);
        memcpy(moved + have, data + have, more);
        free(out->text);
        out->text = moved;
        have += more;
        out->result = coto_http_head_parse(&out->head, moved, have, HEAD_MAX, 16);
    }
}

static void parse_body(struct outcome *out, const char *data, size_t size, size_t step)
{
    struct coto_http_body_reader body;
    size_t at = 0;

    coto_http_body_init(&body, out->head.length);
    while (at < size && body.state != COTO_HTTP_BODY_DONE && out->body_result >= 0) {
        size_t have = size - at < step ? size - at : step, used = 0, len = 0;
        const char *piece = NULL;
        out->body_result = coto_http_body_next(&body, data + at, have, &used, &piece, &len);
        must(used <= have);
        if (out->body_result > 0)
            must(len > 0 && piece >= data + at && piece + len <= data + at + used);
        out->body_len += out->body_result > 0 ? len : 0;
        at += used;
    }
    out->body_used = out->body_result < 0 ? 0 : at;
}

static void check_texts(const struct outcome *out)
{
    const struct coto_http_head *head = &out->head;
    const char *path = coto_http_head_text(out->text, head->path);
    size_t len = strlen(path);

    must(path[0] == '/' && path + len < out->text + head->pos);
    must(!strstr(path, "//") && !strstr(path, "/../") && !strstr(path, "/./"));
    must(strcmp(path + len - (len < 3 ? len : 3), "/..") != 0 && coto_utf8_valid(path, len));
    must(strlen(coto_http_head_text(out->text, head->query)) < head->pos);
    for (unsigned i = 0; i < head->count; i++) {
        must(head->fields[i].value + strlen(out->text + head->fields[i].value) < head->pos);
        must(coto_http_head_get(head, out->text, out->text + head->fields[i].name) != NULL);
    }
    must(head->method != NULL && head->length >= -1);
}

static void run(struct outcome *out, const uint8_t *data, size_t size, size_t step)
{
    parse_head(out, data, size, step);
    if (out->result > 0) {
        check_texts(out);
        parse_body(out, (const char *)data + out->head.pos, size - out->head.pos, step);
    }
    if (out->result < 0)
        must(out->head.status >= 400 && out->head.why != NULL);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct outcome whole = {0}, cut = {0};

    if (size < 2)
        return 0;
    run(&whole, data + 1, size - 1, size);
    run(&cut, data + 1, size - 1, data[0] % 32 + 1u);
    must(whole.result == cut.result && whole.head.status == cut.head.status);
    must(whole.result < 0 || (whole.head.pos == cut.head.pos && whole.head.count == cut.head.count));
    must((whole.body_result < 0) == (cut.body_result < 0) && whole.body_used == cut.body_used);
    must(whole.body_result < 0 || whole.body_len == cut.body_len);
    free(whole.text);
    free(cut.text);
    return 0;
}
