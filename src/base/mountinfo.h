/* What is mounted, as /proc/PID/mountinfo tells it: one line each,
 * "36 35 98:0 /root /point ro,noatime ... - ext4 /dev/sda rw". */
#pragma once

#include <stdbool.h>

struct coto_mount {
    int id;
    const char *dev;     /* "98:0" */
    const char *root;    /* of the file system, what is mounted */
    const char *point;   /* where */
    const char *options; /* of the mount: "ro,noatime" */
};

/* The next mount; the text is taken apart in place and has to outlive what is returned. Lines that are
 * none are passed over; false at the end. */
bool coto_mountinfo_next(char **cursor, struct coto_mount *ret);

bool coto_mount_is_read_only(const struct coto_mount *mount);
