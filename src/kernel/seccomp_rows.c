/* The rules on arguments in the language of container runtimes: rows that allow, each a
 * conjunction of (argument & mask) == value with every argument at most once.
 *
 * "None of these values" has no such row. It becomes the prefixes that no denied value begins
 * with, as networks are listed around an address. A few rules would need the product of two
 * such lists; those are said to be looser here, and are exact in the filter that coto-init
 * installs inside.
 */
#include "kernel/seccomp.h"

#include "kernel/seccomp_checks.h"
#include "schema/options.h"

#include <string.h>

#define HIGH 0xffffffff00000000ull

struct sink {
    coto_seccomp_emit *emit;
    void *arg;
};

static void send_row(const struct sink *sink, const struct coto_seccomp_row *row)
{
    sink->emit(sink->arg, row);
}

static bool has_value(const struct term *term, uint32_t prefix, uint32_t mask)
{
    for (int i = 0; i < term->count; i++)
        if (((term->values[i] ^ prefix) & mask & term->mask) == 0)
            return true;
    return false;
}

/* Low words that begin with the `bits` upper bits of prefix, but for the values. */
static void prefixes(const struct sink *sink, const struct check *check, uint32_t prefix, int bits)
{
    uint32_t mask = bits ? UINT32_MAX << (32 - bits) : 0;

    if (!has_value(check->clauses[0], prefix, mask) && !has_value(check->clauses[1], prefix, mask) &&
        !has_value(check->clauses[2], prefix, mask))
        send_row(sink, &(struct coto_seccomp_row){1, {{check->clauses[0][0].arg, mask, prefix}}});
    else if (bits < 32) {
        prefixes(sink, check, prefix, bits + 1);
        prefixes(sink, check, prefix | 1u << (31 - bits), bits + 1);
    }
}

/* Every choice of one value per term. */
static void products(const struct sink *sink, const struct term terms[3], int at,
                     struct coto_seccomp_row *row)
{
    if (at == 3 || !terms[at].count) {
        row->count = at;
        send_row(sink, row);
        return;
    }
    for (int i = 0; i < terms[at].count; i++) {
        row->compare[at] = (struct coto_seccomp_compare){terms[at].arg, HIGH | terms[at].mask,
                                                         terms[at].values[i]};
        products(sink, terms, at + 1, row);
    }
}

static void allowed(const struct sink *sink, enum check_id id)
{
    struct coto_seccomp_row row;

    for (int i = 0; i < 3; i++)
        if (checks[id].clauses[i][0].count)
            products(sink, checks[id].clauses[i], 0, &row);
    for (size_t i = 0; id == CHECK_SOCKOPT && i < SOCKOPT_LEVELS; i++)
        send_row(sink, &(struct coto_seccomp_row){1, {{1, UINT32_MAX, sockopts[i].level}}});
    if (id == CHECK_PERSONALITY) { /* the query -1, with or without its sign in the high word */
        send_row(sink, &(struct coto_seccomp_row){1, {{0, UINT64_MAX, UINT32_MAX}}});
        send_row(sink, &(struct coto_seccomp_row){1, {{0, UINT64_MAX, UINT64_MAX}}});
    }
}

static enum check_id check_of_call(int tier, int number)
{
    static const struct {
        int number;
        enum check_id check;
    } calls[] = {
#define X(name, tier, otherwise, check) {__NR_##name, CHECK_##check},
        COTO_SYSCALLS(X)
#undef X
    };

    for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++)
        if (calls[i].number == number)
            return calls[i].check == CHECK_PRCTL && tier == COTO_SECCOMP_DEBUG ? CHECK_PRCTL_DEBUG
                                                                               : calls[i].check;
    return CHECK_NONE;
}

bool coto_seccomp_rows(int tier, int number, coto_seccomp_emit *emit, void *arg)
{
    const struct sink sink = {emit, arg};
    enum check_id id = check_of_call(tier, number);
    const struct term *first = &checks[id].clauses[0][0];

    switch (id == CHECK_NONE ? ALLOW : checks[id].kind) {
    case DENY_BITS:
        send_row(&sink, &(struct coto_seccomp_row){1, {{first->arg, first->mask, 0}}});
        break;
    case DENY_VALUES:
        prefixes(&sink, &checks[id], 0, 0);
        break;
    case ALLOW:
        allowed(&sink, id);
        break;
    }
    return id != CHECK_PRLIMIT && id != CHECK_SOCKOPT && id != CHECK_SCHED && id != CHECK_PRIORITY;
}
