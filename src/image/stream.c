#include "image/image.h"

#include <errno.h>
#include <lzma.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

#define PIECE ((size_t)64 << 10)
#define XZ_MEMORY ((uint64_t)256 << 20)

enum kind { PLAIN, GZIP, ZSTD, XZ };

struct image_stream {
    int fd;
    int64_t offset, left; /* of the compressed bytes */
    int64_t max, total;   /* of the decompressed ones */
    enum kind kind;
    bool is_between; /* a gzip or zstd frame has ended and no other has begun */
    bool has_ended;
    unsigned char in[PIECE];
    size_t in_pos, in_len;
    z_stream z;
    ZSTD_DStream *zstd;
    lzma_stream xz;
};

static int damaged(struct coto_err *err, const char *why)
{
    coto_err_set(err, COTO_ERR_INPUT, 0, "archive: %s", why);
    return coto_err_remedy(err, "fetch it again; it is damaged, or no archive");
}

static enum kind kind_of(const unsigned char *head, ssize_t len)
{
    if (len >= 2 && memcmp(head, "\x1f\x8b", 2) == 0)
        return GZIP;
    if (len >= 4 && memcmp(head, "\x28\xb5\x2f\xfd", 4) == 0)
        return ZSTD;
    return len >= 6 && memcmp(head,
                              "\xfd"
                              "7zXZ\0",
                              6) == 0
               ? XZ
               : PLAIN;
}

static int start(struct image_stream *s)
{
    lzma_stream fresh = LZMA_STREAM_INIT;

    switch (s->kind) {
    case GZIP:
        return inflateInit2(&s->z, 16 + MAX_WBITS) == Z_OK ? 0 : -1;
    case ZSTD:
        s->zstd = ZSTD_createDStream();
        return s->zstd ? 0 : -1;
    case XZ:
        s->xz = fresh;
        return lzma_stream_decoder(&s->xz, XZ_MEMORY, LZMA_CONCATENATED) == LZMA_OK ? 0 : -1;
    default:
        return 0;
    }
}

int image_stream_open(int fd, int64_t offset, int64_t size, int64_t max,
                      struct image_stream **ret_stream, struct coto_err *err)
{
    unsigned char head[6];
    ssize_t n = pread(fd, head, size < 6 ? (size_t)size : sizeof head, offset);
    image_auto_stream *s = n < 0 ? NULL : calloc(1, sizeof *s);

    if (!s)
        return coto_err_set(err, n < 0 ? COTO_ERR_INPUT : COTO_ERR_LIMIT, errno, "archive");
    s->fd = fd;
    s->offset = offset;
    s->left = size;
    s->max = max;
    s->kind = kind_of(head, n);
    if (start(s))
        return coto_err_set(err, COTO_ERR_LIMIT, ENOMEM, "archive");
    *ret_stream = coto_take_ptr(s);
    return 0;
}

void image_stream_free(struct image_stream *s)
{
    if (!s)
        return;
    if (s->kind == GZIP)
        inflateEnd(&s->z);
    if (s->kind == ZSTD)
        ZSTD_freeDStream(s->zstd);
    if (s->kind == XZ)
        lzma_end(&s->xz);
    free(s);
}

int64_t image_stream_total(const struct image_stream *s)
{
    return s->total;
}

bool image_stream_is_plain(const struct image_stream *s)
{
    return s->kind == PLAIN;
}

/* Makes sure that there is input unless it is over. */
static int fill(struct image_stream *s, struct coto_err *err)
{
    if (s->in_pos < s->in_len || s->left == 0)
        return 0;
    size_t want = s->left < (int64_t)PIECE ? (size_t)s->left : PIECE;
    ssize_t n;
    do
        n = pread(s->fd, s->in, want, s->offset);
    while (n < 0 && errno == EINTR);
    if (n < 0)
        return coto_err_set(err, COTO_ERR_INPUT, errno, "archive");
    if (n == 0)
        return damaged(err, "it is shorter than it was");
    s->offset += n;
    s->left -= n;
    s->in_pos = 0;
    s->in_len = (size_t)n;
    return 0;
}

/* One turn of a decoder: how many bytes came out, -1 when the data is bad. */
static ssize_t turn_gzip(struct image_stream *s, void *data, size_t len)
{
    if (s->is_between && s->in_pos < s->in_len && inflateReset(&s->z) != Z_OK)
        return -1;
    s->is_between = s->is_between && s->in_pos == s->in_len;
    s->z.next_in = s->in + s->in_pos;
    s->z.avail_in = (unsigned)(s->in_len - s->in_pos);
    s->z.next_out = data;
    s->z.avail_out = (unsigned)len;
    int status = s->is_between ? Z_BUF_ERROR : inflate(&s->z, Z_NO_FLUSH);
    s->in_pos = s->in_len - s->z.avail_in;
    if (status == Z_STREAM_END)
        s->is_between = true;
    else if (status != Z_OK && status != Z_BUF_ERROR)
        return -1;
    return (ssize_t)(len - s->z.avail_out);
}

static ssize_t turn_zstd(struct image_stream *s, void *data, size_t len)
{
    ZSTD_inBuffer in = {s->in, s->in_len, s->in_pos};
    ZSTD_outBuffer out = {data, len, 0};
    size_t status = ZSTD_decompressStream(s->zstd, &out, &in);

    if (ZSTD_isError(status))
        return -1;
    s->is_between = status == 0 || (s->is_between && in.pos == s->in_pos);
    s->in_pos = in.pos;
    return (ssize_t)out.pos;
}

static ssize_t turn_xz(struct image_stream *s, void *data, size_t len)
{
    bool is_last = s->in_pos == s->in_len && s->left == 0;

    s->xz.next_in = s->in + s->in_pos;
    s->xz.avail_in = s->in_len - s->in_pos;
    s->xz.next_out = data;
    s->xz.avail_out = len;
    lzma_ret status = lzma_code(&s->xz, is_last ? LZMA_FINISH : LZMA_RUN);
    s->in_pos = s->in_len - s->xz.avail_in;
    s->is_between = status == LZMA_STREAM_END;
    if (status != LZMA_OK && status != LZMA_STREAM_END && status != LZMA_BUF_ERROR)
        return -1;
    return (ssize_t)(len - s->xz.avail_out);
}

static ssize_t turn_plain(struct image_stream *s, void *data, size_t len)
{
    size_t n = s->in_len - s->in_pos < len ? s->in_len - s->in_pos : len;

    memcpy(data, s->in + s->in_pos, n);
    s->in_pos += n;
    s->is_between = true;
    return (ssize_t)n;
}

static ssize_t decode(struct image_stream *s, void *data, size_t len)
{
    switch (s->kind) {
    case GZIP:
        return turn_gzip(s, data, len);
    case ZSTD:
        return turn_zstd(s, data, len);
    case XZ:
        return turn_xz(s, data, len);
    default:
        return turn_plain(s, data, len);
    }
}

ssize_t image_stream_read(struct image_stream *s, void *data, size_t len, struct coto_err *err)
{
    while (!s->has_ended) {
        if (fill(s, err))
            return -1;
        bool had_input = s->in_pos < s->in_len;
        ssize_t n = decode(s, data, len);
        if (n < 0)
            return damaged(err, "its compressed bytes make no sense");
        s->total += n;
        if (s->total > s->max) {
            coto_err_set(err, COTO_ERR_INPUT, 0, "archive: what comes out of it is larger than the limit");
            return coto_err_remedy(err, "--max-size and --max-files raise the limits");
        }
        if (n > 0)
            return n;
        if (!had_input && s->left == 0) {
            s->has_ended = true;
            if (!s->is_between && s->kind != PLAIN)
                return damaged(err, "it ends in the middle");
        }
    }
    return 0;
}
