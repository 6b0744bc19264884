/* Versions of runtimes and which escapes they have; config.json, field by field (BK-01). */
#include "drivers/oci/oci.h"
#include "drivers/floor.h"
#include "base/fd.h"
#include "base/units.h"
#include "schema/options.h"

#include <fcntl.h>
#include <jansson.h>
#include <linux/capability.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "in_child.h"

static void test_order_of_versions(void **state)
{
    static const char *const ascending[] = {
        "0.9",     "1.0~rc1",   "1.0",        "1.0+ds1",           "1.1.5",
        "1.1.5+ds1-1", "1.1.5+ds1-1+deb12u1", "1.1.5+ds1-1+deb12u2", "1.1.12", "1.2.0", "1.10.0", "2"};

    (void)state;
    for (size_t i = 0; i < sizeof ascending / sizeof ascending[0]; i++)
        for (size_t k = 0; k < sizeof ascending / sizeof ascending[0]; k++) {
            int d = coto_floor_compare(ascending[i], ascending[k]);
            if ((d > 0) != (i > k) || (d < 0) != (i < k))
                fail_msg("%s against %s: %d", ascending[i], ascending[k], d);
        }
}

static void test_escapes(void **state)
{
    static const struct {
        const char *runtime;
        const char *version;
        bool is_debian;
        const char *has, *has_not; /* NULL: none, and nothing to look for */
    } rows[] = {
        {"runc", "1.1.11", false, "CVE-2024-21626", NULL},
        {"runc", "1.1.12", false, "CVE-2025-31133", "CVE-2024-21626"},
        /* Debian mended 1.1.5; the same number from upstream is not mended. */
        {"runc", "1.1.5+ds1-1+deb12u1", true, "CVE-2025-52881", "CVE-2024-21626"},
        {"runc", "1.1.5+ds1-1", true, "CVE-2024-21626", NULL},
        {"runc", "1.1.5", false, "CVE-2024-21626", NULL},
        {"runc", "1.2.7", false, "CVE-2025-52565", NULL},
        {"runc", "1.2.8", false, "CVE-2026-41579", "CVE-2025-52565"},
        {"runc", "1.3.2", false, "CVE-2025-31133", NULL},
        {"runc", "1.3.6", false, NULL, NULL},
        {"runc", "1.4.0-rc.2", false, "CVE-2025-31133", NULL},
        {"runc", "1.4.3", false, NULL, NULL},
        {"runc", "1.5.0", false, NULL, NULL},
        {"runc", "2.0", false, NULL, NULL},
        {"crun", "1.8.1-1+deb12u1", true, "CVE-2026-47766", NULL},
        {"crun", "1.27.1", false, "CVE-2026-47766", NULL},
        {"crun", "1.28", false, NULL, NULL},
        {"runsc", "0.0~20180901.0", false, "CVE-2018-20168", NULL},
        {"runsc", "0.0~20221219.0-2+b3", true, NULL, NULL},
        {"runsc", "0.0~20251001.0", false, NULL, NULL},
        {"kata-runtime", "1.10.0", false, "CVE-2020-2026", NULL},
        {"kata-runtime", "3.2.0", false, NULL, NULL},
        {"runc", "", false, "CVE-2024-21626", NULL},
        {"runc", "unknown", false, "CVE-2026-41579", NULL},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char lacks[128];
        coto_floor_lacks(rows[i].runtime, rows[i].version, rows[i].is_debian, lacks);
        if (rows[i].has ? !strstr(lacks, rows[i].has) : lacks[0] != '\0')
            fail_msg("%s: has '%s'", rows[i].version, lacks);
        if (rows[i].has_not && strstr(lacks, rows[i].has_not))
            fail_msg("%s: has '%s'", rows[i].version, lacks);
    }
}

/* ---- config.json ---- */

static json_t *config_of(const struct oci *oci)
{
    struct oci_binds binds = {.count = 2};
    coto_auto_buf text = {0};
    struct coto_err err = {0};
    json_error_t why;

    binds.items[0].source = binds.items[0].target = (char *)"/usr";
    binds.items[0].is_dir = true;
    binds.items[1].source = (char *)"/run/x/init";
    binds.items[1].target = (char *)OCI_INIT_INSIDE;
    assert_int_equal(oci_config_make(oci, &binds, &text, &err), 0);
    json_t *config = json_loads(coto_buf_str(&text), JSON_REJECT_DUPLICATES | JSON_DECODE_INT_AS_REAL, &why);
    if (!config)
        fail_msg("%s at %d", why.text, why.position);
    return config;
}

static const json_t *at(const json_t *object, const char *path)
{
    char word[64];

    while (object && *path) {
        size_t n = strcspn(path, ".");
        snprintf(word, sizeof word, "%.*s", (int)n, path);
        object = json_object_get(object, word);
        path += n + (path[n] == '.');
    }
    return object;
}

static bool has_item(const json_t *array, const char *key, const char *value)
{
    size_t i;
    json_t *item;

    json_array_foreach(array, i, item) {
        const json_t *text = key ? json_object_get(item, key) : item;
        if (strcmp(json_string_value(text), value) == 0)
            return true;
    }
    return false;
}

static const json_t *mount_at(const json_t *config, const char *target)
{
    size_t i;
    json_t *item;

    json_array_foreach(json_object_get(config, "mounts"), i, item)
        if (strcmp(json_string_value(json_object_get(item, "destination")), target) == 0)
            return item;
    fail_msg("nothing is mounted on %s", target);
    return NULL;
}

static void fill(struct oci *oci, struct coto_plan *plan, const struct oci_runtime *runtime)
{
    *plan = (struct coto_plan){.uid = 10000, .gid = 10001, .hostname = (char *)"box",
                               .workdir = (char *)"/workspace", .disk_bytes = 1 << 20,
                               .tmp_bytes = 1 << 19, .inodes = 77,
                               .seccomp_tier = COTO_SECCOMP_DEFAULT};
    *oci = (struct oci){.plan = plan, .has_userns = !runtime->own_kernel, .has_group = true,
                        .name = "coto-1-test"};
    oci->chosen.runtime = runtime;
    oci->map.host_uid = oci->map.host_gid = 1900000000;
    oci->map0.host_uid = oci->map0.host_gid = 1900000001;
    oci->cgroup_host.version = 1;
    oci->limits = (struct coto_cgroup_limits){.memory_bytes = 256 << 20, .swap_bytes = 0,
                                              .cpus_milli = 500, .pids = 100, .iops = COTO_UNIT_NONE};
}

static const struct oci_runtime runc = {OCI_RUNC, "runc", "runc", false};
static const struct oci_runtime runsc = {OCI_RUNSC, "runsc", "runsc", true};

static void test_config(void **state)
{
    static const char *const namespaces[] = {"pid", "network", "ipc", "uts", "mount", "cgroup", "user"};
    static const char *const sets[] = {"bounding", "effective", "inheritable", "permitted", "ambient"};
    struct coto_plan plan;
    struct oci oci;

    (void)state;
    fill(&oci, &plan, &runc);
    json_t *config = config_of(&oci);
    assert_true(json_is_true(at(config, "process.noNewPrivileges")));
    assert_true(json_is_true(at(config, "root.readonly")));
    assert_true(json_is_false(at(config, "process.terminal")));
    assert_int_equal(json_number_value(at(config, "process.user.uid")), 10000);
    assert_int_equal(json_number_value(at(config, "process.user.gid")), 10001);
    assert_int_equal(json_array_size(at(config, "process.env")), 0);
    for (size_t i = 0; i < sizeof sets / sizeof sets[0]; i++)
        assert_int_equal(json_array_size(json_object_get(at(config, "process.capabilities"), sets[i])), 0);
    assert_int_equal(json_array_size(at(config, "linux.namespaces")), 7);
    for (size_t i = 0; i < sizeof namespaces / sizeof namespaces[0]; i++)
        assert_true(has_item(at(config, "linux.namespaces"), "type", namespaces[i]));
    assert_int_equal(json_number_value(at(config, "linux.resources.memory.limit")), 256 << 20);
    assert_int_equal(json_number_value(at(config, "linux.resources.memory.swap")), 256 << 20);
    assert_int_equal(json_number_value(at(config, "linux.resources.pids.limit")), 100);
    assert_int_equal(json_number_value(at(config, "linux.resources.cpu.quota")), 50000);
    assert_true(has_item(at(config, "linux.maskedPaths"), NULL, "/proc/kcore"));
    assert_true(has_item(at(config, "linux.readonlyPaths"), NULL, "/proc/sys"));
    assert_non_null(at(config, "linux.seccomp.syscalls"));
    assert_null(json_object_get(config, "hooks"));
    assert_null(at(config, "linux.devices"));
    json_decref(config);
}

static void test_mounts(void **state)
{
    static const char *const views[] = {"/usr", OCI_INIT_INSIDE};
    struct coto_plan plan;
    struct oci oci;
    size_t i;
    json_t *item;

    (void)state;
    fill(&oci, &plan, &runc);
    plan.noexec = true;
    json_t *config = config_of(&oci);
    for (size_t k = 0; k < 2; k++)
        assert_true(has_item(json_object_get(mount_at(config, views[k]), "options"), NULL, "ro"));
    const json_t *usr = json_object_get(mount_at(config, "/usr"), "options");
    assert_true(has_item(usr, NULL, "rro") && has_item(usr, NULL, "rnosuid") && has_item(usr, NULL, "rnodev"));
    json_array_foreach(json_object_get(config, "mounts"), i, item)
        assert_true(has_item(json_object_get(item, "options"), NULL, "nosuid"));
    const json_t *work = json_object_get(mount_at(config, "/workspace"), "options");
    assert_true(has_item(work, NULL, "size=1048576") && has_item(work, NULL, "nr_inodes=77"));
    assert_true(has_item(work, NULL, "noexec") && has_item(work, NULL, "nodev"));
    json_array_foreach(json_object_get(config, "mounts"), i, item)
        assert_string_not_equal(json_string_value(json_object_get(item, "destination")), "/dev/pts");
    json_decref(config);
    plan.ptys = 5;
    config = config_of(&oci);
    assert_true(has_item(json_object_get(mount_at(config, "/dev/pts"), "options"), NULL, "max=5"));
    json_decref(config);
}

/* What a policy adds back is in all five sets and nothing else is; a small limit is for later. */
static void test_exceptions(void **state)
{
    struct coto_plan plan;
    struct oci oci;

    (void)state;
    fill(&oci, &plan, &runc);
    plan.caps = (uint64_t)1 << CAP_CHOWN;
    oci.limits.pids = 2;
    oci.limits.memory_bytes = 4 << 20;
    json_t *config = config_of(&oci);
    assert_int_equal(json_array_size(at(config, "process.capabilities.bounding")), 1);
    assert_true(has_item(at(config, "process.capabilities.ambient"), NULL, "CAP_CHOWN"));
    assert_int_equal(json_number_value(at(config, "linux.resources.pids.limit")), 64);
    assert_int_equal(json_number_value(at(config, "linux.resources.memory.limit")), 64 << 20);
    json_decref(config);
}

static void test_guest_kernel(void **state)
{
    struct coto_plan plan;
    struct oci oci;

    (void)state;
    fill(&oci, &plan, &runsc);
    oci.has_group = false;
    json_t *config = config_of(&oci);
    assert_false(has_item(at(config, "linux.namespaces"), "type", "user"));
    assert_true(has_item(at(config, "linux.namespaces"), "type", "network"));
    assert_null(at(config, "linux.uidMappings"));
    assert_null(at(config, "linux.cgroupsPath"));
    assert_null(at(config, "linux.resources"));
    /* It has terminals of its own unless there is nothing to make them in. */
    assert_true(has_item(json_object_get(mount_at(config, "/dev/pts"), "options"), NULL, "ro"));
    json_decref(config);
}

/* ---- what others may put where a caller without root keeps his own ---- */

#define USER 65533
#define CHECK(expression)                                                                          \
    do {                                                                                           \
        if (!(expression)) {                                                                       \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #expression);                       \
            return 1;                                                                              \
        }                                                                                          \
    } while (0)

static int put(const char *dir, const char *name, const char *text)
{
    char path[160];

    snprintf(path, sizeof path, "%s/%s", dir, name);
    FILE *file = fopen(path, "we");
    if (!file)
        return -1;
    fputs(text, file);
    return fclose(file) || chmod(path, 0755);
}

/* A FIFO is not waited for, and the state of the trial is in nobody else's directory. */
static int planted_names(void)
{
    struct oci_chosen chosen = {.version = "0"};
    struct coto_err err = {0};
    char base[] = "/tmp/coto-test-oci-XXXXXX";
    char path[160];

    CHECK(geteuid() != 0 || (setresgid(USER, USER, USER) == 0 && setresuid(USER, USER, USER) == 0));
    CHECK(mkdtemp(base) && setenv("XDG_RUNTIME_DIR", base, 1) == 0);
    snprintf(path, sizeof path, "%s/.coto-gvisor-%u", base, (unsigned)geteuid());
    CHECK(mkfifo(path, 0600) == 0);
    snprintf(path, sizeof path, "%s/" OCI_DIR_PREFIX "%d-platform", base, (int)getpid());
    CHECK(mkdir(path, 0755) == 0 && put(path, "planted", "") == 0);
    CHECK(put(base, "runtime", "#!/bin/sh\n[ ! -e \"$2/planted\" ] && [ \"$(stat -c %a \"$2\")\" = 700 ]\n") == 0);
    snprintf(chosen.path, sizeof chosen.path, "%s/runtime", base);
    alarm(60); /* waiting for the FIFO's writer has no end */
    int failed = oci_platform(&chosen, &err);
    int tmp = open("/tmp", O_PATH | O_DIRECTORY | O_CLOEXEC);
    CHECK(coto_path_remove_tree(tmp, base + strlen("/tmp/")) == 0);
    CHECK(!failed && strcmp(chosen.platform, "systrap") == 0);
    return 0;
}

static void test_planted_names(void **state)
{
    (void)state;
    assert_int_equal(in_child(planted_names), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_order_of_versions), cmocka_unit_test(test_escapes),
        cmocka_unit_test(test_config),            cmocka_unit_test(test_mounts),
        cmocka_unit_test(test_exceptions),        cmocka_unit_test(test_guest_kernel),
        cmocka_unit_test(test_planted_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
