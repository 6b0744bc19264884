/* The compiled filter against the table (SC-14, SC-15), and against the kernel. */
#include "kernel/seccomp.h"
#include "kernel/sockwatch.h"
#include "base/clock.h"
#include "schema/options.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/seccomp.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <netinet/udp.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define BPF_BROKEN(...) fail_msg(__VA_ARGS__)
#include "bpf.h"

#define ARCH AUDIT_ARCH_X86_64
#define GARBAGE 0x12300000000ULL
#define SIGNED 0xffffffff00000000ULL

static const char *const tier_names[] = {"strict", "default", "debug", "service", "front"};

static uint32_t expected(const struct machine *m, int tier, const struct seccomp_data *data)
{
    int error = -1;
    struct coto_seccomp_call call = {data->arch, data->nr, {0}};

    for (int i = 0; i < 6; i++)
        call.args[i] = data->args[i];
    switch (coto_seccomp_decide(tier, m->extras, &call, &error)) {
    case COTO_ANSWER_ALLOW:
        return SECCOMP_RET_ALLOW;
    case COTO_ANSWER_KILL:
        return SECCOMP_RET_KILL_PROCESS;
    case COTO_ANSWER_ERRNO:
        assert_true(error >= 0);
        return SECCOMP_RET_ERRNO | (uint32_t)error;
    default:
        fail_msg("number %d: undecided", data->nr);
        return 0;
    }
}

/* What the kernel makes of two filters: the graver answer, and of two alike that of the newer one. */
static uint32_t run_both(struct machine *older, struct machine *newer, const struct seccomp_data *data)
{
    uint32_t first = run(older, data);
    uint32_t second = run(newer, data);

    return (int32_t)(first & SECCOMP_RET_ACTION_FULL) < (int32_t)(second & SECCOMP_RET_ACTION_FULL) ? first : second;
}

static struct machine *in_parts[2]; /* of the same filter, where that is looked at */

static void compare(struct machine *m, int tier, const struct seccomp_data *data)
{
    uint32_t got = in_parts[0] ? run_both(in_parts[0], in_parts[1], data) : run(m, data);
    uint32_t want = expected(m, tier, data);

    if (got != want)
        fail_msg("%s: number %d args %llx %llx %llx: program 0x%x, table 0x%x", tier_names[tier],
                 data->nr, (unsigned long long)data->args[0], (unsigned long long)data->args[1],
                 (unsigned long long)data->args[2], got, want);
}

/* Each value as it is, with garbage above bit 31, and sign-extended. */
static void try_args(struct machine *m, int tier, int number, const uint64_t low[3])
{
    static const uint64_t high[] = {0, GARBAGE, SIGNED};

    for (int i = 0; i < 27; i++) {
        struct seccomp_data data = {.nr = number, .arch = ARCH};
        data.args[0] = low[0] | high[i % 3];
        data.args[1] = low[1] | high[i / 3 % 3];
        data.args[2] = low[2] | high[i / 9];
        compare(m, tier, &data);
    }
}

static const uint32_t interesting[] = {
    0,          1,          2,          3,          4,          5,          6,
    7,          8,          9,          10,         11,         16,         17,
    15,         18,         22,         35,         38,         40,         44,         62,
    132,        136,        255,        262,        1023,       1024,       1025,
    1026,       1027,       0x1000,     0x2000,     0x4000,     0x6000,     0x8000,
    0xa000,     0xc000,     0xf000,     0x81a4,     0x11a4,     0xc1ed,     0x5411,
    0x5412,     0x5413,     0x541c,     0x541d,     0x541e,     0x5423,     0x20000,
    0x20008,    0x40000,    0x400000,   0x60000,    0x80000,    0x20000000, 0x10000000,
    0x40000000, 0x40000001, 0x40000003, 0x40000005, 0x401c5820, 0x40086602, 0x40046602,
    0x08000000, 0x04000000, 0x02000000, 0x01200011, 0x003d0f00, 0x7e020000, 0x59616d61, 0x53564d41,
    0x59616d62, 0x7fffffff, 0x80000000, 0xffffffff, 0x80,       0x80801,    0x80802,
    0x80805,    0x80803,    0x801,      0x100001,   0x893f,     0x8940,     0x8941,
    0x8942,     0x8980,     0x8981,     0x8982,     0x8983,     0x8984,     0x89a0,
    0x89a1,     0x89a2,     0x89a3,     0x89a4,     36,         37,         38,         1039,       1040,       1041,       12,         67,
    0x5401,     0x541b,     0x5421,     0x50009400, 0x50009401, 0x5000940e, 0x5000940f, 0x50009417, 0x50009418, 0x4008941a,
    0x9408,     0x9409,     0x80089418, 0x40806685, 0x40049409, 0x4020940d, 0xc0189436, 24,         25,
};
#define INTERESTING (sizeof interesting / sizeof interesting[0])

/* One argument at a time through all values, for every call that looks. */
static void sweep_single(struct machine *m, int tier, int number)
{
    for (size_t i = 0; i < INTERESTING; i++)
        for (int arg = 0; arg < 6; arg++) {
            uint64_t low[3] = {0, 0, 0};
            if (arg < 3) {
                low[arg] = interesting[i];
                try_args(m, tier, number, low);
                continue;
            }
            struct seccomp_data data = {.nr = number, .arch = ARCH};
            for (int high = 0; high < 2; high++) {
                data.args[arg] = interesting[i] | (high ? GARBAGE : 0);
                compare(m, tier, &data);
            }
        }
}

static void sweep_sockets(struct machine *m, int tier, int number)
{
    static const uint32_t types[] = {0, 1, 2, 3, 4, 5, 6, 10, 0x80801, 0x80002, 0x805, 0x100001};
    static const uint32_t protocols[] = {0, 1, 6, 17, 33, 132, 136, 262};

    for (uint32_t family = 0; family < 48; family++)
        for (size_t t = 0; t < sizeof types / sizeof types[0]; t++)
            for (size_t p = 0; p < sizeof protocols / sizeof protocols[0]; p++) {
                uint64_t low[3] = {family, types[t], protocols[p]};
                try_args(m, tier, number, low);
            }
}

/* Whose, which, and whether there is a new one. */
static void sweep_limits(struct machine *m, int tier)
{
    for (unsigned i = 0; i < 3 * 6 * 2; i++) {
        uint64_t low[3] = {i % 3, i / 3 % 6, i / 18 ? 0x1000 : 0};
        try_args(m, tier, SYS_prlimit64, low);
    }
}

/* Every option of every level, and levels that there are not. */
static void sweep_options(struct machine *m, int tier)
{
    for (uint32_t level = 0; level < 300; level++)
        for (uint32_t option = 0; option < 140; option++)
            try_args(m, tier, SYS_setsockopt, (uint64_t[3]){0, level, option});
    try_args(m, tier, SYS_setsockopt, (uint64_t[3]){0, 0xffffffff, 2});
    try_args(m, tier, SYS_setsockopt, (uint64_t[3]){0, SOL_SOCKET, 0xffffffff});
}

/* Modes with and without set-id bits, of calls that create and of those that do not. */
static void sweep_modes(struct machine *m, int tier)
{
    static const uint32_t modes[] = {0, 0777, 02000, 04000, 06755, 01777, 0100644, 0104755, 0012600};
    static const uint32_t flags[] = {0, 0x40, 0x400000, 0x410000, 0x10000, 0x241};
    static const int calls[] = {SYS_open,   SYS_openat,   SYS_openat2, SYS_creat,   SYS_chmod,
                                SYS_fchmod, SYS_fchmodat, 452,         SYS_mknod, SYS_mknodat};

    for (size_t c = 0; c < sizeof calls / sizeof calls[0]; c++)
        for (size_t i = 0; i < sizeof modes / sizeof modes[0]; i++)
            for (size_t k = 0; k < sizeof flags / sizeof flags[0]; k++)
                for (int at = 1; at < 4; at++)
                    for (int high = 0; high < 2; high++) {
                        struct seccomp_data data = {.nr = calls[c], .arch = ARCH};
                        data.args[at] = modes[i] | (high ? GARBAGE : 0);
                        data.args[at - 1] = flags[k];
                        compare(m, tier, &data);
                    }
}

static void sweep(struct machine *m, int tier)
{
    static const uint32_t archs[] = {ARCH, AUDIT_ARCH_I386, AUDIT_ARCH_AARCH64, 0, 0xffffffff};
    static const uint32_t odd[] = {0x40000000, 0x40000001, 0x40000208, 0x7fffffff,
                                   0x80000000, 0xfffffffe, 0xffffffff, 0x3fffffff};

    for (int number = 0; number <= 600; number++) {
        for (size_t a = 0; a < sizeof archs / sizeof archs[0]; a++)
            compare(m, tier, &(struct seccomp_data){.nr = number, .arch = archs[a]});
        compare(m, tier, &(struct seccomp_data){.nr = number | 0x40000000, .arch = ARCH});
        if (coto_seccomp_rule(tier, number).answer == COTO_ANSWER_ARGS)
            sweep_single(m, tier, number);
    }
    for (size_t i = 0; i < sizeof odd / sizeof odd[0]; i++)
        compare(m, tier, &(struct seccomp_data){.nr = (int)odd[i], .arch = ARCH});
    sweep_sockets(m, tier, SYS_socket);
    sweep_sockets(m, tier, SYS_socketpair);
    sweep_limits(m, tier);
    sweep_options(m, tier);
    sweep_modes(m, tier);
}

static void check_coverage(const struct machine *m)
{
    for (unsigned pc = 0; pc < m->program.len; pc++) {
        const struct sock_filter *in = &m->program.code[pc];
        if (!m->ran[pc])
            fail_msg("instruction %u of %u never ran", pc, m->program.len);
        if (BPF_CLASS(in->code) == BPF_JMP && BPF_OP(in->code) != BPF_JA && m->taken[pc] != 3)
            fail_msg("jump %u of %u (k 0x%x) went one way only: %d", pc, m->program.len, in->k,
                     m->taken[pc]);
    }
}

static void test_program_equals_table(void **state)
{
    static struct machine m;
    (void)state;

    for (int tier = COTO_SECCOMP_STRICT; tier <= COTO_SECCOMP_DEBUG; tier++)
        for (unsigned extras = 0; extras < 4; extras++) {
            struct coto_err err = {0};
            memset(&m, 0, sizeof m);
            m.extras = extras;
            assert_int_equal(coto_seccomp_build(tier, extras, &m.program, &err), 0);
            sweep(&m, tier);
            check_coverage(&m);
            assert_in_range(m.program.len, 50, 600);
            print_message("%s%s%s: %u instructions, hash %.12s\n", tier_names[tier],
                          extras & COTO_SECCOMP_NOEXEC ? " noexec" : "",
                          extras & COTO_SECCOMP_NOSETID ? " nosetid" : "", m.program.len,
                          m.program.hash);
        }
}

static void build(struct machine *m, int tier, unsigned extras);

/* The filter of the service itself: no call's arguments matter, so the kernel's bitmap holds all that it allows. */
static void test_the_service_is_refused_by_number(void **state)
{
    static const int refused[] = {SYS_finit_module, SYS_kexec_load, SYS_reboot, SYS_swapon, SYS_clock_settime,
                                  SYS_open_by_handle_at, SYS_io_uring_setup, SYS_request_key};
    static const int needed[] = {SYS_mount, SYS_setns, SYS_clone3, SYS_bpf, SYS_keyctl, SYS_ptrace, SYS_seccomp,
                                 SYS_perf_event_open, 511, 600};
    static struct machine m;
    (void)state;

    build(&m, COTO_SECCOMP_SERVICE, 0);
    sweep(&m, COTO_SECCOMP_SERVICE);
    check_coverage(&m);
    for (unsigned pc = 0; pc < m.program.len; pc++)
        if (BPF_CLASS(m.program.code[pc].code) == BPF_LD)
            assert_in_range(m.program.code[pc].k, 0, offsetof(struct seccomp_data, arch));
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
        struct coto_seccomp_rule rule = coto_seccomp_rule(COTO_SECCOMP_SERVICE, refused[i]);
        assert_int_equal(rule.answer, COTO_ANSWER_ERRNO);
        /* No tier of sandboxes has it either: nothing is lost in them. */
        assert_int_equal(coto_seccomp_rule(COTO_SECCOMP_DEBUG, refused[i]).answer, COTO_ANSWER_ERRNO);
    }
    for (int number = 0; number < 600; number++)
        if (coto_seccomp_rule(COTO_SECCOMP_SERVICE, number).answer == COTO_ANSWER_ERRNO) {
            assert_int_equal(coto_seccomp_rule(COTO_SECCOMP_SERVICE, number).error, EPERM);
            assert_int_equal(coto_seccomp_rule(COTO_SECCOMP_DEBUG, number).answer, COTO_ANSWER_ERRNO);
        }
    for (size_t i = 0; i < sizeof needed / sizeof needed[0]; i++)
        assert_int_equal(coto_seccomp_rule(COTO_SECCOMP_SERVICE, needed[i]).answer, COTO_ANSWER_ALLOW);
    print_message("service: %u instructions, hash %.12s\n", m.program.len, m.program.hash);
}

/* The filter of the front: a part of what programs in sandboxes may do, and nothing that leads out. */
static void test_the_front_makes_few_calls(void **state)
{
    static const int refused[] = {SYS_socket, SYS_connect, SYS_bind, SYS_listen, SYS_execve, SYS_execveat, SYS_kill, SYS_tkill, SYS_tgkill,
                                  SYS_setuid, SYS_ptrace, SYS_unshare, SYS_symlinkat, SYS_linkat, SYS_chown, SYS_shmget,
                                  SYS_sendmmsg, SYS_pidfd_open, SYS_sched_setscheduler, SYS_rt_sigqueueinfo, SYS_io_uring_setup};
    static const int needed[] = {SYS_accept4, SYS_openat, SYS_clone, SYS_futex, SYS_sendmsg, SYS_fdatasync, SYS_exit_group};
    static struct machine m;
    int error;
    (void)state;

    build(&m, COTO_SECCOMP_FRONT, 0);
    sweep(&m, COTO_SECCOMP_FRONT);
    check_coverage(&m);
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++)
        assert_int_equal(coto_seccomp_rule(COTO_SECCOMP_FRONT, refused[i]).answer, COTO_ANSWER_ERRNO);
    assert_int_equal(coto_seccomp_rule(COTO_SECCOMP_FRONT, SYS_socket).error, EPERM);
    assert_int_equal(coto_seccomp_rule(COTO_SECCOMP_FRONT, SYS_clone3).error, ENOSYS); /* for which libraries have clone */
    for (size_t i = 0; i < sizeof needed / sizeof needed[0]; i++)
        assert_int_not_equal(coto_seccomp_rule(COTO_SECCOMP_FRONT, needed[i]).answer, COTO_ANSWER_ERRNO);
    for (int number = 0; number < 600; number++)
        if (coto_seccomp_rule(COTO_SECCOMP_DEFAULT, number).answer == COTO_ANSWER_ERRNO)
            assert_int_equal(coto_seccomp_rule(COTO_SECCOMP_FRONT, number).answer, COTO_ANSWER_ERRNO);
    for (int type = SOCK_STREAM; type <= SOCK_SEQPACKET; type++) { /* a datagram could be sent to anybody */
        const struct coto_seccomp_call pair = {ARCH, SYS_socketpair, {AF_UNIX, (uint64_t)type, 0}};
        bool is_own = type == SOCK_STREAM || type == SOCK_SEQPACKET;
        assert_int_equal(coto_seccomp_decide(COTO_SECCOMP_FRONT, 0, &pair, &error), is_own ? COTO_ANSWER_ALLOW : COTO_ANSWER_ERRNO);
    }
    for (int command = 0; command < 1100; command++) { /* that of a descriptor's owner: a signal to anybody */
        const struct coto_seccomp_call call = {ARCH, SYS_fcntl, {0, (uint64_t)command, 0}};
        bool is_refused = command == F_SETOWN || command == F_SETSIG || command == F_SETOWN_EX ||
                          coto_seccomp_decide(COTO_SECCOMP_DEFAULT, 0, &call, &error) != COTO_ANSWER_ALLOW;
        assert_int_equal(coto_seccomp_decide(COTO_SECCOMP_FRONT, 0, &call, &error), is_refused ? COTO_ANSWER_ERRNO : COTO_ANSWER_ALLOW);
    }
    /* What is sent goes to who is connected; who is not is not connected by it. */
    static const struct {
        uint64_t flags, address;
        bool is_allowed;
    } sends[] = {{0, 0, true}, {MSG_NOSIGNAL | MSG_DONTWAIT, 0, true}, {MSG_FASTOPEN, 0, false}, {MSG_FASTOPEN | MSG_NOSIGNAL, 0x1000, false},
                 {0, 0x1000, false}, {0, GARBAGE, false}};
    for (size_t i = 0; i < sizeof sends / sizeof sends[0]; i++) {
        const struct coto_seccomp_call to = {ARCH, SYS_sendto, {0, 0, 0, sends[i].flags, sends[i].address}};
        const struct coto_seccomp_call message = {ARCH, SYS_sendmsg, {0, 0, sends[i].flags}};
        bool is_plain = !(sends[i].flags & MSG_FASTOPEN);
        assert_int_equal(coto_seccomp_decide(COTO_SECCOMP_FRONT, 0, &to, &error), sends[i].is_allowed ? COTO_ANSWER_ALLOW : COTO_ANSWER_ERRNO);
        assert_int_equal(coto_seccomp_decide(COTO_SECCOMP_FRONT, 0, &message, &error), is_plain ? COTO_ANSWER_ALLOW : COTO_ANSWER_ERRNO);
        assert_int_equal(coto_seccomp_decide(COTO_SECCOMP_DEFAULT, 0, &to, &error), COTO_ANSWER_ALLOW); /* the control */
    }
    print_message("front: %u instructions, hash %.12s\n", m.program.len, m.program.hash);
}

static void build(struct machine *m, int tier, unsigned extras)
{
    struct coto_err err = {0};

    memset(m, 0, sizeof *m);
    m->extras = extras;
    assert_int_equal(coto_seccomp_build(tier, extras, &m->program, &err), 0);
}

/* What a template has and what a copy adds are what any other program loads at once. */
static void test_two_parts_are_the_whole(void **state)
{
    static struct machine whole, shared, rest;
    (void)state;

    build(&whole, COTO_SECCOMP_DEFAULT, 0);
    build(&shared, COTO_SECCOMP_DEFAULT, COTO_SECCOMP_SHARED);
    build(&rest, COTO_SECCOMP_DEFAULT, COTO_SECCOMP_REST);
    in_parts[0] = &shared;
    in_parts[1] = &rest;
    sweep(&whole, COTO_SECCOMP_DEFAULT);
    in_parts[0] = in_parts[1] = NULL;
    sweep(&shared, COTO_SECCOMP_DEFAULT);
    sweep(&rest, COTO_SECCOMP_DEFAULT);
    check_coverage(&shared);
    check_coverage(&rest);
    assert_in_range(rest.program.len, 10, 40);
    print_message("whole %u, shared %u, rest %u instructions\n", whole.program.len, shared.program.len,
                  rest.program.len);
    /* The control: the first part alone lets through what the second takes away. */
    static const int open[] = {SYS_setns, SYS_clone3, SYS_seccomp, SYS_prlimit64};
    for (size_t i = 0; i < sizeof open / sizeof open[0]; i++)
        assert_int_equal(run(&shared, &(struct seccomp_data){.nr = open[i], .arch = ARCH, .args = {1, 4, 1}}),
                         SECCOMP_RET_ALLOW);
}

/* The second part with who makes a socket seen: it says the same, but of those three calls. */
static void test_a_part_that_watches(void **state)
{
    static const int watched[] = {COTO_SOCKWATCH_CALLS};
    static struct machine rest, watching;
    (void)state;

    build(&rest, COTO_SECCOMP_DEFAULT, COTO_SECCOMP_REST);
    build(&watching, COTO_SECCOMP_DEFAULT, COTO_SECCOMP_REST | COTO_SECCOMP_WATCHED);
    for (int number = -1; number <= 600; number++) {
        const struct seccomp_data call = {.nr = number, .arch = ARCH, .args = {1, 4, 1}};
        bool is_seen = false;
        for (size_t i = 0; i < sizeof watched / sizeof watched[0]; i++)
            is_seen = is_seen || watched[i] == number;
        assert_int_equal(run(&watching, &call), is_seen ? SECCOMP_RET_USER_NOTIF : run(&rest, &call));
        if (is_seen)
            assert_int_equal(run(&rest, &call), SECCOMP_RET_ALLOW);
    }
    assert_int_equal(run(&watching, &(struct seccomp_data){.nr = SYS_socket, .arch = ARCH + 1}), SECCOMP_RET_KILL_PROCESS);
}

static void test_other_tiers_beside_it(void **state)
{
    static struct machine own, shared;
    (void)state;

    for (unsigned extras = 0; extras < 4; extras++)
        for (int tier = COTO_SECCOMP_STRICT; tier <= COTO_SECCOMP_DEFAULT; tier++) {
            build(&own, tier, extras);
            build(&shared, COTO_SECCOMP_DEFAULT, COTO_SECCOMP_SHARED);
            in_parts[0] = &shared;
            in_parts[1] = &own;
            sweep(&own, tier);
            in_parts[0] = in_parts[1] = NULL;
        }
}

static void test_paths_are_short(void **state)
{
    static struct machine m;
    struct coto_err err = {0};
    int worst = 0;
    (void)state;

    assert_int_equal(coto_seccomp_build(COTO_SECCOMP_DEFAULT, false, &m.program, &err), 0);
    for (int number = 0; number <= 600; number++) {
        if (coto_seccomp_rule(COTO_SECCOMP_DEFAULT, number).answer == COTO_ANSWER_ARGS)
            continue;
        run(&m, &(struct seccomp_data){.nr = number, .arch = ARCH});
        worst = m.jumps > worst ? m.jumps : worst;
    }
    print_message("worst path of an unconditional call: %d conditional jumps\n", worst);
    assert_in_range(worst, 2, 12);
}

/* ---- the table itself: written out here again, by hand ------------------ */

static enum coto_seccomp_answer decide(int tier, int number, uint64_t a, uint64_t b, uint64_t c,
                                       int *ret_error)
{
    struct coto_seccomp_call call = {ARCH, number, {a, b, c}};

    *ret_error = -1;
    return coto_seccomp_decide(tier, 0, &call, ret_error);
}

#define ALLOWED(tier, number, a, b, c)                                                             \
    assert_int_equal(decide(COTO_SECCOMP_##tier, number, a, b, c, &error), COTO_ANSWER_ALLOW)
#define REFUSED(tier, number, a, b, c, with)                                                       \
    do {                                                                                           \
        assert_int_equal(decide(COTO_SECCOMP_##tier, number, a, b, c, &error), COTO_ANSWER_ERRNO); \
        assert_int_equal(error, with);                                                             \
    } while (0)

static void test_tiers(void **state)
{
    int error;
    (void)state;

    ALLOWED(STRICT, SYS_read, 0, 0, 0);
    ALLOWED(STRICT, SYS_mknodat, 0, 0, 0);
    REFUSED(STRICT, SYS_setuid, 0, 0, 0, ENOSYS);
    ALLOWED(DEFAULT, SYS_setuid, 0, 0, 0);
    REFUSED(STRICT, SYS_seccomp, 0, 0, 0, ENOSYS);
    REFUSED(DEFAULT, SYS_seccomp, 1, 0, 0, ENOSYS);
    ALLOWED(DEBUG, SYS_seccomp, 1, 0, 0);
    REFUSED(STRICT, SYS_prctl, 22, 0, 0, EINVAL);
    REFUSED(DEFAULT, SYS_prctl, 22, 0, 0, EINVAL);
    REFUSED(DEFAULT, SYS_prctl, GARBAGE | 22, 0, 0, EINVAL);
    ALLOWED(DEBUG, SYS_prctl, 22, 0, 0);
    REFUSED(DEFAULT, SYS_ptrace, 0, 0, 0, EPERM);
    ALLOWED(DEBUG, SYS_ptrace, 0, 0, 0);
    ALLOWED(DEBUG, SYS_process_vm_readv, 0, 0, 0);
    REFUSED(DEFAULT, SYS_perf_event_open, 0, 0, 0, EPERM);
    ALLOWED(DEBUG, SYS_perf_event_open, 0, 0, 0);
    REFUSED(DEBUG, SYS_perf_event_open, 0, 0xffffffff, 0, EPERM);
    REFUSED(DEBUG, SYS_clone3, 0, 0, 0, ENOSYS);
    REFUSED(DEBUG, SYS_mount, 0, 0, 0, EPERM);
    REFUSED(DEBUG, SYS_unshare, 0, 0, 0, EPERM);
    REFUSED(DEBUG, SYS_io_uring_setup, 0, 0, 0, EPERM);
    REFUSED(DEFAULT, SYS_settimeofday, 0, 0, 0, EPERM);
    REFUSED(DEFAULT, SYS_keyctl, 0, 0, 0, EPERM);
    REFUSED(DEFAULT, SYS_sync, 0, 0, 0, 0);
    REFUSED(DEFAULT, SYS_fsetxattr, 0, 0, 0, EOPNOTSUPP);
    REFUSED(DEBUG, 451, 0, 0, 0, ENOSYS);  /* cachestat */
    REFUSED(DEBUG, 469, 0, 0, 0, ENOSYS);  /* file_setattr */
    REFUSED(DEBUG, 599, 0, 0, 0, ENOSYS);  /* not yet invented */
    REFUSED(DEBUG, -1, 0, 0, 0, ENOSYS);
}

static void test_arguments(void **state)
{
    int error;
    (void)state;

    ALLOWED(DEFAULT, SYS_clone, 0x01200011, 0, 0);
    ALLOWED(DEFAULT, SYS_clone, 0x003d0f00, 0, 0);
    for (int bit = 0; bit < 7; bit++) {
        static const uint32_t news[] = {0x20000,    0x2000000,  0x4000000, 0x8000000,
                                        0x10000000, 0x20000000, 0x40000000};
        REFUSED(DEFAULT, SYS_clone, news[bit] | 17, 0, 0, EPERM);
        REFUSED(DEFAULT, SYS_clone, GARBAGE | news[bit], 0, 0, EPERM);
    }
    REFUSED(DEFAULT, SYS_ioctl, 0, 0x5412, 0, EPERM);
    REFUSED(DEFAULT, SYS_ioctl, 0, GARBAGE | 0x5412, 0, EPERM);
    REFUSED(DEFAULT, SYS_ioctl, 0, 0x50009418, 0, EPERM); /* BTRFS_IOC_SUBVOL_CREATE_V2 */
    REFUSED(DEFAULT, SYS_ioctl, 0, 0x80089418, 0, EPERM); /* BTRFS_IOC_START_SYNC */
    ALLOWED(DEFAULT, SYS_ioctl, 0, 0x40049409, 0);        /* FICLONE */
    REFUSED(DEFAULT, SYS_ioctl, 0, 0x541c, 0, EPERM);
    REFUSED(DEFAULT, SYS_ioctl, 0, 0x541d, 0, EPERM);
    REFUSED(DEFAULT, SYS_ioctl, 0, SIGNED | 0x40086602, 0, EPERM);
    static const uint32_t loads[] = {0x8940, 0x8941, 0x8980, 0x8981, 0x8982, 0x8983, 0x89a0, 0x89a1, 0x89a2, 0x89a3};
    for (size_t i = 0; i < sizeof loads / sizeof loads[0]; i++) {
        REFUSED(STRICT, SYS_ioctl, 0, loads[i], 0, EPERM);
        REFUSED(DEBUG, SYS_ioctl, 0, GARBAGE | loads[i], 0, EPERM);
    }
    ALLOWED(DEFAULT, SYS_ioctl, 0, 0x8912, 0);
    ALLOWED(DEFAULT, SYS_ioctl, 0, 0x8942, 0);
    ALLOWED(DEFAULT, SYS_ioctl, 0, 0x5401, 0);
    REFUSED(DEFAULT, SYS_prctl, GARBAGE | 35, 0, 0, EINVAL);
    REFUSED(DEBUG, SYS_prctl, 35, 0, 0, EINVAL);
    REFUSED(DEFAULT, SYS_prctl, 0x59616d61, 0, 0, EINVAL);
    ALLOWED(DEFAULT, SYS_prctl, 15, 0, 0);
    for (int ofd = 36; ofd <= 38; ofd++) /* F_OFD_GETLK, F_OFD_SETLK, F_OFD_SETLKW */
        REFUSED(DEFAULT, SYS_fcntl, 0, GARBAGE | ofd, 0, EPERM);
    REFUSED(DEFAULT, SYS_fcntl, 0, 1024, 0, EPERM);
    REFUSED(DEFAULT, SYS_fcntl, 0, 1026, 0, EPERM);
    REFUSED(DEFAULT, SYS_fcntl, 0, GARBAGE | 1040, 0, EPERM);
    REFUSED(DEFAULT, SYS_shmget, 0, 4096, GARBAGE | 05600, EPERM); /* SHM_HUGETLB */
    ALLOWED(DEFAULT, SYS_shmget, 0, 4096, 01600);
    REFUSED(STRICT, SYS_madvise, 0, 4096, GARBAGE | 12, EINVAL); /* MADV_MERGEABLE */
    REFUSED(STRICT, SYS_madvise, 0, 4096, 25, EINVAL); /* MADV_COLLAPSE */
    ALLOWED(STRICT, SYS_madvise, 0, 4096, 4);
    REFUSED(DEBUG, SYS_prctl, 67, 1, 0, EINVAL);
    REFUSED(DEBUG, SYS_prctl, 0x53564d41, 0, 0, EINVAL); /* PR_SET_VMA */
    ALLOWED(DEFAULT, SYS_fcntl, 0, 1030, 0);
    REFUSED(DEFAULT, SYS_mknod, 0, 0020666, 0, EPERM);
    REFUSED(DEFAULT, SYS_mknodat, 0, 0, 0060666, EPERM);
    ALLOWED(DEFAULT, SYS_mknod, 0, 0010666, 0);
    ALLOWED(DEFAULT, SYS_mknodat, 0, 0, 0644);
    REFUSED(DEFAULT, SYS_personality, 0x400000, 0, 0, EPERM); /* READ_IMPLIES_EXEC */
    REFUSED(DEFAULT, SYS_personality, GARBAGE, 0, 0, EPERM);
    REFUSED(DEFAULT, SYS_personality, GARBAGE | 0xffffffff, 0, 0, EPERM);
    ALLOWED(DEFAULT, SYS_personality, 0x20008, 0, 0);
    ALLOWED(DEFAULT, SYS_personality, 0xffffffff, 0, 0);
    ALLOWED(DEFAULT, SYS_personality, UINT64_MAX, 0, 0);
    ALLOWED(DEFAULT, SYS_sched_setscheduler, 0, 0x40000000, 0);
    REFUSED(DEFAULT, SYS_sched_setscheduler, 0, 1, 0, EPERM);
    REFUSED(DEFAULT, SYS_sched_setscheduler, 0, 6, 0, EPERM);
    REFUSED(STRICT, SYS_sched_setaffinity, 0, 8, 0, EPERM);
    REFUSED(DEFAULT, SYS_sched_setaffinity, 0, 8, 0, EPERM);
    ALLOWED(DEBUG, SYS_sched_setaffinity, 0, 8, 0);
    REFUSED(DEBUG, SYS_sched_setaffinity, 1, 8, 0, EPERM);
}

static void test_sockets(void **state)
{
    int error;
    (void)state;

    ALLOWED(STRICT, SYS_socket, 1, 0x80801, 0);
    ALLOWED(STRICT, SYS_socket, 1, 5, 0);
    ALLOWED(STRICT, SYS_socket, 2, 1, 6);
    ALLOWED(STRICT, SYS_socket, 10, 0x80802, 17);
    ALLOWED(STRICT, SYS_socket, 2, 0x80801, 0);
    ALLOWED(STRICT, SYS_socket, 10, 2, 0);
    for (unsigned family = 2; family <= 10; family += 8) { /* pairs for which modprobe is started */
        REFUSED(STRICT, SYS_socket, family, 0x80001, 17, EAFNOSUPPORT);
        REFUSED(STRICT, SYS_socket, family, 2, 6, EAFNOSUPPORT);
    }
    REFUSED(STRICT, SYS_socket, 16, 0x80003, 0, EAFNOSUPPORT); /* NETLINK_ROUTE */
    REFUSED(STRICT, SYS_socket, 38, 5, 0, EAFNOSUPPORT);  /* AF_ALG */
    REFUSED(STRICT, SYS_socket, 40, 1, 0, EAFNOSUPPORT);  /* AF_VSOCK */
    REFUSED(STRICT, SYS_socket, 17, 3, 0, EAFNOSUPPORT);  /* AF_PACKET */
    REFUSED(STRICT, SYS_socket, 16, 3, 9, EAFNOSUPPORT);  /* NETLINK_AUDIT */
    REFUSED(STRICT, SYS_socket, 16, 3, 12, EAFNOSUPPORT); /* NETLINK_NETFILTER */
    REFUSED(STRICT, SYS_socket, 2, 3, 1, EAFNOSUPPORT);   /* raw ICMP */
    REFUSED(STRICT, SYS_socket, 2, 2, 1, EAFNOSUPPORT);   /* ping socket */
    REFUSED(STRICT, SYS_socket, 2, 5, 132, EAFNOSUPPORT); /* SCTP */
    REFUSED(STRICT, SYS_socket, 2, 1, 132, EAFNOSUPPORT);
    REFUSED(STRICT, SYS_socket, 2, 1, 262, EAFNOSUPPORT); /* MPTCP */
    REFUSED(STRICT, SYS_socket, 2, 2, 136, EAFNOSUPPORT); /* UDP-Lite */
    REFUSED(STRICT, SYS_socket, 2, 6, 33, EAFNOSUPPORT);  /* DCCP */
    REFUSED(STRICT, SYS_socket, GARBAGE | 38, 5, 0, EAFNOSUPPORT);
    REFUSED(STRICT, SYS_socket, GARBAGE | 1, 1, 0, EAFNOSUPPORT);
    ALLOWED(STRICT, SYS_socketpair, 1, 0x80001, 0);
    REFUSED(STRICT, SYS_socketpair, 2, 1, 0, EAFNOSUPPORT);
    REFUSED(STRICT, SYS_socketpair, 30, 5, 0, EAFNOSUPPORT); /* AF_TIPC */
    ALLOWED(STRICT, SYS_sendmsg, 3, 0, 0x4040);
    REFUSED(STRICT, SYS_sendmsg, 3, 0, GARBAGE | 0x8040, EOPNOTSUPP); /* MSG_MORE */
}

struct option {
    int level, number;
};

/* By the names of the C library: the table has numbers. */
static void test_socket_options_in_use(void **state)
{
    static const struct option used[] = {
        {SOL_SOCKET, SO_DEBUG}, {SOL_SOCKET, SO_REUSEADDR}, {SOL_SOCKET, SO_REUSEPORT},
        {SOL_SOCKET, SO_KEEPALIVE}, {SOL_SOCKET, SO_BROADCAST}, {SOL_SOCKET, SO_DONTROUTE},
        {SOL_SOCKET, SO_SNDBUF}, {SOL_SOCKET, SO_RCVBUF}, {SOL_SOCKET, SO_OOBINLINE},
        {SOL_SOCKET, SO_PRIORITY}, {SOL_SOCKET, SO_LINGER}, {SOL_SOCKET, SO_PASSCRED},
        {SOL_SOCKET, SO_RCVLOWAT}, {SOL_SOCKET, SO_SNDLOWAT}, {SOL_SOCKET, SO_RCVTIMEO},
        {SOL_SOCKET, SO_SNDTIMEO}, {SOL_SOCKET, SO_BINDTODEVICE}, {SOL_SOCKET, SO_RXQ_OVFL},
        {SOL_SOCKET, SO_PEEK_OFF}, {SOL_SOCKET, SO_MARK}, {SOL_SOCKET, SO_INCOMING_CPU},
        {SOL_SOCKET, SO_PASSSEC}, {SOL_SOCKET, SO_MAX_PACING_RATE}, {SOL_SOCKET, 76 /* SO_PASSPIDFD */},
        {SOL_SOCKET, 66 /* SO_RCVTIMEO_NEW */}, {SOL_SOCKET, 67 /* SO_SNDTIMEO_NEW */},
        {IPPROTO_TCP, TCP_NODELAY}, {IPPROTO_TCP, TCP_MAXSEG}, {IPPROTO_TCP, TCP_CORK},
        {IPPROTO_TCP, TCP_KEEPIDLE}, {IPPROTO_TCP, TCP_KEEPINTVL}, {IPPROTO_TCP, TCP_KEEPCNT},
        {IPPROTO_TCP, TCP_SYNCNT}, {IPPROTO_TCP, TCP_LINGER2}, {IPPROTO_TCP, TCP_DEFER_ACCEPT},
        {IPPROTO_TCP, TCP_WINDOW_CLAMP}, {IPPROTO_TCP, TCP_QUICKACK}, {IPPROTO_TCP, TCP_CONGESTION},
        {IPPROTO_TCP, TCP_USER_TIMEOUT}, {IPPROTO_TCP, TCP_FASTOPEN},
        {IPPROTO_TCP, TCP_FASTOPEN_CONNECT}, {IPPROTO_TCP, 25 /* TCP_NOTSENT_LOWAT */},
        {IPPROTO_IP, IP_TOS}, {IPPROTO_IP, IP_TTL}, {IPPROTO_IP, IP_PKTINFO}, {IPPROTO_IP, IP_RECVERR},
        {IPPROTO_IP, IP_RECVTTL}, {IPPROTO_IP, IP_RECVTOS}, {IPPROTO_IP, IP_MTU_DISCOVER},
        {IPPROTO_IP, IP_FREEBIND}, {IPPROTO_IP, IP_TRANSPARENT}, {IPPROTO_IP, IP_MULTICAST_IF},
        {IPPROTO_IP, IP_MULTICAST_TTL}, {IPPROTO_IP, IP_MULTICAST_LOOP}, {IPPROTO_IP, IP_MULTICAST_ALL},
        {IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT}, {IPPROTO_IP, IP_UNICAST_IF},
        {IPPROTO_IPV6, IPV6_V6ONLY}, {IPPROTO_IPV6, IPV6_UNICAST_HOPS},
        {IPPROTO_IPV6, IPV6_MULTICAST_IF}, {IPPROTO_IPV6, IPV6_MULTICAST_HOPS},
        {IPPROTO_IPV6, IPV6_MULTICAST_LOOP}, {IPPROTO_IPV6, IPV6_RECVPKTINFO},
        {IPPROTO_IPV6, IPV6_PKTINFO}, {IPPROTO_IPV6, IPV6_RECVHOPLIMIT}, {IPPROTO_IPV6, IPV6_RECVERR},
        {IPPROTO_IPV6, IPV6_RECVTCLASS}, {IPPROTO_IPV6, IPV6_TCLASS}, {IPPROTO_IPV6, IPV6_MTU_DISCOVER},
        {IPPROTO_IPV6, IPV6_DONTFRAG}, {IPPROTO_IPV6, IPV6_RECVRTHDR}, {IPPROTO_IPV6, IPV6_RECVDSTOPTS},
        {IPPROTO_IPV6, 72 /* IPV6_ADDR_PREFERENCES */}, {IPPROTO_IPV6, IPV6_FREEBIND},
        {IPPROTO_UDP, 103 /* UDP_SEGMENT */}};
    int error;
    (void)state;

    for (size_t i = 0; i < sizeof used / sizeof used[0]; i++)
        if (decide(COTO_SECCOMP_STRICT, SYS_setsockopt, 3, (uint64_t)used[i].level,
                   (uint64_t)used[i].number, &error) != COTO_ANSWER_ALLOW)
            fail_msg("level %d, option %d is refused", used[i].level, used[i].number);
}

static void test_socket_options_that_cost_the_host(void **state)
{
    static const struct option costly[] = {
        {SOL_SOCKET, SO_ATTACH_FILTER}, {SOL_SOCKET, SO_ATTACH_BPF},
        {SOL_SOCKET, SO_ATTACH_REUSEPORT_CBPF}, {SOL_SOCKET, SO_ATTACH_REUSEPORT_EBPF},
        {SOL_SOCKET, SO_ZEROCOPY}, {SOL_SOCKET, SO_TXTIME}, {SOL_SOCKET, 73 /* SO_RESERVE_MEM */},
        {SOL_SOCKET, 0}, {SOL_SOCKET, 127}, {SOL_SOCKET, SO_TIMESTAMP}, {SOL_SOCKET, SO_TIMESTAMPNS},
        {SOL_SOCKET, SO_TIMESTAMPING}, {SOL_SOCKET, 63 /* SO_TIMESTAMP_NEW */}, {SOL_SOCKET, 64}, {SOL_SOCKET, 65},
        {IPPROTO_TCP, TCP_MD5SIG}, {IPPROTO_TCP, TCP_MD5SIG_EXT}, {IPPROTO_TCP, TCP_REPAIR},
        {IPPROTO_TCP, TCP_REPAIR_OPTIONS}, {IPPROTO_TCP, TCP_REPAIR_WINDOW}, {IPPROTO_TCP, TCP_ULP},
        {IPPROTO_TCP, TCP_SAVE_SYN}, {IPPROTO_TCP, TCP_FASTOPEN_KEY}, {IPPROTO_TCP, 37 /* TCP_TX_DELAY */},
        {IPPROTO_TCP, 38 /* TCP_AO_ADD_KEY */}, {IPPROTO_IP, IP_OPTIONS},
        {IPPROTO_IP, IP_ADD_MEMBERSHIP}, {IPPROTO_IP, IP_ADD_SOURCE_MEMBERSHIP},
        {IPPROTO_IP, IP_BLOCK_SOURCE}, {IPPROTO_IP, IP_MSFILTER}, {IPPROTO_IP, MCAST_JOIN_GROUP},
        {IPPROTO_IP, MCAST_JOIN_SOURCE_GROUP}, {IPPROTO_IP, MCAST_MSFILTER},
        {IPPROTO_IP, IP_XFRM_POLICY}, {IPPROTO_IP, 64 /* IPT_SO_SET_REPLACE */},
        {IPPROTO_IPV6, IPV6_ADDRFORM}, {IPPROTO_IPV6, IPV6_2292PKTOPTIONS}, {IPPROTO_IPV6, IPV6_HOPOPTS},
        {IPPROTO_IPV6, IPV6_RTHDR}, {IPPROTO_IPV6, IPV6_DSTOPTS}, {IPPROTO_IPV6, IPV6_RTHDRDSTOPTS},
        {IPPROTO_IPV6, IPV6_JOIN_GROUP}, {IPPROTO_IPV6, IPV6_JOIN_ANYCAST},
        {IPPROTO_IPV6, 32 /* IPV6_FLOWLABEL_MGR */}, {IPPROTO_IPV6, MCAST_JOIN_GROUP},
        {IPPROTO_IPV6, MCAST_MSFILTER}, {IPPROTO_IPV6, IPV6_XFRM_POLICY},
        {IPPROTO_UDP, UDP_CORK}, {IPPROTO_UDP, 100 /* UDP_ENCAP */}, {IPPROTO_UDP, 104 /* UDP_GRO */},
        {282 /* SOL_TLS */, 1}, {132 /* SOL_SCTP */, 1}, {136 /* SOL_UDPLITE */, 10}, {284 /* SOL_MPTCP */, 1},
        {255 /* SOL_RAW */, 1}, {270 /* SOL_NETLINK */, 1}, {-1, SO_REUSEADDR}};
    int error;
    (void)state;

    for (size_t i = 0; i < sizeof costly / sizeof costly[0]; i++) {
        uint64_t level = (uint64_t)costly[i].level, number = (uint64_t)costly[i].number;
        if (decide(COTO_SECCOMP_DEBUG, SYS_setsockopt, 3, level, number, &error) !=
            COTO_ANSWER_ERRNO)
            fail_msg("level %d, option %d is allowed", costly[i].level, costly[i].number);
        assert_int_equal(error, ENOPROTOOPT);
        REFUSED(DEBUG, SYS_setsockopt, 3, GARBAGE | level, GARBAGE | number, ENOPROTOOPT);
    }
}

static void test_memory_and_watches(void **state)
{
    int error;
    (void)state;

    ALLOWED(STRICT, SYS_memfd_create, 0, 3, 0);
    REFUSED(STRICT, SYS_memfd_create, 0, GARBAGE | 4, 0, EPERM); /* MFD_HUGETLB */
    ALLOWED(STRICT, SYS_inotify_add_watch, 3, 0, 0xfce);
    REFUSED(STRICT, SYS_inotify_add_watch, 3, 0, 0xfff, EPERM);
    REFUSED(STRICT, SYS_inotify_add_watch, 3, 0, GARBAGE | 0x20, EPERM); /* IN_OPEN */
}

#define WITHOUT_SETID(number, ...)                                                                 \
    coto_seccomp_decide(COTO_SECCOMP_DEBUG, COTO_SECCOMP_NOSETID,                                   \
                        &(struct coto_seccomp_call){ARCH, number, {__VA_ARGS__}}, &error)

static void test_set_id_bits(void **state)
{
    int error = 0;
    (void)state;

    assert_int_equal(WITHOUT_SETID(SYS_chmod, 0, 0755), COTO_ANSWER_ALLOW);
    assert_int_equal(WITHOUT_SETID(SYS_chmod, 0, 01777), COTO_ANSWER_ALLOW);
    assert_int_equal(WITHOUT_SETID(SYS_chmod, 0, GARBAGE | 04755), COTO_ANSWER_ERRNO);
    assert_int_equal(error, EPERM);
    assert_int_equal(WITHOUT_SETID(SYS_fchmod, 0, 02755), COTO_ANSWER_ERRNO);
    assert_int_equal(WITHOUT_SETID(SYS_fchmodat, 0, 0, 04755), COTO_ANSWER_ERRNO);
    assert_int_equal(WITHOUT_SETID(452, 0, 0, 04755), COTO_ANSWER_ERRNO); /* fchmodat2 */
    assert_int_equal(WITHOUT_SETID(SYS_creat, 0, 04755), COTO_ANSWER_ERRNO);
    assert_int_equal(WITHOUT_SETID(SYS_open, 0, 0, 04755), COTO_ANSWER_ALLOW); /* creates nothing */
    assert_int_equal(WITHOUT_SETID(SYS_open, 0, 0x41, 04755), COTO_ANSWER_ERRNO);
    assert_int_equal(WITHOUT_SETID(SYS_openat, 0, 0, 0x41, 02644), COTO_ANSWER_ERRNO);
    assert_int_equal(WITHOUT_SETID(SYS_openat, 0, 0, 0x410002, 04644), COTO_ANSWER_ERRNO); /* O_TMPFILE */
    assert_int_equal(WITHOUT_SETID(SYS_openat, 0, 0, 0x41, 0644), COTO_ANSWER_ALLOW);
    assert_int_equal(WITHOUT_SETID(SYS_mknod, 0, 0104755), COTO_ANSWER_ERRNO);
    assert_int_equal(WITHOUT_SETID(SYS_mknodat, 0, 0, 06755), COTO_ANSWER_ERRNO);
    assert_int_equal(WITHOUT_SETID(SYS_mknodat, 0, 0, 0010644), COTO_ANSWER_ALLOW);
    assert_int_equal(WITHOUT_SETID(SYS_openat2, 0, 0, 0, 0), COTO_ANSWER_ERRNO);
    assert_int_equal(error, ENOSYS);
    ALLOWED(DEFAULT, SYS_chmod, 0, 06755, 0); /* where nothing of the host is written */
    ALLOWED(DEFAULT, SYS_openat2, 0, 0, 0);
}

static void test_foreign_abis_die(void **state)
{
    struct coto_seccomp_call i386 = {AUDIT_ARCH_I386, 3, {0}};
    struct coto_seccomp_call x32 = {ARCH, 0x40000000 | SYS_read, {0}};
    int error;
    (void)state;

    for (int tier = COTO_SECCOMP_STRICT; tier <= COTO_SECCOMP_DEBUG; tier++) {
        assert_int_equal(coto_seccomp_decide(tier, 0, &i386, &error), COTO_ANSWER_KILL);
        assert_int_equal(coto_seccomp_decide(tier, 0, &x32, &error), COTO_ANSWER_KILL);
    }
}

static void test_counts(void **state)
{
    int allowed[3] = {0}, checked[3] = {0};
    (void)state;

    for (int tier = 0; tier < 3; tier++)
        for (int number = 0; number <= 600; number++) {
            struct coto_seccomp_rule rule = coto_seccomp_rule(tier, number);
            allowed[tier] += rule.answer == COTO_ANSWER_ALLOW;
            checked[tier] += rule.answer == COTO_ANSWER_ARGS;
            assert_int_equal(rule.number, number);
            assert_int_equal(rule.check != NULL, rule.answer == COTO_ANSWER_ARGS);
        }
    for (int tier = 0; tier < 3; tier++)
        print_message("%s: %d allowed, %d by argument\n", tier_names[tier], allowed[tier],
                      checked[tier]);
    assert_in_range(allowed[0] + checked[0], 170, 200);
    assert_in_range(allowed[1] + checked[1], 260, 272);
    assert_int_equal(allowed[2] + checked[2], allowed[1] + checked[1] + 7);
}

static void test_hash_is_stable(void **state)
{
    static struct coto_seccomp_program a, b;
    struct coto_err err = {0};
    (void)state;

    assert_int_equal(coto_seccomp_build(COTO_SECCOMP_DEFAULT, false, &a, &err), 0);
    memset(&b, 0xaa, sizeof b);
    assert_int_equal(coto_seccomp_build(COTO_SECCOMP_DEFAULT, false, &b, &err), 0);
    assert_int_equal(strlen(a.hash), COTO_SHA256_HEX - 1);
    assert_string_equal(a.hash, b.hash);
    assert_int_equal(coto_seccomp_build(COTO_SECCOMP_DEFAULT, true, &b, &err), 0);
    assert_string_not_equal(a.hash, b.hash);
    assert_int_equal(coto_seccomp_build(COTO_SECCOMP_STRICT, false, &b, &err), 0);
    assert_string_not_equal(a.hash, b.hash);
}

static void test_bad_tier(void **state)
{
    static struct coto_seccomp_program program;
    struct coto_err err = {0};
    (void)state;

    memset(&program, 0x5a, sizeof program);
    assert_int_equal(coto_seccomp_build(COTO_SECCOMP_FRONT + 1, false, &program, &err), -1);
    assert_int_equal(err.kind, COTO_ERR_INTERNAL);
    assert_int_equal(program.len, 0x5a5a);
    assert_int_equal(coto_seccomp_build(-1, false, &program, &err), -1);
}

static void test_build_is_quick(void **state)
{
    static struct coto_seccomp_program program;
    struct coto_err err = {0};
    int64_t best = INT64_MAX;
    (void)state;

    for (int i = 0; i < 50; i++) {
        int64_t start = coto_clock_us();
        coto_seccomp_build(COTO_SECCOMP_DEFAULT, false, &program, &err);
        int64_t took = coto_clock_us() - start;
        best = took < best ? took : best;
    }
    print_message("build: %lld us\n", (long long)best);
    /* The promise is 100 us; sanitizers and busy machines get some air. */
    assert_in_range(best, 0, 1000);
}

/* ---- the kernel's word -------------------------------------------------- */

/* cmocka catches these and would go on with the next test in the child. */
static void default_signals(void)
{
    signal(SIGSEGV, SIG_DFL);
    signal(SIGILL, SIG_DFL);
    signal(SIGSYS, SIG_DFL);
}

/* Runs body in a child under the filter; the wait status. */
static int under_filter(int tier, bool noexec, int (*body)(void))
{
    static struct coto_seccomp_program program;
    struct coto_err err = {0};

    assert_int_equal(coto_seccomp_build(tier, noexec, &program, &err), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        struct sock_fprog prog = {program.len, program.code};
        default_signals();
        if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || syscall(SYS_seccomp, 1, 0, &prog))
            _exit(90);
        _exit(body());
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    return status;
}

/* The same in two parts, each loaded as a template and its copy do. */
static int under_two_parts(int (*body)(void))
{
    static struct machine parts[2];

    build(&parts[0], COTO_SECCOMP_DEFAULT, COTO_SECCOMP_SHARED);
    build(&parts[1], COTO_SECCOMP_DEFAULT, COTO_SECCOMP_REST);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        default_signals();
        prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
        for (int i = 0; i < 2; i++) {
            struct sock_fprog prog = {parts[i].program.len, parts[i].program.code};
            if (syscall(SYS_seccomp, 1, 0, &prog))
                _exit(90 + i);
        }
        _exit(body());
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    return status;
}

static bool fails_with(int error, long result)
{
    return result == -1 && errno == error;
}

static int body_answers(void)
{
    if (syscall(SYS_getpid) <= 0)
        return 1;
    if (!fails_with(ENOSYS, syscall(SYS_clone3, NULL, 0)))
        return 2;
    if (!fails_with(EPERM, syscall(SYS_mount, NULL, NULL, NULL, 0, NULL)))
        return 3;
    if (!fails_with(EAFNOSUPPORT, syscall(SYS_socket, 38, 5, 0)))
        return 4;
    if (!fails_with(EPERM, syscall(SYS_ioctl, 0, 0x5412 | (1ULL << 40), NULL)))
        return 5;
    if (syscall(SYS_sync) != 0)
        return 6;
    if (!fails_with(ENOSYS, syscall(599)) || !fails_with(ENOSYS, syscall(-1)))
        return 7;
    if (!fails_with(EPERM, syscall(SYS_clone, 0x10000011, 0, 0, 0, 0)))
        return 8;
    if (!fails_with(EPERM, syscall(SYS_unshare, 0)))
        return 9;
    if (!fails_with(EOPNOTSUPP, syscall(SYS_setxattr, "/", "user.x", "", 0, 0)))
        return 10;
    long fd = syscall(SYS_socket, 1, 1, 0);
    if (fd < 0 || syscall(SYS_memfd_create, "x", 0) < 0)
        return 11;
    return 0;
}

static int body_noexec(void)
{
    return fails_with(EPERM, syscall(SYS_memfd_create, "x", 0)) ? 0 : 1;
}

static int body_int80(void)
{
    long result;

    __asm__ volatile("int $0x80" : "=a"(result) : "a"(20L) : "memory", "r8", "r9",
                     "r10", "r11"); /* i386 getpid */
    return result > 0 ? 0 : 1;
}

static int body_x32(void)
{
    syscall(0x40000000 | SYS_getpid);
    return 0;
}

/* SC-14 on the real thing: harmless numbers only, those that the table refuses
 * whatever the arguments. */
static int body_refusals(void)
{
    for (int number = 0; number <= 600; number++) {
        struct coto_seccomp_rule rule = coto_seccomp_rule(COTO_SECCOMP_DEFAULT, number);
        if (rule.answer != COTO_ANSWER_ERRNO || number == 335 || number == 336)
            continue; /* uretprobe, uprobe: no filter is asked, see seccomp_table.h */
        long result = syscall(number, -1L, -1L, -1L, -1L, -1L, -1L);
        if (rule.error ? !fails_with(rule.error, result) : result != 0)
            return 1;
    }
    return 0;
}

static void test_kernel_answers(void **state)
{
    (void)state;
    for (int tier = COTO_SECCOMP_STRICT; tier <= COTO_SECCOMP_DEBUG; tier++)
        assert_int_equal(under_filter(tier, false, body_answers), 0);
    assert_int_equal(under_filter(COTO_SECCOMP_DEFAULT, false, body_refusals), 0);
    assert_int_equal(under_two_parts(body_answers), 0);
    assert_int_equal(under_two_parts(body_refusals), 0);
    assert_int_equal(under_filter(COTO_SECCOMP_DEFAULT, true, body_noexec), 0);
    /* Positive control: without noexec the same body sees memfd_create succeed. */
    assert_int_not_equal(under_filter(COTO_SECCOMP_DEFAULT, false, body_noexec), 0);
}

static void test_kernel_kills_foreign_abis(void **state)
{
    (void)state;
#ifdef __x86_64__
    pid_t child = fork(); /* positive control: unfiltered, it lives or lacks the ABI */
    if (child == 0) {
        default_signals();
        _exit(body_int80());
    }
    int plain;
    assert_int_equal(waitpid(child, &plain, 0), child);
    int status = under_filter(COTO_SECCOMP_DEBUG, false, body_int80);
    assert_true(WIFSIGNALED(status));
    assert_int_equal(WTERMSIG(status), plain == 0 ? SIGSYS : SIGSEGV);
    status = under_filter(COTO_SECCOMP_DEBUG, false, body_x32);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGSYS);
#endif
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_program_equals_table),
        cmocka_unit_test(test_the_service_is_refused_by_number),
        cmocka_unit_test(test_the_front_makes_few_calls),
        cmocka_unit_test(test_two_parts_are_the_whole),
        cmocka_unit_test(test_a_part_that_watches),
        cmocka_unit_test(test_other_tiers_beside_it),
        cmocka_unit_test(test_paths_are_short),
        cmocka_unit_test(test_tiers),
        cmocka_unit_test(test_arguments),
        cmocka_unit_test(test_sockets),
        cmocka_unit_test(test_socket_options_in_use),
        cmocka_unit_test(test_socket_options_that_cost_the_host),
        cmocka_unit_test(test_memory_and_watches),
        cmocka_unit_test(test_set_id_bits),
        cmocka_unit_test(test_foreign_abis_die),
        cmocka_unit_test(test_counts),
        cmocka_unit_test(test_hash_is_stable),
        cmocka_unit_test(test_bad_tier),
        cmocka_unit_test(test_build_is_quick),
        cmocka_unit_test(test_kernel_answers),
        cmocka_unit_test(test_kernel_kills_foreign_abis),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
