#include "kernel/caps.h"

#include <errno.h>
#include <linux/capability.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef PR_CAP_AMBIENT
#define PR_CAP_AMBIENT 47
#define PR_CAP_AMBIENT_IS_SET 1
#define PR_CAP_AMBIENT_RAISE 2
#define PR_CAP_AMBIENT_CLEAR_ALL 4
#endif

#define SET_BITS 64 /* of a capability set; the kernel's last one is found by asking */
#define BIT(n) ((uint64_t)1 << (n))

/* In the kernel's order: the index is the bit. */
static const char *const names[] = {
    "chown",           "dac_override",       "dac_read_search", "fowner",
    "fsetid",          "kill",               "setgid",          "setuid",
    "setpcap",         "linux_immutable",    "net_bind_service", "net_broadcast",
    "net_admin",       "net_raw",            "ipc_lock",        "ipc_owner",
    "sys_module",      "sys_rawio",          "sys_chroot",      "sys_ptrace",
    "sys_pacct",       "sys_admin",          "sys_boot",        "sys_nice",
    "sys_resource",    "sys_time",           "sys_tty_config",  "mknod",
    "lease",           "audit_write",        "audit_control",   "setfcap",
    "mac_override",    "mac_admin",          "syslog",          "wake_alarm",
    "block_suspend",   "audit_read",         "perfmon",         "bpf",
    "checkpoint_restore",
};
#define NAMES ((int)(sizeof names / sizeof names[0]))

const char *coto_caps_name(int bit)
{
    return bit >= 0 && bit < NAMES ? names[bit] : NULL;
}

static int raw_prctl(int option, unsigned long a, unsigned long b)
{
    return (int)syscall(SYS_prctl, option, a, b, 0UL, 0UL);
}

static int get_sets(struct coto_caps *caps)
{
    struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
    struct __user_cap_data_struct data[2];

    if (syscall(SYS_capget, &header, data))
        return -1;
    caps->effective = data[0].effective | (uint64_t)data[1].effective << 32;
    caps->permitted = data[0].permitted | (uint64_t)data[1].permitted << 32;
    caps->inheritable = data[0].inheritable | (uint64_t)data[1].inheritable << 32;
    return 0;
}

static int set_sets(const struct coto_caps *caps)
{
    struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
    struct __user_cap_data_struct data[2];

    for (int i = 0; i < 2; i++) {
        data[i].effective = (uint32_t)(caps->effective >> (32 * i));
        data[i].permitted = (uint32_t)(caps->permitted >> (32 * i));
        data[i].inheritable = (uint32_t)(caps->inheritable >> (32 * i));
    }
    return (int)syscall(SYS_capset, &header, data);
}

/* The kernel says EINVAL past its last capability. */
static uint64_t get_bounding(void)
{
    uint64_t set = 0;

    for (int bit = 0; bit < SET_BITS; bit++) {
        int in = raw_prctl(PR_CAPBSET_READ, (unsigned long)bit, 0);
        if (in < 0)
            break;
        if (in)
            set |= BIT(bit);
    }
    return set;
}

/* Ambient is a subset of permitted and inheritable: only those are asked. */
static uint64_t get_ambient(const struct coto_caps *caps)
{
    uint64_t set = 0;

    for (int bit = 0; bit < SET_BITS; bit++)
        if (caps->permitted & caps->inheritable & BIT(bit) &&
            raw_prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_IS_SET, (unsigned long)bit) == 1)
            set |= BIT(bit);
    return set;
}

bool coto_caps_is_bounded(void)
{
    return get_bounding() == 0;
}

static int read_sets(struct coto_caps *ret_caps, bool is_bounded, struct coto_err *err)
{
    struct coto_caps caps = {0};

    if (get_sets(&caps))
        return coto_err_set(err, COTO_ERR_SYSTEM, errno, "capabilities: capget");
    caps.bounding = is_bounded ? 0 : get_bounding();
    caps.ambient = get_ambient(&caps);
    *ret_caps = caps;
    return 0;
}

int coto_caps_read(struct coto_caps *ret_caps, struct coto_err *err)
{
    return read_sets(ret_caps, false, err);
}

int coto_caps_read_bounded(struct coto_caps *ret_caps, struct coto_err *err)
{
    return read_sets(ret_caps, true, err);
}

/* Drops what it can; whether that was enough is for `verify`. Dropping needs
 * CAP_SETPCAP to be effective, and after a change of uid it may be only
 * permitted. */
static void limit_bounding(struct coto_caps *caps, uint64_t keep)
{
    uint64_t drop = get_bounding() & ~keep;
    struct coto_caps raised = *caps;

    if (!drop)
        return;
    raised.effective |= caps->permitted & BIT(CAP_SETPCAP);
    if (raised.effective != caps->effective && set_sets(&raised) == 0)
        *caps = raised;
    for (int bit = 0; bit < SET_BITS; bit++)
        if (drop & BIT(bit))
            raw_prctl(PR_CAPBSET_DROP, (unsigned long)bit, 0);
}

static int raise_ambient(uint64_t set, struct coto_err *err)
{
    for (int bit = 0; bit < SET_BITS; bit++)
        if (set & BIT(bit) &&
            raw_prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, (unsigned long)bit))
            return coto_err_set(err, COTO_ERR_SYSTEM, errno, "capabilities: keep %s",
                                coto_caps_name(bit) ? coto_caps_name(bit) : "(new)");
    return 0;
}

static int verify(uint64_t keep, struct coto_err *err)
{
    struct coto_caps now;

    if (coto_caps_read(&now, err))
        return -1;
    uint64_t held = now.effective | now.permitted | now.inheritable | now.ambient;
    uint64_t left = (held | now.bounding) & ~keep;
    if (!left)
        return 0;
    int bit = __builtin_ctzll(left);
    const char *name = coto_caps_name(bit);
    coto_err_set(err, COTO_ERR_WALL, 0, "capabilities: %s cannot be dropped from the %s set",
                 name ? name : "(new)", held & BIT(bit) ? "permitted" : "bounding");
    return coto_err_remedy(err, "start coto as root, or let it make a user namespace: this needs "
                                "CAP_SETPCAP");
}

/* What is left of the sets after the bounding set: all but `keep` goes. */
static int keep_only(struct coto_caps *caps, uint64_t keep, struct coto_err *err)
{
    caps->permitted &= keep;
    caps->effective = caps->permitted;
    caps->inheritable = caps->permitted ? caps->permitted & get_bounding() : 0;
    /* Kernels before 4.3 have no ambient set and say EINVAL: then it is empty. */
    raw_prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0);
    if (set_sets(caps))
        return coto_err_set(err, COTO_ERR_SYSTEM, errno, "capabilities: capset");
    return raise_ambient(caps->inheritable, err);
}

int coto_caps_keep(uint64_t keep, struct coto_err *err)
{
    struct coto_caps caps = {0};

    if (get_sets(&caps))
        return coto_err_set(err, COTO_ERR_SYSTEM, errno, "capabilities: capget");
    return keep_only(&caps, keep, err);
}

int coto_caps_limit(uint64_t keep, struct coto_err *err)
{
    struct coto_caps caps = {0};

    if (get_sets(&caps))
        return coto_err_set(err, COTO_ERR_SYSTEM, errno, "capabilities: capget");
    /* First the bounding set: it needs CAP_SETPCAP, which the rest gives away. */
    limit_bounding(&caps, keep);
    return keep_only(&caps, keep, err) ? -1 : verify(keep, err);
}

int coto_caps_shed(uint64_t keep, struct coto_err *err)
{
    struct coto_caps caps = {0};

    if (get_sets(&caps))
        return coto_err_set(err, COTO_ERR_SYSTEM, errno, "capabilities: capget");
    limit_bounding(&caps, keep); /* first: see coto_caps_limit */
    raw_prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0);
    caps.permitted &= keep;
    caps.effective &= keep;
    caps.inheritable = 0;
    if (set_sets(&caps))
        return coto_err_set(err, COTO_ERR_SYSTEM, errno, "capabilities: capset");
    return 0;
}
