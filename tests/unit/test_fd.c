#include "base/fd.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cmocka.h>

#include "in_child.h"

/* Each test has a directory of its own: name and descriptor. */
struct room {
    char path[64];
    int fd;
};

static int enter(void **state)
{
    struct room *room = calloc(1, sizeof *room);

    snprintf(room->path, sizeof room->path, "/tmp/coto-test-fd-XXXXXX");
    if (!mkdtemp(room->path))
        return -1;
    room->fd = open(room->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    *state = room;
    return room->fd < 0;
}

static int leave(void **state)
{
    struct room *room = *state;
    coto_auto_fd parent = open("/tmp", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int failed = coto_path_remove_tree(parent, strrchr(room->path, '/') + 1);

    close(room->fd);
    free(room);
    return failed;
}

static void put(int dirfd, const char *name, const char *text)
{
    coto_auto_fd fd = openat(dirfd, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);

    assert_true(fd >= 0);
    assert_int_equal(coto_fd_write_all(fd, text, strlen(text)), 0);
}

static void assert_gone(int dirfd, const char *name)
{
    struct stat st;

    assert_int_equal(fstatat(dirfd, name, &st, AT_SYMLINK_NOFOLLOW), -1);
    assert_int_equal(errno, ENOENT);
}

static void whole_files(void **state)
{
    struct room *room = *state;
    coto_auto_buf buf = {0};
    char text[8];

    put(room->fd, "file", "12345\n\n");
    assert_int_equal(coto_file_read_at(room->fd, "file", text, sizeof text), 5);
    assert_string_equal(text, "12345");
    assert_int_equal(coto_file_read_at(room->fd, "file", text, 4), 3);
    assert_string_equal(text, "123");
    assert_int_equal(coto_file_read_at(room->fd, "none", text, sizeof text), -1);
    assert_int_equal(errno, ENOENT);
    coto_auto_fd fd = openat(room->fd, "file", O_RDONLY | O_CLOEXEC);
    assert_int_equal(coto_fd_read_all(fd, 7, &buf), 0);
    assert_int_equal(buf.len, 7);
    lseek(fd, 0, SEEK_SET);
    assert_int_equal(coto_fd_read_all(fd, 6, &buf), -1);
    assert_int_equal(errno, EFBIG);
}

/* Half of a process number is another process. */
static void words_are_never_cut(void **state)
{
    struct room *room = *state;
    char text[10];

    put(room->fd, "list", "123 4567 89\n");
    assert_int_equal(coto_file_read_words_at(room->fd, "list", text, sizeof text), 9);
    assert_string_equal(text, "123 4567 ");
    assert_int_equal(coto_file_read_words_at(room->fd, "list", text, 8), 4);
    assert_string_equal(text, "123 ");
    assert_int_equal(coto_file_read_words_at(room->fd, "list", text, 3), 0);
    assert_string_equal(text, "");
    put(room->fd, "lines", "12\n345\n6\n");
    assert_int_equal(coto_file_read_words_at(room->fd, "lines", text, 6), 3);
    assert_string_equal(text, "12\n");
    assert_int_equal(coto_file_read_words_at(room->fd, "lines", text, sizeof text), 8);
    assert_string_equal(text, "12\n345\n6");
    assert_int_equal(coto_file_read_words_at(room->fd, "none", text, sizeof text), -1);
}

static int count_descriptors(void)
{
    DIR *dir = opendir("/proc/self/fd");
    int count = 0;

    assert_non_null(dir);
    while (readdir(dir))
        count++;
    closedir(dir);
    return count;
}

static void descriptors_past_the_most_are_closed(void **state)
{
    const int sent[4] = {0, 1, 2, 0};
    int sv[2];
    int got[2] = {-1, -1};
    char byte;

    (void)state;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sv), 0);
    int before = count_descriptors();
    assert_int_equal(coto_fd_send(sv[0], 'x', sent, 4), 0);
    assert_int_equal(coto_fd_receive(sv[1], &byte, got, 2), 2);
    assert_int_equal(count_descriptors(), before + 2);
    close(got[0]);
    close(got[1]);
    close(sv[0]);
    close(sv[1]);
}

static void early_end_is_an_error(void **state)
{
    int fds[2];
    char bytes[4];

    (void)state;
    assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
    coto_auto_fd reader = fds[0];
    assert_int_equal(coto_fd_write_all(fds[1], "abc", 3), 0);
    close(fds[1]);
    assert_int_equal(coto_fd_read_exact(reader, bytes, 4), -1);
    assert_int_equal(errno, EPIPE);
}

static void assert_refused(int dirfd, const char *path, int error)
{
    errno = 0;
    assert_int_equal(coto_path_open_beneath(dirfd, path, O_RDONLY, 0), -1);
    assert_int_equal(errno, error);
}

static void open_beneath_refuses_every_way_out(void **state)
{
    struct room *room = *state;

    assert_int_equal(mkdirat(room->fd, "sub", 0700), 0);
    put(room->fd, "sub/file", "x");
    assert_int_equal(symlinkat("/etc/passwd", room->fd, "absolute"), 0);
    assert_int_equal(symlinkat("sub/file", room->fd, "inside"), 0);
    assert_int_equal(symlinkat("sub", room->fd, "dirlink"), 0);
    assert_int_equal(symlinkat("/proc/self/root", room->fd, "magic"), 0);
    assert_refused(room->fd, "../etc/passwd", EXDEV);
    assert_refused(room->fd, "sub/../../etc", EXDEV);
    assert_refused(room->fd, "/etc/passwd", EXDEV);
    assert_refused(room->fd, "absolute", ELOOP);
    assert_refused(room->fd, "inside", ELOOP);
    assert_refused(room->fd, "dirlink/file", ELOOP);
    assert_refused(room->fd, "magic/etc/passwd", ELOOP);
    coto_auto_fd fd = coto_path_open_beneath(room->fd, "sub/file", O_RDONLY, 0);
    assert_true(fd >= 0);
    assert_true(fcntl(fd, F_GETFD) & FD_CLOEXEC);
    coto_auto_fd up = coto_path_open_beneath(room->fd, "sub/../sub/file", O_RDONLY, 0);
    assert_true(up >= 0);
}

/* The same on a kernel that has no openat2. */
static int room_fd;

static int without_openat2(void)
{
    static const char *const out[] = {"../etc/passwd", "sub/../../etc", "/etc/passwd", "absolute", "inside",
                                      "dirlink/file",  "magic/etc/passwd", "", "sub/file/", "sub/none"};
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_openat2, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog prog = {sizeof code / sizeof code[0], code};
    struct stat st;

    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, 2, &prog))
        return 1;
    for (size_t i = 0; i < sizeof out / sizeof out[0]; i++)
        if (coto_path_open_beneath(room_fd, out[i], O_RDONLY, 0) >= 0)
            return 10 + (int)i;
    if (coto_path_open_beneath(room_fd, "inside", O_PATH, 0) >= 0)
        return 2;
    int fd = coto_path_open_beneath(room_fd, "inside", O_PATH | O_NOFOLLOW, 0);
    if (fd < 0 || fstat(fd, &st) || !S_ISLNK(st.st_mode))
        return 3;
    fd = coto_path_open_beneath(room_fd, "sub//file", O_RDONLY, 0);
    if (fd < 0 || !(fcntl(fd, F_GETFD) & FD_CLOEXEC))
        return 4;
    return coto_path_open_beneath(room_fd, "sub/new", O_WRONLY | O_CREAT, 0600) < 0 ? 5 : 0;
}

static void open_beneath_without_openat2(void **state)
{
    struct room *room = *state;

    room_fd = room->fd;
    assert_int_equal(mkdirat(room->fd, "sub", 0700), 0);
    put(room->fd, "sub/file", "x");
    assert_int_equal(symlinkat("/etc/passwd", room->fd, "absolute"), 0);
    assert_int_equal(symlinkat("sub/file", room->fd, "inside"), 0);
    assert_int_equal(symlinkat("sub", room->fd, "dirlink"), 0);
    assert_int_equal(symlinkat("/proc/self/root", room->fd, "magic"), 0);
    assert_int_equal(in_child(without_openat2), 0);
}

static void parents_are_made_but_never_through_a_link(void **state)
{
    struct room *room = *state;
    struct stat st;

    assert_int_equal(coto_path_make_parents(room->fd, "a/b/c/file", 0711), 0);
    assert_int_equal(fstatat(room->fd, "a/b/c", &st, 0), 0);
    assert_true(S_ISDIR(st.st_mode));
    assert_gone(room->fd, "a/b/c/file");
    assert_int_equal(mkdirat(room->fd, "elsewhere", 0700), 0);
    assert_int_equal(symlinkat("elsewhere", room->fd, "link"), 0);
    assert_int_equal(coto_path_make_parents(room->fd, "link/new/file", 0700), -1);
    assert_gone(room->fd, "elsewhere/new");
    assert_int_equal(coto_path_make_parents(room->fd, "../coto-escaped/file", 0700), -1);
}

/* Deeper than PATH_MAX and than any stack of descriptors. */
static void remove_tree_of_3000_levels(void **state)
{
    struct room *room = *state;
    int at = dup(room->fd);

    for (int i = 0; i < 3000; i++) {
        assert_int_equal(mkdirat(at, "directory", 0700), 0);
        int next = openat(at, "directory", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        assert_true(next >= 0);
        close(at);
        at = next;
    }
    put(at, "leaf", "x");
    close(at);
    assert_int_equal(coto_path_remove_tree(room->fd, "directory"), 0);
    assert_gone(room->fd, "directory");
}

/* Whoever goes on making what is removed does not keep it from ending. */
static void remove_tree_has_an_end(void **state)
{
    struct room *room = *state;

    assert_int_equal(mkdirat(room->fd, "tree", 0700), 0);
    assert_int_equal(mkdirat(room->fd, "tree/sub", 0700), 0);
    assert_int_equal(mkdirat(room->fd, "tree/sub/deep", 0700), 0);
    put(room->fd, "tree/sub/deep/file", "x");
    errno = 0;
    assert_int_equal(coto_path_remove_tree_until(room->fd, "tree", 1), -1);
    assert_int_equal(errno, EBUSY);
    assert_int_equal(coto_path_remove_tree_until(room->fd, "tree", INT64_MAX), 0);
    assert_gone(room->fd, "tree");
    assert_int_equal(coto_path_remove_tree_until(room->fd, "tree", INT64_MAX), -1);
    assert_int_equal(errno, ENOENT);
}

/* Also of one directory with very much in it: nothing is begun when the time is over. */
static void remove_tree_looks_at_the_time_often(void **state)
{
    struct room *room = *state;
    struct stat before, after;
    char name[32];

    assert_int_equal(mkdirat(room->fd, "tree", 0700), 0);
    for (int i = 0; i < 100; i++) {
        snprintf(name, sizeof name, "tree/%d", i);
        assert_int_equal(mkdirat(room->fd, name, 0700), 0);
        snprintf(name, sizeof name, "tree/%d/sub", i);
        assert_int_equal(mkdirat(room->fd, name, 0700), 0);
    }
    assert_int_equal(fstatat(room->fd, "tree", &before, 0), 0);
    assert_int_equal(coto_path_remove_tree_until(room->fd, "tree", 1), -1);
    assert_int_equal(fstatat(room->fd, "tree", &after, 0), 0);
    assert_int_equal(before.st_nlink, after.st_nlink);
    assert_int_equal(coto_path_remove_tree(room->fd, "tree"), 0);
}

/* Its owner has it open, and could go on filling it. */
static void remove_tree_takes_directories_from_their_owners(void **state)
{
    struct room *room = *state;
    struct stat st;
    static const char *const names[] = {"tree", "tree/sub", "tree/sub/deep", "tree/sub/deep/leaf"};
    int fds[4];

    if (geteuid() != 0)
        skip();
    for (int i = 0; i < 4; i++) {
        assert_int_equal(mkdirat(room->fd, names[i], 0777), 0);
        assert_int_equal(fchownat(room->fd, names[i], 65533, 65533, 0), 0);
        fds[i] = openat(room->fd, names[i], O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        assert_true(fds[i] >= 0);
    }
    assert_int_equal(coto_path_remove_tree(room->fd, "tree"), 0);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(fstat(fds[i], &st), 0);
        assert_int_equal(st.st_uid, i < 3 ? 0 : 65533); /* an empty one goes at once */
        assert_int_equal(st.st_mode & 07777, i < 3 ? 0700 : 0755);
        close(fds[i]);
    }
}

static void remove_tree_follows_no_link(void **state)
{
    struct room *room = *state;
    struct stat st;

    assert_int_equal(mkdirat(room->fd, "keep", 0700), 0);
    put(room->fd, "keep/file", "x");
    assert_int_equal(mkdirat(room->fd, "tree", 0700), 0);
    assert_int_equal(mkdirat(room->fd, "tree/sub", 0700), 0);
    assert_int_equal(symlinkat("../keep", room->fd, "tree/link"), 0);
    assert_int_equal(symlinkat("../../keep", room->fd, "tree/sub/link"), 0);
    assert_int_equal(symlinkat("keep", room->fd, "link"), 0);
    assert_int_equal(coto_path_remove_tree(room->fd, "tree"), 0);
    assert_gone(room->fd, "tree");
    assert_int_equal(coto_path_remove_tree(room->fd, "link"), 0);
    assert_gone(room->fd, "link");
    assert_int_equal(fstatat(room->fd, "keep/file", &st, 0), 0);
}

static void chmod_follows_no_link(void **state)
{
    struct room *room = *state;
    struct stat st;

    put(room->fd, "file", "x");
    assert_int_equal(fchmodat(room->fd, "file", 0400, 0), 0);
    assert_int_equal(symlinkat("file", room->fd, "link"), 0);
    assert_int_equal(symlinkat("/", room->fd, "root"), 0);
    coto_path_chmod(room->fd, "link", 0777);
    coto_path_chmod(room->fd, "root", 0777);
    assert_int_equal(coto_path_chmod(room->fd, "root/tmp", 0777), -1);
    assert_int_equal(coto_path_chmod(room->fd, "..", 0777), -1);
    assert_int_equal(coto_path_chmod(room->fd, "none", 0777), -1);
    assert_int_equal(fstatat(room->fd, "file", &st, 0), 0);
    assert_int_equal(st.st_mode & 07777, 0400);
    assert_int_equal(coto_path_chmod(room->fd, "file", 0600), 0);
    assert_int_equal(fstatat(room->fd, "file", &st, 0), 0);
    assert_int_equal(st.st_mode & 07777, 0600);
}

/* Wide, with locked directories as a hostile program leaves them. */
static void remove_tree_of_locked_directories(void **state)
{
    struct room *room = *state;
    char name[64];

    assert_int_equal(mkdirat(room->fd, "tree", 0700), 0);
    for (int i = 0; i < 50; i++) {
        snprintf(name, sizeof name, "tree/d%d", i);
        assert_int_equal(mkdirat(room->fd, name, 0700), 0);
        snprintf(name, sizeof name, "tree/d%d/inner", i);
        assert_int_equal(mkdirat(room->fd, name, 0700), 0);
        snprintf(name, sizeof name, "tree/d%d/inner/file", i);
        put(room->fd, name, "x");
        snprintf(name, sizeof name, "tree/d%d/inner", i);
        assert_int_equal(fchmodat(room->fd, name, 0, 0), 0);
        snprintf(name, sizeof name, "tree/d%d", i);
        assert_int_equal(fchmodat(room->fd, name, 0, 0), 0);
    }
    assert_int_equal(coto_path_remove_tree(room->fd, "tree"), 0);
    assert_gone(room->fd, "tree");
}

/* Names that the removal itself uses when it flattens, taken in advance. */
static void remove_tree_with_its_own_names_taken(void **state)
{
    struct room *room = *state;
    char name[64];

    assert_int_equal(mkdirat(room->fd, "tree", 0700), 0);
    for (int i = 0; i < 8; i++) {
        snprintf(name, sizeof name, "tree/.coto-rm-%08x", i);
        assert_int_equal(mkdirat(room->fd, name, 0700), 0);
        snprintf(name, sizeof name, "tree/.coto-rm-%08x/full", i);
        assert_int_equal(mkdirat(room->fd, name, 0700), 0);
        snprintf(name, sizeof name, "tree/.coto-rm-%08x/full/file", i);
        put(room->fd, name, "x");
    }
    assert_int_equal(coto_path_remove_tree(room->fd, "tree"), 0);
    assert_gone(room->fd, "tree");
}

/* A process may have a name that looks like the fields behind it. */
static void fields_of_a_process(void **state)
{
    char before[17] = "";
    int64_t found[2] = {0};

    (void)state;
    assert_int_equal(prctl(PR_GET_NAME, before), 0);
    assert_int_equal(prctl(PR_SET_NAME, "a) Z 1 2 (b) 3"), 0);
    assert_int_equal(coto_proc_stat(getpid(), 4, 2, found), 'R');
    assert_int_equal(found[0], getppid());
    assert_int_equal(found[1], getpgrp());
    assert_int_equal(coto_proc_stat(getpid(), 400, 1, found), 0);
    assert_int_equal(coto_proc_stat(0, 4, 1, found), 0);
    prctl(PR_SET_NAME, before);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fields_of_a_process),
        cmocka_unit_test_setup_teardown(whole_files, enter, leave),
        cmocka_unit_test_setup_teardown(words_are_never_cut, enter, leave),
        cmocka_unit_test_setup_teardown(descriptors_past_the_most_are_closed, enter, leave),
        cmocka_unit_test_setup_teardown(early_end_is_an_error, enter, leave),
        cmocka_unit_test_setup_teardown(open_beneath_refuses_every_way_out, enter, leave),
        cmocka_unit_test_setup_teardown(open_beneath_without_openat2, enter, leave),
        cmocka_unit_test_setup_teardown(parents_are_made_but_never_through_a_link, enter, leave),
        cmocka_unit_test_setup_teardown(remove_tree_of_3000_levels, enter, leave),
        cmocka_unit_test_setup_teardown(remove_tree_has_an_end, enter, leave),
        cmocka_unit_test_setup_teardown(remove_tree_looks_at_the_time_often, enter, leave),
        cmocka_unit_test_setup_teardown(remove_tree_takes_directories_from_their_owners, enter, leave),
        cmocka_unit_test_setup_teardown(remove_tree_follows_no_link, enter, leave),
        cmocka_unit_test_setup_teardown(chmod_follows_no_link, enter, leave),
        cmocka_unit_test_setup_teardown(remove_tree_of_locked_directories, enter, leave),
        cmocka_unit_test_setup_teardown(remove_tree_with_its_own_names_taken, enter, leave),
    };

    return cmocka_run_group_tests_name("fd", tests, NULL, NULL);
}
