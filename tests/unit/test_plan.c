#include "base/fd.h"
#include "base/units.h"
#include "policy/plan.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <cmocka.h>

/* A directory and a policy for each test. Values are put into the policy
 * directly: the plan must not rely on somebody else having checked them. */
struct room {
    char path[64];
    struct coto_policy policy;
    struct coto_plan plan;
    struct coto_err err;
};

static int enter(void **state)
{
    struct room *room = calloc(1, sizeof *room);

    snprintf(room->path, sizeof room->path, "/tmp/coto-test-plan-XXXXXX");
    if (!mkdtemp(room->path))
        return -1;
    room->plan.rootfs.fd = -1;
    *state = room;
    return coto_policy_init(&room->policy, &room->err);
}

static int leave(void **state)
{
    struct room *room = *state;
    int tmp = open("/tmp", O_PATH | O_DIRECTORY | O_CLOEXEC);
    int failed = coto_path_remove_tree(tmp, room->path + strlen("/tmp/"));

    close(tmp);
    coto_plan_fini(&room->plan);
    coto_plan_fini(&room->plan);
    coto_policy_fini(&room->policy);
    free(room);
    return failed;
}

static void set_str(struct room *room, enum coto_opt opt, const char *text)
{
    free(room->policy.v[opt].str);
    room->policy.v[opt].str = strdup(text);
}

static void add_item(struct room *room, enum coto_opt opt, const char *fmt, ...)
{
    char item[8192];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(item, sizeof item, fmt, ap);
    va_end(ap);
    coto_strv_add(&room->policy.v[opt].list, item);
}

static const char *put(struct room *room, const char *name, const char *data, size_t len)
{
    static char path[512];

    snprintf(path, sizeof path, "%s/%s", room->path, name);
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    assert_true(fd >= 0);
    assert_int_equal(coto_fd_write_all(fd, data, len), 0);
    close(fd);
    return path;
}

static const char *in_room(struct room *room, const char *name)
{
    static char path[512];

    snprintf(path, sizeof path, "%s/%s", room->path, name);
    return path;
}

static const char *const true_argv[] = {"/bin/true", NULL};
static const struct coto_source_code run_true = {.argv = true_argv, .is_command = true};

static int make(struct room *room, const struct coto_source_code *code)
{
    coto_plan_fini(&room->plan);
    memset(&room->err, 0, sizeof room->err);
    return coto_plan_make(&room->policy, code, &room->plan, &room->err);
}

static void assert_made(struct room *room, const struct coto_source_code *code)
{
    if (make(room, code))
        fail_msg("%s (%s)", room->err.text, room->err.remedy);
}

/* Refused with this kind, this text, and a remedy. */
static void assert_refused(struct room *room, const struct coto_source_code *code, int kind,
                           const char *text)
{
    assert_int_equal(make(room, code), -1);
    if (!strstr(room->err.text, text))
        fail_msg("'%s' does not hold '%s'", room->err.text, text);
    assert_int_equal(room->err.kind, kind);
    assert_true(room->err.remedy[0] != '\0');
    assert_int_equal(room->plan.stage_count, 0);
}

static const char *env_of(const struct coto_plan *plan, const char *key)
{
    const char *found = NULL;

    for (size_t i = 0; i < plan->env.count; i++) {
        if (!coto_str_has_prefix(plan->env.items[i], key) ||
            plan->env.items[i][strlen(key)] != '=')
            continue;
        assert_null(found); /* no key twice */
        found = plan->env.items[i] + strlen(key) + 1;
    }
    return found;
}

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
    const char *argv[] = {"x", big, NULL};
    struct coto_source_code code = {.argv = argv, .is_command = true};

    memset(big, 'a', 199999);
    big[199999] = '\0';
    assert_refused(room, &code, COTO_ERR_USAGE, "arguments: one is over 128 KiB");
    big[100000] = '\0';
    assert_made(room, &code);
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
    for (int i = 0; i < 9; i++) {
        big[0] = (char)('A' + i);
        coto_strv_add(&room->policy.v[COTO_OPT_ENV].list, big);
    }
    assert_refused(room, &run_true, COTO_ERR_POLICY, "--env: all variables together are");
    free(big);
    coto_strv_fini(&room->policy.v[COTO_OPT_ENV].list);
    add_item(room, COTO_OPT_ENV, "=x");
    assert_refused(room, &run_true, COTO_ERR_POLICY, "--env: '=x' is not KEY=VALUE");
}

/* ---- copies ---- */

static void test_copies(void **state)
{
    struct room *room = *state;

    put(room, "data.txt", "1", 1);
    put(room, "a:b", "1", 1);
    mkdir(in_room(room, "dir"), 0755);
    add_item(room, COTO_OPT_TMPFS, "/cache:64k");
    add_item(room, COTO_OPT_COPY, "%s/data.txt", room->path);
    add_item(room, COTO_OPT_COPY, "%s/data.txt:sub/./x.txt", room->path);
    add_item(room, COTO_OPT_COPY, "%s/data.txt:sub/", room->path);
    add_item(room, COTO_OPT_COPY, "%s/a:b:ab", room->path);
    add_item(room, COTO_OPT_COPY, "%s/dir/:.", room->path);
    add_item(room, COTO_OPT_COPY, "%s/dir:/tmp/dir/", room->path);
    add_item(room, COTO_OPT_COPY, "%s/dir:/cache/d", room->path);
    assert_made(room, &run_true);
    static const char *const targets[] = {
        "/workspace/data.txt", "/workspace/sub/x.txt", "/workspace/sub/data.txt", "/workspace/ab",
        "/workspace",          "/tmp/dir",             "/cache/d"};
    assert_int_equal(room->plan.copy_count, 7);
    for (size_t i = 0; i < 7; i++)
        assert_string_equal(room->plan.copies[i].target, targets[i]);
    char byte;
    assert_int_equal(read(room->plan.copies[0].fd, &byte, 1), 1);
    assert_string_equal(room->plan.copies[0].source, in_room(room, "data.txt"));
    assert_true(S_ISDIR(room->plan.copies[4].mode));
}

static void refuse_copy(struct room *room, int kind, const char *spec, const char *text)
{
    coto_strv_fini(&room->policy.v[COTO_OPT_COPY].list);
    add_item(room, COTO_OPT_COPY, "%s/%s", room->path, spec);
    assert_refused(room, &run_true, kind, text);
}

static void test_copies_refused(void **state)
{
    struct room *room = *state;

    put(room, "f", "1", 1);
    mkdir(in_room(room, "dir"), 0755);
    mkfifo(in_room(room, "fifo"), 0600);
    assert_int_equal(symlink("/etc", in_room(room, "link")), 0);
    refuse_copy(room, COTO_ERR_INPUT, "none", "none': No such file");
    refuse_copy(room, COTO_ERR_INPUT, "link", "is a symbolic link");
    refuse_copy(room, COTO_ERR_INPUT, "link/", "is a symbolic link");
    refuse_copy(room, COTO_ERR_INPUT, "link/:x", "is a symbolic link");
    refuse_copy(room, COTO_ERR_INPUT, "fifo", "is neither a file nor a directory");
    refuse_copy(room, COTO_ERR_POLICY, "f:", "is not SRC:DST");
    refuse_copy(room, COTO_ERR_POLICY, "f:../x", "goes up with '..'");
    refuse_copy(room, COTO_ERR_POLICY, "f:/workspace/../etc/x", "goes up with '..'");
    refuse_copy(room, COTO_ERR_POLICY, "f:/workspacex", "is not in the workspace");
    assert_non_null(strstr(room->err.remedy, "--mount"));
    refuse_copy(room, COTO_ERR_POLICY, "f:/usr/bin/x", "is not in the workspace");
    refuse_copy(room, COTO_ERR_POLICY, "f:.", "a file cannot take the workspace's place");
    room->policy.v[COTO_OPT_ISOLATION].num = COTO_ISOLATION_SUBPROCESS;
    refuse_copy(room, COTO_ERR_POLICY, "f:/tmp/x", "is not in the workspace");
}

/* ---- mounts ---- */

static void test_ordinary_mounts_are_accepted(void **state)
{
    struct room *room = *state;

    mkdir(in_room(room, "data"), 0755);
    put(room, "file", "1", 1);
    add_item(room, COTO_OPT_MOUNT, "%s/data:/data", room->path);
    add_item(room, COTO_OPT_MOUNT, "%s/data:/data2/x/:rw", room->path);
    add_item(room, COTO_OPT_MOUNT, "%s/file:/workspace/file:ro", room->path);
    add_item(room, COTO_OPT_MOUNT, "/usr/share:/share");
    assert_made(room, &run_true);
    assert_int_equal(room->plan.mount_count, 4);
    const struct coto_plan_path *mount = room->plan.mounts;
    assert_string_equal(mount[0].source, in_room(room, "data"));
    assert_string_equal(mount[0].target, "/data");
    assert_false(mount[0].writable);
    assert_string_equal(mount[1].target, "/data2/x");
    assert_true(mount[1].writable);
    assert_false(mount[2].writable);
    assert_int_equal(fcntl(mount[0].fd, F_GETFL) & O_PATH, O_PATH);
    assert_int_equal(fcntl(mount[0].fd, F_GETFD), FD_CLOEXEC);
    struct stat st;
    assert_int_equal(fstat(mount[0].fd, &st), 0);
    assert_true(st.st_dev == mount[0].dev && st.st_ino == mount[0].ino);
}

static void refuse_source(struct room *room, const char *source, bool writable, const char *text)
{
    struct coto_plan_path path = {.fd = -7};

    memset(&room->err, 0, sizeof room->err);
    if (coto_plan_open_mount(source, writable, &path, &room->err) == 0)
        fail_msg("mount of %s was accepted", source);
    if (!strstr(room->err.text, text))
        fail_msg("'%s' does not hold '%s'", room->err.text, text);
    assert_int_equal(room->err.kind, COTO_ERR_FORBIDDEN);
    assert_non_null(strstr(room->err.remedy, "--copy"));
    assert_int_equal(path.fd, -7);
}

static void test_sensitive_places_are_refused(void **state)
{
    static const char *const rows[][2] = {
        {"/", "--mount: '/' is refused: it is the whole host"},
        {"/etc", "'/etc' is refused: it holds the host's configuration and password files"},
        {"/etc/passwd", "'/etc/passwd' is refused: it holds the host's configuration"},
        {"/etc/../etc/.", "'/etc' is refused"},
        {"/proc", "'/proc' is refused: it shows the host's processes"},
        {"/proc/sys/kernel", "'/proc/sys/kernel' is refused"},
        {"/proc/self/root/etc", "'/etc' is refused"},
        {"/proc/self/root", "'/' is refused"},
        {"/sys", "'/sys' is refused: it controls the host's kernel"},
        {"/dev", "'/dev' is refused: it holds the host's devices"},
        {"/dev/null", "'/dev/null' is refused"},
        {"/run", "'/run' is refused: it holds the sockets and secrets"},
        {"/var/run", "run' is refused: it holds the sockets and secrets"},
        {"/var", "'/var' is refused: it holds the host's state and logs"},
        {"/home", "'/home' is refused: it holds the home directories of all users"},
        {"/boot", "'/boot' is refused: it holds the host's kernel and boot loader"},
        {"/var/log", "'/var/log' is refused: it holds the host's logs"},
    };
    struct room *room = *state;

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (access(rows[i][0], F_OK) == 0)
            refuse_source(room, rows[i][0], false, rows[i][1]);
    if (geteuid() == 0) {
        refuse_source(room, "/root", false, "'/root' is refused: it is the home directory of root");
    }
    refuse_source(room, "/usr", true, "'/usr' is refused: it holds the host's programs");
    refuse_source(room, "/usr/share", true, "'/usr/share' is refused");
}

static void test_links_change_nothing(void **state)
{
    struct room *room = *state;

    assert_int_equal(symlink("/etc", in_room(room, "link")), 0);
    refuse_source(room, in_room(room, "link"), false, "'/etc' is refused: it holds");
    assert_non_null(strstr(room->err.text, "/link' leads there)"));
    refuse_source(room, in_room(room, "link/"), false, "'/etc' is refused");
    refuse_source(room, in_room(room, "link/passwd"), false, "'/etc/passwd' is refused");
    assert_int_equal(symlink("/", in_room(room, "up")), 0);
    refuse_source(room, in_room(room, "up/proc/self/cwd/../../../../.."), false, "'/' is refused");
}

static void test_private_names_are_refused(void **state)
{
    static const char *const names[] = {".ssh", ".aws", ".gnupg", ".kube", ".docker", ".coto"};
    struct room *room = *state;

    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        char home[128], deep[160], want[64];
        snprintf(home, sizeof home, "%s/home%zu", room->path, i);
        snprintf(deep, sizeof deep, "%s/%s", home, names[i]);
        mkdir(home, 0700);
        struct coto_plan_path path;
        assert_int_equal(coto_plan_open_mount(home, false, &path, &room->err), 0);
        close(path.fd);
        free(path.source);
        mkdir(deep, 0700);
        snprintf(want, sizeof want, "'%s' holds", names[i]);
        refuse_source(room, deep, false, want);
        snprintf(want, sizeof want, "it contains '%s', which holds", names[i]);
        refuse_source(room, home, false, want);
        strcat(deep, "/sub");
        mkdir(deep, 0700);
        refuse_source(room, deep, false, names[i]);
    }
    /* A name of several: what holds the rest of it is refused too. */
    mkdir(in_room(room, ".local"), 0700);
    mkdir(in_room(room, ".local/state"), 0700);
    mkdir(in_room(room, ".local/state/coto"), 0700);
    refuse_source(room, room->path, false, "it contains '.local/state/coto', which holds coto's own");
    refuse_source(room, in_room(room, ".local"), false, "it contains 'state/coto', which holds");
    refuse_source(room, in_room(room, ".local/state"), false, "it contains 'coto', which holds");
    refuse_source(room, in_room(room, ".local/state/coto"), false, "'.local/state/coto' holds");
    /* Only whole names count. */
    mkdir(in_room(room, "coto"), 0700);
    mkdir(in_room(room, "coto/coto"), 0700);
    add_item(room, COTO_OPT_MOUNT, "%s/coto:/c", room->path);
    mkdir(in_room(room, "x.ssh"), 0700);
    add_item(room, COTO_OPT_MOUNT, "%s/x.ssh:/x", room->path);
    assert_made(room, &run_true);
}

static void test_sockets_and_specials_are_refused(void **state)
{
    struct room *room = *state;
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    snprintf(address.sun_path, sizeof address.sun_path, "%s/x.sock", room->path);
    assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof address), 0);
    close(fd);
    refuse_source(room, address.sun_path, false, "it is a socket of a program on the host");
    mkfifo(in_room(room, "fifo"), 0600);
    refuse_source(room, in_room(room, "fifo"), false, "it is a FIFO");
    mkdir(in_room(room, "engine"), 0755);
    put(room, "engine/docker.sock", "", 0);
    refuse_source(room, in_room(room, "engine"), false, "it contains 'docker.sock'");
    refuse_source(room, in_room(room, "engine/docker.sock"), false, "owns the host");
    mkdir(in_room(room, "run"), 0755);
    mkdir(in_room(room, "run/containerd"), 0755);
    put(room, "run/containerd/containerd.sock", "", 0);
    refuse_source(room, in_room(room, "run"), false, "it contains 'containerd/containerd.sock'");
    char own[32];
    snprintf(own, sizeof own, "coto-%u", (unsigned)getuid());
    mkdir(in_room(room, own), 0755);
    strcat(own, "/api.sock");
    put(room, own, "", 0);
    refuse_source(room, room->path, false, "/api.sock', and who can talk");
    refuse_source(room, in_room(room, own), false, "owns the host");
    *strrchr(own, '/') = '\0';
    refuse_source(room, in_room(room, own), false, "it contains 'api.sock'");
}

static void test_own_program_is_never_writable(void **state)
{
    struct room *room = *state;
    char exe[4096];
    struct coto_plan_path path;

    ssize_t n = readlink("/proc/self/exe", exe, sizeof exe - 1);
    assert_true(n > 0);
    exe[n] = '\0';
    *strrchr(exe, '/') = '\0';
    refuse_source(room, exe, true, "it holds coto itself");
    /* Read-only is fine. */
    assert_int_equal(coto_plan_open_mount(exe, false, &path, &room->err), 0);
    close(path.fd);
    free(path.source);
}

static void refuse_mount(struct room *room, int kind, const char *target, const char *text)
{
    coto_strv_fini(&room->policy.v[COTO_OPT_MOUNT].list);
    add_item(room, COTO_OPT_MOUNT, "%s:%s", room->path, target);
    assert_refused(room, &run_true, kind, text);
}

static void test_mount_targets(void **state)
{
    static const char *const taken[] = {"/proc", "/dev/shm", "/sys", "/etc",   "/usr/lib",
                                        "/bin",  "/sbin",    "/lib", "/lib64", "/etc/passwd"};
    struct room *room = *state;

    for (size_t i = 0; i < sizeof taken / sizeof taken[0]; i++)
        refuse_mount(room, COTO_ERR_POLICY, taken[i], "would hide the sandbox's own");
    refuse_mount(room, COTO_ERR_POLICY, "/", "is the root of the sandbox");
    refuse_mount(room, COTO_ERR_POLICY, "data", "is not an absolute path");
    refuse_mount(room, COTO_ERR_POLICY, "/a/../b", "goes up with '..'");
    refuse_mount(room, COTO_ERR_POLICY, "/workspace", "would hide the workspace");
    refuse_mount(room, COTO_ERR_POLICY, "/data:rx", "is not an absolute path");
    refuse_mount(room, COTO_ERR_POLICY, "", "is not SRC:DST");
    set_str(room, COTO_OPT_WORKDIR, "/srv/a/b");
    refuse_mount(room, COTO_ERR_POLICY, "/srv/a", "would hide the workspace");
    coto_strv_fini(&room->policy.v[COTO_OPT_MOUNT].list);
    add_item(room, COTO_OPT_MOUNT, "%s:/data", room->path);
    add_item(room, COTO_OPT_MOUNT, "%s:/data/", room->path);
    assert_refused(room, &run_true, COTO_ERR_POLICY, "is already the place of a --mount");
    coto_strv_fini(&room->policy.v[COTO_OPT_MOUNT].list);
    add_item(room, COTO_OPT_MOUNT, "%s/none:/data", room->path);
    assert_refused(room, &run_true, COTO_ERR_INPUT, "none': No such file");
}

static void assert_mount(const struct room *room, size_t i, const char *target, bool writable)
{
    const struct coto_plan_path *mount = &room->plan.mounts[i];
    struct stat st;

    assert_true(i < room->plan.mount_count);
    assert_string_equal(mount->target, target);
    assert_int_equal(mount->writable, writable);
    assert_int_equal(fstat(mount->fd, &st), 0);
    assert_true(st.st_dev == mount->dev && st.st_ino == mount->ino && st.st_mode == mount->mode);
}

/* Whatever the order they were given in: what lies inside another is mounted after it, and
 * the directories between the two cannot be moved. */
static void test_mounts_in_mounts(void **state)
{
    struct room *room = *state;

    mkdir(in_room(room, "p"), 0755);
    mkdir(in_room(room, "p/sub"), 0755);
    mkdir(in_room(room, "p/sub/deep"), 0755);
    add_item(room, COTO_OPT_MOUNT, "%s/p:/p/sub/deep/a", room->path);
    add_item(room, COTO_OPT_MOUNT, "%s/p:/p/sub/deep/b", room->path);
    add_item(room, COTO_OPT_MOUNT, "%s/p:/p/.git", room->path);
    add_item(room, COTO_OPT_MOUNT, "%s/p:/p:rw", room->path);
    assert_made(room, &run_true);
    assert_int_equal(room->plan.mount_count, 6);
    assert_mount(room, 0, "/p", true);
    assert_mount(room, 1, "/p/.git", false);
    assert_mount(room, 2, "/p/sub", true);
    assert_mount(room, 3, "/p/sub/deep", true);
    assert_mount(room, 4, "/p/sub/deep/a", false);
    assert_mount(room, 5, "/p/sub/deep/b", false);
    assert_string_equal(room->plan.mounts[3].source, in_room(room, "p/sub/deep"));
}

/* In a mount that cannot be written nothing can be moved either. */
static void test_mounts_in_read_only_mounts(void **state)
{
    struct room *room = *state;

    mkdir(in_room(room, "p"), 0755);
    mkdir(in_room(room, "p/sub"), 0755);
    add_item(room, COTO_OPT_MOUNT, "%s/p:/p/sub/x:rw", room->path);
    add_item(room, COTO_OPT_MOUNT, "%s/p:/p", room->path);
    assert_made(room, &run_true);
    assert_int_equal(room->plan.mount_count, 2);
    assert_mount(room, 0, "/p", false);
    assert_mount(room, 1, "/p/sub/x", true);
}

static void test_mounts_in_mounts_refused(void **state)
{
    static const struct {
        const char *target;
        int kind;
        const char *text;
    } rows[] = {
        {"/p/link/x", COTO_ERR_FORBIDDEN, "'/p/link' is a symbolic link in"},
        {"/p/link", COTO_ERR_FORBIDDEN, "'/p/link' is a symbolic link in"},
        {"/p/sub/up/x/y", COTO_ERR_FORBIDDEN, "'/p/sub/up' is a symbolic link in"},
        {"/p/none/x", COTO_ERR_POLICY, "there is no '/p/none' in"},
        {"/p/file/x", COTO_ERR_POLICY, "there is no '/p/file/x' in"},
    };
    struct room *room = *state;

    mkdir(in_room(room, "p"), 0755);
    mkdir(in_room(room, "p/sub"), 0755);
    put(room, "p/file", "", 0);
    assert_int_equal(symlink("/tmp", in_room(room, "p/link")), 0);
    assert_int_equal(symlink("..", in_room(room, "p/sub/up")), 0);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        coto_strv_fini(&room->policy.v[COTO_OPT_MOUNT].list);
        add_item(room, COTO_OPT_MOUNT, "%s/p:/p:rw", room->path);
        add_item(room, COTO_OPT_MOUNT, "%s/p:%s", room->path, rows[i].target);
        assert_refused(room, &run_true, rows[i].kind, rows[i].text);
    }
    coto_strv_fini(&room->policy.v[COTO_OPT_MOUNT].list);
    add_item(room, COTO_OPT_MOUNT, "%s/p:/p:rw", room->path);
    add_item(room, COTO_OPT_TMPFS, "/p/cache");
    assert_refused(room, &run_true, COTO_ERR_POLICY, "would be hidden by the --mount at '/p'");
}

/* ---- tmpfs, rootfs, workdir ---- */

static void test_tmpfs(void **state)
{
    struct room *room = *state;

    add_item(room, COTO_OPT_TMPFS, "/var/tmp");
    add_item(room, COTO_OPT_TMPFS, "/run:16m");
    assert_made(room, &run_true);
    assert_int_equal(room->plan.tmpfs_count, 2);
    assert_string_equal(room->plan.tmpfs[0].target, "/var/tmp");
    assert_int_equal(room->plan.tmpfs[0].size, 64 * COTO_MB);
    assert_int_equal(room->plan.tmpfs[1].size, 16 * COTO_MB);
    add_item(room, COTO_OPT_MOUNT, "%s:/run", room->path);
    assert_refused(room, &run_true, COTO_ERR_POLICY, "is already the place of a --tmpfs");
    coto_strv_fini(&room->policy.v[COTO_OPT_MOUNT].list);
    static const char *const rows[][2] = {
        {"/x:none", "is not a size of at least 4k"}, {"/x:big", "is not a size of at least 4k"},
        {"/x:", "is not a size"},                    {"x", "is not an absolute path"},
        {"/tmp", "'/tmp' is there already"},         {"/workspace", "would hide the workspace"},
        {"/run", "is already the place of a"},       {"/etc/x", "would hide the sandbox's own"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        coto_strv_fini(&room->policy.v[COTO_OPT_TMPFS].list);
        add_item(room, COTO_OPT_TMPFS, "/run");
        add_item(room, COTO_OPT_TMPFS, "%s", rows[i][0]);
        assert_refused(room, &run_true, COTO_ERR_POLICY, rows[i][1]);
    }
}

static void test_rootfs(void **state)
{
    static const char *const links[] = {"dev", "proc", "sys", "tmp", "etc", "workspace"};
    struct room *room = *state;

    set_str(room, COTO_OPT_ROOTFS, "/");
    assert_refused(room, &run_true, COTO_ERR_FORBIDDEN, "--rootfs: '/' is refused");
    assert_non_null(strstr(room->err.remedy, "leave --rootfs out"));
    set_str(room, COTO_OPT_ROOTFS, "/etc");
    assert_refused(room, &run_true, COTO_ERR_FORBIDDEN, "--rootfs: '/etc' is refused");
    set_str(room, COTO_OPT_ROOTFS, put(room, "file", "", 0));
    assert_refused(room, &run_true, COTO_ERR_INPUT, "file': Not a directory");
    mkdir(in_room(room, "root"), 0755);
    set_str(room, COTO_OPT_ROOTFS, in_room(room, "root"));
    assert_made(room, &run_true);
    assert_string_equal(room->plan.rootfs.source, in_room(room, "root"));
    assert_int_equal(fcntl(room->plan.rootfs.fd, F_GETFL) & O_PATH, O_PATH);
    for (size_t i = 0; i < sizeof links / sizeof links[0]; i++) {
        char path[128], want[64];
        snprintf(path, sizeof path, "%s/root/%s", room->path, links[i]);
        snprintf(want, sizeof want, "its '%s' is a symbolic link", links[i]);
        assert_int_equal(symlink("/oldroot", path), 0);
        assert_refused(room, &run_true, COTO_ERR_FORBIDDEN, want);
        assert_int_equal(unlink(path), 0);
        assert_int_equal(mkdir(path, 0755), 0);
        assert_made(room, &run_true);
    }
    add_item(room, COTO_OPT_MOUNT, "%s/root:/data/x", room->path);
    assert_int_equal(symlink("/oldroot", in_room(room, "root/data")), 0);
    assert_refused(room, &run_true, COTO_ERR_FORBIDDEN, "its 'data' is a symbolic link");
    assert_int_equal(unlink(in_room(room, "root/data")), 0);
    assert_int_equal(mkdir(in_room(room, "root/data"), 0755), 0);
    assert_made(room, &run_true);
    assert_int_equal(symlink("/oldroot", in_room(room, "root/data/x")), 0);
    assert_refused(room, &run_true, COTO_ERR_FORBIDDEN, "its 'data/x' is a symbolic link");
}

static void test_workdir(void **state)
{
    struct room *room = *state;

    set_str(room, COTO_OPT_WORKDIR, "/work/");
    assert_made(room, &run_true);
    assert_string_equal(room->plan.workdir, "/work");
    assert_string_equal(env_of(&room->plan, "COTO_OUTPUT"), "/work/output");
    static const char *const bad[][2] = {
        {"work", "is not an absolute path"}, {"", "is an empty path"},
        {"/", "is the root of the sandbox"}, {"/proc/self/fd/3", "would hide"},
        {"/usr", "would hide"},              {"/tmp", "is a file system of its own"},
        {"/w/..", "goes up with"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        set_str(room, COTO_OPT_WORKDIR, bad[i][0]);
        assert_refused(room, &run_true, COTO_ERR_POLICY, bad[i][1]);
    }
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

#define T(name) cmocka_unit_test_setup_teardown(name, enter, leave)

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
        T(test_copies),
        T(test_copies_refused),
        T(test_ordinary_mounts_are_accepted),
        T(test_sensitive_places_are_refused),
        T(test_links_change_nothing),
        T(test_private_names_are_refused),
        T(test_sockets_and_specials_are_refused),
        T(test_own_program_is_never_writable),
        T(test_mount_targets),
        T(test_mounts_in_mounts),
        T(test_mounts_in_read_only_mounts),
        T(test_mounts_in_mounts_refused),
        T(test_tmpfs),
        T(test_rootfs),
        T(test_workdir),
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
