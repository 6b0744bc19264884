/* Keys and certificates for a front that may not read their files: the keeper copies each
 * into sealed memory, and the front opens that as /proc/self/fd/N. After a change, of a file or of
 * its name, the front gets all of them again, with the names (talk.h). */
#pragma once

#include "base/err.h"
#include "daemon/settings.h"

#define COTO_FILES_JWT 32 /* key files of tokens, at most */
#define COTO_FILES_PATH 32

enum coto_file { COTO_FILE_CERTIFICATE, COTO_FILE_KEY, COTO_FILE_CA, COTO_FILE_CRL, COTO_FILE_JWT };

#define COTO_FILES_MAX (COTO_FILE_JWT + COTO_FILES_JWT)

struct coto_files {
    int fds[COTO_FILES_MAX]; /* -1: not set */
    int count;
    unsigned uid;                   /* for whom */
    uint64_t looks[COTO_FILES_MAX]; /* of the files from outside, when they were read */
};

/* Bits. The revocation list belongs to the certificates, and is taken without them where they are no good. */
enum coto_files_which { COTO_FILES_CERTIFICATES = 1, COTO_FILES_CRL = 2, COTO_FILES_KEYS = 4, COTO_FILES_ALL = 7 };

/* What was taken of files that have changed, and why the rest was not. */
struct coto_files_news {
    bool has_certificates, has_keys;
    bool has_crl; /* although the certificates beside it are no good */
    struct coto_err certificates, keys;
};

/* Checks the files as they are (they load, and secrets are not open to others) and copies
 * them for uid. */
int coto_files_read(const struct coto_settings *settings, unsigned uid, struct coto_files *ret_files,
                    struct coto_err *err);
/* Those files again that which says, or others: as settings names them now. Certificates and token keys are taken each for
 * themselves; what does not load is in ret_files as it was in old, from where it is moved, and has changed still. */
void coto_files_renew(const struct coto_settings *settings, unsigned which, struct coto_files *old,
                      struct coto_files *ret_files, struct coto_files_news *ret_news);
/* Whether a certificate, an authority or a list has expired, or is of tomorrow. */
int coto_files_check_time(const struct coto_settings *settings, struct coto_err *err);
void coto_files_close(struct coto_files *files);
bool coto_files_any(const struct coto_settings *settings);
/* Which look different now, from outside, than when they were taken; their names, with commas between. */
unsigned coto_files_changed(const struct coto_settings *settings, const struct coto_files *files,
                            struct coto_buf *ret_names);
/* The descriptors that are set, and which they are; how many. */
int coto_files_list(const struct coto_files *files, int *ret_fds, char *ret_slots);
/* The other way round, in the place of those that are there. Takes fds. 0 or -1. */
int coto_files_take(struct coto_files *files, const int *fds, const char *slots, int count);
/* The path to open, "" when not set. */
void coto_files_path(const struct coto_files *files, int file, char ret_path[COTO_FILES_PATH]);
