/* Mounts by descriptor (the mount API of Linux 5.12 and later). A mount is made
 * detached, given its flags, and only then attached; targets are opened
 * below a directory handle and never through a link. Where the caller made the target
 * itself the older, shorter way does the same with fewer system calls. */
#pragma once

#include "base/err.h"

#include <stdbool.h>
#include <stdint.h>

/* Spelled here because C library headers may be older than the kernel. */
#define COTO_ATTR_RDONLY 0x01
#define COTO_ATTR_NOSUID 0x02
#define COTO_ATTR_NODEV 0x04
#define COTO_ATTR_NOEXEC 0x08

struct coto_mount_option {
    const char *key;
    const char *value; /* NULL: a flag */
};

/* A new detached mount of a file system type; fd or -1. Options end with a NULL key. */
int coto_mount_new(const char *type, const struct coto_mount_option *options, unsigned attrs,
                   struct coto_err *err);
/* A detached copy of what is at dirfd/path ("" for dirfd itself); fd or -1. */
int coto_mount_clone(int dirfd, const char *path, bool recursive, struct coto_err *err);
/* Adds attributes to a mount (and all below it when recursive). */
int coto_mount_set(int mount_fd, unsigned attrs, bool recursive, struct coto_err *err);
/* The same for what is mounted at path, which the caller made itself. */
int coto_mount_set_at(const char *path, unsigned attrs, struct coto_err *err);
/* All mounts from here down get attrs, and become deaf to the host's mounts. The first one,
 * root_fd itself, stays writable for now. */
int coto_mount_seal(int root_fd, unsigned attrs, struct coto_err *err);
/* Attaches at dirfd/path, which is resolved beneath dirfd without links; ""
 * attaches at dirfd itself. */
int coto_mount_attach(int mount_fd, int dirfd, const char *path, struct coto_err *err);
/* The same where the caller made every component of path itself: no check. */
int coto_mount_attach_own(int mount_fd, int dirfd, const char *path, struct coto_err *err);
/* In one system call each, at a path (relative to the working directory) whose every
 * component the caller made itself: a new file system; a copy of what is at source,
 * links followed. */
int coto_mount_on(const char *type, const char *path, unsigned attrs, const char *options,
                  struct coto_err *err);
int coto_mount_bind(const char *source, const char *path, struct coto_err *err);
/* Makes root_fd (an attached mount's root) the root. The old one lies on top of it and
 * must be taken away with coto_mount_drop_old: it is slow, so another thread may do it. The
 * working directory is where it is until then. */
int coto_mount_pivot(int root_fd, struct coto_err *err);
int coto_mount_drop_old(void); /* 0, or an errno value */
