"""PS-01: files of the kernel that run a program or change the host when written."""
from escape.lib_files import all_refused, attempts

TITLE = "kernel switches in /proc and /sys"
TRIED = ("25 files opened for writing: core_pattern, modprobe, sysrq-trigger, uevent_helper, binfmt_misc, "
         "release_agent, own process's")
WALLS = ["mount_namespace", "user_namespace", "uid", "landlock"]
KERNEL = ["/proc/sys/kernel/core_pattern", "/proc/sys/kernel/modprobe", "/proc/sysrq-trigger",
          "/proc/sys/kernel/hostname", "/proc/sys/kernel/randomize_va_space", "/proc/sys/vm/overcommit_memory",
          "/proc/sys/user/max_user_namespaces", "/proc/sys/net/ipv4/ip_forward", "/proc/sys/fs/binfmt_misc/register",
          "/proc/sys/fs/suid_dumpable", "/proc/irq/default_smp_affinity", "/proc/mtrr", "/proc/pressure/memory",
          "/proc/acpi/wakeup", "/sys/kernel/uevent_helper", "/sys/kernel/mm/transparent_hugepage/enabled",
          "/sys/fs/cgroup/release_agent", "/sys/fs/cgroup/memory/release_agent", "/sys/fs/cgroup/cgroup.procs",
          "/sys/power/state"]
OWN = ["/proc/self/oom_score_adj", "/proc/self/timerslack_ns", "/proc/self/coredump_filter", "/proc/self/mem",
       "/proc/self/uid_map", "/proc/1/oom_score_adj"]


def opens(paths):
    return {path: f"attempt(os.open, {path!r}, os.O_WRONLY)" for path in paths}


def attack(box):
    return all_refused(attempts(box, opens(KERNEL + OWN)), "WRITE")


def control(box):
    """Only opened, never written."""
    own = attempts(box, opens(OWN[:3]), without=["proc_masks", "landlock", "root_read_only"])
    assert set(own.values()) == {"done"}, own
    if box.situation in ("user", "userns"):
        return "3 of its own process opened; the kernel's switches are open to the host's root only"
    left_out = ["proc_masks", "landlock", "uid", "root_read_only", "mount_namespace"]
    found = attempts(box, opens(KERNEL), without=left_out)
    opened = [path for path, word in found.items() if word == "done"]
    assert "/proc/sys/kernel/core_pattern" in opened, found
    return f"{len(opened) + 3} opened for writing, core_pattern among them"
