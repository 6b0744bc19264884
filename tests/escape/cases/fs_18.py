"""FS-18: markers of an overlay in a tree that is copied in, to hide files below or to show them again.

coto joins layers by itself, file by file, and mounts no overlay: what the layers of an image may hide is in
tests/image/test_import.py. Here a tree is copied in with --copy."""
import os
import stat

from escape.harness import Untestable, escaped
from escape.lib_files import file, folder, room

TITLE = "whiteouts and overlay markers in a copied tree"
TRIED = "a device 0:0, .wh. names, user.overlay attributes over a tree copied before; a nested overlay inside"
WALLS = ["mount_namespace", "seccomp"]

LOOK = """
import json, os, stat
found = {}
for top, dirs, files in os.walk("t"):
    for name in dirs + files:
        path = os.path.join(top, name)
        mode = os.lstat(path).st_mode
        kind = "file" if stat.S_ISREG(mode) else "dir" if stat.S_ISDIR(mode) else "link" if stat.S_ISLNK(mode) else "odd"
        found[os.path.relpath(path, "t")] = [kind, [x for x in os.listxattr(path, follow_symlinks=False)]]
print(json.dumps(found))
"""
# A program that may mount joins the two trees itself: there the markers work.
OVERLAY = r"""
#define _GNU_SOURCE
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>
#include <fcntl.h>
int main(void)
{
    mkdir("lower", 0755); mkdir("upper", 0755); mkdir("w", 0755); mkdir("m", 0755);
    close(open("lower/keep", O_CREAT | O_WRONLY, 0644));
    int made = mknod("upper/keep", S_IFCHR | 0644, makedev(0, 0)) ? errno : 0;
    int own = unshare(CLONE_NEWUSER | CLONE_NEWNS) ? errno : 0;
    int mounted = mount("o", "m", "overlay", 0, "lowerdir=upper:lower,userxattr") ? errno : 0;
    printf("{\"whiteout\": %d, \"unshare\": %d, \"mount\": %d, \"hidden\": %s}\n", made, own, mounted,
           !mounted && access("m/keep", F_OK) ? "true" : "false");
    return 0;
}
"""


def trees(here):
    lower, upper = folder(here / "lower"), folder(here / "upper")
    for name in ("keep", "other", "marked"):
        file(lower / name, "lower")
    folder(lower / "d")
    file(lower / "d/inner", "lower")
    folder(upper / "d")
    file(upper / ".wh.other", "")
    file(upper / ".wh..wh..opq", "")
    file(upper / "marked", "upper")
    try:
        os.mknod(upper / "keep", stat.S_IFCHR | 0o666, os.makedev(0, 0))
    except PermissionError as reason:
        raise Untestable(f"no whiteout can be made here: {reason}") from None
    for name, value in ((upper / "d", "opaque"), (upper / "marked", "whiteout"), (upper / "marked", "redirect")):
        try:
            os.setxattr(name, f"user.overlay.{value}", b"y")
        except OSError:
            pass  # this file system has no attributes; the markers by name and by device remain
    return lower, upper


def attack(box):
    with room() as here:
        lower, upper = trees(here)
        found = box.inside(LOOK, flags=["--copy", f"{lower}:t", "--copy", f"{upper}:t"])
    missing = {"keep", "other", "marked", "d/inner"} - set(found)
    if missing:
        escaped("WRITE", f"hidden: {sorted(missing)}")
    marked = {name: row for name, row in found.items() if row[0] == "odd" or row[1]}
    if marked:
        escaped("WRITE", f"markers came along: {marked}")
    nested = box.run([box.c(OVERLAY)]).told()
    if not nested["whiteout"] or not nested["mount"]:
        escaped("ESCAPE", f"an overlay inside: {nested}")
    return f"{len(found)} plain files, nothing hidden; inside: no whiteout, no overlay"


def control(box):
    nested = box.run([box.c(OVERLAY)], without=["seccomp", "landlock"]).told()
    if nested["unshare"]:
        raise Untestable("no nested user namespace on this host")
    assert nested["hidden"] is True, nested
    return "a whiteout hid a file of the layer below"
