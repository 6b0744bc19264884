"""OU-01: drown the supervisor in output."""
import subprocess

from cli.helpers import environment
from escape.harness import escaped
from escape.lib_peak import ROOM, Peak

TITLE = "a gigabyte of output"
TRIED = ("1 GiB on stdout and 256 MiB on stderr with --json and --output-limit, and with no limit into a "
         "reader that drops it")
WALLS = ["output_limit"]
FLOOD = r"""
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
static char block[1 << 16];
static void flood(int fd, long mebibytes)
{
    for (long i = 0; i < mebibytes * 16; i++)
        for (long at = 0, n; at < (long)sizeof block; at += n)
            if ((n = write(fd, block + at, sizeof block - at)) <= 0)
                _exit(3);
}
int main(int argc, char **argv)
{
    memset(block, 'x', sizeof block);
    if (fork() == 0) {
        flood(2, atol(argv[2]));
        _exit(0);
    }
    flood(1, atol(argv[1]));
    wait(0);
    return 7;
}
"""
OUT, ERR = 1024, 256
MEMORY = 48 << 20  # of the supervisor: its 10 MiB of each stream, as JSON, and itself


def measured(argv, env, **more):
    """Exit status, output and peak memory of the supervisor."""
    process = subprocess.Popen(argv, env=environment(env), stdin=subprocess.DEVNULL, **more)
    watch = Peak(process.pid)
    out = process.communicate(timeout=60)[0] or b""
    return process.returncode, out, watch.stop()


def attack(box):
    program, told = [box.c(FLOOD), str(OUT), str(ERR)], []
    done = box.run(program, flags=["--output-limit", "100k", "--timeout", "50s"])
    seen = done.json["stdout_bytes_seen"], done.json["stderr_bytes_seen"]
    if seen != (OUT << 20, ERR << 20) or len(done.out) != 100 << 10 or not done.json["stdout_truncated"]:
        escaped("CRASH", f"seen {seen}, kept {len(done.out)}")
    for flags in (["--json"], ["--quiet"]):
        argv, env = box.command(program, flags=[*flags, "--timeout", "50s"])
        keep = subprocess.PIPE if flags == ["--json"] else subprocess.DEVNULL
        status, out, peak = measured(argv, env, stdout=keep, stderr=subprocess.DEVNULL)
        if status != 7 or peak > MEMORY * ROOM or len(out) > 24 << 20:
            escaped("CRASH", f"{flags}: status {status}, {peak >> 20} MiB of memory, {len(out)} bytes")
        told.append(f"{flags[0]} {peak >> 20} MiB")
    return f"counted {OUT + ERR} MiB, kept 100 KiB; supervisor's peak: {', '.join(told)}"


def control(box):
    done = box.plain([box.c(FLOOD), "32", "0"], flags=["--output-limit", "100k", "--quiet"], without=["output_limit"])
    assert (done.status, len(done.out)) == (7, 32 << 20), (done.status, len(done.out))
    cut = box.plain([box.c(FLOOD), "32", "0"], flags=["--output-limit", "100k", "--quiet"])
    assert len(cut.out) == 100 << 10, len(cut.out)
    return "all 32 MiB arrive past a limit of 100 KiB"
