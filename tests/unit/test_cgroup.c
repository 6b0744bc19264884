/* Control groups of the other kind: this host may have v1, so a v2 hierarchy is mounted for
 * the test, and trees of plain files stand for hosts with more and with fewer controllers.
 * What a kernel enforces is tested from outside (tests/cli/test_limits.py, make test-vm). */
#include "base/units.h"
#include "kernel/cgroup.h"

#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "in_child.h"
#include "own_mounts.h"

#define TOP "/sys/fs/cgroup"

static const struct coto_cgroup_limits all_limits = {
    .memory_bytes = 64 << 20, .cpus_milli = 500, .pids = 10, .iops = 100, .account_cpu = true};

/* ---- finding ---- */

/* A host whose only hierarchy is v2, made of files; `own` is the caller's group. */
static int fake_v2(const char *own, const char *controllers, const char *enabled)
{
    char path[256];

    CHECK(own_mounts() == 0 && mount("none", TOP, "tmpfs", 0, NULL) == 0);
    CHECK(write_text(TOP "/cgroup.controllers", controllers) == 0);
    CHECK(write_text(TOP "/cgroup.subtree_control", enabled) == 0);
    CHECK(write_text(TOP "/cgroup.procs", "1\n") == 0);
    snprintf(path, sizeof path, "0::%s\n", own);
    CHECK(cover_file("/proc/self/cgroup", path) == 0);
    return 0;
}

static int find_as_root(void)
{
    struct coto_cgroup_host host;

    CHECK(fake_v2("/", "cpu io memory pids\n", "") == 0);
    coto_cgroup_find(&host);
    CHECK(host.version == 2 && !host.must_leave);
    CHECK(strcmp(host.parent[COTO_CG_PIDS], TOP) == 0 && host.has[COTO_CG_IO]);
    return 0;
}

static int find_without_memory(void)
{
    struct coto_cgroup_host host;

    CHECK(fake_v2("/", "cpu pids\n", "") == 0);
    coto_cgroup_find(&host);
    CHECK(host.version == 0 && strstr(host.why, "memory and pids are not delegated"));
    return 0;
}

/* The caller's own group, TOP/mine, given to an ordinary user, which sits in it. */
static int give_group(const char *procs, const char *enabled_above)
{
    static const char *const files[] = {"/cgroup.controllers", "/cgroup.subtree_control",
                                        "/cgroup.procs"};

    CHECK(fake_v2("/mine", "cpu io memory pids\n", enabled_above) == 0);
    CHECK(mkdir(TOP "/mine", 0755) == 0 && chown(TOP "/mine", 65533, 65533) == 0);
    CHECK(write_text(TOP "/mine/cgroup.controllers", "cpu memory pids\n") == 0);
    CHECK(write_text(TOP "/mine/cgroup.subtree_control", "") == 0);
    CHECK(write_text(TOP "/mine/cgroup.procs", procs) == 0);
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        char path[128];
        snprintf(path, sizeof path, TOP "/mine%s", files[i]);
        CHECK(chown(path, 65533, 65533) == 0);
    }
    return 0;
}

static int become_user(void)
{
    CHECK(setresgid(65533, 65533, 65533) == 0 && setresuid(65533, 65533, 65533) == 0);
    return 0;
}

static int find_delegated(void)
{
    struct coto_cgroup_host host;
    char procs[32];

    snprintf(procs, sizeof procs, "%d", (int)getpid());
    CHECK(give_group(procs, "") == 0 && become_user() == 0);
    coto_cgroup_find(&host);
    CHECK(host.version == 2 && host.must_leave);
    CHECK(strcmp(host.parent[COTO_CG_MEMORY], TOP "/mine") == 0);
    return 0;
}

static int find_sibling(void)
{
    struct coto_cgroup_host host;

    CHECK(give_group("1\n2\n", "memory pids\n") == 0);
    CHECK(chmod(TOP, 0777) == 0 && chmod(TOP "/cgroup.procs", 0666) == 0 && become_user() == 0);
    coto_cgroup_find(&host);
    CHECK(host.version == 2 && !host.must_leave && strcmp(host.parent[0], TOP) == 0);
    return 0;
}

static int find_not_delegated(void)
{
    struct coto_cgroup_host host;

    CHECK(fake_v2("/", "cpu memory pids\n", "") == 0 && become_user() == 0);
    coto_cgroup_find(&host);
    CHECK(host.version == 0 && strstr(host.why, "Delegate=yes"));
    return 0;
}

static int find_nothing(void)
{
    struct coto_cgroup_host host;

    CHECK(own_mounts() == 0 && mount("none", TOP, "tmpfs", 0, NULL) == 0);
    CHECK(cover_file("/proc/self/cgroup", "0::/\n") == 0);
    coto_cgroup_find(&host);
    CHECK(host.version == 0 && strstr(host.why, "no cgroup is mounted"));
    return 0;
}

/* ---- making and removing, on a real v2 hierarchy whose controllers may be elsewhere ---- */

static int mount_v2(struct coto_cgroup_host *ret_host)
{
    CHECK(own_mounts() == 0 && mount("none", TOP, "tmpfs", 0, NULL) == 0);
    CHECK(mkdir(TOP "/v2", 0755) == 0 && mount("none", TOP "/v2", "cgroup2", 0, NULL) == 0);
    *ret_host = (struct coto_cgroup_host){.version = 2};
    for (int i = 0; i < COTO_CG_COUNT; i++) {
        ret_host->has[i] = true;
        snprintf(ret_host->parent[i], sizeof ret_host->parent[i], TOP "/v2");
    }
    return 0;
}

static int make_and_remove(void)
{
    struct coto_cgroup_host host;
    struct coto_cgroup group;
    struct coto_cgroup_applied applied;
    struct coto_cgroup_stat stat;
    struct coto_err err = {0};
    int fds[COTO_CG_COUNT];

    CHECK(mount_v2(&host) == 0);
    CHECK(coto_cgroup_make(&host, "coto-test-make", &all_limits, &group, &applied, &err) == 0);
    CHECK(access(TOP "/v2/coto-test-make", F_OK) == 0);
    /* A limit is in force as asked, or is said not to be. */
    CHECK(applied.memory_bytes == all_limits.memory_bytes ||
          (applied.memory_bytes == -1 && applied.why[0]));
    CHECK(applied.pids == all_limits.pids || (applied.pids == -1 && applied.why[0]));
    CHECK(coto_cgroup_clone_fd(&group) >= 0 && coto_cgroup_open_join(&group, fds) == 0);
    coto_cgroup_stat(&group, &stat);
    CHECK(stat.cpu_user_us >= 0);
    coto_cgroup_unthrottle(&group);
    CHECK(coto_cgroup_remove(&group) == 0);
    CHECK(access(TOP "/v2/coto-test-make", F_OK) != 0);
    return 0;
}

/* The guard knows a name only, and there is still somebody inside. */
static int remove_with_processes(void)
{
    struct coto_cgroup_host host;
    struct coto_cgroup group;
    struct coto_cgroup_applied applied;
    struct coto_err err = {0};
    char pid[16];
    pid_t child;

    CHECK(mount_v2(&host) == 0);
    CHECK(coto_cgroup_make(&host, "coto-test-kill", &all_limits, &group, &applied, &err) == 0);
    coto_cgroup_close(&group);
    CHECK((child = fork()) >= 0);
    if (child == 0)
        for (;;)
            pause();
    snprintf(pid, sizeof pid, "%d", (int)child);
    CHECK(write_text(TOP "/v2/coto-test-kill/cgroup.procs", pid) == 0);
    coto_cgroup_remove_named(&host, "coto-test-kill");
    CHECK(access(TOP "/v2/coto-test-kill", F_OK) != 0);
    CHECK(waitpid(child, NULL, 0) == child);
    return 0;
}

static int make_where_it_exists(void)
{
    struct coto_cgroup_host host;
    struct coto_cgroup group;
    struct coto_cgroup_applied applied;
    struct coto_err err = {0};

    CHECK(mount_v2(&host) == 0 && mkdir(TOP "/v2/coto-test-twice", 0755) == 0);
    CHECK(coto_cgroup_make(&host, "coto-test-twice", &all_limits, &group, &applied, &err) != 0);
    CHECK(err.text[0] && rmdir(TOP "/v2/coto-test-twice") == 0);
    return 0;
}

/* Delegated to us alone: we step into a leaf and come back. */
static int leave_and_return(void)
{
    struct coto_cgroup_host host;
    struct coto_cgroup group;
    struct coto_cgroup_applied applied;
    struct coto_err err = {0};
    char pid[16];
    char leaf[64];

    CHECK(mount_v2(&host) == 0 && mkdir(TOP "/v2/coto-test-own", 0755) == 0);
    snprintf(pid, sizeof pid, "%d", (int)getpid());
    CHECK(write_text(TOP "/v2/coto-test-own/cgroup.procs", pid) == 0);
    for (int i = 0; i < COTO_CG_COUNT; i++)
        snprintf(host.parent[i], sizeof host.parent[i], TOP "/v2/coto-test-own");
    host.must_leave = true;
    CHECK(coto_cgroup_make(&host, "coto-test-inner", &all_limits, &group, &applied, &err) == 0);
    snprintf(leaf, sizeof leaf, TOP "/v2/coto-test-own/coto-main-%d", (int)getpid());
    CHECK(access(leaf, F_OK) == 0);
    CHECK(coto_cgroup_remove(&group) == 0 && access(leaf, F_OK) != 0);
    CHECK(write_text(TOP "/v2/cgroup.procs", pid) == 0 && rmdir(TOP "/v2/coto-test-own") == 0);
    return 0;
}

/* ---- sweeping ---- */

static int sweep(void)
{
    struct coto_cgroup_host host = {.version = 2};

    CHECK(own_mounts() == 0 && mount("none", TOP, "tmpfs", 0, NULL) == 0);
    snprintf(host.parent[0], sizeof host.parent[0], TOP);
    CHECK(mkdir(TOP "/coto-999999999-a", 0755) == 0 && mkdir(TOP "/coto-1-b", 0755) == 0);
    coto_cgroup_sweep(&host); /* too young, and not dead */
    CHECK(access(TOP "/coto-999999999-a", F_OK) == 0 && access(TOP "/coto-1-b", F_OK) == 0);
    return 0;
}

CHILD_TEST(find_as_root)
CHILD_TEST(find_without_memory)
CHILD_TEST(find_delegated)
CHILD_TEST(find_sibling)
CHILD_TEST(find_not_delegated)
CHILD_TEST(find_nothing)
CHILD_TEST(make_and_remove)
CHILD_TEST(remove_with_processes)
CHILD_TEST(make_where_it_exists)
CHILD_TEST(leave_and_return)
CHILD_TEST(sweep)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_find_as_root),        cmocka_unit_test(test_find_without_memory),
        cmocka_unit_test(test_find_delegated),      cmocka_unit_test(test_find_sibling),
        cmocka_unit_test(test_find_not_delegated),  cmocka_unit_test(test_find_nothing),
        cmocka_unit_test(test_make_and_remove),     cmocka_unit_test(test_remove_with_processes),
        cmocka_unit_test(test_make_where_it_exists), cmocka_unit_test(test_leave_and_return),
        cmocka_unit_test(test_sweep),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
