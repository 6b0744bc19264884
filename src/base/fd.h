/* Descriptors and whole files. All opens are O_CLOEXEC. */
#pragma once

#include "base/err.h"
#include "base/own.h"
#include "base/str.h"

#include <stdint.h>
#include <sys/types.h>

/* Writes all bytes (retries short writes, EINTR); 0 or -1 with errno. */
int coto_fd_write_all(int fd, const void *data, size_t len);
/* Writes to a terminal, or whatever there is, what need not be read: one that takes nothing
 * more keeps nobody waiting. */
void coto_fd_write_closing(int fd, const void *data, size_t len);
/* Reads exactly len bytes; 0, or -1 with errno (EPIPE on early end). */
int coto_fd_read_exact(int fd, void *data, size_t len);
/* Appends everything up to end of file, at most max bytes (EFBIG past it). */
int coto_fd_read_all(int fd, size_t max, struct coto_buf *buf);
/* Reads a small kernel file (procfs, cgroupfs) relative to dirfd into text,
 * NUL-terminated, trailing newline cut. Length, or -1 with errno. */
ssize_t coto_file_read_at(int dirfd, const char *name, char *text, size_t size);
/* The same of a list: a word that the end of text would cut in two is left out. Half of
 * a process number is somebody else's. */
ssize_t coto_file_read_words_at(int dirfd, const char *name, char *text, size_t size);
/* `count` numbers of /proc/PID/stat from a field on, which proc(5) counts from 1; the fourth at least. The state of
 * the process ('R', 'Z', ...), or 0: there is none. */
char coto_proc_stat(long pid, int field, int count, int64_t *ret_numbers);
/* Writes text to an existing (kernel) file relative to dirfd; 0 or -1. */
int coto_file_write_at(int dirfd, const char *name, const char *text);
int coto_fd_write_value(int fd, const char *text);
/* As open(2), of what belongs to `owner`: root without CAP_DAC_OVERRIDE (a unit or a container with few capabilities)
 * may not open it, but may take on that one's id for files. Every other capability stays. */
int coto_path_open_as(const char *path, int flags, uid_t owner);
int coto_fd_set_nonblock(int fd, int on);
/* One byte and up to 64 descriptors over a UNIX socket; 0 or -1 with errno. */
int coto_fd_send(int socket, char byte, const int *fds, int count);
/* The same where nobody may wait: EAGAIN, whatever the socket is set to. */
int coto_fd_send_now(int socket, char byte, const int *fds, int count);
/* The counterpart: the byte, and how many descriptors came (at most max). */
int coto_fd_receive(int socket, char *ret_byte, int *fds, int max);
/* As recv(2), with descriptors that came along; those past max are closed. */
ssize_t coto_fd_receive_with(int socket, void *data, size_t len, int *fds, int max, int *ret_count);
/* Closes what somebody else has handed over, who may have had its closing wait (SO_LINGER). */
void coto_fd_drop(int fd);
/* openat2 with RESOLVE_BENEATH | NO_SYMLINKS | NO_MAGICLINKS: the one way to
 * open a name somebody else chose. fd, or -1 with errno. */
int coto_path_open_beneath(int dirfd, const char *path, int flags, unsigned mode);
/* Makes all parent directories of path below dirfd, never through a link. */
int coto_path_make_parents(int dirfd, const char *path, unsigned mode);
/* Changes the mode of one name in dirfd, never of what a link there points to. */
int coto_path_chmod(int dirfd, const char *name, unsigned mode);
/* Removes everything below dirfd/name and name itself, iteratively by
 * descriptor, never following links, whatever the depth. 0 or -1 with errno. */
int coto_path_remove_tree(int dirfd, const char *name);
/* No further once that time of coto_clock_us has passed. EBUSY: it becomes more and more, or is very large;
 * what is gone is gone, and another call goes on. */
int coto_path_remove_tree_until(int dirfd, const char *name, int64_t until_us);
