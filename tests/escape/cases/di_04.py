"""DI-04: fill the host's disk or the supervisor's memory through output that is stored."""
from escape.harness import escaped
from escape.lib_files import folder, room

TITLE = "output stored on the host"
TRIED = ("1 GiB on stderr and 64 MiB on stdout with --json, --report and --report-include "
         "output; the host's files and coto's memory measured")
WALLS = ["output_limit"]
FLOOD = r"""
#include <string.h>
#include <unistd.h>

int main(void)
{
    static char block[1 << 20];

    memset(block, 'x', sizeof block);
    for (int i = 0; i < 1024; i++)
        for (int fd = i % 16 ? 2 : 1; fd <= 2; fd++)
            for (size_t at = 0; at < sizeof block;) {
                ssize_t n = write(fd, block + at, sizeof block - at);
                if (n <= 0)
                    return 1;
                at += (size_t)n;
            }
    return 0;
}
"""


def flood(box, here, *flags):
    """(result, bytes in files on the host, peak of coto's memory in MiB)."""
    flags = ["--report", folder(here / "reports"), "--timeout", "60s", *flags]
    argv, env = box.command([box.c(FLOOD)], flags=["--json", *map(str, flags)])
    # GNU time's answer without GNU time: the peak of the children waited for.
    code = ("import resource, subprocess, sys\nstatus = subprocess.run(sys.argv[1:]).returncode\n"
            "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss >> 10, file=sys.stderr)\nsys.exit(status)")
    done = box.start_and_wait(["/usr/bin/python3", "-c", code, *argv], env=env, timeout=120)
    stored = sum(path.stat().st_size for path in here.rglob("*") if path.is_file())
    return done, stored, int(done.err.split()[-1])


def attack(box):
    with room() as here:
        done, stored, peak = flood(box, here)
    if stored > 1 << 20:
        escaped("WRITE", f"{stored} bytes stored on the host")
    with room() as here:
        named, kept, peak_named = flood(box, here, "--report-include", "output")
    if kept > 64 << 20 or max(peak, peak_named) > 256 or max(len(done.out), len(named.out)) > 64 << 20:
        escaped("WRITE", f"{kept} bytes stored, coto used {peak_named} MiB")
    assert b'"stderr_bytes_seen":1073741824' in done.out.replace(b" ", b""), done.out[:500]
    return (f"report of {stored >> 10} KiB, {kept >> 20} MiB when it may hold output; "
            f"coto's peak {max(peak, peak_named)} MiB")


def control(box):
    """Without --json everything passes: the flood is real."""
    argv, env = box.command([box.c(FLOOD)], flags=["-q"])
    done = box.start_and_wait(["sh", "-c", '"$@" 2>&1 >/dev/null | wc -c', "sh", *argv], env=env, timeout=120)
    assert int(done.out) == 1 << 30, done
    return "1 GiB passes when it is not stored"
