/* Capabilities, in forked children: what one test drops must not miss the next. */
#include "kernel/caps.h"

#include <errno.h>
#include <linux/capability.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "in_child.h"

#define BIT(n) ((uint64_t)1 << (n))

/* The sets by another road: /proc/self/status. */
static int proc_set(const char *key, uint64_t *ret_set)
{
    char line[256];
    FILE *file = fopen("/proc/self/status", "re");
    int found = -1;

    while (file && fgets(line, sizeof line, file)) {
        unsigned long long set;
        if (!strncmp(line, key, strlen(key)) && sscanf(line + strlen(key), ":%llx", &set) == 1) {
            *ret_set = set;
            found = 0;
        }
    }
    if (file)
        fclose(file);
    return found;
}

static int proc_caps(struct coto_caps *caps)
{
    return proc_set("CapInh", &caps->inheritable) || proc_set("CapPrm", &caps->permitted) ||
           proc_set("CapEff", &caps->effective) || proc_set("CapBnd", &caps->bounding) ||
           proc_set("CapAmb", &caps->ambient);
}

static bool is_all(const struct coto_caps *caps, uint64_t set)
{
    return caps->effective == set && caps->permitted == set && caps->inheritable == set &&
           caps->bounding == set && caps->ambient == set;
}

/* Root, or root of a user namespace: both have CAP_SETPCAP over themselves. */
static int become_capable(void)
{
    struct coto_caps caps;

    if (coto_caps_read(&caps, NULL))
        return -1;
    return caps.effective & BIT(CAP_SETPCAP) ? 0 : unshare(CLONE_NEWUSER);
}

static void test_names(void **state)
{
    (void)state;
    assert_string_equal(coto_caps_name(CAP_CHOWN), "chown");
    assert_string_equal(coto_caps_name(CAP_SETUID), "setuid");
    assert_string_equal(coto_caps_name(CAP_SYS_ADMIN), "sys_admin");
    assert_string_equal(coto_caps_name(CAP_MKNOD), "mknod");
    assert_string_equal(coto_caps_name(40), "checkpoint_restore");
    assert_null(coto_caps_name(-1));
    assert_null(coto_caps_name(41));
}

static void test_read_agrees_with_proc(void **state)
{
    struct coto_caps caps, proc = {0};
    struct coto_err err = {0};
    (void)state;

    assert_int_equal(coto_caps_read(&caps, &err), 0);
    assert_int_equal(proc_caps(&proc), 0);
    assert_memory_equal(&caps, &proc, sizeof caps);
}

static int body_drop_all(void)
{
    struct coto_caps caps, proc;
    struct coto_err err = {0};

    if (become_capable())
        return 1;
    if (chroot("/")) /* positive control */
        return 2;
    if (coto_caps_limit(0, &err))
        return 3;
    if (coto_caps_read(&caps, &err) || !is_all(&caps, 0))
        return 4;
    if (proc_caps(&proc) || !is_all(&proc, 0))
        return 5;
    if (chroot("/") != -1 || errno != EPERM)
        return 6;
    if (!coto_caps_is_bounded() || coto_caps_read_bounded(&caps, &err) || !is_all(&caps, 0))
        return 8;
    return coto_caps_limit(0, &err) ? 7 : 0; /* nothing left to drop, no CAP_SETPCAP: fine */
}

static int body_keep_some(void)
{
    uint64_t keep = BIT(CAP_CHOWN) | BIT(CAP_FOWNER);
    struct coto_caps proc;
    struct coto_err err = {0};

    if (become_capable())
        return 1;
    if (coto_caps_limit(keep, &err))
        return 2;
    if (proc_caps(&proc) || !is_all(&proc, keep) || coto_caps_is_bounded())
        return 3;
    if (coto_caps_limit(BIT(CAP_CHOWN) | BIT(CAP_SYS_ADMIN), &err) != -1)
        return 4; /* fowner stays in the bounding set, and CAP_SETPCAP is gone */
    if (err.kind != COTO_ERR_WALL || !strstr(err.text, "fowner") || !err.remedy[0])
        return 5;
    if (proc_caps(&proc) || proc.permitted != BIT(CAP_CHOWN) || proc.ambient != BIT(CAP_CHOWN))
        return 6;
    return 0;
}

/* Kept ones reach a program started by a uid that is not root. */
static int body_survive_exec(void)
{
    struct coto_err err = {0};

    if (become_capable())
        return 1;
    if (getuid() == 0 && (prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0) || setresuid(12345, 12345, 12345)))
        return 3;
    if (coto_caps_limit(BIT(CAP_CHOWN), &err))
        return 4;
    execl("/bin/sh", "sh", "-c",
          "grep -q '^CapEff:\t0000000000000001$' /proc/self/status && "
          "grep -q '^CapBnd:\t0000000000000001$' /proc/self/status",
          (char *)NULL);
    return 2;
}

/* Only permitted, not effective: as after a change of uid with KEEPCAPS. */
static int body_not_effective(void)
{
    struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
    struct __user_cap_data_struct data[2];
    struct coto_caps proc;
    struct coto_err err = {0};

    if (become_capable() || syscall(SYS_capget, &header, data))
        return 1;
    data[0].effective = data[1].effective = 0;
    if (syscall(SYS_capset, &header, data))
        return 2;
    if (prctl(PR_CAPBSET_DROP, CAP_SYS_BOOT, 0, 0, 0) != -1) /* control: it cannot as it is */
        return 3;
    if (coto_caps_limit(0, &err))
        return 4;
    return proc_caps(&proc) || !is_all(&proc, 0) ? 5 : 0;
}

/* A bounding set that cannot be emptied is an error, and the rest is dropped. */
static int body_without_setpcap(void)
{
    struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
    struct __user_cap_data_struct data[2];
    struct coto_caps proc;
    struct coto_err err = {0};

    if (become_capable() || syscall(SYS_capget, &header, data))
        return 1;
    data[0].effective &= ~(uint32_t)BIT(CAP_SETPCAP);
    data[0].permitted &= ~(uint32_t)BIT(CAP_SETPCAP);
    if (syscall(SYS_capset, &header, data))
        return 2;
    if (coto_caps_limit(0, &err) != -1 || err.kind != COTO_ERR_WALL ||
        !strstr(err.text, "bounding"))
        return 3;
    if (proc_caps(&proc) || proc.permitted || proc.effective || proc.inheritable || proc.ambient)
        return 4;
    return 0;
}

static int body_missing_kept(void)
{
    struct coto_caps proc;
    struct coto_err err = {0};

    if (become_capable() || coto_caps_limit(BIT(CAP_CHOWN), &err))
        return 1;
    /* setuid is not there to keep: what is there is reduced, nothing fails. */
    if (coto_caps_limit(BIT(CAP_CHOWN) | BIT(CAP_SETUID), &err))
        return 2;
    return proc_caps(&proc) || !is_all(&proc, BIT(CAP_CHOWN)) ? 3 : 0;
}

#define CHILD_TEST(name)                                                                           \
    static void test_##name(void **state)                                                          \
    {                                                                                              \
        (void)state;                                                                               \
        assert_int_equal(in_child(body_##name), 0);                                                \
    }
CHILD_TEST(drop_all)
CHILD_TEST(keep_some)
CHILD_TEST(survive_exec)
CHILD_TEST(not_effective)
CHILD_TEST(without_setpcap)
CHILD_TEST(missing_kept)

static int body_shed(void)
{
    const uint64_t keep = BIT(CAP_SYS_CHROOT) | BIT(CAP_KILL);
    struct coto_caps proc;
    struct coto_err err = {0};

    if (become_capable())
        return 1;
    if (coto_caps_limit(keep | BIT(CAP_SETPCAP), &err)) /* all five sets: what is inheritable and ambient goes too */
        return 2;
    if (coto_caps_shed(keep, &err) || proc_caps(&proc))
        return 3;
    if (proc.effective != keep || proc.permitted != keep || proc.bounding != keep || proc.inheritable || proc.ambient)
        return 4;
    if (chroot("/")) /* it goes on as it is */
        return 5;
    /* Without CAP_SETPCAP the bounding set stays, and the rest is given up all the same. */
    if (coto_caps_shed(BIT(CAP_KILL), &err) || proc_caps(&proc))
        return 6;
    if (proc.bounding != keep || proc.permitted != BIT(CAP_KILL))
        return 7;
    return chroot("/") == -1 && errno == EPERM ? 0 : 8;
}

static void test_shed(void **state)
{
    (void)state;
    assert_int_equal(in_child(body_shed), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_read_agrees_with_proc),
        cmocka_unit_test(test_drop_all),
        cmocka_unit_test(test_keep_some),
        cmocka_unit_test(test_survive_exec),
        cmocka_unit_test(test_not_effective),
        cmocka_unit_test(test_without_setpcap),
        cmocka_unit_test(test_missing_kept),
        cmocka_unit_test(test_shed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
