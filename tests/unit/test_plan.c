/* A plan's code, environment and numbers; test_plan_paths.c has its paths. */
#include "base/fd.h"
#include "base/units.h"
#include "policy/plan.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "plan_room.h"

/* ---- id, command, code ---- */

static void test_id_is_a_random_uuid(void **state)
{
    struct room *room = *state;
    char first[COTO_ID_TEXT];

    assert_made(room, &run_true);
    memcpy(first, room->plan.id, sizeof first);
    assert_int_equal(strlen(first), 36);
    assert_int_equal(first[14], '4');
    assert_non_null(strchr("89ab", first[19]));
    assert_int_equal(first[8], '-');
    assert_made(room, &run_true);
    assert_string_not_equal(first, room->plan.id);
}

static void test_command(void **state)
{
    static const char *const argv[] = {"ls", "-l", "", "a b", NULL};
    static const char *const empty[] = {"", "x", NULL};
    static const char *const none[] = {NULL};
    struct room *room = *state;
    struct coto_source_code code = {.argv = argv, .is_command = true};

    assert_made(room, &code);
    assert_int_equal(room->plan.stage_count, 1);
    assert_string_equal(room->plan.stages[0].name, "run");
    assert_int_equal(room->plan.stages[0].argv.count, 4);
    assert_string_equal(room->plan.stages[0].argv.items[3], "a b");
    assert_null(room->plan.language);
    assert_string_equal(room->plan.code_hash, "");
    code.argv = empty;
    assert_refused(room, &code, COTO_ERR_USAGE, "command: its name is empty");
    code.argv = none;
    assert_refused(room, &code, COTO_ERR_USAGE, "command: its name is empty");
    code.is_command = false;
    assert_refused(room, &code, COTO_ERR_USAGE, "neither a file, code nor a command");
}

static void test_arguments_have_a_limit(void **state)
{
    struct room *room = *state;
    char *big = malloc(200000);
    const char *argv[] = {"x", big, NULL, NULL};
    struct coto_source_code code = {.argv = argv, .is_command = true};

    memset(big, 'a', 199999);
    big[199999] = '\0';
    assert_refused(room, &code, COTO_ERR_USAGE, "arguments: one is over 128 KiB");
    big[100000] = '\0';
    assert_made(room, &code);
    argv[2] = big;
    assert_refused(room, &code, COTO_ERR_USAGE, "arguments and environment: together over 192 KiB");
    free(big);
}

static void test_file_becomes_a_plan_file(void **state)
{
    static const char *const args[] = {"-x", "{src}", NULL};
    struct room *room = *state;
    struct coto_source_code code = {.file = put(room, "-a b.py", "print(1)\n", 9), .argv = args};
    char hash[COTO_SHA256_HEX];

    assert_made(room, &code);
    assert_int_equal(room->plan.file_count, 1);
    assert_string_equal(room->plan.files[0].target, "/workspace/-a b.py");
    assert_int_equal(room->plan.files[0].mode, 0644);
    assert_memory_equal(room->plan.files[0].data, "print(1)\n", 9);
    const struct coto_strv *argv = &room->plan.stages[0].argv;
    assert_int_equal(argv->count, 4);
    assert_string_equal(argv->items[0], "python3");
    assert_string_equal(argv->items[1], "/workspace/-a b.py");
    assert_string_equal(argv->items[3], "{src}"); /* arguments are never expanded */
    coto_sha256_of("print(1)\n", 9, hash);
    assert_string_equal(room->plan.code_hash, hash);
}

static void test_text_and_two_stages(void **state)
{
    struct room *room = *state;
    struct coto_source_code code = {.text = "int main(void){}", .text_len = 16};

    set_str(room, COTO_OPT_LANG, "c");
    assert_made(room, &code);
    assert_int_equal(room->plan.stage_count, 2);
    assert_string_equal(room->plan.stages[0].name, "build");
    assert_string_equal(room->plan.stages[0].argv.items[3], "/workspace/main.c.out");
    assert_string_equal(room->plan.stages[0].argv.items[4], "/workspace/main.c");
    assert_string_equal(room->plan.stages[1].argv.items[0], "/workspace/main.c.out");
    /* With a read-only workspace the program is built in /tmp. */
    room->policy.v[COTO_OPT_WRITABLE].num = COTO_WRITABLE_OUTPUT;
    assert_made(room, &code);
    assert_string_equal(room->plan.stages[1].argv.items[0], "/tmp/main.c.out");
    room->policy.v[COTO_OPT_NOEXEC].num = 1;
    assert_refused(room, &code, COTO_ERR_POLICY, "noexec: the program built from c could not");
}

static void test_extension_is_made_to_fit(void **state)
{
    struct room *room = *state;
    struct coto_source_code code = {.file = put(room, "code.txt", "int main(void){}", 16)};

    set_str(room, COTO_OPT_LANG, "c");
    assert_made(room, &code);
    assert_string_equal(room->plan.files[0].target, "/workspace/main.c");
    set_str(room, COTO_OPT_LANG, "python");
    assert_made(room, &code);
    assert_string_equal(room->plan.files[0].target, "/workspace/code.txt");
}

static void test_elf_runs_directly(void **state)
{
    struct room *room = *state;
    struct coto_source_code code = {.file = put(room, "prog", "\177ELF\2\1\1", 7)};

    assert_made(room, &code);
    assert_int_equal(room->plan.files[0].mode, 0755);
    assert_string_equal(room->plan.stages[0].argv.items[0], "/workspace/prog");
    assert_null(room->plan.language);
    room->policy.v[COTO_OPT_NOEXEC].num = 1;
    assert_refused(room, &code, COTO_ERR_POLICY, "noexec: a binary could not be started");
}

static void test_hostile_file_names(void **state)
{
    struct room *room = *state;
    struct coto_source_code code = {.file = put(room, "\033[2J\n\xff.py", "", 0)};
    char longest[256];

    assert_made(room, &code);
    assert_string_equal(room->plan.files[0].target, "/workspace/_[2J__.py");
    memset(longest, 'a', 252);
    strcpy(longest + 252, ".py");
    code.file = put(room, longest, "", 0);
    assert_made(room, &code);
    assert_true(strlen(room->plan.files[0].target) < 220);
    assert_string_equal(strrchr(room->plan.files[0].target, '.'), ".py");
}

static void test_language_must_be_known(void **state)
{
    struct room *room = *state;
    struct coto_source_code code = {.file = put(room, "a.xyz", "?", 1)};

    assert_refused(room, &code, COTO_ERR_USAGE, "neither its extension nor its first line");
    assert_non_null(strstr(room->err.remedy, "--lang"));
    assert_non_null(strstr(room->err.remedy, "python"));
    assert_non_null(strstr(room->err.remedy, "java"));
    set_str(room, COTO_OPT_LANG, "cobol");
    assert_refused(room, &code, COTO_ERR_USAGE, "--lang: 'cobol' is not a known language");
    set_str(room, COTO_OPT_LANG, "");
    code = (struct coto_source_code){.text = "x", .text_len = 1};
    assert_refused(room, &code, COTO_ERR_USAGE, "code: its first line");
    code = (struct coto_source_code){.text = "#!/bin/sh\n", .text_len = 10};
    assert_made(room, &code);
    assert_string_equal(room->plan.files[0].target, "/workspace/main.sh");
}

static void test_unreadable_code(void **state)
{
    struct room *room = *state;
    struct coto_source_code code = {.file = in_room(room, "none.py")};

    assert_refused(room, &code, COTO_ERR_INPUT, "none.py': No such file");
    mkdir(in_room(room, "dir.py"), 0700);
    code.file = in_room(room, "dir.py");
    assert_refused(room, &code, COTO_ERR_INPUT, "it is a directory");
    mkfifo(in_room(room, "fifo.py"), 0600);
    code.file = in_room(room, "fifo.py");
    assert_refused(room, &code, COTO_ERR_INPUT, "it is a FIFO");
    code.file = "/dev/null";
    assert_refused(room, &code, COTO_ERR_INPUT, "it is a device");
    code.file = put(room, "big.py", "", 0);
    assert_int_equal(truncate(code.file, (off_t)65 << 20), 0);
    assert_refused(room, &code, COTO_ERR_INPUT, "code may be 64 MiB at most");
}

static void test_missing_tool_names_its_package(void **state)
{
    struct room *room = *state;
    struct coto_source_code code = {.text = "x", .text_len = 1};

    mkdir(in_room(room, "root"), 0755);
    set_str(room, COTO_OPT_ROOTFS, in_room(room, "root"));
    set_str(room, COTO_OPT_LANG, "lua");
    assert_refused(room, &code, COTO_ERR_TOOL, "lua: 'lua' is not in the sandbox");
    assert_non_null(strstr(room->err.remedy, "apt install lua5.4"));
    mkdir(in_room(room, "root/usr"), 0755);
    mkdir(in_room(room, "root/usr/bin"), 0755);
    put(room, "root/usr/bin/lua", "", 0);
    assert_made(room, &code);
}

/* ---- environment ---- */

static void test_environment(void **state)
{
    struct room *room = *state;
    struct coto_source_code code = {.text = "package main", .text_len = 12};

    setenv("COTO_TEST_SECRET", "s3cret", 1);
    add_item(room, COTO_OPT_ENV, "A=1");
    add_item(room, COTO_OPT_ENV, "HOME=/elsewhere");
    add_item(room, COTO_OPT_ENV, "A=2=3");
    add_item(room, COTO_OPT_ENV, "GOPROXY=direct");
    set_str(room, COTO_OPT_LANG, "go");
    assert_made(room, &code);
    assert_string_equal(env_of(&room->plan, "PATH"),
                        "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin");
    assert_string_equal(env_of(&room->plan, "HOME"), "/elsewhere");
    assert_string_equal(env_of(&room->plan, "USER"), "sandbox");
    assert_string_equal(env_of(&room->plan, "LOGNAME"), "sandbox");
    assert_string_equal(env_of(&room->plan, "SHELL"), "/bin/sh");
    assert_string_equal(env_of(&room->plan, "LANG"), "C.UTF-8");
    assert_string_equal(env_of(&room->plan, "TMPDIR"), "/tmp");
    assert_string_equal(env_of(&room->plan, "COTO_OUTPUT"), "/workspace/output");
    assert_string_equal(env_of(&room->plan, "A"), "2=3");
    assert_string_equal(env_of(&room->plan, "GOPROXY"), "direct");
    assert_string_equal(env_of(&room->plan, "GOCACHE"), "/workspace/.cache/go-build");
    assert_null(env_of(&room->plan, "COTO_TEST_SECRET"));
    assert_int_equal(room->plan.env.count, 15);
}

static void test_environment_has_limits(void **state)
{
    struct room *room = *state;
    char *big = malloc(140000);

    memset(big, 'x', 139999);
    memcpy(big, "BIG=", 4);
    big[139999] = '\0';
    coto_strv_add(&room->policy.v[COTO_OPT_ENV].list, big);
    assert_refused(room, &run_true, COTO_ERR_POLICY, "--env: the value of 'BIG' is over 128 KiB");
    coto_strv_fini(&room->policy.v[COTO_OPT_ENV].list);
    big[120000] = '\0';
    coto_strv_add(&room->policy.v[COTO_OPT_ENV].list, big);
    assert_made(room, &run_true);
    big[0] = 'A';
    coto_strv_add(&room->policy.v[COTO_OPT_ENV].list, big);
    assert_refused(room, &run_true, COTO_ERR_USAGE, "arguments and environment: together over 192 KiB");
    free(big);
    coto_strv_fini(&room->policy.v[COTO_OPT_ENV].list);
    add_item(room, COTO_OPT_ENV, "=x");
    assert_refused(room, &run_true, COTO_ERR_POLICY, "--env: '=x' is not KEY=VALUE");
}

/* ---- numbers ---- */

static void test_user(void **state)
{
    static const char *const bad[] = {"0",    "0:1", "1:0",        "+1",  "0x1", "-1",
                                      "root", "1:",  "4294967295", "1 ",  ":1",  "",
                                      "1:1:1", "99999999999999999999"};
    struct room *room = *state;

    set_str(room, COTO_OPT_USER, "9999");
    assert_made(room, &run_true);
    assert_int_equal(room->plan.uid, 9999);
    assert_int_equal(room->plan.gid, 9999);
    set_str(room, COTO_OPT_USER, "1001:1002");
    assert_made(room, &run_true);
    assert_int_equal(room->plan.gid, 1002);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        set_str(room, COTO_OPT_USER, bad[i]);
        assert_refused(room, &run_true, COTO_ERR_POLICY, "is not UID[:GID]");
    }
}

static void test_capabilities(void **state)
{
    struct room *room = *state;

    assert_made(room, &run_true);
    assert_int_equal(room->plan.caps, 0);
    add_item(room, COTO_OPT_CAP_ADD, "chown");
    add_item(room, COTO_OPT_CAP_ADD, "FOWNER");
    add_item(room, COTO_OPT_CAP_ADD, "CAP_SETGID");
    add_item(room, COTO_OPT_CAP_ADD, "setuid");
    assert_made(room, &run_true);
    assert_int_equal(room->plan.caps, 0xc9);
    add_item(room, COTO_OPT_CAP_ADD, "sys_admin");
    assert_refused(room, &run_true, COTO_ERR_POLICY, "'sys_admin' cannot be added back");
}

static coto_wallset core(void)
{
    coto_wallset set = 0;

    for (int i = 0; i < COTO_WALL_COUNT; i++)
        if (coto_walls[i].class == COTO_WALL_CORE)
            set |= (coto_wallset)1 << i;
    return set;
}

static void test_walls(void **state)
{
    struct room *room = *state;
    const struct coto_plan *plan = &room->plan;

    assert_made(room, &run_true);
    coto_wallset usual = core() | COTO_WALL_BIT(UNIQUE_UID) | COTO_WALL_BIT(TIMEOUT) |
                         COTO_WALL_BIT(MEMORY) | COTO_WALL_BIT(SWAP) | COTO_WALL_BIT(CPU) |
                         COTO_WALL_BIT(PIDS) | COTO_WALL_BIT(DISK) | COTO_WALL_BIT(INODES) |
                         COTO_WALL_BIT(NOFILE);
    assert_true(plan->want == usual);
    assert_true(plan->need == core());
    add_item(room, COTO_OPT_ALLOW_MISSING, "landlock");
    add_item(room, COTO_OPT_REQUIRE, "memory");
    room->policy.v[COTO_OPT_OUTPUT_LIMIT].num = 10240;
    assert_made(room, &run_true);
    assert_true(plan->need == ((core() & ~COTO_WALL_BIT(LANDLOCK)) | COTO_WALL_BIT(MEMORY)));
    assert_true(plan->want == (usual | COTO_WALL_BIT(OUTPUT)));
    room->policy.v[COTO_OPT_MEMORY].num = COTO_UNIT_NONE;
    assert_refused(room, &run_true, COTO_ERR_POLICY, "'memory' is required but the policy sets no");
    coto_strv_fini(&room->policy.v[COTO_OPT_REQUIRE].list);
    coto_strv_fini(&room->policy.v[COTO_OPT_ALLOW_MISSING].list);
    add_item(room, COTO_OPT_REQUIRE, "all");
    assert_made(room, &run_true);
    assert_true(plan->need == plan->want);
    assert_false(plan->want & (COTO_WALL_BIT(MEMORY) | COTO_WALL_BIT(SWAP)));
    add_item(room, COTO_OPT_REQUIRE, "moat");
    assert_refused(room, &run_true, COTO_ERR_POLICY, "--require: 'moat' is not a wall");
}

static void test_walls_of_subprocess(void **state)
{
    struct room *room = *state;
    const struct coto_plan *plan = &room->plan;

    room->policy.v[COTO_OPT_ISOLATION].num = COTO_ISOLATION_SUBPROCESS;
    room->policy.v[COTO_OPT_OUTPUT_LIMIT].num = 10240;
    assert_made(room, &run_true);
    /* Wanted, so that the result can name them as missing; none is a reason to refuse. */
    coto_wallset limits = COTO_WALL_BIT(TIMEOUT) | COTO_WALL_BIT(OUTPUT) | COTO_WALL_BIT(MEMORY);
    assert_true((plan->want & (core() | limits)) == (core() | limits));
    assert_true(plan->need == 0);
    assert_true(coto_str_has_prefix(plan->workdir, "/tmp/coto-"));
    assert_string_equal(env_of(plan, "TMPDIR"), plan->workdir);
    /* "all" must not shrink to what this level has. */
    add_item(room, COTO_OPT_REQUIRE, "all");
    assert_made(room, &run_true);
    assert_true((plan->need & core()) == core());
    add_item(room, COTO_OPT_MOUNT, "%s:/data", room->path);
    assert_refused(room, &run_true, COTO_ERR_UNAVAILABLE, "has no file system of its own");
}

static void test_subprocess_builds_in_its_own_directory(void **state)
{
    struct room *room = *state;
    struct coto_source_code code = {.text = "int main(void){}", .text_len = 16};

    set_str(room, COTO_OPT_LANG, "c");
    room->policy.v[COTO_OPT_ISOLATION].num = COTO_ISOLATION_SUBPROCESS;
    room->policy.v[COTO_OPT_WRITABLE].num = COTO_WRITABLE_OUTPUT;
    assert_made(room, &code);
    assert_true(coto_str_has_prefix(room->plan.stages[1].argv.items[0], room->plan.workdir));
}

static void test_limits_are_copied(void **state)
{
    struct room *room = *state;
    const struct coto_plan *plan = &room->plan;

    room->policy.v[COTO_OPT_ON_OUTPUT_LIMIT].num = COTO_OUTPUT_KILL;
    room->policy.v[COTO_OPT_WRITABLE].num = COTO_WRITABLE_OUTPUT;
    assert_made(room, &run_true);
    assert_int_equal(plan->timeout_ms, 30000);
    assert_true(plan->cpu_time_ms == COTO_UNIT_NONE);
    assert_int_equal(plan->memory_bytes, 512 * COTO_MB);
    assert_int_equal(plan->swap_bytes, 0);
    assert_int_equal(plan->cpus_milli, 2000);
    assert_int_equal(plan->pids, 128);
    assert_int_equal(plan->disk_bytes, 256 * COTO_MB);
    assert_int_equal(plan->tmp_bytes, 64 * COTO_MB);
    assert_int_equal(plan->inodes, 65536);
    assert_int_equal(plan->nofile, 1024);
    assert_true(plan->iops == COTO_UNIT_NONE);
    assert_true(plan->output_kill);
    assert_true(plan->writable_output_only);
    assert_false(plan->want_artifacts);
    assert_string_equal(plan->profile, "default");
    assert_int_equal(strlen(plan->policy_hash), 64);
}

/* ---- printing ---- */

static void test_json_shows_all_but_secrets(void **state)
{
    static const char *const wanted[] = {
        "\"stages\":",          "\"argv\":",       "\"python3\"",         "\"TOKEN\"",
        "\"timeout_ms\":30000", "\"iops\":null",   "\"walls_wanted\":",   "\"walls_needed\":",
        "\"mounts\":",          "\"copies\":",     "\"isolation\":\"process\"",
        "\"bytes\":12",         "\"mode\":\"0644\"", "\"seccomp\":\"default\"",
    };
    struct room *room = *state;
    coto_auto_buf out = {0};
    struct coto_json json = {.out = &out};
    struct coto_source_code code = {.text = "secret_code\n", .text_len = 12};

    add_item(room, COTO_OPT_ENV, "TOKEN=s3cret");
    add_item(room, COTO_OPT_MOUNT, "%s:/data", room->path);
    set_str(room, COTO_OPT_LANG, "python");
    assert_made(room, &code);
    coto_plan_json(&room->plan, &json);
    for (size_t i = 0; i < sizeof wanted / sizeof wanted[0]; i++)
        if (!strstr(coto_buf_str(&out), wanted[i]))
            fail_msg("no %s in %s", wanted[i], coto_buf_str(&out));
    assert_null(strstr(coto_buf_str(&out), "s3cret"));
    assert_null(strstr(coto_buf_str(&out), "secret_code"));
    assert_non_null(strstr(coto_buf_str(&out), room->plan.code_hash));
}

static void test_nothing_leaks_on_failure(void **state)
{
    struct room *room = *state;
    struct coto_source_code code = {.file = put(room, "a.xyz", "?", 1)};

    mkdir(in_room(room, "dir"), 0755);
    add_item(room, COTO_OPT_MOUNT, "%s/dir:/data", room->path);
    add_item(room, COTO_OPT_COPY, "%s/a.xyz", room->path);
    int before = dup(0);
    close(before);
    for (int i = 0; i < 20; i++)
        assert_refused(room, &code, COTO_ERR_USAGE, "tells the language");
    int after = dup(0);
    close(after);
    assert_int_equal(before, after);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(test_id_is_a_random_uuid),
        T(test_command),
        T(test_arguments_have_a_limit),
        T(test_file_becomes_a_plan_file),
        T(test_text_and_two_stages),
        T(test_extension_is_made_to_fit),
        T(test_elf_runs_directly),
        T(test_hostile_file_names),
        T(test_language_must_be_known),
        T(test_unreadable_code),
        T(test_missing_tool_names_its_package),
        T(test_environment),
        T(test_environment_has_limits),
        T(test_user),
        T(test_capabilities),
        T(test_walls),
        T(test_walls_of_subprocess),
        T(test_subprocess_builds_in_its_own_directory),
        T(test_limits_are_copied),
        T(test_json_shows_all_but_secrets),
        T(test_nothing_leaks_on_failure),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
