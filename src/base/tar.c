#include "base/tar.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define META_MAX (64 * 1024)

/* Fields of a header: offset, length. */
enum {
    NAME = 0,
    MODE = 100,
    SIZE = 124,
    MTIME = 136,
    SUM = 148,
    TYPE = 156,
    LINK = 157,
    MAGIC = 257,
    PREFIX = 345
};

static int refuse(struct coto_err *err, const char *why)
{
    coto_err_set(err, COTO_ERR_INPUT, 0, "archive: %s", why);
    return coto_err_remedy(err, "send a plain tar file, not compressed, with regular files and directories only");
}

static int refuse_size(struct coto_err *err)
{
    int kind = refuse(err, "larger than the space for it");

    err->sys_errno = ENOSPC;
    return kind;
}

/* ---- reading ---- */

void coto_tar_reader_init(struct coto_tar_reader *reader, const struct coto_tar_sink *sink)
{
    *reader = (struct coto_tar_reader){.sink = *sink, .size = -1, .pax_mtime = -1};
}

void coto_tar_reader_fini(struct coto_tar_reader *reader)
{
    coto_buf_fini(&reader->meta);
    coto_buf_fini(&reader->name);
    coto_buf_fini(&reader->link);
}

/* Octal digits up to a blank or NUL, or GNU's binary form; -1 when it is neither. */
static int64_t number(const unsigned char *field, size_t len)
{
    int64_t value = 0;
    size_t i = 0;

    if (field[0] == 0x80) {
        for (i = 1; i < len; i++) {
            if (value >> 55)
                return -1;
            value = value << 8 | field[i];
        }
        return value;
    }
    while (i < len && field[i] == ' ')
        i++;
    for (; i < len && field[i] && field[i] != ' '; i++) {
        if (field[i] < '0' || field[i] > '7')
            return -1;
        value = value << 3 | (field[i] - '0');
    }
    return value;
}

static bool has_right_sum(const unsigned char *block)
{
    int64_t sum = 8 * ' ';

    for (int i = 0; i < COTO_TAR_BLOCK; i++)
        sum += i >= SUM && i < SUM + 8 ? 0 : block[i];
    return number(block + SUM, 8) == sum;
}

/* The member's name from what came before it, or from its own header. */
static int take_name(struct coto_tar_reader *r, const unsigned char *block,
                     struct coto_buf *ret_name, struct coto_err *err)
{
    const char *name = (const char *)block + NAME;
    const char *prefix = (const char *)block + PREFIX;
    bool is_posix = memcmp(block + MAGIC, "ustar", 6) == 0; /* with its NUL */

    if (r->name.len) {
        coto_buf_add(ret_name, r->name.data, r->name.len);
    } else {
        if (is_posix && *prefix) {
            coto_buf_add(ret_name, prefix, strnlen(prefix, 155));
            coto_buf_addc(ret_name, '/');
        }
        coto_buf_add(ret_name, name, strnlen(name, 100));
    }
    while (ret_name->len > 0 && ret_name->data[ret_name->len - 1] == '/')
        ret_name->data[--ret_name->len] = '\0';
    while (ret_name->len > 1 && ret_name->data[0] == '.' && ret_name->data[1] == '/') {
        memmove(ret_name->data, ret_name->data + 2, ret_name->len - 1);
        ret_name->len -= 2;
    }
    if (ret_name->failed)
        return coto_err_set(err, COTO_ERR_LIMIT, 0, "archive: no memory");
    if (ret_name->len == 0 || strlen(ret_name->data) != ret_name->len)
        return refuse(err, "a member without a name, or with NUL in it");
    return 0;
}

static int begin_link(struct coto_tar_reader *r, const unsigned char *block, const char *name,
                      struct coto_err *err)
{
    coto_auto_buf target = {0};
    const char *field = (const char *)block + LINK;

    if (r->link.len)
        coto_buf_add(&target, r->link.data, r->link.len);
    else
        coto_buf_add(&target, field, strnlen(field, 100));
    coto_buf_clear(&r->link);
    if (target.failed)
        return coto_err_set(err, COTO_ERR_LIMIT, 0, "archive: no memory");
    if (r->left)
        return refuse(err, "a link with bytes in it");
    if (target.len == 0 || strlen(target.data) != target.len)
        return refuse(err, "a link to nothing, or with NUL in its target");
    return r->sink.link(r->sink.arg, name, target.data, block[TYPE] == '2', err);
}

/* What is neither file nor directory; most readers want none of it. */
static int begin_other(struct coto_tar_reader *r, const unsigned char *block, const char *name,
                       struct coto_err *err)
{
    char type = (char)block[TYPE];
    char why[256];

    if ((type == '1' || type == '2') && r->sink.link)
        return begin_link(r, block, name, err);
    if ((type == '3' || type == '4' || type == '6') && r->sink.special && !r->left)
        return r->sink.special(r->sink.arg, name, err);
    snprintf(why, sizeof why, "member %lld, '%.120s', is a link, device or of another kind that is not taken",
             (long long)r->members, name);
    return refuse(err, why);
}

static void take_times(struct coto_tar_reader *r, const unsigned char *block)
{
    int64_t mtime = r->pax_mtime >= 0 ? r->pax_mtime : number(block + MTIME, 12);

    r->mode = (unsigned)number(block + MODE, 8) & 07777;
    r->mtime = mtime > 0 ? mtime : 0;
    r->pax_mtime = -1;
}

static int begin_member(struct coto_tar_reader *r, const unsigned char *block, struct coto_err *err)
{
    coto_auto_buf name = {0};
    char type = (char)block[TYPE];
    bool is_file = type == '0' || type == '\0' || type == '7';

    if (take_name(r, block, &name, err))
        return -1;
    coto_buf_clear(&r->name);
    r->size = -1;
    take_times(r, block);
    if (++r->members > r->sink.max_members)
        return refuse(err, "too many members");
    if (type == '5') {
        if (r->left)
            return refuse(err, "a directory with bytes in it");
        return strcmp(name.data, ".") == 0 ? 0 : r->sink.directory(r->sink.arg, name.data, err);
    }
    if (!is_file)
        return begin_other(r, block, name.data, err);
    coto_buf_clear(&r->link);
    if (r->left > r->sink.max_bytes - r->bytes)
        return refuse_size(err);
    r->bytes += r->left;
    return r->sink.file(r->sink.arg, name.data, r->mode & 0100, r->left, err);
}

static int take_header(struct coto_tar_reader *r, struct coto_err *err)
{
    static const unsigned char zero[COTO_TAR_BLOCK];
    const unsigned char *block = r->block;
    char type = (char)block[TYPE];

    if (memcmp(block, zero, sizeof zero) == 0) {
        r->is_over = r->is_ended;
        r->is_ended = true;
        return 0;
    }
    if (r->is_ended)
        return refuse(err, "something follows its end, which is two blocks of zeros");
    if (block[0] == 0x1f && block[1] == 0x8b)
        return refuse(err, "it is compressed: send the tar file itself (gunzip)");
    if (memcmp(block + MAGIC, "ustar", 5) != 0 || !has_right_sum(block))
        return refuse(err, "not a tar file, or a damaged one");
    int64_t size = number(block + SIZE, 12);
    if (size < 0)
        return refuse(err, "a size that is no number");
    r->is_meta = type == 'x' || type == 'g' || type == 'L' || (type == 'K' && r->sink.link);
    r->meta_type = type;
    r->left = !r->is_meta && r->size >= 0 ? r->size : size;
    if (r->left > INT64_MAX - COTO_TAR_BLOCK)
        return refuse(err, "a size that is no number");
    r->padding = (COTO_TAR_BLOCK - r->left % COTO_TAR_BLOCK) % COTO_TAR_BLOCK;
    if (!r->is_meta)
        return begin_member(r, block, err);
    coto_buf_clear(&r->meta);
    return r->left > META_MAX ? refuse(err, "a header of more than 64 KiB") : 0;
}

struct pax_record {
    const char *key;
    size_t key_len;
    const char *value; /* a newline ends it */
    size_t len;
};

static bool is_key(const struct pax_record *record, const char *key)
{
    return record->key_len == strlen(key) && memcmp(record->key, key, record->key_len) == 0;
}

static int take_record(struct coto_tar_reader *r, const struct pax_record *record,
                       struct coto_err *err)
{
    char *rest;

    if (is_key(record, "path") || is_key(record, "linkpath")) {
        struct coto_buf *text = is_key(record, "path") ? &r->name : &r->link;
        coto_buf_clear(text);
        coto_buf_add(text, record->value, record->len);
    } else if (is_key(record, "size")) {
        r->size = strtoll(record->value, &rest, 10);
        if (*rest != '\n' || r->size < 0)
            return refuse(err, "a size that is no number");
    } else if (is_key(record, "mtime")) {
        r->pax_mtime = strtoll(record->value, &rest, 10);
        if ((*rest != '\n' && *rest != '.') || r->pax_mtime < 0)
            r->pax_mtime = 0; /* before 1970 */
    }
    return 0;
}

/* "LENGTH key=value\n", again and again. */
static int take_pax(struct coto_tar_reader *r, struct coto_err *err)
{
    const char *p = r->meta.data;
    const char *end = p + r->meta.len;

    while (p < end) {
        char *rest;
        unsigned long len = strtoul(p, &rest, 10);
        const char *equals = memchr(rest, '=', (size_t)(end - rest));
        if (rest == p || *rest != ' ' || len > (unsigned long)(end - p) || !equals ||
            equals >= p + len || len < 4 || p[len - 1] != '\n')
            return refuse(err, "a pax header that makes no sense");
        const char *value = equals + 1;
        size_t value_len = (size_t)(p + len - 1 - value);
        size_t key_len = (size_t)(equals - rest - 1);
        struct pax_record record = {rest + 1, key_len, value, value_len};
        if (r->meta_type == 'x' && take_record(r, &record, err))
            return -1;
        if (key_len > 10 && memcmp(rest + 1, "GNU.sparse", 10) == 0)
            return refuse(err, "sparse files are not taken");
        p += len;
    }
    return 0;
}

static int end_member(struct coto_tar_reader *r, struct coto_err *err)
{
    struct coto_buf *name = r->meta_type == 'K' ? &r->link : &r->name;

    if (!r->is_meta)
        return 0;
    r->is_meta = false;
    if (r->meta.failed)
        return coto_err_set(err, COTO_ERR_LIMIT, 0, "archive: no memory");
    if (r->meta_type != 'L' && r->meta_type != 'K')
        return take_pax(r, err);
    coto_buf_clear(name);
    coto_buf_add(name, coto_buf_str(&r->meta), strnlen(coto_buf_str(&r->meta), r->meta.len));
    return 0;
}

/* How many of the bytes belong to the member; -1. */
static int64_t take_bytes(struct coto_tar_reader *r, const char *data, size_t len,
                          struct coto_err *err)
{
    int64_t n = (int64_t)len < r->left ? (int64_t)len : r->left;

    if (r->is_meta)
        coto_buf_add(&r->meta, data, (size_t)n);
    else if (r->sink.data(r->sink.arg, data, (size_t)n, err))
        return -1;
    r->left -= n;
    return r->left == 0 && end_member(r, err) ? -1 : n;
}

int coto_tar_feed(struct coto_tar_reader *r, const void *data, size_t len, struct coto_err *err)
{
    const char *p = data;

    while (len > 0 && !r->is_over) {
        int64_t n;
        if (r->left > 0) {
            n = take_bytes(r, p, len, err);
            if (n < 0)
                return -1;
        } else if (r->padding > 0) {
            n = (int64_t)len < r->padding ? (int64_t)len : r->padding;
            r->padding -= n;
        } else {
            n = (int64_t)(len < COTO_TAR_BLOCK - r->filled ? len : COTO_TAR_BLOCK - r->filled);
            memcpy(r->block + r->filled, p, (size_t)n);
            r->filled += (size_t)n;
            if (r->filled == COTO_TAR_BLOCK) {
                r->filled = 0;
                if (take_header(r, err))
                    return -1;
            }
        }
        p += n;
        len -= (size_t)n;
    }
    return 0; /* what follows the end mark is padding */
}

int64_t coto_tar_skip(struct coto_tar_reader *r)
{
    int64_t bytes = r->left + r->padding;

    if (r->is_meta)
        return 0;
    r->left = r->padding = 0;
    return bytes;
}

int coto_tar_end(struct coto_tar_reader *r, struct coto_err *err)
{
    if (r->is_ended)
        return 0;
    return refuse(err, r->members ? "it ends in the middle" : "not a tar file, or an empty one");
}

/* ---- writing ---- */

static void add_header(struct coto_buf *out, const char *name, unsigned mode, int64_t bytes,
                       char type)
{
    unsigned char block[COTO_TAR_BLOCK] = {0};
    unsigned sum = 0;

    memcpy(block + NAME, name, strnlen(name, 100));
    snprintf((char *)block + MODE, 8, "%07o", mode & 0777);
    snprintf((char *)block + 108, 8, "%07o", 0u);
    snprintf((char *)block + 116, 8, "%07o", 0u);
    snprintf((char *)block + SIZE, 12, "%011llo", (unsigned long long)bytes & 077777777777ull);
    snprintf((char *)block + 136, 12, "%011o", 0u);
    memset(block + SUM, ' ', 8);
    block[TYPE] = (unsigned char)type;
    memcpy(block + MAGIC, "ustar\00000", 8);
    for (int i = 0; i < COTO_TAR_BLOCK; i++)
        sum += block[i];
    snprintf((char *)block + SUM, 8, "%06o", sum);
    coto_buf_add(out, block, sizeof block);
}

/* A pax record counts its own length. */
static void add_record(struct coto_buf *out, const char *key, const char *value)
{
    size_t rest = strlen(key) + strlen(value) + 3;
    size_t len = rest + 1;

    while ((size_t)snprintf(NULL, 0, "%zu", len) + rest != len)
        len = (size_t)snprintf(NULL, 0, "%zu", len) + rest;
    coto_buf_addf(out, "%zu %s=%s\n", len, key, value);
}

void coto_tar_add_file(struct coto_buf *out, const char *name, unsigned mode, int64_t bytes)
{
    coto_auto_buf pax = {0};
    char size[32];

    if (strlen(name) > 100)
        add_record(&pax, "path", name);
    if (bytes > 077777777777) {
        snprintf(size, sizeof size, "%lld", (long long)bytes);
        add_record(&pax, "size", size);
    }
    if (pax.len) {
        add_header(out, "pax", 0644, (int64_t)pax.len, 'x');
        coto_buf_add(out, pax.data, pax.len);
        coto_tar_pad(out, (int64_t)pax.len);
    }
    add_header(out, name, mode, bytes, '0');
}

void coto_tar_pad(struct coto_buf *out, int64_t bytes)
{
    static const char zero[COTO_TAR_BLOCK];

    coto_buf_add(out, zero, (size_t)((COTO_TAR_BLOCK - bytes % COTO_TAR_BLOCK) % COTO_TAR_BLOCK));
}

void coto_tar_add_end(struct coto_buf *out)
{
    static const char zero[2 * COTO_TAR_BLOCK];

    coto_buf_add(out, zero, sizeof zero);
}
