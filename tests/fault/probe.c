/* The program of a faulty run: tells what only the inside knows, leaves an artifact, and
 * ends. `probe sleep` waits instead until it is ended, with a child that does the same. */
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

/* The kernel takes 16 rule sets on top of each other: those that are left tell how many
 * were there before. */
static void tell_landlock(void)
{
    uint64_t attr = 1 << 6; /* making devices, which nobody here does */
    int ruleset = (int)syscall(SYS_landlock_create_ruleset, &attr, sizeof attr, 0);
    int layers = 0;

    while (ruleset >= 0 && syscall(SYS_landlock_restrict_self, ruleset, 0) == 0)
        layers++;
    printf("landlock %d layers left\n", layers);
}

static void tell_root(void)
{
    int fd = open("/usr/new-file", O_WRONLY | O_CREAT, 0600);

    printf("root %s\n", fd < 0 ? strerror(errno) : "is writable");
}

static void tell_input(void)
{
    char text[64];
    ssize_t len = read(0, text, sizeof text);

    printf("input %.*s\n", len > 0 ? (int)len : 0, text);
}

static int leave_artifact(void)
{
    int fd = open("output/left", O_WRONLY | O_CREAT | O_EXCL, 0600);

    return fd < 0 || write(fd, "left behind", 11) != 11;
}

static void tell_file(const char *path)
{
    char text[64] = "";
    int fd = open(path, O_RDONLY);
    ssize_t len = fd < 0 ? -1 : read(fd, text, sizeof text - 1);

    printf("%s %s\n", path, len < 0 ? strerror(errno) : text);
}

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "sleep") == 0) {
        if (fork() >= 0)
            for (;;)
                pause();
        return 1;
    }
    tell_landlock();
    tell_root();
    tell_input();
    for (int i = 1; i < argc; i++)
        tell_file(argv[i]);
    return leave_artifact() ? 9 : 0;
}
