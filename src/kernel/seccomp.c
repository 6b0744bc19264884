/* Theory of the compiler. The program is written backwards, from its last
 * instruction to its first, so that every jump goes to something already
 * placed and its offset is known when it is written. Offsets of conditional
 * jumps have 8 bits: a target that is too far gets a stepping stone (an
 * unconditional jump, or for a verdict simply another copy of it) right behind
 * the jump that needs it. Nothing is patched and nothing is emitted unused.
 *
 * Numbers with the same answer merge into ranges; the ranges become a balanced
 * tree of `>=` comparisons, so a verdict takes about eight of them. The kernel
 * runs the program once per number at install time and keeps a bitmap of
 * those that are allowed whatever the arguments, so most calls never reach it.
 *
 * The rules on arguments exist twice on purpose: as data for the compiler
 * (`checks`) and as plain C for the oracle (`holds`). The tests compare them.
 */
#include "kernel/seccomp.h"

#include "kernel/seccomp_checks.h"
#include "kernel/sockwatch.h"
#include "schema/options.h"

#include <errno.h>
#include <linux/audit.h>
#include <linux/seccomp.h>
#include <string.h>

#if defined(__x86_64__)
#define NATIVE_ARCH AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define NATIVE_ARCH AUDIT_ARCH_AARCH64
#else
#error "no system-call table for this architecture"
#endif

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "argument words are loaded in little-endian order"
#endif

#define X32_BIT 0x40000000u /* numbers from here on belong to x86's x32 ABI */
#define NO_CALL 0xffffffffu /* what libraries put where a call does not exist */
#define NUMBERS 512         /* all known numbers are below */

enum first_tier {
    TIER_STRICT = COTO_SECCOMP_STRICT,
    TIER_DEFAULT = COTO_SECCOMP_DEFAULT,
    TIER_DEBUG = COTO_SECCOMP_DEBUG,
    TIER_NEVER,
};

struct row {
    const char *name;
    short number;
    unsigned char tier;
    unsigned char otherwise;
    unsigned char check;
};

static const struct row rows[] = {
#define X(name, tier, otherwise, check)                                                            \
    {#name, __NR_##name, TIER_##tier, otherwise, CHECK_##check},
    COTO_SYSCALLS(X)
#undef X
};
#define ROWS (sizeof rows / sizeof rows[0])

#define X(name, ...) _Static_assert(__NR_##name >= 0 && __NR_##name < NUMBERS - 1, #name);
COTO_SYSCALLS(X)
#undef X

static const struct {
    int error;
    const char *words;
} check_rows[CHECK_COUNT] = {
#define X(id, error, words) [CHECK_##id] = {error, words},
    COTO_SYSCALL_CHECKS(X)
#undef X
};

/* ---- what the table says ------------------------------------------------ */

static const struct row *find_row(int number)
{
    for (size_t i = 0; i < ROWS; i++)
        if (rows[i].number == number)
            return &rows[i];
    return NULL;
}

/* What the copies of an interpreter do that no program may (template/template.c). */
static bool is_of_copies(int number)
{
    return number == __NR_setns || number == __NR_clone3 || number == __NR_seccomp ||
           number == __NR_prlimit64;
}

/* Whether this part of a filter leaves the call to the other. */
static bool is_left_out(int number, unsigned extras)
{
    return (extras & COTO_SECCOMP_SHARED && is_of_copies(number)) ||
           (extras & COTO_SECCOMP_REST && !is_of_copies(number));
}

static bool is_refused_to_service(int number)
{
    switch (number) {
#define X(name) case __NR_##name:
        COTO_SERVICE_REFUSES(X)
#undef X
        return true;
    default:
        return false;
    }
}

static bool is_made_by_front(int number)
{
    switch (number) {
#define X(name) case __NR_##name:
        COTO_FRONT_MAKES(X)
#undef X
        return true;
    default:
        return false;
    }
}

static bool is_allowed(const struct row *row, int tier, unsigned extras)
{
    if (tier == COTO_SECCOMP_SERVICE)
        return !is_refused_to_service(row->number);
    if (tier == COTO_SECCOMP_FRONT)
        return row->tier <= COTO_SECCOMP_DEFAULT && is_made_by_front(row->number);
    if (is_left_out(row->number, extras))
        return true;
    if ((extras & COTO_SECCOMP_NOSETID) && row->number == __NR_openat2)
        return false;
    if ((extras & COTO_SECCOMP_NOEXEC) && row->number == __NR_memfd_create)
        return false;
    return tier >= row->tier;
}

/* The errno of a call that is not allowed. ENOSYS would make programs look for another way. */
static int refusal_of(const struct row *row, int tier)
{
    bool is_known = tier == COTO_SECCOMP_FRONT && row->tier <= COTO_SECCOMP_DEFAULT;

    return is_known || row->number == __NR_memfd_create ? EPERM : row->otherwise;
}

static enum check_id check_without_setid(const struct row *row)
{
    switch (row->number) {
#ifdef __x86_64__
    case __NR_chmod:
    case __NR_creat:
        return CHECK_CHMOD;
    case __NR_open:
        return CHECK_OPEN;
    case __NR_mknod:
        return CHECK_MKNOD_PLAIN;
#endif
    case __NR_fchmod:
        return CHECK_CHMOD;
    case __NR_fchmodat:
    case __NR_fchmodat2:
        return CHECK_CHMODAT;
    case __NR_openat:
        return CHECK_OPENAT;
    case __NR_mknodat:
        return CHECK_MKNODAT_PLAIN;
    default:
        return row->check;
    }
}

/* What the front needs of a call can be less than what programs do. */
static enum check_id check_of_front(const struct row *row)
{
    switch (row->number) {
    case __NR_ioctl:
        return CHECK_OWN_IOCTL;
    case __NR_fcntl:
        return CHECK_OWN_FCNTL;
    case __NR_sendto:
        return CHECK_OWN_SENDTO;
    case __NR_sendmsg:
        return CHECK_OWN_SENDMSG;
    case __NR_prlimit64:
        return CHECK_OWN_LIMIT;
    case __NR_socketpair:
        return CHECK_OWN_PAIR;
    default:
        return row->check;
    }
}

/* seccomp(2) is in `debug` only, and so is its older spelling. */
static enum check_id check_of(const struct row *row, int tier, unsigned extras)
{
    if (tier == COTO_SECCOMP_SERVICE || is_left_out(row->number, extras))
        return CHECK_NONE;
    if (tier == COTO_SECCOMP_FRONT)
        return check_of_front(row);
    if (row->check == CHECK_PRCTL && tier == COTO_SECCOMP_DEBUG)
        return CHECK_PRCTL_DEBUG;
    return extras & COTO_SECCOMP_NOSETID ? check_without_setid(row) : row->check;
}

struct coto_seccomp_rule coto_seccomp_rule(int tier, int number)
{
    struct coto_seccomp_rule rule = {
        .number = number,
        .answer = tier == COTO_SECCOMP_SERVICE ? COTO_ANSWER_ALLOW : COTO_ANSWER_ERRNO,
        .error = ENOSYS};
    const struct row *row = find_row(number);

    if (!row)
        return rule;
    rule.name = row->name;
    rule.error = tier == COTO_SECCOMP_FRONT ? refusal_of(row, tier) : row->otherwise;
    rule.answer = COTO_ANSWER_ERRNO;
    if (!is_allowed(row, tier, 0))
        return rule;
    enum check_id check = check_of(row, tier, 0);
    rule.error = check_rows[check].error;
    rule.answer = check == CHECK_NONE ? COTO_ANSWER_ALLOW : COTO_ANSWER_ARGS;
    rule.check = check == CHECK_NONE ? NULL : check_rows[check].words;
    return rule;
}

static bool unix_holds(uint64_t type, uint64_t protocol)
{
    return (type == TYPE_STREAM || type == TYPE_DGRAM || type == TYPE_SEQPACKET) && protocol == 0;
}

static bool socket_holds(uint64_t family, uint64_t type, uint64_t protocol)
{
    switch (family) {
    case FAMILY_UNIX:
        return unix_holds(type, protocol);
    case FAMILY_INET:
    case FAMILY_INET6:
        return (type == TYPE_STREAM && (protocol == 0 || protocol == PROTO_TCP)) ||
               (type == TYPE_DGRAM && (protocol == 0 || protocol == PROTO_UDP));
    default:
        return false;
    }
}

static bool prctl_holds(uint32_t option, bool debug)
{
    if (option == OPT_SET_SECCOMP)
        return debug;
    return option != OPT_SET_MM && option != OPT_SET_PTRACER && option != OPT_SCHED_CORE &&
           option != OPT_MEMORY_MERGE && option != OPT_SET_VMA;
}

static bool persona_holds(uint64_t persona)
{
    /* personality(-1) reaches us with or without its sign in the high word. */
    if (persona == UINT32_MAX || persona == UINT64_MAX)
        return true;
    return persona == 0x40000 || (persona & ~(uint64_t)0x20008) == 0;
}

static bool sockopt_holds(uint32_t level, uint32_t option)
{
    for (size_t i = 0; i < SOCKOPT_LEVELS; i++)
        for (int k = 0; sockopts[i].level == level && k < sockopts[i].count; k++)
            if (option >= sockopts[i].spans[k].first && option <= sockopts[i].spans[k].last)
                return true;
    return false;
}

static bool mode_holds(uint64_t mode)
{
    uint64_t type = mode & MODE_TYPE;

    return mode <= UINT32_MAX &&
           (type == 0 || type == MODE_REGULAR || type == MODE_FIFO || type == MODE_SOCKET);
}

static bool request_holds(uint32_t request)
{
    switch (request & ~1u) {
    case REQ_IFBR:
    case REQ_DLCI:
    case REQ_IFVLAN:
    case REQ_BRIDGE:
    case REQ_BRIDGE_IF:
        return false;
    }
    switch (request) {
    case REQ_TIOCSTI:
    case REQ_TIOCLINUX:
    case REQ_TIOCCONS:
    case REQ_TIOCSETD:
    case REQ_SETFLAGS:
    case REQ_FSSETXATTR:
    case REQ_SNAPSHOT:
    case REQ_SNAPSHOT_V2:
    case REQ_SUBVOLUME:
    case REQ_SUBVOLUME_V2:
    case REQ_SUBVOLUME_FLAGS:
    case REQ_SYNC:
    case REQ_START_SYNC:
    case REQ_VERITY:
        return false;
    default:
        return true;
    }
}

static bool command_holds(uint32_t command)
{
    switch (command) {
    case CMD_OFD_GETLK:
    case CMD_OFD_SETLK:
    case CMD_OFD_SETLKW:
    case CMD_SETLEASE:
    case CMD_SETDELEG:
    case CMD_NOTIFY:
        return false;
    default:
        return true;
    }
}

static bool own_command_holds(uint32_t command)
{
    return command != CMD_SETOWN && command != CMD_SETSIG && command != CMD_SETOWN_EX && command_holds(command);
}

static bool own_pair_holds(uint64_t family, uint64_t type, uint64_t protocol)
{
    return family == FAMILY_UNIX && (type == TYPE_STREAM || type == TYPE_SEQPACKET) && protocol == 0;
}

static bool holds(enum check_id check, const uint64_t args[6])
{
    uint64_t type = args[1] & ~(uint64_t)TYPE_FLAGS;
    uint64_t policy = args[1] & ~(uint64_t)RESET_ON_FORK;

    switch (check) {
    case CHECK_CLONE:
        return !(args[0] & NEW_FLAGS);
    case CHECK_IOCTL:
        return request_holds((uint32_t)args[1]);
    case CHECK_OWN_IOCTL:
        return args[1] == REQ_TCGETS || args[1] == REQ_FIONREAD || args[1] == REQ_FIONBIO;
    case CHECK_OWN_LIMIT:
        return args[0] == 0;
    case CHECK_OWN_PAIR:
        return own_pair_holds(args[0], type, args[2]);
    case CHECK_FCNTL:
        return command_holds((uint32_t)args[1]);
    case CHECK_OWN_FCNTL:
        return own_command_holds((uint32_t)args[1]);
    case CHECK_OWN_SENDTO: /* flags in 64 bits: who sends has an int */
        return args[3] <= UINT32_MAX && !(args[3] & (SEND_MORE | SEND_FASTOPEN)) && args[4] == 0;
    case CHECK_OWN_SENDMSG:
        return !(args[2] & (SEND_MORE | SEND_FASTOPEN));
    case CHECK_PRCTL:
    case CHECK_PRCTL_DEBUG:
        return prctl_holds((uint32_t)args[0], check == CHECK_PRCTL_DEBUG);
    case CHECK_PERSONALITY:
        return persona_holds(args[0]);
    case CHECK_MKNOD:
        return mode_holds(args[1]);
    case CHECK_MKNODAT:
        return mode_holds(args[2]);
    case CHECK_RENAME:
        return !(args[4] & WHITEOUT);
    case CHECK_SCHED: /* SCHED_OTHER, SCHED_BATCH, SCHED_IDLE */
        return (uint32_t)args[0] != 1 && (policy == 0 || policy == 3 || policy == 5);
    case CHECK_PRIORITY: /* its process group and its uid are init's too */
        return args[0] == 0 && (uint32_t)args[1] != 1;
    case CHECK_PERF:
        return args[1] == 0;
    case CHECK_NOT_INIT: /* it has the program's uid, which is all the kernel asks for */
        return (uint32_t)args[0] != 1;
    case CHECK_RLIMIT: /* it is 1, which alone keeps a crash from the host's core handler */
        return (uint32_t)args[0] != RES_CORE;
    case CHECK_PRLIMIT:
        return (uint32_t)args[0] != 1 && ((uint32_t)args[1] != RES_CORE || args[2] == 0);
    case CHECK_SOCKET:
        return socket_holds(args[0], type, args[2]);
    case CHECK_SOCKETPAIR:
        return args[0] == FAMILY_UNIX && unix_holds(type, args[2]);
    case CHECK_SOCKOPT:
        return sockopt_holds((uint32_t)args[1], (uint32_t)args[2]);
    case CHECK_SENDTO:
        return !(args[3] & SEND_MORE);
    case CHECK_SENDMSG:
        return !(args[2] & SEND_MORE);
    case CHECK_NOWAIT:
        return !(args[5] & READ_NOWAIT);
    case CHECK_WATCH:
        return !(args[2] & WATCH_READS);
    case CHECK_MMAP:
        return !(args[3] & MAP_HUGE);
    case CHECK_MEMFD:
        return !(args[1] & MEMFD_HUGE);
    case CHECK_SHMGET:
        return !(args[2] & SHM_HUGE);
    case CHECK_MADVISE:
        return (uint32_t)args[2] != ADVICE_MERGEABLE && (uint32_t)args[2] != ADVICE_COLLAPSE;
    case CHECK_FADVISE:
        return (uint32_t)args[3] != ADVICE_DONTNEED;
    case CHECK_CHMOD:
        return !(args[1] & MODE_SETID);
    case CHECK_CHMODAT:
        return !(args[2] & MODE_SETID);
    case CHECK_OPEN:
        return !(args[1] & OPEN_CREATES) || !(args[2] & MODE_SETID);
    case CHECK_OPENAT:
        return !(args[2] & OPEN_CREATES) || !(args[3] & MODE_SETID);
    case CHECK_MKNOD_PLAIN:
        return mode_holds(args[1]) && !(args[1] & MODE_SETID);
    case CHECK_MKNODAT_PLAIN:
        return mode_holds(args[2]) && !(args[2] & MODE_SETID);
    case CHECK_NONE:
    case CHECK_COUNT:
        break;
    }
    return true;
}

enum coto_seccomp_answer coto_seccomp_decide(int tier, unsigned extras,
                                             const struct coto_seccomp_call *call, int *ret_error)
{
    if (call->arch != NATIVE_ARCH)
        return COTO_ANSWER_KILL;
#ifdef __x86_64__
    if (call->number != -1 && (call->number < 0 || ((uint32_t)call->number & X32_BIT)))
        return COTO_ANSWER_KILL;
#endif
    const struct row *row = find_row(call->number);
    if (!row && call->number != -1 &&
        (tier == COTO_SECCOMP_SERVICE || is_left_out(call->number, extras)))
        return COTO_ANSWER_ALLOW;
    if (!row || !is_allowed(row, tier, extras)) {
        *ret_error = row ? refusal_of(row, tier) : ENOSYS;
        return COTO_ANSWER_ERRNO;
    }
    enum check_id check = check_of(row, tier, extras);
    if (holds(check, call->args))
        return COTO_ANSWER_ALLOW;
    *ret_error = check_rows[check].error;
    return COTO_ANSWER_ERRNO;
}

/* ---- the compiler ------------------------------------------------------- */

#define REACH 250      /* of the 255 a conditional jump has: room for two stepping stones */
#define VERDICTS 10    /* distinct return values in one program */
#define CHECK_BIT 1u   /* in an action: not a return value but a check, its id above */

struct range {
    uint32_t start;
    uint32_t action;
};

struct builder {
    struct sock_filter code[COTO_SECCOMP_MAX];
    int pos; /* first instruction so far; code[pos..] is the program */
    struct {
        uint32_t value;
        int at;
    } verdicts[VERDICTS];
    int verdict_count;
    int check_at[CHECK_COUNT];
    struct range ranges[NUMBERS + 1];
    int range_count;
};

/* All emitters return the place of what they emitted. A program that does not
 * fit gets stuck at the eighth slot, which coto_seccomp_build looks for once. */
static int emit(struct builder *b, uint16_t code, uint32_t k)
{
    if (b->pos > 8)
        b->pos--;
    b->code[b->pos] = (struct sock_filter){code, 0, 0, k};
    return b->pos;
}

static int emit_verdict(struct builder *b, uint32_t value)
{
    int slot = 0;

    while (slot < b->verdict_count && b->verdicts[slot].value != value)
        slot++;
    if (slot < b->verdict_count && b->verdicts[slot].at - b->pos < REACH)
        return b->verdicts[slot].at;
    int at = emit(b, BPF_RET | BPF_K, value);
    if (slot < VERDICTS) {
        b->verdicts[slot].value = value;
        b->verdicts[slot].at = at;
        if (slot == b->verdict_count)
            b->verdict_count++;
    }
    return at;
}

/* A place from which `at` is reached, close enough for a conditional jump. */
static int emit_near(struct builder *b, int at)
{
    if (at - b->pos < REACH)
        return at;
    if (b->code[at].code == (BPF_RET | BPF_K))
        return emit_verdict(b, b->code[at].k);
    return emit(b, BPF_JMP | BPF_JA, (uint32_t)(at - b->pos));
}

static int emit_if(struct builder *b, uint16_t test, uint32_t k, int then, int otherwise)
{
    then = emit_near(b, then);
    otherwise = emit_near(b, otherwise);
    int at = emit(b, BPF_JMP | BPF_K | test, k);
    b->code[at].jt = (uint8_t)(then - at - 1);
    b->code[at].jf = (uint8_t)(otherwise - at - 1);
    return at;
}

static int emit_load(struct builder *b, size_t offset)
{
    return emit(b, BPF_LD | BPF_W | BPF_ABS, (uint32_t)offset);
}

#define LOW_WORD(arg) (offsetof(struct seccomp_data, args) + (arg) * sizeof(uint64_t))
#define HIGH_WORD(arg) (LOW_WORD(arg) + sizeof(uint32_t))

/* The low word against the values. Backwards: the last comparison first. */
static int emit_term(struct builder *b, const struct term *term, int match, int differ)
{
    int next = differ;

    for (int i = term->count - 1; i >= 0; i--)
        next = emit_if(b, BPF_JEQ, term->values[i], match, next);
    if (term->mask != ANY_BIT)
        emit(b, BPF_ALU | BPF_AND | BPF_K, term->mask);
    return emit_load(b, LOW_WORD(term->arg));
}

static int emit_clause(struct builder *b, const struct term terms[3], int fail)
{
    int next = emit_verdict(b, SECCOMP_RET_ALLOW);
    int count = 0;

    while (count < 3 && terms[count].count)
        count++;
    for (int i = count - 1; i >= 0; i--) {
        int low = emit_term(b, &terms[i], next, fail);
        emit_if(b, BPF_JEQ, 0, low, fail);
        next = emit_load(b, HIGH_WORD(terms[i].arg));
    }
    return next;
}

/* RLIMIT_CORE with a new value, a pointer of 64 bits. */
static int compile_prlimit(struct builder *b, int deny)
{
    static const struct term core = {1, VALUES(RES_CORE)};
    int allow = emit_verdict(b, SECCOMP_RET_ALLOW);

    emit_if(b, BPF_JEQ, 0, allow, deny);
    int high = emit_load(b, HIGH_WORD(2));
    emit_if(b, BPF_JEQ, 0, high, deny);
    return emit_term(b, &core, emit_load(b, LOW_WORD(2)), allow);
}

/* A search over `count` intervals of option numbers from `first` on: odd ones are the spans,
 * even ones lie between them. */
static int compile_spans(struct builder *b, const struct sockopt_level *level, int first, int count)
{
    uint32_t deny = SECCOMP_RET_ERRNO | (uint32_t)check_rows[CHECK_SOCKOPT].error;

    if (count == 1)
        return emit_verdict(b, first % 2 ? SECCOMP_RET_ALLOW : deny);
    int middle = first + count / 2;
    int above = compile_spans(b, level, middle, count - count / 2);
    int below = compile_spans(b, level, first, count / 2);
    uint32_t bound = middle % 2 ? level->spans[middle / 2].first
                                : level->spans[middle / 2 - 1].last + 1u;
    return emit_if(b, BPF_JGE, bound, above, below);
}

static int compile_sockopt(struct builder *b, int deny)
{
    int options[SOCKOPT_LEVELS];
    int next = deny;

    for (size_t i = 0; i < SOCKOPT_LEVELS; i++) {
        compile_spans(b, &sockopts[i], 0, 2 * sockopts[i].count + 1);
        options[i] = emit_load(b, LOW_WORD(2));
    }
    for (size_t i = SOCKOPT_LEVELS; i-- > 0;)
        next = emit_if(b, BPF_JEQ, sockopts[i].level, options[i], next);
    return emit_load(b, LOW_WORD(1));
}

static int compile_bits(struct builder *b, const struct term terms[2], int deny)
{
    int allow = emit_verdict(b, SECCOMP_RET_ALLOW);

    emit_if(b, BPF_JSET, terms[0].mask, deny, allow);
    int first = emit_load(b, LOW_WORD(terms[0].arg));
    if (!terms[1].mask)
        return first;
    emit_if(b, BPF_JSET, terms[1].mask, first, allow);
    return emit_load(b, LOW_WORD(terms[1].arg));
}

static int compile_check(struct builder *b, enum check_id id)
{
    const struct check *check = &checks[id];
    const struct term *first = &check->clauses[0][0];
    int deny = emit_verdict(b, SECCOMP_RET_ERRNO | (uint32_t)check_rows[id].error);

    if (check->kind == DENY_BITS)
        return compile_bits(b, check->clauses[0], deny);
    if (id == CHECK_PRLIMIT)
        return emit_term(b, first, deny, compile_prlimit(b, deny));
    if (id == CHECK_SOCKOPT)
        return compile_sockopt(b, deny);
    int next = emit_verdict(b, SECCOMP_RET_ALLOW);
    if (check->kind == DENY_VALUES) {
        for (int i = 2; i > 0; i--)
            if (check->clauses[i][0].count)
                next = emit_term(b, check->clauses[i], deny, next);
        return emit_term(b, first, deny, next);
    }
    next = deny;
    if (id == CHECK_PERSONALITY) {
        /* The list demands a zero high word; -1 may also come sign-extended. */
        static const struct term query = {0, VALUES(UINT32_MAX)};
        int allow = emit_verdict(b, SECCOMP_RET_ALLOW);
        int zero = emit_if(b, BPF_JEQ, 0, allow, deny);
        emit_if(b, BPF_JEQ, UINT32_MAX, allow, zero);
        next = emit_term(b, &query, emit_load(b, HIGH_WORD(0)), deny);
    }
    for (int i = 2; i >= 0; i--)
        if (check->clauses[i][0].count)
            next = emit_clause(b, check->clauses[i], next);
    static const struct term init_pid[] = {{0, VALUES(1)}, {1, VALUES(1)}};
    if (id == CHECK_SCHED || id == CHECK_PRIORITY)
        next = emit_term(b, &init_pid[id == CHECK_PRIORITY], deny, next);
    return next;
}

static uint32_t action_of(const struct row *row, int tier, unsigned extras)
{
    if (!is_allowed(row, tier, extras))
        return SECCOMP_RET_ERRNO | (uint32_t)refusal_of(row, tier);
    enum check_id check = check_of(row, tier, extras);
    return check == CHECK_NONE ? SECCOMP_RET_ALLOW : CHECK_BIT | (uint32_t)check << 8;
}

/* CHECK_BIT must not be mistaken for a verdict: all of them have an action in
 * the high half. */
static bool is_check(uint32_t action)
{
    return !(action & SECCOMP_RET_ACTION_FULL) && (action & CHECK_BIT);
}

static void collect_ranges(struct builder *b, int tier, unsigned extras)
{
    static const int watched[] = {COTO_SOCKWATCH_CALLS};
    uint32_t actions[NUMBERS];

    for (int i = 0; i < NUMBERS; i++)
        actions[i] = tier == COTO_SECCOMP_SERVICE || is_left_out(i, extras)
                         ? SECCOMP_RET_ALLOW
                         : SECCOMP_RET_ERRNO | ENOSYS;
    for (size_t i = 0; i < ROWS; i++)
        actions[rows[i].number] = action_of(&rows[i], tier, extras);
    for (size_t i = 0; i < sizeof watched / sizeof watched[0] && extras & COTO_SECCOMP_WATCHED; i++)
        if (actions[watched[i]] == SECCOMP_RET_ALLOW)
            actions[watched[i]] = SECCOMP_RET_USER_NOTIF;
    /* The last slot stands for itself and all numbers above; it has no row. */
    for (int i = 0; i < NUMBERS; i++)
        if (i == 0 || actions[i] != actions[i - 1])
            b->ranges[b->range_count++] = (struct range){(uint32_t)i, actions[i]};
}

static void compile_checks(struct builder *b)
{
    for (int i = 0; i < b->range_count; i++) {
        uint32_t action = b->ranges[i].action;
        if (is_check(action) && !b->check_at[action >> 8])
            b->check_at[action >> 8] = compile_check(b, (enum check_id)(action >> 8));
    }
}

/* A node is a place, or for a leaf the complement of its range: leaves are
 * placed only by the comparison that needs them. */
static int place(struct builder *b, int node)
{
    if (node >= 0)
        return node;
    uint32_t action = b->ranges[~node].action;
    return is_check(action) ? b->check_at[action >> 8] : emit_verdict(b, action);
}

static int compile_tree(struct builder *b, int first, int count)
{
    if (count == 1)
        return ~first;
    int half = count / 2;
    int above = compile_tree(b, first + half, count - half);
    int below = compile_tree(b, first, half);
    above = place(b, above);
    below = place(b, below);
    return emit_if(b, BPF_JGE, b->ranges[first + half].start, above, below);
}

static void compile_entry(struct builder *b, int root)
{
    int kill = emit_verdict(b, SECCOMP_RET_KILL_PROCESS);
#ifdef __x86_64__
    int foreign = emit_if(b, BPF_JEQ, NO_CALL,
                          emit_verdict(b, SECCOMP_RET_ERRNO | ENOSYS), kill);
    emit_if(b, BPF_JGE, X32_BIT, foreign, root);
#else
    emit(b, BPF_JMP | BPF_JA, (uint32_t)(root - b->pos));
#endif
    int native = emit_load(b, offsetof(struct seccomp_data, nr));
    emit_if(b, BPF_JEQ, NATIVE_ARCH, native, kill);
    emit_load(b, offsetof(struct seccomp_data, arch));
}

int coto_seccomp_build(int tier, unsigned extras, struct coto_seccomp_program *ret_program,
                       struct coto_err *err)
{
    struct builder b;

    if (tier < COTO_SECCOMP_STRICT || tier > COTO_SECCOMP_FRONT)
        return coto_err_set(err, COTO_ERR_INTERNAL, 0, "seccomp: tier %d does not exist", tier);
    b.pos = COTO_SECCOMP_MAX;
    b.verdict_count = 0;
    b.range_count = 0;
    memset(b.check_at, 0, sizeof b.check_at);
    collect_ranges(&b, tier, extras);
    compile_checks(&b);
    compile_entry(&b, compile_tree(&b, 0, b.range_count));
    if (b.pos <= 8)
        return coto_err_set(err, COTO_ERR_INTERNAL, 0, "seccomp: filter longer than %d",
                            COTO_SECCOMP_MAX - 8);
    ret_program->len = (unsigned short)(COTO_SECCOMP_MAX - b.pos);
    memcpy(ret_program->code, b.code + b.pos, ret_program->len * sizeof b.code[0]);
    coto_sha256_of(ret_program->code, ret_program->len * sizeof b.code[0], ret_program->hash);
    return 0;
}
