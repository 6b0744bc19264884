/* Frames between the host and coto-init, over any byte stream (socketpair,
 * docker attach, virtio-serial, vsock, a pod's exec stream).
 *
 * A frame is an 8-byte header (length of the payload u32, type u16, process
 * number u16, all little-endian) and the payload: fields, each tag u16, length
 * u32, bytes. Process 0 is the sandbox itself; others are numbered by the host,
 * so several can run at once. Unknown tags are skipped, so old and new ends
 * understand each other; unknown frame types are an error.
 *
 * What is put into place for a process carries its number. Where that fails it is told of process 0, and the process
 * is not started: its EXEC, which may be on its way, is answered by an ERROR of its own.
 *
 * Number 41 is kept for the frame that tells a restored microVM new entropy and
 * the time before anything else.
 *
 * Both ends treat the other as hostile: every length is checked against what is
 * really there, a frame is at most COTO_FRAME_MAX.
 */
#pragma once

#include "base/err.h"
#include "base/str.h"

#include <stdint.h>

#define COTO_WIRE_VERSION 1
#define COTO_FRAME_HEADER 8
#define COTO_FRAME_MAX (256u * 1024)
#define COTO_FRAME_CHUNK (64u * 1024) /* data per DATA frame */

/* id, number, direction, meaning. Numbers are stable. */
#define COTO_FRAMES(X)                                                                             \
    X(READY, 1, "init", "init runs and waits: VERSION [S_NAMESPACE...]")                          \
    X(ERROR, 2, "init", "something failed: KIND ERRNO TEXT REMEDY")                                \
    X(STARTED, 3, "init", "a process was started; walls as read back by the child")                \
    X(OUT, 4, "init", "bytes of stdout (frame mode)")                                              \
    X(ERR, 5, "init", "bytes of stderr (frame mode)")                                              \
    X(EXIT, 6, "init", "the process ended and its tree with it: STATUS CPU MAXRSS DISK_FULL CONTEXT (1 kept, 2 found)") \
    X(FILE, 7, "init", "an artifact begins: PATH SIZE MODE")                                       \
    X(FILE_DATA, 8, "init", "bytes of it: DATA")                                                   \
    X(FILE_END, 9, "init", "it is complete")                                                       \
    X(COLLECTED, 10, "init", "no more files; GET and REMOVE are done: COUNT SKIPPED")              \
    X(DONE, 11, "init", "stdin bytes were taken (frame mode): COUNT; room for more")                \
    X(STEP, 12, "init", "a set-up step was done (verbose): TEXT SIZE (microseconds)")               \
    X(PUT, 32, "host", "create a file: PATH MODE DATA [MORE]")                                     \
    X(PUT_DATA, 33, "host", "more of that file: DATA [MORE]")                                      \
    X(MKDIR, 34, "host", "create a directory: PATH MODE")                                          \
    X(EXEC, 35, "host", "start a program behind walls (see tags)")                                 \
    X(STDIN, 36, "host", "bytes for stdin (frame mode); no DATA: end of file")                     \
    X(SIGNAL, 37, "host", "send a signal to the process: SIGNO")                                   \
    X(KILL, 38, "host", "SIGKILL everything but init")                                             \
    X(COLLECT, 39, "host", "send the files below PATH: LIMIT_BYTES LIMIT_COUNT")                   \
    X(BYE, 40, "host", "kill everything and exit")                                                 \
    X(SYMLINK, 42, "host", "create a symbolic link: PATH DATA")                                    \
    X(SETUP, 43, "host", "build a native sandbox around yourself (wire/setup.h)")                  \
    X(CLOSE, 44, "host", "nobody reads an output any more (frame mode): COUNT 1 stdout, 2 stderr") \
    X(GET, 45, "host", "send what is at PATH: a file, or only its size past LIMIT_BYTES; a directory's names") \
    X(REMOVE, 46, "host", "remove PATH and all below it")                                          \
    X(PARK, 47, "host", "start an interpreter that waits for a program: ARGV ENV CWD; DONE, or ERROR") \
    /* between the service's front and its launcher: see drivers/launcher/talk.h */                          \
    X(CHANNEL, 64, "front", "one more channel, its end is attached")                               \
    X(WARM, 65, "front", "keep sandboxes of this plan ready: L_MIN L_MAX L_WAIT L_PROFILE and a plan; no answer")    \
    X(CREATE, 66, "front", "a sandbox of this plan: L_WAITING [L_HOLD] and a plan")                \
    X(CREATED, 67, "launcher", "its stream is attached: L_BOX and walls")                          \
    X(USAGE, 68, "front", "what it has used: L_BOX")                                               \
    X(USED, 69, "launcher", "usage")                                                               \
    X(BOX_KILL, 70, "front", "end every process in it: L_BOX; no answer")                          \
    X(DESTROY, 71, "front", "end and remove it: L_BOX")                                            \
    X(STATUS, 72, "front", "how the pool is: [L_HITS], which it has not counted")                  \
    X(STATUS_IS, 73, "launcher", "counters of the pool: L_POOL, and L_SHELF for each kind in it")     \
    X(HELD, 74, "front", "the first sandbox from L_BOX on that a front before has left: CREATED, or DONE") \
    X(USE, 75, "front", "what asks here outlives the front; it uses L_BOX")                        \
    X(CHECK, 76, "front", "whether a sandbox of this plan can be made here: DONE, or ERROR")

enum coto_frame_type {
#define X(id, number, from, doc) COTO_FRAME_##id = number,
    COTO_FRAMES(X)
#undef X
};

/* Field tags. Text has no NUL at the end on the wire; numbers are u64. */
#define COTO_TAGS(X)                                                                               \
    X(VERSION, 1) X(KIND, 2) X(ERRNO, 3) X(TEXT, 4) X(REMEDY, 5)                                   \
    X(DATA, 6) X(PATH, 7) X(MODE, 8) X(SIZE, 9) X(MORE, 10)                                        \
    X(STATUS, 11) X(CPU_USER_US, 12) X(CPU_SYSTEM_US, 13) X(MAXRSS_BYTES, 14) X(DISK_FULL, 15)     \
    X(COUNT, 16) X(SKIPPED, 17) X(SIGNO, 18) X(LIMIT_BYTES, 19) X(LIMIT_COUNT, 20)                 \
    /* EXEC */                                                                                     \
    X(ARGV, 32) X(ENV, 33) X(CWD, 34) X(UID, 35) X(GID, 36) X(CAPS, 37)                            \
    X(RLIMIT, 38)       /* resource, soft, hard: 3 u64 */                                          \
    X(SECCOMP, 39)      /* struct sock_filter array */                                             \
    X(LANDLOCK_ABI, 40) /* highest ABI to use; absent: none */                                     \
    X(WRITABLE, 41)     /* path Landlock leaves writable (repeated) */                             \
    X(STDIO, 42)        /* 0: init's own 0, 1, 2; 1: frames */                                     \
    X(TIMEOUT_MS, 43)   /* init kills the tree after this, in case the host sleeps */              \
    X(UMASK, 45)               X(NOEXEC, 46)                                                      \
    X(FULL_PATH, 47)    /* where to look for "disk full" at the end (repeated) */                  \
    X(KILL_ON_EXIT, 48) /* COTO_KILL_*: when this process ends, all others are killed first */     \
    X(BYE_ON_EXIT, 50)  /* 1: and init itself exits then, as after BYE */                          \
    X(APPARMOR, 51)     /* profile to ask for at execve */                                         \
    X(APPARMOR_MUST, 52) X(PARKED, 53) X(CONTEXT, 54) /* 1: no program without it */                                            \
    X(RESIDENT, 55)     /* of a context where nothing waits: what to start, that takes programs (repeated) */ \
    X(TIMED_OUT, 49)    /* EXIT: init's own timer ended it */                                      \
    /* STARTED: read back by the child just before execve */                                       \
    X(R_UID, 64) X(R_GID, 65) X(R_CAP_EFF, 66) X(R_CAP_PRM, 67) X(R_CAP_INH, 68)                   \
    X(R_CAP_BND, 69) X(R_CAP_AMB, 70) X(R_NNP, 71) X(R_SECCOMP, 72) X(R_LANDLOCK, 73)              \
    X(R_ROOT_RO, 74) X(R_NOFILE, 75) X(R_FSIZE, 76) X(R_CPU, 77) X(R_NPROC, 78)                    \
    X(R_DATA, 79) X(R_FDS, 80) X(R_DISK_BYTES, 81) X(R_DISK_INODES, 82) X(R_PID, 83)               \
    X(R_GROUPS, 84) X(R_APPARMOR, 85) X(R_APPARMOR_ERRNO, 86)                                      \
    /* SETUP: see wire/setup.h */                                                                  \
    X(S_USER, 96) X(S_HOST, 97) X(S_DISK, 98) X(S_TMP, 99) X(S_INODES, 100)                        \
    X(S_OUTPUT_ONLY, 101) X(S_VERBOSE, 102) X(S_GIVEN, 103) X(S_ROOTFS, 104) X(S_MOUNT, 105)       \
    X(S_SOURCE, 106) X(S_TARGET, 107) X(S_DEV, 108) X(S_INO, 109) X(S_MODE, 110)                   \
    X(S_WRITABLE, 111) X(S_TMPFS, 112) X(S_TMPFS_SIZE, 113) X(S_NAMESPACE, 114)        \
    X(S_IGNORED, 115) X(S_APPARMOR, 116) X(S_PTYS, 117)                                            \
    /* front and launcher: see drivers/launcher/talk.h */                                                    \
    X(L_BOX, 128) X(L_WAITING, 129) X(L_MIN, 130) X(L_MAX, 131) X(L_NUMBERS, 132)                   \
    X(L_ID, 133) X(L_PROFILE, 134) X(L_WALL, 135) X(L_SANDBOX, 136) X(L_USAGE, 137)                 \
    X(L_POOL, 138) X(L_HOLD, 139) X(L_BUSY, 140) X(L_RUNTIME, 141)                                                \
    X(L_DRIVER, 142) X(L_GUEST, 143) X(L_PARK, 144) X(L_MODULES, 145) X(L_SHELF, 146) X(L_SELF, 147)    \
    X(L_WAIT, 148) X(L_HITS, 149)

/* Values of KILL_ON_EXIT; 0: nobody is killed. */
enum { COTO_KILL_ALWAYS = 1, COTO_KILL_UNLESS_STATE = 2 /* where an interpreter waits with its state */ };

enum coto_tag {
#define X(id, number) COTO_TAG_##id = number,
    COTO_TAGS(X)
#undef X
};

/* ---- writing: begin, add fields, end; look at buf->failed once ---- */
size_t coto_frame_begin(struct coto_buf *buf, enum coto_frame_type type, unsigned proc);
void coto_frame_add(struct coto_buf *buf, enum coto_tag tag, const void *data, size_t len);
void coto_frame_add_text(struct coto_buf *buf, enum coto_tag tag, const char *text);
void coto_frame_add_num(struct coto_buf *buf, enum coto_tag tag, uint64_t value);
/* Fills in the length; sets buf->failed when the frame is over COTO_FRAME_MAX. */
void coto_frame_end(struct coto_buf *buf, size_t begin);
/* An ERROR frame of a struct coto_err. */
void coto_frame_add_error(struct coto_buf *buf, unsigned proc, const struct coto_err *err);

/* The same without any allocation, for a child that shares its parent's memory: kind
 * SYSTEM, an errno and a short text. Length; 0 when it does not fit. */
size_t coto_frame_small_error(unsigned char *to, size_t size, int sys_errno, const char *text);

/* ---- reading ---- */
struct coto_frame {
    enum coto_frame_type type;
    unsigned proc;
    const unsigned char *payload; /* borrowed from the reader until the next call */
    size_t len;
};

/* What stands before its payload. */
void coto_frame_head(const struct coto_frame *frame, unsigned char to[COTO_FRAME_HEADER]);

struct coto_frame_reader {
    struct coto_buf buf;
    size_t pos;
};
/* Room for incoming bytes; the caller reads into it and adds to reader->buf.len. */
char *coto_frame_reader_space(struct coto_frame_reader *reader, size_t *ret_len);
/* 1: *ret_frame is the next frame; 0: more bytes are needed; -1: broken stream. */
int coto_frame_next(struct coto_frame_reader *reader, struct coto_frame *ret_frame,
                    struct coto_err *err);
void coto_frame_reader_fini(struct coto_frame_reader *reader);

struct coto_field {
    unsigned tag;
    const unsigned char *data;
    size_t len;
    size_t next; /* cursor: start with a zeroed struct */
};
/* 1: next field; 0: end; -1: malformed. */
int coto_field_next(const struct coto_frame *frame, struct coto_field *field);
/* A field's number; 0 when it is not 8 bytes long. */
uint64_t coto_field_value(const struct coto_field *field);
/* The first field of a tag: its number (0 when absent or not 8 bytes long). */
uint64_t coto_field_num(const struct coto_frame *frame, enum coto_tag tag);
/* The first field of a tag as an owned string; NULL when absent, holding a NUL
 * byte, or out of memory. */
char *coto_field_text(const struct coto_frame *frame, enum coto_tag tag);
/* Turns an ERROR frame back into the error it was made from. */
void coto_field_error(const struct coto_frame *frame, struct coto_err *ret_err);
