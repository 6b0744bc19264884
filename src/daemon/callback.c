#include "daemon/callback.h"

#include "base/fd.h"
#include "base/trust.h"
#include "policy/helper.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

/* "https://host", "http://host:8080": lower case, no path. */
static bool is_origin(const char *text)
{
    size_t n = coto_str_has_prefix(text, "https://")  ? 8
               : coto_str_has_prefix(text, "http://") ? 7
                                                      : 0;

    return n && text[n] &&
           strspn(text + n, "abcdefghijklmnopqrstuvwxyz0123456789.-:[]") == strlen(text + n);
}

#define KEY_REMEDY "openssl rand -hex 32 >FILE; chmod 600 FILE"

/* The line end that editors and `openssl rand -hex 32 >FILE` leave does not count, as at the start. */
static int check_length(const char *file, struct coto_err *err)
{
    coto_auto_buf key = {0};
    coto_auto_fd fd = open(file, O_RDONLY | O_CLOEXEC);
    int failed = fd < 0 || coto_fd_read_all(fd, COTO_CALLBACK_KEY_MAX, &key);

    if (failed)
        coto_err_set(err, COTO_ERR_INPUT, errno, "callback-key: '%s'", file);
    coto_buf_cut_line_end(&key);
    size_t len = key.len;
    if (key.data)
        explicit_bzero(key.data, key.cap);
    if (failed || len >= COTO_CALLBACK_KEY_MIN)
        return failed ? -1 : 0;
    coto_err_set(err, COTO_ERR_INPUT, 0,
                 "callback-key: '%s': less than %d bytes; a line end at its end is not part of it",
                 file, COTO_CALLBACK_KEY_MIN);
    return coto_err_remedy(err, KEY_REMEDY);
}

int coto_callback_check(const struct coto_settings *settings, struct coto_err *err)
{
    const struct coto_strv *origins = &settings->text[COTO_SET_CALLBACK_ORIGIN];
    const char *key = coto_settings_text(settings, COTO_SET_CALLBACK_KEY);
    struct stat st;

    if (origins->count == 0)
        return 0;
    for (size_t i = 0; i < origins->count; i++)
        if (!is_origin(origins->items[i])) {
            coto_err_set(err, COTO_ERR_USAGE, 0, "callback-origin: '%s' is not an origin",
                         origins->items[i]);
            return coto_err_remedy(err, "write it as https://hooks.example.com, without a path");
        }
    if (origins->count > COTO_CALLBACK_ORIGINS)
        return coto_err_set(err, COTO_ERR_USAGE, 0, "callback-origin: %d at most",
                            COTO_CALLBACK_ORIGINS);
    if (!*key) {
        coto_err_set(err, COTO_ERR_USAGE, 0, "callback-origin: needs callback-key");
        return coto_err_remedy(err, KEY_REMEDY);
    }
    if (stat(key, &st))
        return coto_err_set(err, COTO_ERR_INPUT, errno, "callback-key: '%s'", key);
    if (!S_ISREG(st.st_mode) || st.st_size < COTO_CALLBACK_KEY_MIN || st.st_size > COTO_CALLBACK_KEY_MAX ||
        st.st_mode & 077) {
        coto_err_set(
            err, COTO_ERR_FORBIDDEN, 0,
            "callback-key: '%s' must be a file of 32 to 4096 bytes that nobody else can read", key);
        return coto_err_remedy(err, KEY_REMEDY);
    }
    return coto_trust_file("callback-key", key, err) ? -1 : check_length(key, err);
}

static void exec_callback(const struct coto_settings *settings, const char *path, int fd,
                          unsigned uid, unsigned gid)
{
    const struct coto_strv *origins = &settings->text[COTO_SET_CALLBACK_ORIGIN];
    char control[32], user[32], group[32], key[4200];
    char *argv[5 + COTO_CALLBACK_ORIGINS + 1] = {"coto-callback", control, user, group, key};
    char *envp[] = {NULL};
    sigset_t none;

    snprintf(control, sizeof control, "--control=%d", fd);
    snprintf(user, sizeof user, "--uid=%u", uid);
    snprintf(group, sizeof group, "--gid=%u", gid);
    snprintf(key, sizeof key, "--key=%s", coto_settings_text(settings, COTO_SET_CALLBACK_KEY));
    for (size_t i = 0; i < origins->count && i < COTO_CALLBACK_ORIGINS; i++)
        argv[5 + i] = origins->items[i];
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    fcntl(fd, F_SETFD, 0);
    execve(path, argv, envp);
    _exit(127);
}

/* It has its key and its walls. */
static bool is_ready(int fd)
{
    char byte;
    ssize_t n;

    do
        n = recv(fd, &byte, 1, 0);
    while (n < 0 && errno == EINTR);
    return n == 1;
}

int coto_callback_start(const struct coto_settings *settings, unsigned uid, unsigned gid,
                        int *ret_fd, struct coto_err *err)
{
    char path[4096];
    int sv[2];

    *ret_fd = -1;
    if (settings->text[COTO_SET_CALLBACK_ORIGIN].count == 0)
        return 0;
    if (coto_callback_check(settings, err))
        return -1;
    if (coto_helper_find("coto-callback", path, sizeof path))
        return coto_err_set(err, COTO_ERR_SYSTEM, ENOENT, "coto-callback");
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sv))
        return coto_err_set(err, COTO_ERR_LIMIT, errno, "start coto-callback");
    pid_t pid = fork();
    if (pid == 0)
        exec_callback(settings, path, sv[1], uid, gid);
    close(sv[1]);
    if (pid < 0) {
        close(sv[0]);
        return coto_err_set(err, COTO_ERR_LIMIT, errno, "start coto-callback");
    }
    coto_auto_fd fd = sv[0];
    if (!is_ready(fd)) { /* it has said why */
        coto_err_set(err, COTO_ERR_SYSTEM, 0, "start coto-callback: it has ended at once");
        return coto_err_remedy(err, "see what it said before");
    }
    *ret_fd = coto_take_fd(&fd);
    return 0;
}

void coto_callback_end(int *fd)
{
    char byte;
    struct pollfd end = {.fd = *fd, .events = POLLIN};

    if (*fd < 0)
        return;
    shutdown(*fd, SHUT_WR);
    while (poll(&end, 1, COTO_CALLBACK_END_MS) > 0 && recv(*fd, &byte, 1, MSG_DONTWAIT) > 0)
        continue; /* how many were lost: nobody asks any more */
    coto_own_close(fd);
}
