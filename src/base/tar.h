/* Tar archives as strangers send them, and as we write them: regular files and directories.
 * Reading is a machine that is fed pieces of any size and keeps one header; whatever else
 * an archive may hold (links, devices) is refused with a reason unless the sink takes
 * it, and sparse files always are. Names are handed on as they are, without a leading "./": the caller decides what is
 * a good one. POSIX (ustar, pax) and GNU (long names, binary sizes) forms are understood.
 */
#pragma once

#include "base/err.h"
#include "base/str.h"

#include <stdbool.h>
#include <stdint.h>

#define COTO_TAR_BLOCK 512

/* Functions return 0, or -1 with the error set: reading ends. */
struct coto_tar_sink {
    int (*file)(void *arg, const char *name, bool executable, int64_t bytes, struct coto_err *err);
    int (*data)(void *arg, const void *data, size_t len, struct coto_err *err); /* of that file */
    int (*directory)(void *arg, const char *name, struct coto_err *err);
    void *arg;
    int64_t max_bytes; /* of all files together */
    int64_t max_members;
    /* For root file systems; NULL refuses. A link's target is handed on as it is. */
    int (*link)(void *arg, const char *name, const char *target, bool is_symbolic,
                struct coto_err *err);
    int (*special)(void *arg, const char *name, struct coto_err *err); /* device, FIFO */
};

struct coto_tar_reader {
    struct coto_tar_sink sink;
    unsigned char block[COTO_TAR_BLOCK];
    size_t filled;
    int64_t left;    /* bytes of the present member */
    int64_t padding; /* that follow them */
    bool is_meta;    /* the present member is about the next one */
    bool is_ended;   /* the end mark was seen, or the first half of it */
    bool is_over;    /* all of it: what follows is padding */
    char meta_type;
    struct coto_buf meta;
    struct coto_buf name; /* for the next member */
    struct coto_buf link; /* the target, for the next member */
    int64_t size;         /* for the next member; -1: as its header says */
    int64_t bytes, members;
    unsigned mode; /* of the present member, as its header says: twelve bits */
    int64_t mtime; /* of the present member, in seconds; never negative */
    int64_t pax_mtime; /* for the next member; -1: as its header says */
};

void coto_tar_reader_init(struct coto_tar_reader *reader, const struct coto_tar_sink *sink);
void coto_tar_reader_fini(struct coto_tar_reader *reader);
int coto_tar_feed(struct coto_tar_reader *reader, const void *data, size_t len, struct coto_err *err);
/* The bytes of the present member that were not fed yet are not wanted: how many to leave
 * out before the next piece. */
int64_t coto_tar_skip(struct coto_tar_reader *reader);
/* No more will come: an archive without its end is refused. */
int coto_tar_end(struct coto_tar_reader *reader, struct coto_err *err);

/* ---- writing ---- */

/* The header of a file; its bytes follow, then coto_tar_pad. A name of any length and bytes. */
void coto_tar_add_file(struct coto_buf *out, const char *name, unsigned mode, int64_t bytes);
void coto_tar_pad(struct coto_buf *out, int64_t bytes); /* up to a full block */
void coto_tar_add_end(struct coto_buf *out);
