"""PS-02: kernel memory, keys, addresses and hardware details that help an exploit."""
import os

from escape.harness import HERE, Untestable, escaped
from escape.lib_calls import answers, row
from escape.lib_files import attempts, counted

TITLE = "kernel secrets in /proc, /sys, syslog(2)"
TRIED = ("22 files read: kcore, keys, kmsg, timer_list, kallsyms, interrupts, slab, page maps, dmi, powercap; "
         "syslog(2); iomem's addresses")
WALLS = ["mount_namespace", "user_namespace", "seccomp"]
FILES = ["/proc/kcore", "/proc/keys", "/proc/key-users", "/proc/kmsg", "/proc/timer_list", "/proc/kallsyms",
         "/proc/interrupts", "/proc/slabinfo", "/proc/vmallocinfo", "/proc/pagetypeinfo", "/proc/kpagecount",
         "/proc/kpageflags", "/proc/kpagecgroup", "/proc/sched_debug", "/proc/mtrr", "/dev/kmsg", "/dev/mem",
         "/sys/class/dmi/id/product_uuid", "/sys/class/powercap", "/sys/firmware/acpi/tables", "/sys/kernel/notes",
         "/sys/kernel/slab"]
READ = {path: f"attempt(lambda: os.read(os.open({path!r}, os.O_NONBLOCK), 1))" for path in FILES}
READ |= {path: f"attempt(os.listdir, {path!r})" for path in FILES if path.endswith(("powercap", "tables", "slab"))}
# Addresses of memory and devices are all zero without privilege.
MAPS = {path: f"sorted({{line.split()[0] for line in open({path!r})}})[-1][:8]"
        for path in ("/proc/iomem", "/proc/ioports")}
SYSLOG = [row("read_all", 103, 3, "b:4096", 4096), row("size", 103, 10, 0, 0), row("unread", 103, 9, 0, 0),
          row("clear", 103, 5, 0, 0)]


def attack(box):
    found = attempts(box, READ)
    done = sorted(path for path, word in found.items() if word == "done")
    if done:
        escaped("READ", ", ".join(done))
    maps = attempts(box, MAPS)
    if any(set(word) - set("0-") for word in maps.values()):
        escaped("READ", f"addresses in {maps}")
    log = answers(box, SYSLOG)
    if set(log.values()) != {"EPERM"}:
        escaped("READ", f"syslog(2): {log}")
    return f"{counted(found.values())}; addresses are zero; syslog EPERM"


def control(box):
    """Without masks; and, for the host's root alone, at the level that has no walls of these kinds."""
    found = attempts(box, READ, without=["proc_masks", "landlock", "mount_namespace", "uid"])
    done = [path for path, word in found.items() if word == "done"]
    assert {"/proc/keys", "/proc/kallsyms", "/proc/interrupts"} <= set(done), found
    bare = ["--isolation", "subprocess"]
    log = box.run(["env", box.c(HERE / "calls.c")], flags=bare, stdin=("\n".join(SYSLOG[:3]) + "\n").encode()).text
    maps = attempts(box, MAPS, flags=bare)
    if os.geteuid() != 0 or box.situation == "userns":
        raise Untestable(f"{len(done)} files read, but of the kernel's messages (syslog(2): {log.splitlines()[0]}) and "
                         f"addresses (iomem: {maps['/proc/iomem']}) this kernel tells the host's root alone")
    assert [line.split()[1] for line in log.splitlines()] == ["ok"] * 3, log
    assert all(set(word) - set("0-") for word in maps.values()), maps
    return f"{len(done)} read, kallsyms, keys and interrupts among them; syslog(2) and iomem's addresses with root"
