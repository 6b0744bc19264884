/* The compiled filter against the table it was compiled from: any call of any
 * architecture, with any arguments, gets the same answer from both (SC-15). */
#include "kernel/seccomp.h"
#include "schema/options.h"

#include <errno.h>
#include <linux/audit.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>

#define BPF_BROKEN(...) abort()
#include "../unit/bpf.h"

#define TIERS 3
#define NUMBERS 1024 /* more than any kernel has; the rest is for high bits */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static uint32_t by_table(int tier, unsigned extras, const struct seccomp_data *data)
{
    struct coto_seccomp_call call = {data->arch, data->nr, {0}};
    int error = 0;

    memcpy(call.args, data->args, sizeof call.args);
    switch (coto_seccomp_decide(tier, extras, &call, &error)) {
    case COTO_ANSWER_ALLOW:
        return SECCOMP_RET_ALLOW;
    case COTO_ANSWER_KILL:
        return SECCOMP_RET_KILL_PROCESS;
    case COTO_ANSWER_ERRNO:
        return SECCOMP_RET_ERRNO | (uint32_t)error;
    default:
        abort(); /* a call is decided, or the table is wrong */
    }
}

static struct machine *machine_of(int tier, unsigned extras)
{
    static struct machine machines[TIERS][4];
    struct machine *m = &machines[tier][extras];
    struct coto_err err = {0};

    m->extras = extras;
    if (m->program.len == 0 && coto_seccomp_build(tier, extras, &m->program, &err))
        abort();
    return m;
}

/* First byte: tier, noexec, foreign architecture, high bits of the number, no set-id bits. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct seccomp_data call = {.arch = AUDIT_ARCH_X86_64};

    if (size < 3)
        return 0;
    int tier = data[0] % TIERS;
    unsigned extras = coto_seccomp_extras(data[0] & 4, data[0] & 32);
    call.nr = (data[1] | data[2] << 8) % NUMBERS;
    if (data[0] & 8)
        call.nr |= (int)((uint32_t)data[1] << 24);
    if (data[0] & 16)
        memcpy(&call.arch, data, sizeof call.arch > size ? size : sizeof call.arch);
    memcpy(call.args, data + 3, size - 3 < sizeof call.args ? size - 3 : sizeof call.args);
    if (run(machine_of(tier, extras), &call) != by_table(tier, extras, &call))
        abort();
    return 0;
}
