"""Why a test of CPython ends differently inside: a row per kind of difference, the first match counts.

(tests, what it says, walls, why). Tests and words are patterns of fnmatch; walls are names of
src/schema/walls.h.
"""
import fnmatch

READ_ONLY = "OSError: ?Errno 30? Read-only file system: '/usr/lib/python3*"
OWN_ID = ("Only the sandbox's own uid and gid exist inside: another is EINVAL, "
          "where the test expects EPERM.")

ROWS = [
    ("*", READ_ONLY, "root_read_only",
     "The test removes files of its own (mostly compiled ones) from directories of the library, "
     "whether they are there or not. On a read-only file system the kernel answers EROFS before it "
     "looks for the name; outside it says ENOENT."),
    ("*", "*No such file or directory: '/usr/lib/python3*/sitecustomize.py'", "mount_namespace",
     "Debian's sitecustomize.py is a link to /etc/python3.11, which is not shown inside. "
     "Python itself does without it."),
    ("test_spwd.*", "*No such file or directory*", "mount_namespace",
     "There is no /etc/shadow inside; outside it is there and cannot be read."),
    ("test_os.ChownFileTests.test_chown_without_permission", "*Invalid argument*",
     "user_namespace", OWN_ID),
    ("test_subprocess.POSIXProcessTestCase.test_[gu]*", "*Invalid argument*",
     "user_namespace", OWN_ID),
    ("test_os.ExtendedAttributeTests.*", "*extended attribute support*", "seccomp",
     "Extended attributes cannot be set: setxattr answers EOPNOTSUPP, as on many file systems."),
    ("test_fcntl.TestFcntl.test_fcntl_64_bit", "*Operation not permitted*", "seccomp",
     "fcntl refuses F_NOTIFY, the old way to watch a directory; inotify works."),
    ("test_posix.PosixTester.test_sched_setaffinity", "*Operation not permitted*", "seccomp",
     "A program cannot choose its CPUs: sched_setaffinity is EPERM, so that the caller's pinning holds."),
    ("test_socket.GeneralModuleTests.*", "*Address family not supported by protocol*", "seccomp",
     "Interfaces cannot be listed: there is no netlink, because memory that its sockets hold is in no limit."),
    ("test_uuid.*", "requires i*", "net_namespace",
     "The only interface inside is a loopback, which has no hardware address to make a UUID of."),
    ("test_subprocess.*.test_no_leaking", "*", "nofile",
     "The test is run only where descriptors run out soon: inside there are 1024 per process."),
    ("test_venv.*.test_zippath_from_non_installed_posix", "*No space left on device*", "disk",
     "The test copies the whole library to /tmp, which has 64 MB; with `--tmp-size 1g` it passes."),
    ("test_compile", "*", "memory",
     "It needs 680 MB; the default limit is 512 MB. With `--memory 8g` it passes."),
]


def explain(name, why):
    """(walls, explanation) of a difference; empty words when there is none."""
    for tests, words, walls, text in ROWS:
        if fnmatch.fnmatchcase(name, tests) and fnmatch.fnmatchcase(why, words):
            return walls, text
    return "", ""


def rows(module, differences):
    """(outside, inside, walls, explanation) -> tests. That a module fails because a test of it
    does needs no row of its own."""
    found = {}
    for name, (before, after, why) in differences.items():
        if name or len(differences) == 1 or after not in ("passed", "failed"):
            found.setdefault((before, after, *explain(name or module, why)), set()).add(name)
    return found
