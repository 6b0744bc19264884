/* What of the host a plan shows: copies, mounts, tmpfs, rootfs, the working directory. */
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

#include "in_child.h"
#include "own_mounts.h"
#include "plan_room.h"

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
    if (strncmp(exe, "/root/", 6) == 0) { /* and not for its own sake */
        refuse_source(room, exe, true, "home directory of root");
        return;
    }
    refuse_source(room, exe, true, "it holds coto itself");
    /* Read-only is fine. */
    assert_int_equal(coto_plan_open_mount(exe, false, &path, &room->err), 0);
    close(path.fd);
    free(path.source);
}

/* A bind mount gives a part of /etc another name; it stays what it is. */
static int other_names(void)
{
    struct coto_plan_path path;
    struct coto_err err = {0};
    char base[] = "/tmp/coto-test-names-XXXXXX";
    char at[80];

    CHECK(own_mounts() == 0 && mkdtemp(base));
    CHECK(mount("tmpfs", base, "tmpfs", 0, NULL) == 0 && chdir(base) == 0);
    CHECK(mkdir("etc", 0755) == 0 && mount("/etc", "etc", NULL, MS_BIND, NULL) == 0);
    CHECK(mkdir("root", 0755) == 0 && mount("/", "root", NULL, MS_BIND, NULL) == 0);
    CHECK(mkdir("mine", 0755) == 0 && mkdir("mine/part", 0755) == 0 && mkdir("again", 0755) == 0);
    CHECK(mount("mine/part", "again", NULL, MS_BIND, NULL) == 0);
    CHECK(close(creat("file", 0644)) == 0 && mount("/etc/passwd", "file", NULL, MS_BIND, NULL) == 0);
    static const char *const bad[] = {"file", "etc/passwd", "root/etc/passwd", "etc", "root"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        snprintf(at, sizeof at, "%s/%s", base, bad[i]);
        CHECK(coto_plan_open_mount(at, false, &path, &err) != 0 && err.kind == COTO_ERR_FORBIDDEN);
    }
    snprintf(at, sizeof at, "%s/again", base);
    CHECK(coto_plan_open_mount(at, true, &path, &err) == 0);
    CHECK(chdir("/") == 0 && umount2(base, MNT_DETACH) == 0 && rmdir(base) == 0);
    return 0;
}

CHILD_TEST(other_names)

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

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(test_copies),
        T(test_copies_refused),
        T(test_ordinary_mounts_are_accepted),
        T(test_sensitive_places_are_refused),
        T(test_links_change_nothing),
        T(test_private_names_are_refused),
        T(test_sockets_and_specials_are_refused),
        T(test_own_program_is_never_writable), T(test_other_names),
        T(test_mount_targets),
        T(test_mounts_in_mounts),
        T(test_mounts_in_read_only_mounts),
        T(test_mounts_in_mounts_refused),
        T(test_tmpfs),
        T(test_rootfs),
        T(test_workdir),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
