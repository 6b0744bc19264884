#include "kernel/apparmor.h"

#include "base/own.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

bool coto_apparmor_is_on(void)
{
    static _Thread_local char word; /* as the kernel was started */

    if (!word) {
        coto_auto_fd fd = open("/sys/module/apparmor/parameters/enabled", O_RDONLY | O_CLOEXEC);
        if (fd < 0 || read(fd, &word, 1) != 1)
            word = 'N';
    }
    return word == 'Y';
}

#define ATTR "thread-self/attr/apparmor/"

/* By the thread itself: the kernel takes it from nobody else. */
static int ask(int fd, const char *word, const char *profile)
{
    char text[COTO_APPARMOR_LABEL];
    int len = snprintf(text, sizeof text, "%s %s", word, profile);

    if (fd < 0 || len < 0 || (size_t)len >= sizeof text) {
        errno = fd < 0 ? EOPNOTSUPP : ENAMETOOLONG;
        return -1;
    }
    return write(fd, text, (size_t)len) == len ? 0 : -1;
}

static int read_label(int fd, char ret_label[COTO_APPARMOR_LABEL])
{
    char text[COTO_APPARMOR_LABEL];
    ssize_t got = fd < 0 ? -1 : pread(fd, text, sizeof text - 1, 0);

    if (got < 0)
        return -1;
    text[got] = '\0';
    text[strcspn(text, "\n")] = '\0';
    memcpy(ret_label, text, sizeof text);
    return 0;
}

static bool ends_with(const char *label, const char *word)
{
    size_t len = strlen(label);
    size_t tail = strlen(word);

    return len > tail && strcmp(label + len - tail, word) == 0;
}

bool coto_apparmor_confines(const char *label)
{
    return strcmp(label, "unconfined") != 0 && !ends_with(label, " (unconfined)");
}

bool coto_apparmor_is_confined(void)
{
    char label[COTO_APPARMOR_LABEL];
    coto_auto_fd fd = coto_apparmor_is_on() ? open("/proc/" ATTR "current", O_RDONLY | O_CLOEXEC) : -1;

    return fd >= 0 && (read_label(fd, label) || coto_apparmor_confines(label));
}

int coto_apparmor_on_exec(int proc_fd, const char *profile, char ret_label[COTO_APPARMOR_LABEL])
{
    coto_auto_fd fd = openat(proc_fd, ATTR "exec", O_RDWR | O_CLOEXEC);

    return ask(fd, "exec", profile) || read_label(fd, ret_label) ? -1 : 0;
}

int coto_apparmor_now(int proc_fd, const char *profile, char ret_label[COTO_APPARMOR_LABEL])
{
    coto_auto_fd fd = openat(proc_fd, ATTR "current", O_WRONLY | O_CLOEXEC);

    if (ask(fd, "changeprofile", profile))
        return -1;
    /* proc_fd may be attached nowhere, where the profile's paths do not reach. */
    coto_auto_fd seen = open("/proc/" ATTR "current", O_RDONLY | O_CLOEXEC);
    return read_label(seen, ret_label);
}

const char *coto_apparmor_why(int error)
{
    if (error == ENOENT)
        return "is not loaded";
    if (error == EOPNOTSUPP || error == EINVAL)
        return "cannot be had: this kernel runs no AppArmor";
    return error ? "may not be taken on here" : "only complains";
}

bool coto_apparmor_is_enforced(const char *label)
{
    return ends_with(label, " (enforce)");
}
