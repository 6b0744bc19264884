#include "wire/frame.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Small, so that a short run never leaves the small end of the allocator. */
#define READ_SIZE (16u * 1024)

static void put_le(unsigned char *p, uint64_t v, int bytes)
{
    for (int i = 0; i < bytes; i++)
        p[i] = (unsigned char)(v >> (8 * i));
}

static uint64_t get_le(const unsigned char *p, int bytes)
{
    uint64_t v = 0;

    for (int i = 0; i < bytes; i++)
        v |= (uint64_t)p[i] << (8 * i);
    return v;
}

void coto_frame_head(const struct coto_frame *frame, unsigned char to[COTO_FRAME_HEADER])
{
    put_le(to, frame->len, 4);
    put_le(to + 4, (uint64_t)frame->type, 2);
    put_le(to + 6, frame->proc, 2);
}

size_t coto_frame_begin(struct coto_buf *buf, enum coto_frame_type type, unsigned proc)
{
    const struct coto_frame empty = {.type = type, .proc = proc};
    size_t begin = buf->len;
    unsigned char header[COTO_FRAME_HEADER];

    coto_frame_head(&empty, header);
    coto_buf_add(buf, header, sizeof header);
    return begin;
}

void coto_frame_add(struct coto_buf *buf, enum coto_tag tag, const void *data, size_t len)
{
    unsigned char head[6];

    if (len > COTO_FRAME_MAX) {
        buf->failed = true;
        return;
    }
    put_le(head, (uint64_t)tag, 2);
    put_le(head + 2, len, 4);
    coto_buf_add(buf, head, sizeof head);
    coto_buf_add(buf, data, len);
}

void coto_frame_add_text(struct coto_buf *buf, enum coto_tag tag, const char *text)
{
    coto_frame_add(buf, tag, text, strlen(text));
}

void coto_frame_add_num(struct coto_buf *buf, enum coto_tag tag, uint64_t value)
{
    unsigned char bytes[8];

    put_le(bytes, value, 8);
    coto_frame_add(buf, tag, bytes, sizeof bytes);
}

void coto_frame_end(struct coto_buf *buf, size_t begin)
{
    if (buf->failed)
        return;
    size_t len = buf->len - begin - COTO_FRAME_HEADER;
    if (len > COTO_FRAME_MAX)
        buf->failed = true;
    else
        put_le((unsigned char *)buf->data + begin, len, 4);
}

void coto_frame_add_error(struct coto_buf *buf, unsigned proc, const struct coto_err *err)
{
    size_t begin = coto_frame_begin(buf, COTO_FRAME_ERROR, proc);

    coto_frame_add_num(buf, COTO_TAG_KIND, (uint64_t)err->kind);
    coto_frame_add_num(buf, COTO_TAG_ERRNO, (uint64_t)err->sys_errno);
    coto_frame_add_text(buf, COTO_TAG_TEXT, err->text);
    coto_frame_add_text(buf, COTO_TAG_REMEDY, err->remedy);
    coto_frame_end(buf, begin);
}

static size_t put_field(unsigned char *to, enum coto_tag tag, const void *data, size_t len)
{
    put_le(to, (uint64_t)tag, 2);
    put_le(to + 2, len, 4);
    memcpy(to + 6, data, len);
    return 6 + len;
}

size_t coto_frame_small_error(unsigned char *to, size_t size, int sys_errno, const char *text)
{
    size_t text_len = strlen(text);
    size_t len = 14 + 14 + 6 + text_len;
    unsigned char number[8];

    if (COTO_FRAME_HEADER + len > size)
        return 0;
    put_le(to, len, 4);
    put_le(to + 4, COTO_FRAME_ERROR, 2);
    put_le(to + 6, 0, 2);
    unsigned char *at = to + COTO_FRAME_HEADER;
    put_le(number, COTO_ERR_SYSTEM, 8);
    at += put_field(at, COTO_TAG_KIND, number, sizeof number);
    put_le(number, (uint64_t)sys_errno, 8);
    at += put_field(at, COTO_TAG_ERRNO, number, sizeof number);
    put_field(at, COTO_TAG_TEXT, text, text_len);
    return COTO_FRAME_HEADER + len;
}

char *coto_frame_reader_space(struct coto_frame_reader *reader, size_t *ret_len)
{
    /* Consumed frames are dropped before more is read, so the buffer never
     * holds more than one whole frame and one read. */
    if (reader->pos > 0) {
        memmove(reader->buf.data, reader->buf.data + reader->pos, reader->buf.len - reader->pos);
        reader->buf.len -= reader->pos;
        reader->pos = 0;
    }
    *ret_len = READ_SIZE;
    return coto_buf_reserve(&reader->buf, READ_SIZE);
}

int coto_frame_next(struct coto_frame_reader *reader, struct coto_frame *ret_frame,
                    struct coto_err *err)
{
    size_t avail = reader->buf.len - reader->pos;
    const unsigned char *p = (const unsigned char *)reader->buf.data + reader->pos;

    if (avail < COTO_FRAME_HEADER)
        return 0;
    size_t len = get_le(p, 4);
    if (len > COTO_FRAME_MAX)
        return coto_err_set(err, COTO_ERR_INTERNAL, 0, "wire: frame of %zu bytes is over the limit",
                            len);
    if (avail < COTO_FRAME_HEADER + len)
        return 0;
    ret_frame->type = (enum coto_frame_type)get_le(p + 4, 2);
    ret_frame->proc = (unsigned)get_le(p + 6, 2);
    ret_frame->payload = p + COTO_FRAME_HEADER;
    ret_frame->len = len;
    reader->pos += COTO_FRAME_HEADER + len;
    return 1;
}

void coto_frame_reader_fini(struct coto_frame_reader *reader)
{
    coto_buf_fini(&reader->buf);
    reader->pos = 0;
}

int coto_field_next(const struct coto_frame *frame, struct coto_field *field)
{
    size_t left = frame->len - field->next;

    if (left == 0)
        return 0;
    if (left < 6)
        return -1;
    const unsigned char *p = frame->payload + field->next;
    size_t len = get_le(p + 2, 4);
    if (len > left - 6)
        return -1;
    field->tag = (unsigned)get_le(p, 2);
    field->data = p + 6;
    field->len = len;
    field->next += 6 + len;
    return 1;
}

static int find(const struct coto_frame *frame, enum coto_tag tag, struct coto_field *field)
{
    *field = (struct coto_field){0};
    while (coto_field_next(frame, field) == 1)
        if (field->tag == (unsigned)tag)
            return 1;
    return 0;
}

uint64_t coto_field_value(const struct coto_field *field)
{
    return field->len == 8 ? get_le(field->data, 8) : 0;
}

uint64_t coto_field_num(const struct coto_frame *frame, enum coto_tag tag)
{
    struct coto_field field;

    return find(frame, tag, &field) ? coto_field_value(&field) : 0;
}

char *coto_field_text(const struct coto_frame *frame, enum coto_tag tag)
{
    struct coto_field field;

    if (!find(frame, tag, &field) || memchr(field.data, 0, field.len))
        return NULL;
    char *text = malloc(field.len + 1);
    if (text) {
        memcpy(text, field.data, field.len);
        text[field.len] = '\0';
    }
    return text;
}

static void copy_text(const struct coto_frame *frame, enum coto_tag tag, char *to, size_t size)
{
    struct coto_field field;
    size_t n = 0;

    if (find(frame, tag, &field))
        for (; n < field.len && n < size - 1 && field.data[n]; n++)
            to[n] = (char)field.data[n];
    to[n] = '\0';
}

void coto_field_error(const struct coto_frame *frame, struct coto_err *ret_err)
{
    uint64_t kind = coto_field_num(frame, COTO_TAG_KIND);

    ret_err->kind = kind > 0 && kind < COTO_ERR_COUNT ? (int)kind : COTO_ERR_INTERNAL;
    ret_err->sys_errno = (int)coto_field_num(frame, COTO_TAG_ERRNO);
    copy_text(frame, COTO_TAG_TEXT, ret_err->text, sizeof ret_err->text);
    copy_text(frame, COTO_TAG_REMEDY, ret_err->remedy, sizeof ret_err->remedy);
    if (ret_err->sys_errno == ENOSYS && !ret_err->remedy[0])
        coto_err_remedy(ret_err, "use Linux 5.12 or later; `coto doctor` says what this kernel lacks");
}
