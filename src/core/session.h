/* The state of one run, shared by the files of this room. */
#pragma once

#include "core/run.h"
#include "wire/frame.h"

/* What the caller has given us to write to; a file is also what never waits, as /dev/null. */
enum coto_pump_to { COTO_TO_FILE, COTO_TO_PIPE, COTO_TO_SOCKET, COTO_TO_TERMINAL };

/* One output stream on its way from the program to the caller. */
struct coto_pump {
    int which;   /* 1 stdout, 2 stderr */
    int from_fd; /* pipe, or -1: bytes come as frames */
    int to_fd;   /* caller's descriptor, -1: nowhere */
    bool eof;
    bool to_full;    /* wait until to_fd takes more */
    enum coto_pump_to to;
    int own_fd;      /* to_fd where we opened it ourselves, else -1 */
    bool no_splice;  /* the program's buffers are not to be spliced to to_fd */
    bool grown;      /* pipe buffers were enlarged */
    int64_t limit;   /* bytes passed on */
    int64_t capture_max;
    struct coto_buf pending; /* rewritten or framed bytes not yet written */
    int via_fd[2];           /* a pipe of ours before to_fd, once there is much */
    size_t via_len;          /* bytes in it */
    struct coto_stream_result *result;
};

struct coto_session {
    const struct coto_plan *plan;
    const struct coto_io *io;
    struct coto_result *result;
    struct coto_sandbox *sandbox;
    struct coto_frame_reader reader;
    struct coto_buf out; /* frames not yet sent */
    struct coto_pump pumps[2];
    int in_fd;           /* caller's stdin while it has more, else -1 */
    bool in_wait_room;   /* program's stdin pipe is full */
    bool in_no_splice;
    struct coto_buf in_pending;
    int64_t in_credit;   /* frame mode: bytes init will take */
    int stage;
    unsigned first_proc; /* init's number of the first stage's process */
    bool keep;           /* the sandbox is used again */
    bool ahead;          /* the program is started before there is code for it, or was */
    char *chunk;         /* COTO_CHUNK bytes, once asked for */
    bool frames; /* the program's stdio travels as frames */
    bool ready, started, exited, collecting, collected, killing, cancelled, finished;
    bool lost;          /* init is gone, or was killed */
    bool refused;       /* init did not start the program; all else is well */
    bool unready;       /* nor will it, for want of a file: err says why, and it has yet to say so */
    bool send_closed;   /* init takes nothing any more */
    bool stream_closed; /* and says nothing any more */
    int64_t init_user_us, init_system_us; /* kernel's account of all reaped processes */
    int64_t cpu_before_us; /* what the sandbox had used when the program began */
    int64_t system_before_us; /* of that, in the kernel */
    int64_t phase_us, start_us, end_us, deadline_us, kill_us, watch_us, quiet_us;
    enum coto_end_cause cause;
    struct coto_facts *facts;
    /* the artifact that is arriving */
    int file_fd;
    struct coto_sha256 file_sha;
    struct coto_artifact file;
    bool file_open;
    int64_t kept_bytes; /* of all artifacts */
    int64_t came_bytes, name_bytes;
    struct coto_err err;
    bool failed;
};

#define COTO_CHUNK 65536

static inline unsigned coto_session_proc(const struct coto_session *s)
{
    return s->first_proc + (unsigned)s->stage;
}

/* run.c */
char *coto_session_chunk(struct coto_session *s); /* NULL: the run has failed */
int coto_session_flush(struct coto_session *s);           /* send what fits */
int coto_session_wait_room(struct coto_session *s);       /* until little is queued */
int coto_session_fail(struct coto_session *s, const struct coto_err *err);
void coto_session_end(struct coto_session *s, enum coto_end_cause cause);
void coto_session_started(struct coto_session *s);

/* stream.c */
void coto_pump_init(struct coto_pump *pump, struct coto_session *s, int which);
void coto_pump_run(struct coto_session *s, struct coto_pump *pump);  /* from_fd is ready */
void coto_pump_write(struct coto_session *s, struct coto_pump *pump); /* to_fd is ready */
void coto_pump_take(struct coto_session *s, struct coto_pump *pump, const void *data, size_t len);
bool coto_pump_done(const struct coto_pump *pump);
bool coto_pump_has_left(const struct coto_pump *pump); /* bytes that to_fd has not taken yet */
void coto_pump_drop(struct coto_pump *pump);
void coto_pump_fini(struct coto_pump *pump);
void coto_stdin_begin(struct coto_session *s); /* a stage was started */
bool coto_stdin_is_wanted(const struct coto_session *s);
void coto_stdin_run(struct coto_session *s);

/* ahead.c */
extern const char coto_ahead_script[];
#define COTO_AHEAD_FILE "/tmp/.coto-ahead.js"
int coto_ahead_put_script(struct coto_session *s);
void coto_ahead_release(struct coto_session *s);

/* exec.c */
int coto_exec_send(struct coto_session *s, int stage);
/* copyin.c */
int coto_copyin(struct coto_session *s);
int coto_put_bytes(struct coto_session *s, const struct coto_plan_file *file);
/* artifacts.c */
void coto_artifact_begin(struct coto_session *s, const struct coto_frame *frame);
void coto_artifact_data(struct coto_session *s, const struct coto_frame *frame);
void coto_artifact_end(struct coto_session *s);
void coto_artifact_stop(struct coto_session *s);
/* walls.c */
int coto_walls_from_started(struct coto_session *s, const struct coto_frame *frame);
void coto_walls_of_supervisor(struct coto_session *s);
