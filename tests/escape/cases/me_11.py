"""ME-11: allocate before the limit is in force, in the moment between birth and cgroup."""
from escape.harness import escaped
from escape.lib_hogs import need_limit

TITLE = "memory before the cgroup"
TRIED = ("a static program whose first act is 64 MiB, and forty forks at once, twenty times each"
         " with 16 MiB and 8 processes allowed")
WALLS = ["memory", "pids"]
FIRST = r"""
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

/* Before main, before the C library's own start is through. */
__attribute__((constructor(101))) static void first(void)
{
    size_t size = (size_t)64 << 20;
    char *area = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    memset(area, 1, size);
}

int main(void)
{
    return write(1, "held", 4) != 4;
}
"""
FORKS = r"""
#include <stdio.h>
#include <unistd.h>

int main(void)
{
    int made = 0;

    for (int i = 0; i < 40; i++) {
        pid_t pid = fork();
        if (pid == 0)
            return pause();
        made += pid > 0;
    }
    printf("%d", made);
    return 0;
}
"""


def has_guest(box):
    return box.level and box.level.guest_kernel


def flags(box):
    """Twice as much where a kernel of the level's own has to start within it."""
    return ["--memory", "32m" if has_guest(box) else "16m", "--pids", "8"]


def attack(box):
    need_limit(box, "memory")
    for _ in range(20):
        result = box.run([box.c(FIRST)], flags=flags(box))
        if result.verdict != "oom" or b"held" in result.out:
            escaped("CRASH", f"64 MiB held: {result}")
    if has_guest(box):  # which has no such limit: `pids` is in missing_walls
        return "oom 20 of 20 times"
    for _ in range(20):
        result = box.run([box.c(FORKS)], flags=flags(box))
        if int(result.text or 0) > 7:
            escaped("CRASH", f"{result.text} processes beside the first")
    return "oom 20 of 20 times; never more than 8 processes"


def control(box):
    result = box.run([box.c(FIRST)], flags=flags(box), without=["cgroup"])
    forks = box.run([box.c(FORKS)], flags=flags(box), without=["cgroup", "rlimits"])
    assert result.out == b"held" and forks.text == "40", (result, forks)
    return "64 MiB held and 40 processes without the cgroup"
