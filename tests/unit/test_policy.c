/* The policy room: who wins, what is refused and in which words, profiles,
 * environment. Policy files: test_policy_file.c. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "policy_room.h"

#include "base/units.h"
#include "policy/nearest.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int set(enum coto_opt opt, const char *text)
{
    char flag[80];

    snprintf(flag, sizeof flag, "--%s", coto_options[opt].name);
    return coto_policy_set(&policy, opt, text, COTO_SOURCE_FLAG, flag, &err);
}

static void assert_refused(enum coto_opt opt, const char *text)
{
    struct coto_buf before = {0}, after = {0};

    coto_policy_text(&policy, &before);
    if (set(opt, text) == 0)
        fail_msg("--%s '%s' was accepted", coto_options[opt].name, text);
    assert_int_equal(err.kind, COTO_ERR_POLICY);
    assert_contains(err.text, coto_options[opt].name);
    assert_contains(err.text, "; allowed: ");
    assert_true(err.remedy[0]);
    coto_policy_text(&policy, &after);
    assert_string_equal(coto_buf_str(&before), coto_buf_str(&after));
    coto_buf_fini(&before);
    coto_buf_fini(&after);
}

static void assert_accepted(enum coto_opt opt, const char *text)
{
    if (set(opt, text))
        fail_msg("--%s '%s' was refused: %s", coto_options[opt].name, text, err.text);
}

/* ---- values ---- */

static void defaults_are_the_rows(void **state)
{
    (void)state;
    for (int i = 0; i < COTO_OPT_COUNT; i++) {
        assert_int_equal(policy.v[i].source, COTO_SOURCE_DEFAULT);
        assert_text((enum coto_opt)i, coto_options[i].fallback);
    }
}

static void messages(void **state)
{
    (void)state;
    assert_int_equal(set(COTO_OPT_MEMORY, "3x"), -1);
    assert_string_equal(err.text,
                        "--memory: '3x' is not a size; allowed: 4m to none, for example 256m");
    assert_int_equal(set(COTO_OPT_MEMORY, "1k"), -1);
    assert_string_equal(err.text,
                        "--memory: '1k' is out of range; allowed: 4m to none, for example 256m");
    assert_int_equal(set(COTO_OPT_ON_OUTPUT_LIMIT, "stop"), -1);
    assert_string_equal(err.text,
                        "--on-output-limit: 'stop' is not a choice; allowed: cut, kill");
    assert_int_equal(coto_policy_set(&policy, COTO_OPT_PIDS, "many", COTO_SOURCE_FILE, "p.yaml",
                                     &err), -1);
    assert_contains(err.text, "p.yaml: pids: 'many' is not a whole number; allowed: 1 to none");
}

static void numbers(void **state)
{
    (void)state;
    assert_accepted(COTO_OPT_MEMORY, "none");
    assert_int_equal(coto_policy_num(&policy, COTO_OPT_MEMORY), COTO_UNIT_NONE);
    assert_accepted(COTO_OPT_MEMORY, "4m");
    assert_accepted(COTO_OPT_TIMEOUT, "86400");
    assert_refused(COTO_OPT_MEMORY, "4194303");
    assert_refused(COTO_OPT_DISK, "none"); /* its maximum is finite */
    assert_refused(COTO_OPT_TIMEOUT, "none");
    assert_refused(COTO_OPT_TIMEOUT, "86401");
    assert_refused(COTO_OPT_TIMEOUT, "0");
    assert_refused(COTO_OPT_PIDS, "0");
    assert_refused(COTO_OPT_PIDS, "-1");
    assert_refused(COTO_OPT_PIDS, "1e9");
    assert_refused(COTO_OPT_CPUS, "0.001");
    assert_refused(COTO_OPT_NOEXEC, "yes");
    assert_refused(COTO_OPT_SECCOMP, "none");
    assert_refused(COTO_OPT_SECCOMP, "strict|default");
}

/* Threat NS-05: an id is a plain decimal number or nothing. */
static void users(void **state)
{
    static const char *const good[] = {"1", "10000", "4294967294", "9999:9999", "5:1"};
    static const char *const bad[] = {
        "",  "0",   "0:0",  "1:0",  "0:1",        "0x0",        "+0",          "+5", " 5",
        "5 ", "05", "root", "root ", "4294967295", "4294967296", "18446744073709551617",
        "1:", ":1", "1:2:3", "-1",  "1.0",        "1:4294967295", "1:0x1",      "1 :1"};
    (void)state;
    for (size_t i = 0; i < COUNT(good); i++)
        assert_accepted(COTO_OPT_USER, good[i]);
    for (size_t i = 0; i < COUNT(bad); i++)
        assert_refused(COTO_OPT_USER, bad[i]);
}

static void names(void **state)
{
    (void)state;
    assert_accepted(COTO_OPT_USER_NAME, "deepresearch");
    assert_accepted(COTO_OPT_USER_NAME, "_x-1");
    assert_refused(COTO_OPT_USER_NAME, "root");
    assert_refused(COTO_OPT_USER_NAME, "");
    assert_refused(COTO_OPT_USER_NAME, "a:0:0");
    assert_refused(COTO_OPT_USER_NAME, "a\nroot");
    assert_refused(COTO_OPT_USER_NAME, "1a");
    assert_accepted(COTO_OPT_HOSTNAME, "a-1.example");
    assert_refused(COTO_OPT_HOSTNAME, "");
    assert_refused(COTO_OPT_HOSTNAME, "-a");
    assert_refused(COTO_OPT_HOSTNAME, "a-");
    assert_refused(COTO_OPT_HOSTNAME, "a..b");
    assert_refused(COTO_OPT_HOSTNAME, "a b");
    assert_refused(COTO_OPT_HOSTNAME,
                   "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa");
}

static void workdirs(void **state)
{
    static const char *const bad[] = {"",      "/",      "work",  "/work/", "/a//b", "/a/../b",
                                      "/..",   "/a/.",   "/usr",  "/usr/x", "/proc/self", "/dev",
                                      "/sys",  "/etc/x", "/bin",  "/sbin",  "/lib",  "/lib64/x",
                                      "/lib32", "/a:b",  "/a\nb"};
    (void)state;
    assert_accepted(COTO_OPT_WORKDIR, "/work");
    assert_accepted(COTO_OPT_WORKDIR, "/srv/...x");
    assert_accepted(COTO_OPT_WORKDIR, "/usrx"); /* only whole names are taken */
    for (size_t i = 0; i < COUNT(bad); i++)
        assert_refused(COTO_OPT_WORKDIR, bad[i]);
}

static void hashes(void **state)
{
    char text[66];

    (void)state;
    memset(text, 'a', 65);
    text[65] = '\0';
    assert_refused(COTO_OPT_PROMPT_HASH, text);
    text[64] = '\0';
    assert_accepted(COTO_OPT_PROMPT_HASH, text);
    text[63] = 'g';
    assert_refused(COTO_OPT_PROMPT_HASH, text);
    assert_accepted(COTO_OPT_PROMPT_HASH, "");
}

static void maps(void **state)
{
    (void)state;
    assert_accepted(COTO_OPT_ENV, "A=1");
    assert_accepted(COTO_OPT_ENV, "_b2=x=y,z");
    assert_accepted(COTO_OPT_ENV, "A=2"); /* the last of one key counts */
    assert_text(COTO_OPT_ENV, "A=2,_b2=x=y,z");
    assert_accepted(COTO_OPT_ENV, "E=");
    assert_refused(COTO_OPT_ENV, "=x");
    assert_refused(COTO_OPT_ENV, "A");
    assert_refused(COTO_OPT_ENV, "1A=x");
    assert_refused(COTO_OPT_ENV, "A-B=x");
    assert_refused(COTO_OPT_ENV, "A B=x");
    char *huge = malloc(200001);
    memset(huge, 'x', 200000);
    memcpy(huge, "A=", 2);
    huge[200000] = '\0';
    assert_refused(COTO_OPT_ENV, huge);
    free(huge);
}

static void lists(void **state)
{
    (void)state;
    assert_accepted(COTO_OPT_REQUIRE, "memory,pid-namespace");
    assert_accepted(COTO_OPT_REQUIRE, "memory");
    assert_text(COTO_OPT_REQUIRE, "memory,pid_namespace");
    assert_accepted(COTO_OPT_REQUIRE, "all");
    assert_refused(COTO_OPT_ALLOW_MISSING, "all");
    assert_refused(COTO_OPT_REQUIRE, "memory,,pids");
    assert_refused(COTO_OPT_REQUIRE, "memori");
    assert_contains(err.text, "user_namespace");
    assert_contains(err.text, "iops, all");
    assert_contains(err.remedy, "'memory'");
    assert_accepted(COTO_OPT_CAP_ADD, "CAP_CHOWN,setuid,SETGID,Fowner");
    assert_text(COTO_OPT_CAP_ADD, "chown,setuid,setgid,fowner");
    assert_refused(COTO_OPT_CAP_ADD, "sys_admin");
    assert_refused(COTO_OPT_CAP_ADD, "all");
    assert_accepted(COTO_OPT_REPORT_INCLUDE, "code,env");
    assert_refused(COTO_OPT_REPORT_INCLUDE, "secrets");
    assert_accepted(COTO_OPT_NETWORK_ALLOW, "inference-service:443");
    assert_refused(COTO_OPT_NETWORK_ALLOW, "host:0");
    assert_refused(COTO_OPT_NETWORK_ALLOW, "host:70000");
}

static void paths_in_lists(void **state)
{
    (void)state;
    assert_accepted(COTO_OPT_MOUNT, "/srv/a,b:/data:ro"); /* no splitting at commas */
    assert_int_equal(coto_policy_list(&policy, COTO_OPT_MOUNT)->count, 1);
    assert_accepted(COTO_OPT_MOUNT, "rel:/x");
    assert_accepted(COTO_OPT_MOUNT, "/a:/b:rw");
    assert_refused(COTO_OPT_MOUNT, "/a");
    assert_refused(COTO_OPT_MOUNT, ":/b");
    assert_refused(COTO_OPT_MOUNT, "/a:ro");
    assert_refused(COTO_OPT_MOUNT, "/a:b");
    assert_refused(COTO_OPT_MOUNT, "/a:/b/../c");
    assert_refused(COTO_OPT_MOUNT, "/a:/");
    assert_accepted(COTO_OPT_COPY, "a:b");
    assert_refused(COTO_OPT_COPY, "a");
    assert_refused(COTO_OPT_COPY, "a:");
    assert_accepted(COTO_OPT_TMPFS, "/run:16m");
    assert_accepted(COTO_OPT_TMPFS, "/var/tmp");
    assert_refused(COTO_OPT_TMPFS, "/run:none");
    assert_refused(COTO_OPT_TMPFS, "/run:1k");
    assert_refused(COTO_OPT_TMPFS, "/etc");
    assert_refused(COTO_OPT_TMPFS, "run");
}

static void every_value_reads_back(void **state)
{
    struct coto_policy copy;
    char a[COTO_SHA256_HEX], b[COTO_SHA256_HEX], plain[COTO_SHA256_HEX];

    (void)state;
    coto_policy_hash(&policy, plain);
    assert_int_equal(coto_policy_apply_profile(&policy, "deepresearch", &err), 0);
    assert_int_equal(coto_policy_init(&copy, &err), 0);
    for (int i = 0; i < COTO_OPT_COUNT; i++) {
        struct coto_buf text = {0};
        if (i == COTO_OPT_TMPFS) /* not comma-separated: item by item */
            for (size_t n = 0; n < policy.v[i].list.count; n++)
                assert_int_equal(coto_policy_set(&copy, (enum coto_opt)i,
                                                 policy.v[i].list.items[n], COTO_SOURCE_FLAG, "x",
                                                 &err), 0);
        coto_policy_value_text(&policy, (enum coto_opt)i, &text);
        if (i != COTO_OPT_TMPFS)
            assert_int_equal(coto_policy_set(&copy, (enum coto_opt)i, coto_buf_str(&text),
                                             COTO_SOURCE_FLAG, "x", &err), 0);
        coto_buf_fini(&text);
    }
    coto_policy_hash(&policy, a);
    coto_policy_hash(&copy, b);
    assert_string_equal(a, b);
    assert_string_not_equal(a, plain);
    coto_policy_fini(&copy);
}

/* Two different policies never have the same text, and so the same hash. */
static void text_is_unambiguous(void **state)
{
    struct coto_buf one = {0}, two = {0};

    (void)state;
    assert_accepted(COTO_OPT_ENV, "A=1\nenv: B=2");
    coto_policy_text(&policy, &one);
    coto_policy_fini(&policy);
    assert_int_equal(coto_policy_init(&policy, &err), 0);
    assert_accepted(COTO_OPT_ENV, "A=1");
    assert_accepted(COTO_OPT_ENV, "B=2");
    coto_policy_text(&policy, &two);
    assert_string_not_equal(coto_buf_str(&one), coto_buf_str(&two));
    assert_contains(coto_buf_str(&two), "\nenv: A=1\nenv: B=2\n");
    coto_buf_fini(&one);
    coto_buf_fini(&two);
}

/* ---- sources ---- */

static void stronger_source_wins(void **state)
{
    (void)state;
    for (int order = 0; order < 2; order++) {
        for (int i = 0; i < 4; i++) {
            int source = order ? COTO_SOURCE_FLAG - i : COTO_SOURCE_PROFILE + i;
            char text[8];
            snprintf(text, sizeof text, "%d", 10 + source);
            assert_int_equal(coto_policy_set(&policy, COTO_OPT_PIDS, text,
                                             (enum coto_source)source, "x", &err), 0);
        }
        assert_int_equal(coto_policy_num(&policy, COTO_OPT_PIDS), 10 + COTO_SOURCE_FLAG);
        coto_policy_fini(&policy);
        assert_int_equal(coto_policy_init(&policy, &err), 0);
    }
    /* What loses is checked all the same. */
    assert_accepted(COTO_OPT_PIDS, "5");
    assert_int_equal(coto_policy_set(&policy, COTO_OPT_PIDS, "x", COTO_SOURCE_ENV, "COTO_PIDS",
                                     &err), -1);
}

static void lists_replace_weaker_sources(void **state)
{
    (void)state;
    coto_policy_set(&policy, COTO_OPT_CAP_ADD, "chown", COTO_SOURCE_PROFILE, "p", &err);
    coto_policy_set(&policy, COTO_OPT_CAP_ADD, "fowner", COTO_SOURCE_PROFILE, "p", &err);
    assert_text(COTO_OPT_CAP_ADD, "chown,fowner");
    coto_policy_set(&policy, COTO_OPT_CAP_ADD, "setuid", COTO_SOURCE_FLAG, "--cap-add", &err);
    assert_text(COTO_OPT_CAP_ADD, "setuid");
    coto_policy_set(&policy, COTO_OPT_CAP_ADD, "setgid", COTO_SOURCE_FLAG, "--cap-add", &err);
    assert_text(COTO_OPT_CAP_ADD, "setuid,setgid");
    coto_policy_set(&policy, COTO_OPT_CAP_ADD, "chown", COTO_SOURCE_FILE, "f", &err);
    assert_text(COTO_OPT_CAP_ADD, "setuid,setgid");
}

static void keys(void **state)
{
    (void)state;
    assert_int_equal(coto_policy_set_key(&policy, "output_limit", "1k", COTO_SOURCE_FILE, "f",
                                         &err), 0);
    assert_int_equal(coto_policy_num(&policy, COTO_OPT_OUTPUT_LIMIT), 1024);
    assert_int_equal(coto_policy_set_key(&policy, "memroy", "1g", COTO_SOURCE_FILE, "f", &err), -1);
    assert_int_equal(err.kind, COTO_ERR_USAGE);
    assert_contains(err.text, "memroy");
    assert_contains(err.remedy, "'memory'");
    assert_int_equal(coto_policy_set_key(&policy, "json", "true", COTO_SOURCE_FILE, "f", &err), -1);
    assert_contains(err.remedy, "--json");
    assert_int_equal(coto_policy_set_key(&policy, "", "x", COTO_SOURCE_FILE, "f", &err), -1);
}

static void nearest_names(void **state)
{
    (void)state;
    assert_int_equal(coto_nearest_distance("memory", "memory"), 0);
    assert_int_equal(coto_nearest_distance("memroy", "memory"), 1);
    assert_int_equal(coto_nearest_distance("tmp_size", "tmp-size"), 0);
    assert_int_equal(coto_nearest_distance("", "abc"), 3);
    assert_int_equal(coto_nearest_distance("kitten", "sitting"), 3);
    struct coto_nearest best = {0};
    coto_nearest_offer(&best, "frobnicate", "memory");
    assert_null(best.name);
}

/* ---- profiles ---- */

struct promise {
    const char *profile;
    enum coto_opt opt;
    const char *value;
};

/* The numbers of the requirements. */
static const struct promise promises[] = {
    {"ia-libre", COTO_OPT_USER, "9999:9999"},
    {"ia-libre", COTO_OPT_PIDS, "64"},
    {"ia-libre", COTO_OPT_TMP_SIZE, "64m"},
    {"ia-libre", COTO_OPT_WORKDIR, "/work"},
    {"gemini", COTO_OPT_USER, "1001:1001"},
    {"gemini", COTO_OPT_PIDS, "50"},
    {"gemini", COTO_OPT_MEMORY, "128m"},
    {"gemini", COTO_OPT_CPUS, "0.5"},
    {"gemini", COTO_OPT_TIMEOUT, "30s"},
    {"antigravity", COTO_OPT_TIMEOUT, "30s"},
    {"antigravity", COTO_OPT_OUTPUT_LIMIT, "10k"},
    {"antigravity", COTO_OPT_CPUS, "0.5"},
    {"antigravity", COTO_OPT_MEMORY, "256m"},
    {"deepresearch", COTO_OPT_CPUS, "2"},
    {"deepresearch", COTO_OPT_MEMORY, "2g"},
    {"deepresearch", COTO_OPT_TMPFS, "/var/tmp,/run,/var/log/deepresearch"},
    {"deepresearch", COTO_OPT_CAP_ADD, "chown,setuid,setgid,fowner"},
    {"deepresearch", COTO_OPT_USER_NAME, "deepresearch"},
    {"enis", COTO_OPT_USER, "10000:10000"},
    {"enis", COTO_OPT_CPUS, "1.6"},
    {"enis", COTO_OPT_MEMORY, "512m"},
    {"enis", COTO_OPT_SWAP, "0"},
    {"enis", COTO_OPT_DISK, "512m"},
    {"enis", COTO_OPT_TMP_SIZE, "256m"},
    {"enis", COTO_OPT_WRITABLE, "output"},
    {"enis", COTO_OPT_IOPS, "1000"},
    {"enis", COTO_OPT_SECCOMP, "default"},
};

static void profiles_keep_their_promises(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(promises); i++) {
        char origin[64];
        assert_int_equal(coto_policy_apply_profile(&policy, promises[i].profile, &err), 0);
        assert_text(promises[i].opt, promises[i].value);
        snprintf(origin, sizeof origin, "profile %s", promises[i].profile);
        assert_string_equal(policy.v[promises[i].opt].origin, origin);
        assert_string_equal(coto_policy_str(&policy, COTO_OPT_PROFILE), promises[i].profile);
        assert_int_equal(coto_policy_num(&policy, COTO_OPT_NETWORK), COTO_NETWORK_NONE);
    }
}

static void profiles_are_whole(void **state)
{
    (void)state;
    assert_int_equal(coto_profile_count, 6);
    assert_string_equal(coto_profiles[0].name, "default");
    for (unsigned i = 0; i < coto_profile_count; i++) {
        assert_true(strlen(coto_profiles[i].summary) > 10);
        assert_int_equal(coto_policy_apply_profile(&policy, coto_profiles[i].name, &err), 0);
        assert_int_equal(coto_policy_check(&policy, &err), 0);
        for (size_t n = 0; coto_profiles[i].settings[2 * n]; n++)
            if (coto_profiles[i].notes[n][0] != 'R')
                fail_msg("%s: %s names no requirement", coto_profiles[i].name,
                         coto_profiles[i].settings[2 * n]);
    }
}

static void a_policy_has_one_profile(void **state)
{
    char before[COTO_SHA256_HEX], after[COTO_SHA256_HEX];

    (void)state;
    coto_policy_hash(&policy, before);
    assert_int_equal(coto_policy_apply_profile(&policy, "enis", &err), 0);
    assert_int_equal(coto_policy_apply_profile(&policy, "default", &err), 0);
    coto_policy_hash(&policy, after);
    assert_string_equal(before, after);
    assert_int_equal(coto_policy_apply_profile(&policy, "enid", &err), -1);
    assert_int_equal(err.kind, COTO_ERR_POLICY);
    assert_contains(err.text, "default, antigravity, deepresearch, enis, gemini, ia-libre");
    assert_contains(err.remedy, "'enis'");
}

/* ---- environment ---- */

static int apply_env(const char *a, const char *b, const char *c)
{
    char *envp[] = {"PATH=/bin", (char *)a, (char *)b, (char *)c, NULL};

    return coto_policy_apply_env(&policy, envp, &err);
}

static void assert_env_refused(const char *variable, int kind)
{
    char name[64];

    if (apply_env(variable, NULL, NULL) == 0)
        fail_msg("%s was accepted", variable);
    snprintf(name, sizeof name, "%.*s", (int)strcspn(variable, "="), variable);
    assert_contains(err.text, name);
    assert_true(err.remedy[0]);
    assert_int_equal(err.kind, kind);
}

static void environment(void **state)
{
    (void)state;
    assert_int_equal(apply_env("COTO_MEMORY=64m", "COTO_TMP_SIZE=1m", "COTO_ENV=A=1,B=2"), 0);
    assert_text(COTO_OPT_MEMORY, "64m");
    assert_text(COTO_OPT_TMP_SIZE, "1m");
    assert_text(COTO_OPT_ENV, "A=1,B=2");
    assert_int_equal(coto_policy_list(&policy, COTO_OPT_ENV)->count, 2);
    assert_string_equal(policy.v[COTO_OPT_MEMORY].origin, "COTO_MEMORY");
    assert_int_equal(apply_env("COTO_JSON=true", "COTO_PROFILE=gemini", "COTO_MOUNT=a:/a,b:/b"), 0);
    assert_int_equal(coto_policy_num(&policy, COTO_OPT_JSON), 1);
    assert_text(COTO_OPT_PIDS, "50");
    assert_text(COTO_OPT_MEMORY, "64m"); /* the variable beats the profile it names */
    assert_int_equal(coto_policy_list(&policy, COTO_OPT_MOUNT)->count, 2);
    assert_int_equal(apply_env("COTO_TEST_BIN=/x", "COTO_INIT_X=1", "COTOX=1"), 0);
}

static void environment_refusals(void **state)
{
    (void)state;
    assert_env_refused("COTO_MEMROY=1g", COTO_ERR_USAGE);
    assert_contains(err.remedy, "COTO_MEMORY");
    assert_env_refused("COTO_memory=1g", COTO_ERR_USAGE);
    assert_env_refused("COTO_=1", COTO_ERR_USAGE);
    assert_env_refused("COTO_MEMORY=", COTO_ERR_POLICY);
    assert_env_refused("COTO_MEMORY=5 g", COTO_ERR_POLICY);
    assert_env_refused("COTO_PROFILE=nope", COTO_ERR_POLICY);
    assert_env_refused("SANDBOX_TYPE=podman", COTO_ERR_POLICY);
    assert_env_refused("SANDBOX_TYPE=", COTO_ERR_POLICY);
    assert_env_refused("SANDBOX_TIMEOUT_SEC=0", COTO_ERR_POLICY);
    assert_env_refused("SANDBOX_TIMEOUT_SEC=30s", COTO_ERR_POLICY);
    assert_env_refused("SANDBOX_MAX_OUTPUT_KB=none", COTO_ERR_POLICY);
    assert_env_refused("SANDBOX_MAX_OUTPUT_KB=-1", COTO_ERR_POLICY);
    assert_env_refused("DOCKER_IMAGE=", COTO_ERR_POLICY);
    assert_env_refused("DOCKER_IMAGE=a b", COTO_ERR_POLICY);
    assert_env_refused("DOCKER_IMAGE=--privileged", COTO_ERR_POLICY);
    assert_env_refused("DOCKER_NETWORK_ENABLED=no", COTO_ERR_POLICY);
    assert_env_refused("DOCKER_CPU_LIMIT=half", COTO_ERR_POLICY);
    assert_env_refused("DOCKER_MEMORY_LIMIT=1k", COTO_ERR_POLICY);
    assert_env_refused("SANDBOX_TYPE=e2b", COTO_ERR_UNAVAILABLE);
    assert_string_equal(err.text, "SANDBOX_TYPE=e2b: not available at this level yet");
}

static void environment_of_the_agent_document(void **state)
{
    char before[COTO_SHA256_HEX], after[COTO_SHA256_HEX];

    (void)state;
    coto_policy_hash(&policy, before);
    assert_int_equal(apply_env("DOCKER_IMAGE=python:3.11-slim", "DOCKER_NETWORK_ENABLED=false",
                               "DOCKER_CPU_LIMIT=0.5"), 0);
    assert_int_equal(apply_env("DOCKER_MEMORY_LIMIT=256m", "DOCKER_HOST=tcp://x", NULL), 0);
    coto_policy_hash(&policy, after);
    assert_string_equal(before, after); /* of use at the docker level only */
    assert_int_equal(apply_env("SANDBOX_TYPE=local", "SANDBOX_TIMEOUT_SEC=7",
                               "SANDBOX_MAX_OUTPUT_KB=10"), 0);
    assert_text(COTO_OPT_TIMEOUT, "7s");
    assert_text(COTO_OPT_OUTPUT_LIMIT, "10k");
    assert_string_equal(policy.v[COTO_OPT_TIMEOUT].origin, "SANDBOX_TIMEOUT_SEC");
    /* COTO_ wins, wherever it stands. */
    assert_int_equal(apply_env("COTO_TIMEOUT=9s", "SANDBOX_TIMEOUT_SEC=8", NULL), 0);
    assert_text(COTO_OPT_TIMEOUT, "9s");
    assert_int_equal(apply_env("COTO_ISOLATION=process", "SANDBOX_TYPE=docker", NULL), 0);
}

static int docker_env(const char *a, const char *b, const char *c)
{
    char *envp[] = {(char *)(uintptr_t)a, (char *)(uintptr_t)b, (char *)(uintptr_t)c, NULL};

    return coto_policy_apply_env(&policy, envp, &err) ||
           coto_policy_apply_docker_env(&policy, envp, &err);
}

static void environment_of_the_docker_level(void **state)
{
    (void)state;
    assert_int_equal(docker_env("SANDBOX_TYPE=docker", "DOCKER_IMAGE=debian:12",
                                "DOCKER_CPU_LIMIT=0.25"), 0);
    assert_text(COTO_OPT_ISOLATION, "docker");
    assert_text(COTO_OPT_IMAGE, "debian:12");
    assert_text(COTO_OPT_CPUS, "0.25");
    assert_string_equal(policy.v[COTO_OPT_IMAGE].origin, "DOCKER_IMAGE");
    assert_int_equal(docker_env("COTO_ISOLATION=docker", "DOCKER_MEMORY_LIMIT=128m",
                                "COTO_MEMORY=64m"), 0);
    assert_text(COTO_OPT_MEMORY, "64m");
    assert_int_not_equal(docker_env("SANDBOX_TYPE=docker", "DOCKER_NETWORK_ENABLED=true", NULL), 0);
    assert_int_equal(err.kind, COTO_ERR_UNAVAILABLE);
    assert_int_equal(docker_env("SANDBOX_TYPE=docker", "DOCKER_NETWORK_ENABLED=false", NULL), 0);
}

/* ---- checks ---- */

static void later_levels_are_refused(void **state)
{
    static const struct {
        enum coto_opt opt;
        const char *value;
    } rows[] = {
        {COTO_OPT_NETWORK, "allow-list"},
        {COTO_OPT_NETWORK_ALLOW, "example.org:443"},
        {COTO_OPT_ISOLATION, "vm"},
    };
    (void)state;
    assert_int_equal(coto_policy_check(&policy, &err), 0);
    for (size_t i = 0; i < COUNT(rows); i++) {
        coto_policy_fini(&policy);
        assert_int_equal(coto_policy_init(&policy, &err), 0);
        assert_accepted(rows[i].opt, rows[i].value);
        assert_int_equal(coto_policy_check(&policy, &err), -1);
        assert_int_equal(err.kind, COTO_ERR_UNAVAILABLE);
        assert_contains(err.text, rows[i].value);
        assert_contains(err.text, "not available at this level");
        assert_true(err.remedy[0]);
    }
}

static void assert_contradiction(const char *part)
{
    assert_int_equal(coto_policy_check(&policy, &err), -1);
    assert_int_equal(err.kind, COTO_ERR_POLICY);
    assert_contains(err.text, part);
    coto_policy_fini(&policy);
    assert_int_equal(coto_policy_init(&policy, &err), 0);
}

static void contradictions(void **state)
{
    (void)state;
    assert_accepted(COTO_OPT_REQUIRE, "memory");
    assert_accepted(COTO_OPT_ALLOW_MISSING, "pids");
    assert_int_equal(coto_policy_check(&policy, &err), 0);
    assert_accepted(COTO_OPT_ALLOW_MISSING, "memory");
    assert_contradiction("'memory'");
    assert_accepted(COTO_OPT_REQUIRE, "all");
    assert_accepted(COTO_OPT_ALLOW_MISSING, "landlock");
    assert_contradiction("'landlock'");
    assert_accepted(COTO_OPT_PROMPT_FILE, "p.txt");
    assert_accepted(COTO_OPT_PROMPT_HASH,
                    "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef");
    assert_contradiction("prompt-hash");
    assert_accepted(COTO_OPT_REPORT_INCLUDE, "prompt");
    assert_contradiction("report-include");
    assert_accepted(COTO_OPT_WORKDIR, "/tmp");
    assert_contradiction("/tmp");
    assert_accepted(COTO_OPT_TMPFS, "/run/a:1m");
    assert_accepted(COTO_OPT_WORKDIR, "/run/a/b");
    assert_contradiction("tmpfs");
    assert_accepted(COTO_OPT_TMPFS, "/run/a");
    assert_accepted(COTO_OPT_WORKDIR, "/run/ab");
    assert_int_equal(coto_policy_check(&policy, &err), 0);
}

/* What a level does not have is refused when somebody asked for it, and only then: a
 * profile may name the image of another level. */
static void levels_and_their_options(void **state)
{
    static const struct {
        const char *level;
        enum coto_opt opt;
        const char *value;
        const char *why; /* NULL: accepted */
    } rows[] = {
        {"process", COTO_OPT_RUNTIME, "runsc", "has no container runtime"},
        {"process", COTO_OPT_IMAGE, "debian:12", NULL},
        {"subprocess", COTO_OPT_IMAGE, "debian:12", "has no images"},
        {"process", COTO_OPT_ROOTFS, "/srv/root", NULL},
        {"docker", COTO_OPT_RUNTIME, "runsc", NULL},
        {"docker", COTO_OPT_IMAGE, "a/b:1@sha256:00", NULL},
        {"docker", COTO_OPT_ROOTFS, "/srv/root", "from an image"},
        {"docker", COTO_OPT_MOUNT, "/srv:/srv", "mounts nothing of the host"},
        {"docker", COTO_OPT_IDMAP, "single", "as the engine is set up"},
        {"docker", COTO_OPT_IMAGE_KEY, "image.pub", "signature coto cannot see"},
        {"container", COTO_OPT_IMAGE_KEY, "image.pub", NULL},
        {"container", COTO_OPT_RUNTIME, "kata-runtime", NULL},
        {"container", COTO_OPT_ROOTFS, "/srv/root", NULL},
        {"container", COTO_OPT_MOUNT, "/srv:/srv", NULL},
    };
    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        coto_policy_fini(&policy);
        assert_int_equal(coto_policy_init(&policy, &err), 0);
        assert_int_equal(coto_policy_apply_profile(&policy, "ia-libre", &err), 0);
        assert_accepted(COTO_OPT_ISOLATION, rows[i].level);
        assert_accepted(rows[i].opt, rows[i].value);
        assert_int_equal(coto_policy_check(&policy, &err), rows[i].why ? -1 : 0);
        if (!rows[i].why)
            continue;
        assert_int_equal(err.kind, COTO_ERR_UNAVAILABLE);
        assert_contains(err.text, rows[i].why);
        assert_true(err.remedy[0]);
    }
}

static void images_and_runtimes(void **state)
{
    (void)state;
    assert_accepted(COTO_OPT_IMAGE, "registry.example:5000/a/b-c:1.2_3");
    assert_refused(COTO_OPT_IMAGE, "");
    assert_refused(COTO_OPT_IMAGE, "/etc");
    assert_refused(COTO_OPT_IMAGE, "../x");
    assert_refused(COTO_OPT_IMAGE, "a/../b");
    assert_refused(COTO_OPT_IMAGE, "docker://a");
    assert_refused(COTO_OPT_IMAGE, "a b");
    assert_refused(COTO_OPT_IMAGE, "a;b");
    assert_refused(COTO_OPT_IMAGE, "a/");
    assert_accepted(COTO_OPT_RUNTIME, "io.containerd.kata.v2");
    assert_refused(COTO_OPT_RUNTIME, "/usr/bin/runsc");
    assert_refused(COTO_OPT_RUNTIME, "-x");
    assert_accepted(COTO_OPT_ISOLATION, "container");
    assert_accepted(COTO_OPT_IMAGE, "a");
    assert_accepted(COTO_OPT_ROOTFS, "/srv");
    assert_contradiction("one root");
}

/* As people write them, with blanks; but with nothing in between they are a mistake. */
static void lists_with_blanks(void **state)
{
    static const char *const bad[] = {"runc,", "runc,,crun", ",", " ", "runc, "};
    (void)state;

    assert_int_equal(coto_policy_set(&policy, COTO_OPT_ALLOW_RUNTIME, "runc, crun ,runsc", COTO_SOURCE_FLAG, "--allow-runtime", &err), 0);
    const struct coto_strv *list = coto_policy_list(&policy, COTO_OPT_ALLOW_RUNTIME);
    assert_int_equal(list->count, 3);
    assert_string_equal(list->items[0], "runc");
    assert_string_equal(list->items[1], "crun");
    assert_string_equal(list->items[2], "runsc");
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        err = (struct coto_err){0};
        assert_int_equal(coto_policy_set(&policy, COTO_OPT_ALLOW_RUNTIME, bad[i], COTO_SOURCE_FLAG, "--allow-runtime", &err), -1);
        assert_non_null(strstr(err.text, "allow-runtime"));
    }
    assert_int_equal(coto_policy_set(&policy, COTO_OPT_REQUIRE, "memory, pids", COTO_SOURCE_FLAG, "", &err), 0);
    assert_int_equal(coto_policy_list(&policy, COTO_OPT_REQUIRE)->count, 2);
}

#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(defaults_are_the_rows), T(messages), T(numbers), T(users), T(names), T(workdirs),
        T(hashes), T(maps), T(lists), T(lists_with_blanks), T(paths_in_lists), T(every_value_reads_back),
        T(text_is_unambiguous), T(stronger_source_wins), T(lists_replace_weaker_sources), T(keys),
        T(nearest_names), T(profiles_keep_their_promises), T(profiles_are_whole),
        T(a_policy_has_one_profile), T(environment), T(environment_refusals),
        T(environment_of_the_agent_document), T(later_levels_are_refused), T(contradictions),
        T(levels_and_their_options), T(images_and_runtimes), T(environment_of_the_docker_level),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
