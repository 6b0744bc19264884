"""stress-ng and trinity (Debian) try to wear a machine out, in a sandbox of half the machine.

Neither is ever started outside a sandbox.
"""
import re

from cli.helpers import CPUS, ROOT, SOURCE, run_json

# Each is one process at least; together they stay below the limit of 128.
STRESSORS = ["fork", "vfork", "clone", "exec", "spawn", "pthread", "zombie", "vm", "mmap", "brk",
             "bigheap", "stack", "madvise", "memfd", "shm-sysv", "sem-sysv", "msg", "mq", "pipe",
             "sock", "udp", "sockfd", "hdd", "dentry", "dir", "link", "inotify", "flock", "iomix",
             "procfs", "dev", "sysbadaddr", "sysinval", "enosys", "resources", "rlimit", "sigq",
             "sigsegv", "timer", "itimer", "switch", "userfaultfd", "seccomp", "ptrace", "key",
             "af-alg", "bind-mount", "chroot", "unshare", "x86syscall", "opcode", "bad-altstack",
             "cap", "loop", "ramfs", "quota", "set", "personality", "sync-file", "yield"]
# Without root no memory limit holds for the whole tree: these would eat the host's, as documented.
HUNGRY = {"vm", "bigheap", "mmap", "memfd", "shm-sysv", "stack", "madvise", "brk", "resources",
          "sockfd", "hdd", "userfaultfd", "pthread"}
CPUS_GIVEN = max(1, CPUS // 2)
MEMORY_BYTES = 1 << 30
PIDS = 128 if ROOT else 64
LIMITS = ["--memory", MEMORY_BYTES if ROOT else "256m", "--cpus", CPUS_GIVEN, "--pids", PIDS]


def stress_ng(seconds, *arguments):
    """The result of stress-ng; it may well fail inside, or be ended by a limit."""
    return run_json(*LIMITS, "--timeout", f"{seconds + 20}s", "--", "stress-ng", "--temp-path",
                    "/workspace", "--oomable", *arguments, timeout=seconds + 90)


def many_stressors(seconds):
    """All of the list at once, one instance of each."""
    chosen = [name for name in STRESSORS if ROOT or name not in HUNGRY]
    flags = [word for name in chosen for word in (f"--{name}", "1")]
    return stress_ng(seconds, *flags, "--timeout", f"{seconds}s")


def dispatched(result):
    """Stressors that were started, from its own words."""
    found = re.search(r"dispatching hogs: (.*)", result["stdout"] + result["stderr"])
    return re.findall(r"\d+ ([\w-]+)", found[1]) if found else []


def trinity(seconds, calls):
    """Random system calls with random arguments; ends by itself or at the time limit.

    perf descriptors: it asks for them until it gets one. Sockets: it crashes without any.
    """
    script = ("mkdir victim && cp /etc/passwd victim && exec trinity -q -l off -a64 -V victim -C 4 "
              f"-N {calls} --stats --disable-fds=perf --disable-fds=drm --disable-fds=sockets")
    return run_json(*LIMITS, "--timeout", f"{seconds}s", "--", "sh", "-c", script,
                    timeout=seconds + 60)


def calls_done(text):
    """system call -> (attempted, successes), from trinity's closing words. In its table two calls have each
    other's number (strace shows it)."""
    rows = re.findall(r"^(\w+): \(attempted:(\d+)\. success:(\d+)\.", text, re.M)
    swapped = {"seccomp": "getrandom", "getrandom": "seccomp"}
    return {swapped.get(name, name): (int(attempted), int(successes)) for name, attempted, successes in rows}


def forbidden_calls():
    """Names the published table refuses in the default tier, sync apart, which says it is done."""
    table = (SOURCE / "docs/SYSCALLS.md").read_text()
    rows = re.findall(r"^\| (\w+) \| \d+ \| \S+ \| - \| \S+ \| (.*?) \|", table, re.M)
    return {name for name, answer in rows if not answer.startswith("0")}



def broken_limits(result):
    """Limits that were up and did not hold, as measured on the host."""
    broken, up = [], lambda name: name not in result["missing_walls"]
    if (result["pids_peak"] or 0) > PIDS:
        broken.append(f"{result['pids_peak']} processes")
    # The kernel's high-water mark may be a few pages above what it allowed.
    if up("memory") and result["memory_peak_bytes"] > 1.01 * MEMORY_BYTES:
        broken.append(f"{result['memory_peak_bytes']} bytes of memory")
    used = sum(result["cpu_ms"].values()) / result["duration_ms"]
    if up("cpus") and used > 1.25 * CPUS_GIVEN:
        broken.append(f"{used:.2f} CPUs")
    return broken
