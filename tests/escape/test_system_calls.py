"""SC, NE, TY and parts of NS, FS: what the filter answers, row by row.

One program (probe.c) runs twice: in a sandbox, and at level `subprocess`, which has
no filter. The second run is the control: there every row must end differently.
"""
import errno
import pathlib
import platform
import shutil
import subprocess

import pytest

from cli.helpers import ROOT, ok, run

pytestmark = pytest.mark.skipif(platform.machine() != "x86_64" or not shutil.which("gcc"),
                                reason="the probe is for x86-64 and needs gcc")
E, N, A = errno.EPERM, errno.ENOSYS, errno.EAFNOSUPPORT
KILLED = "killed 31"
# name -> (catalogue id, answer)
ROWS = {
    "unshare": ("NS-01", E), "setns": ("NS-01", E), "chroot": ("NS-01", E), "pivot_root": ("NS-01", E),
    "clone_newuser": ("SC-07", E), "clone_newuser_high": ("SC-08", E), "clone3": ("SC-07", N),
    "mount": ("FS-06", E), "umount2": ("FS-07", E), "open_tree": ("FS-06", E),
    "move_mount": ("FS-07", E), "fsopen": ("FS-06", E), "fsconfig": ("FS-06", E),
    "fsmount": ("FS-06", E), "fspick": ("FS-06", E), "mount_setattr": ("FS-06", E),
    "setgroups": ("NS-02", E),
    "io_uring_setup": ("SC-05", E), "io_uring_enter": ("SC-05", E), "bpf": ("SC-10", E),
    "perf_event_open": ("SC-10", E), "userfaultfd": ("SC-10", E), "keyctl": ("SC-09", E),
    "add_key": ("SC-09", E), "request_key": ("SC-09", E), "ptrace": ("SC-06", E),
    "process_vm_readv": ("SC-06", E), "process_vm_writev": ("SC-06", E), "pidfd_getfd": ("FD-04", E),
    "kcmp": ("SC-01", E), "process_madvise": ("SC-01", E), "open_by_handle_at": ("FS-12", E),
    "name_to_handle_at": ("FS-12", E), "personality": ("SC-17", E), "personality_high": ("SC-17", E),
    "modify_ldt": ("SC-18", E), "iopl": ("SC-18", E), "syslog": ("PS-02", E),
    "fanotify_init": ("XS-11", E), "memfd_secret": ("ME-04", E), "vmsplice": ("SC-01", E),
    "mq_open": ("XS-02", E), "statmount": ("PS-10", N), "listmount": ("PS-10", N),
    "cachestat": ("XS-10", N), "io_setup": ("SC-01", N), "sched_setattr": ("CP-02", E),
    "prlimit_init": ("LI-01", E), "prlimit_init_high": ("LI-01", E), "prctl_mm": ("SC-01", E),
    "prctl_ptracer_high": ("SC-08", E), "setlease": ("XS-06", E), "number_600": ("SC-14", N),
    "sync": ("SC-16", 0),
    "af_alg": ("NE-01", A), "af_alg_high": ("SC-08", A), "af_vsock": ("XS-04", A),
    "af_packet": ("NE-01", A), "af_key": ("NE-01", A), "af_rxrpc": ("NE-01", A),
    "af_xdp": ("NE-01", A), "af_tipc": ("NE-01", A), "af_can": ("NE-01", A),
    "af_bluetooth": ("NE-01", A), "raw_ip": ("NE-02", A), "icmp": ("NE-02", A), "sctp": ("NE-02", A),
    "mptcp": ("NE-02", A), "udplite": ("NE-02", A), "netlink_audit": ("NE-03", A),
    "netlink_xfrm": ("NE-03", A), "netlink_nf": ("NE-03", A), "netlink_diag": ("NE-03", A),
    "netlink_uevent": ("NE-03", A), "inet_high": ("SC-08", A),
    "tiocsti": ("TY-01", E), "tiocsti_high": ("TY-01", E), "tioclinux_high": ("TY-01", E),
    "tiocsetd": ("TY-01", E), "setflags": ("FS-17", E), "mknod_char": ("FS-05", E),
    "mknod_block": ("FS-05", E), "mknod_high": ("FS-05", E),
    "int80_getpid": ("SC-02", KILLED), "int80_socketcall": ("SC-03", KILLED),
    "x32_getpid": ("SC-04", KILLED), "x32_execve": ("SC-04", KILLED),
}
ALLOWED = {"netlink_route": 0, "inet": 0, "unix": 0, "mknod_fifo": errno.ENOENT}
# An ordinary user hears EPERM from the kernel itself.
ROOT_ONLY = {"pivot_root", "fsopen", "fspick", "mount_setattr", "umount2", "move_mount", "fsmount",
             "fsconfig", "setgroups", "bpf", "perf_event_open", "open_by_handle_at", "process_vm_readv",
             "process_vm_writev", "chroot", "iopl", "syslog", "fanotify_init", "mknod_char",
             "mknod_block", "mknod_high", "prlimit_init", "prlimit_init_high", "mount", "open_tree", "ptrace"}
# Depends on what this kernel was built with: nothing to learn without the filter.
UNSURE = {"clone_newuser_high", "clone3", "number_600", "x32_getpid", "x32_execve", "af_alg", "af_vsock",
          "af_key", "af_rxrpc", "af_xdp", "af_tipc", "af_can", "af_bluetooth", "af_alg_high", "sctp",
          "udplite", "netlink_audit", "netlink_xfrm", "netlink_nf", "netlink_diag", "icmp", "raw_ip",
          "af_packet", "io_uring_setup", "io_uring_enter", "userfaultfd", "kcmp", "memfd_secret",
          "modify_ldt", "mq_open", "listmount", "statmount", "personality_high", "int80_getpid",
          "int80_socketcall", "mptcp", "process_madvise", "cachestat", "io_setup",
          "prctl_mm"}


@pytest.fixture(scope="module")
def answers(tmp_path_factory):
    """'in' and 'out': name -> 'killed N' or errno."""
    folder = tmp_path_factory.mktemp("probe")
    program = folder / "probe"
    source = pathlib.Path(__file__).with_name("probe.c")
    subprocess.run(["gcc", "-O1", "-w", "-static", "-o", program, source], check=True, timeout=60)
    program.chmod(0o755)
    found = {}
    for where, level in (("in", "process"), ("out", "subprocess")):
        text = ok(run("--isolation", level, program)).decode()
        rows = [line.split(" ", 1) for line in text.splitlines()]
        found[where] = {name: rest if rest.startswith("killed") else int(rest.split()[1])
                        for name, rest in rows}
    return found


@pytest.mark.parametrize("name", ROWS, ids=lambda name: f"{ROWS[name][0]}-{name}")
def test_refused(answers, name):
    assert answers["in"][name] == ROWS[name][1]


@pytest.mark.parametrize("name", sorted(set(ROWS) - UNSURE - (set() if ROOT else ROOT_ONLY)))
def test_control(answers, name):
    """Without the filter the same call ends in another way."""
    assert answers["out"][name] != ROWS[name][1]


def test_most_doors_open_without_the_filter(answers):
    """The rows that depend on the kernel are not all closed by it: the probe works."""
    assert sum(answers["out"][name] != ROWS[name][1] for name in UNSURE) >= 5


@pytest.mark.parametrize("name", ALLOWED)
def test_ordinary_calls_work(answers, name):
    assert answers["in"][name] == ALLOWED[name]
