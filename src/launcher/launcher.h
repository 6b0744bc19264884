/* The launcher: the part of the service that holds privilege.
 *
 * Theory of operation. One thread, one epoll. The keeper's channel tells of each new front, and
 * when it closes everything ends. The front asks over channels (see drivers/launcher/talk.h),
 * the first of which is its control channel; when that closes the front is dead (hold.c). A
 * box is a sandbox on its way through four states:
 *
 *   STARTING  created; its init has not said READY
 *   READY     on a shelf of the pool, or handed over in the same moment
 *   IN_USE    the front has its stream; here are its pidfd and its cgroup
 *   ENDING    killed; removed as soon as its init is dead
 *
 * Nothing blocks on a box: READY and death come through epoll. A box that was handed out is
 * never put back on a shelf. The only bytes read here that a guest could have written are
 * those before READY, when there is no guest yet, and one byte of an init in which no program has
 * run (late.c).
 *
 * A box of a container level is made and kept by a process of its own (apart.c), because that
 * blocks; here it goes through the same states.
 *
 * A shelf holds boxes of one plan. Its target grows with what is asked for and with what
 * waits, and shrinks again, between the limits the front gave; of all shelves together no more boxes are
 * ready than it says (share.c).
 */
#pragma once

#include "drivers/driver.h"
#include "drivers/launcher/client.h"
#include "wire/frame.h"

#include <stdbool.h>
#include <stdint.h>

#define LAUNCHER_BOXES 8192 /* a power of two */
#define LAUNCHER_SHELVES COTO_LAUNCH_SHELVES
#define LAUNCHER_CHANNELS 2048 /* a front has 544 workers, and one for each async execution */
#define LAUNCHER_LEFT 768      /* of them, of fronts that are gone: one has begun 512 async executions at most */
#define LAUNCHER_IDS 16
#define LAUNCHER_LISTS 8 /* of modules */
#define LAUNCHER_ALLOWED 8                        /* runtimes that lack the fix of an escape */
#define LAUNCHER_HIGH_ARGS (5 + LAUNCHER_ALLOWED) /* what the operator says about level high */

enum source_kind { SOURCE_CHANNEL, SOURCE_STREAM, SOURCE_ALIVE, SOURCE_TEMPLATE, SOURCE_APART, SOURCE_LATE };

/* What epoll hands back. */
struct source {
    enum source_kind kind;
    void *owner;
};

struct channel {
    struct source source;
    int fd;
    bool is_keeper, is_control;
    bool stays;           /* its process outlives the front */
    bool has_asked;       /* for a box, ever */
    unsigned boxes;       /* it is the user of */
    unsigned front;       /* of which it is */
    struct coto_buf hold; /* of the box it waits for */
    struct channel *next; /* in a shelf's queue */
    bool waits;           /* in a queue, or for a box of its own */
    bool gone;
    int64_t left_us; /* when its front had gone; 0: that is there */
};

enum box_state { BOX_STARTING, BOX_READY, BOX_IN_USE, BOX_ENDING };

struct box {
    struct source stream, alive, late;
    uint64_t number;
    enum box_state state;
    struct coto_sandbox *sandbox;
    struct coto_plan plan;
    struct coto_frame_reader reader;
    struct shelf *shelf;     /* it was made for; NULL: for a channel */
    struct channel *waiter;  /* gets CREATED, or USED at the end */
    struct box *next;        /* on its shelf while READY */
    int64_t made_us, ready_us;
    bool wants_usage;        /* the waiter, at the end: reading it takes a dozen system calls */
    struct coto_buf hold;    /* what the next front must know of it; empty: it ends with this one */
    bool is_apart;           /* a process of its own has it, and `sandbox` is what that one said */
    bool is_check;           /* there will be none: it is only asked whether there could be */
    bool parks;              /* apart: an interpreter is to wait in it */
    bool is_waited;          /* counted in launcher.waited */
    bool is_unwatched;       /* counted in launcher.unwatched */
    bool is_awaited;         /* init may ask for an interpreter (late.c) */
    struct source apart;
    struct channel *asker;   /* apart: waits for its usage */
    struct channel *user;    /* that stays and uses it; NULL */
    unsigned front;          /* for which it was made */
};

struct shelf {
    struct coto_buf key; /* the plan as it travels */
    char profile[64];    /* of whoever set it up */
    struct box *ready;   /* oldest first */
    struct channel *queue, **queue_end;
    unsigned ready_count, starting, queued;
    unsigned min, max, target;
    unsigned taken; /* since the last tick */
    unsigned rate;  /* taken per second, smoothed */
    uint64_t hits, misses;
    bool is_apart, is_parked;
    int64_t used_us;  /* when one was last asked for */
    int64_t filled_us; /* when the last one was begun */
    int64_t retry_us; /* after a failure that nobody waited for */
};

/* What one box may have: the operator's ceiling, whatever the front says. Numbers begin with any,
 * what weakens a wall with none. */
#define LAUNCHER_STANDARD 1
#define LAUNCHER_HIGH 2
struct launcher_most {
    int64_t memory, cpus, pids, disk, swap, tmp, inodes, ptys;
    uint64_t caps;
    int64_t seccomp; /* the widest tier */
    int64_t levels;  /* a bit each: LAUNCHER_STANDARD, LAUNCHER_HIGH */
    int64_t idmaps;  /* a bit for each kind */
    struct {
        unsigned uid, gid;
    } ids[LAUNCHER_IDS]; /* that programs have inside; none: any */
    int id_count;
    const char *modules[LAUNCHER_LISTS]; /* lists that interpreters may have imported beside the usual */
    int list_count;
};

/* What requests for isolation_level high get: the operator's word, not the front's. */
struct launcher_high {
    int isolation; /* COTO_ISOLATION_PROCESS: there is no such level */
    const char *runtime;
    struct coto_plan_image image;
    const char *allowed[LAUNCHER_ALLOWED];
    int allowed_count;
};

/* An interpreter that is forked into sandboxes; see template.c. */
struct template {
    struct source source;
    struct template_kind *kind;
    pid_t pid; /* 0: none */
    int fd;
    bool ready;
    struct box *box;  /* it is forking into */
    unsigned unasked; /* answers that come first, about boxes that have ended meanwhile */
    unsigned forks;
    int64_t asked_us; /* for the copy in `box` */
    int64_t began_us, retry_us;
};

/* Those that have imported the same. */
struct template_kind {
    const char *modules;          /* beside the usual; NULL: none */
    struct template templates[2]; /* one of them, and shortly before its end its successor */
    unsigned turn;
    struct box *parking; /* wait for it */
    int64_t used_us;
    bool is_told; /* what could not be imported */
};

struct launcher {
    int epoll_fd;
    const struct coto_driver *driver;
    struct channel *channels[LAUNCHER_CHANNELS];
    struct channel *control; /* NULL: there is no front now */
    unsigned front;          /* how many fronts have died */
    struct box *boxes[LAUNCHER_BOXES];
    struct shelf shelves[LAUNCHER_SHELVES];
    unsigned shelf_count;
    unsigned ready_max[2]; /* boxes on all shelves; of containers */
    int64_t wait_us;       /* a box on a shelf, at most */
    uint64_t next_number;
    unsigned box_count;
    unsigned max_boxes;
    struct launcher_most most;
    struct launcher_high high;
    char *high_args[LAUNCHER_HIGH_ARGS]; /* the same as they came */
    int high_arg_count;
    struct coto_launch_status status;
    struct coto_self self; /* our own walls, as the kernel confirms them */
    struct coto_buf in, out;
    struct coto_buf spare; /* for the next reader: too large to be allocated for each READY */
    struct template_kind kinds[1 + LAUNCHER_LISTS]; /* the first with the usual modules, then those of most.modules */
    unsigned waited; /* boxes that are being made here while somebody waits for just this one */
    unsigned unwatched; /* boxes that end, and nothing tells when they have */
    bool ending;
    int64_t alone_us; /* since when the keeper has gone; 0: it is there */
    int64_t began_us, tick_us, sweep_us;
    pid_t sweeper; /* 0: none */
};

/* box.c */
struct box *launcher_start_box(struct launcher *l, const struct coto_frame *plan,
                               struct shelf *shelf, struct channel *waiter, struct coto_err *err);
int launcher_start_check(struct launcher *l, const struct coto_frame *plan, struct channel *waiter,
                         struct coto_err *err);
struct box *launcher_find_box(struct launcher *l, uint64_t number);
void launcher_stream_ready(struct launcher *l, struct box *box);
void launcher_end_box(struct launcher *l, struct box *box, struct channel *waiter);
void launcher_watch_again(struct launcher *l);
void launcher_box_dead(struct launcher *l, struct box *box);

/* most.c */
extern const struct launcher_most launcher_any;
bool launcher_take_most(struct launcher_most *most, const char *arg);
int launcher_check_most(const struct launcher *l, const struct coto_plan *plan, struct coto_err *err);

/* pool.c */
struct shelf *launcher_find_shelf(struct launcher *l, const struct coto_frame *plan);
struct shelf *launcher_add_shelf(struct launcher *l, const struct coto_frame *plan,
                                 struct coto_err *err);
void launcher_create(struct launcher *l, struct channel *channel, const struct coto_frame *frame);
void launcher_box_ready(struct launcher *l, struct box *box);
void launcher_box_failed(struct launcher *l, struct box *box, const struct coto_err *err);
void launcher_refill(struct launcher *l);
void launcher_tick(struct launcher *l);

/* apart.c */
int launcher_apart_start(struct launcher *l, struct box *box, struct coto_err *err);
void launcher_apart_says(struct launcher *l, struct box *box);
void launcher_apart_tell(struct launcher *l, struct box *box, enum coto_frame_type what);
/* The channel is answered later; -1: it is being asked already. */
int launcher_apart_ask(struct launcher *l, struct box *box, struct channel *channel);
bool launcher_apart_is_dead(const struct box *box);
/* Its process is dead, or was never asked. */
void launcher_apart_gone(struct launcher *l, struct box *box, struct coto_usage *ret_usage);
/* sweep.c: begins it, unless the last one is still at it; has it ended?; and the process. */
void launcher_sweep(struct launcher *l);
void launcher_sweep_look(struct launcher *l);
int launcher_sweep_main(void);
/* apart_main.c: the process */
int launcher_apart_main(int fd, const struct launcher_high *high);
int launcher_await_frame(struct coto_sandbox *sandbox, struct coto_frame_reader *reader,
                         int timeout_ms, struct coto_frame *ret_frame, struct coto_err *err);
/* park.c: 0: an interpreter waits; 1: none does; -1: the sandbox is of no use. */
int launcher_park_inside(struct coto_sandbox *sandbox, const struct coto_plan *plan,
                         struct coto_frame_reader *reader, struct coto_err *err);

/* view.c: of a process that will be a template. False: it could not have one of its own */
bool launcher_own_view(void);

/* template.c */
extern const char launcher_modules[];
void launcher_park(struct launcher *l, struct box *box);
void launcher_unpark(struct launcher *l, struct box *box); /* it ends meanwhile */
void launcher_template_says(struct launcher *l, struct template *t);
void launcher_template_look(struct launcher *l); /* now and then */
void launcher_template_stop(struct launcher *l);

/* late.c */
void launcher_await_want(struct launcher *l, struct box *box);
void launcher_wanted(struct launcher *l, struct box *box);
void launcher_forget_want(struct launcher *l, struct box *box); /* it ends */

/* hold.c */
int launcher_take_hold(struct channel *channel, const struct coto_frame *create, struct coto_err *err);
void launcher_hold(struct box *box, struct channel *channel);
void launcher_keeper_says(struct launcher *l, struct channel *keeper);
void launcher_front_gone(struct launcher *l);
bool launcher_may_ask(struct launcher *l, const struct channel *channel, const struct coto_frame *frame);
void launcher_close_left(struct launcher *l, int64_t now); /* channels of fronts that are gone */
void launcher_set_user(struct box *box, struct channel *channel); /* NULL: nobody */
void launcher_user_gone(struct launcher *l, struct channel *channel);
/* The first from there on; what has outlived its front gets just that one. NULL: none. */
struct box *launcher_held(struct launcher *l, const struct channel *channel, uint64_t from);
void launcher_use(struct launcher *l, struct channel *channel, uint64_t number);

/* talk.c */
void launcher_take_message(struct launcher *l, struct channel *channel);
struct channel *launcher_add_channel(struct launcher *l, int fd);
void launcher_close_channel(struct launcher *l, struct channel *channel);
void launcher_answer_created(struct launcher *l, struct channel *channel, struct box *box);
void launcher_answer_done(struct launcher *l, struct channel *channel);
void launcher_answer_usage(struct launcher *l, struct channel *channel,
                           const struct coto_usage *usage);
void launcher_answer_error(struct launcher *l, struct channel *channel, const struct coto_err *err);

/* main.c */
int launcher_watch(struct launcher *l, int fd, struct source *source);
void launcher_unwatch(struct launcher *l, int fd);
