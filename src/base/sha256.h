/* SHA-256 (FIPS 180-4). By hand because the lean `coto` links no crypto
 * library: libcrypto alone would cost more start-up time than the whole
 * sandbox (docs/decisions/0001). Hashes here identify; the one secret is the order of kernel/idmap.h. */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct coto_sha256 {
    uint32_t state[8];
    uint64_t total;
    unsigned char block[64];
};

#define COTO_SHA256_HEX 65

void coto_sha256_init(struct coto_sha256 *sha);
void coto_sha256_add(struct coto_sha256 *sha, const void *data, size_t len);
void coto_sha256_hex(struct coto_sha256 *sha, char ret_hex[COTO_SHA256_HEX]);
void coto_sha256_of(const void *data, size_t len, char ret_hex[COTO_SHA256_HEX]);
