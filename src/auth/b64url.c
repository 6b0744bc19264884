#include "auth/b64url.h"

static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

void coto_b64url_add(struct coto_buf *out, const void *data, size_t len)
{
    const unsigned char *p = data;

    for (; len >= 3; p += 3, len -= 3) {
        char four[4] = {letters[p[0] >> 2], letters[(p[0] & 3) << 4 | p[1] >> 4],
                        letters[(p[1] & 15) << 2 | p[2] >> 6], letters[p[2] & 63]};
        coto_buf_add(out, four, 4);
    }
    if (len == 0)
        return;
    coto_buf_addc(out, letters[p[0] >> 2]);
    coto_buf_addc(out, letters[(p[0] & 3) << 4 | (len == 2 ? p[1] >> 4 : 0)]);
    if (len == 2)
        coto_buf_addc(out, letters[(p[1] & 15) << 2]);
}

static int value_of(char c)
{
    if (c >= 'A' && c <= 'Z')
        return c - 'A';
    if (c >= 'a' && c <= 'z')
        return c - 'a' + 26;
    if (c >= '0' && c <= '9')
        return c - '0' + 52;
    return c == '-' ? 62 : c == '_' ? 63 : -1;
}

long coto_b64url_decode(const char *text, size_t len, unsigned char *ret_data)
{
    unsigned char *out = ret_data;
    unsigned bits = 0;
    int have = 0;

    if (len % 4 == 1)
        return -1;
    for (size_t i = 0; i < len; i++) {
        int value = value_of(text[i]);
        if (value < 0)
            return -1;
        bits = bits << 6 | (unsigned)value;
        have += 6;
        if (have >= 8) {
            have -= 8;
            *out++ = (unsigned char)(bits >> have);
            bits &= (1U << have) - 1;
        }
    }
    return bits ? -1 : out - ret_data;
}
