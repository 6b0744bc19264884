/* An interpreter of classic BPF, as the kernel runs a seccomp filter, that remembers where
 * it has been. Whoever includes it says what BPF_BROKEN(format, ...) does. */
#pragma once

#include "kernel/seccomp.h"

#include <linux/seccomp.h>
#include <string.h>

struct machine {
    struct coto_seccomp_program program;
    unsigned extras;
    unsigned char ran[COTO_SECCOMP_MAX];
    unsigned char taken[COTO_SECCOMP_MAX]; /* bit 0: jump not taken, bit 1: taken */
    int jumps;                             /* conditional, in the last run */
};

static uint32_t load_word(const struct seccomp_data *data, uint32_t offset)
{
    uint32_t word;

    if (offset % 4 != 0 || offset + 4 > sizeof *data)
        BPF_BROKEN("a load from %u", offset);
    memcpy(&word, (const char *)data + offset, sizeof word);
    return word;
}

static bool test_jump(const struct sock_filter *in, uint32_t a)
{
    switch (BPF_OP(in->code)) {
    case BPF_JEQ:
        return a == in->k;
    case BPF_JGE:
        return a >= in->k;
    case BPF_JGT:
        return a > in->k;
    case BPF_JSET:
        return a & in->k;
    default:
        BPF_BROKEN("unknown jump 0x%x", in->code);
        return false;
    }
}

static uint32_t run(struct machine *m, const struct seccomp_data *data)
{
    uint32_t a = 0;

    m->jumps = 0;
    for (unsigned pc = 0; pc < m->program.len; pc++) {
        const struct sock_filter *in = &m->program.code[pc];
        m->ran[pc] = 1;
        if (in->code == (BPF_LD | BPF_W | BPF_ABS)) {
            a = load_word(data, in->k);
        } else if (in->code == (BPF_ALU | BPF_AND | BPF_K)) {
            a &= in->k;
        } else if (in->code == (BPF_RET | BPF_K)) {
            return in->k;
        } else if (in->code == (BPF_JMP | BPF_JA)) {
            pc += in->k;
        } else if (BPF_CLASS(in->code) == BPF_JMP) {
            bool yes = test_jump(in, a);
            m->taken[pc] |= yes ? 2 : 1;
            m->jumps++;
            pc += yes ? in->jt : in->jf;
        } else {
            BPF_BROKEN("unknown instruction 0x%x", in->code);
        }
    }
    BPF_BROKEN("ran off the end");
    return 0;
}
