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

static uint32_t by_table(int tier, bool noexec, const struct seccomp_data *call)
{
    uint64_t args[6];
    int error = 0;

    memcpy(args, call->args, sizeof args);
    if (noexec && call->arch == AUDIT_ARCH_X86_64 && call->nr == SYS_memfd_create)
        return SECCOMP_RET_ERRNO | EPERM;
    switch (coto_seccomp_decide(tier, call->arch, call->nr, args, &error)) {
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

static struct machine *machine_of(int tier, bool noexec)
{
    static struct machine machines[TIERS][2];
    struct machine *m = &machines[tier][noexec];
    struct coto_err err = {0};

    m->noexec = noexec;
    if (m->program.len == 0 && coto_seccomp_build(tier, noexec, &m->program, &err))
        abort();
    return m;
}

/* First byte: tier, noexec, foreign architecture, high bits of the number. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct seccomp_data call = {.arch = AUDIT_ARCH_X86_64};

    if (size < 3)
        return 0;
    int tier = data[0] % TIERS;
    bool noexec = data[0] & 4;
    call.nr = (data[1] | data[2] << 8) % NUMBERS;
    if (data[0] & 8)
        call.nr |= (int)((uint32_t)data[1] << 24);
    if (data[0] & 16)
        memcpy(&call.arch, data, sizeof call.arch > size ? size : sizeof call.arch);
    memcpy(call.args, data + 3, size - 3 < sizeof call.args ? size - 3 : sizeof call.args);
    if (run(machine_of(tier, noexec), &call) != by_table(tier, noexec, &call))
        abort();
    return 0;
}
