/* coto-init: the tiny static PID 1 of every sandbox.
 *
 * Theory of operation. It is started with an empty environment and the byte
 * stream to the host (--in, --out), optionally a handle on the workspace (--work:
 * writable also where the program's own view is read-only; --dir: its path), and the program's
 * stdin, stdout, stderr as its own where these are pipes. With --setup it first
 * builds a native sandbox around itself (setup.h). It makes itself undumpable, says
 * READY and then only answers frames (wire/frame.h) and reaps.
 *
 * A program is started by EXEC: a child, new session, limits, uid, no_new_privs,
 * capabilities, Landlock, seccomp, execve, in that order, because each step may take
 * away what an earlier one needs. The child notes what the kernel says about it
 * (not what was asked) just before execve; that is the STARTED frame.
 *
 * When the stream ends, for whatever reason, it kills everything and exits: a
 * sandbox never outlives its supervisor. A stream is replaced by another one that comes as a
 * descriptor through it: the launcher of a service does that when the front has died.
 *
 * As PID 1 "everything" is kill(-1), which is atomic against fork. Elsewhere (the
 * subprocess level) it is a child subreaper and kills its descendants until none is
 * left; it must never use kill(-1) there.
 */
#pragma once

#include "base/err.h"
#include "base/str.h"
#include "init/floor.h"
#include "init/walls.h"
#include "wire/frame.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define COTO_INIT_PROCS 32

struct init_cpu {
    int64_t user_us, system_us;
};

struct init_proc {
    unsigned id; /* the host's number; 0: slot is free */
    pid_t pid;
    bool kill_on_exit;
    bool spares; /* an interpreter that has state: then nobody is killed */
    struct init_cpu cpu; /* when it began (cpu.c) */
    bool bye_on_exit;
    bool timed_out;
    bool state_kept; /* it has ended, and its interpreter waits for the next */
    bool state_found; /* its interpreter has run one before */
    int64_t deadline_us; /* 0: none */
    int fd[3];           /* frame mode: our ends; -1 otherwise */
    bool in_eof;
    struct coto_buf in;  /* stdin bytes not yet taken by the program */
    struct coto_strv full_paths;
};

struct init {
    int in_fd, out_fd;
    int work_fd, proc_fd, root_fd;
    int signal_fd;
    int parked_fd;    /* channel to a parked process, -1 none */
    pid_t parked_pid; /* once it has said hello */
    int late_fd;      /* the same channel, as long as nobody was asked to send the process; -1 */
    int used_fd;      /* where to say that a socket was made, -1: nobody asks */
    int sockets_fd;   /* listener of who waits to make one (kernel/sockwatch.h), -1 none */
    bool has_answered; /* the parked process, once */
    struct coto_buf told; /* what it said then, before it ran anything */
    bool has_state;    /* it has run a program, and waits */
    struct init_cpu spent; /* by it, when last looked */
    bool is_resident;  /* it was started here, behind walls: resident says which */
    struct init_report resident;
    bool tells_parked; /* whoever asked for it waits to hear of it */
    unsigned context; /* process number of the program it runs and will tell the end of; 0 */
    int labels_fd; /* see init_built */
    bool is_pid1;
    unsigned root;    /* enum coto_setup_root */
    bool is_built;    /* it made the sandbox around itself (--setup) */
    bool send_failed; /* see init_send */
    bool is_used;     /* a program was started */
    bool is_bounded;  /* in a container: coto_caps_is_bounded */
    bool bye;
    struct init_floor floor;
    uint64_t ignored; /* signals that it may have inherited as ignored */
    int put_fd; /* file that PUT_DATA continues, -1 none */
    char put_path[256];
    unsigned unready; /* process for which something could not be put into place, 0 none */
    struct init_proc procs[COTO_INIT_PROCS];
    struct coto_frame_reader reader;
    struct coto_buf out; /* frame being built */
};

/* main.c */
int init_send(struct init *init); /* writes init->out and clears it */
void init_send_error(struct init *init, unsigned proc, const struct coto_err *err);
struct pollfd;
int init_poll(struct pollfd *pfd, int timeout_ms); /* of one, and no signal interrupts it */

/* spawn.c */
int init_spawn(struct init *init, const struct coto_frame *frame, struct coto_err *err);
void init_kill_all(const struct init *init);
/* PARK: an interpreter of the sandbox's own files, before there is any program. */
int init_park(struct init *init, const struct coto_frame *frame, struct coto_err *err);

/* parked.c */
void init_parked_hello(struct init *init);
bool init_parked_wait(struct init *init); /* whether there is one */
/* Gives the parked process this EXEC frame; theirs are its stdio, -1: init's own. It has told
 * what the kernel says about it when this returns its pid; 0: it is gone. */
pid_t init_parked_start(struct init *init, const struct coto_frame *frame, const int theirs[3],
                        bool context, struct coto_err *err);
/* Something from it: hello, or in a context the end of a program. */
void init_parked_says(struct init *init);
/* The process that was started with this channel as its stdin is what waits here from now on, and has the
 * frame for its first program. Takes the channel. */
int init_parked_adopt(struct init *init, const struct coto_frame *frame, const int theirs[3],
                      int channel_fd, struct coto_err *err);
/* It is dead. */
void init_parked_gone(struct init *init, pid_t pid);
void init_sockets_used(struct init *init); /* from now on the network namespace is used */
void init_sockets_wanted(struct init *init);
/* cpu.c: what the program before which `begin` was called has used. */
void init_cpu_begin(struct init *init, struct init_cpu *ret_before);
void init_cpu_end(struct init *init, const struct init_cpu *before, struct init_cpu *ret_used,
                  int64_t *ret_maxrss);

/* main.c: a program has ended without its process. */
void init_context_exit(struct init *init, unsigned proc, int status);

/* files.c */
int init_put(struct init *init, const struct coto_frame *frame, struct coto_err *err);
int init_put_more(struct init *init, const struct coto_frame *frame, struct coto_err *err);
int init_mkdir(struct init *init, const struct coto_frame *frame, struct coto_err *err);
int init_symlink(struct init *init, const struct coto_frame *frame, struct coto_err *err);
int init_collect(struct init *init, const struct coto_frame *frame, struct coto_err *err);
int init_get(struct init *init, const struct coto_frame *frame, struct coto_err *err);
int init_remove(struct init *init, const struct coto_frame *frame, struct coto_err *err);
