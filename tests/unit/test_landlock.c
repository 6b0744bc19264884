/* Landlock, in forked children. Each refusal has its positive control: the same
 * act before the wall is up, or in a writable tree beside it. */
#include "kernel/landlock.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "in_child.h"

static char scratch[64]; /* w1, w2/deep writable; ro not; prog executable in each */
static const char *writable[3];
static char path_w1[96], path_w2[96];

static const char *in(const char *name)
{
    static char ring[4][160];
    static unsigned next;
    char *text = ring[next++ % 4];

    snprintf(text, sizeof ring[0], "%s/%s", scratch, name);
    return text;
}

static int write_file(const char *path, const char *text, mode_t mode)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, mode);

    if (fd < 0)
        return -1;
    ssize_t n = write(fd, text, strlen(text));
    close(fd);
    return n == (ssize_t)strlen(text) ? 0 : -1;
}

static int remove_tree(void **state)
{
    char command[128];
    (void)state;

    snprintf(command, sizeof command, "rm -rf '%s'", scratch);
    return system(command);
}

static int make_tree(void **state)
{
    static const char *const dirs[] = {"w1", "w1/inner", "w2", "w2/deep", "ro", "ro/sub"};
    static const char *const homes[] = {"w1", "w1/inner", "w2/deep", "w2", "ro", "ro/sub"};
    (void)state;

    strcpy(scratch, "/tmp/coto-landlock-XXXXXX");
    if (!mkdtemp(scratch) || chmod(scratch, 0755))
        return -1;
    for (size_t i = 0; i < sizeof dirs / sizeof dirs[0]; i++)
        if (mkdir(in(dirs[i]), 0755))
            return -1;
    for (size_t i = 0; i < sizeof homes / sizeof homes[0]; i++) {
        char name[64];
        snprintf(name, sizeof name, "%s/prog", homes[i]);
        if (write_file(in(name), "#!/bin/sh\nexit 7\n", 0755))
            return -1;
    }
    snprintf(path_w1, sizeof path_w1, "%s/w1", scratch);
    snprintf(path_w2, sizeof path_w2, "%s/w2/deep", scratch);
    writable[0] = path_w1;
    writable[1] = path_w2;
    return symlink(path_w1, in("alias")) || symlink(in("w2"), in("alias2")) ||
           symlink(in("w1/inner"), in("alias3"));
}

static int apply(int abi_max, bool noexec)
{
    struct coto_err err = {0};
    int abi = -1;

    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
        return -1;
    struct coto_landlock_ask ask = {.abi_max = abi_max, .writable = writable, .noexec = noexec};
    if (coto_landlock_apply(&ask, &abi, &err)) {
        fprintf(stderr, "%s\n", err.text);
        return -1;
    }
    int want = coto_landlock_abi();
    want = want > 7 ? 7 : want;
    want = want > abi_max ? abi_max : want;
    return abi == want ? 0 : -1;
}

static bool fails_with(int error, long result)
{
    return result == -1 && errno == error;
}

/* Exit status of a program started from path; -1 when execve fails, with errno. */
static int run(const char *path)
{
    int status;
    pid_t child = fork();

    if (child == 0) {
        execl(path, path, (char *)NULL);
        _exit(100 + errno);
    }
    if (waitpid(child, &status, 0) != child || !WIFEXITED(status))
        return -2;
    if (WEXITSTATUS(status) > 100) {
        errno = WEXITSTATUS(status) - 100;
        return -1;
    }
    return WEXITSTATUS(status);
}

static int body_writes(void)
{
    if (write_file(in("ro/x"), "x", 0644) || unlink(in("ro/x")) || mkdir(in("ro/d"), 0755) ||
        rmdir(in("ro/d")))
        return 1; /* control */
    if (apply(100, false))
        return 2;
    if (!fails_with(EACCES, write_file(in("ro/x"), "x", 0644)) ||
        !fails_with(EACCES, write_file(in("ro/prog"), "x", 0644)))
        return 3;
    if (!fails_with(EACCES, mkdir(in("ro/d"), 0755)) || !fails_with(EACCES, rmdir(in("ro/sub"))) ||
        !fails_with(EACCES, unlink(in("ro/prog"))) ||
        !fails_with(EACCES, symlink("x", in("ro/s"))) ||
        !fails_with(EACCES, mkfifo(in("ro/f"), 0644)))
        return 4;
    if (!fails_with(EACCES, write_file(in("w2/x"), "x", 0644)))
        return 5; /* above a writable tree is not in it */
    if (write_file(in("w1/x"), "x", 0644) || write_file(in("w2/deep/x"), "x", 0644) ||
        mkdir(in("w1/d"), 0755) || rmdir(in("w1/d")) || symlink("x", in("w1/s")) ||
        mkfifo(in("w1/f"), 0644) || unlink(in("w1/s")) || unlink(in("w1/f")) ||
        unlink(in("w1/x")) || unlink(in("w2/deep/x")))
        return 6;
    int fd = open(in("ro/prog"), O_RDONLY | O_CLOEXEC);
    if (fd < 0 || run(in("ro/prog")) != 7 || run(in("w1/prog")) != 7)
        return 7;
    return write_file(in("alias/y"), "x", 0644) || unlink(in("w1/y")) ? 8 : 0;
}

static int body_links_and_moves(void)
{
    if (link(in("ro/prog"), in("w1/hard")) || unlink(in("w1/hard")))
        return 1; /* control */
    if (apply(100, false))
        return 2;
    if (!fails_with(EXDEV, link(in("ro/prog"), in("w1/hard"))))
        return 3; /* FS-11 */
    if (rename(in("w1/prog"), in("ro/stolen")) != -1 || rename(in("ro/prog"), in("w1/p")) != -1)
        return 4;
    if (write_file(in("w1/m"), "x", 0644))
        return 5;
    int moved = rename(in("w1/m"), in("w2/deep/m"));
    if (coto_landlock_abi() >= 2 ? moved : moved != -1)
        return 6;
    unlink(in("w1/m"));
    unlink(in("w2/deep/m"));
    return 0;
}

static int body_truncate(void)
{
    if (coto_landlock_abi() < 3)
        return 0;
    if (write_file(in("ro/t"), "abc", 0644) || truncate(in("ro/t"), 2))
        return 1; /* control */
    if (apply(100, false))
        return 2;
    if (!fails_with(EACCES, truncate(in("ro/t"), 1)))
        return 3;
    return write_file(in("w1/t"), "abc", 0644) || truncate(in("w1/t"), 1) || unlink(in("w1/t"));
}

static int body_noexec(void)
{
    if (run(in("w1/prog")) != 7 || run(in("w2/deep/prog")) != 7)
        return 1; /* control */
    if (apply(100, true))
        return 2;
    if (!fails_with(EACCES, run(in("w1/prog"))) || !fails_with(EACCES, run(in("w2/deep/prog"))))
        return 3;
    if (write_file(in("w1/new"), "#!/bin/sh\n", 0755) || !fails_with(EACCES, run(in("w1/new"))))
        return 4;
    if (!fails_with(EACCES, run(in("alias/prog"))) || !fails_with(EACCES, run(in("alias3/prog"))))
        return 5; /* a link beside the trees must not carry a right into them */
    unlink(in("w1/new"));
    if (run(in("ro/prog")) != 7 || run(in("ro/sub/prog")) != 7 || run(in("w2/prog")) != 7)
        return 6; /* beside and above the writable trees */
    return run("/bin/true") || run("/usr/bin/true") ? 7 : 0;
}

/* The caller's names may go through links: the same places must be meant. */
static int body_noexec_by_link(void)
{
    static char linked[2][96];

    snprintf(linked[0], sizeof linked[0], "%s/alias/", scratch);
    snprintf(linked[1], sizeof linked[1], "%s/alias2/../w2//deep", scratch);
    writable[0] = linked[0];
    writable[1] = linked[1];
    return body_noexec();
}

static int body_noexec_file(void)
{
    char file[160];

    snprintf(file, sizeof file, "%s", in("ro/prog"));
    writable[0] = file;
    writable[1] = NULL;
    if (apply(100, true))
        return 1;
    if (!fails_with(EACCES, run(file)) || run(in("ro/sub/prog")) != 7)
        return 2;
    int fd = open(file, O_WRONLY | O_CLOEXEC);
    return fd >= 0 && fails_with(EACCES, unlink(file)) ? 0 : 3;
}

static int body_noexec_everything(void)
{
    static const char *const all[] = {"/", NULL};

    writable[0] = all[0];
    writable[1] = NULL;
    if (apply(100, true))
        return 1;
    return fails_with(EACCES, run("/bin/true")) && !write_file(in("ro/x"), "", 0644) &&
                   !unlink(in("ro/x"))
               ? 0
               : 2;
}

static int body_devices(void)
{
    bool node = mknod(in("ro/zero"), S_IFCHR | 0666, makedev(1, 5)) == 0;
    struct winsize size;
    int number;

    if (node != (geteuid() == 0))
        return 1;
    int fd = open(in("ro/zero"), O_RDONLY | O_CLOEXEC);
    if (node && !fails_with(ENOTTY, ioctl(fd, TIOCGWINSZ, &size)))
        return 2; /* control */
    if (apply(100, false))
        return 3;
    if (node && !fails_with(EACCES, mknod(in("w1/zero"), S_IFCHR | 0666, makedev(1, 5))))
        return 4; /* also in a writable tree */
    fd = open(in("ro/zero"), O_RDONLY | O_CLOEXEC);
    if (node && coto_landlock_abi() >= 5 && !fails_with(EACCES, ioctl(fd, TIOCGWINSZ, &size)))
        return 5;
    if (node && !fails_with(EACCES, open(in("ro/zero"), O_WRONLY | O_CLOEXEC)))
        return 6;
    if (write_file("/dev/null", "x", 0) || !fails_with(ENOSPC, write_file("/dev/full", "x", 0)))
        return 7;
    int terminal = open("/dev/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC);
    return terminal < 0 || ioctl(terminal, TIOCGPTN, &number) ? 8 : 0;
}

static int listener = -1;
static struct sockaddr_un address;
static socklen_t address_len;

static int try_connect(void)
{
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    return connect(fd, (struct sockaddr *)&address, address_len);
}

static int body_scopes(void)
{
    if (try_connect() || kill(getppid(), 0))
        return 1; /* control */
    if (apply(100, false))
        return 2;
    if (coto_landlock_abi() < 6)
        return 0;
    if (!fails_with(EPERM, try_connect()) || !fails_with(EPERM, kill(getppid(), 0)))
        return 3;
    return kill(getpid(), 0) ? 4 : 0;
}

static int body_scopes_old_abi(void)
{
    return apply(5, false) || try_connect() || kill(getppid(), 0);
}

static int body_every_abi(void)
{
    for (int abi = 1; abi <= 9; abi++) {
        int status;
        pid_t child = fork();
        if (child == 0)
            _exit(apply(abi, abi % 2) || !fails_with(EACCES, mkdir(in("ro/d"), 0755)) ||
                  mkdir(in("w1/d"), 0755) || rmdir(in("w1/d")));
        if (waitpid(child, &status, 0) != child || status)
            return abi;
    }
    return 0;
}

static int body_needs_no_new_privs(void)
{
    struct coto_err err = {0};
    int abi = -5;

    if (geteuid() == 0 && setresuid(12345, 12345, 12345))
        return 1;
    const struct coto_landlock_ask ask = {.abi_max = 7, .writable = writable};
    if (coto_landlock_apply(&ask, &abi, &err) != -1 || abi != -5)
        return 2;
    return err.kind == COTO_ERR_SYSTEM && err.sys_errno == EPERM && err.remedy[0] ? 0 : 3;
}

static void test_errors(void **state)
{
    static const char *const missing[] = {"/nonexistent/place", NULL};
    struct coto_err err = {0};
    int abi = -5;
    (void)state;

    const struct coto_landlock_ask none = {.writable = writable};
    assert_int_equal(coto_landlock_apply(&none, &abi, &err), -1);
    assert_int_equal(err.kind, COTO_ERR_WALL);
    assert_true(err.remedy[0]);
    for (int noexec = 0; noexec < 2; noexec++) {
        const struct coto_landlock_ask gone = {.abi_max = 7, .writable = missing, .noexec = noexec};
        assert_int_equal(coto_landlock_apply(&gone, &abi, &err), -1);
        assert_non_null(strstr(err.text, "/nonexistent/place"));
        assert_int_equal(err.sys_errno, ENOENT);
    }
    assert_int_equal(abi, -5);
}

static void test_abi(void **state)
{
    (void)state;
    print_message("Landlock ABI %d\n", coto_landlock_abi());
    assert_in_range(coto_landlock_abi(), 1, 100);
}

static int open_listener(void **state)
{
    address.sun_family = AF_UNIX;
    snprintf(address.sun_path + 1, sizeof address.sun_path - 1, "coto-landlock-%d", getpid());
    address_len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 +
                              strlen(address.sun_path + 1));
    listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (bind(listener, (struct sockaddr *)&address, address_len) || listen(listener, 8))
        return -1;
    return make_tree(state);
}

#define CHILD_TEST(name)                                                                           \
    static void test_##name(void **state)                                                          \
    {                                                                                              \
        (void)state;                                                                               \
        assert_int_equal(in_child(body_##name), 0);                                                \
    }
CHILD_TEST(writes)
CHILD_TEST(links_and_moves)
CHILD_TEST(truncate)
CHILD_TEST(noexec)
CHILD_TEST(noexec_by_link)
CHILD_TEST(noexec_file)
CHILD_TEST(noexec_everything)
CHILD_TEST(devices)
CHILD_TEST(scopes)
CHILD_TEST(scopes_old_abi)
CHILD_TEST(every_abi)
CHILD_TEST(needs_no_new_privs)

/* Bind and connect: 0 when neither is refused by the wall. */
static int try_tcp(void)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof at;
    int one = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int other = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int failed = bind(one, (struct sockaddr *)&at, sizeof at) ||
                 getsockname(one, (struct sockaddr *)&at, &len) || listen(one, 1) ||
                 connect(other, (struct sockaddr *)&at, sizeof at);
    int saved = errno;

    close(one);
    close(other);
    errno = saved;
    return failed ? -1 : 0;
}

static int body_readable(void)
{
    const char *const readable[] = {in("ro/sub"), in("w2/prog"), "/nowhere/at/all", NULL};
    const struct coto_landlock_ask ask = {
        .abi_max = 7, .writable = writable, .readable = readable, .no_tcp = true, .noexec = true};
    struct coto_err err = {0};
    char byte;
    int abi;

    if (run(in("ro/prog")) != 7 || open("/etc/passwd", O_RDONLY | O_CLOEXEC) < 0 || open(in("ro"), O_RDONLY | O_CLOEXEC) < 0 || try_tcp())
        return 1; /* control */
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || coto_landlock_apply(&ask, &abi, &err))
        return 2;
    if (!fails_with(EACCES, open("/etc/passwd", O_RDONLY | O_CLOEXEC)) || !fails_with(EACCES, open(in("ro"), O_RDONLY | O_CLOEXEC)) ||
        !fails_with(EACCES, open(in("ro/prog"), O_RDONLY | O_CLOEXEC)) || !fails_with(EACCES, open("/", O_RDONLY | O_CLOEXEC)))
        return 3;
    if (open(in("ro/sub/prog"), O_RDONLY | O_CLOEXEC) < 0 || open(in("ro/sub"), O_RDONLY | O_CLOEXEC) < 0 ||
        open(in("w2/prog"), O_RDONLY | O_CLOEXEC) < 0 || open(in("w1/prog"), O_RDWR | O_CLOEXEC) < 0)
        return 4;
    if (!fails_with(EACCES, open(in("ro/sub/prog"), O_WRONLY | O_CLOEXEC)))
        return 5;
    if (!fails_with(EACCES, run(in("ro/sub/prog"))) || !fails_with(EACCES, run("/bin/true")))
        return 6;
    int zero = open("/dev/zero", O_RDONLY | O_CLOEXEC);
    if (zero < 0 || read(zero, &byte, 1) != 1 || open("/dev/null", O_RDWR | O_CLOEXEC) < 0 ||
        !fails_with(EACCES, open("/dev/ptmx", O_RDWR | O_CLOEXEC)))
        return 7;
    return abi < 4 || fails_with(EACCES, try_tcp()) ? 0 : 8;
}

static void test_readable(void **state)
{
    (void)state;
    assert_int_equal(in_child(body_readable), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_abi),
        cmocka_unit_test(test_errors),
        cmocka_unit_test(test_writes),
        cmocka_unit_test(test_links_and_moves),
        cmocka_unit_test(test_truncate),
        cmocka_unit_test(test_noexec),
        cmocka_unit_test(test_noexec_by_link),
        cmocka_unit_test(test_noexec_file),
        cmocka_unit_test(test_noexec_everything),
        cmocka_unit_test(test_devices),
        cmocka_unit_test(test_scopes),
        cmocka_unit_test(test_scopes_old_abi),
        cmocka_unit_test(test_every_abi),
        cmocka_unit_test(test_readable),
        cmocka_unit_test(test_needs_no_new_privs),
    };
    return cmocka_run_group_tests(tests, open_listener, remove_tree);
}
