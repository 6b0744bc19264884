/* The service's front, without its sockets: from an HTTP request to a job, from a job's
 * result to a reply.
 *
 * Theory of operation. The loop's thread owns everything here except what a worker holds: it
 * routes requests, checks who calls, keeps the table of sandboxes and answers. Whatever
 * blocks (a sandbox from the launcher, a run) is a job on a worker thread. A job is built on
 * the loop, run on a worker (run), finished on the loop (done) which answers and frees it. The client
 * may be gone by then: the job's request pointer is NULL and its cancel descriptor readable.
 *
 * A sandbox is used by one job at a time; a second execution is refused (409) while one runs.
 */
#pragma once

#include "auth/keys.h"
#include "base/json.h"
#include "base/loop.h"
#include "core/run.h"
#include "drivers/launcher/client.h"
#include "http/server.h"
#include "policy/plan.h"
#include "records/records.h"
#include "schema/endpoints.h"

#include <jansson.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define COTO_API_BODY (16 * 1024 * 1024)
#define COTO_API_TENANT 128
#define COTO_API_TOKEN 1024

/* What isolation_level high stands for. */
struct coto_api_high {
    int isolation; /* COTO_ISOLATION_PROCESS: nothing, it is refused */
    const char *runtime, *image; /* "": the level's own choice */
    const char *const *allowed;  /* runtimes that may lack the fix of an escape; NULL-terminated */
    unsigned pool_min, pool_max; /* containers kept ready */
};

struct coto_api_config {
    struct coto_self front, keeper; /* the service's own walls, as the kernel confirms them */
    int landlock_abi;               /* of the front; 0: this kernel has none */
    bool has_own_network;           /* the front: a network namespace with nothing in it */
    const struct coto_policy *ceiling;          /* of what callers may set: the most */
    const char *const *profiles, *const *levels; /* callers may name; empty: all there are */
    const char *profile;          /* of requests that name none */
    const char *token;            /* of local services, not over TLS; NULL: none */
    struct coto_keys *keys;       /* of tokens */
    const char *const *client_names; /* of certificates that are let in; empty: all */
    bool binds_tokens;            /* a token is good with its subject's certificate only */
    int owner_uid;                /* may use the unix socket; besides root */
    unsigned workers;             /* executions at once */
    unsigned queue;               /* jobs that wait for a worker */
    unsigned pool_min, pool_max;  /* sandboxes kept ready: of the operator's kind, of all */
    int64_t pool_wait_ms;         /* one of them, at most */
    unsigned pool_ready;          /* of them, before the service says that it is ready */
    struct coto_api_high high;
    unsigned node_ahead;          /* node processes */
    bool is_cold;                 /* no interpreter waits in the operator's kind of sandbox */
    const char *resident;         /* text of one that keeps its state; NULL: none is started */
    int64_t lifetime_ms, idle_ms; /* of a sandbox */
    bool destroys;                /* a sandbox with its first execution */
    unsigned sandboxes_per_tenant;
    unsigned boxes_per_tenant; /* with those of its executions */
    unsigned tenant_requests;           /* of a tenant, being worked on */
    int64_t tenant_bodies;              /* bytes of them */
    int64_t tenant_unread;              /* bytes of its replies that are not sent yet */
    unsigned tenant_rate, tenant_burst; /* requests a second, and at once; 0: any */
    const char *const *callback_origins; /* NULL-terminated */
    int callback_fd;                     /* to coto-callback; -1 none */
    const char *state_dir;
};

struct coto_api;

enum api_pool { API_POOL_WARMING, API_POOL_READY, API_POOL_FAILING };

/* Who calls. */
struct coto_caller {
    char tenant[COTO_API_TENANT];
    char sandbox[COTO_ID_TEXT]; /* "" unless the token is for one sandbox */
};

/* Which executions are asked for. */
struct api_query {
    char id[COTO_ID_TEXT], sandbox[COTO_ID_TEXT], before[COTO_ID_TEXT];
    unsigned limit;
};

/* A request that came with an Idempotency-Key, from its start to its answer; see keys.c. */
struct api_key {
    struct coto_kept kept, found; /* found: what an earlier request left */
    int outcome;
    struct coto_buf body;
    const struct coto_endpoint *endpoint;
    char id[COTO_ID_TEXT]; /* of the path */
    json_t *parsed;        /* its body, if that was done already */
    struct api_key *next;
};

/* ---- jobs (worker.c) ---- */

struct api_job {
    struct coto_api *api;
    char id[COTO_ID_TEXT]; /* of the execution, if it is one */
    struct coto_http_request *request; /* NULL once the client is gone */
    struct coto_caller caller;
    int cancel_fd; /* eventfd */
    struct api_tenant *tenant; /* whose it is; NULL: nobody's */
    struct api_flight *flight; /* the request that it works on, as its tenant's are counted */
    struct api_flow *flow; /* bytes that pass while it runs; NULL: none */
    bool is_stream;  /* output is told as events */
    bool is_dropped; /* its client did not read; it runs on */
    bool is_async;   /* its client has its answer already */
    bool is_apart;   /* a process that the front before this one has started runs it */
    bool has_box;    /* and in a sandbox of its own, which is counted already */
    bool is_unrecorded; /* its end could not be: the next front finds it in its files */
    unsigned char carry[2][4]; /* events: an unfinished character of stdout, stderr */
    size_t carried[2];
    json_t *body;
    void (*run)(struct api_job *job, int channel_fd); /* on a worker */
    void (*done)(struct api_job *job);                /* on the loop; answers */
    struct api_sandbox *sandbox;
    struct coto_policy policy;
    struct coto_plan plan;
    struct coto_sandbox *box; /* done hands it to the table */
    bool destroy_box;         /* or the worker destroys it once the answer is on its way */
    struct coto_buf code, input; /* texts the plan borrows */
    int in_fd;
    struct coto_result result;
    bool has_result;
    bool cold; /* a fresh interpreter was asked for */
    bool is_later; /* there were executions in its sandbox before */
    bool lost;
    bool is_quick;     /* it waits for no program, and not behind those that do */
    bool needs_no_launcher;
    bool is_unbegun;   /* it was cancelled before its turn */
    bool must_run;     /* however many wait: it gives something back */
    enum api_pool pool; /* what ready.c has heard */
    unsigned life;     /* of the launcher it ran with */
    int *channel;      /* to it; its worker's */
    bool is_execution; /* to be recorded */
    char accepted[COTO_TIME_TEXT], started[COTO_TIME_TEXT];
    struct coto_record *record; /* must be durable before the answer */
    struct api_key *key;
    struct api_query query;
    const struct coto_endpoint *endpoint; /* that the call is for, when it goes on later */
    int status; /* of the reply; 0: by err */
    unsigned retry_s; /* when another try may be worth it; 0: that is not said */
    struct coto_err err;
    char field[64];     /* of the body that err is about; "" none */
    struct coto_buf reply;
    struct api_lane *lane; /* it waits in, or did */
    bool is_guests; /* by the token of a sandbox only */
    struct api_job *next;
    struct api_job *next_running, **running; /* in its bucket, by id; NULL: in none */
};

/* Jobs of one tenant, or of its guests, that wait for a worker, or have one (queue.c). */
struct api_lane {
    const struct api_tenant *owner; /* only compared: it may be gone already */
    bool is_guests;
    struct api_job *first, **last;
    unsigned queued, running;
    struct api_lane *next;
};

/* Threads, started on demand and kept. */
struct api_workers {
    struct coto_api *api;
    pthread_mutex_t lock;
    pthread_cond_t wake;
    struct api_lane *lanes;
    struct api_lane nobodys;
    bool is_shared; /* no tenant may have all of them */
    unsigned queued, running, idle, count, max;
    bool ending;
    pthread_t threads[512];
};

/* ---- sandboxes of callers (sandboxes.c) ---- */

enum api_state { API_IDLE, API_BUSY, API_ENDING };

struct api_sandbox {
    char id[COTO_ID_TEXT];
    char tenant[COTO_API_TENANT];
    char token[COTO_API_TOKEN];
    char agent[128];
    struct api_tenant *owner;
    struct api_guest *guest; /* who has its token, as tenants.c counts; NULL: nobody yet */
    enum api_state state;
    struct api_job *job; /* that uses it */
    struct coto_sandbox *box;
    struct coto_policy policy; /* what it was created with; executions start from it */
    struct coto_plan plan;     /* the box refers to it */
    coto_wallset missing; /* walls and limits that do not hold; all of them until that is known */
    bool knows_missing;
    bool is_single;       /* it ends with its first execution */
    bool ends_with_front; /* there was too much to tell the next one */
    uint64_t held; /* adopted: the launcher's number of it; its stream comes later */
    unsigned next_proc;
    unsigned executions;
    bool has_interpreter; /* waits in it, with state or without any yet; false: or that is not known */
    const char *ended_as; /* "expired", "lost"; NULL: destroyed */
    int64_t created_us, used_us;
    int64_t lifetime_ms, idle_ms; /* of its own, at most the operator's; 0: the operator's */
    char created_at[COTO_TIME_TEXT];
    struct api_sandbox *next; /* in its bucket */
};

#define API_BUCKETS 1024

struct api_counters {
    uint64_t requests, refused, executions, errors;
    uint64_t callbacks, callbacks_lost;
    uint64_t verdicts[32];
    uint64_t run_us; /* sum over executions */
};

struct coto_api {
    struct coto_api_config config;
    struct coto_loop *loop;
    struct coto_http *http;
    int starter_fd; /* to what starts async executions */
    int control_fd; /* to the launcher; with the next three, see launcher.c */
    pthread_mutex_t control_lock;
    pthread_cond_t control_changed;
    atomic_uint life; /* how many launchers there were before */
    struct api_workers workers;
    struct api_workers quick; /* for jobs that do not wait for a program */
    struct api_sandbox *buckets[API_BUCKETS];
    unsigned sandbox_count;
    unsigned transfers; /* that run */
    struct api_tenant *tenants[API_BUCKETS];
    struct api_job *running[API_BUCKETS]; /* executions, by id */
    struct api_counters counters;
    struct coto_buf openapi;
    struct coto_records *records; /* NULL: none are kept */
    struct api_key *keys;         /* of requests that run */
    struct api_revoked *revoked[API_BUCKETS];
    unsigned revoked_count;
    bool draining;
    enum api_pool pool;
    struct api_kind {
        char profile[64];
        bool parked;
        int isolation;
        unsigned life; /* of the launcher that knows */
        unsigned turn; /* of the operator's numbers that it knows */
    } kinds[24]; /* under control_lock */
    unsigned kind_count;
    atomic_uint pool_turn; /* how often pool-max has come anew */
    struct api_ahead *ahead; /* with the next four, under its lock */
    unsigned ahead_count;
    uint64_t ahead_hits; /* programs there was one for */
    uint64_t ahead_untold; /* of them, that the launcher, which outlives us, has not counted yet */
    pthread_mutex_t ahead_lock;
    unsigned ahead_starting;
    pthread_mutex_t versions_lock;
    struct coto_buf versions; /* under its lock; see versions.c */
    pthread_mutex_t told_lock;
    struct coto_buf told; /* with the next three, under its lock; see coto_api_capabilities */
    unsigned told_life, told_turn; /* of launcher and settings */
    int64_t told_until_us;
    int64_t tended_us; /* when the tick last did what it does once a second */
    _Atomic int64_t ahead_used_us; /* when a program was last there for one; 0: never */
};

int coto_api_new(const struct coto_api_config *config, struct coto_loop *loop, int control_fd,
                 struct coto_api **ret_api, struct coto_err *err);
void coto_api_free(struct coto_api *api);
/* Takes over from the records which tokens are revoked. */
int coto_api_load_revoked(struct coto_api *api, struct coto_err *err);
/* The launcher has ended and there is a new one; its control channel is taken. What was in the
 * old one's sandboxes is lost. */
void coto_api_set_launcher(struct coto_api *api, int control_fd);
/* The handler for coto_http_new; arg is the API. */
void coto_api_handle(struct coto_http_request *request, void *arg);
/* Looks at the pool until it has its minimum, for /readyz; arg is the API. */
void coto_api_watch_pool(void *arg);
/* Ends what is idle too long or too old, and tidies up once a second; calls itself again. */
void coto_api_tick(void *arg);

/* endpoint functions: called on the loop with the body collected */
struct api_call {
    struct coto_api *api;
    struct coto_http_request *request;
    const struct coto_endpoint *endpoint;
    struct coto_caller caller;
    char id[COTO_ID_TEXT]; /* of the path */
    struct api_query query;
    struct api_key *key; /* a job takes it */
    json_t *body;        /* parsed already; a job takes it too */
};
#define X(id, ...) void coto_api_##id(struct api_call *call);
COTO_ENDPOINTS(X)
#undef X

/* worker.c */
int api_workers_start(struct coto_api *api, struct coto_err *err);
void api_workers_stop(struct coto_api *api);
/* Takes the job; answers itself when there is no room. */
void api_submit(struct api_job *job);
bool api_refuse_if_full(struct api_job *job); /* true: it has, and the job is gone */
/* queue.c; with the workers' lock held */
unsigned api_share_of(unsigned n); /* what one tenant may have of n */
bool api_queue_is_full(struct api_workers *w, const struct api_job *job, unsigned most);
void api_queue_put(struct api_workers *w, struct api_job *job);
bool api_queue_has_next(const struct api_workers *w);  /* one that may run now */
struct api_job *api_queue_take(struct api_workers *w); /* NULL: none may run now */
bool api_queue_remove(struct api_workers *w, struct api_job *job); /* false: it was not there */
void api_queue_done(struct api_workers *w, struct api_lane *lane);
/* A job of a call, with the JSON body (if the endpoint has one) parsed and checked; NULL after
 * it has answered. */
struct api_job *api_job_new(struct api_call *call);
void api_job_free(struct api_job *job);
/* Ends what it does; its answer still comes. */
void api_job_cancel(struct api_job *job);
/* The same because its sandbox's lifetime is over. */
void api_job_expire(struct api_job *job);
bool api_job_has_expired(const struct api_job *job); /* of one that was ended, by whoever has run it; once */
/* At the end of the service: all of them, but what was promised and has not begun. */
void api_end_running(struct coto_api *api);
void api_finish(void *job); /* on the loop */

/* revoke.c */
bool api_is_revoked(const struct coto_api *api, const char *tenant, const char *id);
void api_forget_revoked(struct coto_api *api, int64_t now_s); /* what has expired */
void api_free_revoked(struct coto_api *api);

/* launcher.c */
/* A worker's channel, opened or opened again when it is not to the launcher of now; *life is
 * whose it is. */
int api_channel(struct coto_api *api, int *channel_fd, unsigned *life, struct coto_err *err);
/* A sandbox of the plan, held when there is a text for that; asked for again when the launcher
 * ends meanwhile. */
int api_box_new(struct api_job *job, const struct coto_plan *plan, const struct coto_buf *hold,
                struct coto_sandbox **ret_box);
/* The launcher ended while the job ran: tells the caller so. */
void api_note_lost(struct api_job *job, int channel_fd);

/* api.c */
void api_call_parsed(struct api_call *call);   /* the call goes on when its body is known */
void api_call_function(struct api_call *call); /* and to its function */

/* query.c */
int api_query_check(const struct api_call *call, char ret_name[64], struct coto_err *err);
int api_query_stream(const struct api_call *call); /* 1 wanted, 0 not, -1 neither */

bool api_query_accepts_events(const struct api_call *call);

/* input.c */
/* The body as the parser is to see it, as long as before; ret_text stays empty where that is text. */
int api_input_hide(const char *text, size_t len, struct coto_buf *ret_text);
/* In a body that was checked, the text of `input` in the place of its value. */
int api_input_keep(json_t *body, const char *text, size_t len, struct coto_err *err);

/* parse.c */
int api_parse_body(struct api_job *job, struct api_call *call); /* err and field say what is wrong */
void api_parse_promise(struct api_job *job, const struct coto_buf *text); /* of an earlier front, which has checked it */
bool api_parse_later(struct api_call *call); /* true: api_call_parsed follows, or an answer */

/* reply.c */
void api_reply(struct coto_http_request *request, int status, const struct coto_buf *body);
void api_reply_error(struct coto_http_request *request, int status, const struct coto_err *err,
                     const char *field);
void api_reply_job(struct api_job *job); /* reply or err of the job */
void api_write_error(const struct coto_err *err, const char *field, struct coto_buf *out);

/* words.c: of an error, with fields of requests for flags of `coto run` */
void api_words_message(const char *text, struct coto_buf *out);
void api_words_remedy(const char *text, struct coto_buf *out); /* only what a caller can do, where there is such */

/* check.c: the body against the table; err and field say what is wrong. */
int api_check(struct api_job *job, enum coto_body body);

/* api.c: a UUID, in capitals or not, as ours are: in none. */
bool api_id(const char *text, size_t len, char ret_id[COTO_ID_TEXT]);

/* path.c: a caller's name of a file as an absolute path inside. */
int api_path(const char *workdir, const char *path, struct coto_buf *ret_target, struct coto_err *err);

/* ceiling.c */
#define COTO_TIMEOUT_MAX "300s"
int coto_ceiling_init(struct coto_policy *ceiling, struct coto_err *err);
int coto_ceiling_lower(struct coto_policy *ceiling, enum coto_opt opt, const char *name,
                       const char *text, struct coto_err *err);
/* Lowers what is above it. */
int coto_ceiling_apply(const struct coto_policy *ceiling, struct coto_policy *policy,
                       struct coto_err *err);
bool coto_ceiling_has_word(const char *const *words, const char *word); /* an empty list has all */

/* body.c */
int api_body_policy(struct api_job *job, const struct coto_policy *from);
/* Level high, into a policy. */
int coto_api_set_high(const struct coto_api_high *high, struct coto_policy *policy,
                      struct coto_err *err);
/* Whether there is a runtime of that name at all, installed or not; an engine knows its own. */
int coto_api_check_runtime(const struct coto_api_high *high, struct coto_err *err);
/* Whether this host could make a sandbox of this plan; the error says what is missing. Not for a front: the launcher knows. */
int coto_api_check_plan(const struct coto_plan *plan, struct coto_err *err);
/* Of a sandbox that could not be made: at level high the host lacks something. */
void api_note_level(struct api_job *job, const struct coto_plan *plan);
int api_body_files(struct api_job *job); /* into the plan's files */
int api_body_code(struct api_job *job);

/* execute.c */
/* Whether an interpreter waits in the sandbox, and (stays) whether one keeps its state there; those that
 * have to read variables when they start do not wait. */
void api_plan_parked(struct coto_plan *plan, bool stays);
void api_run_plan(struct api_job *job, struct coto_run_in *in);
void api_execute_none(struct api_job *job); /* on a worker: it was cancelled before its turn */
void api_execution_set(struct api_job *job); /* run or execute, by whether it has a sandbox */

/* tenants.c: 0, or -1 after a refusal (429) */
/* A request counts from here, where its head has come, to the last byte of its reply, and to the
 * end of every job that was begun for it. */
int api_tenant_admit(struct api_call *call);
void api_tenant_begin(struct api_job *job);
void api_tenant_end(struct api_job *job);
/* Counts its reply, which has so many bytes, until that is sent; on a worker before it is written. -1 with an error when the
 * tenant has too many unread. */
int api_tenant_hold(struct api_job *job, int64_t bytes);
void api_tenant_adopt(struct api_job *job); /* of the front before this one; never refused */
int api_tenant_check_transfers(struct api_call *call);
void api_tenant_count_transfer(struct api_job *job, int by);
int api_tenant_take_sandbox(struct api_call *call, struct api_sandbox *sandbox);
void api_tenant_adopt_sandbox(struct coto_api *api, struct api_sandbox *sandbox);
void api_tenant_drop_sandbox(struct api_sandbox *sandbox);
/* Sandboxes of executions, which come out of the same number. Asked on the loop, taken on the worker for as long as it is at
 * it: returns whom to take it off again, or NULL when it needs none, or with an error when there is none. */
int api_tenant_check_box(struct api_call *call);
struct api_tenant *api_tenant_take_box(struct api_job *job);
void api_tenant_adopt_box(struct api_job *job); /* never refused */
void api_tenant_drop_box(struct api_tenant *tenant); /* NULL is fine */
void api_tenants_expire(struct coto_api *api, int64_t now_us);

/* versions.c: on a worker, with the plan of a sandbox of that level */
void api_say_versions(struct api_job *job, const char *level, struct coto_json *json);

/* kinds.c */
void api_kind_asked(struct api_job *job, const struct coto_plan *plan);

/* ahead.c */
bool api_ahead_take(struct api_job *job, int channel_fd); /* on a worker: the job has its box */
void api_ahead_refill(struct coto_api *api);              /* on the loop, now and then */
void api_ahead_free(struct coto_api *api);
struct api_ahead_counts {
    unsigned ready, target;
    uint64_t hits;
};
void api_ahead_count(struct coto_api *api, struct api_ahead_counts *ret_counts);
uint64_t api_ahead_take_untold(struct coto_api *api); /* for the launcher */
void api_ahead_put_untold(struct coto_api *api, uint64_t hits); /* it did not take them */

/* callback.c */
int api_callback_check(struct api_job *job);
void api_callback_send(struct api_job *job);
void api_callback_count_lost(struct coto_api *api);

/* events.c: on the worker */
void api_events_begin(struct api_job *job);
void api_events_quiet(void *arg);
void api_events_output(void *job, int which, const char *data, size_t len);
void api_events_end(struct api_job *job); /* of the output; the result is told by the loop */

/* running.c */
void api_running_add(struct api_job *job);
void api_running_remove(struct api_job *job);
bool api_running_any(const struct coto_api *api);
struct api_job *api_running_find(struct coto_api *api, const struct coto_caller *caller, const char *id);
/* 202, and the client is free to go. */
void api_accept(struct api_job *job);

/* async.c */
void api_async_prepare(struct api_job *job); /* once it is one */
void api_async_run(struct api_job *job, int channel_fd); /* on a worker, instead of its `run` */
void api_async_forget(const struct api_job *job);        /* its end is recorded */
/* Whether it has begun, in a process of its own; the job then waits for that one. */
bool api_async_find(struct api_job *job);
/* Removes what belongs to none of these executions. */
void api_async_sweep(const struct coto_api *api, const struct coto_strv *ids);

/* apart.c: before there is a thread. */
int api_starter_new(struct coto_api *api, struct coto_err *err);

/* adopt.c: what the front before this one has left, before anybody is served. */
int coto_api_adopt(struct coto_api *api, struct coto_err *err);
struct api_job *api_job_blank(struct coto_api *api); /* that no request asks for */
/* The sandbox that a held text is about, without its box; NULL: it cannot be understood. */
struct api_sandbox *api_read_held(struct coto_api *api, const struct coto_launch_held *held);
/* A sandbox that a process of the front before this one has used: gets its stream. */
int api_adopt_stream(struct api_job *job, int channel_fd);
/* What the next front must know of a sandbox. */
void api_write_hold(const struct api_job *job, struct coto_buf *out);

/* sandboxes.c */
unsigned api_bucket(const char *id);
/* The policy of the job's body becomes the sandbox's, and its plan. */
int api_sandbox_plan(struct api_job *job, struct api_sandbox *sandbox);
/* A job that has the call's sandbox to itself until api_sandbox_release; NULL: answered. */
struct api_job *api_sandbox_job(struct api_call *call);
void api_sandbox_release(struct api_job *job);
struct api_sandbox *api_sandbox_find(struct coto_api *api, const char *id);
void api_sandbox_add(struct coto_api *api, struct api_sandbox *sandbox);
void api_sandbox_remove(struct coto_api *api, struct api_sandbox *sandbox);
void api_sandbox_free(struct api_sandbox *sandbox);
/* Forgets one whose box is gone or ends with the launcher. */
void api_sandbox_drop(struct coto_api *api, struct api_sandbox *sandbox, const char *state);
/* Ends one that is idle; the table's entry is gone at once. */
void api_sandbox_end(struct coto_api *api, struct api_sandbox *sandbox);

/* times.c */
int64_t api_lifetime_ms(const struct coto_api *api, const struct api_sandbox *sandbox); /* from its creation */
int64_t api_idle_ms(const struct coto_api *api, const struct api_sandbox *sandbox);
int api_take_times(struct api_job *job, struct api_sandbox *sandbox); /* of the body of create */

/* show.c */
void api_write_sandbox(const struct coto_api *api, const struct api_sandbox *sandbox, struct coto_json *json);
/* Walls and limits that are wanted in it and not up. */
coto_wallset api_missing_walls(const struct coto_sandbox *box);
/* While nothing runs in it. */
void api_sandbox_note_missing(struct api_sandbox *s);
void api_write_limits(const struct coto_plan *plan, coto_wallset missing, struct coto_json *json);
void api_write_created(const struct coto_api *api, const struct api_sandbox *sandbox,
                       struct coto_buf *out);

/* records.c */
void api_record_start(struct api_job *job);
void api_record_end(struct api_job *job);
void api_record_sandbox(struct api_job *job, const char *state);
void api_record_last(struct coto_api *api, const struct api_sandbox *sandbox, const char *state);
/* A job that waits for no program and needs no launcher; NULL: answered. */
struct api_job *api_job_reading(struct api_call *call,
                                void (*run)(struct api_job *job, int channel_fd),
                                void (*done)(struct api_job *job));
void api_submit_reading(struct api_call *call, void (*run)(struct api_job *job, int channel_fd),
                        void (*done)(struct api_job *job));
void api_record_accepted(struct api_job *job); /* and submits it */
void api_write_accepted(const struct api_job *job, struct coto_buf *out);
void api_record_and_finish(struct api_job *job);

/* keys.c: 1 when the call goes on later, or is answered */
int api_key_begin(struct api_call *call);
void api_key_free(struct coto_api *api, struct api_key *key);

/* client.c: the client's certificate; 0, or -1 */
struct coto_claims;
int api_client_check(const struct coto_api *api, const struct coto_http_request *request, struct coto_err *err);
/* Whether the certificate is one that the token is good with. */
int api_client_check_token(const struct api_call *call, const struct coto_claims *claims, struct coto_err *err);

/* auth.c */
/* Fills in the caller; 0, or the status of the refusal. */
int api_authorize(struct api_call *call, struct coto_err *err);
