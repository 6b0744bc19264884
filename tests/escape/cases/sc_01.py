"""SC-01: calls that no sandboxed program needs, with arguments that do no harm."""
from escape.lib_calls import answers, expect, numbers, reached, row, summary, table

TITLE = "must-deny system calls"
TRIED = "79 calls with pointers and descriptors of -1: mounts, modules, keys, tracing, handles, clocks, NUMA"
WALLS = ["seccomp"]
NAMES = """
unshare setns mount umount2 pivot_root chroot fsopen fsconfig fsmount fspick open_tree move_mount mount_setattr
init_module finit_module delete_module kexec_load kexec_file_load reboot swapon swapoff acct quotactl quotactl_fd
syslog iopl ioperm vhangup sethostname setdomainname add_key request_key keyctl
ptrace process_vm_readv process_vm_writev process_madvise process_mrelease kcmp pidfd_getfd perf_event_open bpf
userfaultfd io_uring_setup io_uring_enter io_uring_register open_by_handle_at name_to_handle_at
settimeofday clock_settime adjtimex clock_adjtime
mbind set_mempolicy get_mempolicy migrate_pages move_pages set_mempolicy_home_node
modify_ldt uselib ustat sysfs lookup_dcookie nfsservctl remap_file_pages
fanotify_init fanotify_mark memfd_secret vmsplice mq_open mq_unlink
clone3 statmount listmount io_setup io_submit lsm_list_modules open_tree_attr file_setattr
""".split()
NUMBER = numbers()
ROWS = [row(name, NUMBER[name], *[-1] * 6) for name in NAMES]
WORD = {name: word for name, _, word in table().values() if name in NAMES}


def attack(box):
    found = answers(box, ROWS)
    expect(found, {name: {"EPERM", "ENOSYS"} for name in NAMES})
    expect(found, WORD)
    return summary(found)


def control(box):
    return reached(box, ROWS, WORD, least=40, without=["seccomp", "capabilities"])
