/* A mount namespace of a test's own, in which it can put files where the product looks. For
 * children of root; included after in_child.h. */
#pragma once

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

/* In a child: says what was not so, and ends it. */
#define CHECK(expression)                                                                          \
    do {                                                                                           \
        if (!(expression)) {                                                                       \
            fprintf(stderr, "%s:%d: %s (errno %d)\n", __FILE__, __LINE__, #expression, errno);     \
            return 1;                                                                              \
        }                                                                                          \
    } while (0)

/* A test that is such a child. */
#define CHILD_TEST(name)                                                                           \
    static void test_##name(void **state)                                                          \
    {                                                                                              \
        (void)state;                                                                               \
        if (geteuid() != 0)                                                                        \
            skip();                                                                                \
        assert_int_equal(in_child(name), 0);                                                       \
    }

static int own_mounts(void)
{
    return unshare(CLONE_NEWNS) || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL);
}

static int write_text(const char *path, const char *text)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    int failed = fd < 0 || write(fd, text, strlen(text)) != (ssize_t)strlen(text);

    close(fd);
    return failed;
}

/* Puts a file of this text over an existing one. */
__attribute__((unused)) static int cover_file(const char *path, const char *text)
{
    char file[] = "/tmp/coto-test-cover-XXXXXX";
    int fd = mkstemp(file);

    if (fd < 0)
        return -1;
    close(fd);
    chmod(file, 0644);
    int failed = write_text(file, text) || mount(file, path, NULL, MS_BIND, NULL);
    unlink(file); /* the mount keeps it */
    return failed;
}
