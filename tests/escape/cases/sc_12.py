"""SC-12: a filter of one's own that answers 'done' to whoever runs after it."""
import json
import pathlib

from cli.helpers import status_of
from escape.harness import escaped

TITLE = "own filter that fakes answers"
TRIED = ("the program filters setresuid, capset, landlock, kill, unlink, getdents and openat to 'success' and "
         "leaves files and a child")
WALLS = ["seccomp", "pid_namespace"]
DEBUG = ["--seccomp", "debug"]  # the other tiers load no filter (SC-19)
# fake PROGRAM...: runs it behind a filter that answers 0 to what a launcher or collector calls.
FAKE = r"""
#define _GNU_SOURCE
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#define LIE(number) \
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 1), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO)

int main(int argc, char **argv)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        LIE(SYS_setresuid), LIE(SYS_setresgid), LIE(SYS_setgroups), LIE(SYS_capset), LIE(SYS_setuid),
        LIE(SYS_landlock_restrict_self), LIE(SYS_kill), LIE(SYS_unlinkat), LIE(SYS_unlink),
        LIE(SYS_getdents64), LIE(SYS_openat2), LIE(SYS_close_range), LIE(SYS_setrlimit), LIE(SYS_umount2),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof code / sizeof code[0], code};

    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program))
        return 2;
    if (argc > 1)
        execvp(argv[1], argv + 1);
    /* What a launcher does and believes. */
    if (setresuid(4242, 4242, 4242))
        return 3;
    printf("dropped to 4242, is %d\n", getuid());
    return 0;
}
"""
GUEST = ("echo kept > output/a; mkdir output/d; echo deep > output/d/b; setsid sleep 60 & "
         "echo ready; read line; exit 7")


def attack(box):
    out = box.folder / "out"
    fake = box.c(FAKE)
    name = pathlib.Path(fake).name
    with box.running([fake], args=["sh", "-c", GUEST], flags=[*DEBUG, "--artifacts", out]) as it:
        filters = {who: int(status_of(pid).get("Seccomp_filters", -1))
                   for who, pid in (("init", it.init()), ("program", it.program()))}
        it.say("\n")
        done = it.end()
    if filters["init"] >= filters["program"]:
        escaped("ESCAPE", f"init runs behind the guest's filter: {filters}")
    assert done.status == 7, done
    left = box.host.survivors()
    if left:
        escaped("ESCAPE", f"processes outlived their run: {left}")
    found = {str(path.relative_to(out)): path.read_text() for path in out.rglob("*") if path.is_file()}
    if found != {"a": "kept\n", "d/b": "deep\n"}:
        escaped("WRITE", f"artifacts of {name}: {json.dumps(found)}")
    return f"filters on init {filters['init']}, on the program {filters['program']}; artifacts and ends right"


def control(box):
    """A helper that is started after the filter believes it."""
    done = box.run([box.c(FAKE)], flags=DEBUG)
    assert done.code == 0 and done.text.startswith("dropped to 4242, is ") and not done.text.endswith("4242"), done
    return f"a helper started behind it: {done.text}"
